//! What a verdict says about commands that nothing allows: which part it is, and why a rule that comes near does not cover
//! it.

use gimlet_policy::{
    Behavior, Decision, DecisionContext, NeedFacts, ProposedCall, RuleScope, RuleSet, RuleSource, VerdictReason,
};
use gimlet_policy::{FileTable, PartVerdict, Verdict, decide_parts, decide_with_files};
use gimlet_proto::{AccessNeed, PermissionMode};
use std::sync::Arc;

fn rules(allow: &[&str], deny: &[&str]) -> RuleSet {
    let mut rules = RuleSet::default();
    let source = RuleSource::new(RuleScope::User, "/home/dev/.claude");
    for (behavior, texts) in [(Behavior::Allow, allow), (Behavior::Deny, deny)] {
        texts.iter().for_each(|text| rules.add(behavior, text, &source).unwrap());
    }
    rules
}

fn decide_with_parts(command: &str, rules: &RuleSet, mode: PermissionMode) -> (Verdict, Vec<PartVerdict>) {
    let cwd = "/srv/repo";
    let world = DecisionContext {
        mode,
        cwd: cwd.into(),
        roots: vec![cwd.into()],
        home: Some("/home/dev".into()),
        environment: Some(Arc::default()),
        ..DecisionContext::default()
    };
    let needs = [NeedFacts::new(AccessNeed::Run(command.to_owned()), None)];
    let call = ProposedCall { tool: "Bash", also_named: &[], input: None, needs: &needs, needs_person: false };
    let view = FileTable::default();
    (decide_with_files(&call, rules, &world, &view), decide_parts(&call, rules, &world, &view))
}

#[test]
fn a_rule_that_comes_near_says_why_it_does_not_cover() {
    let allow = ["Bash(cargo test *)", "Bash(make all)", "Bash(find *)"];
    let cases = [
        ("SECRET=1 cargo test", "SECRET is set in front of the command"),
        ("A=1 B=2 cargo test -q", "A and B are set in front of the command"),
        ("sudo cargo test", "it is run through `sudo`"),
        ("env -i cargo test", "it is run through `env`"),
        ("timeout 5 sudo cargo test", "it is run through `sudo`"),
        ("./cargo test", "it names the program by a path"),
        ("make all install", "the rule is for exactly its own words"),
        ("find . -name x -delete", "only a rule with the exact command does"),
        ("cargo $what", "part of it is only known when it runs"),
        ("cargo test > out.txt", "a redirection is a read or write of its own"),
    ];
    for (command, because) in cases {
        let (verdict, _) = decide_with_parts(command, &rules(&allow, &[]), PermissionMode::Default);
        assert_eq!(verdict.decision, Decision::Ask, "{command}");
        let near = verdict.reasons.iter().find_map(|reason| match reason {
            VerdictReason::Unmatched { near: Some(near), .. } => Some(near),
            _ => None,
        });
        assert_eq!(near.map(|near| near.because.as_str()), Some(because), "{command}: {verdict:?}");
        assert!(verdict.explain().contains(&near.unwrap().text), "{}", verdict.explain());
    }
    // Nothing comes near: nothing more is said.
    let (verdict, _) = decide_with_parts("curl x", &rules(&allow, &[]), PermissionMode::Default);
    assert_eq!(verdict.reasons, [VerdictReason::Default]);
    let (verdict, _) = decide_with_parts("make all", &rules(&["Bash(make *)"], &[]), PermissionMode::Auto);
    assert!(verdict.decision == Decision::Allow || verdict.explain().contains("auto mode"), "{verdict:?}");
}

#[test]
fn every_part_of_a_compound_is_named_with_what_decides_on_it() {
    let rules = rules(&["Bash(cargo test *)", "Bash(make *)"], &["Bash(curl *)"]);
    let told = |command: &str| -> Vec<(String, Decision, String)> {
        let (_, parts) = decide_with_parts(command, &rules, PermissionMode::Default);
        parts.into_iter().map(|part| (part.part, part.decision, part.reason.describe())).collect()
    };
    let parts = told("cd sub && cargo test -q && rm -rf out; curl x | SECRET=1 make > log");
    let found: Vec<(&str, Decision)> = parts.iter().map(|(part, decision, _)| (part.as_str(), *decision)).collect();
    assert_eq!(
        found,
        [
            ("cd sub", Decision::Allow),
            ("cargo test -q", Decision::Allow),
            ("rm -rf out", Decision::Ask),
            ("curl x", Decision::Deny),
            ("SECRET=… make", Decision::Ask),
            ("> log", Decision::Ask),
        ]
    );
    let reasons: Vec<&str> = parts.iter().map(|(_, _, reason)| reason.as_str()).collect();
    assert!(reasons[1].contains("Bash(cargo test *)") && reasons[3].contains("Bash(curl *)"), "{reasons:?}");
    assert!(reasons[4].contains("Bash(make *)") && reasons[4].contains("SECRET"), "{reasons:?}");
}

#[test]
fn a_compound_that_is_allowed_names_every_rule_it_took() {
    let rules = rules(&["Bash(cargo test *)", "Bash(make *)"], &[]);
    let (verdict, _) =
        decide_with_parts("cd sub && cargo test && make all && cargo test -q", &rules, PermissionMode::Default);
    assert_eq!(verdict.decision, Decision::Allow);
    let texts: Vec<String> = verdict.reasons.iter().map(VerdictReason::describe).collect();
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(texts[0].contains("Bash(cargo test *)") && texts[1].contains("Bash(make *)"), "{texts:?}");
    let (verdict, _) = decide_with_parts("ls && pwd", &rules, PermissionMode::Default);
    assert_eq!(verdict.reasons, [VerdictReason::ReadOnly]);
}

#[test]
fn long_commands_name_few_parts_and_those_by_their_beginning() {
    let command = (0..200).map(|n| format!("prog{n} {}", "x".repeat(500))).collect::<Vec<_>>().join("; ");
    let (verdict, _) = decide_with_parts(&command[..9_000], &rules(&[], &[]), PermissionMode::Default);
    assert!(verdict.reasons.len() <= 6, "{}", verdict.reasons.len());
    assert!(verdict.explain().len() < 2_000, "{}", verdict.explain().len());
}

#[test]
fn what_a_redirection_or_a_read_elsewhere_is_granted_by_is_said() {
    let rules = rules(&["Edit(//srv/repo/docs/**)", "Read(//etc/**)", "Bash(make *)"], &[]);
    let said = |command: &str, mode| {
        let (verdict, _) = decide_with_parts(command, &rules, mode);
        assert_eq!(verdict.decision, Decision::Allow, "{command}");
        let words = verdict.reasons.iter().map(|reason| match reason {
            VerdictReason::Rule { text, .. } => text.clone(),
            VerdictReason::Mode(mode) => mode.to_string(),
            VerdictReason::ReadOnly => "only reads".to_owned(),
            other => format!("{other:?}"),
        });
        words.collect::<Vec<_>>()
    };
    for (command, mode, expected) in [
        ("git log", PermissionMode::Default, &["only reads"][..]),
        ("git log > docs/log", PermissionMode::Default, &["Edit(//srv/repo/docs/**)"]),
        ("echo x > notes", PermissionMode::AcceptEdits, &["acceptEdits"]),
        ("echo x > notes; touch y", PermissionMode::AcceptEdits, &["acceptEdits"]),
        ("make x > docs/log", PermissionMode::Default, &["Bash(make *)", "Edit(//srv/repo/docs/**)"]),
        ("make x < a", PermissionMode::Default, &["Bash(make *)"]),
        ("make x < /etc/hosts", PermissionMode::Default, &["Bash(make *)", "Read(//etc/**)"]),
        ("cat /etc/hosts a", PermissionMode::Default, &["Read(//etc/**)"]),
        ("ls; cat a", PermissionMode::Default, &["only reads"]),
    ] {
        assert_eq!(said(command, mode), expected, "{command}");
    }
}

#[test]
fn a_part_that_opens_a_closed_file_is_named_with_the_rule() {
    let rules = rules(&["Bash"], &["Read(//srv/repo/.env)", "Edit(//srv/repo/lock)"]);
    let (verdict, parts) = decide_with_parts("ls; cat .env; cat .e*; echo x > lock", &rules, PermissionMode::Default);
    assert_eq!(verdict.decision, Decision::Deny);
    let decided: Vec<(&str, Decision)> = parts.iter().map(|part| (part.part.as_str(), part.decision)).collect();
    let expected = [("ls", Decision::Allow), ("cat .env", Decision::Deny), ("cat .e*", Decision::Ask)];
    assert_eq!(&decided[..3], expected);
    assert_eq!(decided.last(), Some(&("> lock", Decision::Deny)), "{decided:?}");
    assert!(parts[1].reason.describe().contains("Read(//srv/repo/.env)"), "{parts:?}");
}
