//! Removals that no mode and no rule may allow: the root, its direct children, the home directory, the working
//! directory and all its ancestors, and whole-directory globs under one of these or under a variable.
//!
//! A variable is resolved to the values that the text itself assigns. Output of commands that is fed into a recursive
//! removal counts as critical unless they are known to print something else. A variable without a value in the text may
//! be empty; unless nothing can have set it, it may also be any directory.

mod fed_removals;
#[cfg(test)]
mod tests;
mod unknown_values;
mod variable_values;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::ShellFacts;
use super::shell_programs::is_long_option;
use super::word::{Word, WordPiece};
use super::wrappers::base_name;
use crate::paths::{normalise, path_segments};
use variable_values::{OutputSource, ValueSource};

/// Maximum number of successive values of one variable that are checked.
const MOST_VALUES: usize = 64;
/// Maximum nesting of variables whose values refer to variables.
const DEEPEST: usize = 4;

/// Context of the commands of a text.
pub(super) struct RemovalContext<'a> {
    /// Directories in which commands may run: the working directory, every `cd` target of the text and values of
    /// options such as `-C`.
    pub(super) directories: &'a [PathBuf],
    /// Variables and the values that the text assigns.
    pub(super) names: &'a VariableValues,
    pub(super) facts: &'a ShellFacts<'a>,
    /// True if every pattern directly in a critical directory counts, such as `*.o`, and not only one that matches
    /// everything.
    pub(super) any_pattern: bool,
    /// Removed paths as they are spelled, collected for a later check that resolves symlinks.
    pub(super) spelled: &'a RefCell<HashSet<PathBuf>>,
}

/// Describes the critical path that a command would remove; `None` if it is harmless.
pub(super) fn find_critical_removal(words: &[Word], around: &RemovalContext<'_>) -> Option<String> {
    let (first, operands) = words.split_first()?;
    match first.value().map(base_name) {
        Some("rm" | "rmdir" | "unlink") => around.find_critical_operand(operands, false),
        Some("find") => around.judge_find(words),
        Some(_) => None,
        None => around.find_critical_by_unknown_name(first, operands),
    }
}

/// Describes the critical path removed by a command that takes its operands from another one, as `xargs rm` does.
pub(super) fn find_critical_feed(feed: &RemovalFeed, around: &RemovalContext<'_>) -> Option<String> {
    around.judge_feed(feed)
}

pub(super) use fed_removals::{RemovalFeed, find_removal_feeds};
pub(super) use variable_values::{VariableValues, add_assigned_values, loop_values, may_remove_files};

/// Returns true if an option makes `rm` recursive. Long options may be abbreviated.
pub(crate) fn is_recursive(option: &str) -> bool {
    if option.starts_with("--") {
        is_long_option(option, "--recursive")
    } else {
        option.starts_with('-') && option.contains(['r', 'R'])
    }
}

impl RemovalContext<'_> {
    /// Describes the critical removal by a program whose name is only known at run time: one whose value in the text is
    /// `rm`, or one with an option cluster such as `-rf`.
    fn find_critical_by_unknown_name(&self, name: &Word, operands: &[Word]) -> Option<String> {
        let is_remover = |word: &Word| word.value().is_some_and(|text| matches!(base_name(text), "rm" | "rmdir"));
        let is_cluster = |text: &str| is_recursive(text) && !text.starts_with("--") && text.contains('f');
        let told = |word: &Word| word.value().is_some_and(is_cluster);
        let values = self.variable_values(name);
        let named = values.iter().any(is_remover);
        // The value may contain options and operands after the name: `x='rm -rf /'; $x`.
        let words: Vec<Word> = values.into_iter().chain(operands.iter().cloned()).collect();
        if named || operands.iter().any(told) { self.find_critical_operand(&words, named) } else { None }
    }

    fn find_critical_operand(&self, words: &[Word], mut recursive: bool) -> Option<String> {
        let mut options = true;
        let mut operands = Vec::new();
        for word in words {
            match word.value() {
                Some("--") if options => options = false,
                Some(flag) if options && flag.starts_with('-') && flag.len() > 1 => {
                    recursive |= is_recursive(flag);
                }
                _ => operands.extend(word.choices()),
            }
        }
        // The words of a brace list may include an option.
        recursive |= operands.iter().any(|word| word.value().is_some_and(|text| text.starts_with('-')));
        operands.into_iter().find_map(|word| self.judge_operand(word, recursive))
    }

    fn judge_operand(&self, word: &Word, recursive: bool) -> Option<String> {
        let judged = |word: &Word| self.judge_word(word, recursive);
        let values = self.variable_values(word);
        let printed = || std::iter::once(word).chain(&values).flat_map(|word| self.output_sources(word));
        judged(word)
            .or_else(|| values.iter().find_map(judged))
            .or_else(|| printed().find_map(|source| self.judge_source(source, recursive)))
    }

    /// Returns the commands that print the value of a word that is one variable.
    fn output_sources(&self, word: &Word) -> impl Iterator<Item = &OutputSource> {
        let name = if let [WordPiece::Variable(name)] = word.pieces() { Some(name) } else { None };
        let bound = name.and_then(|name| self.names.get(name)).into_iter().flatten();
        bound.filter_map(|bound| if let ValueSource::Printed(source) = bound { Some(source) } else { None })
    }

    /// Returns the word with each value that the text assigns to the variable it begins with.
    fn variable_values(&self, word: &Word) -> Vec<Word> {
        let mut found: Vec<Word> = Vec::new();
        let mut open = vec![(word.clone(), 0)];
        while let Some((word, depth)) = open.pop() {
            let Some(WordPiece::Variable(name)) = word.pieces().first() else { continue };
            let bound = self.names.get(name).into_iter().flatten();
            let values =
                bound.filter_map(|bound| if let ValueSource::Value(value) = bound { Some(value) } else { None });
            for value in values.filter(|value| has_known_start(value)) {
                if found.len() >= MOST_VALUES {
                    return found;
                }
                let with = word.with_beginning(value);
                match plain_text(&with).filter(|text| word.may_split() && text.contains(char::is_whitespace)) {
                    Some(text) => found.extend(text.split_whitespace().map(Word::from_literal)),
                    None => found.push(with.clone()),
                }
                if depth < DEEPEST {
                    open.push((with, depth + 1));
                }
            }
        }
        found
    }

    fn judge_word(&self, word: &Word, recursive: bool) -> Option<String> {
        let (cwds, facts) = (self.directories, self.facts);
        if let Some(text) = word.value() {
            let hit = !text.is_empty() && cwds.iter().any(|cwd| self.is_critical_path_or_glob(cwd, text, false));
            return hit.then(|| format!("`{text}`"));
        }
        let shown = || format!("`{}`", show_word(word));
        match word.pieces() {
            [WordPiece::Variable(name)] if matches!(name.as_str(), "HOME" | "PWD" | "OLDPWD") => Some(shown()),
            [WordPiece::Variable(name)] => (recursive && self.may_be_any_folder(name)).then(shown),
            [WordPiece::Unknown | WordPiece::Output(_)] => recursive.then(shown),
            [WordPiece::Tilde, rest @ ..] => match (facts.home, rest) {
                (_, []) => Some(shown()),
                (Some(home), [WordPiece::Text(text), ..]) if text.starts_with('/') => {
                    self.is_critical_path_or_glob(home, glob_text(rest).trim_start_matches('/'), true).then(shown)
                }
                // The home of another or unknown user.
                _ => Some(shown()),
            },
            [WordPiece::Variable(name), rest @ ..] if matches!(name.as_str(), "HOME" | "PWD") => {
                let base = if name == "HOME" { facts.home } else { Some(facts.cwd) };
                let text = glob_text(rest);
                let below = |base: &Path| match text.strip_prefix('/') {
                    Some(rest) => self.is_critical_path_or_glob(base, rest.trim_start_matches('/'), true),
                    // Attached to its last name: `$HOME.old`.
                    None => self.is_critical_path_or_glob(base, &format!("{}{text}", base.display()), true),
                };
                base.is_none_or(below).then(shown)
            }
            [
                first @ (WordPiece::Variable(_)
                | WordPiece::Unknown
                | WordPiece::Choice(_)
                | WordPiece::Output(_)
                | WordPiece::Number
                | WordPiece::Stream),
                rest @ ..,
            ] => {
                let any = match first {
                    WordPiece::Variable(name) => self.may_be_any_folder(name),
                    first => matches!(first, WordPiece::Unknown | WordPiece::Output(_)),
                };
                (self.is_critical_if_empty(rest) || (any && self.is_critical_if_any_folder(rest))).then(shown)
            }
            pieces => cwds.iter().any(|cwd| self.is_critical_path_or_glob(cwd, &glob_text(pieces), true)).then(shown),
        }
    }

    /// Returns true if a path, resolved from `base`, is a critical directory or directly empties one. Globs count if it
    /// is `expanded`.
    fn is_critical_path_or_glob(&self, base: &Path, text: &str, expanded: bool) -> bool {
        let spelled = base.join(text);
        if is_process_folder(&spelled) || is_process_folder(&normalise(base, Path::new(text))) {
            return true;
        }
        self.spelled.borrow_mut().insert(spelled);
        let absolute = text.starts_with('/');
        let names: Vec<&str> = text.split('/').filter(|name| !name.is_empty()).collect();
        let Some(at) = names.iter().position(|name| expanded && is_glob(name)) else {
            return is_critical_path(&normalise(base, Path::new(text)), self.facts);
        };
        let prefix = names[..at].join("/");
        let directory = normalise(base, Path::new(&if absolute { format!("/{prefix}") } else { prefix }));
        empties_critical_directory(&directory, &names[at..], absolute, self.any_pattern, self.facts)
    }
}

/// Returns true if a pattern, split into names from the first one that is a glob, empties a critical directory.
fn empties_critical_directory(
    directory: &Path,
    names: &[&str],
    absolute: bool,
    any_pattern: bool,
    facts: &ShellFacts<'_>,
) -> bool {
    let Some((first, behind)) = names.split_first() else { return is_critical_path(directory, facts) };
    let whole = any_pattern || is_catch_all_glob(first);
    let depth = path_segments(directory).count();
    // The directory for temporary files is shared, but some of its files are the user's own.
    let shared = absolute && depth == 1 && (whole || directory != Path::new("/tmp"));
    if depth == 0 || shared {
        return true;
    }
    // `*/target` leaves everything else in place.
    let takes_all = behind.iter().all(|name| is_catch_all_glob(name) || matches!(*name, "." | ".."));
    whole && takes_all && is_critical_path(directory, facts)
}

/// Maximum number of directories of one text for which symlinks are resolved.
const MOST_FOLDERS: usize = 256;

/// Describes a removal by a path that becomes critical through a symlink. `follow` resolves a directory to its real
/// path; `spelled` paths have already been judged as written.
pub(crate) fn find_critical_behind_symlinks(
    spelled: &[PathBuf],
    facts: &ShellFacts<'_>,
    follow: &dyn Fn(&Path) -> Option<PathBuf>,
) -> Option<String> {
    let mut known: HashMap<PathBuf, Option<PathBuf>> = HashMap::new();
    for path in spelled {
        let text = path.to_string_lossy();
        let names: Vec<&str> = text.split('/').filter(|name| !name.is_empty()).collect();
        // A symlink at the end of a path is removed itself, unless the path names something behind it.
        let goes_behind = text.ends_with('/') || matches!(names.last(), None | Some(&("." | "..")));
        let end = if goes_behind { names.len() } else { names.len() - 1 };
        let at = names.iter().position(|name| is_glob(name)).unwrap_or(end);
        let folder = PathBuf::from(format!("/{}", names[..at].join("/")));
        if known.len() >= MOST_FOLDERS && !known.contains_key(&folder) {
            return Some("more than can be looked at".to_owned());
        }
        let real = known.entry(folder.clone()).or_insert_with(|| follow(&folder));
        let Some(real) = real.as_ref().filter(|real| **real != normalise(Path::new("/"), &folder)) else { continue };
        let rest = &names[at..];
        let critical = match rest {
            [name] if !is_glob(name) => is_critical_path(&real.join(name), facts),
            _ => empties_critical_directory(real, rest, true, false, facts),
        };
        if critical {
            return Some(format!("`{text}`, which leads to {}", real.display()));
        }
    }
    None
}

/// Returns true if the text of a value is enough to judge the path that it leads to.
fn has_known_start(value: &Word) -> bool {
    match value.pieces() {
        [] | [WordPiece::Text(_) | WordPiece::Tilde | WordPiece::Variable(_) | WordPiece::Glob(_), ..] => true,
        // Text appended to an unknown value.
        [WordPiece::Unknown, rest @ ..] => !rest.is_empty(),
        _ => false,
    }
}

/// Returns the text of a word without expansions.
fn plain_text(word: &Word) -> Option<String> {
    word.pieces()
        .iter()
        .map(|piece| if let WordPiece::Text(text) = piece { Some(text.as_str()) } else { None })
        .collect()
}

/// Returns a path with globs as text; unknown pieces count as globs.
fn glob_text(pieces: &[WordPiece]) -> String {
    let piece = |piece: &WordPiece| match piece {
        WordPiece::Text(text) => text.clone(),
        WordPiece::Glob(c) => c.to_string(),
        _ => "*".to_owned(),
    };
    pieces.iter().map(piece).collect()
}

fn is_glob(name: &str) -> bool {
    name.contains(['*', '?', '['])
}

/// Returns true for a glob without a single literal character, which matches everything.
fn is_catch_all_glob(name: &str) -> bool {
    is_glob(name) && name.chars().all(|c| matches!(c, '*' | '?' | '.' | '[' | ']' | '!' | '^'))
}

fn is_critical_path(path: &Path, facts: &ShellFacts<'_>) -> bool {
    let above = |place: &Path| place.starts_with(path);
    path_segments(path).count() <= 1
        || above(facts.cwd)
        || facts.home.is_some_and(above)
        || facts.roots.iter().any(|root| above(root))
}

/// Returns true for process directories, which lead to arbitrary places and contain nothing to remove.
fn is_process_folder(path: &Path) -> bool {
    path.starts_with("/proc") || path.starts_with("/dev/fd")
}

fn show_word(word: &Word) -> String {
    let piece = |piece: &WordPiece| match piece {
        WordPiece::Text(text) => text.clone(),
        WordPiece::Glob(c) => c.to_string(),
        WordPiece::Tilde => "~".to_owned(),
        WordPiece::Variable(name) => format!("${name}"),
        WordPiece::Number | WordPiece::Output(_) | WordPiece::Stream | WordPiece::Choice(_) | WordPiece::Unknown => {
            "…".to_owned()
        }
    };
    word.pieces().iter().map(piece).collect()
}
