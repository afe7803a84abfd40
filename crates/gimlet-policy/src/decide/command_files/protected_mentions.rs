//! Protected paths among the words of commands that are not known to only read. The options that name a file to write
//! cannot be listed for all programs, so any word that names a protected path counts, also as the value of an option.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::PathLookup;
use crate::paths::{is_protected, normalise};
use crate::shell::{Word, WordPiece, base_name};

/// Programs that write nothing but their output, with any words.
pub(super) const PURE_READERS: &[&str] = &[
    "cat",
    "head",
    "tail",
    "grep",
    "egrep",
    "fgrep",
    "rg",
    "wc",
    "nl",
    "tac",
    "rev",
    "cut",
    "od",
    "hexdump",
    "strings",
    "base64",
    "base32",
    "diff",
    "cmp",
    "comm",
    "paste",
    "fold",
    "fmt",
    "column",
    "bat",
    "batcat",
    "jq",
    "md5sum",
    "sha1sum",
    "sha256sum",
    "ls",
    "stat",
    "du",
    "file",
    "echo",
    "printf",
    "test",
    "[",
    "[[",
    "cd",
    "pushd",
    "realpath",
    "readlink",
    "basename",
    "dirname",
];

/// Limit of letters in an option's cluster after which its value is searched.
const LONGEST_CLUSTER: usize = 8;

/// Returns the first protected path that one of these commands names and may write.
pub(super) fn find_protected<'w>(
    mut commands: impl Iterator<Item = &'w [Word]>,
    place: &PathLookup<'_>,
) -> Option<PathBuf> {
    // Commands inside others have identical words.
    let mut innocent = HashSet::new();
    commands.find_map(|words| find_protected_in(words, place, &mut innocent))
}

fn find_protected_in<'w>(
    words: &'w [Word],
    place: &PathLookup<'_>,
    innocent: &mut HashSet<&'w Word>,
) -> Option<PathBuf> {
    let (name, arguments) = words.split_first()?;
    let known: Vec<&str> = arguments.iter().map(|word| word.value().unwrap_or("")).collect();
    match name.value().map(base_name) {
        Some(name) if PURE_READERS.contains(&name) => return None,
        Some("find") if !known.iter().any(|word| is_find_action(word)) => return None,
        Some("git") if only_reads_worktree(&known) => return None,
        Some("git") if writes_git_config(&known) => {
            return Some(normalise(&place.context.cwd, Path::new(".git/config")));
        }
        _ => {}
    }
    let mut excluded = false;
    arguments.iter().flat_map(Word::choices).find_map(|word| {
        let text = word.value().unwrap_or("");
        let skip = std::mem::replace(&mut excluded, is_exclude_option(text)) || is_exclude_option(text);
        if skip || innocent.contains(word) {
            return None;
        }
        let found = protected_path_in_word(word, place);
        if found.is_none() {
            innocent.insert(word);
        }
        found
    })
}

/// Returns true for options such as `--exclude=.git`, which skip the path.
fn is_exclude_option(text: &str) -> bool {
    text.starts_with("--exclude") || text.starts_with("--ignore")
}

fn protected_path_in_word(word: &Word, place: &PathLookup<'_>) -> Option<PathBuf> {
    let texts = word.pieces().iter().filter_map(|piece| match piece {
        WordPiece::Text(text) => Some(text.as_str()),
        _ => None,
    });
    let spelled = texts.flat_map(path_candidates).find_map(|part| {
        // Only the part counts, not the directory it is resolved from: work below a protected name stays possible.
        is_protected(&normalise(Path::new("/"), Path::new(part)))
            .then(|| normalise(&place.context.cwd, Path::new(part)))
    });
    spelled.or_else(|| {
        path_candidates(word.value()?).filter(|part| !part.starts_with('-')).find_map(|part| {
            let (paths, _) = place.path_spellings(Path::new(part));
            if let Some(governing) = paths.iter().find(|path| place.context.is_policy_file(path)) {
                return Some(governing.clone());
            }
            let linked = paths.iter().any(|path| is_protected(path)) && !paths.iter().all(|path| is_protected(path));
            if linked { paths.into_iter().find(|path| is_protected(path)) } else { None }
        })
    })
}

/// Returns the parts of a word that a program could take for a path: `a=b`, `host:path`, `-tDIR`.
fn path_candidates(text: &str) -> impl Iterator<Item = &str> {
    let attached =
        text.strip_prefix('-').filter(|rest| !rest.starts_with('-')).into_iter().flat_map(|cluster| {
            cluster.char_indices().skip(1).take(LONGEST_CLUSTER).map(move |(at, _)| &cluster[at..])
        });
    let split = text.split(['=', ':', ',']).filter(move |part| part.len() < text.len());
    std::iter::once(text).chain(split).chain(attached).filter(|part| !part.is_empty())
}

pub(super) fn is_find_action(word: &str) -> bool {
    ["-exec", "-ok", "-delete", "-fprint", "-fls"].iter().any(|action| word.starts_with(action))
}

/// Returns true for subcommands that take paths and leave the working tree unchanged.
fn only_reads_worktree(arguments: &[&str]) -> bool {
    const READING: &[&str] = &["add", "blame", "check-ignore", "commit", "diff", "log", "ls-files", "show", "status"];
    arguments.first().is_some_and(|subcommand| READING.contains(subcommand))
        // `--output` may be abbreviated.
        && !arguments.iter().any(|word| word.starts_with("--o"))
}

/// Returns true for `git config` in any form that is not known to only show: the configuration names programs that git
/// runs.
fn writes_git_config(arguments: &[&str]) -> bool {
    const SHOWING: &[&str] = &["--get", "--get-all", "--get-regexp", "--get-urlmatch", "--list", "-l"];
    const HARMLESS: &[&str] = &["--global", "--local", "--system", "--show-origin", "--show-scope", "-z", "--null"];
    let Some(at) = arguments.iter().position(|word| *word == "config") else { return false };
    // The words before are options of git and their values; another subcommand has no use for this word there.
    if arguments[..at].iter().any(|word| !word.starts_with('-')) && !arguments[0].starts_with('-') {
        return false;
    }
    let (flags, operands): (Vec<&str>, Vec<&str>) = arguments[at + 1..].iter().partition(|word| word.starts_with('-'));
    let harmless = flags.iter().all(|flag| SHOWING.contains(flag) || HARMLESS.contains(flag));
    let shows = flags.iter().any(|flag| SHOWING.contains(flag)) || matches!(operands.first(), Some(&("get" | "list")));
    !(harmless && (shows || operands.len() == 1))
}
