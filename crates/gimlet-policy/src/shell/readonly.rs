//! Commands that are known to do nothing but read, and only inside the working directories. A flag that is not in the
//! tables, an abbreviated long option, or a word whose value could matter and is not known makes a command not read-only.

mod conditions;
mod git;
mod names;
mod rows;
mod special;

use std::path::{Component, Path, PathBuf};

use super::ShellFacts;
use super::looks::{Look, PrintedLook, Role, WordReader};
use super::scene::{Feed, Scene};
use super::word::{Piece, Word};
use crate::paths::{Segment, holds_secrets, is_inside, is_odd, is_protected, is_secret, normalise};
pub(super) use names::printed_names;
use rows::{Operands, ROWS, Row, lists};
pub(super) use special::is_line_range;

/// Directories where the commands of one text may stand before it is too much to follow.
const MOST_DIRECTORIES: usize = 8;

/// What a read-only command reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    /// The paths it names, normalised, from every directory where it may stand.
    pub(crate) paths: Vec<PathBuf>,
    /// Paths among these that begin with `..`, as they are written: only whoever follows links can say that they lead where
    /// their spelling does.
    pub(crate) climbs: Vec<PathBuf>,
    /// The folders that the shell looks into for names.
    pub(crate) folders: Vec<PathBuf>,
    /// What has to be looked at before these are all.
    pub(crate) looks: Vec<Look>,
    /// It goes through whole directories.
    pub(crate) recursive: bool,
    /// In directories it opens only files of these names; empty for all files.
    pub(crate) only: Vec<Segment>,
    /// Some of the paths lie outside the working directories: it only reads, but not without leave.
    pub(crate) elsewhere: bool,
    /// A variable in it is taken to be unset, since nothing in the text sets it.
    pub(crate) assumes_unset: bool,
}

impl Reading {
    pub(super) fn of(paths: Vec<PathBuf>) -> Self {
        Self { paths, ..Self::default() }
    }

    pub(super) fn add(&mut self, more: Self) {
        self.paths.extend(more.paths);
        self.climbs.extend(more.climbs);
        self.folders.extend(more.folders);
        self.looks.extend(more.looks);
        self.recursive |= more.recursive;
        self.elsewhere |= more.elsewhere;
        self.assumes_unset |= more.assumes_unset;
    }

    /// Everything that it opens as far as its text says.
    pub(crate) fn spelled(&self) -> impl Iterator<Item = &PathBuf> {
        self.paths.iter().chain(&self.folders)
    }
}

/// The directories where a command of a text may stand. A `cd` may fail, happen in a subshell or come round again in a
/// loop, so every directory counts for every command.
#[derive(Debug)]
pub(super) struct Standing {
    directories: Vec<PathBuf>,
    moves: usize,
    /// More of them than can be followed.
    lost: bool,
}

impl Standing {
    pub(super) fn new(cwd: &Path) -> Self {
        Self { directories: vec![cwd.to_owned()], moves: 0, lost: false }
    }

    /// Notes where a `cd` may lead.
    pub(super) fn go(&mut self, directory: &str) {
        self.moves += 1;
        if self.lost {
            return;
        }
        let reached: Vec<PathBuf> = self.directories.iter().map(|from| normalise(from, Path::new(directory))).collect();
        for path in reached {
            if !self.directories.contains(&path) {
                self.directories.push(path);
            }
        }
        self.lost |= self.directories.len() > MOST_DIRECTORIES;
        self.directories.truncate(MOST_DIRECTORIES);
    }

    /// Gives up following.
    pub(super) fn lose(&mut self) {
        self.lost = true;
    }

    /// Every directory where a command may stand, unless that is anybody's guess.
    pub(super) fn followed(&self) -> Option<&[PathBuf]> {
        (!self.lost).then_some(&self.directories)
    }

    pub(super) fn has_moved(&self) -> bool {
        self.directories.len() > 1 || self.lost
    }

    /// Whether there is one `cd`, or none; `None` for more, and for whatever cannot be followed.
    pub(super) fn moves_once(&self) -> Option<bool> {
        (self.moves <= 1 && !self.lost).then_some(self.moves == 1)
    }
}

/// Says what a command reads, or `None` when it is not known to only read. `feed` is what further words may come from.
pub(super) fn reading(words: &[Word], feed: Feed, scene: &Scene<'_>, in_loop: bool) -> Option<Reading> {
    let (name, arguments) = words.split_first()?;
    let name = name.value()?;
    let fixed = || arguments.iter().map(Word::value).collect::<Option<Vec<&str>>>().filter(|_| feed == Feed::None);
    match name {
        "cd" => change_directory(&fixed()?, scene, in_loop),
        "printf" => special::is_plain_printf(arguments).then(|| of_globs(arguments, scene))?,
        "test" | "[" | "[[" if feed == Feed::None => of_words(conditions::files(words)?, scene),
        "date" if feed == Feed::None => of_words(special::date(arguments)?, scene),
        "find" => find_reading(&fixed()?, scene),
        "sed" => of_texts(&special::sed(&fixed()?)?, scene),
        "git" => git_reading(&fixed()?, scene),
        _ => of_row(row_of(name)?, arguments, feed, scene),
    }
}

fn change_directory(arguments: &[&str], scene: &Scene<'_>, in_loop: bool) -> Option<Reading> {
    let [directory] = arguments else { return None };
    let climbs = Path::new(directory).components().any(|part| part == Component::ParentDir);
    let standing = &scene.standing;
    // In a loop it may climb further each time; on its own it starts from where the session is.
    let start = &standing.directories[..1];
    let reading = match climbs {
        true if in_loop || standing.moves > 1 || standing.lost => return None,
        true => match readable_from(directory, start, false, scene) {
            Some(targets) => Reading::of(targets),
            None => climbing(directory, start.first()?, scene)?,
        },
        false => Reading::of(readable(directory, scene)?),
    };
    let refused = directory.starts_with(['-', '+']) || reading.paths.iter().any(|target| is_protected(target));
    // A link may lead it out of the roots, so whoever follows links judges it as a read.
    (!refused).then_some(reading)
}

fn git_reading(arguments: &[&str], scene: &Scene<'_>) -> Option<Reading> {
    // Another directory may be another repository, whose configuration nobody has looked at.
    if scene.standing.has_moved() {
        return None;
    }
    // A revision is no path, but none looks like one that lies elsewhere.
    let operands = git::operands(arguments)?;
    let climbs = |operand: &str| Path::new(operand).components().any(|part| part == Component::ParentDir);
    // Two paths that git does not keep are compared as they lie there, through links on the way.
    let compares = arguments.first() == Some(&"diff");
    let named = operands.iter().filter(|name| compares || name.starts_with(['/', '.', '~']) || climbs(name));
    let paths = named.filter(|operand| !operand.is_empty()).map(|operand| readable(operand, scene));
    let paths = paths.collect::<Option<Vec<_>>>()?.concat();
    Some(if compares { Reading::of(paths) } else { Reading::default() })
}

fn find_reading(arguments: &[&str], scene: &Scene<'_>) -> Option<Reading> {
    let mut reading = of_texts(&special::find(arguments)?, scene)?;
    if special::find_follows(arguments) {
        let roots = if reading.paths.is_empty() { scene.standing.followed()?.to_vec() } else { reading.paths.clone() };
        reading.looks.push(Look::Tree { roots, deep: true });
    }
    Some(reading)
}

fn of_texts(paths: &[&str], scene: &Scene<'_>) -> Option<Reading> {
    let mut reading = Reading::default();
    for operand in paths.iter().filter(|operand| !is_free(operand)) {
        reading.add(named(operand, scene)?);
    }
    Some(reading)
}

/// What a command reads that is given this path: inside the working directories freely, elsewhere with leave.
pub(super) fn named(path: &str, scene: &Scene<'_>) -> Option<Reading> {
    let inside = readable(path, scene).map(Reading::of);
    let up = || scene.stands_in().and_then(|directory| climbing(path, directory, scene));
    let elsewhere = || elsewhere(path, scene).map(|path| Reading { elsewhere: true, ..Reading::of(vec![path]) });
    inside.or_else(up).or_else(elsewhere)
}

/// A path that begins with `..` and whose spelling leads to some working directory. What the kernel makes of it has to be
/// the same, which is somebody else's to find out.
fn climbing(operand: &str, directory: &Path, scene: &Scene<'_>) -> Option<Reading> {
    let path = Path::new(operand);
    let is_up = |part: &Component<'_>| *part == Component::ParentDir;
    let mut below = path.components().skip_while(|part| is_up(part) || *part == Component::CurDir);
    let begins = path.components().find(|part| *part != Component::CurDir).as_ref().is_some_and(is_up);
    if !begins || below.any(|part| is_up(&part)) || is_odd(path) {
        return None;
    }
    let clean = normalise(directory, path);
    let open = is_open(&clean, scene.facts, |root| is_inside(&clean, root));
    open.then(|| Reading { climbs: vec![directory.join(path)], ..Reading::of(vec![clean]) })
}

/// An absolute path outside the working directories in which nothing climbs; never one of credentials.
fn elsewhere(text: &str, scene: &Scene<'_>) -> Option<PathBuf> {
    let path = Path::new(text);
    let climbs = path.components().any(|part| part == Component::ParentDir);
    let clean = normalise(Path::new("/"), path);
    let inside = scene.facts.roots.iter().any(|root| is_inside(&clean, root));
    let open = path.is_absolute() && !climbs && !inside && !is_odd(path);
    (open && !holds_secrets(&clean, scene.facts.home)).then_some(clean)
}

fn of_words(words: Vec<&Word>, scene: &Scene<'_>) -> Option<Reading> {
    let mut reading = Reading::default();
    for word in words {
        reading.add(scene.operand(word, Role::FILE)?);
    }
    Some(reading)
}

/// Standard input and the null device.
pub(super) fn is_free(operand: &str) -> bool {
    matches!(operand, "-" | "/dev/null")
}

/// A glob looks into directories, whatever becomes of the names.
fn of_globs(words: &[Word], scene: &Scene<'_>) -> Option<Reading> {
    let mut reading = Reading::default();
    let words = words.iter().flat_map(Word::choices);
    for word in words.filter(|word| word.pieces().iter().any(|piece| matches!(piece, Piece::Glob(_)))) {
        reading.add(scene.operand(word, Role::TEXT)?);
    }
    Some(reading)
}

fn of_row(row: &Row, arguments: &[Word], feed: Feed, scene: &Scene<'_>) -> Option<Reading> {
    if row.operands == Operands::Text {
        return of_globs(arguments, scene);
    }
    let mut split = Split::read(row, arguments)?;
    let dynamic = split.paths.iter().any(|operand| operand.word.is_dynamic()) || feed != Feed::None;
    if dynamic && !row.open {
        return None;
    }
    // Told to leave links alone, it goes through folders like any other reader of trees.
    let recursive = split.recursive || (row.name == "diff" && split.follows(row).is_none());
    let mut reading = Reading { recursive, only: split.only(), ..Reading::default() };
    for operand in &split.paths {
        reading.add(scene.operand(operand.word, operand.role)?);
    }
    match feed {
        Feed::None => {}
        Feed::Anything => return None,
        Feed::Names(printed) => {
            let role = Role { opens: true, may_be_option: !split.flags_ended };
            let from = scene.standing.followed()?.to_vec();
            reading.looks.push(Look::Printed(PrintedLook { printed, from, role, reader: WordReader::Xargs }));
        }
    }
    let mut roots: Vec<PathBuf> = reading.spelled().cloned().collect();
    let is_stream = |operand: &Operand<'_>| matches!(operand.word.pieces(), [Piece::Stream]);
    if roots.is_empty() && (split.paths.is_empty() || !split.paths.iter().all(is_stream)) {
        roots = scene.standing.directories.clone();
    }
    let gives_away = reading.recursive && roots.iter().any(|root| holds_secrets(root, scene.facts.home));
    if let Some(deep) = split.follows(row) {
        // Which folders these are has to be known before anybody can look into them.
        if !reading.looks.is_empty() || scene.standing.lost {
            return None;
        }
        reading.looks.push(Look::Tree { roots, deep });
    }
    (!gives_away).then_some(reading)
}

/// The path operands of a command of static words whose every flag is in its row.
pub(super) fn path_operands(words: &[Word]) -> Option<Vec<&str>> {
    let (name, arguments) = words.split_first()?;
    let row = row_of(name.value()?)?;
    if row.operands == Operands::Text {
        return Some(Vec::new());
    }
    Split::read(row, arguments)?.paths.into_iter().map(|operand| operand.word.value()).collect()
}

fn row_of(name: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.name == name)
}

/// A word that names a file.
#[derive(Clone, Copy)]
struct Operand<'a> {
    word: &'a Word,
    role: Role,
}

/// The arguments of a command, sorted.
#[derive(Default)]
struct Split<'a> {
    paths: Vec<Operand<'a>>,
    /// The letters of short flags and the names of long ones.
    seen: Vec<&'a str>,
    recursive: bool,
    /// By `--`.
    flags_ended: bool,
    has_pattern: bool,
    /// A word before may have been a flag, or none at all.
    doubtful: bool,
    /// The values of `--include=…`.
    included: Vec<Segment>,
}

impl<'a> Split<'a> {
    fn read(row: &Row, arguments: &'a [Word]) -> Option<Self> {
        let mut split = Split { recursive: row.recursive == "*", ..Split::default() };
        let mut operands = Vec::new();
        let mut rest = arguments.iter();
        while let Some(word) = rest.next() {
            let role = if split.flags_ended { Role::FILE } else { Role::OPERAND };
            if let Some(flags) = globbed_flags(row, word).filter(|_| !split.flags_ended) {
                flags.into_iter().for_each(|flag| split.note(row, flag));
                word.choices().iter().for_each(|word| split.include(word));
                continue;
            }
            let Some(text) = word.value() else {
                operands.push(Operand { word, role });
                split.doubtful = true;
                continue;
            };
            let digits = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            let numeric = row.numeric && text.strip_prefix('-').is_some_and(digits);
            if split.flags_ended || text == "-" || !text.starts_with('-') {
                operands.push(Operand { word, role });
            } else if text == "--" {
                split.flags_ended = true;
            } else if !numeric {
                let value = split.flag(row, &text[1..])?;
                split.include(word);
                split.value(value, &mut rest)?;
            }
        }
        if row.operands == Operands::OnePath && operands.len() > 1 {
            return None;
        }
        let first_is_pattern = row.operands == Operands::PatternThenPaths && !split.has_pattern && !split.doubtful;
        let lone_pattern = row.operands == Operands::PatternThenPaths && !split.has_pattern && is_one_word(&operands);
        let skipped = usize::from(first_is_pattern || lone_pattern).min(operands.len());
        split.paths.extend(operands.drain(skipped..));
        Some(split)
    }

    /// What follows a flag, or `None` for a flag that is not in the row.
    fn flag(&mut self, row: &Row, flag: &'a str) -> Option<Value> {
        if let Some(long) = flag.strip_prefix('-') {
            let (name, attached) = long.split_once('=').map_or((long, false), |(name, _)| (name, true));
            self.note(row, name);
            return match attached {
                true if lists(row.long_valued, name) => Some(Value::None),
                // The file inside the word is not looked up; nobody writes it so by need.
                true => None,
                false if lists(row.long, name) => Some(Value::None),
                false if lists(row.long_valued, name) => Some(Value::Next),
                false if lists(row.long_filed, name) => Some(Value::NextFile),
                false => None,
            };
        }
        for (at, letter) in flag.char_indices() {
            self.note(row, &flag[at..at + letter.len_utf8()]);
            let last = at + letter.len_utf8() == flag.len();
            if row.valued.contains(letter) {
                return Some(if last { Value::Next } else { Value::None });
            }
            if row.filed.contains(letter) {
                return last.then_some(Value::NextFile);
            }
            if !row.short.contains(letter) {
                return None;
            }
        }
        Some(Value::None)
    }

    fn note(&mut self, row: &Row, flag: &'a str) {
        self.seen.push(flag);
        self.recursive |= lists(row.recursive, flag);
        let gives_pattern = matches!(flag, "e" | "f" | "regexp" | "file") || (row.name == "rg" && flag == "files");
        self.has_pattern |= row.operands == Operands::PatternThenPaths && gives_pattern;
    }

    fn has(&self, flags: &[&str]) -> bool {
        self.seen.iter().any(|flag| flags.contains(flag))
    }

    /// The names that `grep --include` limits a search to. An exclusion beside it would turn the tables.
    fn only(&mut self) -> Vec<Segment> {
        let given = self.seen.iter().filter(|flag| **flag == "include").count();
        let told = given == self.included.len() && !self.has(&["exclude", "exclude-from"]);
        if told { std::mem::take(&mut self.included) } else { Vec::new() }
    }

    /// Notes the value of `--include=…`. Given in any other form, or where the word may be the value of another flag, it
    /// counts as no limit.
    fn include(&mut self, word: &Word) {
        let plain = word.pieces().iter().all(|piece| matches!(piece, Piece::Text(_) | Piece::Glob(_)));
        if let Some(name) = word.shown_plain().strip_prefix("--include=").filter(|_| plain && !self.doubtful) {
            self.included.push(Segment::of_text(name));
        }
    }

    /// Whether it follows the links in folders that it is given, and whether also further down.
    fn follows(&self, row: &Row) -> Option<bool> {
        let follows = match row.name {
            // Two folders are compared file by file, at least those directly in them.
            "diff" => !self.has(&["no-dereference"]),
            "ls" | "du" => self.has(&["L", "dereference"]),
            "grep" | "egrep" | "fgrep" => self.has(&["R", "dereference-recursive"]),
            _ => false,
        };
        follows.then(|| row.name == "du" || self.has(&["r", "R", "recursive", "dereference-recursive"]))
    }

    fn value(&mut self, value: Value, rest: &mut std::slice::Iter<'a, Word>) -> Option<()> {
        match value {
            Value::None => {}
            Value::NextFile => self.paths.push(Operand { word: rest.next()?, role: Role::FILE }),
            Value::Next => {
                let word = rest.next()?;
                // When it is not sure that this is a flag, its value may be a path; and what becomes several words is
                // not only its value.
                if self.doubtful || word.may_split() {
                    self.paths.push(Operand { word, role: Role::OPERAND });
                }
                self.doubtful |= word.may_split();
            }
        }
        Some(())
    }
}

/// The flags in `--include=*.{rs,md}`: whatever the shell makes of the pattern begins with the same flag, and its value is
/// no file.
fn globbed_flags<'a>(row: &Row, word: &'a Word) -> Option<Vec<&'a str>> {
    let flag = |word: &'a Word| {
        let (Piece::Text(beginning), rest) = word.pieces().split_first()? else { return None };
        let (name, _) = beginning.strip_prefix("--")?.split_once('=')?;
        let plain = |piece: &Piece| matches!(piece, Piece::Text(_) | Piece::Glob(_) | Piece::Number);
        (rest.iter().all(plain) && lists(row.long_valued, name)).then_some(name)
    };
    if !row.open || !word.is_dynamic() { None } else { word.choices().iter().map(flag).collect() }
}

/// A first operand that stays one word and cannot be taken for a flag is the pattern, even if its value is not known.
fn is_one_word(operands: &[Operand<'_>]) -> bool {
    let Some((Operand { word: first, .. }, others)) = operands.split_first() else { return false };
    let begins_with_text = matches!(first.pieces().first(), Some(Piece::Text(text)) if !text.starts_with('-'));
    begins_with_text && !first.may_split() && !others.iter().any(|operand| operand.word.is_dynamic())
}

enum Value {
    None,
    Next,
    NextFile,
}

/// The normalised paths, if reading them inside the working directories needs no question.
///
/// A `..` is taken by spelling here, but by the kernel after links are followed. The two agree only where no link can
/// stand before it: at the very beginning, from a working directory whose part below its root has no links.
pub(super) fn readable(operand: &str, scene: &Scene<'_>) -> Option<Vec<PathBuf>> {
    let standing = &scene.standing;
    if standing.lost {
        return None;
    }
    readable_from(operand, &standing.directories, standing.has_moved(), scene)
}

fn readable_from(operand: &str, directories: &[PathBuf], moved: bool, scene: &Scene<'_>) -> Option<Vec<PathBuf>> {
    let path = Path::new(operand);
    let mut below = path.components().skip_while(|part| matches!(part, Component::ParentDir | Component::CurDir));
    let climbs = matches!(path.components().find(|part| *part != Component::CurDir), Some(Component::ParentDir));
    if operand.is_empty() || is_odd(path) || below.any(|part| part == Component::ParentDir) || (climbs && moved) {
        return None;
    }
    let judged = |directory: &PathBuf| {
        let path = normalise(directory, path);
        let stays = |root: &PathBuf| is_inside(&path, root) && (!climbs || is_inside(directory, root));
        is_open(&path, scene.facts, stays).then_some(path)
    };
    let places = if path.is_absolute() { &directories[..1] } else { directories };
    places.iter().map(judged).collect()
}

fn is_open(path: &Path, facts: &ShellFacts<'_>, stays: impl Fn(&PathBuf) -> bool) -> bool {
    facts.roots.iter().any(stays) && !is_secret(path, facts.home)
}
