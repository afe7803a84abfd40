//! Context of a command in its text, as far as it determines words that are only known at run time: the values that
//! loops assign to variables, the possible output of substitutions, and the source of a command's operands.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use super::ShellFacts;
use super::environment_names::is_set_by_bash;
use super::parse::{ForLoop, ParsedCommand, ParsedScript};
use super::pending_lookups::{
    PatternLookup, PendingLookup, PrintedLookup, PrintedNames, WordRole, WordSplitter, glob_path,
};
use super::read_only_commands::{
    PossibleDirectories, ReadTargets, is_harmless_operand, printed_names, readable_paths, targets_of_path,
};
use super::word::{Word, WordPiece};
use super::wrapper_layers::strip_wrappers;
use crate::paths::{contains_credentials, normalise};

/// Source of the further words of `xargs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum XargsInput {
    None,
    /// Names of files in the working directories.
    Names(PrintedNames),
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

/// Returns true if a command of this name may change the value of a variable.
pub(crate) fn may_change_variables(name: &str) -> bool {
    CHANGERS.contains(&name) || matches!(name, "printf" | "wait" | "coproc" | "select")
}

/// Maximum number of forms of one word, by the values of its variables, that are checked.
const MOST_VARIANTS: usize = 256;

pub(super) struct ValueScope<'a> {
    pub(super) facts: &'a ShellFacts<'a>,
    pub(super) directories: PossibleDirectories,
    parsed: &'a ParsedScript,
    /// Byte offset of the current command.
    at: usize,
    /// True if names in the working directories may be those of credentials.
    near_credentials: bool,
    /// True if some command may assign any value to variables.
    variables_may_change: bool,
    /// The variables of loops, each with true if loops assign them only names in the working directories.
    safe_variables: BTreeMap<&'a str, bool>,
    /// Those among them with values that only stay one word inside quotes.
    needs_quotes: HashSet<&'a str>,
    /// The values that loops assign to their variables, without duplicates.
    loop_values: BTreeMap<&'a str, Vec<&'a Word>>,
    /// The commands directly inside each substitution.
    substitution_commands: BTreeMap<usize, Vec<&'a ParsedCommand>>,
    /// The commands by byte offset; `fed_by` maps a command to the one that feeds it.
    commands: BTreeMap<usize, &'a ParsedCommand>,
    fed_by: BTreeMap<usize, usize>,
    /// True if something reads a file or a document instead of a pipe.
    takes_input: bool,
    /// The only directory in which its commands run.
    only_directory: Option<PathBuf>,
}

impl<'a> ValueScope<'a> {
    pub(super) fn new(text: &str, parsed: &'a ParsedScript, facts: &'a ShellFacts<'a>) -> Self {
        let mut standing = PossibleDirectories::new(facts.cwd);
        let mut unsettled = false;
        for command in &parsed.commands {
            let innermost = strip_wrappers(&command.words).last().map_or(&command.words[..], |layer| layer.words);
            match innermost.split_first().map(|(name, rest)| (name.value(), rest)) {
                Some((Some("cd"), [directory]))
                    if directory.value().is_some_and(|text| !text.starts_with(['-', '+'])) =>
                {
                    standing.add_cd(directory.value().unwrap_or(""));
                }
                Some((Some("cd" | "pushd" | "popd"), _)) => standing.mark_unknown(),
                Some((Some(name), _)) if CHANGERS.contains(&name) => {
                    standing.mark_unknown();
                    unsettled = true;
                }
                // `printf -v NAME`
                Some((Some("printf" | "wait"), rest)) => unsettled |= rest.iter().any(may_be_option),
                _ => {}
            }
        }
        let near_secrets = facts.roots.iter().any(|root| contains_credentials(root, facts.home));
        let mut inside: BTreeMap<usize, Vec<&ParsedCommand>> = BTreeMap::new();
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
        let stands_in = match standing.has_single_cd() {
            Some(false) => Some(facts.cwd.to_owned()),
            Some(true) => entered_directory(text, parsed).map(|directory| normalise(facts.cwd, Path::new(directory))),
            None => None,
        };
        // Of several at one position the first one counts.
        let commands = parsed.commands.iter().rev().map(|command| (command.at, command)).collect();
        let fed_by = parsed.pipes.iter().rev().map(|(from, to)| (*to, *from)).collect();
        let takes_input = parsed.redirects.iter().any(|redirect| redirect.operator.starts_with('<'));
        let tame = BTreeMap::new();
        let mut scene = Self {
            facts,
            directories: standing,
            parsed,
            at: 0,
            near_credentials: near_secrets,
            variables_may_change: unsettled,
            safe_variables: tame,
            needs_quotes: HashSet::new(),
            loop_values: given,
            substitution_commands: inside,
            commands,
            fed_by,
            takes_input,
            only_directory: stands_in,
        };
        for found in &parsed.loops {
            let tame = found.words.iter().all(|word| scene.is_safe_name(word));
            *scene.safe_variables.entry(&found.name).or_insert(true) &= tame;
            if found.words.iter().any(needs_quotes) {
                scene.needs_quotes.insert(&found.name);
            }
        }
        scene
    }

    /// Returns the directory in which every reading command runs, if there is only one.
    pub(super) fn only_directory(&self) -> Option<&Path> {
        self.only_directory.as_deref()
    }

    /// Moves to the command that begins at this byte.
    pub(super) fn move_to(&mut self, at: usize) {
        self.at = at;
    }

    /// Returns the targets that an operand opens, if reading all its possible values needs no prompt; empty for a word
    /// that opens nothing.
    pub(super) fn operand_targets(&self, word: &Word, role: WordRole) -> Option<ReadTargets> {
        match (word.value(), word.pieces()) {
            // An empty word opens nothing.
            (Some(text), _) if text.is_empty() || is_harmless_operand(text) => Some(ReadTargets::default()),
            (Some(text), _) => targets_of_path(text, self),
            // A flag whose value is only known at run time may name any file.
            (None, [WordPiece::Text(text), ..]) if text.starts_with('-') => None,
            (None, [WordPiece::Stream]) => Some(ReadTargets::default()),
            (None, [WordPiece::Choice(words)]) => self.brace_list_targets(words, role),
            (None, [WordPiece::Output(at)]) => {
                self.printed_targets(self.printed_by_substitution(*at)?, WordSplitter::Shell, role)
            }
            (None, [WordPiece::Output(at), ..]) => {
                self.composed_word_targets(&word.with_beginning(&self.printed_directory(*at, word)?), role)
            }
            (None, _) => self.composed_word_targets(word, role),
        }
    }

    /// Returns the targets of every word of a brace list.
    fn brace_list_targets(&self, words: &[Word], role: WordRole) -> Option<ReadTargets> {
        let mut reading = ReadTargets::default();
        for word in words {
            let option = matches!(word.pieces().first(), Some(WordPiece::Text(text)) if text.starts_with('-'));
            let targets = self.operand_targets(word, role)?;
            if option && role.may_be_option {
                return None;
            }
            reading.merge(targets);
        }
        Some(reading)
    }

    fn printed_targets(&self, printed: PrintedNames, reader: WordSplitter, role: WordRole) -> Option<ReadTargets> {
        let from = self.directories.known_directories()?.to_vec();
        let look = PendingLookup::Printed(PrintedLookup { printed, from, role, reader });
        Some(ReadTargets { lookups: vec![look], ..ReadTargets::default() })
    }

    /// Returns the targets that an input redirection opens, if they are inside the working directories.
    pub(super) fn input_redirect_targets(&self, word: &Word) -> Option<ReadTargets> {
        // After a `cd` the directory that it is relative to is unknown.
        let moved = self.directories.has_changed();
        match word.value() {
            Some(path) if moved && !path.starts_with('/') => None,
            Some(path) => readable_paths(path, self).map(ReadTargets::from_paths),
            None => self.operand_targets(word, WordRole::FILE).filter(|reading| !moved && !reading.assumes_unset),
        }
    }

    /// Returns the targets of a word of several pieces; every form that the loops assign must stay below the word's
    /// beginning.
    fn composed_word_targets(&self, word: &Word, role: WordRole) -> Option<ReadTargets> {
        let fits = |piece: &WordPiece| match piece {
            WordPiece::Text(text) => !text.contains(".."),
            WordPiece::Glob(_) => !self.near_credentials,
            WordPiece::Number => true,
            WordPiece::Variable(name) => {
                self.is_safe_variable(name) && !(word.may_split() && self.needs_quotes.contains(name.as_str()))
            }
            WordPiece::Tilde | WordPiece::Output(_) | WordPiece::Stream | WordPiece::Choice(_) | WordPiece::Unknown => {
                false
            }
        };
        if !word.pieces().iter().all(fits) {
            return None;
        }
        let has_variable = word.pieces().iter().any(|piece| matches!(piece, WordPiece::Variable(_)));
        let whole = !(has_variable && word.may_split());
        let unset = |piece: &WordPiece| matches!(piece, WordPiece::Variable(name) if !self.has_safe_value(name));
        let mut reading = ReadTargets { assumes_unset: word.pieces().iter().any(unset), ..ReadTargets::default() };
        for pieces in self.word_variants(word.pieces())? {
            reading.merge(self.variant_targets(&pieces, role, whole)?);
        }
        for at in self.printing_substitutions(word.pieces()) {
            reading.merge(self.printed_targets(self.printed_by_substitution(at)?, WordSplitter::Shell, role)?);
        }
        // The word has targets, but they are unknown.
        let untold = reading.paths.is_empty() && reading.lookups.is_empty() && !reading.assumes_unset;
        (!untold).then_some(reading)
    }

    /// Returns the substitutions whose output loops assign to the variables of a word, a line at a time.
    fn printing_substitutions(&self, pieces: &[WordPiece]) -> impl Iterator<Item = usize> {
        let names =
            pieces.iter().filter_map(|piece| if let WordPiece::Variable(name) = piece { Some(name) } else { None });
        let values = names.flat_map(|name| self.loop_values.get(name.as_str()).into_iter().flatten());
        values.filter_map(|value| if let [WordPiece::Output(at)] = value.pieces() { Some(*at) } else { None })
    }

    /// Returns the targets of a word without variables.
    fn variant_targets(&self, pieces: &[&WordPiece], role: WordRole, whole: bool) -> Option<ReadTargets> {
        let texts =
            pieces.iter().map(|piece| if let WordPiece::Text(text) = piece { Some(text.as_str()) } else { None });
        let text = texts.clone().take_while(Option::is_some).flatten().collect::<String>();
        if text.starts_with('-') && role.may_be_option {
            return None;
        }
        if texts.clone().all(|text| text.is_some()) {
            // An empty word opens nothing.
            return if text.is_empty() {
                Some(ReadTargets::default())
            } else {
                readable_paths(&text, self).map(ReadTargets::from_paths)
            };
        }
        let directory = text.rfind('/').map_or(".", |end| if end == 0 { "/" } else { &text[..end] });
        let mut reading = ReadTargets { folders: readable_paths(directory, self)?, ..ReadTargets::default() };
        let (pattern, from) = (glob_path(pieces)?, self.directories.known_directories()?.to_vec());
        reading.lookups.push(PendingLookup::Pattern(PatternLookup { pattern, from, role, one_word: whole }));
        Some(reading)
    }

    /// Returns the forms of a word, with its variables replaced by their values.
    fn word_variants<'p>(&self, pieces: &'p [WordPiece]) -> Option<Vec<Vec<&'p WordPiece>>>
    where
        'a: 'p,
    {
        let mut found: Vec<Vec<&WordPiece>> = vec![Vec::new()];
        for piece in pieces {
            let WordPiece::Variable(name) = piece else {
                found.iter_mut().for_each(|variant| variant.push(piece));
                continue;
            };
            let mut values: Vec<&[WordPiece]> = Vec::new();
            for value in self.loop_values.get(name.as_str()).map_or(&[][..], Vec::as_slice) {
                match value.pieces() {
                    // Its output is not in the text and needs a lookup.
                    [WordPiece::Output(_)] if pieces.len() == 1 => {}
                    [WordPiece::Output(_)] => return None,
                    value => values.push(value),
                }
            }
            if !self.has_safe_value(name) {
                values.push(&[]);
            }
            if found.len() * values.len() > MOST_VARIANTS {
                return None;
            }
            let with =
                |variant: &Vec<&'p WordPiece>, value: &&'p [WordPiece]| variant.iter().copied().chain(*value).collect();
            found = found.iter().flat_map(|variant| values.iter().map(move |value| with(variant, value))).collect();
        }
        Some(found)
    }

    /// Returns true for a variable that is unset, or to which loops assign only names in the working directories.
    /// Variables that bash changes by itself are neither: `_` is the last word of the previous command.
    fn is_safe_variable(&self, name: &str) -> bool {
        let given = self.safe_variables.get(name).copied();
        !self.variables_may_change
            && !is_set_by_bash(name)
            && given.unwrap_or_else(|| !name.chars().any(|c| c.is_ascii_uppercase()))
            && (self.is_inside_loop_over(name) || !self.facts.may_inherit(name))
    }

    /// Returns true if the current command only runs with a value that a loop has assigned to the variable.
    fn is_inside_loop_over(&self, name: &str) -> bool {
        self.loops_over(name).any(|found| found.body.contains(&self.at))
    }

    /// Returns true if the variable certainly has a value, and a safe one.
    fn has_safe_value(&self, name: &str) -> bool {
        self.is_safe_variable(name) && self.is_inside_loop_over(name)
    }

    /// Returns the words that loops assign to the variables of a word.
    pub(super) fn loop_values_for(&self, word: &Word) -> impl Iterator<Item = &'a Word> {
        let names: Vec<&str> = word
            .pieces()
            .iter()
            .filter_map(|piece| if let WordPiece::Variable(name) = piece { Some(name.as_str()) } else { None })
            .collect();
        let loops = self.parsed.loops.iter().filter(move |found| names.contains(&found.name.as_str()));
        loops.flat_map(|found| &found.words).collect::<Vec<_>>().into_iter()
    }

    fn loops_over(&self, name: &str) -> impl Iterator<Item = &'a ForLoop> {
        self.parsed.loops.iter().filter(move |found| found.name == name)
    }

    /// Returns true for a word of a loop's list that stands for names in the working directories.
    fn is_safe_name(&self, word: &Word) -> bool {
        match (word.value(), word.pieces()) {
            (Some(text), _) => !text.contains("..") && !text.starts_with('-') && readable_paths(text, self).is_some(),
            (None, [WordPiece::Output(at)]) => self.printed_by_substitution(*at).is_some(),
            (None, pieces) => {
                let plain =
                    |piece: &WordPiece| matches!(piece, WordPiece::Text(_) | WordPiece::Glob(_) | WordPiece::Number);
                pieces.iter().all(plain) && self.operand_targets(word, WordRole::OPERAND).is_some()
            }
        }
    }

    /// Returns the targets that a loop's list names; `None` if a word leads elsewhere.
    pub(super) fn loop_list_targets(&self, found: &ForLoop) -> Option<ReadTargets> {
        let mut reading = ReadTargets::default();
        for word in &found.words {
            let globs = word.pieces().iter().any(|piece| matches!(piece, WordPiece::Glob(_) | WordPiece::Tilde));
            match (word.value(), word.pieces()) {
                (Some(text), _) => reading.merge(ReadTargets::from_paths(readable_paths(text, self)?)),
                (None, _) if globs => reading.merge(self.operand_targets(word, WordRole::OPERAND)?),
                (None, [WordPiece::Output(at)]) => {
                    if let Some(printed) = self.printed_by_substitution(*at) {
                        reading.merge(self.printed_targets(printed, WordSplitter::Shell, WordRole::OPERAND)?);
                    }
                }
                (None, _) => {}
            }
        }
        Some(reading)
    }

    /// Returns the output of a substitution, if it is only names in the working directories.
    fn printed_by_substitution(&self, at: usize) -> Option<PrintedNames> {
        let (first, filters) = self.substitution_commands.get(&at)?.split_first()?;
        let follows = |pair: &[&ParsedCommand]| self.fed_by.get(&pair[1].at) == Some(&pair[0].at);
        let one_pipe = || {
            self.substitution_commands[&at].windows(2).all(follows)
                && filters.iter().all(|filter| passes_lines_through(filter))
        };
        let plain = filters.is_empty() || (!self.takes_input && one_pipe());
        if plain { self.printed_by_command(first) } else { None }
    }

    /// Returns the names that a command prints; `None` if credentials or error messages may be among them.
    fn printed_by_command(&self, command: &ParsedCommand) -> Option<PrintedNames> {
        if self.near_credentials || command.errors_join_output { None } else { printed_names(&command.words) }
    }

    /// Returns the directory that a substitution prints, for the beginning of a word.
    fn printed_directory(&self, at: usize, word: &Word) -> Option<Word> {
        let here = self.only_directory.as_deref()?.to_str()?;
        let whole = !word.may_split() || WordSplitter::Shell.keeps_whole(here);
        (whole && self.printed_by_substitution(at)? == PrintedNames::WorkingDirectory).then(|| Word::from_literal(here))
    }

    /// Returns the input of the command that begins at this byte.
    pub(super) fn xargs_input(&self, at: usize) -> XargsInput {
        if self.takes_input {
            return XargsInput::Anything;
        }
        let mut next = self.fed_by.get(&at).copied();
        let outermost = || self.commands.get(&at).is_some_and(|command| command.within.is_none());
        if self.parsed.pipes.is_empty() && self.parsed.loop_inputs.is_empty() && outermost() {
            // Nothing does, and the input of the text as a whole is empty.
            return XargsInput::None;
        }
        // Filters that pass whole lines on do not change their meaning.
        while let Some(from) = next {
            let Some(command) = self.commands.get(&from) else { break };
            if let Some(printed) = self.printed_by_command(command) {
                return XargsInput::Names(printed);
            }
            let from = if passes_lines_through(command) { from } else { break };
            next = self.fed_by.get(&from).copied();
        }
        XargsInput::Anything
    }
}

fn may_be_option(word: &Word) -> bool {
    word.value().is_none_or(|text| text.starts_with('-'))
}

/// Returns true if a value is split or globbed again when its variable is outside quotes.
fn needs_quotes(word: &Word) -> bool {
    let text =
        |piece: &WordPiece| matches!(piece, WordPiece::Text(text) if text.contains([' ', '\t', '\n', '*', '?', '[']));
    word.pieces().iter().any(text)
}

/// Returns the directory of a text that is a plain `cd directory && …`: the rest only runs there. Any other way to join
/// commands, and anything that could hide one, is not plain.
fn entered_directory<'t>(text: &'t str, parsed: &ParsedScript) -> Option<&'t str> {
    let (first, rest) = text.split_once("&&")?;
    let mut words = first.split_ascii_whitespace();
    let (Some("cd"), Some(directory), None) = (words.next(), words.next(), words.next()) else { return None };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    let climbs = directory.split('/').any(|name| name == "..");
    if !directory.chars().all(plain) || directory.starts_with('-') || climbs {
        return None;
    }
    let leads = parsed.commands.first()?.words.iter().map(Word::value).eq([Some("cd"), Some(directory)]);
    // An `&` that joins descriptors runs nothing in the background.
    let joined = rest.replace("&&", "").replace(">&", "").replace("&>", "");
    let hides = joined.contains([';', '&', '\n', '(', ')', '{', '}', '`']) || joined.contains("||");
    (leads && !hides).then_some(directory)
}

/// Returns true for filters that leave lines as they are; with a file operand they would pass that on, and counting
/// bytes cuts names.
fn passes_lines_through(command: &ParsedCommand) -> bool {
    if command.errors_join_output {
        return false;
    }
    let words: Option<Vec<&str>> = command.words.iter().map(Word::value).collect();
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
