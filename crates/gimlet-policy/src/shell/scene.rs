//! What surrounds a command in its text, as far as it says something about words that are only known at run time: the
//! values that loops give to variables, what substitutions can print, and what feeds a command its operands.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::ShellFacts;
use super::parse::{Command, Loop, Parsed};
use super::readonly::{Standing, is_free, readable};
use super::stripped::stripped;
use super::word::{Piece, Word};
use crate::paths::holds_secrets;

/// Where `xargs` takes further words from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Feed {
    None,
    /// Names of files in the working directories.
    Names,
    Anything,
}

/// Commands that may change variables, the directory or the meaning of words.
const CHANGERS: &[&str] = &[
    "read",
    "mapfile",
    "readarray",
    "getopts",
    "eval",
    "source",
    ".",
    "let",
    "unset",
    "set",
    "shopt",
    "alias",
    "trap",
    "enable",
    "hash",
    "exec",
    "export",
    "declare",
    "typeset",
    "readonly",
    "local",
];

pub(super) struct Scene<'a> {
    pub(super) facts: &'a ShellFacts<'a>,
    pub(super) standing: Standing,
    parsed: &'a Parsed,
    /// Where the command in question begins.
    at: usize,
    /// Names in the working directories may be those of credentials.
    near_secrets: bool,
    /// Some command may give variables any value.
    unsettled: bool,
    /// The variables of loops, and whether these give them nothing but names in the working directories.
    tame: BTreeMap<&'a str, bool>,
    /// The commands directly inside each substitution.
    inside: BTreeMap<usize, Vec<&'a Command>>,
}

impl<'a> Scene<'a> {
    pub(super) fn new(parsed: &'a Parsed, facts: &'a ShellFacts<'a>) -> Self {
        let mut standing = Standing::new(facts.cwd);
        let mut unsettled = false;
        for command in &parsed.commands {
            let innermost = stripped(&command.words).last().map_or(&command.words[..], |layer| layer.words);
            match innermost.split_first().map(|(name, rest)| (name.value(), rest)) {
                Some((Some("cd"), [directory]))
                    if directory.value().is_some_and(|text| !text.starts_with(['-', '+'])) =>
                {
                    standing.go(directory.value().unwrap_or(""));
                }
                Some((Some("cd" | "pushd" | "popd"), _)) => standing.lose(),
                Some((Some(name), _)) if CHANGERS.contains(&name) => {
                    standing.lose();
                    unsettled = true;
                }
                _ => {}
            }
        }
        let near_secrets = facts.roots.iter().any(|root| holds_secrets(root, facts.home));
        let mut inside: BTreeMap<usize, Vec<&Command>> = BTreeMap::new();
        for command in &parsed.commands {
            inside.entry(command.within.unwrap_or(usize::MAX)).or_default().push(command);
        }
        let mut scene = Self { facts, standing, parsed, at: 0, near_secrets, unsettled, tame: BTreeMap::new(), inside };
        for found in &parsed.loops {
            let tame = found.words.iter().all(|word| scene.is_name(word));
            *scene.tame.entry(&found.name).or_insert(true) &= tame;
        }
        scene
    }

    /// Turns to the command that begins at this byte.
    pub(super) fn turn_to(&mut self, at: usize) {
        self.at = at;
    }

    /// The paths that an operand names, if reading them needs no question, whatever it turns into; none for a word that
    /// opens nothing.
    pub(super) fn operand(&self, word: &Word) -> Option<Vec<PathBuf>> {
        match (word.value(), word.pieces()) {
            (Some(text), _) if is_free(text) => Some(Vec::new()),
            (Some(text), _) => readable(text, self),
            // A flag whose value is only known at run time may name any file.
            (None, [Piece::Text(text), ..]) if text.starts_with('-') => None,
            (None, [Piece::Stream]) => Some(Vec::new()),
            (None, [Piece::Output(at)]) => self.prints_names(*at).then(Vec::new),
            (None, [Piece::Variable(name)]) => self.is_tame(name).then(Vec::new),
            (None, pieces) => self.composed(pieces),
        }
    }

    /// The paths that an input redirection opens; it takes no word that is only known at run time.
    pub(super) fn source(&self, word: &Word) -> Option<Vec<PathBuf>> {
        // Relative to which directory is anybody's guess after a `cd`.
        let path = word.value()?;
        readable(path, self).filter(|_| path.starts_with('/') || !self.standing.has_moved())
    }

    /// A word of several pieces stays where its beginning leads, as long as nothing in it climbs.
    fn composed(&self, pieces: &[Piece]) -> Option<Vec<PathBuf>> {
        let fits = |piece: &Piece| match piece {
            Piece::Text(text) => !text.contains(".."),
            Piece::Glob(_) => !self.near_secrets,
            Piece::Number => true,
            Piece::Variable(name) => self.is_tame(name),
            Piece::Tilde | Piece::Output(_) | Piece::Stream | Piece::Unknown => false,
        };
        if !pieces.iter().all(fits) {
            return None;
        }
        match pieces {
            // An empty value would leave a path that begins at the root.
            [Piece::Variable(name), Piece::Text(text), ..] if text.starts_with('/') => {
                self.is_given(name).then(Vec::new)
            }
            [Piece::Variable(name), Piece::Variable(_) | Piece::Glob(_), ..] => self.is_given(name).then(Vec::new),
            [Piece::Text(text), ..] => {
                let directory = text.rfind('/').map_or(".", |end| if end == 0 { "/" } else { &text[..end] });
                readable(directory, self).map(|_| Vec::new())
            }
            _ => Some(Vec::new()),
        }
    }

    /// A variable that is unset, or that loops give nothing but names in the working directories.
    fn is_tame(&self, name: &str) -> bool {
        // Upper-case names may be anything in the environment, the place of credentials among it.
        // And `_` is whatever the command before ended with.
        let inherited = name == "_" || name.chars().any(|c| c.is_ascii_uppercase());
        !self.unsettled && self.tame.get(name).copied().unwrap_or(!inherited)
    }

    /// A value for certain, and a tame one.
    fn is_given(&self, name: &str) -> bool {
        self.is_tame(name) && self.loops(name).any(|found| found.body.contains(&self.at))
    }

    /// The words that loops give to the variables of a word.
    pub(super) fn values(&self, word: &Word) -> impl Iterator<Item = &'a Word> {
        let names: Vec<&str> = word
            .pieces()
            .iter()
            .filter_map(|piece| if let Piece::Variable(name) = piece { Some(name.as_str()) } else { None })
            .collect();
        let loops = self.parsed.loops.iter().filter(move |found| names.contains(&found.name.as_str()));
        loops.flat_map(|found| &found.words).collect::<Vec<_>>().into_iter()
    }

    fn loops(&self, name: &str) -> impl Iterator<Item = &'a Loop> {
        self.parsed.loops.iter().filter(move |found| found.name == name)
    }

    /// A word of a loop's list that stands for names in the working directories.
    fn is_name(&self, word: &Word) -> bool {
        match (word.value(), word.pieces()) {
            // Outside quotes the value is split and matched again.
            (Some(text), _) => {
                let whole = !text.contains([' ', '\t', '\n', '*', '?', '[']);
                whole && !text.contains("..") && !text.starts_with('-') && readable(text, self).is_some()
            }
            (None, [Piece::Output(at)]) => self.prints_names(*at),
            (None, pieces) => {
                let plain = |piece: &Piece| match piece {
                    Piece::Text(text) => !text.contains([' ', '\t', '\n']),
                    _ => matches!(piece, Piece::Glob(_) | Piece::Number),
                };
                pieces.iter().all(plain) && self.composed(pieces).is_some()
            }
        }
    }

    /// What a loop's list names; `None` when a word leads elsewhere.
    pub(super) fn listed(&self, found: &Loop) -> Option<Vec<PathBuf>> {
        let mut paths = Vec::new();
        for word in &found.words {
            let globs = word.pieces().iter().any(|piece| matches!(piece, Piece::Glob(_) | Piece::Tilde));
            match word.value() {
                Some(text) => paths.extend(readable(text, self)?),
                None if globs => drop(self.operand(word)?),
                None => {}
            }
        }
        Some(paths)
    }

    /// Whether a substitution prints nothing but names in the working directories.
    fn prints_names(&self, at: usize) -> bool {
        let inside = self.inside.get(&at).map_or(&[][..], Vec::as_slice);
        !self.near_secrets && matches!(inside, [only] if lists_names(only))
    }

    /// What feeds the command that begins at this byte.
    pub(super) fn feed(&self, at: usize) -> Feed {
        let fed_by = self.parsed.pipes.iter().find(|(_, to)| *to == at).map(|(from, _)| *from);
        let mut next = fed_by;
        // Filters that pass whole lines on change nothing about what they are.
        while let Some(from) = next {
            let Some(command) = self.parsed.commands.iter().find(|command| command.at == from) else { break };
            if lists_names(command) && !self.near_secrets {
                return Feed::Names;
            }
            let from = if passes_lines_on(command) { from } else { break };
            next = self.parsed.pipes.iter().find(|(_, to)| *to == from).map(|(from, _)| *from);
        }
        Feed::Anything
    }
}

/// Commands that print names of files below where they stand.
fn lists_names(command: &Command) -> bool {
    let words: Option<Vec<&str>> = command.words.iter().map(Word::value).collect();
    let Some(words) = words else { return false };
    let has = |flags: &[&str]| words.iter().any(|word| flags.contains(word));
    match words.as_slice() {
        ["pwd"] | ["git", "rev-parse", "--show-toplevel"] => true,
        ["git", "ls-files", rest @ ..] | ["git", "diff", "--name-only", rest @ ..] => {
            !rest.iter().any(|word| word.starts_with("--"))
        }
        // Without a format of its own, and in its short form.
        ["find", ..] => !has(&["-printf", "-ls"]),
        ["ls", rest @ ..] => {
            rest.iter().all(|word| !word.starts_with('-') || matches!(*word, "-1" | "-d" | "-t" | "-r"))
        }
        // What it calls its input may be any text.
        ["rg" | "grep", rest @ ..] => {
            has(&["-l", "-rl", "--files-with-matches", "--files"]) && !rest.iter().any(|word| word.starts_with("--la"))
        }
        _ => false,
    }
}

/// Filters that leave lines as they are; with a file as operand they would pass that on, and counting bytes cuts names.
fn passes_lines_on(command: &Command) -> bool {
    let words: Option<Vec<&str>> = command.words.iter().map(Word::value).collect();
    let Some((name, arguments)) = words.as_deref().and_then(<[&str]>::split_first) else { return false };
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    arguments.iter().all(|word| match *name {
        "head" | "tail" => *word == "-n" || number(word.trim_start_matches("-n").trim_start_matches('-')),
        "sort" | "uniq" => matches!(*word, "-r" | "-n" | "-u" | "-rn" | "-nr" | "-V" | "-f"),
        _ => false,
    }) && matches!(*name, "head" | "tail" | "sort" | "uniq")
}
