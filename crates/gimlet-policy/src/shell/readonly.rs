//! Commands that are known to do nothing but read, one table row each: the flags that may be used and what the operands
//! are. A flag that is not in the row, an abbreviated long option or a word that is not static makes a command not
//! read-only; so the table can only be too short, never too generous.

use std::path::{Component, Path, PathBuf};

use super::ShellFacts;
use crate::paths::{holds_secrets, is_inside, is_odd, is_protected, is_secret, normalise};

/// Directories where the commands of one list may stand before it is too much to follow.
const MOST_DIRECTORIES: usize = 8;

/// What the words that are not flags mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operands {
    /// Any words; nothing is opened.
    Text,
    None,
    Paths,
    /// The first is a pattern unless `-e` gave one; the others are paths.
    PatternThenPaths,
}

#[derive(Debug)]
struct Row {
    name: &'static str,
    /// Short flags without a value; they may be clustered.
    short: &'static str,
    /// Short flags with a value, attached or in the next word.
    short_valued: &'static str,
    long: &'static [&'static str],
    long_valued: &'static [&'static str],
    /// `-20` means a number of lines.
    numeric: bool,
    operands: Operands,
}

const fn row(name: &'static str, operands: Operands) -> Row {
    Row { name, short: "", short_valued: "", long: &[], long_valued: &[], numeric: false, operands }
}

const GREP: Row = Row {
    short: "EFGPiyvwxcloLqshHnbTUzZraI",
    // `-C` is left out: its value is optional to some greps, so the next word could be a path.
    short_valued: "emAB",
    long: &[
        "extended-regexp",
        "fixed-strings",
        "basic-regexp",
        "perl-regexp",
        "ignore-case",
        "no-ignore-case",
        "invert-match",
        "word-regexp",
        "line-regexp",
        "count",
        "files-with-matches",
        "files-without-match",
        "only-matching",
        "quiet",
        "silent",
        "no-messages",
        "with-filename",
        "no-filename",
        "line-number",
        "byte-offset",
        "initial-tab",
        "null",
        "null-data",
        "recursive",
        "text",
        "line-buffered",
        "color",
        "colour",
    ],
    long_valued: &[
        "regexp",
        "max-count",
        "after-context",
        "before-context",
        "context",
        "include",
        "exclude",
        "exclude-dir",
        "binary-files",
        "color",
        "colour",
        "label",
    ],
    numeric: true,
    ..row("grep", Operands::PatternThenPaths)
};

const ROWS: &[Row] = &[
    row("true", Operands::Text),
    row("false", Operands::Text),
    row(":", Operands::Text),
    Row { short: "LP", ..row("pwd", Operands::None) },
    row("whoami", Operands::None),
    Row {
        short: "asnrvmpio",
        long: &[
            "all",
            "kernel-name",
            "nodename",
            "kernel-release",
            "kernel-version",
            "machine",
            "processor",
            "hardware-platform",
            "operating-system",
        ],
        ..row("uname", Operands::None)
    },
    Row {
        // `-I`, `-T` and `-w` take a value for some and none for others, which could hide a path.
        short: "aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxXZ1",
        long: &[
            "all",
            "almost-all",
            "author",
            "escape",
            "ignore-backups",
            "directory",
            "classify",
            "file-type",
            "full-time",
            "group-directories-first",
            "no-group",
            "human-readable",
            "si",
            "dereference",
            "inode",
            "kibibytes",
            "numeric-uid-gid",
            "quote-name",
            "reverse",
            "recursive",
            "size",
            "zero",
            "context",
            "literal",
            "color",
            "hide-control-chars",
            "show-control-chars",
            "hyperlink",
        ],
        long_valued: &[
            "sort",
            "time",
            "time-style",
            "format",
            "indicator-style",
            "quoting-style",
            "color",
            "hide",
            "ignore",
            "width",
            "tabsize",
            "block-size",
            "hyperlink",
        ],
        ..row("ls", Operands::Paths)
    },
    Row {
        short: "AbeEnstTuv",
        long: &["show-all", "number-nonblank", "show-ends", "number", "squeeze-blank", "show-tabs", "show-nonprinting"],
        ..row("cat", Operands::Paths)
    },
    Row {
        short: "qvz",
        short_valued: "nc",
        long: &["quiet", "silent", "verbose", "zero-terminated"],
        long_valued: &["lines", "bytes"],
        numeric: true,
        ..row("head", Operands::Paths)
    },
    Row {
        short: "qvz",
        short_valued: "nc",
        long: &["quiet", "silent", "verbose", "zero-terminated"],
        long_valued: &["lines", "bytes"],
        numeric: true,
        ..row("tail", Operands::Paths)
    },
    Row {
        short: "clLmw",
        long: &["bytes", "chars", "lines", "max-line-length", "words"],
        long_valued: &["total"],
        ..row("wc", Operands::Paths)
    },
    Row {
        short: "Lft",
        short_valued: "c",
        long: &["dereference", "file-system", "terse"],
        long_valued: &["format", "printf"],
        ..row("stat", Operands::Paths)
    },
    Row {
        short: "0abchHklmPsSx",
        short_valued: "dBt",
        long: &[
            "all",
            "apparent-size",
            "bytes",
            "total",
            "human-readable",
            "si",
            "summarize",
            "one-file-system",
            "separate-dirs",
            "null",
            "count-links",
            "inodes",
            "no-dereference",
        ],
        long_valued: &["max-depth", "block-size", "threshold", "exclude", "time-style"],
        ..row("du", Operands::Paths)
    },
    Row {
        short: "abBcdeEinNpqrstTuwyZ",
        short_valued: "UCLIFxW",
        long: &[
            "brief",
            "report-identical-files",
            "context",
            "unified",
            "ed",
            "normal",
            "side-by-side",
            "show-c-function",
            "recursive",
            "new-file",
            "ignore-case",
            "ignore-tab-expansion",
            "ignore-trailing-space",
            "ignore-space-change",
            "ignore-all-space",
            "ignore-blank-lines",
            "text",
            "minimal",
            "expand-tabs",
            "initial-tab",
            "no-dereference",
            "left-column",
            "suppress-common-lines",
            "color",
        ],
        long_valued: &["context", "unified", "label", "width", "exclude", "color", "ignore-matching-lines"],
        ..row("diff", Operands::Paths)
    },
    Row { name: "egrep", ..GREP },
    Row { name: "fgrep", ..GREP },
    GREP,
    Row { short: "as", ..row("which", Operands::Text) },
];

/// What a read-only command reads.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Reading {
    /// The paths it names, normalised, from every directory where it may stand.
    pub(super) paths: Vec<PathBuf>,
    /// It goes through whole directories.
    pub(super) recursive: bool,
}

/// The directories where a command of a list may stand. A `cd` may fail or happen in a subshell, so the directories
/// before it stay possible.
#[derive(Debug)]
pub(super) struct Standing {
    directories: Vec<PathBuf>,
}

impl Standing {
    pub(super) fn new(cwd: &Path) -> Self {
        Self { directories: vec![cwd.to_owned()] }
    }

    fn has_moved(&self) -> bool {
        self.directories.len() > 1
    }
}

/// Says what a command of static words reads, or `None` when it is not known to only read.
pub(super) fn reading(words: &[&str], standing: &mut Standing, facts: &ShellFacts<'_>) -> Option<Reading> {
    let (name, arguments) = words.split_first()?;
    match *name {
        "echo" => Some(Reading::default()),
        "printf" => is_plain_printf(arguments).then(Reading::default),
        "cd" => {
            let [directory] = arguments else { return None };
            let targets = readable(directory, standing, facts)?;
            if directory.starts_with(['-', '+']) || targets.iter().any(|target| is_protected(target)) {
                return None;
            }
            standing.directories.extend(targets.iter().cloned());
            // A link may lead it out of the roots, so whoever follows links judges it as a read.
            (standing.directories.len() <= MOST_DIRECTORIES).then_some(Reading { paths: targets, recursive: false })
        }
        _ => {
            let split = split_arguments(name, arguments)?;
            let mut reading = Reading { recursive: split.recursive, ..Reading::default() };
            for operand in split.paths.iter().filter(|operand| **operand != "-" && **operand != "/dev/null") {
                reading.paths.extend(readable(operand, standing, facts)?);
            }
            let roots = if reading.paths.is_empty() { &standing.directories } else { &reading.paths };
            let gives_away = reading.recursive && roots.iter().any(|root| holds_secrets(root, facts.home));
            (!gives_away).then_some(reading)
        }
    }
}

/// The path operands of a command whose every flag is in its row.
pub(super) fn path_operands<'a>(words: &[&'a str]) -> Option<Vec<&'a str>> {
    let (name, arguments) = words.split_first()?;
    split_arguments(name, arguments).map(|split| split.paths)
}

struct Split<'a> {
    paths: Vec<&'a str>,
    recursive: bool,
}

fn split_arguments<'a>(name: &str, arguments: &[&'a str]) -> Option<Split<'a>> {
    let row = ROWS.iter().find(|row| row.name == name)?;
    let (mut operands, mut recursive, mut has_pattern, mut flags) = (Vec::new(), false, false, true);
    let mut rest = arguments.iter().copied();
    while let Some(word) = rest.next() {
        if !flags || row.operands == Operands::Text && name != "which" || word == "-" || !word.starts_with('-') {
            operands.push(word);
        } else if word == "--" {
            flags = false;
        } else if let Some(long) = word.strip_prefix("--") {
            let (flag, value) = long.split_once('=').map_or((long, None), |(flag, value)| (flag, Some(value)));
            has_pattern |= flag == "regexp";
            recursive |= flag == "recursive";
            match value {
                Some(_) if row.long_valued.contains(&flag) => {}
                None if row.long.contains(&flag) => {}
                None if row.long_valued.contains(&flag) => drop(rest.next()?),
                _ => return None,
            }
        } else if !(row.numeric && word[1..].bytes().all(|byte| byte.is_ascii_digit())) {
            let cluster = Cluster::read(row, &word[1..])?;
            has_pattern |= cluster.has_pattern;
            recursive |= cluster.recursive;
            if cluster.takes_next {
                rest.next()?;
            }
        }
    }
    let paths = match row.operands {
        Operands::Text => Vec::new(),
        Operands::None if operands.is_empty() => Vec::new(),
        Operands::None => return None,
        Operands::Paths => operands,
        Operands::PatternThenPaths => operands.split_off(usize::from(!has_pattern).min(operands.len())),
    };
    Some(Split { paths, recursive })
}

/// One word of short flags.
struct Cluster {
    takes_next: bool,
    has_pattern: bool,
    recursive: bool,
}

impl Cluster {
    fn read(row: &Row, letters: &str) -> Option<Self> {
        let grep = row.operands == Operands::PatternThenPaths;
        let mut cluster = Cluster { takes_next: false, has_pattern: false, recursive: false };
        for (at, letter) in letters.char_indices() {
            if row.short_valued.contains(letter) {
                cluster.has_pattern |= grep && letter == 'e';
                cluster.takes_next = at + letter.len_utf8() == letters.len();
                return Some(cluster);
            }
            if !row.short.contains(letter) {
                return None;
            }
            cluster.recursive |= letter == 'r' && (grep || row.name == "diff");
        }
        Some(cluster)
    }
}

/// The normalised paths, if reading them inside the working directories needs no question.
///
/// A `..` is taken by spelling here, but by the kernel after links are followed. The two agree only where no link can
/// stand before it: at the very beginning, from a working directory whose part below its root has no links.
fn readable(operand: &str, standing: &Standing, facts: &ShellFacts<'_>) -> Option<Vec<PathBuf>> {
    let path = Path::new(operand);
    let mut below = path.components().skip_while(|part| matches!(part, Component::ParentDir | Component::CurDir));
    let climbs = matches!(path.components().find(|part| *part != Component::CurDir), Some(Component::ParentDir));
    if operand.is_empty()
        || is_odd(path)
        || below.any(|part| part == Component::ParentDir)
        || (climbs && standing.has_moved())
    {
        return None;
    }
    let judged = |directory: &PathBuf| {
        let path = normalise(directory, path);
        let stays = |root: &PathBuf| is_inside(&path, root) && (!climbs || is_inside(directory, root));
        (facts.roots.iter().any(stays) && !is_secret(&path, facts.home)).then_some(path)
    };
    let places = if path.is_absolute() { &standing.directories[..1] } else { &standing.directories[..] };
    places.iter().map(judged).collect()
}

/// `-v` and `%n` assign to variables.
fn is_plain_printf(arguments: &[&str]) -> bool {
    let format = match arguments {
        ["--", format, ..] => format,
        [format, ..] if !format.starts_with('-') => format,
        _ => return false,
    };
    !format
        .split('%')
        .skip(1)
        .any(|directive| directive.trim_start_matches(|c: char| "-+ #0123456789'*.hlLjzt".contains(c)).starts_with('n'))
}
