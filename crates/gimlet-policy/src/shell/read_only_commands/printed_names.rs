//! Commands whose output is a predictable list of file names, so that another command may take its operands from it. Of
//! git's records only checked-out names are included, since git refuses names that lead elsewhere on checkout; an older
//! state may hold any name.

use super::read_only_table::{OperandKind, list_contains};
use super::{SortedArguments, find_row, special_commands};
use crate::paths::GlobSegment;
use crate::shell::pending_lookups::{PrintedNames, TreeListing, glob_path};
use crate::shell::word::Word;

/// Flags with which `ls` prints bare names, and with which `grep` and `rg` print nothing but names.
const LS: &str = "1 t r S U X v sort time reverse";
const SEARCH: &str = "l L files-with-matches files-without-match files i v w x E F G P s e r a S u hidden ignore-case \
    invert-match word-regexp line-regexp extended-regexp fixed-strings basic-regexp perl-regexp no-messages regexp \
    recursive text smart-case include exclude exclude-dir g glob iglob t T type type-not no-ignore no-ignore-vcs max-depth d";
const NAMING: &[&str] = &["l", "L", "files-with-matches", "files-without-match", "files"];

/// Options that make `find` print something else, or follow symlinks.
const NO_NAMES: &[&str] = &["-H", "-printf", "-ls", "-print0", "-help", "--help", "-version", "--version"];

/// Flags with which git prints nothing but names.
const KEPT: &str = "-c --cached -m --modified -o --others --exclude-standard";
const CHANGED: &str = "--name-only --cached --staged --no-renames --no-color --relative";

/// Returns the names that a command prints; `None` if they are not predictable.
pub(in crate::shell) fn printed_names(words: &[Word]) -> Option<PrintedNames> {
    let (name, arguments) = words.split_first()?;
    match name.value()? {
        "pwd" if arguments.is_empty() => Some(PrintedNames::WorkingDirectory),
        "find" => find_file_names(&arguments.iter().map(Word::value).collect::<Option<Vec<_>>>()?),
        "ls" => ls_file_names(arguments),
        name @ ("grep" | "egrep" | "fgrep" | "rg") => search_file_names(name, arguments),
        "git" => git_file_names(&arguments.iter().map(Word::value).collect::<Option<Vec<_>>>()?),
        _ => None,
    }
}

/// Returns the names printed by `git ls-files`, and by `git diff --name-only` for checked-out files.
fn git_file_names(arguments: &[&str]) -> Option<PrintedNames> {
    let (subcommand, rest) = arguments.split_first()?;
    let flags = match *subcommand {
        "ls-files" => KEPT,
        "diff" if rest.contains(&"--name-only") => CHANGED,
        _ => return None,
    };
    let ended = rest.iter().position(|word| *word == "--").unwrap_or(rest.len());
    let (told, behind) = rest.split_at(ended);
    let listing = *subcommand == "ls-files";
    // Without `--` a word of `diff` may be an older revision.
    let stays = |word: &&str| !word.starts_with(['/', ':', '~']) && !word.split('/').any(|name| name == "..");
    let known = |word: &&str| {
        list_contains(flags, word)
            || (!listing && *word == "HEAD")
            || (listing && !word.starts_with('-') && stays(word))
    };
    let plain = told.iter().all(known) && behind.iter().skip(1).all(stays);
    plain.then(|| {
        PrintedNames::Tree(TreeListing { roots: vec![".".to_owned()], without_root: true, name_pattern: None })
    })
}

/// Returns the names printed by `find` without a format of its own and without following symlinks.
fn find_file_names(arguments: &[&str]) -> Option<PrintedNames> {
    let has = |flags: &[&str]| arguments.iter().any(|word| flags.contains(word));
    if special_commands::find_follows_symlinks(arguments) || has(NO_NAMES) {
        return None;
    }
    special_commands::find_command_paths(arguments)?;
    let starts = |word: &&&str| !word.starts_with(['-', '(', ')', '!', ',']);
    let mut roots: Vec<String> =
        arguments.iter().skip_while(|word| **word == "-P").take_while(starts).map(|word| (*word).to_owned()).collect();
    if roots.is_empty() {
        roots.push(".".to_owned());
    }
    let named = special_commands::find_name_pattern(arguments).map(GlobSegment::from_find_pattern);
    Some(PrintedNames::Tree(TreeListing { roots, without_root: false, name_pattern: named }))
}

fn ls_file_names(arguments: &[Word]) -> Option<PrintedNames> {
    let split = SortedArguments::parse(find_row("ls")?, arguments)?;
    if !split.seen.iter().all(|flag| list_contains(LS, flag)) {
        return None;
    }
    let words: Vec<&Word> = split.paths.iter().map(|operand| operand.word).collect();
    match words.as_slice() {
        [] => Some(PrintedNames::Entries(".".to_owned())),
        [folder] if !folder.is_dynamic() => Some(PrintedNames::Entries(folder.value()?.to_owned())),
        // For several directories it also prints their names.
        patterns => operand_names(patterns, true),
    }
}

fn operand_names(words: &[&Word], lists: bool) -> Option<PrintedNames> {
    let pattern = |word: &&Word| glob_path(&word.pieces().iter().collect::<Vec<_>>());
    Some(PrintedNames::Matches { patterns: words.iter().map(pattern).collect::<Option<_>>()?, lists })
}

/// Returns the names printed by `grep -l` and `rg --files`, by the flags as the program parses them.
fn search_file_names(name: &str, arguments: &[Word]) -> Option<PrintedNames> {
    let row = find_row(name)?;
    let split = SortedArguments::parse(row, arguments)?;
    let plain =
        row.operands == OperandKind::PatternThenPaths && split.seen.iter().all(|flag| list_contains(SEARCH, flag));
    // To `rg` it is the replacement for matches.
    let replaces = name == "rg" && split.has_flag(&["r"]);
    if !plain || replaces || !split.has_flag(NAMING) {
        return None;
    }
    let words: Vec<&Word> = split.paths.iter().map(|operand| operand.word).collect();
    if words.iter().any(|word| word.value() == Some("-")) || (words.is_empty() && !split.recursive) {
        // Its label for standard input may be any text.
        return None;
    }
    if !split.recursive {
        return operand_names(&words, false);
    }
    let roots: Vec<String> = words.iter().map(|word| word.value().map(str::to_owned)).collect::<Option<_>>()?;
    let bare = roots.is_empty();
    let roots = if bare { vec![".".to_owned()] } else { roots };
    Some(PrintedNames::Tree(TreeListing { roots, without_root: bare, name_pattern: None }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(text: &str) -> Option<PrintedNames> {
        printed_names(&text.split(' ').map(Word::from_literal).collect::<Vec<_>>())
    }

    #[test]
    fn only_plain_lists_of_names_are_told_beforehand() {
        for text in [
            "pwd",
            "ls",
            "ls -1 src",
            "ls -tr",
            "find . -name *.rs",
            "find src tests -type f",
            "grep -rl x src",
            "grep -l x a",
            "grep -il x a",
            "rg -l x",
            "rg --files",
            "rg --files src",
            "git ls-files",
            "git ls-files *.md src",
            "git ls-files -m -- src",
            "git ls-files --others --exclude-standard",
            "git diff --name-only",
            "git diff --name-only --cached",
            "git diff --name-only HEAD -- src",
        ] {
            assert!(printed(text).is_some(), "{text}");
        }
        for text in [
            "pwd -P",
            "ls -l",
            "ls -a",
            "ls -R",
            "find . -printf x",
            "find . -ls",
            "find . -print0",
            "find -L .",
            "find . -follow",
            "find . -delete",
            "grep -he -l f",
            "grep -e -l f",
            "grep -m -l f",
            "grep -l x",
            "grep -l x -",
            "grep -lc x f",
            "grep -rlZ x .",
            "grep -x f",
            "grep -rl --label=/etc/passwd x .",
            "rg -e -l f",
            "rg x",
            "rg -lr/etc/passwd x",
            "rg -0l x",
            "git ls-files -s",
            "git ls-files -z",
            "git ls-files ../x",
            "git ls-files :/",
            "git ls-files /etc",
            "git diff",
            "git diff --stat",
            "git diff --name-only main",
            "git diff --name-only HEAD~1",
            "git diff --name-only --no-index a b",
            "git diff --name-only -- ../x",
            "git diff --name-only --line-prefix=/",
            "git log --name-only",
            "git -C x ls-files",
            "git rev-parse --show-toplevel",
            "cat list",
        ] {
            assert_eq!(printed(text), None, "{text}");
        }
    }

    #[test]
    fn a_name_filters_only_where_nothing_is_an_alternative() {
        let named =
            |text: &str| matches!(printed(text), Some(PrintedNames::Tree(below)) if below.name_pattern.is_some());
        assert!(named("find . -type f -name *.rs"));
        assert!(!named("find . -name a -o -type f"));
        assert!(!named("find . -not -name a"));
        assert!(named("find . -maxdepth 2 -name *.rs -mtime 1 -print"));
        for text in [
            "find . -print -name *.rs",
            "find . -path ./.env -print -name x",
            "find . -newer -name -type f",
            "find . -path -name -type f",
            "find . -name a -prune , -name b",
            "find . ( -name a )",
            "find . -print -name a -print",
        ] {
            assert!(!named(text), "{text}");
        }
    }
}
