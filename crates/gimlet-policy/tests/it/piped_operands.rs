//! Readers that get their operands from other commands: where these print nothing but names that can be told beforehand,
//! nobody needs to be asked.

use gimlet_policy::Decision::{Allow, Ask};
use gimlet_policy::RuleSet;
use gimlet_proto::PermissionMode::Default as Ordinary;
use proptest::prelude::*;
use proptest::sample::select;

use crate::fixtures::{decide_by_default, decide_with_table, exact_repository, rules};

const READERS: &[&str] = &["cat", "wc -l", "head -n 3", "ls -la", "grep -n x", "grep -c ''", "stat"];
/// Commands that print names of files, and filters that pick some of them.
const LISTS: &[&str] = &[
    "ls",
    "ls -t src",
    "find . -name '*.rs'",
    "rg -l x",
    "git ls-files",
    "git ls-files '*.md' src",
    "git ls-files -m",
    "git diff --name-only",
    "git diff --name-only --cached",
    "git diff --name-only HEAD -- src",
];
const FILTERS: &[&str] = &["", " | head -1", " | sort -u", " | grep -v test", " | grep -iE 'a|b' | tail -n 2"];
/// What prints, or lets through, anything at all.
const STRANGE_LISTS: &[&str] = &[
    "cat list",
    "git diff --name-only HEAD~1",
    "git log --name-only --format=",
    "git ls-files -s",
    "git ls-files | grep -o '/.*'",
    "git ls-files | grep x list",
    "git ls-files | cut -c 2-",
    "git ls-files | sort list",
    "ls | sort <<< /etc/passwd",
    "ls | head -1 < list",
    "ls | head 1",
    "ls | tail -n 1 2",
    "find src -version",
    "ls none 2>&1",
    "2>&1 ls none",
    "{ ls none; } 2>&1",
    "find none 2>&1 | head -1",
    "find none |& tail -n 1",
    "ls | grep '[' 2>&1",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn lists_of_names_may_be_read(reader in select(READERS), list in select(LISTS), filter in select(FILTERS)) {
        for text in [
            format!("{list}{filter} | xargs {reader}"),
            format!("{list}{filter} | xargs {reader} | wc -l"),
            format!("{list}{filter} | xargs {reader} 2>&1"),
            format!("{list} 2>/dev/null{filter} | xargs {reader} 2>&1 | wc -l"),
            format!("{reader} $({list}{filter})"),
            format!("{reader} $({list}{filter}) 2>&1 | tail -1"),
            format!("{reader} \"$({list}{filter})\""),
            format!("for f in $({list}{filter}); do {reader} \"$f\"; done"),
        ] {
            prop_assert_eq!(decide_by_default(&text, &RuleSet::default()), Allow, "{}", text);
        }
    }

    #[test]
    fn other_texts_may_not(reader in select(READERS), list in select(STRANGE_LISTS)) {
        for text in [
            format!("{list} | xargs {reader}"),
            format!("{reader} $({list})"),
            format!("for f in $({list}); do {reader} \"$f\"; done"),
        ] {
            prop_assert_eq!(decide_by_default(&text, &RuleSet::default()), Ask, "{}", text);
        }
    }

    #[test]
    fn values_with_blanks_stay_whole_in_quotes_alone(reader in select(READERS), value in select(&["my file", "a*", "a b/c", "[x]"])) {
        let quoted = format!("for f in '{value}' other; do {reader} \"$f\"; done");
        prop_assert_eq!(decide_by_default(&quoted, &RuleSet::default()), Allow, "{}", quoted);
        for word in ["$f", "\"$f\"$f", "x$f", "${f}"] {
            let text = format!("for f in '{value}' other; do {reader} {word}; done");
            prop_assert_eq!(decide_by_default(&text, &RuleSet::default()), Ask, "{}", text);
        }
    }
}

#[test]
fn xargs_without_input_gets_no_operands() {
    for text in ["xargs cat", "xargs grep foo", "ls; xargs ls -la"] {
        assert_eq!(decide_by_default(text, &RuleSet::default()), Allow, "{text}");
    }
    let allowing = rules(&[], &[], &["Bash(tool:*)", "Bash(tee:*)"]);
    for text in [
        "xargs cat < list",
        "xargs cat <<< /etc/passwd",
        "ls | xargs cat <<< /etc/passwd",
        "cat list | { xargs cat; }",
        "cat list | (xargs cat)",
        "cat list | while true; do xargs cat; done",
        "cat list | cat $(xargs cat)",
        "tool >(xargs cat)",
        "cat list | tee >(xargs cat)",
        "xargs touch",
        "xargs sort -o x",
    ] {
        assert_eq!(decide_by_default(text, &allowing), Ask, "{text}");
    }
}

#[test]
fn the_directory_may_begin_a_word() {
    for text in ["cat \"$(pwd)/a\"", "ls $(pwd)/src"] {
        assert_eq!(decide_by_default(text, &RuleSet::default()), Allow, "{text}");
    }
    for text in ["cat \"$(pwd)/../x\"", "cd src; cat \"$(pwd)/a\"", "cd /etc && cat \"$(pwd)/a\"", "cat \"$(pwd).x/a\""]
    {
        assert_eq!(decide_by_default(text, &RuleSet::default()), Ask, "{text}");
    }
}

#[test]
fn names_that_git_keeps_are_looked_at() {
    let plain = [("a.rs", None), ("src/b.rs", None)];
    let (link, option, blank) = (("l", Some("/etc/passwd")), ("-r", None), ("a /etc/passwd", None));
    let with = |more: (&'static str, Option<&'static str>)| exact_repository(&[plain[0], plain[1], more]);
    for text in
        ["git ls-files | xargs cat", "cat $(git ls-files)", "for f in $(git diff --name-only); do cat \"$f\"; done"]
    {
        assert_eq!(decide_with_table(text, &exact_repository(&plain), &RuleSet::default(), Ordinary), Allow, "{text}");
        for odd in [link, option, blank] {
            assert_eq!(decide_with_table(text, &with(odd), &RuleSet::default(), Ordinary), Ask, "{text} with {odd:?}");
        }
        let closed = rules(&["Read(.env)"], &[], &[]);
        assert_ne!(decide_with_table(text, &with((".env", None)), &closed, Ordinary), Allow, "{text}");
    }
}
