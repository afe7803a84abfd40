//! A text taken apart into what has to be permitted one by one. This room says what each part is and what it names; it
//! knows no rule and no mode, and permits nothing.

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

/// Wrappers around one command that are each spoken for.
const MOST_LAYERS: usize = 16;

/// Longer parts are shown by their beginning, in characters.
const LONGEST_SHOWN: usize = 160;

/// Commands that change, create or remove their operands; most of them read, too.
pub(crate) const WRITERS: &[&str] = &[
    "tee", "cp", "mv", "ln", "install", "dd", "truncate", "touch", "mkdir", "rm", "rmdir", "unlink", "chmod", "chown",
    "chgrp", "patch", "shred", "sponge",
];

/// One command of a text, or the list of a loop.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommandPart {
    /// The command as it stands, then what is left behind each wrapper that adds nothing of its own. Empty when no rule
    /// about commands may speak for it.
    pub(crate) layers: Vec<Vec<Word>>,
    /// What it reads, when it only reads.
    pub(crate) reads: Option<ReadTargets>,
    /// What it edits, when it does nothing else.
    pub(crate) edits: Option<FileEdits>,
    /// Files that it changes and whose names only show when somebody looks.
    pub(crate) dynamic_writes: ReadTargets,
    /// The command as it stands.
    pub(crate) words: Vec<Word>,
    /// Variables set in front of it that no allow rule sees past.
    pub(crate) set_variables: Vec<String>,
}

/// What a command edits, from every directory where it may stand.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileEdits {
    /// Absolute paths in which nothing is normalised.
    pub(crate) paths: Vec<PathBuf>,
    /// What words stand for that are only known at run time.
    pub(crate) dynamic_paths: ReadTargets,
    pub(crate) copies: Vec<TreeCopy>,
    /// What is moved with everything in it.
    pub(crate) moves: Vec<TreeCopy>,
    /// Folders go with everything in them.
    pub(crate) removes_trees: bool,
}

/// A folder that is copied or moved with everything in it.
#[derive(Clone, Debug)]
pub(crate) struct TreeCopy {
    pub(crate) source: PathBuf,
    pub(crate) target: PathBuf,
}

impl CommandPart {
    /// The part for people.
    pub(crate) fn display_text(&self) -> String {
        let sets = self.set_variables.iter().map(|name| format!("{name}=…"));
        let text = sets.chain(self.words.iter().map(Word::display_text)).collect::<Vec<_>>().join(" ");
        match text.char_indices().nth(LONGEST_SHOWN) {
            Some((at, _)) => format!("{}…", &text[..at]),
            None => text,
        }
    }
}

/// Every part of a text that was understood.
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
        // Said again word for word, it is nothing new to permit.
        if has_fixed_meaning(command) && !known.insert((&command.words, command.in_loop)) {
            continue;
        }
        scene.move_to(command.at);
        let mut part = build_part(command, &scene);
        // A link leads somewhere else from its new place, which nobody has looked at for what comes next.
        if parsed.commands.len() > 1 && is_move(command) {
            part.edits = None;
        }
        parts.push(part);
    }
    let makes_options = may_create_option_names(parsed, &parts);
    let linking = parsed.commands.iter().filter(|command| may_create_symlinks(&command.words)).count();
    let makes_links = linking > 0;
    for part in &mut parts {
        // What the others make.
        let meets_links = linking > usize::from(may_create_symlinks(&part.words));
        // Nobody can look at what is only made when the text runs.
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

/// Whether nothing but its own words says what a command does.
fn has_fixed_meaning(command: &ParsedCommand) -> bool {
    let fixed = command.assignments.is_empty() && !command.words.iter().any(Word::is_dynamic);
    fixed && !strip_wrappers(&command.words).iter().any(|layer| layer.gets_more_words)
}

/// Whether a text makes files whose names a later command could take for options.
fn may_create_option_names(parsed: &ParsedScript, parts: &[CommandPart]) -> bool {
    let odd = |path: &str| base_name(path).starts_with('-');
    let target = |word: &Word| word.value().is_none_or(odd);
    let edited = parts.iter().filter_map(|part| part.edits.as_ref()).flat_map(|edits| &edits.paths);
    edited.into_iter().any(|path| odd(&path.to_string_lossy()))
        || parsed.redirects.iter().any(|redirect| redirect.operator.contains('>') && target(&redirect.target))
}

/// Whether a command may put links where later commands of the same text read.
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
    // Of very many only the whole and its core count: each is the text once more.
    let counts = |at: usize| at == 0 || at + 1 == layers.len() || layers.len() <= MOST_LAYERS;
    let spoken = layers.iter().enumerate().filter(|(at, _)| speakable && counts(*at));
    let layers = spoken.map(|(_, layer)| with_feed(layer.words, layer.gets_more_words)).collect();
    CommandPart { layers, reads: reading, edits, dynamic_writes: written, ..silent }
}

fn is_harmless_assignment(assignment: &VariableAssignment) -> bool {
    assignment.value.is_some() && HARMLESS_VARIABLES.contains(&assignment.name.as_str())
}

/// What a command that changes files gets told only at run time; `None` when nobody can say that no protected file is
/// among it.
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
    /// What a word stands for whose value is not known, if that stays in the working directories and off every protected
    /// path.
    fn writable_targets(&self, word: &Word, role: WordRole) -> Option<ReadTargets> {
        let from_output = |word: &Word| word.pieces().iter().any(|piece| matches!(piece, WordPiece::Output(_)));
        let variables = word.pieces().iter().filter(|piece| matches!(piece, WordPiece::Variable(_))).count();
        let values: Vec<String> = self.loop_values_for(word).map(mask_unknown_pieces).collect();
        // An unset variable leaves nothing.
        let values = if values.is_empty() { vec![String::new()] } else { values };
        let spelled =
            |value: &String| word.pieces().iter().map(|piece| piece_spelling(piece, value)).collect::<String>();
        let open = variables <= 1
            && !from_output(word)
            && !self.loop_values_for(word).any(from_output)
            && !values.iter().any(|value| may_become_protected(&spelled(value)));
        self.operand_targets(word, role).filter(|reading| open && !reading.outside_roots)
    }

    /// What is edited from every directory where the command may stand.
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

/// A word with `*` for whatever is not known of it.
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
