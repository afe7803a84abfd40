//! A text taken apart into what has to be permitted one by one. This room says what each part is and what it names; it
//! knows no rule and no mode, and permits nothing.

use super::ShellFacts;
use super::editing::edited_paths;
use super::parse::{Assignment, Command, Parsed};
use super::readonly::{Reading, reading};
use super::scene::{Feed, Scene};
use super::stripped::stripped;
use super::word::{Piece, Word};
use super::wrappers::base_name;
use crate::paths::may_become_protected;

/// Variables that may be set in front of a command without changing what it does to others.
const HARMLESS_VARIABLES: &[&str] = &[
    "NODE_ENV",
    "CI",
    "LANG",
    "LC_ALL",
    "TZ",
    "NO_COLOR",
    "FORCE_COLOR",
    "TERM",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "PYTHONUNBUFFERED",
    "GOOS",
    "GOARCH",
];

/// Commands that change, create or remove their operands; most of them read, too.
pub(crate) const WRITERS: &[&str] = &[
    "tee", "cp", "mv", "ln", "install", "dd", "truncate", "touch", "mkdir", "rm", "rmdir", "unlink", "chmod", "chown",
    "chgrp", "patch", "shred",
];

/// One command of a text, or the list of a loop.
#[derive(Clone, Debug, Default)]
pub(crate) struct Part {
    /// The command as it stands, then what is left behind each wrapper that adds nothing of its own. Empty when no rule
    /// about commands may speak for it.
    pub(crate) layers: Vec<Vec<Word>>,
    /// What it reads, when it only reads.
    pub(crate) reading: Option<Reading>,
    /// The files it edits, when it does nothing else.
    pub(crate) edits: Option<Vec<String>>,
}

/// Every part of a text that was understood.
pub(super) fn parts(parsed: &Parsed, facts: &ShellFacts<'_>) -> Vec<Part> {
    let mut scene = Scene::new(parsed, facts);
    let mut parts = Vec::new();
    for found in &parsed.loops {
        let reading = scene.listed(found).map(|paths| Reading { paths, recursive: false });
        parts.push(Part { reading, ..Part::default() });
    }
    for command in &parsed.commands {
        scene.turn_to(command.at);
        let mut part = part(command, &scene);
        // A link leads somewhere else from its new place, which nobody has looked at for what comes next.
        if parsed.commands.len() > 1 && is_move(command) {
            part.edits = None;
        }
        parts.push(part);
    }
    parts
}

fn is_move(command: &Command) -> bool {
    let layers = stripped(&command.words);
    let name = layers.last().and_then(|layer| layer.words.first()).and_then(Word::value);
    name.is_some_and(|name| base_name(name) == "mv")
}

fn part(command: &Command, scene: &Scene<'_>) -> Part {
    if !command.assignments.iter().all(is_harmless) {
        return Part::default();
    }
    let layers = stripped(&command.words);
    let Some(innermost) = layers.last() else { return Part::default() };
    let feed = if innermost.fed { scene.feed(command.at) } else { Feed::None };
    let values: Option<Vec<&str>> = innermost.words.iter().map(Word::value).collect();
    let edits = values.filter(|_| !innermost.fed).and_then(|values| edited_paths(&values));
    let reading = reading(innermost.words, feed, scene, command.in_loop);
    let speakable = !writes_unseen(innermost.words, innermost.fed, scene);
    let with_feed = |words: &[Word], fed: bool| {
        let further = fed.then(Word::anything);
        words.iter().cloned().chain(further).collect()
    };
    let layers = layers.iter().filter(|_| speakable).map(|layer| with_feed(layer.words, layer.fed)).collect();
    Part { layers, reading, edits }
}

fn is_harmless(assignment: &Assignment) -> bool {
    assignment.value.is_some() && HARMLESS_VARIABLES.contains(&assignment.name.as_str())
}

/// Whether a command that changes files gets some of their names only at run time, so that nobody can say that no
/// protected one is among them.
fn writes_unseen(words: &[Word], fed: bool, scene: &Scene<'_>) -> bool {
    let Some((name, arguments)) = words.split_first() else { return false };
    let Some(name) = name.value().map(base_name) else { return false };
    let in_place =
        name == "sed" && arguments.iter().any(|word| word.value().is_some_and(|text| text.starts_with("-i")));
    if !WRITERS.contains(&name) && !in_place {
        return false;
    }
    fed || arguments.iter().filter(|word| word.is_dynamic()).any(|word| !scene.writable(word))
}

impl Scene<'_> {
    /// Whether a word whose value is not known stays in the working directories and off every protected path.
    fn writable(&self, word: &Word) -> bool {
        let from_output = |word: &Word| word.pieces().iter().any(|piece| matches!(piece, Piece::Output(_)));
        let variables = word.pieces().iter().filter(|piece| matches!(piece, Piece::Variable(_))).count();
        let values: Vec<String> = self.values(word).map(masked).collect();
        // An unset variable leaves nothing.
        let values = if values.is_empty() { vec![String::new()] } else { values };
        let spelled = |value: &String| word.pieces().iter().map(|piece| spelling(piece, value)).collect::<String>();
        variables <= 1
            && self.operand(word).is_some()
            && !from_output(word)
            && !self.values(word).any(from_output)
            && !values.iter().any(|value| may_become_protected(&spelled(value)))
    }
}

/// A word with `*` for whatever is not known of it.
fn masked(word: &Word) -> String {
    word.pieces().iter().map(|piece| spelling(piece, "*")).collect()
}

fn spelling<'a>(piece: &'a Piece, variable: &'a str) -> &'a str {
    match piece {
        Piece::Text(text) => text,
        Piece::Variable(_) => variable,
        _ => "*",
    }
}
