//! The session's own folders, such as that of its plans, may be written even below a protected one.

use gimlet_policy::{Decision, DecisionContext, NeedFacts, ProposedCall, RuleSet, Verdict, VerdictReason, decide};
use gimlet_proto::{AccessNeed, PermissionMode};

use crate::fixtures::{rules, test_context};

fn decide_write(path: &str, resolved: &str, rules: &RuleSet, mode: PermissionMode) -> Decision {
    let world = DecisionContext { session_dirs: vec!["/home/dev/.claude/plans".into()], ..test_context(mode) };
    let needs = [NeedFacts { need: AccessNeed::Write(path.into()), resolved: Some(resolved.into()), hops: vec![] }];
    decide(
        &ProposedCall { tool: "Write", also_named: &[], input: None, needs: &needs, needs_person: false },
        rules,
        &world,
    )
    .decision
}

#[test]
fn own_files_are_written_without_a_question_in_every_mode() {
    let plan = "/home/dev/.claude/plans/a.md";
    for mode in PermissionMode::ALL {
        assert_eq!(decide_write(plan, plan, &RuleSet::default(), mode), Decision::Allow, "{mode}");
    }
}

#[test]
fn paths_around_session_files_stay_protected() {
    let none = RuleSet::default();
    for path in ["/home/dev/.claude/settings.json", "/home/dev/.claude/plans/.git/config", "/home/dev/.claude/plans2/a"]
    {
        assert_eq!(decide_write(path, path, &none, PermissionMode::AcceptEdits), Decision::Ask, "{path}");
    }
    let plan = "/home/dev/.claude/plans/a.md";
    assert_eq!(
        decide_write(plan, "/home/dev/.bashrc", &none, PermissionMode::AcceptEdits),
        Decision::Ask,
        "a link out"
    );
    assert_eq!(
        decide_write(plan, plan, &rules(&["Edit(~/.claude/**)"], &[], &[]), PermissionMode::Plan),
        Decision::Deny
    );
}

fn decide_write_in(world: &DecisionContext, path: &str) -> Verdict {
    let needs = [NeedFacts { need: AccessNeed::Write(path.into()), resolved: Some(path.into()), hops: vec![] }];
    decide(
        &ProposedCall { tool: "Write", also_named: &[], input: None, needs: &needs, needs_person: false },
        &RuleSet::default(),
        world,
    )
}

#[test]
fn policy_files_need_the_user_and_no_mode_lifts_that_in_a_sandbox() {
    let governing = vec!["/srv/cfg/settings.json".into(), "/srv/repo/.claude/settings.json".into()];
    // The mode, whether the session has a sandbox, and whether a person is asked.
    for (mode, walled, asks) in [
        (PermissionMode::AcceptEdits, false, true),
        (PermissionMode::AcceptEdits, true, true),
        (PermissionMode::Auto, true, true),
        (PermissionMode::BypassPermissions, false, false),
        (PermissionMode::BypassPermissions, true, true),
    ] {
        let roots = vec!["/srv/repo".into(), "/srv/cfg".into()];
        let world =
            DecisionContext { policy_files: governing.clone(), has_sandbox: walled, roots, ..test_context(mode) };
        for path in ["/srv/cfg/settings.json", "/srv/cfg/../cfg/settings.json", "/srv/repo/.claude/settings.json"] {
            let verdict = decide_write_in(&world, path);
            assert_eq!(verdict.decision == Decision::Ask, asks, "{mode} {walled} {path}: {verdict:?}");
            assert!(
                !asks || !verdict.reasons.contains(&VerdictReason::ClassifierMayAnswer),
                "{mode} {path}: {verdict:?}"
            );
        }
        assert_eq!(decide_write_in(&world, "/srv/cfg/other.json").decision, Decision::Allow, "{mode}");
    }
}

#[test]
fn no_reviewer_answers_for_settings_whatever_else_the_command_does() {
    let roots = vec!["/srv/repo".into(), "/srv/cfg".into()];
    let judge = |mode, bypass_available, text: &str| {
        let (governing, roots) = (vec!["/srv/cfg/settings.json".into()], roots.clone());
        let world = DecisionContext {
            policy_files: governing,
            roots,
            plan_reviewed: true,
            bypass_available,
            ..test_context(mode)
        };
        let needs = [NeedFacts::new(AccessNeed::Run(text.into()), None)];
        let call = ProposedCall { tool: "Bash", also_named: &[], input: None, needs: &needs, needs_person: false };
        decide(&call, &RuleSet::default(), &world)
    };
    for mode in [PermissionMode::Auto, PermissionMode::Plan] {
        for text in [
            "echo '{}' > /srv/cfg/settings.json",
            "cp x /srv/cfg/settings.json",
            "rm -rf ~; cp x /srv/cfg/settings.json",
            "cp x .git/hooks/a; cp x /srv/cfg/settings.json",
            "rm -rf ~; gimlet config set model x",
            "rm -rf ~; gimlet trust --yes",
        ] {
            let verdict = judge(mode, false, text);
            assert_eq!(verdict.decision, Decision::Ask, "{mode} {text}");
            assert!(!verdict.reasons.contains(&VerdictReason::ClassifierMayAnswer), "{mode} {text}: {verdict:?}");
        }
        for text in ["cp x .git/hooks/a", "rm -rf ~"] {
            assert!(judge(mode, false, text).reasons.contains(&VerdictReason::ClassifierMayAnswer), "{mode} {text}");
        }
    }
    // A plan that only asks the model to hold back lifts what the bypass lifts.
    assert_eq!(judge(PermissionMode::Plan, true, "cp x .git/hooks/a").decision, Decision::Allow);
    assert_eq!(judge(PermissionMode::Plan, true, "rm -rf ~").decision, Decision::Ask);
}
