//! Properties that hold for any text, not only for the rows of a corpus.

use gimlet_policy::{
    Behavior, Decision, DecisionContext, NeedFacts, ProposedCall, RuleScope, RuleSet, RuleSource, decide, shell,
};
use gimlet_proto::{AccessNeed, PermissionMode};
use proptest::prelude::*;
use std::sync::Arc;

fn rules(deny: &[&str], allow: &[&str]) -> RuleSet {
    let source = RuleSource::new(RuleScope::Project, "/srv/repo");
    let mut rules = RuleSet::default();
    for rule in deny {
        rules.add(Behavior::Deny, rule, &source).unwrap();
    }
    for rule in allow {
        rules.add(Behavior::Allow, rule, &source).unwrap();
    }
    rules
}

fn decide_command(text: &str, rules: &RuleSet, mode: PermissionMode) -> Decision {
    let world = DecisionContext {
        mode,
        cwd: "/srv/repo".into(),
        roots: vec!["/srv/repo".into()],
        home: Some("/home/dev".into()),
        environment: Some(Arc::default()),
        ..DecisionContext::default()
    };
    let needs = [NeedFacts { need: AccessNeed::Run(text.to_owned()), resolved: None, hops: vec![] }];
    decide(
        &ProposedCall { tool: "Bash", also_named: &[], input: None, needs: &needs, needs_person: false },
        rules,
        &world,
    )
    .decision
}

/// Pieces that shell syntax is made of, in no sensible order.
fn fragments() -> impl Strategy<Value = String> {
    let fragment = prop::sample::select(vec![
        "npm", "run", "rm", "x", "-rf", "/", "ls", " ", " ", " ", "\t", "\n", ";", ";;", ";&", "&", "&&", "|", "||",
        "|&", "(", ")", "{", "}", "$(", "`", "\"", "'", "$'", "$\"", "\\", "\\\n", "\\'", "\\ ", "<", ">", ">|", "<>",
        "<<", "<<-", "<<<", "EOF", "'EOF'", "\nEOF\n", "&>", "2>&1", "<(", ">(", "${", "$x", "${x:-", "$((", "))", "[",
        "]", "[[", "]]", "*", "?", "~", "#", "!", "=", "A=1", "if", "then", "fi", "for", "in", "do", "done", "case",
        "esac", "while", "function", "f()", "coproc", "time", "eval", "sudo", "bash -c ", "é", "\u{a0}", "\r", "\u{0}",
        "\u{202e}", "{a,b}", "``", "1", "@(", "+=",
    ]);
    prop::collection::vec(fragment, 0..24).prop_map(|parts| parts.concat())
}

/// Complete statements, the kinds that are easily misread among them.
fn statement() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "ls",
        "# a comment's quote",
        "echo 'a\nb'",
        "echo \"a 'b' \\\" c\"",
        "cat <<'E'\nit's\nE",
        "cat <<E\n$x \\` it's\nE",
        "cat <<-E\n\tx\n\tE",
        "echo $'a\\'b'",
        "echo $'a\\\\'",
        "x=1",
        "x=(a 'b' $c)",
        "if a; then b; fi",
        "for i in a b; do c; done",
        "case $x in (a) b;; *) c;; esac",
        "f() { a; }",
        "{ a; }",
        "(a; b)",
        "a | b |& c",
        "a && b || c &",
        "echo `a \\`b\\``",
        "echo \"$(echo \"$(a)\")\"",
        "echo ${x:-\"}\"}",
        "echo ${x#*'}'}",
        "[[ $a == b* ]]",
        "((i++))",
        "a <<< \"b 'c\"",
        "echo $((1 << 2))",
        "a > out 2>&1",
        "echo a\\\nb",
        "echo \\#",
        "echo a#b'c'",
        "echo {a,b}",
        "echo a{1..3}",
        "! a",
        "time a",
        "a <(b) >(c)",
        "echo \u{e9}\u{a0}",
        "let x=1",
        "echo $",
        "select x in a; do b; done",
        "coproc { a; }",
        "a ;",
        "echo ``",
        "export A=\"b\"",
    ])
    .prop_map(str::to_owned)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_the_analysis_panic(text in prop_oneof![fragments(), any::<String>()]) {
        let roots = ["/srv/repo".into()];
        let facts = shell::ShellFacts { cwd: "/srv/repo".as_ref(), roots: &roots, home: None, environment: None };
        let analysis = shell::analyse(&text, &facts);
        prop_assert!(!analysis.read_only || analysis.trouble.is_none());
        prop_assert!(analysis.simple.is_none() || analysis.fully_parsed);
    }

    #[test]
    fn a_prefix_rule_never_reaches_beyond_its_command(before in "[ a-z]{0,6}", operator in prop::sample::select(vec![
        ";", "&", "&&", "|", "||", "|&", "\n", ">", ">>", ">|", "<>", "&>", "<<", "`", "$(", "<(", ">(", "(", ")", "\r", "\u{0}",
    ]), after in "x[ a-z]{0,8}") {
        let allow = rules(&[], &["Bash(npm run:*)", "Bash(npm * x)", "Bash(npm*)"]);
        let text = format!("npm run {before} {operator}{after}");
        prop_assert_ne!(decide_command(&text, &allow, PermissionMode::Default), Decision::Allow, "{:?}", text);
    }

    #[test]
    fn quoted_operators_stay_arguments(argument in "[ a-z;&|<>()#*~!{}]{0,12}") {
        let allow = rules(&[], &["Bash(npm run:*)"]);
        let text = format!("npm run '{argument}'");
        prop_assert_eq!(decide_command(&text, &allow, PermissionMode::Default), Decision::Allow, "{:?}", text);
    }

    #[test]
    fn statements_around_a_denied_command_never_lift_the_denial(
        before in prop::collection::vec(statement(), 0..4),
        after in prop::collection::vec(statement(), 0..4),
    ) {
        let denying = rules(&["Bash(curl:*)"], &["Bash"]);
        let text = [before, vec!["curl x".to_owned()], after].concat().join("\n");
        for mode in PermissionMode::ALL {
            prop_assert_eq!(decide_command(&text, &denying, mode), Decision::Deny, "{:?} in {}", text, mode);
        }
    }

    #[test]
    fn plain_lists_keep_a_denial_at_every_position(
        before in prop::collection::vec("[a-z]{1,5}( [a-z]{1,3}){0,2}", 0..6),
        after in prop::collection::vec("[a-z]{1,5}( [a-z]{1,3}){0,2}", 0..6),
        join in prop::sample::select(vec!["; ", "\n", " && ", " || ", " & ", " | "]),
    ) {
        let denying = rules(&["Bash(/denied:*)"], &["Bash"]);
        let mut parts = before;
        parts.push("/denied x".to_owned());
        parts.extend(after);
        let text = parts.join(join);
        prop_assert_eq!(decide_command(&text, &denying, PermissionMode::BypassPermissions), Decision::Deny, "{:?}", text);
    }

    #[test]
    fn what_is_allowed_by_default_holds_no_surprise(text in fragments()) {
        // With an allow rule for one harmless program, nothing but that program and readers may run unasked.
        let allow = rules(&[], &["Bash(npm:*)"]);
        if decide_command(&text, &allow, PermissionMode::Default) == Decision::Allow {
            let roots = ["/srv/repo".into()];
            let facts = shell::ShellFacts { cwd: "/srv/repo".as_ref(), roots: &roots, home: None, environment: None };
            for words in shell::analyse(&text, &facts).commands {
                let name = words[0].value().unwrap_or("?").to_owned();
                prop_assert!(matches!(name.as_str(), "npm" | "ls"), "{:?} runs {}", text, name);
            }
        }
    }
}
