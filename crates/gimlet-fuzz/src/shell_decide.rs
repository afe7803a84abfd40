//! Fuzz target for the decision on a command under any rules of every scope and in every mode.
//!
//! More forbidding rules never allow more, more allowing rules never lift a denial, and neither brackets around a text
//! nor quotes around a word make it freer. Every command of an allowed text is allowed.

use gimlet_policy::shell::{ParseTrouble, Word};
use gimlet_policy::{
    Behavior, Decision, DecisionContext, NeedFacts, ProposedCall, RuleScope, RuleSet, RuleSource, decide,
};
use gimlet_proto::{AccessNeed, PermissionMode};
use std::sync::Arc;

use crate::FuzzTarget;
use crate::input_fields::{join_fields, split_texts};
use crate::permission_corpus::shell_rows;
use crate::shell_parse::{analyse_text, single_quote};

/// Fields: a command, the deny rules, the ask rules, the allow rules (one on a line), one more rule, and by its length
/// the mode and the scope of the rules.
pub const TARGET: FuzzTarget = FuzzTarget { name: "shell_decide", run, seeds, words: crate::shell_parse::WORDS };

/// Ways to embed a text in another. The line break ends a comment, the space keeps `((` apart.
const FRAMES: [(&str, &str); 6] = [
    ("( ", "\n)"),
    ("{ ", "\n}"),
    ("if true; then ", "\nfi"),
    ("echo $( ", "\n)"),
    ("echo \"$( ", "\n)\""),
    ("while false; do ", "\ndone"),
];

fn run(data: &[u8]) {
    let Some([command, deny, ask, allow, more, number]) = split_texts::<6>(data) else { return };
    let (mode, source) = mode_and_source(number.len());
    let Some(rules) = parse_rule_lists([deny, ask, allow], &source) else { return };
    let world = decision_context(mode);
    let with = |behavior: Behavior| {
        let mut rules = rules.clone();
        rules.add(behavior, more, &source).ok()?;
        Some(decide_command(command, &rules, &world))
    };
    let analysis = analyse_text(command);
    if analysis.trouble == Some(ParseTrouble::Timeout) {
        return;
    }
    let before = decide_command(command, &rules, &world);
    for behavior in [Behavior::Deny, Behavior::Ask] {
        if let Some(after) = with(behavior) {
            assert!(after >= before, "one more {behavior} rule {more:?} turns {before:?} into {after:?}");
        }
    }
    if let Some(after) = with(Behavior::Allow) {
        // In a mode that refuses instead of asking, an allow rule is how a question is answered in advance.
        let refused = before == Decision::Deny && world.mode != PermissionMode::DontAsk;
        assert!(!refused || after == Decision::Deny, "one more allow rule {more:?} lifts a denial");
    }
    // A text without a command asks; the frame adds a command of its own.
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

fn decide_command(command: &str, rules: &RuleSet, world: &DecisionContext) -> Decision {
    let needs = [NeedFacts::new(AccessNeed::Run(command.to_owned()), None)];
    let verdict = decide(
        &ProposedCall { tool: "Bash", also_named: &[], input: None, needs: &needs, needs_person: false },
        rules,
        world,
    );
    assert!(!verdict.reasons.is_empty() && !verdict.explain().is_empty(), "a verdict has reasons");
    verdict.decision
}

fn check_frames(command: &str, before: Decision, rules: &RuleSet, world: &DecisionContext) {
    for (open, close) in FRAMES {
        let framed = format!("{open}{command}{close}");
        let after = decide_command(&framed, rules, world);
        assert!(before == Decision::Allow || after != Decision::Allow, "{framed:?} is allowed");
        assert!(before != Decision::Deny || after == Decision::Deny, "{framed:?} is denied no longer");
    }
}

fn check_quotes(words: &[String], before: Decision, rules: &RuleSet, world: &DecisionContext) {
    let styles: [fn(&str) -> String; 3] = [single_quote, double_quote, backslash_escaped];
    for style in styles {
        let text = words.iter().map(|word| style(word)).collect::<Vec<_>>().join(" ");
        let after = decide_command(&text, rules, world);
        // Not every spelling of a word is understood, and escapes can produce characters that a text must not contain.
        let understood = analyse_text(&text).trouble.is_none();
        assert!(after == before || (!understood && after > before), "{text:?} is the same command, but {after:?}");
    }
}

fn double_quote(word: &str) -> String {
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

/// Escapes each character with a backslash, where that is possible.
fn backslash_escaped(word: &str) -> String {
    // Outside quotes an invisible character is not accepted, and a backslash before a line break joins lines.
    if word.is_empty() || !word.is_ascii() || word.contains('\n') {
        return single_quote(word);
    }
    word.chars().flat_map(|c| ['\\', c]).collect()
}

/// Checks that each static command of an allowed text is also allowed alone.
fn check_every_command(commands: &[Vec<Word>], rules: &RuleSet, world: &DecisionContext) {
    for words in commands {
        let Some(words) = words.iter().map(Word::value).collect::<Option<Vec<_>>>() else { continue };
        // `xargs` passes words from its input, which is missing when it stands alone. `[[` is a keyword of the
        // grammar, and an ordinary word in quotes.
        if matches!(words.first(), Some(&("xargs" | "[["))) {
            continue;
        }
        let alone = words.iter().map(|word| single_quote(word)).collect::<Vec<_>>().join(" ");
        assert_eq!(decide_command(&alone, rules, world), Decision::Allow, "{alone} is part of what is allowed");
    }
}

fn decision_context(mode: PermissionMode) -> DecisionContext {
    DecisionContext {
        mode,
        cwd: "/srv/repo".into(),
        roots: vec!["/srv/repo".into()],
        home: Some("/home/dev".into()),
        environment: Some(Arc::default()),
        ..DecisionContext::default()
    }
}

/// Parses the rules of three lists; `None` when one is not valid, for then a session would not start.
fn parse_rule_lists(lists: [&str; 3], source: &RuleSource) -> Option<RuleSet> {
    let mut rules = RuleSet::default();
    for (list, behavior) in lists.into_iter().zip([Behavior::Deny, Behavior::Ask, Behavior::Allow]) {
        for line in list.lines().filter(|line| !line.is_empty()) {
            rules.add(behavior, line, source).ok()?;
        }
    }
    Some(rules)
}

/// Returns the mode and the source of rules for a number: every mode with every scope.
fn mode_and_source(number: usize) -> (PermissionMode, RuleSource) {
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
        join_fields(&fields)
    })
    .collect()
}
