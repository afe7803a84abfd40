//! Rules that close files, beside readers that cannot reach them: what a pattern, a loop or a walk provably leaves alone is
//! read without a question, and what it may reach asks.

use gimlet_policy::Decision::{Allow, Ask, Deny};
use gimlet_policy::RuleSet;
use gimlet_proto::PermissionMode;

use crate::fixtures::{decide_by_default, decide_with_table, exact_repository, rules};

fn read_deny_rules() -> RuleSet {
    rules(&["Read(./.env)", "Read(**/*.pem)", "Read(./secrets/**)"], &[], &[])
}

const FILES: &[(&str, Option<&str>)] = &[
    ("a.txt", None),
    (".env", None),
    ("secrets/k", None),
    ("src/a.rs", None),
    ("src/deep/b.rs", None),
    ("certs/x.pem", None),
];

#[test]
fn reads_that_cannot_reach_a_denied_file_run() {
    let files = exact_repository(FILES);
    for text in [
        "cat src/*.rs",
        "cat src/{a,deep/b}.rs",
        "grep -rn --include=*.{rs,txt} x .",
        "wc -l *",
        "grep -i x *",
        "head -3 src/*",
        "grep -rn x src",
        "rg x src",
        "rg -l x src",
        "grep -rn --include=*.rs x src",
        "grep -rn x --include='*.rs' --include=*.txt .",
        "diff -r src src/deep",
        "diff a.txt src/a.rs",
        "for f in src/*.rs; do wc -l $f; done",
        "for f in src/*.rs; do echo \"$f\"; head -3 \"$f\"; done",
        "for f in a.txt src/a.rs; do cat $f; done",
        "for f in src/*.rs; do wc -l < \"$f\"; done",
        "for f in a.txt src/a.rs; do echo \"$f: $(wc -l < \"$f\")\"; done",
        "for f in $(find src -type f); do head -1 < $f; done",
        "for f in $(find src -type f); do cat $f; done",
        "for f in $(ls src); do echo $f; done",
        "for f in a b; do ls | grep \"^$f\"; done",
        "date -f a.txt; date +%s",
        "find src -name '*.rs' | xargs wc -l",
        "cat $(find src -type f)",
        "find . -name '*.rs' -print | xargs wc -l",
        "cd src && cat a.rs",
        "cd src && grep -n x *.rs",
        "diff <(sort a.txt) <(sort src/a.rs)",
        "cat src/**/*.rs",
    ] {
        assert_eq!(decide_with_table(text, &files, &read_deny_rules(), PermissionMode::Default), Allow, "{text}");
    }
}

#[test]
fn reads_that_may_reach_a_denied_file_ask() {
    let files = exact_repository(FILES);
    for text in [
        "grep -rn x .",
        "grep -rn x",
        "grep -rn x --include='*.p?m' .",
        "grep -rn x --include=k .",
        "grep -rn x --exclude=a --include='*.rs' .",
        "grep -rn x --include='*.rs' --include \"$x\" .",
        "grep -rv --include .env -- --include=x .",
        "grep -rv --include .env -e --include=x .",
        "grep -rv --include=.env -m --include=x x .",
        "grep -rv --include .env x .",
        "grep -rv -m --include=x y .",
        "rg x",
        "rg x certs",
        "cd src && grep -r x ..",
        "cat $x",
        "find . | xargs cat",
        "find . -type f | xargs grep x",
        "find . -print -name '*.rs' | xargs cat",
        "cat $(find . -print -name '*.rs')",
        "wc -l $(find . -path ./.env -print -name x)",
        "find . -newer -name -type f | xargs cat",
        "for f in $(find . -name .env); do cat $f; done",
        "for f in $(find . -type f); do cat \"$f\"; done",
        "for f in $(find . -type f); do wc -l < \"$f\"; done",
        "for f in $(find . -name .env); do wc -l < $f; done",
        "for f in a.txt $(find . -type f); do cat $f; done",
        "for f in $(ls); do grep -r x \"$f\"; done",
        "for f in $(pwd); do grep -r x $f; done",
        "for f in $(pwd); do grep -r x a.txt $f; done",
        "for f in $(find . -name .env); do echo; done; cat $f",
        "for f in $(find . -name .env); do date -f $f; done",
        "date -f $(find . -name .env)",
        "diff -r . src",
        "diff . src",
        "diff --no-dereference . src",
        "diff -r --no-dereference . src",
    ] {
        assert_eq!(decide_with_table(text, &files, &read_deny_rules(), PermissionMode::Default), Ask, "{text}");
    }
    for text in [
        "for f in *; do grep -r x \"$f\"; done",
        "grep -r x *",
        "cat {.env,a}",
        "cat .{env,x}",
        "tool {.env,a}",
        "cat .e*",
        "cat .[e]nv",
        "cat cert?/*",
        "for f in .env; do cat $f; done",
        "for f in .env; do cat < $f; done",
        "for f in .e*; do cat < $f; done",
        "for f in certs/*; do cat \"$f\"; done",
        "for f in certs/*; do cat < \"$f\"; done",
        "cat secrets/*",
        "grep x */k",
        "grep -r x s*",
        "cd certs && cat x.pem",
    ] {
        let found = decide_with_table(text, &files, &read_deny_rules(), PermissionMode::Default);
        assert_ne!(found, Allow, "{text}");
        assert_ne!(
            decide_with_table(text, &files, &read_deny_rules(), PermissionMode::BypassPermissions),
            Allow,
            "{text}"
        );
    }
}

#[test]
fn a_folder_denied_by_name_is_denied_recursively() {
    let files = exact_repository(&[("a", None), ("safe/one/two/k", None)]);
    let closing = rules(&["Read(./safe)"], &[], &[]);
    assert_eq!(decide_with_table("grep -r x .", &files, &closing, PermissionMode::Default), Ask);
    assert_eq!(decide_with_table("rg x --glob '*.rs'", &files, &closing, PermissionMode::Default), Ask);
    assert_eq!(decide_with_table("grep -r --include='*.rs' x .", &files, &closing, PermissionMode::Default), Allow);
}

#[test]
fn a_link_to_a_closed_file_is_closed_to_patterns_and_lists() {
    let files = exact_repository(&[FILES, &[("src/l.rs", Some("../.env")), ("in", Some("secrets"))]].concat());
    for text in ["cat src/*.rs", "for f in src/*; do cat $f; done", "find src -name '*.rs' | xargs cat", "cat in/*"] {
        for mode in [PermissionMode::Default, PermissionMode::BypassPermissions] {
            assert_ne!(decide_with_table(text, &files, &read_deny_rules(), mode), Allow, "{text} in {mode}");
        }
    }
    assert_eq!(decide_with_table("grep -r x in", &files, &read_deny_rules(), PermissionMode::Default), Deny);
    assert_eq!(
        decide_with_table("grep -rn x src", &files, &read_deny_rules(), PermissionMode::Default),
        Allow,
        "no link is followed there"
    );
}

#[test]
fn a_pattern_alone_says_which_files_it_cannot_name() {
    // Nobody has looked into a folder here.
    for text in ["cat src/*.rs", "wc -l *.txt", "grep -rn x src/*.d", "for f in src/*.rs; do cat $f; done"] {
        assert_eq!(decide_by_default(text, &rules(&["Read(./.env)", "Read(./secrets/**)"], &[], &[])), Allow, "{text}");
    }
    for text in ["cat .e*", "cat */k", "grep -r x *", "rg x", "cat s*/*"] {
        assert_eq!(decide_by_default(text, &read_deny_rules()), Ask, "{text}");
    }
    assert_eq!(decide_by_default("cat src/*", &read_deny_rules()), Ask, "a certificate may lie there");
}

#[test]
fn what_the_text_itself_may_make_is_not_seen_beforehand() {
    let files = exact_repository(FILES);
    let allowing = rules(&["Read(**/*.pem)"], &[], &["Bash(make:*)", "Bash(git checkout:*)"]);
    for text in ["make && cat src/*", "make; grep -r x src", "git checkout x && cat src/*.rs"] {
        assert_eq!(decide_with_table(text, &files, &allowing, PermissionMode::Default), Ask, "{text}");
    }
    for text in ["make && cat src/*.rs", "make; cat a.txt", "cat src/*"] {
        assert_eq!(decide_with_table(text, &files, &allowing, PermissionMode::Default), Allow, "{text}");
    }
}

#[test]
fn a_text_inside_a_text_is_not_taken_for_what_it_looks_like() {
    let files = exact_repository(FILES);
    let text = "for f in a.txt; do cat $f; done; f=.env bash -c 'cat $f'";
    assert_eq!(decide_with_table(text, &files, &read_deny_rules(), PermissionMode::BypassPermissions), Ask);
}

#[test]
fn a_read_elsewhere_needs_a_rule_for_that_place() {
    let allowing = rules(&[], &[], &["Read(//etc/**)", "Read(~/.ssh/**)"]);
    for text in ["cat /etc/passwd", "head -3 /etc/hosts | wc -l", "grep x /etc/hosts a.txt", "sed -n 1,3p /etc/hosts"] {
        assert_eq!(decide_by_default(text, &allowing), Allow, "{text}");
        assert_eq!(decide_by_default(text, &RuleSet::default()), Ask, "{text}");
    }
    for text in [
        "cat /etc/shadow",
        "cat < /etc/shadow",
        "cat < /home/dev/.ssh/id",
        "cat /var/log/x",
        "cat /etc/passwd /var/log/x",
        "cat /etc/../root/x",
        "grep -r x /etc",
        "cat /home/dev/.ssh/id",
        "cat /proc/self/root/etc/passwd",
        "cat /etc/passwd > out",
    ] {
        assert_eq!(decide_by_default(text, &allowing), Ask, "{text}");
    }
    assert_eq!(decide_by_default("cat /etc/passwd", &rules(&["Read(//etc/passwd)"], &[], &["Read(//etc/**)"])), Deny);
    let linked = exact_repository(&[("l", Some("/var/log/x")), ("m", Some("/etc/passwd")), ("s", Some("/etc/shadow"))]);
    assert_eq!(decide_with_table("cat l", &linked, &allowing, PermissionMode::Default), Ask);
    assert_eq!(decide_with_table("cat s", &linked, &allowing, PermissionMode::Default), Ask);
    assert_eq!(decide_with_table("cat < s", &linked, &allowing, PermissionMode::Default), Ask);
    assert_eq!(decide_with_table("cat < m", &linked, &allowing, PermissionMode::Default), Allow);
    assert_eq!(decide_with_table("cat m", &linked, &allowing, PermissionMode::Default), Allow);
}

#[test]
fn a_path_in_the_home_directory_is_held_against_the_rules_that_can_mean_it() {
    let closing = rules(&["Read(~/private/**)", "Edit(~/notes/kept)"], &[], &[]);
    let judge =
        |text: &str| decide_with_table(text, &exact_repository(FILES), &closing, PermissionMode::BypassPermissions);
    for text in [
        "cat ~/private/k",
        "cat ~/x/../private/k",
        "grep -n x ~/private/k",
        "head -n 1 < ~/private/k",
        "echo x > ~/notes/kept",
        "cp a ~/notes/kept",
    ] {
        assert_eq!(judge(text), Deny, "{text}");
    }
    for text in
        ["cat ~/.aws/credentials", "cat ~/notes/kept", "wc -l ~/notes.txt", "echo x > ~/notes/other", "rm -r ~/old"]
    {
        assert_eq!(judge(text), Allow, "{text}");
    }
    for text in [
        "grep -r x ~/",
        "grep -r x ~",
        "rg x ~",
        "tar cf a.tar ~",
        "rm -r ~/notes",
        "cat ~/$x",
        "cat ~/p*",
        "cat ~other/private/k",
        // Home may be somewhere else by then.
        "HOME=/home/dev/private; cat ~/k",
        "export HOME=/home/dev/private; cat ~/k",
        "export H''OME=/home/dev/private; cat ~/k",
        "read HOME; cat ~/k",
        "for HOME in /home/dev/private; do cat ~/k; done",
        "printf -v HOME /home/dev/private; cat ~/k",
        "eval \"$x\"; cat ~/k",
        "$x HOME=/home/dev/private; cat ~/k",
        "source x; cat ~/k",
        "bash -c 'HOME=/home/dev/private; cat ~/k'",
        "f() { HOME=/home/dev/private; }; f; cat ~/k",
        ": ${HOME:=/home/dev/private}; cat ~/k",
        "unset HOME; HOME=/x cat ~/k",
    ] {
        assert_ne!(judge(text), Allow, "{text}");
    }
    // In the modes that ask, nothing is let through by it.
    let ask = |text: &str| {
        decide_with_table(text, &exact_repository(FILES), &RuleSet::default(), PermissionMode::AcceptEdits)
    };
    for text in ["cat ~/x", "cat < ~/x", "echo x > ~/x", "touch ~/x"] {
        assert_eq!(ask(text), Ask, "{text}");
    }
}

/// A link may have any name by then that the text gives.
#[test]
fn reading_a_name_created_by_the_same_command_asks() {
    let files =
        exact_repository(&[("a.txt", None), ("secrets/k", None), ("sub/dang", Some("secrets/k")), ("sub/b", None)]);
    let allowing = rules(&["Read(./secrets/**)"], &[], &["Bash(mv *)", "Bash(ln *)", "Bash(cp *)", "Bash(cat *)"]);
    for text in [
        "ln -s ../secrets sub/q; cat sub/q/k",
        "mv sub/dang dang; cat dang",
        "cp -P sub/dang dang; cat dang",
        "cp -a sub x; cat x/dang",
        "mv sub x; cat x/dang",
        "ln -s secrets ~/dl; cat ~/dl/k",
        "ln -s -- secrets/k -x; cat ./-x",
    ] {
        for mode in [PermissionMode::Default, PermissionMode::BypassPermissions] {
            assert_ne!(decide_with_table(text, &files, &allowing, mode), Allow, "{text}");
        }
    }
    for text in ["cp a.txt c.txt; cat sub/b", "mv a.txt c.txt; cat sub/b"] {
        assert_eq!(decide_with_table(text, &files, &allowing, PermissionMode::Default), Allow, "{text}");
    }
}

#[test]
fn a_home_that_a_condition_may_change_is_not_known() {
    let files = exact_repository(FILES);
    for text in ["[[ HOME=11 -eq 11 ]]; cat ~/../.env", "test -v 'a[HOME=11]'; cat ~/../.env"] {
        assert_ne!(
            decide_with_table(text, &files, &read_deny_rules(), PermissionMode::BypassPermissions),
            Allow,
            "{text}"
        );
    }
}

/// Some readers are told in a script what else to open.
#[test]
fn a_closed_file_inside_the_script_of_a_reader_asks() {
    let files = exact_repository(FILES);
    let readers = ["Bash(sed:*)", "Bash(awk:*)", "Bash(gawk:*)", "Bash(du:*)", "Bash(find:*)", "Bash(split:*)"];
    let closed = rules(&["Read(./.env)"], &[], &readers);
    for text in [
        "sed 'r .env' a.txt",
        "sed -n '1r .env' a.txt",
        "sed 'R.env' a.txt",
        "sed -e 1d -e '$r ./.env' a.txt",
        "sed -e'r .env' a.txt",
        "sed --expression='r .env' a.txt",
        "sed '1e cat .env' a.txt",
        "sed 's/.*/cat .env/e' a.txt",
        "sed 's/.*/cat &/e' <<< .env",
        "awk 'BEGIN { getline l < \".env\"; print l }'",
        "awk '{ while ((getline l < $0) > 0) print l }' <<< .env",
        "awk '{ system(\"cat .env\") }' a.txt",
        "gawk '@include \".env\"'",
        "split --filter='cat .env' a.txt",
        "du --files0-from=.env",
        "du --files0 .env",
        "find -files0-from .env",
    ] {
        assert_eq!(decide_with_table(text, &files, &closed, PermissionMode::Default), Ask, "{text}");
        assert_eq!(decide_with_table(text, &files, &closed, PermissionMode::BypassPermissions), Ask, "{text}");
    }
    for text in [
        "sed 's/a .env b/c/' a.txt",
        "sed 's/\\.env/x/g' a.txt",
        "sed -n '/.env/p' a.txt",
        "awk '/.env/ { print $1 }' a.txt",
        "awk '$1 > 3 || $2 == 1' a.txt",
        "echo .env | sed 's/x/y/'",
        "du -sh .",
        "find . -name .env",
    ] {
        assert_eq!(decide_with_table(text, &files, &closed, PermissionMode::Default), Allow, "{text}");
    }
}
