//! Splits a text into the parts that have to be permitted one by one. This module describes each part and the files it
//! names; it must not know rules or modes, and permits nothing.

use std::collections::HashSet;
use std::path::PathBuf;

use super::ShellFacts;
use super::command_facts::{git_subcommand, known_words};
use super::edit_commands::{EditOperands, parse_edit_command};
use super::parse::{ParsedCommand, ParsedScript, VariableAssignment};
use super::pending_lookups::WordRole;
use super::read_only_commands::{ReadTargets, find_read_targets};
use super::value_flow::{ValueScope, XargsInput};
use super::word::{Word, WordPiece};
use super::wrapper_layers::strip_wrappers;
use super::wrappers::{base_name, reachable_commands};
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

/// Maximum number of wrappers around one command that are each recorded as a layer.
const MOST_LAYERS: usize = 16;

/// Length in characters above which a part is shown truncated.
const LONGEST_SHOWN: usize = 160;

/// Commands that change, create or remove their operands; most of them read, too.
pub(crate) const WRITERS: &[&str] = &[
    "tee", "cp", "mv", "ln", "install", "dd", "truncate", "touch", "mkdir", "rm", "rmdir", "unlink", "chmod", "chown",
    "chgrp", "patch", "shred", "sponge",
];

/// One command of a text, or the list of a loop.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommandPart {
    /// The command as written, then the rest after each wrapper that adds nothing of its own. Empty if rules about
    /// commands must not cover it.
    pub(crate) layers: Vec<Vec<Word>>,
    /// Files that it reads, if it only reads.
    pub(crate) reads: Option<ReadTargets>,
    /// Files that it edits, if it does nothing else.
    pub(crate) edits: Option<FileEdits>,
    /// Files that it changes and whose names need a file-system lookup.
    pub(crate) dynamic_writes: ReadTargets,
    /// The command as written.
    pub(crate) words: Vec<Word>,
    /// Variables set in front of it that no allow rule ignores.
    pub(crate) set_variables: Vec<String>,
}

/// Files that a command edits, resolved from every directory in which it may run.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileEdits {
    /// Absolute paths, not normalised.
    pub(crate) paths: Vec<PathBuf>,
    /// Targets of words that are only known at run time.
    pub(crate) dynamic_paths: ReadTargets,
    pub(crate) copies: Vec<TreeCopy>,
    /// Sources and targets of recursive moves.
    pub(crate) moves: Vec<TreeCopy>,
    /// True if directories are removed recursively.
    pub(crate) removes_trees: bool,
}

/// A directory that is copied or moved recursively.
#[derive(Clone, Debug)]
pub(crate) struct TreeCopy {
    pub(crate) source: PathBuf,
    pub(crate) target: PathBuf,
}

impl CommandPart {
    /// Returns the part as text for display.
    pub(crate) fn display_text(&self) -> String {
        let sets = self.set_variables.iter().map(|name| format!("{name}=…"));
        let text = sets.chain(self.words.iter().map(Word::display_text)).collect::<Vec<_>>().join(" ");
        match text.char_indices().nth(LONGEST_SHOWN) {
            Some((at, _)) => format!("{}…", &text[..at]),
            None => text,
        }
    }
}

/// Returns every part of a text that was understood.
pub(super) fn split_parts(text: &str, parsed: &ParsedScript, facts: &ShellFacts<'_>) -> Vec<CommandPart> {
    let mut scene = ValueScope::new(text, parsed, facts);
    let mut parts = Vec::new();
    for found in &parsed.loops {
        let heads = ["for", found.name.as_str(), "in"].into_iter().map(Word::from_literal);
        let words = heads.chain(found.words.iter().cloned()).collect();
        parts.push(CommandPart { reads: scene.loop_list_targets(found), words, ..CommandPart::default() });
    }
    let mut known: HashSet<(&[Word], bool)> = HashSet::new();
    for command in &parsed.commands {
        // An exact repetition needs no further permission.
        if has_fixed_meaning(command) && !known.insert((&command.words, command.in_loop)) {
            continue;
        }
        scene.move_to(command.at);
        let mut part = build_part(command, &scene);
        // A moved symlink resolves differently from its new place, which was not checked for later commands.
        if parsed.commands.len() > 1 && is_move(command) {
            part.edits = None;
        }
        parts.push(part);
    }
    let makes_options = may_create_option_names(parsed, &parts);
    let linking = parsed.commands.iter().filter(|command| may_create_symlinks(&command.words)).count();
    let makes_links = linking > 0;
    for part in &mut parts {
        // Symlinks made by the other commands.
        let meets_links = linking > usize::from(may_create_symlinks(&part.words));
        // Files that are only made at run time cannot be checked.
        let unsure = |reading: &ReadTargets| {
            (makes_options && !reading.lookups.is_empty())
                || (makes_links && !(reading.lookups.is_empty() && reading.paths.is_empty()))
        };
        part.reads = part.reads.take().filter(|reading| !unsure(reading));
        let looks = |edits: &FileEdits| !(edits.dynamic_paths.lookups.is_empty() && edits.copies.is_empty());
        let unseen = meets_links || makes_options;
        part.edits = part.edits.take().filter(|edits| !(unseen && looks(edits)));
    }
    parts
}

/// Returns true if a command's effect depends on nothing but its own words.
fn has_fixed_meaning(command: &ParsedCommand) -> bool {
    let fixed = command.assignments.is_empty() && !command.words.iter().any(Word::is_dynamic);
    fixed && !strip_wrappers(&command.words).iter().any(|layer| layer.gets_more_words)
}

/// Returns true if a text creates files whose names a later command could treat as options.
fn may_create_option_names(parsed: &ParsedScript, parts: &[CommandPart]) -> bool {
    let odd = |path: &str| base_name(path).starts_with('-');
    let target = |word: &Word| word.value().is_none_or(odd);
    let edited = parts.iter().filter_map(|part| part.edits.as_ref()).flat_map(|edits| &edits.paths);
    edited.into_iter().any(|path| odd(&path.to_string_lossy()))
        || parsed.redirects.iter().any(|redirect| redirect.operator.contains('>') && target(&redirect.target))
}

/// Returns true if a command may create symlinks where later commands of the text read.
fn may_create_symlinks(words: &[Word]) -> bool {
    const GIT: &[&str] = &[
        "am",
        "apply",
        "bisect",
        "checkout",
        "checkout-index",
        "cherry-pick",
        "clone",
        "merge",
        "pull",
        "read-tree",
        "rebase",
        "reset",
        "restore",
        "revert",
        "stash",
        "submodule",
        "switch",
        "worktree",
    ];
    reachable_commands(words).into_iter().any(|words| {
        let known = known_words(words);
        let Some((name, arguments)) = known.split_first() else { return false };
        match *name {
            "ln" | "tar" | "bsdtar" | "unzip" | "7z" | "cpio" | "rsync" | "mv" | "patch" => true,
            "cp" => arguments.iter().any(|word| word.starts_with('-') && word.contains(['r', 'R', 'a', 'd', 'P', 's'])),
            "git" => git_subcommand(arguments).is_some_and(|(subcommand, _)| GIT.contains(&subcommand)),
            _ => false,
        }
    })
}

fn is_move(command: &ParsedCommand) -> bool {
    let layers = strip_wrappers(&command.words);
    let name = layers.last().and_then(|layer| layer.words.first()).and_then(Word::value);
    name.is_some_and(|name| base_name(name) == "mv")
}

fn build_part(command: &ParsedCommand, scene: &ValueScope<'_>) -> CommandPart {
    let unseen = command.assignments.iter().filter(|assignment| !is_harmless_assignment(assignment));
    let sets: Vec<String> = unseen.map(|assignment| assignment.name.clone()).collect();
    let silent = CommandPart { words: command.words.clone(), set_variables: sets, ..CommandPart::default() };
    if !silent.set_variables.is_empty() {
        return silent;
    }
    let layers = strip_wrappers(&command.words);
    let Some(innermost) = layers.last() else { return silent };
    let feed = if innermost.gets_more_words { scene.xargs_input(command.at) } else { XargsInput::None };
    let edits = if innermost.gets_more_words {
        None
    } else {
        parse_edit_command(innermost.words).and_then(|edited| scene.resolve_edit_operands(edited))
    };
    let reading = find_read_targets(innermost.words, feed, scene, command.in_loop);
    let written = find_dynamic_writes(innermost.words, innermost.gets_more_words, scene);
    let speakable = written.is_some();
    let written = written.unwrap_or_default();
    let with_feed = |words: &[Word], fed: bool| {
        let further = fed.then(Word::unknown);
        words.iter().cloned().chain(further).collect()
    };
    // Of very many layers only the whole and the core count: each is a copy of the text.
    let counts = |at: usize| at == 0 || at + 1 == layers.len() || layers.len() <= MOST_LAYERS;
    let spoken = layers.iter().enumerate().filter(|(at, _)| speakable && counts(*at));
    let layers = spoken.map(|(_, layer)| with_feed(layer.words, layer.gets_more_words)).collect();
    CommandPart { layers, reads: reading, edits, dynamic_writes: written, ..silent }
}

fn is_harmless_assignment(assignment: &VariableAssignment) -> bool {
    assignment.value.is_some() && HARMLESS_VARIABLES.contains(&assignment.name.as_str())
}

/// Returns the targets that a command which changes files only gets at run time; `None` if a protected file may be
/// among them.
fn find_dynamic_writes(words: &[Word], fed: bool, scene: &ValueScope<'_>) -> Option<ReadTargets> {
    let mut written = ReadTargets::default();
    let Some((name, arguments)) = words.split_first() else { return Some(written) };
    let Some(name) = name.value().map(base_name) else { return Some(written) };
    let in_place =
        name == "sed" && arguments.iter().any(|word| word.value().is_some_and(|text| text.starts_with("-i")));
    if !WRITERS.contains(&name) && !in_place {
        return Some(written);
    }
    if fed {
        return None;
    }
    for word in arguments.iter().filter(|word| word.is_dynamic()).flat_map(Word::choices) {
        written.merge(scene.writable_targets(word, WordRole::FILE)?);
    }
    Some(written)
}

impl ValueScope<'_> {
    /// Returns the targets of a word with an unknown value, if they stay in the working directories and off every
    /// protected path.
    fn writable_targets(&self, word: &Word, role: WordRole) -> Option<ReadTargets> {
        let from_output = |word: &Word| word.pieces().iter().any(|piece| matches!(piece, WordPiece::Output(_)));
        let variables = word.pieces().iter().filter(|piece| matches!(piece, WordPiece::Variable(_))).count();
        let values: Vec<String> = self.loop_values_for(word).map(mask_unknown_pieces).collect();
        // An unset variable expands to nothing.
        let values = if values.is_empty() { vec![String::new()] } else { values };
        let spelled =
            |value: &String| word.pieces().iter().map(|piece| piece_spelling(piece, value)).collect::<String>();
        let open = variables <= 1
            && !from_output(word)
            && !self.loop_values_for(word).any(from_output)
            && !values.iter().any(|value| may_become_protected(&spelled(value)));
        self.operand_targets(word, role).filter(|reading| open && !reading.outside_roots)
    }

    /// Resolves the edited paths from every directory in which the command may run.
    fn resolve_edit_operands(&self, edited: EditOperands<'_>) -> Option<FileEdits> {
        let from = self.directories.known_directories()?;
        let mut matched = ReadTargets::default();
        for (word, role) in edited.words {
            matched.merge(self.writable_targets(word, role).filter(|reading| !reading.assumes_unset)?);
        }
        let anywhere = |path: &String| from.iter().map(|from| from.join(path)).collect::<Vec<_>>();
        let paths = edited.paths.iter().flat_map(anywhere).collect();
        let copy = |(source, target): &(String, String)| {
            let from = from.iter().map(|from| TreeCopy { source: from.join(source), target: from.join(target) });
            from.collect::<Vec<_>>()
        };
        let copies = edited.copies.iter().flat_map(copy).collect();
        let moves = edited.moves.iter().flat_map(copy).collect();
        Some(FileEdits { paths, dynamic_paths: matched, copies, moves, removes_trees: edited.removes_trees })
    }
}

/// Returns a word with `*` in place of every unknown piece.
fn mask_unknown_pieces(word: &Word) -> String {
    word.pieces().iter().map(|piece| piece_spelling(piece, "*")).collect()
}

fn piece_spelling<'a>(piece: &'a WordPiece, variable: &'a str) -> &'a str {
    match piece {
        WordPiece::Text(text) => text,
        WordPiece::Variable(_) => variable,
        _ => "*",
    }
}
