//! What must hold for every text and every set of rules: more forbidding never allows more, and neither putting a text
//! somewhere else nor quoting a word makes it freer.

use std::path::PathBuf;

use gimlet_policy::Decision;
use gimlet_policy::shell::{ShellFacts, Word, analyse};
use gimlet_proto::PermissionMode;
use proptest::prelude::*;
use proptest::sample::select;

use crate::fixtures::{decide_by_default, decide_command, rules};

const DENY: &[&str] = &["Bash(curl:*)", "Bash(rm:*)", "Bash(git push:*)", "Read(.env)", "Edit(src/**)", "Bash(* x)"];
const ALLOW: &[&str] = &["Bash(npm run:*)", "Bash(make:*)", "Bash(git * main)", "Bash", "Edit(out/**)", "Bash(curl:*)"];

/// Commands with words of every kind.
fn simple_command() -> impl Strategy<Value = String> {
    let head = select(&[
        "ls",
        "cat",
        "echo",
        "npm run",
        "make",
        "curl",
        "rm",
        "git push",
        "git log",
        "grep x",
        "sort",
        "find .",
        "sudo",
        "timeout 5 ls",
        "CI=1 make",
        "A=1 make",
        "cd sub",
        "[ -f a ]",
        "xargs cat",
        "bash -c",
        "head -n 3",
    ]);
    let word = select(&[
        "",
        "a",
        "x",
        "$x",
        "\"$x\"",
        "'a b'",
        "*",
        "~",
        ".env",
        "main",
        "/etc/x",
        "$(ls)",
        "> out/a",
        "> /dev/null",
        "2>&1",
        "< a",
        "-rf",
    ]);
    (head, prop::collection::vec(word, 0..3)).prop_map(|(head, words)| format!("{head} {}", words.join(" ")))
}

fn command_text() -> impl Strategy<Value = String> {
    (prop::collection::vec(simple_command(), 1..4), select(&["; ", " && ", " || ", " | ", "\n"]))
        .prop_map(|(parts, join)| parts.join(join))
}

fn some_rules(list: &'static [&'static str]) -> impl Strategy<Value = Vec<&'static str>> {
    prop::sample::subsequence(list, 0..list.len())
}

fn facts(roots: &[PathBuf]) -> ShellFacts<'_> {
    ShellFacts { cwd: "/srv/repo".as_ref(), roots, home: None, environment: None }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn adding_a_deny_or_ask_rule_never_frees(text in command_text(), deny in some_rules(DENY), ask in some_rules(DENY), allow in some_rules(ALLOW), new in select(DENY), mode in select(&PermissionMode::ALL[..])) {
        let before = decide_command(&text, &rules(&deny, &ask, &allow), mode);
        let more: Vec<&str> = deny.iter().copied().chain([new]).collect();
        prop_assert!(decide_command(&text, &rules(&more, &ask, &allow), mode) >= before, "{:?} with {}", text, new);
        let more: Vec<&str> = ask.iter().copied().chain([new]).collect();
        prop_assert!(decide_command(&text, &rules(&deny, &more, &allow), mode) >= before, "{:?} with {}", text, new);
    }

    #[test]
    fn adding_an_allow_rule_never_lifts_a_denial(text in command_text(), deny in some_rules(DENY), allow in some_rules(ALLOW), new in select(ALLOW)) {
        let more: Vec<&str> = allow.iter().copied().chain([new]).collect();
        if decide_by_default(&text, &rules(&deny, &[], &allow)) == Decision::Deny {
            prop_assert_eq!(decide_by_default(&text, &rules(&deny, &[], &more)), Decision::Deny);
        }
    }

    #[test]
    fn wrapping_never_turns_a_question_into_a_permission(text in command_text(), deny in some_rules(DENY), allow in some_rules(ALLOW), frame in select(&[
        "(@)", "{ @; }", "{ @\n}", "if true; then @\nfi", "echo \"$(@)\"", "echo $(@)", "while false; do @\ndone", "for f in a; do @\ndone",
        "case a in b) @\n;; esac", "true && { @\n}", "cat <(@)", "! (@)",
    ])) {
        let rules = rules(&deny, &[], &allow);
        let before = decide_by_default(&text, &rules);
        let wrapped = frame.replace('@', &text);
        let after = decide_by_default(&wrapped, &rules);
        prop_assert!(before == Decision::Allow || after != Decision::Allow, "{:?} became {:?}", text, wrapped);
        // Of a text that is not understood, more or less may be found.
        let understood = analyse(&text, &facts(&["/srv/repo".into()])).trouble.is_none();
        let kept = if understood { Decision::Deny } else { Decision::Ask };
        prop_assert!(before != Decision::Deny || after >= kept, "{:?} softened in {:?}", text, wrapped);
    }

    #[test]
    fn what_is_allowed_has_every_command_allowed(text in command_text(), allow in some_rules(&ALLOW[..3])) {
        let rules = rules(&[], &[], &allow);
        if decide_by_default(&text, &rules) == Decision::Allow {
            let roots = ["/srv/repo".into()];
            for words in analyse(&text, &facts(&roots)).commands {
                prop_assert!(words.first().is_some_and(|name| name.value().is_some()), "{:?}", text);
                // Alone, each static command is allowed as well.
                if let Some(words) = words.iter().map(Word::value).collect::<Option<Vec<_>>>() {
                    let alone = words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
                    let alone = alone.replacen("'timeout'", "timeout", 1);
                    let fed = words[0] == "xargs";
                    prop_assert!(fed || decide_by_default(&alone, &rules) == Decision::Allow || words[0] == "[", "{:?} in {:?}", alone, text);
                }
            }
        }
    }

    #[test]
    fn quoting_static_words_never_changes_the_decision(
        words in prop::collection::vec(select(&["git", "push", "npm", "run", "cat", "curl", "a", ".env", "-l", "sudo", "rm", "ls", "timeout", "5", "make", "/etc/x"]), 1..5),
        quotes in prop::collection::vec(0..4usize, 5),
        deny in some_rules(DENY),
        allow in some_rules(ALLOW),
    ) {
        let quoted: Vec<String> = words.iter().zip(&quotes).map(|(word, quote)| match quote {
            0 => (*word).to_owned(),
            1 => format!("'{word}'"),
            2 => format!("\"{word}\""),
            _ => format!("\\{word}"),
        }).collect();
        let rules = rules(&deny, &[], &allow);
        prop_assert_eq!(decide_by_default(&words.join(" "), &rules), decide_by_default(&quoted.join(" "), &rules), "{:?}", quoted);
    }
}
