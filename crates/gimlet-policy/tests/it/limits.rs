//! Sizes and shapes that are meant to hurt: the answer stays bounded in time, and a denied part is found at every place.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gimlet_policy::{
    Behavior, Decision, DecisionContext, DirListing, FileView, FollowedPath, ListedEntry, ListedKind, NeedFacts,
    ProposedCall, RuleScope, RuleSet, RuleSource, Verdict, decide, decide_with_files,
};
use gimlet_proto::{AccessNeed, PermissionMode};

use crate::fixtures::{decide_command, rules, test_context};

fn decide_denying_curl(text: String) -> Verdict {
    let source = RuleSource::new(RuleScope::Project, "/srv/repo");
    let mut rules = RuleSet::default();
    rules.add(Behavior::Deny, "Bash(curl:*)", &source).unwrap();
    rules.add(Behavior::Allow, "Bash", &source).unwrap();
    let world = DecisionContext {
        mode: PermissionMode::BypassPermissions,
        cwd: "/srv/repo".into(),
        roots: vec!["/srv/repo".into()],
        environment: Some(Arc::default()),
        ..DecisionContext::default()
    };
    let needs = [NeedFacts { need: AccessNeed::Run(text), resolved: None, hops: vec![] }];
    let started = Instant::now();
    let verdict = decide(
        &ProposedCall { tool: "Bash", also_named: &[], input: None, needs: &needs, needs_person: false },
        &rules,
        &world,
    );
    // Generous for an unoptimised build on a busy machine; a quadratic step would take minutes.
    assert!(started.elapsed() < Duration::from_secs(10), "took {:?}", started.elapsed());
    verdict
}

#[test]
fn a_denied_part_is_found_in_chains_of_any_length() {
    for length in [10, 1_000, 15_000] {
        for position in [0, length / 2, length - 1] {
            let joins: &[&str] = if length > 1_000 { &[" && "] } else { &[" && ", "; ", "\n", " | "] };
            for join in joins {
                let mut parts = vec!["true"; length];
                parts[position] = "curl x";
                let verdict = decide_denying_curl(parts.join(join));
                assert_eq!(verdict.decision, Decision::Deny, "part {position} of {length} joined by {join:?}");
            }
        }
    }
}

#[test]
fn a_denied_command_after_deep_nesting_is_still_denied() {
    for (open, close) in [
        ("(", ")"),
        ("$(", ")"),
        ("\"$(", ")\""),
        ("{ ", "; }"),
        ("`", "`"),
        ("${x:-", "}"),
        ("[[ ", " ]]"),
        ("<(", ")"),
    ] {
        for depth in [10, 300, 10_000] {
            let text = format!("{}{}", open.repeat(depth), close.repeat(depth));
            assert_eq!(
                decide_denying_curl(format!("{text}\ncurl x")).decision,
                Decision::Deny,
                "after {open:?} × {depth}"
            );
        }
    }
}

#[test]
fn long_chains_of_compound_commands_stay_linear() {
    for part in ["(a) && ", "{ a; } && ", "a $(b) | ", "case a in b) c;; esac; ", "if a; then b; fi; ", "a <<E\nx\nE\n"]
    {
        let text = part.repeat(60_000 / part.len());
        assert_eq!(decide_denying_curl(format!("{text}curl x")).decision, Decision::Deny, "{part:?}");
    }
}

#[test]
fn the_longest_texts_that_are_read_do_not_crash() {
    for unit in [
        "'",
        "\"",
        "\\",
        "$'",
        "<<E\n",
        "a ",
        "é",
        "\u{0}",
        "{a,b}",
        "$x",
        "*",
        "#",
        "=",
        "if ",
        "cd /;",
        "rm -rf $x/;",
        "${a",
        "a=/x;rm $a;",
        "echo a|xargs rm;",
        "xargs rm <<<a;",
        "ln -s a b;touch c;",
        "mv a b;",
        "find .;",
        "find . -exec env ",
        "find . -exec a ;",
        "find . -exec a \\; ",
        "read a;",
    ] {
        let text = unit.repeat(131_000 / unit.len());
        assert_ne!(decide_denying_curl(format!("curl x; {text}")).decision, Decision::Allow, "{unit:?}");
        assert_eq!(decide_denying_curl(format!("curl x\n{text}")).decision, Decision::Deny, "{unit:?}");
    }
}

#[test]
fn a_forbidden_program_behind_however_many_others_does_not_run_unasked() {
    for wrapper in ["env ", "env -q ", "nice -n 5 ", "sudo -n ", "timeout 5 ", "find . -exec env "] {
        for count in [1, 5, 11, 12, 13, 40, 64, 65, 70, 200, 1_000] {
            let text = format!("{}curl x", wrapper.repeat(count));
            assert_ne!(decide_denying_curl(text).decision, Decision::Allow, "{wrapper}{count}");
        }
    }
}

#[test]
fn programs_that_run_each_other_are_followed_for_a_few_steps() {
    let keeping = rules(&["Edit(keys/**)"], &[], &[]);
    for runner in ["npx ", "bunx ", "uvx ", "uv run ", "python3 -m ", "npx uv run "] {
        let text = format!("{}jest keys", runner.repeat(64_000 / runner.len()));
        let started = Instant::now();
        assert_ne!(decide_command(&text, &keeping, PermissionMode::BypassPermissions), Decision::Allow, "{runner}");
        assert!(started.elapsed() < Duration::from_secs(10), "{runner}: took {:?}", started.elapsed());
    }
}

#[test]
fn over_long_text_asks_without_rules_too_but_not_in_bypass() {
    let world = |mode| DecisionContext {
        mode,
        cwd: "/srv/repo".into(),
        roots: vec!["/srv/repo".into()],
        environment: Some(Arc::default()),
        ..DecisionContext::default()
    };
    let needs =
        [NeedFacts { need: AccessNeed::Run(format!("echo {}", "a".repeat(20_000))), resolved: None, hops: vec![] }];
    let call = ProposedCall { tool: "Bash", also_named: &[], input: None, needs: &needs, needs_person: false };
    let rules = RuleSet::default();
    assert_eq!(decide(&call, &rules, &world(PermissionMode::Default)).decision, Decision::Ask);
    assert_eq!(decide(&call, &rules, &world(PermissionMode::BypassPermissions)).decision, Decision::Allow);
}

#[test]
fn text_that_no_shell_would_take_is_never_read_and_never_allowed() {
    for unit in ["a ", "true;", "rm -rf /\n", "$(", "\u{e9}"] {
        let text = unit.repeat(10_000_000 / unit.len());
        let needs = [NeedFacts { need: AccessNeed::Run(text), resolved: None, hops: vec![] }];
        let call = ProposedCall { tool: "Bash", also_named: &[], input: None, needs: &needs, needs_person: false };
        let (mode, cwd, roots) = (PermissionMode::BypassPermissions, "/srv/repo".into(), vec!["/srv/repo".into()]);
        let world =
            DecisionContext { mode, cwd, roots, environment: Some(Arc::default()), ..DecisionContext::default() };
        let started = Instant::now();
        assert_eq!(decide(&call, &RuleSet::default(), &world).decision, Decision::Ask, "{unit:?}");
        assert!(started.elapsed() < Duration::from_secs(10), "{unit:?} took {:?}", started.elapsed());
    }
}

/// A disk with one folder inside the other, thousands of them, and one with as many files as are looked at.
struct VastFileView;

impl FileView for VastFileView {
    fn follow(&self, path: &Path) -> Option<FollowedPath> {
        Some(FollowedPath::without_links(path))
    }

    fn list(&self, folder: &Path, most: usize) -> DirListing {
        let listed = |name: String, kind| ListedEntry { name: name.into(), kind };
        let entries: Vec<ListedEntry> = match folder.starts_with("/srv/repo/deep") {
            true if folder.components().count() > 3_000 => Vec::new(),
            true => vec![listed("d".to_owned(), ListedKind::Folder)],
            false => (0..19_000).map(|at| listed(format!("f{at}"), ListedKind::Other)).collect(),
        };
        if entries.len() > most { DirListing::Unknown } else { DirListing::Entries(entries) }
    }

    fn find_git_trap(&self, _cwd: &Path) -> Option<PathBuf> {
        None
    }
}

#[test]
fn folders_are_looked_through_in_bounded_time() {
    let closing = rules(&["Read(./.env)", "Read(**/*.pem)", "Read(./secrets/**)", "Read(~/.ssh/**)"], &[], &[]);
    for (text, expected) in [
        ("grep -r x many", Decision::Allow),
        ("grep -r x deep", Decision::Ask),
        ("cat $(find deep -type f)", Decision::Ask),
        ("cat deep/**/a", Decision::Ask),
        ("grep -r x deep many", Decision::Ask),
    ] {
        let needs = [NeedFacts::new(AccessNeed::Run(text.to_owned()), None)];
        let call = ProposedCall { tool: "Bash", also_named: &[], input: None, needs: &needs, needs_person: false };
        let started = Instant::now();
        let found = decide_with_files(&call, &closing, &test_context(PermissionMode::Default), &VastFileView).decision;
        assert!(started.elapsed() < Duration::from_secs(10), "{text} took {:?}", started.elapsed());
        assert_eq!(found, expected, "{text}");
    }
}
