//! What surrounds a command in its text, as far as it says something about words that are only known at run time: the
//! values that loops give to variables, what substitutions can print, and what feeds a command its operands.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use super::ShellFacts;
use super::looks::{Look, PatternLook, Printed, PrintedLook, Role, WordReader, wildcards};
use super::parse::{Command, Loop, Parsed};
use super::readonly::{Reading, Standing, is_free, named, printed_names, readable};
use super::stripped::stripped;
use super::variables::is_set_by_bash;
use super::word::{Piece, Word};
use crate::paths::{holds_secrets, normalise};

/// Where `xargs` takes further words from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Feed {
    None,
    /// Names of files in the working directories.
    Names(Printed),
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

/// Whether a command of this name may give a variable another value.
pub(crate) fn changes_variables(name: &str) -> bool {
    CHANGERS.contains(&name) || matches!(name, "printf" | "wait" | "coproc" | "select")
}

/// Forms of one word, by the values of its variables, that are looked at.
const MOST_VARIANTS: usize = 256;

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
    /// Those among them with values that only stay one word inside quotes.
    blanks: HashSet<&'a str>,
    /// The values that loops give to their variables, each once.
    given: BTreeMap<&'a str, Vec<&'a Word>>,
    /// The commands directly inside each substitution.
    inside: BTreeMap<usize, Vec<&'a Command>>,
    /// The commands by where they begin, and by that where what feeds them begins.
    commands: BTreeMap<usize, &'a Command>,
    fed_by: BTreeMap<usize, usize>,
    /// Something reads a file or a document instead of what a pipe brings.
    takes_input: bool,
    /// The only directory in which its commands stand.
    stands_in: Option<PathBuf>,
}

impl<'a> Scene<'a> {
    pub(super) fn new(text: &str, parsed: &'a Parsed, facts: &'a ShellFacts<'a>) -> Self {
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
                // `printf -v NAME`
                Some((Some("printf" | "wait"), rest)) => unsettled |= rest.iter().any(may_be_option),
                _ => {}
            }
        }
        let near_secrets = facts.roots.iter().any(|root| holds_secrets(root, facts.home));
        let mut inside: BTreeMap<usize, Vec<&Command>> = BTreeMap::new();
        for command in &parsed.commands {
            inside.entry(command.within.unwrap_or(usize::MAX)).or_default().push(command);
        }
        let mut given: BTreeMap<&str, Vec<&Word>> = BTreeMap::new();
        for found in &parsed.loops {
            let values = given.entry(&found.name).or_default();
            for word in found.words.iter().take(MOST_VARIANTS + 1) {
                if values.len() <= MOST_VARIANTS && !values.contains(&word) {
                    values.push(word);
                }
            }
        }
        let stands_in = match standing.moves_once() {
            Some(false) => Some(facts.cwd.to_owned()),
            Some(true) => entered(text, parsed).map(|directory| normalise(facts.cwd, Path::new(directory))),
            None => None,
        };
        // Of several at one place the first one counts.
        let commands = parsed.commands.iter().rev().map(|command| (command.at, command)).collect();
        let fed_by = parsed.pipes.iter().rev().map(|(from, to)| (*to, *from)).collect();
        let takes_input = parsed.redirects.iter().any(|redirect| redirect.operator.starts_with('<'));
        let tame = BTreeMap::new();
        let mut scene = Self {
            facts,
            standing,
            parsed,
            at: 0,
            near_secrets,
            unsettled,
            tame,
            blanks: HashSet::new(),
            given,
            inside,
            commands,
            fed_by,
            takes_input,
            stands_in,
        };
        for found in &parsed.loops {
            let tame = found.words.iter().all(|word| scene.is_name(word));
            *scene.tame.entry(&found.name).or_insert(true) &= tame;
            if found.words.iter().any(needs_quotes) {
                scene.blanks.insert(&found.name);
            }
        }
        scene
    }

    /// The directory in which every command stands that reads, if there is only one.
    pub(super) fn stands_in(&self) -> Option<&Path> {
        self.stands_in.as_deref()
    }

    /// Turns to the command that begins at this byte.
    pub(super) fn turn_to(&mut self, at: usize) {
        self.at = at;
    }

    /// What an operand opens, if reading it needs no question, whatever it turns into; nothing for a word that opens
    /// nothing.
    pub(super) fn operand(&self, word: &Word, role: Role) -> Option<Reading> {
        match (word.value(), word.pieces()) {
            // A word without letters opens nothing.
            (Some(text), _) if text.is_empty() || is_free(text) => Some(Reading::default()),
            (Some(text), _) => named(text, self),
            // A flag whose value is only known at run time may name any file.
            (None, [Piece::Text(text), ..]) if text.starts_with('-') => None,
            (None, [Piece::Stream]) => Some(Reading::default()),
            (None, [Piece::Choice(words)]) => self.each(words, role),
            (None, [Piece::Output(at)]) => self.look_at(self.printed(*at)?, WordReader::Shell, role),
            (None, [Piece::Output(at), ..]) => self.composed(&word.with_beginning(&self.here(*at, word)?), role),
            (None, _) => self.composed(word, role),
        }
    }

    /// Every word of a list in braces.
    fn each(&self, words: &[Word], role: Role) -> Option<Reading> {
        let mut reading = Reading::default();
        for word in words {
            let option = matches!(word.pieces().first(), Some(Piece::Text(text)) if text.starts_with('-'));
            reading.add(self.operand(word, role).filter(|_| !(option && role.may_be_option))?);
        }
        Some(reading)
    }

    fn look_at(&self, printed: Printed, reader: WordReader, role: Role) -> Option<Reading> {
        let from = self.standing.followed()?.to_vec();
        let look = Look::Printed(PrintedLook { printed, from, role, reader });
        Some(Reading { looks: vec![look], ..Reading::default() })
    }

    /// What an input redirection opens, if that is something inside.
    pub(super) fn source(&self, word: &Word) -> Option<Reading> {
        // Relative to which directory is anybody's guess after a `cd`.
        let moved = self.standing.has_moved();
        match word.value() {
            Some(path) => readable(path, self).filter(|_| path.starts_with('/') || !moved).map(Reading::of),
            None => self.operand(word, Role::FILE).filter(|reading| !moved && !reading.assumes_unset),
        }
    }

    /// A word of several pieces, in every form that the loops give it, stays where its beginning leads.
    fn composed(&self, word: &Word, role: Role) -> Option<Reading> {
        let fits = |piece: &Piece| match piece {
            Piece::Text(text) => !text.contains(".."),
            Piece::Glob(_) => !self.near_secrets,
            Piece::Number => true,
            Piece::Variable(name) => self.is_tame(name) && !(word.may_split() && self.blanks.contains(name.as_str())),
            Piece::Tilde | Piece::Output(_) | Piece::Stream | Piece::Choice(_) | Piece::Unknown => false,
        };
        if !word.pieces().iter().all(fits) {
            return None;
        }
        let has_variable = word.pieces().iter().any(|piece| matches!(piece, Piece::Variable(_)));
        let whole = !(has_variable && word.may_split());
        let unset = |piece: &Piece| matches!(piece, Piece::Variable(name) if !self.is_given(name));
        let mut reading = Reading { assumes_unset: word.pieces().iter().any(unset), ..Reading::default() };
        for pieces in self.variants(word.pieces())? {
            reading.add(self.variant(&pieces, role, whole)?);
        }
        for at in self.printed_values(word.pieces()) {
            reading.add(self.look_at(self.printed(at)?, WordReader::Shell, role)?);
        }
        // A word that stands for something, and nobody knows for what.
        let untold = reading.paths.is_empty() && reading.looks.is_empty() && !reading.assumes_unset;
        (!untold).then_some(reading)
    }

    /// The substitutions whose output loops give to the variables of a word, a line at a time.
    fn printed_values(&self, pieces: &[Piece]) -> impl Iterator<Item = usize> {
        let names = pieces.iter().filter_map(|piece| if let Piece::Variable(name) = piece { Some(name) } else { None });
        let values = names.flat_map(|name| self.given.get(name.as_str()).into_iter().flatten());
        values.filter_map(|value| if let [Piece::Output(at)] = value.pieces() { Some(*at) } else { None })
    }

    /// A word without variables.
    fn variant(&self, pieces: &[&Piece], role: Role, whole: bool) -> Option<Reading> {
        let texts = pieces.iter().map(|piece| if let Piece::Text(text) = piece { Some(text.as_str()) } else { None });
        let text = texts.clone().take_while(Option::is_some).flatten().collect::<String>();
        if text.starts_with('-') && role.may_be_option {
            return None;
        }
        if texts.clone().all(|text| text.is_some()) {
            // A word without letters opens nothing.
            return if text.is_empty() { Some(Reading::default()) } else { readable(&text, self).map(Reading::of) };
        }
        let directory = text.rfind('/').map_or(".", |end| if end == 0 { "/" } else { &text[..end] });
        let mut reading = Reading { folders: readable(directory, self)?, ..Reading::default() };
        let (pattern, from) = (wildcards(pieces)?, self.standing.followed()?.to_vec());
        reading.looks.push(Look::Pattern(PatternLook { pattern, from, role, whole }));
        Some(reading)
    }

    /// The forms of a word, with the values of variables in their place.
    fn variants<'p>(&self, pieces: &'p [Piece]) -> Option<Vec<Vec<&'p Piece>>>
    where
        'a: 'p,
    {
        let mut found: Vec<Vec<&Piece>> = vec![Vec::new()];
        for piece in pieces {
            let Piece::Variable(name) = piece else {
                found.iter_mut().for_each(|variant| variant.push(piece));
                continue;
            };
            let mut values: Vec<&[Piece]> = Vec::new();
            for value in self.given.get(name.as_str()).map_or(&[][..], Vec::as_slice) {
                match value.pieces() {
                    // No text says what it prints; that is looked at.
                    [Piece::Output(_)] if pieces.len() == 1 => {}
                    [Piece::Output(_)] => return None,
                    value => values.push(value),
                }
            }
            if !self.is_given(name) {
                values.push(&[]);
            }
            if found.len() * values.len() > MOST_VARIANTS {
                return None;
            }
            let with = |variant: &Vec<&'p Piece>, value: &&'p [Piece]| variant.iter().copied().chain(*value).collect();
            found = found.iter().flat_map(|variant| values.iter().map(move |value| with(variant, value))).collect();
        }
        Some(found)
    }

    /// A variable that is unset, or that loops give nothing but names in the working directories. What bash changes by
    /// itself is neither: `_` is whatever the command before ended with.
    fn is_tame(&self, name: &str) -> bool {
        let given = self.tame.get(name).copied();
        !self.unsettled
            && !is_set_by_bash(name)
            && given.unwrap_or_else(|| !name.chars().any(|c| c.is_ascii_uppercase()))
            && (self.is_in_loop(name) || !self.facts.may_inherit(name))
    }

    /// Whether the command in question only runs with a value that a loop has given to the variable.
    fn is_in_loop(&self, name: &str) -> bool {
        self.loops(name).any(|found| found.body.contains(&self.at))
    }

    /// A value for certain, and a tame one.
    fn is_given(&self, name: &str) -> bool {
        self.is_tame(name) && self.is_in_loop(name)
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
            (Some(text), _) => !text.contains("..") && !text.starts_with('-') && readable(text, self).is_some(),
            (None, [Piece::Output(at)]) => self.printed(*at).is_some(),
            (None, pieces) => {
                let plain = |piece: &Piece| matches!(piece, Piece::Text(_) | Piece::Glob(_) | Piece::Number);
                pieces.iter().all(plain) && self.operand(word, Role::OPERAND).is_some()
            }
        }
    }

    /// What a loop's list names; `None` when a word leads elsewhere.
    pub(super) fn listed(&self, found: &Loop) -> Option<Reading> {
        let mut reading = Reading::default();
        for word in &found.words {
            let globs = word.pieces().iter().any(|piece| matches!(piece, Piece::Glob(_) | Piece::Tilde));
            match (word.value(), word.pieces()) {
                (Some(text), _) => reading.add(Reading::of(readable(text, self)?)),
                (None, _) if globs => reading.add(self.operand(word, Role::OPERAND)?),
                (None, [Piece::Output(at)]) => {
                    if let Some(printed) = self.printed(*at) {
                        reading.add(self.look_at(printed, WordReader::Shell, Role::OPERAND)?);
                    }
                }
                (None, _) => {}
            }
        }
        Some(reading)
    }

    /// What a substitution prints, if that is nothing but names in the working directories.
    fn printed(&self, at: usize) -> Option<Printed> {
        let (first, filters) = self.inside.get(&at)?.split_first()?;
        let follows = |pair: &[&Command]| self.fed_by.get(&pair[1].at) == Some(&pair[0].at);
        let one_pipe =
            || self.inside[&at].windows(2).all(follows) && filters.iter().all(|filter| passes_lines_on(filter));
        let plain = filters.is_empty() || (!self.takes_input && one_pipe());
        self.names_of(first).filter(|_| plain)
    }

    /// The names that a command prints, and no words about what went wrong.
    fn names_of(&self, command: &Command) -> Option<Printed> {
        printed_names(&command.words).filter(|_| !self.near_secrets && !command.mixed)
    }

    /// The directory that a substitution prints, for the beginning of a word.
    fn here(&self, at: usize, word: &Word) -> Option<Word> {
        let here = self.stands_in.as_deref()?.to_str()?;
        let whole = !word.may_split() || WordReader::Shell.keeps(here);
        (whole && self.printed(at)? == Printed::Here).then(|| Word::literal(here))
    }

    /// What feeds the command that begins at this byte.
    pub(super) fn feed(&self, at: usize) -> Feed {
        if self.takes_input {
            return Feed::Anything;
        }
        let mut next = self.fed_by.get(&at).copied();
        let outermost = || self.commands.get(&at).is_some_and(|command| command.within.is_none());
        if self.parsed.pipes.is_empty() && self.parsed.fed.is_empty() && outermost() {
            // Nothing does, and what a text as a whole reads is empty.
            return Feed::None;
        }
        // Filters that pass whole lines on change nothing about what they are.
        while let Some(from) = next {
            let Some(command) = self.commands.get(&from) else { break };
            if let Some(printed) = self.names_of(command) {
                return Feed::Names(printed);
            }
            let from = if passes_lines_on(command) { from } else { break };
            next = self.fed_by.get(&from).copied();
        }
        Feed::Anything
    }
}

fn may_be_option(word: &Word) -> bool {
    word.value().is_none_or(|text| text.starts_with('-'))
}

/// Whether a value is split or matched again where its variable stands outside quotes.
fn needs_quotes(word: &Word) -> bool {
    let text = |piece: &Piece| matches!(piece, Piece::Text(text) if text.contains([' ', '\t', '\n', '*', '?', '[']));
    word.pieces().iter().any(text)
}

/// The directory of a text that is a plain `cd directory && …`: whatever follows only runs there. Any other way to join
/// commands, and anything that could hide one, is not plain.
fn entered<'t>(text: &'t str, parsed: &Parsed) -> Option<&'t str> {
    let (first, rest) = text.split_once("&&")?;
    let mut words = first.split_ascii_whitespace();
    let (Some("cd"), Some(directory), None) = (words.next(), words.next(), words.next()) else { return None };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    let climbs = directory.split('/').any(|name| name == "..");
    if !directory.chars().all(plain) || directory.starts_with('-') || climbs {
        return None;
    }
    let leads = parsed.commands.first()?.words.iter().map(Word::value).eq([Some("cd"), Some(directory)]);
    // Where descriptors are joined, nothing runs in the background.
    let joined = rest.replace("&&", "").replace(">&", "").replace("&>", "");
    let hides = joined.contains([';', '&', '\n', '(', ')', '{', '}', '`']) || joined.contains("||");
    (leads && !hides).then_some(directory)
}

/// Filters that leave lines as they are; with a file as operand they would pass that on, and counting bytes cuts names.
fn passes_lines_on(command: &Command) -> bool {
    let words: Option<Vec<&str>> = command.words.iter().map(Word::value).collect();
    let words = words.filter(|_| !command.mixed);
    let Some((name, arguments)) = words.as_deref().and_then(<[&str]>::split_first) else { return false };
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let picks = |word: &str| {
        word.strip_prefix('-')
            .is_some_and(|letters| !letters.is_empty() && letters.chars().all(|c| "viEFwx".contains(c)))
    };
    match *name {
        // A number by itself would be a file.
        "head" | "tail" => match arguments {
            [] => true,
            [count] => number(count.strip_prefix("-n").or_else(|| count.strip_prefix('-')).unwrap_or("")),
            ["-n", count] => number(count),
            _ => false,
        },
        "sort" | "uniq" => {
            arguments.iter().all(|word| matches!(*word, "-r" | "-n" | "-u" | "-rn" | "-nr" | "-V" | "-f"))
        }
        "grep" | "egrep" | "fgrep" => match arguments.split_last() {
            Some((pattern, flags)) => !pattern.starts_with('-') && flags.iter().all(|flag| picks(flag)),
            None => false,
        },
        _ => false,
    }
}
