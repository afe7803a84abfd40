//! The decision on a command under any rules of every scope and in every mode.
//!
//! More forbidding never allows more, more allowing never lifts a denial, and neither putting a text between brackets nor
//! quoting a word makes it freer. What is allowed has every command allowed.

use gimlet_policy::shell::{Trouble, Word};
use gimlet_policy::{Behavior, Call, Decision, NeedFacts, RuleScope, RuleSet, RuleSource, World, decide};
use gimlet_proto::{Need, PermissionMode};
use std::sync::Arc;

use crate::Target;
use crate::corpus::shell_rows;
use crate::fields::{join, texts};
use crate::shell_parse::{analysed, quoted};

/// Fields: a command, the deny rules, the ask rules, the allow rules (one on a line), one more rule, and by its length the
/// mode and the scope of the rules.
pub const TARGET: Target = Target { name: "shell_decide", run, seeds, words: crate::shell_parse::WORDS };

/// Ways to put a text into another. The line break ends a comment, the blank keeps `((` apart.
const FRAMES: [(&str, &str); 6] = [
    ("( ", "\n)"),
    ("{ ", "\n}"),
    ("if true; then ", "\nfi"),
    ("echo $( ", "\n)"),
    ("echo \"$( ", "\n)\""),
    ("while false; do ", "\ndone"),
];

fn run(data: &[u8]) {
    let Some([command, deny, ask, allow, more, number]) = texts::<6>(data) else { return };
    let (mode, source) = setting_of(number.len());
    let Some(rules) = rules_of([deny, ask, allow], &source) else { return };
    let world = world(mode);
    let with = |behavior: Behavior| {
        let mut rules = rules.clone();
        rules.add(behavior, more, &source).ok()?;
        Some(decided(command, &rules, &world))
    };
    let analysis = analysed(command);
    if analysis.trouble == Some(Trouble::Timeout) {
        return;
    }
    let before = decided(command, &rules, &world);
    for behavior in [Behavior::Deny, Behavior::Ask] {
        if let Some(after) = with(behavior) {
            assert!(after >= before, "one more {behavior} rule {more:?} turns {before:?} into {after:?}");
        }
    }
    if let Some(after) = with(Behavior::Allow) {
        // Where questions are refusals, an answer in advance is what a rule is for.
        let refused = before == Decision::Deny && world.mode != PermissionMode::DontAsk;
        assert!(!refused || after == Decision::Deny, "one more allow rule {more:?} lifts a denial");
    }
    // A text without a command is asked about; the frame brings one of its own.
    if analysis.trouble.is_none() && !command.ends_with('\\') && !analysis.commands.is_empty() {
        check_frames(command, before, &rules, &world);
    }
    if let Some(words) = &analysis.simple {
        check_quotes(words, before, &rules, &world);
    }
    if before == Decision::Allow && world.mode == PermissionMode::Default {
        check_every_command(&analysis.commands, &rules, &world);
    }
}

fn decided(command: &str, rules: &RuleSet, world: &World) -> Decision {
    let needs = [NeedFacts::new(Need::Run(command.to_owned()), None)];
    let verdict =
        decide(&Call { tool: "Bash", also_named: &[], input: None, needs: &needs, needs_person: false }, rules, world);
    assert!(!verdict.reasons.is_empty() && !verdict.explain().is_empty(), "a verdict has reasons");
    verdict.decision
}

fn check_frames(command: &str, before: Decision, rules: &RuleSet, world: &World) {
    for (open, close) in FRAMES {
        let framed = format!("{open}{command}{close}");
        let after = decided(&framed, rules, world);
        assert!(before == Decision::Allow || after != Decision::Allow, "{framed:?} is allowed");
        assert!(before != Decision::Deny || after == Decision::Deny, "{framed:?} is denied no longer");
    }
}

fn check_quotes(words: &[String], before: Decision, rules: &RuleSet, world: &World) {
    let styles: [fn(&str) -> String; 3] = [quoted, double_quoted, escaped];
    for style in styles {
        let text = words.iter().map(|word| style(word)).collect::<Vec<_>>().join(" ");
        let after = decided(&text, rules, world);
        // Not every way to write a word is understood, and escapes can spell letters that a text must not contain.
        let understood = analysed(&text).trouble.is_none();
        assert!(after == before || (!understood && after > before), "{text:?} is the same command, but {after:?}");
    }
}

fn double_quoted(word: &str) -> String {
    let mut text = String::from('"');
    for c in word.chars() {
        if matches!(c, '"' | '\\' | '$' | '`') {
            text.push('\\');
        }
        text.push(c);
    }
    text.push('"');
    text
}

/// Each letter by itself, where a backslash can say it.
fn escaped(word: &str) -> String {
    // Outside quotes a letter that nobody sees is not taken, and a line break joins lines.
    if word.is_empty() || !word.is_ascii() || word.contains('\n') {
        return quoted(word);
    }
    word.chars().flat_map(|c| ['\\', c]).collect()
}

/// Whatever is allowed as a whole has each of its static commands allowed alone.
fn check_every_command(commands: &[Vec<Word>], rules: &RuleSet, world: &World) {
    for words in commands {
        let Some(words) = words.iter().map(Word::value).collect::<Option<Vec<_>>>() else { continue };
        // What the one runs gets words from its input, which is not there when it stands alone. The other is a word of the
        // grammar, and something else in quotes.
        if matches!(words.first(), Some(&("xargs" | "[["))) {
            continue;
        }
        let alone = words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
        assert_eq!(decided(&alone, rules, world), Decision::Allow, "{alone} is part of what is allowed");
    }
}

fn world(mode: PermissionMode) -> World {
    World {
        mode,
        cwd: "/srv/repo".into(),
        roots: vec!["/srv/repo".into()],
        home: Some("/home/dev".into()),
        environment: Some(Arc::default()),
        ..World::default()
    }
}

/// The rules of three lists; `None` when one cannot be honoured, for then a session would not start.
fn rules_of(lists: [&str; 3], source: &RuleSource) -> Option<RuleSet> {
    let mut rules = RuleSet::default();
    for (list, behavior) in lists.into_iter().zip([Behavior::Deny, Behavior::Ask, Behavior::Allow]) {
        for line in list.lines().filter(|line| !line.is_empty()) {
            rules.add(behavior, line, source).ok()?;
        }
    }
    Some(rules)
}

/// The mode and the source of rules that a number stands for: every mode with every scope.
fn setting_of(number: usize) -> (PermissionMode, RuleSource) {
    let (modes, scopes) = (PermissionMode::ALL, RuleScope::ALL);
    let scope = scopes[number / modes.len() % scopes.len()];
    (modes[number % modes.len()], RuleSource::new(scope, "/srv/repo"))
}

fn seeds() -> Vec<Vec<u8>> {
    let rows = shell_rows().into_iter().enumerate();
    rows.map(|(at, row)| {
        let list = |behavior: Behavior| {
            let rules = row.rules.iter().filter(|(of, _)| *of == behavior).map(|(_, rule)| rule.as_str());
            rules.collect::<Vec<_>>().join("\n")
        };
        let lists = [Behavior::Deny, Behavior::Ask, Behavior::Allow].map(list);
        let more = ["Bash(curl:*)", "Read(.env)", "Bash(npm run:*)", "Edit(src/**)", "Bash"][at % 5];
        let modes = PermissionMode::ALL.len();
        let scope = at % RuleScope::ALL.len();
        let number = "#".repeat(scope * modes + if at % 3 == 0 { at % modes } else { 0 });
        let fields = [&row.command, &lists[0], &lists[1], &lists[2], more, &number].map(str::as_bytes);
        join(&fields)
    })
    .collect()
}
