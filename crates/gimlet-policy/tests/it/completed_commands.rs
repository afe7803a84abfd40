//! Commands that other programs complete: nobody knows the words that `xargs`, `parallel` and `find` put into them, so a
//! rule that forbids for some of these asks.

use gimlet_policy::Decision::{Allow, Ask, Deny};
use gimlet_proto::PermissionMode::{BypassPermissions, Default as Ordinary};
use proptest::prelude::*;
use proptest::sample::select;

use crate::fixtures::{decide_by_default, decide_command, rules};

/// What feeds a command.
const FEEDS: &[&str] =
    &["echo push | @", "cat x | @", "ls | @", "@ <<< push", "@ < list", "printf 'push origin' | @", "@"];
/// Programs that complete `git`, without options and with them.
const PLAIN: &[&str] = &["xargs git", "xargs timeout 5 git", "nohup xargs git", "xargs nice xargs git"];
const TOLD: &[&str] = &[
    "xargs -n1 git",
    "xargs -t -L 1 git",
    "xargs -I{} git {}",
    "xargs -0I % git % origin",
    "xargs --replace git {}",
    "xargs -i git {} origin",
    "xargs -I{} sh -c 'git {}'",
    "xargs bash -c",
    "xargs -L1 env",
    "xargs -I{} {} push origin",
    "sudo xargs git",
    "xargs -I% xargs -I{} git {} %",
    "parallel git",
    "parallel -j4 git {}",
    "parallel 'git {} origin'",
    "parallel",
    "find push -exec git {} \\;",
    "find . -execdir git {} \\;",
    "find $x -exec git {} \\;",
    "find . -exec sh -c 'git {}' \\;",
    "entr git /_",
    "sh -c 'xargs git'",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn added_words_are_held_against_rules_that_forbid(
        feed in select(FEEDS),
        plain in select(PLAIN),
        told in select(TOLD),
        rule in select(&["Bash(git push:*)", "Bash(git push *)", "Bash(git pu*)", "Bash(git push origin)"]),
    ) {
        for command in [plain, told] {
            let text = feed.replace('@', command);
            prop_assert_ne!(decide_by_default(&text, &rules(&[rule], &[], &["Bash"])), Allow, "{} by {}", text, rule);
            prop_assert_ne!(decide_by_default(&text, &rules(&[], &[rule], &["Bash"])), Allow, "{} by {}", text, rule);
            prop_assert_ne!(decide_command(&text, &rules(&[rule], &[], &[]), BypassPermissions), Allow, "{} by {}", text, rule);
        }
        let text = feed.replace('@', plain);
        prop_assert_ne!(decide_by_default(&text, &rules(&[rule], &[], &["Bash(git:*)"])), Allow, "{} by {}", text, rule);
    }

    #[test]
    fn rules_about_something_else_are_not_in_the_way(feed in select(FEEDS), other in select(&["git commit", "git add", "wc -l"])) {
        for command in PLAIN.iter().chain(&["xargs -n1 git", "xargs -I{} git {}", "parallel git"]) {
            let text = feed.replace('@', &command.replace("git", other));
            let (denying, allow) = (["Bash(git push:*)", "Bash(curl:*)"], format!("Bash({other}:*)"));
            prop_assert_eq!(decide_command(&text, &rules(&denying, &[], &[]), BypassPermissions), Allow, "{}", text);
            if PLAIN.contains(command) && !text.contains('<') {
                prop_assert_eq!(decide_by_default(&text, &rules(&denying, &[], &[&allow, "Bash(cat:*)"])), Allow, "{}", text);
            }
        }
    }
}

#[test]
fn what_is_forbidden_by_options_and_names_asks() {
    let denying = rules(
        &[
            "Bash(kubectl delete:*)",
            "Bash(rm -rf:*)",
            "Bash(curl:*)",
            "Bash(npm publish)",
            "Bash(docker run --privileged:*)",
        ],
        &[],
        &[],
    );
    for text in [
        "echo delete pod x | xargs kubectl",
        "echo -rf src | xargs rm",
        "cat cmds | xargs -L1 env",
        "echo publish | xargs npm",
        "echo --privileged x | xargs docker run",
        "cat cmds | parallel",
    ] {
        assert_eq!(decide_command(text, &denying, BypassPermissions), Ask, "{text}");
    }
    // What is certain stays so, and what `find` found begins with where it looked.
    assert_eq!(decide_command("ls | xargs rm -rf", &denying, BypassPermissions), Deny);
    for text in [
        "find . | xargs -I{} mv {} dst/",
        "find . | xargs -I{} -0 mv {} dst/",
        "ls | parallel -k gzip {}",
        "ls | xargs -n1 -P4 wc -l",
    ] {
        assert_eq!(decide_command(text, &denying, BypassPermissions), Allow, "{text}");
    }
    for text in ["find . -name x -exec rm {} \\;", "find ./a /srv/repo/b -exec rm {} +", "ls | xargs npm ls"] {
        assert_eq!(decide_command(text, &denying, BypassPermissions), Allow, "{text}");
    }
}

#[test]
fn words_that_may_turn_into_none_complete_nothing() {
    let denying = rules(&["Bash(npm run deploy)"], &[], &[]);
    for word in ["$x", "$x$y", "${x:+}${x:-}", "$(true)$(true)", "$x\\\n$y", "$x\"$@\""] {
        for text in
            [format!("npm run deploy {word}"), format!("npm run {word} deploy"), format!("npm {word} run deploy")]
        {
            assert_ne!(decide_command(&text, &denying, BypassPermissions), Allow, "{text}");
            assert_ne!(decide_command(&text, &denying, Ordinary), Allow, "{text}");
        }
    }
}

#[test]
fn a_directory_behind_a_tilde_is_known_by_none_of_its_letters() {
    let denying = rules(&["Bash(tool /srv/repo)", "Bash(tool /home/me/x *)"], &[], &[]);
    for text in ["tool ~+", "tool ~-", "tool ~", "tool ~me/x", "tool ~me/x y", "tool ~+/x"] {
        assert_eq!(decide_command(text, &denying, BypassPermissions), Ask, "{text}");
    }
    for text in ["tool a~+", "tool '~+'"] {
        assert_eq!(decide_command(text, &denying, BypassPermissions), Allow, "{text}");
    }
}
