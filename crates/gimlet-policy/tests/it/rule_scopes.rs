//! Rules of every scope in every mode: what was offered and kept means less than what somebody wrote, and a command may be
//! shorter than any rule.

use gimlet_policy::shell::ShellFacts;
use gimlet_policy::{
    Behavior, Decision, FileTable, NeedFacts, ProposedCall, RuleScope, RuleSet, RuleSource, SandboxExclusion,
    UpdateDestination, classify_exclusion, suggest_updates,
};
use gimlet_proto::{AccessNeed, PermissionMode};
use proptest::prelude::*;
use proptest::sample::select;

use crate::fixtures::{decide_command, test_context};

const RULES: &[&str] = &[
    "Bash(git push *)",
    "Bash(git remote add *)",
    "Bash(npm run build *)",
    "Bash(docker compose up *)",
    "Bash(go mod tidy *)",
    "Bash(make test *)",
    "Bash(make *)",
    "Bash(git push:*)",
    "Bash(git push)",
    "Bash(* push *)",
    "Bash",
    "Read(.env)",
    "Edit(src/**)",
];

const WORDS: &[&str] = &[
    "git", "push", "remote", "add", "make", "test", "npm", "run", "build", "docker", "compose", "up", "--exec",
    "SHELL=x", "x", "| cat", "; make", "$x", "> out",
];

fn one_rule(behavior: Behavior, rule: &str, scope: RuleScope) -> RuleSet {
    let mut rules = RuleSet::default();
    rules.add(behavior, rule, &RuleSource::new(scope, "/srv/repo")).unwrap();
    rules
}

/// Every beginning of every rule's own words, which is a command with a word less, with two less, and so on.
#[test]
fn a_command_may_be_shorter_than_a_rule_of_any_scope() {
    for (rule, scope) in RULES.iter().flat_map(|rule| RuleScope::ALL.map(|scope| (rule, scope))) {
        let inside = rule.trim_start_matches("Bash(").trim_end_matches(')');
        let words: Vec<&str> = inside.split([' ', ':']).filter(|word| *word != "*").collect();
        for (length, mode) in (1..=words.len()).flat_map(|length| PermissionMode::ALL.map(|mode| (length, mode))) {
            let text = words[..length].join(" ");
            for behavior in [Behavior::Allow, Behavior::Ask, Behavior::Deny] {
                let decision = decide_command(&text, &one_rule(behavior, rule, scope), mode);
                let open = behavior != Behavior::Allow && length == words.len() && rule.starts_with("Bash(");
                assert!(!open || decision != Decision::Allow || rule.contains("(*"), "{behavior} {rule}: {text}");
            }
        }
    }
    let rules = one_rule(Behavior::Allow, "Bash(git push *)", RuleScope::Local);
    assert_eq!(decide_command("make", &rules, PermissionMode::Default), Decision::Ask);
    assert_eq!(decide_command("git push", &rules, PermissionMode::Default), Decision::Allow);
}

#[test]
fn a_part_may_be_shorter_than_an_excluded_command() {
    let roots = ["/srv/repo".into()];
    let facts = ShellFacts { cwd: "/srv/repo".as_ref(), roots: &roots, home: None, environment: None };
    let patterns = ["git push *".to_owned()];
    assert_eq!(classify_exclusion("git push | cat", &patterns, &facts), SandboxExclusion::Whole);
    assert_eq!(classify_exclusion("git push; make", &patterns, &facts), SandboxExclusion::Partial);
    assert_eq!(classify_exclusion("make", &patterns, &facts), SandboxExclusion::None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    /// A rule that allows something forbids the same, whatever its scope; and what is kept allows no more than what is
    /// written.
    #[test]
    fn the_scope_of_a_rule_never_widens_it(
        words in prop::collection::vec(select(WORDS), 1..6),
        rule in select(RULES),
        scope in select(&RuleScope::ALL[..]),
        mode in select(&PermissionMode::ALL[..]),
    ) {
        let text = words.join(" ");
        let alone = decide_command(&text, &RuleSet::default(), mode);
        let allowed = decide_command(&text, &one_rule(Behavior::Allow, rule, scope), mode);
        let forbidden = decide_command(&text, &one_rule(Behavior::Deny, rule, scope), mode);
        let asked = decide_command(&text, &one_rule(Behavior::Ask, rule, scope), mode);
        prop_assert!(forbidden >= alone && asked >= alone && allowed <= alone, "{} {:?}", text, scope);
        let written = decide_command(&text, &one_rule(Behavior::Allow, rule, RuleScope::User), mode);
        prop_assert!(allowed >= written, "{} {:?}", text, scope);
        if allowed == Decision::Allow && alone != Decision::Allow {
            prop_assert_ne!(forbidden, Decision::Allow);
        }
        let needs = [NeedFacts::new(AccessNeed::Run(text), None)];
        let call = ProposedCall { tool: "Bash", also_named: &[], input: None, needs: &needs, needs_person: false };
        let kept = |_: UpdateDestination| RuleSource::new(scope, "/srv/repo");
        drop(suggest_updates(&call, &one_rule(Behavior::Allow, rule, scope), &test_context(mode), &FileTable::default(), &kept));
    }
}
