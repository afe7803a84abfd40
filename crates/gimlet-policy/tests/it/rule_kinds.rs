//! What holds for rules of every kind: none makes the decision panic, one more that forbids never frees anything, one
//! more that allows never hardens anything; and what only shows in a whole decision.

use gimlet_policy::{
    Behavior, Decision, FileTable, FollowedPath, NeedFacts, ProposedCall, Rule, RuleScope, RuleSet, RuleSource,
    Verdict, VerdictReason, decide, decide_with_files,
};
use gimlet_proto::{AccessNeed, PermissionMode};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::fixtures::test_context;

fn source() -> RuleSource {
    RuleSource::new(RuleScope::Project, "/srv/repo")
}

fn rule_set(rules: &[(Behavior, &str)]) -> RuleSet {
    let mut set = RuleSet::default();
    for (behavior, rule) in rules {
        set.add(*behavior, rule, &source()).unwrap();
    }
    set
}

fn decide_input(tool: &str, input: &Value, need: AccessNeed, rules: &RuleSet, mode: PermissionMode) -> Verdict {
    let followed = match &need {
        AccessNeed::Read(path) | AccessNeed::Write(path) => Some(FollowedPath::without_links(path)),
        _ => None,
    };
    let needs = [NeedFacts::new(need, followed)];
    decide(
        &ProposedCall { tool, also_named: &[], input: input.as_object(), needs: &needs, needs_person: false },
        rules,
        &test_context(mode),
    )
}

#[test]
fn parameter_agent_and_skill_rules_decide_by_what_was_given() {
    let rules = rule_set(&[
        (Behavior::Ask, "Bash(dangerouslyDisableSandbox:true)"),
        (Behavior::Deny, "mcp__db__query(database:prod*)"),
        (Behavior::Deny, "Agent(Explore)"),
        (Behavior::Deny, "Skill(deploy)"),
        (Behavior::Allow, "Bash(make *)"),
        (Behavior::Allow, "mcp__db"),
        (Behavior::Allow, "Skill(commit *)"),
    ]);
    let decided = |tool: &str, input: Value, need: AccessNeed| {
        decide_input(tool, &input, need, &rules, PermissionMode::Default).decision
    };
    let make = || AccessNeed::Run("make x".into());
    assert_eq!(decided("Bash", json!({"command": "make x"}), make()), Decision::Allow);
    let outside = json!({"command": "make x", "dangerouslyDisableSandbox": true});
    assert_eq!(decided("Bash", outside, make()), Decision::Ask);
    assert_eq!(decided("mcp__db__query", json!({"database": "production"}), AccessNeed::Opaque), Decision::Deny);
    assert_eq!(decided("mcp__db__query", json!({"database": "test"}), AccessNeed::Opaque), Decision::Allow);
    assert_eq!(decided("mcp__db__query", json!({}), AccessNeed::Opaque), Decision::Allow);
    assert_eq!(decided("Agent", json!({"subagent_type": "Explore"}), AccessNeed::Session), Decision::Deny);
    assert_eq!(decided("Task", json!({"subagent_type": "Explore"}), AccessNeed::Session), Decision::Deny);
    assert_eq!(decided("Agent", json!({"subagent_type": "Plan"}), AccessNeed::Session), Decision::Allow);
    assert_eq!(decided("Skill", json!({"skill": "deploy", "args": "now"}), AccessNeed::Opaque), Decision::Deny);
    assert_eq!(decided("Skill", json!({"skill": "commit", "args": "-a"}), AccessNeed::Opaque), Decision::Allow);
    assert_eq!(decided("Skill", json!({"skill": "other"}), AccessNeed::Opaque), Decision::Ask);
}

/// Where a rule is needed for everything, one that is there counts also for what would need none, and for nothing beside it.
#[test]
fn while_settings_cannot_be_read_every_part_needs_a_rule_of_its_own() {
    let allowed = ["Bash(touch *)", "Bash(ls *)", "Edit(src/**)"].map(|rule| (Behavior::Allow, rule));
    let rules = rule_set(&allowed).with_unread_settings();
    let of = |tool: &str, need: AccessNeed, mode| decide_input(tool, &json!({}), need, &rules, mode);
    for (command, mode, expected) in [
        ("ls -l", PermissionMode::Default, Decision::Allow),
        ("ls -l", PermissionMode::Plan, Decision::Allow),
        ("touch a; ls -l", PermissionMode::Default, Decision::Allow),
        ("touch a", PermissionMode::AcceptEdits, Decision::Allow),
        ("touch a", PermissionMode::BypassPermissions, Decision::Allow),
        ("mkdir a", PermissionMode::BypassPermissions, Decision::Ask),
        ("cat src/a", PermissionMode::Default, Decision::Allow),
        ("cat b", PermissionMode::Default, Decision::Ask),
        ("cat src/a b", PermissionMode::Default, Decision::Ask),
        ("touch a; cat b", PermissionMode::Default, Decision::Ask),
        ("touch a; mkdir b", PermissionMode::AcceptEdits, Decision::Ask),
        ("touch a < b", PermissionMode::Default, Decision::Ask),
        ("touch a > b", PermissionMode::AcceptEdits, Decision::Ask),
    ] {
        let said = of("Bash", AccessNeed::Run(command.into()), mode);
        assert_eq!(said.decision, expected, "{command} in {mode:?}: {said:?}");
        assert!(expected == Decision::Allow || said.reasons[0] == VerdictReason::UnreadSettings, "{command}: {said:?}");
    }
    for (file, expected) in [("/srv/repo/src/a", Decision::Allow), ("/srv/repo/b", Decision::Ask)] {
        assert_eq!(of("Read", AccessNeed::Read(file.into()), PermissionMode::Default).decision, expected, "{file}");
    }
}

#[test]
fn a_parameter_rule_asks_when_nobody_knows_the_input() {
    let rules = rule_set(&[(Behavior::Deny, "TodoWrite(x:1)")]);
    let needs = [NeedFacts::new(AccessNeed::Session, None)];
    let call = ProposedCall { tool: "TodoWrite", also_named: &[], input: None, needs: &needs, needs_person: false };
    let verdict = decide(&call, &rules, &test_context(PermissionMode::BypassPermissions));
    assert_eq!(verdict.decision, Decision::Ask);
    assert!(matches!(&verdict.reasons[..], [VerdictReason::MayMatchRule { .. }]), "{verdict:?}");
}

#[test]
fn a_link_in_the_middle_of_a_chain_counts_for_what_forbids() {
    let rules = rule_set(&[(Behavior::Deny, "Read(//vault/**)"), (Behavior::Allow, "Edit(**)")]);
    let chain = |hop: &str| FollowedPath { real: "/srv/repo/b".into(), hops: vec![hop.into()] };
    let decided = |need: AccessNeed, hop: &str| {
        let needs = [NeedFacts::new(need, Some(chain(hop)))];
        let call = ProposedCall { tool: "Read", also_named: &[], input: None, needs: &needs, needs_person: false };
        decide(&call, &rules, &test_context(PermissionMode::Default)).decision
    };
    let read = || AccessNeed::Read("/srv/repo/a".into());
    let write = || AccessNeed::Write("/srv/repo/a".into());
    assert_eq!(decided(read(), "/vault/x"), Decision::Deny);
    assert_eq!(decided(read(), "/elsewhere/x"), Decision::Allow, "only the ends need leave");
    assert_eq!(decided(write(), "/elsewhere/x"), Decision::Allow);
    assert_eq!(decided(write(), "/elsewhere/.git/x"), Decision::Ask);

    let needs = [NeedFacts::new(AccessNeed::Run("base64 a".into()), None)];
    let call = ProposedCall { tool: "Bash", also_named: &[], input: None, needs: &needs, needs_person: false };
    let mut links = FileTable::default();
    links.add_link("/srv/repo/a", "/vault/x");
    links.add_link("/vault/x", "/srv/repo/b");
    let world = test_context(PermissionMode::BypassPermissions);
    assert_eq!(decide_with_files(&call, &rules, &world, &links).decision, Decision::Deny);
}

#[test]
fn in_auto_mode_a_classifier_may_answer_what_no_rule_decided() {
    let rules = rule_set(&[
        (Behavior::Ask, "Bash(git push *)"),
        (Behavior::Allow, "Bash(python3 *)"),
        (Behavior::Allow, "Bash(cargo test *)"),
    ]);
    let run = |text: &str| decide_input("Bash", &json!({}), AccessNeed::Run(text.into()), &rules, PermissionMode::Auto);
    let may_answer = |verdict: &Verdict| verdict.reasons.contains(&VerdictReason::ClassifierMayAnswer);
    for text in
        ["make x", "python3 x.py", "rm -rf /", "cp x .git/config", "rm -rf src", "mv a b", "> a", "cargo test > a"]
    {
        let verdict = run(text);
        assert!(verdict.decision == Decision::Ask && may_answer(&verdict), "{text}: {verdict:?}");
    }
    for text in ["git push", "git $x"] {
        let verdict = run(text);
        assert!(verdict.decision == Decision::Ask && !may_answer(&verdict), "{text}: {verdict:?}");
    }
    for text in ["cargo test", "cargo test 2>/dev/null"] {
        assert_eq!(run(text).decision, Decision::Allow, "{text}");
    }
    let write =
        |path: &str| decide_input("Edit", &json!({}), AccessNeed::Write(path.into()), &rules, PermissionMode::Auto);
    assert_eq!(write("/srv/repo/a").decision, Decision::Allow);
    assert!(may_answer(&write("/srv/repo/.git/config")));
    assert!(may_answer(&write("/etc/x")));
}

#[test]
fn a_rule_that_wants_to_be_asked_opens_nothing_that_a_plan_blocks() {
    let rules = rule_set(&[(Behavior::Ask, "Edit(src/**)"), (Behavior::Ask, "Read(src/**)")]);
    let write =
        |mode| decide_input("Edit", &json!({}), AccessNeed::Write("/srv/repo/src/a".into()), &rules, mode).decision;
    assert_eq!(write(PermissionMode::Plan), Decision::Deny);
    assert_eq!(write(PermissionMode::BypassPermissions), Decision::Ask);
}

#[test]
fn a_bare_rule_about_the_shell_holds_for_whatever_runs_commands() {
    let rules = rule_set(&[(Behavior::Deny, "Bash")]);
    let verdict =
        decide_input("Monitor", &json!({}), AccessNeed::Run("ls".into()), &rules, PermissionMode::BypassPermissions);
    assert_eq!(verdict.decision, Decision::Deny);
}

fn rule_text() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "Bash",
        "Bash(make *)",
        "Bash(git push:*)",
        "Bash(ls)",
        "Bash(run_in_background:true)",
        "Read(.env)",
        "Read(src/**)",
        "Read(~/.ssh/**)",
        "Edit(src/**)",
        "Edit(//srv/**)",
        "Write(x)",
        "Write",
        "Edit",
        "WebFetch(domain:*.ex.com)",
        "Agent(Explore)",
        "Skill(x *)",
        "mcp__git",
        "mcp__git__*",
        "Cd(/x)",
        "*",
    ]);
    let loose = "(Bash|Read|Edit|WebFetch|Skill|Cd|mcp__a__b)\\([ -~]{0,12}\\)?".prop_map(|text: String| text);
    prop_oneof![known.prop_map(str::to_owned), loose]
}

fn need() -> impl Strategy<Value = (&'static str, AccessNeed)> {
    prop::sample::select(vec![
        ("Bash", AccessNeed::Run("make x".into())),
        ("Bash", AccessNeed::Run("git push && ls".into())),
        ("Bash", AccessNeed::Run("cat .env > src/x".into())),
        ("Read", AccessNeed::Read("/srv/repo/.env".into())),
        ("Read", AccessNeed::Read("/home/dev/.ssh/id".into())),
        ("Edit", AccessNeed::Write("/srv/repo/src/a".into())),
        ("Write", AccessNeed::Write("/srv/repo/.git/config".into())),
        ("WebFetch", AccessNeed::Fetch("https://a.ex.com/".into())),
        ("mcp__git__log", AccessNeed::Opaque),
        ("Skill", AccessNeed::Opaque),
        ("TodoWrite", AccessNeed::Session),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_a_rule_panic(text in prop_oneof![rule_text(), any::<String>()]) {
        for behavior in [Behavior::Allow, Behavior::Ask, Behavior::Deny] {
            // Only that it comes back matters here.
            drop(Rule::parse(&text, behavior, &source()));
        }
    }

    #[test]
    fn one_rule_more_never_turns_a_decision_the_wrong_way(
        rules in prop::collection::vec((0..3usize, rule_text()), 0..6),
        (more, forbids) in (rule_text(), 0..3usize),
        (tool, need) in need(),
        mode in prop::sample::select(PermissionMode::ALL.to_vec()),
    ) {
        let behaviors = [Behavior::Allow, Behavior::Ask, Behavior::Deny];
        let mut set = RuleSet::default();
        for (behavior, rule) in rules {
            drop(set.add(behaviors[behavior], &rule, &source()));
        }
        let input = json!({"skill": "x", "command": "make x"});
        let before = decide_input(tool, &input, need.clone(), &set, mode).decision;
        if set.add(behaviors[forbids], &more, &source()).is_ok() {
            let after = decide_input(tool, &input, need, &set, mode).decision;
            match behaviors[forbids] {
                Behavior::Allow => prop_assert!(after <= before, "{} made {} of {}", more, after, before),
                Behavior::Ask | Behavior::Deny => prop_assert!(after >= before, "{} made {} of {}", more, after, before),
            }
        }
    }

    #[test]
    fn a_verdict_is_read_back_as_it_was_written(rule in rule_text(), (tool, need) in need()) {
        let mut set = RuleSet::default();
        drop(set.add(Behavior::Ask, &rule, &source().in_file("/srv/repo/s.json", Some(3))));
        let verdict = decide_input(tool, &json!({}), need, &set, PermissionMode::Default);
        let json = serde_json::to_string(&verdict).unwrap();
        prop_assert_eq!(serde_json::from_str::<Verdict>(&json).unwrap(), verdict);
    }
}
