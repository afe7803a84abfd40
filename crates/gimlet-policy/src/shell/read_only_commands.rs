//! Commands that are known to only read, and only inside the working directories. A flag that is not in the tables, an
//! abbreviated long option, or a word whose value could matter and is unknown makes a command not read-only.

mod git_read_only;
mod printed_names;
mod read_only_table;
mod special_commands;
mod test_conditions;

use std::path::{Component, Path, PathBuf};

use super::ShellFacts;
use super::pending_lookups::{PendingLookup, PrintedLookup, WordRole, WordSplitter};
use super::value_flow::{ValueScope, XargsInput};
use super::word::{Word, WordPiece};
use crate::paths::{
    GlobSegment, contains_credentials, is_credential_path, is_inside, is_malformed, is_protected, normalise,
};
pub(super) use printed_names::printed_names;
use read_only_table::{OperandKind, ROWS, ReadOnlyRow, list_contains};
pub(super) use special_commands::is_line_range;

/// Maximum number of directories in which the commands of one text may run.
const MOST_DIRECTORIES: usize = 8;

/// Files and directories that a read-only command reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadTargets {
    /// The paths it names, normalised, from every directory in which it may run.
    pub(crate) paths: Vec<PathBuf>,
    /// Paths among these that begin with `..`, as written: only a check that resolves symlinks can confirm that they
    /// lead where their spelling does.
    pub(crate) parent_paths: Vec<PathBuf>,
    /// Directories that the shell reads for names.
    pub(crate) folders: Vec<PathBuf>,
    /// Lookups that are needed before the list of paths is complete.
    pub(crate) lookups: Vec<PendingLookup>,
    /// True if it reads directories recursively.
    pub(crate) recursive: bool,
    /// In directories it opens only files of these names; empty for all files.
    pub(crate) only_names: Vec<GlobSegment>,
    /// True if some of the paths lie outside the working directories: it only reads, but needs permission.
    pub(crate) outside_roots: bool,
    /// True if a variable in it is assumed to be unset, since nothing in the text sets it.
    pub(crate) assumes_unset: bool,
}

impl ReadTargets {
    pub(super) fn from_paths(paths: Vec<PathBuf>) -> Self {
        Self { paths, ..Self::default() }
    }

    pub(super) fn merge(&mut self, more: Self) {
        self.paths.extend(more.paths);
        self.parent_paths.extend(more.parent_paths);
        self.folders.extend(more.folders);
        self.lookups.extend(more.lookups);
        self.recursive |= more.recursive;
        self.outside_roots |= more.outside_roots;
        self.assumes_unset |= more.assumes_unset;
    }

    /// Returns every path that it opens as far as the text shows.
    pub(crate) fn spelled_paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.paths.iter().chain(&self.folders)
    }
}

/// Directories in which a command of a text may run. A `cd` may fail, run in a subshell or repeat in a loop, so every
/// directory counts for every command.
#[derive(Debug)]
pub(super) struct PossibleDirectories {
    directories: Vec<PathBuf>,
    moves: usize,
    /// True if there are more than can be tracked.
    unknown: bool,
}

impl PossibleDirectories {
    pub(super) fn new(cwd: &Path) -> Self {
        Self { directories: vec![cwd.to_owned()], moves: 0, unknown: false }
    }

    /// Records the possible target of a `cd`.
    pub(super) fn add_cd(&mut self, directory: &str) {
        self.moves += 1;
        if self.unknown {
            return;
        }
        let reached: Vec<PathBuf> = self.directories.iter().map(|from| normalise(from, Path::new(directory))).collect();
        for path in reached {
            if !self.directories.contains(&path) {
                self.directories.push(path);
            }
        }
        self.unknown |= self.directories.len() > MOST_DIRECTORIES;
        self.directories.truncate(MOST_DIRECTORIES);
    }

    /// Stops tracking: the directory is unknown from here on.
    pub(super) fn mark_unknown(&mut self) {
        self.unknown = true;
    }

    /// Returns every directory in which a command may run, or `None` if unknown.
    pub(super) fn known_directories(&self) -> Option<&[PathBuf]> {
        (!self.unknown).then_some(&self.directories)
    }

    pub(super) fn has_changed(&self) -> bool {
        self.directories.len() > 1 || self.unknown
    }

    /// Returns true if there is one `cd`, false if none; `None` for more, and if they cannot be tracked.
    pub(super) fn has_single_cd(&self) -> Option<bool> {
        (self.moves <= 1 && !self.unknown).then_some(self.moves == 1)
    }
}

/// Returns the targets that a command reads, or `None` if it is not known to only read. `feed` is the source of further
/// words.
pub(super) fn find_read_targets(
    words: &[Word],
    feed: XargsInput,
    scene: &ValueScope<'_>,
    in_loop: bool,
) -> Option<ReadTargets> {
    let (name, arguments) = words.split_first()?;
    let name = name.value()?;
    let fixed = || match feed {
        XargsInput::None => arguments.iter().map(Word::value).collect::<Option<Vec<&str>>>(),
        _ => None,
    };
    match name {
        "cd" => cd_targets(&fixed()?, scene, in_loop),
        "printf" if !special_commands::is_plain_printf(arguments) => None,
        "printf" => targets_of_globs(arguments, scene),
        "test" | "[" | "[[" if feed == XargsInput::None => {
            targets_of_words(test_conditions::condition_files(words)?, scene)
        }
        "date" if feed == XargsInput::None => targets_of_words(special_commands::date_files(arguments)?, scene),
        "find" => find_command_targets(&fixed()?, scene),
        "sed" => targets_of_texts(&special_commands::sed_files(&fixed()?)?, scene),
        "git" => git_read_targets(&fixed()?, scene),
        _ => targets_of_row(find_row(name)?, arguments, feed, scene),
    }
}

fn cd_targets(arguments: &[&str], scene: &ValueScope<'_>, in_loop: bool) -> Option<ReadTargets> {
    let [directory] = arguments else { return None };
    let climbs = Path::new(directory).components().any(|part| part == Component::ParentDir);
    let standing = &scene.directories;
    // In a loop it may move further up each time; on its own it starts from the session's directory.
    let start = &standing.directories[..1];
    let reading = match climbs {
        true if in_loop || standing.moves > 1 || standing.unknown => return None,
        true => match readable_paths_from(directory, start, false, scene) {
            Some(targets) => ReadTargets::from_paths(targets),
            None => targets_of_parent_path(directory, start.first()?, scene)?,
        },
        false => ReadTargets::from_paths(readable_paths(directory, scene)?),
    };
    let refused = directory.starts_with(['-', '+']) || reading.paths.iter().any(|target| is_protected(target));
    // A symlink may lead it out of the roots, so the check that resolves symlinks judges it as a read.
    (!refused).then_some(reading)
}

fn git_read_targets(arguments: &[&str], scene: &ValueScope<'_>) -> Option<ReadTargets> {
    // Another directory may be another repository, whose configuration was not checked.
    if scene.directories.has_changed() {
        return None;
    }
    // A revision is not a path, but none looks like a path outside.
    let operands = git_read_only::git_path_operands(arguments)?;
    let climbs = |operand: &str| Path::new(operand).components().any(|part| part == Component::ParentDir);
    // Two untracked paths are compared as they are on disk, through symlinks on the way.
    let compares = arguments.first() == Some(&"diff");
    let named = operands.iter().filter(|name| compares || name.starts_with(['/', '.', '~']) || climbs(name));
    let paths = named.filter(|operand| !operand.is_empty()).map(|operand| readable_paths(operand, scene));
    let paths = paths.collect::<Option<Vec<_>>>()?.concat();
    Some(if compares { ReadTargets::from_paths(paths) } else { ReadTargets::default() })
}

fn find_command_targets(arguments: &[&str], scene: &ValueScope<'_>) -> Option<ReadTargets> {
    let mut reading = targets_of_texts(&special_commands::find_command_paths(arguments)?, scene)?;
    if special_commands::find_follows_symlinks(arguments) {
        let roots = if reading.paths.is_empty() {
            scene.directories.known_directories()?.to_vec()
        } else {
            reading.paths.clone()
        };
        reading.lookups.push(PendingLookup::Tree { roots, deep: true });
    }
    Some(reading)
}

fn targets_of_texts(paths: &[&str], scene: &ValueScope<'_>) -> Option<ReadTargets> {
    let mut reading = ReadTargets::default();
    for operand in paths.iter().filter(|operand| !is_harmless_operand(operand)) {
        reading.merge(targets_of_path(operand, scene)?);
    }
    Some(reading)
}

/// Returns the targets of a command with this path as operand: freely readable inside the working directories, with
/// permission elsewhere.
pub(super) fn targets_of_path(path: &str, scene: &ValueScope<'_>) -> Option<ReadTargets> {
    let inside = readable_paths(path, scene).map(ReadTargets::from_paths);
    let up = || scene.only_directory().and_then(|directory| targets_of_parent_path(path, directory, scene));
    let elsewhere = || {
        outside_path(path, scene).map(|path| ReadTargets { outside_roots: true, ..ReadTargets::from_paths(vec![path]) })
    };
    inside.or_else(up).or_else(elsewhere)
}

/// Returns the targets of a path that begins with `..` and whose spelling leads to a working directory. The kernel has
/// to resolve it alike, which the caller must check.
fn targets_of_parent_path(operand: &str, directory: &Path, scene: &ValueScope<'_>) -> Option<ReadTargets> {
    let path = Path::new(operand);
    let is_up = |part: &Component<'_>| *part == Component::ParentDir;
    let mut below = path.components().skip_while(|part| is_up(part) || *part == Component::CurDir);
    let begins = path.components().find(|part| *part != Component::CurDir).as_ref().is_some_and(is_up);
    if !begins || below.any(|part| is_up(&part)) || is_malformed(path) {
        return None;
    }
    let clean = normalise(directory, path);
    let open = is_readable_path(&clean, scene.facts, |root| is_inside(&clean, root));
    open.then(|| ReadTargets { parent_paths: vec![directory.join(path)], ..ReadTargets::from_paths(vec![clean]) })
}

/// Returns an absolute path outside the working directories that has no `..` and is not one of credentials.
fn outside_path(text: &str, scene: &ValueScope<'_>) -> Option<PathBuf> {
    let path = Path::new(text);
    let climbs = path.components().any(|part| part == Component::ParentDir);
    let clean = normalise(Path::new("/"), path);
    let inside = scene.facts.roots.iter().any(|root| is_inside(&clean, root));
    let open = path.is_absolute() && !climbs && !inside && !is_malformed(path);
    (open && !contains_credentials(&clean, scene.facts.home)).then_some(clean)
}

fn targets_of_words(words: Vec<&Word>, scene: &ValueScope<'_>) -> Option<ReadTargets> {
    let mut reading = ReadTargets::default();
    for word in words {
        reading.merge(scene.operand_targets(word, WordRole::FILE)?);
    }
    Some(reading)
}

/// Returns true for standard input and the null device.
pub(super) fn is_harmless_operand(operand: &str) -> bool {
    matches!(operand, "-" | "/dev/null")
}

/// Returns the directories that globs read, regardless of how the names are used.
fn targets_of_globs(words: &[Word], scene: &ValueScope<'_>) -> Option<ReadTargets> {
    let mut reading = ReadTargets::default();
    let words = words.iter().flat_map(Word::choices);
    for word in words.filter(|word| word.pieces().iter().any(|piece| matches!(piece, WordPiece::Glob(_)))) {
        reading.merge(scene.operand_targets(word, WordRole::TEXT)?);
    }
    Some(reading)
}

fn targets_of_row(
    row: &ReadOnlyRow,
    arguments: &[Word],
    feed: XargsInput,
    scene: &ValueScope<'_>,
) -> Option<ReadTargets> {
    if row.operands == OperandKind::Text {
        return targets_of_globs(arguments, scene);
    }
    let mut split = SortedArguments::parse(row, arguments)?;
    let dynamic = split.paths.iter().any(|operand| operand.word.is_dynamic()) || feed != XargsInput::None;
    if dynamic && !row.flags_are_harmless {
        return None;
    }
    // Without following symlinks, it traverses directories like any other recursive reader.
    let recursive = split.recursive || (row.name == "diff" && split.follows_symlinks(row).is_none());
    let mut reading = ReadTargets { recursive, only_names: split.included_names(), ..ReadTargets::default() };
    for operand in &split.paths {
        reading.merge(scene.operand_targets(operand.word, operand.role)?);
    }
    match feed {
        XargsInput::None => {}
        XargsInput::Anything => return None,
        XargsInput::Names(printed) => {
            let role = WordRole { opens: true, may_be_option: !split.flags_ended };
            let from = scene.directories.known_directories()?.to_vec();
            reading.lookups.push(PendingLookup::Printed(PrintedLookup {
                printed,
                from,
                role,
                reader: WordSplitter::Xargs,
            }));
        }
    }
    let mut roots: Vec<PathBuf> = reading.spelled_paths().cloned().collect();
    let is_stream = |operand: &PathOperand<'_>| matches!(operand.word.pieces(), [WordPiece::Stream]);
    if roots.is_empty() && (split.paths.is_empty() || !split.paths.iter().all(is_stream)) {
        roots = scene.directories.directories.clone();
    }
    let gives_away = reading.recursive && roots.iter().any(|root| contains_credentials(root, scene.facts.home));
    if let Some(deep) = split.follows_symlinks(row) {
        // The directories must be known before they can be checked.
        if !reading.lookups.is_empty() || scene.directories.unknown {
            return None;
        }
        reading.lookups.push(PendingLookup::Tree { roots, deep });
    }
    (!gives_away).then_some(reading)
}

/// Returns the path operands of a command; `None` unless its words are static and its every flag is in its row.
pub(super) fn path_operands(words: &[Word]) -> Option<Vec<&str>> {
    let (name, arguments) = words.split_first()?;
    let row = find_row(name.value()?)?;
    if row.operands == OperandKind::Text {
        return Some(Vec::new());
    }
    SortedArguments::parse(row, arguments)?.paths.into_iter().map(|operand| operand.word.value()).collect()
}

fn find_row(name: &str) -> Option<&'static ReadOnlyRow> {
    ROWS.iter().find(|row| row.name == name)
}

/// A word that names a file.
#[derive(Clone, Copy)]
struct PathOperand<'a> {
    word: &'a Word,
    role: WordRole,
}

/// Classified arguments of a command.
#[derive(Default)]
struct SortedArguments<'a> {
    paths: Vec<PathOperand<'a>>,
    /// The letters of short flags and the names of long ones.
    seen: Vec<&'a str>,
    recursive: bool,
    /// True after `--`.
    flags_ended: bool,
    has_pattern: bool,
    /// True if a word before may or may not have been a flag.
    doubtful: bool,
    /// The values of `--include=…`.
    included: Vec<GlobSegment>,
}

impl<'a> SortedArguments<'a> {
    fn parse(row: &ReadOnlyRow, arguments: &'a [Word]) -> Option<Self> {
        let mut split = SortedArguments { recursive: row.recursive == "*", ..SortedArguments::default() };
        let mut operands = Vec::new();
        let mut rest = arguments.iter();
        while let Some(word) = rest.next() {
            let role = if split.flags_ended { WordRole::FILE } else { WordRole::OPERAND };
            if let Some(flags) = globbed_flags(row, word)
                && !split.flags_ended
            {
                flags.into_iter().for_each(|flag| split.record_flag(row, flag));
                word.choices().iter().for_each(|word| split.record_include(word));
                continue;
            }
            let Some(text) = word.value() else {
                operands.push(PathOperand { word, role });
                split.doubtful = true;
                continue;
            };
            let digits = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            let numeric = row.numeric && text.strip_prefix('-').is_some_and(digits);
            if split.flags_ended || text == "-" || !text.starts_with('-') {
                operands.push(PathOperand { word, role });
            } else if text == "--" {
                split.flags_ended = true;
            } else if !numeric {
                let value = split.classify_flag(row, &text[1..])?;
                split.record_include(word);
                split.take_value(value, &mut rest)?;
            }
        }
        if row.operands == OperandKind::OnePath && operands.len() > 1 {
            return None;
        }
        let first_is_pattern = row.operands == OperandKind::PatternThenPaths && !split.has_pattern && !split.doubtful;
        let lone_pattern =
            row.operands == OperandKind::PatternThenPaths && !split.has_pattern && is_one_word(&operands);
        let skipped = usize::from(first_is_pattern || lone_pattern).min(operands.len());
        split.paths.extend(operands.drain(skipped..));
        Some(split)
    }

    /// Returns the kind of value that a flag takes, or `None` for a flag that is not in the row.
    fn classify_flag(&mut self, row: &ReadOnlyRow, flag: &'a str) -> Option<FlagValue> {
        if let Some(long) = flag.strip_prefix('-') {
            let (name, attached) = long.split_once('=').map_or((long, false), |(name, _)| (name, true));
            self.record_flag(row, name);
            return match attached {
                true if list_contains(row.long_valued, name) => Some(FlagValue::None),
                // A file attached to the flag is not checked; this form is never necessary.
                true => None,
                false if list_contains(row.long, name) => Some(FlagValue::None),
                false if list_contains(row.long_valued, name) => Some(FlagValue::Next),
                false if list_contains(row.long_filed, name) => Some(FlagValue::NextFile),
                false => None,
            };
        }
        for (at, letter) in flag.char_indices() {
            self.record_flag(row, &flag[at..at + letter.len_utf8()]);
            let last = at + letter.len_utf8() == flag.len();
            if row.valued.contains(letter) {
                return Some(if last { FlagValue::Next } else { FlagValue::None });
            }
            if row.filed.contains(letter) {
                return last.then_some(FlagValue::NextFile);
            }
            if !row.short.contains(letter) {
                return None;
            }
        }
        Some(FlagValue::None)
    }

    fn record_flag(&mut self, row: &ReadOnlyRow, flag: &'a str) {
        self.seen.push(flag);
        self.recursive |= list_contains(row.recursive, flag);
        let gives_pattern = matches!(flag, "e" | "f" | "regexp" | "file") || (row.name == "rg" && flag == "files");
        self.has_pattern |= row.operands == OperandKind::PatternThenPaths && gives_pattern;
    }

    fn has_flag(&self, flags: &[&str]) -> bool {
        self.seen.iter().any(|flag| flags.contains(flag))
    }

    /// Returns the names that `grep --include` limits a search to. An exclusion beside it would invert the meaning.
    fn included_names(&mut self) -> Vec<GlobSegment> {
        let given = self.seen.iter().filter(|flag| **flag == "include").count();
        let told = given == self.included.len() && !self.has_flag(&["exclude", "exclude-from"]);
        if told { std::mem::take(&mut self.included) } else { Vec::new() }
    }

    /// Records the value of `--include=…`. In any other form, or if the word may be the value of another flag, it
    /// counts as no limit.
    fn record_include(&mut self, word: &Word) {
        let plain = word.pieces().iter().all(|piece| matches!(piece, WordPiece::Text(_) | WordPiece::Glob(_)));
        if let Some(name) = word.plain_text().strip_prefix("--include=")
            && plain
            && !self.doubtful
        {
            self.included.push(GlobSegment::from_find_pattern(name));
        }
    }

    /// Returns `None` unless it follows the symlinks in its directories; otherwise true if it does so recursively.
    fn follows_symlinks(&self, row: &ReadOnlyRow) -> Option<bool> {
        let follows = match row.name {
            // Two directories are compared file by file, at least those directly in them.
            "diff" => !self.has_flag(&["no-dereference"]),
            "ls" | "du" => self.has_flag(&["L", "dereference"]),
            "grep" | "egrep" | "fgrep" => self.has_flag(&["R", "dereference-recursive"]),
            _ => false,
        };
        follows.then(|| row.name == "du" || self.has_flag(&["r", "R", "recursive", "dereference-recursive"]))
    }

    fn take_value(&mut self, value: FlagValue, rest: &mut std::slice::Iter<'a, Word>) -> Option<()> {
        match value {
            FlagValue::None => {}
            FlagValue::NextFile => self.paths.push(PathOperand { word: rest.next()?, role: WordRole::FILE }),
            FlagValue::Next => {
                let word = rest.next()?;
                // If this may not be a flag, its value may be a path; and if it becomes several words, these are not
                // only its value.
                if self.doubtful || word.may_split() {
                    self.paths.push(PathOperand { word, role: WordRole::OPERAND });
                }
                self.doubtful |= word.may_split();
            }
        }
        Some(())
    }
}

/// Returns the flags in `--include=*.{rs,md}`: every word that the shell makes of the pattern begins with that flag,
/// and its value is not a file.
fn globbed_flags<'a>(row: &ReadOnlyRow, word: &'a Word) -> Option<Vec<&'a str>> {
    let flag = |word: &'a Word| {
        let (WordPiece::Text(beginning), rest) = word.pieces().split_first()? else { return None };
        let (name, _) = beginning.strip_prefix("--")?.split_once('=')?;
        let plain = |piece: &WordPiece| matches!(piece, WordPiece::Text(_) | WordPiece::Glob(_) | WordPiece::Number);
        (rest.iter().all(plain) && list_contains(row.long_valued, name)).then_some(name)
    };
    if !row.flags_are_harmless || !word.is_dynamic() { None } else { word.choices().iter().map(flag).collect() }
}

/// Returns true if the first operand stays one word and cannot be read as a flag; it is then the pattern, even if its
/// value is unknown.
fn is_one_word(operands: &[PathOperand<'_>]) -> bool {
    let Some((PathOperand { word: first, .. }, others)) = operands.split_first() else { return false };
    let begins_with_text = matches!(first.pieces().first(), Some(WordPiece::Text(text)) if !text.starts_with('-'));
    begins_with_text && !first.may_split() && !others.iter().any(|operand| operand.word.is_dynamic())
}

enum FlagValue {
    None,
    Next,
    NextFile,
}

/// Returns the normalised paths, if reading them inside the working directories needs no prompt.
///
/// A `..` is resolved by spelling here, but by the kernel after symlinks are followed. The two agree only if no symlink
/// can precede it: at the very beginning, from a working directory whose part below its root has no symlinks.
pub(super) fn readable_paths(operand: &str, scene: &ValueScope<'_>) -> Option<Vec<PathBuf>> {
    let standing = &scene.directories;
    if standing.unknown {
        return None;
    }
    readable_paths_from(operand, &standing.directories, standing.has_changed(), scene)
}

fn readable_paths_from(
    operand: &str,
    directories: &[PathBuf],
    moved: bool,
    scene: &ValueScope<'_>,
) -> Option<Vec<PathBuf>> {
    let path = Path::new(operand);
    let mut below = path.components().skip_while(|part| matches!(part, Component::ParentDir | Component::CurDir));
    let climbs = matches!(path.components().find(|part| *part != Component::CurDir), Some(Component::ParentDir));
    if operand.is_empty() || is_malformed(path) || below.any(|part| part == Component::ParentDir) || (climbs && moved) {
        return None;
    }
    let judged = |directory: &PathBuf| {
        let path = normalise(directory, path);
        let stays = |root: &PathBuf| is_inside(&path, root) && (!climbs || is_inside(directory, root));
        is_readable_path(&path, scene.facts, stays).then_some(path)
    };
    let places = if path.is_absolute() { &directories[..1] } else { directories };
    places.iter().map(judged).collect()
}

fn is_readable_path(path: &Path, facts: &ShellFacts<'_>, stays: impl Fn(&PathBuf) -> bool) -> bool {
    facts.roots.iter().any(stays) && !is_credential_path(path, facts.home)
}
