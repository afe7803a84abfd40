//! Changes of git to the working tree: to the paths that its words name, and to the whole of it.

use super::operands;
use crate::shell::git_subcommand;

/// Returns the paths of the working tree that it changes.
pub(super) fn changed_paths<'a>(known: &[&'a str]) -> Vec<&'a str> {
    let Some((subcommand, rest)) = git_subcommand(known) else { return Vec::new() };
    let has = |words: &[&str]| rest.iter().any(|word| words.contains(word));
    // The paths stand in a file.
    if rest.iter().any(|word| word.starts_with("--pathspec-f")) && matches!(subcommand, "rm" | "restore" | "checkout") {
        return vec!["."];
    }
    match subcommand {
        "rm" if !has(&["--cached"]) => operands(rest),
        "mv" => operands(rest),
        "clean" if is_clean_dry_run(rest) => Vec::new(),
        "clean" => {
            let own = without_exclude_values(rest);
            Some(operands(&own)).filter(|named| !named.is_empty()).unwrap_or_else(|| vec!["."])
        }
        "restore" if has(&["--worktree", "-W"]) || !has(&["--staged", "-S"]) => operands(rest),
        // Before `--` there may be the name of a branch.
        "checkout" => match rest.iter().position(|word| *word == "--") {
            Some(at) => rest[at + 1..].to_vec(),
            None => rest.iter().copied().filter(|word| is_plain_path(word)).collect(),
        },
        // Another working tree is created or removed there.
        "worktree" if has(&["add", "remove", "move"]) => operands(rest),
        _ => Vec::new(),
    }
}

/// Returns true if git replaces or removes files of the whole repository. Names of branches and git's own patterns are
/// not followed.
pub(super) fn rewrites_repository(known: &[&str]) -> bool {
    let Some((subcommand, rest)) = git_subcommand(known) else { return false };
    let has = |words: &[&str]| rest.iter().any(|word| words.contains(word));
    let names = operands(rest);
    let has_letter = |letter: char| {
        rest.iter().any(|word| word.starts_with('-') && !word.starts_with("--") && word.contains(letter))
    };
    // The user picks interactively what is restored.
    let picks = has_letter('p') || has(&["--patch"]);
    match subcommand {
        "am" | "bisect" | "checkout-index" | "cherry-pick" | "filter-branch" | "filter-repo" | "lfs" | "merge"
        | "merge-index" | "merge-octopus" | "merge-one-file" | "merge-ours" | "merge-recursive" | "merge-resolve"
        | "merge-subtree" | "mergetool" | "p4" | "pull" | "quiltimport" | "rebase" | "revert" | "subtree" | "svn" => {
            true
        }
        "apply" => !has(&["--cached", "--check", "--stat", "--numstat", "--summary"]),
        "read-tree" => has_letter('u') || has(&["--reset"]),
        "reset" => has(&["--hard", "--merge", "--keep"]),
        "sparse-checkout" => names.first() != Some(&"list"),
        "stash" => !matches!(names.first(), Some(&("list" | "show" | "drop" | "clear" | "create" | "store"))),
        "submodule" => !matches!(names.first(), None | Some(&("status" | "summary" | "init" | "sync" | "set-url"))),
        // Switching to another branch is undone by switching back.
        "checkout" | "switch" => {
            let forced = has_letter('f') || has(&["--force", "--discard-changes"]);
            forced || picks || has_pathspec(&names) || (subcommand == "switch" && has(&["--orphan"]))
        }
        "restore" => picks || has_pathspec(&names),
        "rm" | "mv" | "clean" => has_pathspec(&names),
        _ => false,
    }
}

/// Returns true if one of the paths is a pattern or begins elsewhere (`:/`), which git interprets and not the shell.
fn has_pathspec(names: &[&str]) -> bool {
    names.iter().any(|name| name.starts_with(':') || name.contains(['*', '?', '[']))
}

/// Returns true if `git clean` only prints what it would remove.
pub(in super::super) fn is_clean_dry_run(rest: &[&str]) -> bool {
    let options: Vec<&str> = without_exclude_values(rest).into_iter().take_while(|word| *word != "--").collect();
    let dry = |word: &&str| match word.strip_prefix('-') {
        // The value of `e` is a pattern that is kept.
        Some(letters) if !letters.starts_with('-') => letters.split('e').next().is_some_and(|own| own.contains('n')),
        _ => *word == "--dry-run",
    };
    options.iter().any(dry) && !options.iter().any(|word| word.starts_with("--no-"))
}

/// Returns the words of `git clean` but for the values of `-e`.
fn without_exclude_values<'a>(rest: &[&'a str]) -> Vec<&'a str> {
    let excludes = |word: &str| match word.strip_prefix("--") {
        Some(long) => long.starts_with("ex") && !long.contains('='),
        None => word.starts_with('-') && word.find('e') == Some(word.len() - 1),
    };
    let mut is_value = false;
    let is_own = |word: &&&str| {
        let own = !is_value;
        is_value = own && excludes(word);
        own
    };
    rest.iter().filter(is_own).copied().collect()
}

fn is_plain_path(word: &str) -> bool {
    matches!(word, "." | "..") || word.starts_with("./") || word.starts_with("../") || word.ends_with('/')
}
