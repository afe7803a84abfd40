//! The session's own folders, such as that of its plans, may be written even below a protected one.

use gimlet_policy::{Call, Decision, NeedFacts, Reason, RuleSet, Verdict, World, decide};
use gimlet_proto::{Need, PermissionMode};

use crate::worlds::{rules, world};

fn write(path: &str, resolved: &str, rules: &RuleSet, mode: PermissionMode) -> Decision {
    let world = World { own_writable: vec!["/home/dev/.claude/plans".into()], ..world(mode) };
    let needs = [NeedFacts { need: Need::Write(path.into()), resolved: Some(resolved.into()), hops: vec![] }];
    decide(&Call { tool: "Write", also_named: &[], input: None, needs: &needs, needs_person: false }, rules, &world)
        .decision
}

#[test]
fn own_files_are_written_without_a_question_in_every_mode() {
    let plan = "/home/dev/.claude/plans/a.md";
    for mode in PermissionMode::ALL {
        assert_eq!(write(plan, plan, &RuleSet::default(), mode), Decision::Allow, "{mode}");
    }
}

#[test]
fn what_surrounds_them_stays_protected() {
    let none = RuleSet::default();
    for path in ["/home/dev/.claude/settings.json", "/home/dev/.claude/plans/.git/config", "/home/dev/.claude/plans2/a"]
    {
        assert_eq!(write(path, path, &none, PermissionMode::AcceptEdits), Decision::Ask, "{path}");
    }
    let plan = "/home/dev/.claude/plans/a.md";
    assert_eq!(write(plan, "/home/dev/.bashrc", &none, PermissionMode::AcceptEdits), Decision::Ask, "a link out");
    assert_eq!(write(plan, plan, &rules(&["Edit(~/.claude/**)"], &[], &[]), PermissionMode::Plan), Decision::Deny);
}

fn write_in(world: &World, path: &str) -> Verdict {
    let needs = [NeedFacts { need: Need::Write(path.into()), resolved: Some(path.into()), hops: vec![] }];
    decide(
        &Call { tool: "Write", also_named: &[], input: None, needs: &needs, needs_person: false },
        &RuleSet::default(),
        world,
    )
}

#[test]
fn files_that_say_what_is_allowed_are_a_persons_to_write_and_no_mode_lifts_that_behind_walls() {
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
        let world = World { governing: governing.clone(), walled, roots, ..world(mode) };
        for path in ["/srv/cfg/settings.json", "/srv/cfg/../cfg/settings.json", "/srv/repo/.claude/settings.json"] {
            let verdict = write_in(&world, path);
            assert_eq!(verdict.decision == Decision::Ask, asks, "{mode} {walled} {path}: {verdict:?}");
            assert!(!asks || !verdict.reasons.contains(&Reason::ClassifierMayAnswer), "{mode} {path}: {verdict:?}");
        }
        assert_eq!(write_in(&world, "/srv/cfg/other.json").decision, Decision::Allow, "{mode}");
    }
}

#[test]
fn no_reviewer_answers_for_settings_whatever_else_the_command_does() {
    let roots = vec!["/srv/repo".into(), "/srv/cfg".into()];
    let judge = |mode, bypass_available, text: &str| {
        let (governing, roots) = (vec!["/srv/cfg/settings.json".into()], roots.clone());
        let world = World { governing, roots, plan_reviewed: true, bypass_available, ..world(mode) };
        let needs = [NeedFacts::new(Need::Run(text.into()), None)];
        let call = Call { tool: "Bash", also_named: &[], input: None, needs: &needs, needs_person: false };
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
            assert!(!verdict.reasons.contains(&Reason::ClassifierMayAnswer), "{mode} {text}: {verdict:?}");
        }
        for text in ["cp x .git/hooks/a", "rm -rf ~"] {
            assert!(judge(mode, false, text).reasons.contains(&Reason::ClassifierMayAnswer), "{mode} {text}");
        }
    }
    // A plan that only asks the model to hold back lifts what the bypass lifts.
    assert_eq!(judge(PermissionMode::Plan, true, "cp x .git/hooks/a").decision, Decision::Allow);
    assert_eq!(judge(PermissionMode::Plan, true, "rm -rf ~").decision, Decision::Ask);
}
