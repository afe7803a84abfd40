//! Folders that a command removes, changes or moves with everything in them: `rm -r d`, `mv d x`, `git rm -r d`. No
//! word names the files in them, but a rule may protect them.

mod git_targets;
mod unpacking;

use std::path::{Path, PathBuf};

use super::protected_mentions::is_find_action;
use super::{PathLookup, possible_writes};
use crate::decide::rule_subject::FileAccess;
use crate::paths::{FileView, GlobSegment, ListedKind, normalise};
use crate::shell::{Word, base_name, find_actions, git_subcommand, is_recursive, reachable_commands};

/// Limit of values of trailing options that may follow a copy's target.
const MOST_TARGETS: usize = 8;

/// A folder that is removed or changed, and its destination.
#[derive(Default)]
pub(super) struct RecursiveTarget<'a> {
    /// The folder that is removed or changed; `None` when it stays and only its copy appears elsewhere.
    folder: Option<&'a str>,
    /// Source and destination of a move or copy.
    moves_to: Option<(&'a str, &'a str)>,
    /// True if the whole content is included.
    whole: bool,
    /// Only files of these names; empty for all.
    only: Vec<GlobSegment>,
    /// True if git restores or cleans the content from its own records, so that no file is read.
    by_git: bool,
    /// True if the words may have another meaning than their position suggests.
    uncertain: bool,
    /// True if the whole repository around the command's directory is changed.
    repository: bool,
    /// True if the content comes from an archive, so that its names are not known.
    unpacked: bool,
}

pub(super) use git_targets::is_clean_dry_run;

impl<'a> RecursiveTarget<'a> {
    fn for_removed(folder: &'a str) -> Self {
        Self { folder: Some(folder), ..Self::default() }
    }
}

/// Returns the folders that a command may remove or change. Words that are only known at run time are handled
/// elsewhere.
pub(super) fn find_recursive_targets<'a>(name: &'a str, arguments: &'a [Word]) -> Vec<RecursiveTarget<'a>> {
    let known: Vec<&str> = arguments.iter().flat_map(Word::choices).filter_map(Word::value).collect();
    match name {
        "rm" | "chmod" | "chown" | "chgrp" if known.iter().any(|word| is_recursive(word)) => {
            operands(&known).into_iter().map(RecursiveTarget::for_removed).collect()
        }
        "mv" => move_targets(&known, true, true),
        "install" | "ln" => move_targets(&known, false, false),
        "rsync" | "scp" if may_end_in_option_value(&known) => {
            with_trailing_values(&known, |known| copy_targets(name, known))
        }
        "cp" | "rsync" | "scp" => copy_targets(name, &known),
        "find" if known.contains(&"-delete") || starts_unknown_program(arguments) => find_targets(arguments),
        "git" => git_targets(&known),
        "hg" | "svn" | "jj" if rewrites_repository(name, &known) => {
            vec![RecursiveTarget { by_git: true, repository: true, ..RecursiveTarget::default() }]
        }
        "tar" | "bsdtar" | "unzip" | "7z" | "7za" | "7zz" | "cpio" | "patch" => {
            let folder = unpacking::folder(name, &known);
            folder
                .into_iter()
                .map(|folder| RecursiveTarget {
                    unpacked: true,
                    by_git: true,
                    uncertain: true,
                    ..RecursiveTarget::for_removed(folder)
                })
                .collect()
        }
        // Every subcommand is also a program of its own.
        name => match name.strip_prefix("git-") {
            Some(subcommand) => git_targets(&[&[subcommand], known.as_slice()].concat()),
            None => Vec::new(),
        },
    }
}

/// Returns the files that a copy writes at its destination, and those that it removes there.
fn copy_targets<'a>(name: &str, known: &[&'a str]) -> Vec<RecursiveTarget<'a>> {
    let takes = known.iter().any(|word| word.starts_with("--remove"));
    let whole = name == "rsync" || known.iter().any(|word| is_recursive(word) || is_archive_option(word));
    let mut found = move_targets(known, takes, whole);
    // Files that the source does not have are deleted.
    let clears = known.iter().any(|word| word.starts_with("--del"));
    if clears && let Some((_, target)) = found.last().and_then(|taken| taken.moves_to) {
        found.push(RecursiveTarget::for_removed(target));
    }
    found
}

/// Returns true if the last operand may be the value of an option: `rsync a b --exclude c`.
fn may_end_in_option_value(known: &[&str]) -> bool {
    let last = known.iter().rposition(|word| !word.starts_with('-'));
    last.is_some_and(|last| last > 0 && known[last - 1].starts_with('-'))
}

/// Returns the targets of the command as written, and, as uncertain ones, those with each trailing word taken as an
/// option's value.
fn with_trailing_values<'a>(
    known: &[&'a str],
    copies: impl Fn(&[&'a str]) -> Vec<RecursiveTarget<'a>>,
) -> Vec<RecursiveTarget<'a>> {
    let mut found = copies(known);
    let mut shorter = known.to_vec();
    for _ in 0..MOST_TARGETS {
        if !may_end_in_option_value(&shorter) {
            return found;
        }
        // The options stay, because they determine what is copied and how.
        let last = shorter.iter().rposition(|word| !word.starts_with('-'));
        last.map(|last| shorter.remove(last));
        found.extend(copies(&shorter).into_iter().map(|taken| RecursiveTarget { uncertain: true, ..taken }));
    }
    found.push(RecursiveTarget { uncertain: true, ..RecursiveTarget::for_removed(".") });
    found
}

/// Returns the targets of files that get another place or another name.
fn move_targets<'a>(known: &[&'a str], moves: bool, whole: bool) -> Vec<RecursiveTarget<'a>> {
    let (all, named) = (operands(known), target_directory(known));
    let (target, sources) = match (named, all.split_last()) {
        (Some(target), _) => (target, &all[..]),
        (None, Some((target, sources))) => (*target, sources),
        (None, None) => return Vec::new(),
    };
    let taken = |source: &&'a str| RecursiveTarget {
        folder: moves.then_some(*source),
        moves_to: Some((*source, target)),
        whole,
        ..RecursiveTarget::default()
    };
    sources.iter().map(taken).collect()
}

/// Returns true for `cp -a`.
fn is_archive_option(option: &str) -> bool {
    option.starts_with("--ar") || (option.starts_with('-') && !option.starts_with("--") && option.contains('a'))
}

/// Returns the words that are not options; after `--` none is one.
pub(super) fn operands<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let mut options = true;
    let is_operand = |word: &&str| {
        let ends = options && *word == "--";
        options &= !ends;
        !ends && (!options || !word.starts_with('-'))
    };
    words.iter().copied().filter(is_operand).collect()
}

/// Returns the folder of `mv -t FOLDER`.
fn target_directory<'a>(words: &[&'a str]) -> Option<&'a str> {
    words.iter().enumerate().find_map(|(at, word)| match word.split_once('=') {
        Some((option, folder)) if option.starts_with("--ta") => Some(folder),
        _ if word.starts_with("--ta") => words.get(at + 1).copied(),
        _ if word.starts_with('-') && !word.starts_with("--") => match word.split_once('t')? {
            (_, "") => words.get(at + 1).copied(),
            (_, folder) => Some(folder),
        },
        _ => None,
    })
}

/// Returns true if `find` starts a program for each file that may do anything with it.
fn starts_unknown_program(arguments: &[Word]) -> bool {
    let mut inner = find_actions(arguments).into_iter().flat_map(|action| reachable_commands(&arguments[action]));
    inner.any(|words| possible_writes::possible_write_words(words).is_some_and(|told| !told.is_empty()))
}

/// Returns the folders that a `find` walks whose output other commands read.
pub(super) fn piped_find_targets(words: &[Word]) -> Vec<RecursiveTarget<'_>> {
    let named = |word: &Word| word.value().is_some_and(|name| base_name(name) == "find");
    match words.split_first() {
        Some((name, arguments)) if named(name) => find_targets(arguments),
        _ => Vec::new(),
    }
}

/// Returns the places that `find` walks over, and the names that it picks there.
fn find_targets(arguments: &[Word]) -> Vec<RecursiveTarget<'_>> {
    let known: Vec<&str> = arguments.iter().flat_map(Word::choices).filter_map(Word::value).collect();
    let begins = |word: &&str| word.starts_with(['-', '(', '!']);
    let start = known.iter().take_while(|word| matches!(**word, "-H" | "-L" | "-P")).count();
    let end = known[start..].iter().position(begins).map_or(known.len(), |at| start + at);
    let places = if start == end { &["."][..] } else { &known[start..end] };
    let only: Vec<GlobSegment> = selected_name(arguments).map(GlobSegment::from_find_pattern).into_iter().collect();
    places.iter().map(|folder| RecursiveTarget { only: only.clone(), ..RecursiveTarget::for_removed(folder) }).collect()
}

/// Returns the one name that everything has which `find` acts on: a test before the first action that nothing
/// bypasses. An unknown word may be such a bypass.
fn selected_name(arguments: &[Word]) -> Option<&str> {
    let acts = |text: &str| is_find_action(text) || text.starts_with("-print") || text == "-ls";
    let tests = arguments.iter().skip_while(|word| !word.value().is_some_and(|text| text.starts_with(['-', '(', '!'])));
    let tests: Option<Vec<&str>> = tests.map(Word::value).take_while(|value| !value.is_some_and(acts)).collect();
    let tests = tests?;
    let around = |word: &&str| matches!(*word, "-o" | "-or" | "!" | "-not" | ",");
    let behind = arguments.iter().filter_map(Word::value).any(|word| around(&word));
    tests.windows(2).find(|pair| pair[0] == "-name" && !behind).map(|pair| pair[1])
}

/// Returns true if a version control program other than git replaces files in the whole repository.
fn rewrites_repository(name: &str, known: &[&str]) -> bool {
    let subcommand = operands(known).first().copied().unwrap_or("");
    match name {
        "svn" => matches!(subcommand, "update" | "up" | "revert" | "switch" | "sw" | "merge" | "patch" | "cleanup"),
        "hg" => {
            const REWRITING: &[&str] = &[
                "backout", "checkout", "co", "graft", "histedit", "import", "merge", "pull", "purge", "rebase",
                "revert", "shelve", "strip", "unshelve", "up", "update",
            ];
            REWRITING.contains(&subcommand)
        }
        _ => !matches!(subcommand, "" | "diff" | "log" | "show" | "st" | "status" | "op" | "git" | "config" | "help"),
    }
}

/// Returns the targets that git changes because its words name them.
fn git_targets<'a>(known: &[&'a str]) -> Vec<RecursiveTarget<'a>> {
    let subcommand = git_subcommand(known).map(|(subcommand, _)| subcommand);
    let by_git = matches!(subcommand, Some("checkout" | "restore" | "clean"));
    let paths = git_targets::changed_paths(known)
        .into_iter()
        .map(|path| RecursiveTarget { by_git, ..RecursiveTarget::for_removed(path) });
    let whole = git_targets::rewrites_repository(known).then(|| RecursiveTarget {
        by_git: true,
        repository: true,
        ..RecursiveTarget::default()
    });
    paths.chain(whole).collect()
}

impl PathLookup<'_> {
    /// Returns the accesses to files that a rule may protect: below the folder, and at and below its destination.
    pub(super) fn recursive_accesses(&self, taken: &RecursiveTarget<'_>) -> Vec<FileAccess> {
        let mut touched = Vec::new();
        if taken.repository {
            touched.extend(
                self.candidate_repositories()
                    .map(|folder| FileAccess { found_by_lookup: true, ..self.rewritten_tree(&folder) }),
            );
        }
        if let Some(folder) = taken.folder {
            let kept = if taken.unpacked { None } else { self.write_denied_below(folder, &taken.only) };
            touched.extend(self.tree_accesses(folder, kept, taken));
        }
        if let Some((source, target)) = taken.moves_to {
            let kept = if taken.whole { self.write_denied_at(source, target) } else { Some(Vec::new()) };
            touched.extend(self.tree_accesses(target, kept, taken));
            touched.extend(self.moved_file_access(source, target));
        }
        touched
    }

    /// Returns the access to a folder that git rewrites. The files that it writes need not exist yet.
    fn rewritten_tree(&self, folder: &Path) -> FileAccess {
        FileAccess { tree: true, unread_below: true, ..self.path_access(&folder.to_string_lossy(), true) }
    }

    /// Returns the folders that may be the root of the command's repository: its directory or the one that options
    /// name, the working directories around that, and the nearest folder above with a `.git`.
    fn candidate_repositories(&self) -> impl Iterator<Item = PathBuf> {
        let mut found: Vec<PathBuf> = Vec::new();
        for from in self.directories.iter().chain(&self.chdir_dirs) {
            let roots = self.context.roots.iter().filter(|root| from.starts_with(root));
            let holds = |folder: &&Path| {
                let eyes = self.budget.as_ref();
                eyes.is_some_and(|eyes| eyes.entry_kind(&folder.join(".git")).is_some())
            };
            let top = from.ancestors().find(holds).map(Path::to_owned);
            for folder in roots.cloned().chain([from.clone()]).chain(top) {
                if !found.contains(&folder) {
                    found.push(folder);
                }
            }
        }
        found.into_iter()
    }

    /// Returns the accesses to a folder with the protected files below, from the command's directory and from those
    /// that options name.
    fn tree_accesses(
        &self,
        path: &str,
        kept: Option<Vec<PathBuf>>,
        taken: &RecursiveTarget<'_>,
    ) -> impl Iterator<Item = FileAccess> {
        let here = self.path_access(path, true);
        let here = FileAccess { found_by_lookup: taken.uncertain, ..here };
        let elsewhere = self.paths_after_chdir(path);
        let elsewhere = (!elsewhere.is_empty())
            .then(|| FileAccess { found_by_lookup: true, ..FileAccess::new(elsewhere, true, true) });
        let unread_below = taken.by_git;
        [here].into_iter().chain(elsewhere).map(move |folder| FileAccess {
            tree: true,
            denied_below: kept.clone(),
            unread_below,
            ..folder
        })
    }

    /// Returns the destination of one of several files if the target is a folder.
    fn moved_file_access(&self, source: &str, target: &str) -> Option<FileAccess> {
        let is_file =
            |path: PathBuf| self.budget.as_ref().and_then(|eyes| eyes.entry_kind(&path)) == Some(ListedKind::Other);
        if self.paths_from_every_dir(target).all(is_file) {
            return None;
        }
        let inside = Path::new(target).join(base_name(source.trim_end_matches('/')));
        let inside = inside.to_string_lossy();
        let mut landed = FileAccess { found_by_lookup: true, ..self.path_access(&inside, true) };
        landed.paths.extend(self.paths_after_chdir(&inside));
        Some(landed)
    }

    /// Returns the path from every directory that the command may run in.
    fn paths_from_every_dir(&self, path: &str) -> impl Iterator<Item = PathBuf> {
        let directories = self.directories.iter().chain(&self.chdir_dirs);
        directories.map(move |directory| normalise(directory, Path::new(path)))
    }

    /// Returns the files below a folder that rules protect from writes; `None` when the lookup was not complete.
    fn write_denied_below(&self, folder: &str, only: &[GlobSegment]) -> Option<Vec<PathBuf>> {
        let (eyes, keeping) = (self.budget.as_ref()?, self.write_rules.as_ref()?);
        self.view.filter(|view| FileView::is_complete(*view))?;
        let mut kept = Vec::new();
        for folder in self.paths_from_every_dir(folder) {
            kept.extend(eyes.denied_below(&folder, keeping, only)?);
        }
        Some(kept)
    }

    /// Returns the protected files where the files of a folder are moved to: in the target, or in a folder of that
    /// name in it.
    fn write_denied_at(&self, folder: &str, target: &str) -> Option<Vec<PathBuf>> {
        let (eyes, keeping) = (self.budget.as_ref()?, self.write_rules.as_ref()?);
        let mut kept = Vec::new();
        for (folder, target) in self.paths_from_every_dir(folder).zip(self.paths_from_every_dir(target)) {
            let inside = target.join(base_name(&folder.to_string_lossy()));
            let found = eyes.list_tree(&folder)?;
            // A source that is not a folder, or is an empty one, brings no files along.
            if !found.is_empty() && !self.view.is_some_and(FileView::is_complete) {
                return None;
            }
            let places = found.iter().flat_map(|(name, _)| [target.join(name), inside.join(name)]);
            kept.extend(places.filter(|path| keeping.covers(path)));
        }
        Some(kept)
    }
}
