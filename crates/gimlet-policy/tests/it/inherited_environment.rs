//! What a shell has before it reads a command: variables of its environment, variables of its own, and descriptors. No
//! text shows them, so none of them counts as harmless.

use std::sync::Arc;

use gimlet_policy::Decision::{Allow, Ask};
use gimlet_policy::shell::EnvironmentNames;
use gimlet_policy::{Decision, DecisionContext};
use gimlet_proto::PermissionMode::{AcceptEdits, BypassPermissions, Default as Ordinary};
use proptest::prelude::*;
use proptest::sample::select;

use crate::fixtures::{decide_in_context, rules, test_context};

fn decide_with_environment(text: &str, environment: Option<&[&str]>) -> Decision {
    let environment = environment.map(|names| Arc::new(EnvironmentNames::new(names)));
    decide_in_context(text, &rules(&[], &[], &[]), &DecisionContext { environment, ..test_context(Ordinary) })
}

/// Every way in which a reader may be told a name by a variable.
const FORMS: &[&str] = &[
    "cat $@",
    "cat \"$@\"",
    "cat ${@}",
    "cat \"a/$@\"",
    "head -n 3 $@",
    "cat a $@",
    "ls $@",
    "grep x $@",
    "wc -l < a; wc -l $@",
    "[ -f $@ ] && cat a",
    "if true; then cat $@; fi",
    "echo a | xargs cat $@",
    "cat $@*",
    "diff a $@",
];

fn fill_form(form: &str, name: &str) -> String {
    form.replace("{@}", &format!("{{{name}}}")).replace('@', name)
}

#[test]
fn a_variable_is_only_unset_if_the_environment_lacks_it() {
    for form in FORMS {
        let text = fill_form(form, "npm_package_config_k");
        assert_eq!(decide_with_environment(&text, Some(&["npm_package_config_k"])), Ask, "{text}");
        assert_eq!(decide_with_environment(&text, None), Ask, "nobody knows: {text}");
        let plain = fill_form(form, "name");
        assert_eq!(decide_with_environment(&plain, Some(&["name"])), Ask, "{plain}");
    }
    for text in ["cat $name", "cat \"a/$name\"", "head -n 3 $name", "[ -f \"$name\" ] && cat a"] {
        assert_eq!(decide_with_environment(text, Some(&["PATH", "other"])), Allow, "{text}");
    }
}

#[test]
fn what_bash_sets_by_itself_is_never_unset() {
    for name in ["_", "histchars", "auto_resume", "DIRSTACK", "OLDPWD", "REPLY", "BASH_SOURCE", "PS4", "http_proxy"] {
        for form in ["cat $@", "cat \"$@\"", "ls a/$@"] {
            assert_eq!(decide_with_environment(&fill_form(form, name), Some(&[])), Ask, "{form} {name}");
        }
    }
    // A loop may give it a value, but the next command changes that.
    assert_eq!(decide_with_environment("for _ in a; do echo /etc/shadow; cat $_; done", Some(&[])), Ask);
    assert_eq!(decide_with_environment("for _ in a b; do cat a; done", Some(&[])), Allow);
}

#[test]
fn a_loop_gives_a_value_to_its_body_and_to_nothing_else() {
    for names in [&[][..], &["f"]] {
        assert_eq!(decide_with_environment("for f in a b; do cat $f; done", Some(names)), Allow, "{names:?}");
    }
    // Behind a loop over nothing, and in front of one, it is what it was before.
    for text in ["for f in $none; do cat a; done; cat $f", "cat $f; for f in a; do cat b; done"] {
        assert_eq!(decide_with_environment(text, Some(&["f"])), Ask, "{text}");
    }
    assert_eq!(decide_with_environment("for f in a; do cat $f; done; cat $f", Some(&[])), Allow);
}

/// A rule about a builtin says nothing about the variable that it gives a value to.
#[test]
fn what_a_builtin_sets_is_no_longer_unset() {
    let allowed = rules(&[], &[], &["Bash(printf *)", "Bash(wait *)", "Bash(read *)", "Bash(export *)"]);
    for text in [
        "printf -v x /etc/shadow; cat $x",
        "command printf -v x /etc/shadow; cat $x",
        "printf -vx /etc/shadow; cat $x",
        "printf $o /etc/shadow; cat $x",
        "wait -p x; cat $x",
        "wait -np x; cat $x",
        "read x <<< /etc/shadow; cat $x",
        "export x=/etc/shadow; cat $x",
    ] {
        assert_eq!(decide_in_context(text, &allowed, &test_context(Ordinary)), Ask, "{text}");
    }
    for text in ["printf %s a; cat $x", "wait; cat $x", "wait %1; cat $x"] {
        assert_eq!(decide_in_context(text, &allowed, &test_context(Ordinary)), Allow, "{text}");
    }
}

#[test]
fn zsh_sets_variables_that_nobody_listed() {
    let world = DecisionContext { zsh: true, ..test_context(Ordinary) };
    assert_eq!(decide_in_context("cat $path", &rules(&[], &[], &[]), &world), Ask);
}

#[test]
fn edits_of_paths_in_variables_are_not_auto_accepted() {
    for names in [Some(&["d"][..]), None, Some(&[])] {
        let environment = names.map(|names| Arc::new(EnvironmentNames::new(names)));
        let world = DecisionContext { environment, ..test_context(AcceptEdits) };
        assert_eq!(decide_in_context("touch $d/x", &rules(&[], &[], &[]), &world), Ask, "{names:?}");
    }
}

const OPEN_DESCRIPTORS: &[&str] = &[
    "echo x >&3",
    "echo x >&10",
    "echo x 1>&63",
    "echo x >&003",
    "cat <&3",
    "cat <&63",
    "cat 0<&10",
    "cat <&10-",
    "ls >&3 3>/dev/null",
    "ls 3>/dev/null; echo x >&3",
    "{ ls 3>/dev/null; } >&3",
    "ls 4>/dev/null >&3",
    "echo x {fd}>&3",
    "echo x >&$x",
    "cat <&$x",
    "for f in a; do cat; done <&3",
    "(echo x) >&5",
    "echo $(cat <&9)",
];

#[test]
fn a_descriptor_that_the_text_did_not_open_may_lead_anywhere() {
    for text in OPEN_DESCRIPTORS {
        assert_eq!(decide_with_environment(text, Some(&[])), Ask, "{text}");
        let all = rules(&[], &[], &["Bash"]);
        assert_eq!(
            decide_in_context(text, &all, &test_context(Ordinary)),
            Ask,
            "a rule about commands is none about files: {text}"
        );
        let kept = rules(&["Edit(./kept/**)", "Read(./kept/**)"], &[], &[]);
        assert_eq!(decide_in_context(text, &kept, &test_context(BypassPermissions)), Ask, "{text}");
    }
    for text in [
        "echo x >&2",
        "ls 2>&1",
        "ls 2>&1 >/dev/null",
        "ls 3>&1 1>&2 2>&3",
        "ls 3>&1 1>&2 2>&3 3>&-",
        "{ ls >&3; } 3>/dev/null",
        "{ ls 2>&3 | cat; } 3>&1",
        "for f in a; do cat <&4; done 4<a",
        "ls 3>/dev/null >&3",
        "ls 9>&-",
    ] {
        assert_eq!(decide_with_environment(text, Some(&[])), Allow, "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// More variables in the environment never make anything freer.
    #[test]
    fn a_larger_environment_never_frees(form in select(FORMS), name in select(&["a", "x_y", "file", "F", "_", "PWD"][..]), set in any::<bool>()) {
        let text = fill_form(form, name);
        let (none, some) = (decide_with_environment(&text, Some(&[])), decide_with_environment(&text, Some(if set { &["a", "x_y", "file"] } else { &["other"] })));
        prop_assert!(none <= some && some <= decide_with_environment(&text, None), "{}", text);
    }
}
