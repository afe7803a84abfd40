//! The files that are edited by parts which do nothing else: those they name, those that patterns expand to, and those
//! in a copied folder. A copy that meets a symlink, or more names than can be checked, is never allowed unasked; nor
//! is one of a folder that another part of the text changes.

use std::path::{Path, PathBuf};

use gimlet_proto::PermissionMode;

use super::expansion::LookupBudget;
use super::{PathLookup, expansion, recursive_targets};
use crate::decide::rule_subject::{FileAccess, PartFiles};
use crate::paths::{FileView, ListedKind, is_protected, normalise};
use crate::shell::{CommandPart, FileEdits, ReadTargets, ShellAnalysis, TreeCopy, Word, base_name};

/// Limit of name-creating commands; beyond it any name may be a created one.
const MOST_GIVERS: usize = 64;

/// Retracts edits where another part of the text may have changed the files that were checked.
pub(super) fn retract_unstable_edits(
    analysis: &ShellAnalysis,
    place: &PathLookup<'_>,
    parts: &mut [PartFiles],
    redirects: &mut [FileAccess],
) {
    retract_edits_at_created_names(analysis, place, parts, redirects);
    if !analysis.parts.iter().any(copies_tree) {
        return;
    }
    let unsettled: Vec<usize> = (0..parts.len())
        .filter(|at| copies_tree(&analysis.parts[*at]) && !is_copy_stable(*at, analysis, place, parts, redirects))
        .collect();
    for at in unsettled {
        parts[at].edits = None;
    }
    let strays = |(part, files): (&CommandPart, &PartFiles)| copies_tree(part) && files.edits.is_none();
    if analysis.parts.iter().zip(parts.iter()).any(strays) {
        // It may bring symlinks along, by which the other parts write elsewhere.
        parts.iter_mut().for_each(|part| part.edits = None);
        redirects.iter_mut().filter(|redirect| redirect.write).for_each(|redirect| redirect.certain = false);
    }
}

/// Names that a text creates itself, which may be symlinks by the time they are used.
pub(super) struct CreatedNames {
    paths: Vec<PathBuf>,
    /// True if any name may be a created one.
    any_name: bool,
}

impl CreatedNames {
    fn covers(&self, file: &FileAccess) -> bool {
        self.any_name || file.paths.iter().any(|path| self.paths.iter().any(|name| path.starts_with(name)))
    }

    /// Marks these files as uncertain where they are at or below such a name.
    pub(super) fn mark_uncertain<'f>(&self, files: impl Iterator<Item = &'f mut FileAccess>) {
        for file in files.filter(|file| self.covers(file)) {
            (file.certain, file.certain_given_home) = (false, false);
        }
    }
}

/// Returns the names that the commands of a text create, if there is another command that could use them.
pub(super) fn find_created_names(
    analysis: &ShellAnalysis,
    place: &PathLookup<'_>,
    parts: &[PartFiles],
) -> Option<CreatedNames> {
    // A copy whose files are all known was checked for symlinks.
    let is_told = |words: &[Word]| {
        let mut told = analysis.parts.iter().zip(parts.iter()).filter(|(_, files)| files.edits.is_some());
        told.any(|(part, _)| copies_tree(part) && part.layers.iter().any(|layer| layer == words))
    };
    let reached = analysis.reachable_commands();
    let mut givers = reached.filter(|words| may_name_symlink(words)).filter(|words| !is_cp(words) || !is_told(words));
    let mut given: Vec<PathBuf> = Vec::new();
    let mut all = false;
    for words in givers.by_ref().take(MOST_GIVERS) {
        match created_names(words) {
            Some(names) => given.extend(names.iter().flat_map(|name| place.path_spellings(Path::new(name)).0)),
            None => all = true,
        }
    }
    all |= givers.next().is_some();
    (all || !given.is_empty()).then_some(CreatedNames { paths: given, any_name: all })
}

/// Marks edits at such a name as uncertain.
fn retract_edits_at_created_names(
    analysis: &ShellAnalysis,
    place: &PathLookup<'_>,
    parts: &mut [PartFiles],
    redirects: &mut [FileAccess],
) {
    let Some(names) = find_created_names(analysis, place, parts) else { return };
    // A single command finishes before its created names are used.
    if analysis.commands.len() > 1 {
        let writes_there = |part: &PartFiles| part.edits.iter().flatten().any(|file| names.covers(file));
        parts.iter_mut().filter(|part| writes_there(part)).for_each(|part| part.edits = None);
    }
    names.mark_uncertain(redirects.iter_mut().filter(|file| file.write));
}

fn is_cp(words: &[Word]) -> bool {
    words.first().and_then(Word::value).map(base_name) == Some("cp")
}

/// Returns true if a command may give a name to a symlink.
fn may_name_symlink(words: &[Word]) -> bool {
    let name = words.first().and_then(Word::value).map(base_name);
    let keeps_links = |word: &Word| {
        word.value().is_none_or(|text| {
            text.starts_with("--") || (text.starts_with('-') && text.contains(['a', 'd', 'P', 'r', 'R', 's']))
        })
    };
    match name {
        Some("mv" | "ln") => true,
        Some("cp") => words[1..].iter().any(keeps_links),
        _ => false,
    }
}

/// Returns the names that such a command creates, each with everything below it; `None` when its words do not show
/// them.
fn created_names(words: &[Word]) -> Option<Vec<String>> {
    let known: Vec<&str> = words[1..].iter().map(Word::value).collect::<Option<_>>()?;
    // An option may name the folder.
    if known.iter().any(|word| word.starts_with("--t") || (word.starts_with('-') && word.contains('t'))) {
        return None;
    }
    let operands = recursive_targets::operands(&known);
    let (target, sources) = operands.split_last()?;
    let last_of = |source: &&str| base_name(source.trim_end_matches('/')).to_owned();
    if sources.is_empty() {
        return Some(vec![last_of(target)]);
    }
    // A target that is certainly a folder gets no other name itself.
    let is_folder = target.ends_with('/') || matches!(base_name(target), "." | "..");
    let inside = sources.iter().map(|source| format!("{target}/{}", last_of(source)));
    let itself = (!is_folder).then(|| (*target).to_owned());
    Some(inside.chain(itself).collect())
}

fn copies_tree(part: &CommandPart) -> bool {
    part.edits.as_ref().is_some_and(|edits| !edits.copies.is_empty())
}

/// Returns true if nothing else in the text changes the folders that a part copies.
fn is_copy_stable(
    at: usize,
    analysis: &ShellAnalysis,
    place: &PathLookup<'_>,
    parts: &[PartFiles],
    redirects: &[FileAccess],
) -> bool {
    let others = || (0..parts.len()).filter(|other| *other != at);
    let is_known = |other: usize| analysis.parts[other].reads.is_some() || parts[other].edits.is_some();
    if analysis.has_scripts || !others().all(is_known) {
        return false;
    }
    let edited = others().flat_map(|other| parts[other].edits.iter().flatten());
    let mut written = redirects.iter().filter(|file| file.write).chain(edited).flat_map(|file| &file.paths);
    let copies = analysis.parts[at].edits.iter().flat_map(|edits| &edits.copies);
    let sources: Vec<PathBuf> = copies.flat_map(|copy| place.path_spellings(&copy.source).0).collect();
    !written.any(|path| overlaps_any(path, &sources))
}

/// Returns true if a path is equal to, above or below one of these.
fn overlaps_any(path: &Path, others: &[PathBuf]) -> bool {
    others.iter().any(|other| path.starts_with(other) || other.starts_with(path))
}

impl PathLookup<'_> {
    /// Returns everything that is edited; `None` when that cannot be determined.
    pub(super) fn resolve_edits(&self, edits: &FileEdits) -> Option<Vec<FileAccess>> {
        let mut touched: Vec<FileAccess> = edits.paths.iter().map(|path| self.edit_access(path)).collect();
        let (matched, all) = self.resolve_reads(&edits.dynamic_paths);
        if edits.removes_trees && !self.has_nothing_protected(&edits.dynamic_paths) {
            return None;
        }
        if self.context.mode == PermissionMode::AcceptEdits && self.moves_protected(edits) {
            return None;
        }
        if !matched.is_empty() || !all {
            touched.push(FileAccess { found_by_lookup: true, ..FileAccess::new(matched, all, true) });
        }
        let sources: Vec<PathBuf> = edits.copies.iter().flat_map(|copy| self.path_spellings(&copy.source).0).collect();
        for copy in &edits.copies {
            let copied = self.copy_destinations(copy)?;
            // The result of one copy may be the source of the next.
            if copied.iter().flat_map(|file| &file.paths).any(|path| overlaps_any(path, &sources)) {
                return None;
            }
            touched.extend(copied);
        }
        Some(touched)
    }

    /// Returns true if everything below folders that the text does not name was checked, and nothing there is
    /// protected.
    fn has_nothing_protected(&self, matched: &ReadTargets) -> bool {
        let Some(eyes) = &self.budget else { return matched.lookups.is_empty() };
        let is_free = |folder: &PathBuf| {
            let below = eyes.list_tree(folder);
            below.is_some_and(|found| !found.iter().any(|(name, _)| is_protected(&folder.join(name))))
        };
        matched.lookups.iter().all(|look| eyes.all_paths(look).is_some_and(|found| found.iter().all(is_free)))
    }

    /// Returns true if a folder that is moved or removed has something protected in it, or if moved files become
    /// protected at their destination. A folder that is too large to check is not moved unasked.
    fn moves_protected(&self, edits: &FileEdits) -> bool {
        let Some(view) = self.view else { return false };
        let seen = |folder: &Path| LookupBudget::new(view).list_tree(folder);
        let moves = edits.moves.iter().any(|moved| {
            let inside = moved.source.file_name().map(|name| moved.target.join(name));
            let places: Vec<&Path> =
                [&moved.source, &moved.target].into_iter().chain(&inside).map(PathBuf::as_path).collect();
            let protects = |name: &Path| places.iter().any(|place| is_protected(&normalise(place, name)));
            match seen(&moved.source) {
                Some(found) => found.iter().any(|(name, _)| protects(name)),
                None => view.is_complete(),
            }
        });
        let mut found = edits.paths.iter().filter_map(|folder| Some((folder, seen(folder)?)));
        moves
            || (edits.removes_trees
                && found.any(|(folder, found)| found.iter().any(|(name, _)| is_protected(&normalise(folder, name)))))
    }

    /// Returns the access for an edited path. The text does not show if the target is a folder, so it is not certain
    /// which files are edited.
    fn edit_access(&self, path: &Path) -> FileAccess {
        FileAccess { found_by_lookup: true, ..self.path_access(&path.to_string_lossy(), true) }
    }

    /// Returns the destinations of a folder's files. The target may be a folder that gets the copy, or become the
    /// copy.
    fn copy_destinations(&self, copy: &TreeCopy) -> Option<Vec<FileAccess>> {
        if !self.view.is_some_and(FileView::is_complete) {
            return None;
        }
        let eyes = self.budget.as_ref()?;
        // A symlink is copied as one and has another target from its new place; a missing source is created by the
        // text.
        if eyes.entry_kind(&copy.source)? == ListedKind::Link {
            return None;
        }
        let inside = copy.source.file_name().map(|name| copy.target.join(name));
        let targets: Vec<PathBuf> = inside.into_iter().chain([copy.target.clone()]).collect();
        let mut touched = Vec::new();
        for (name, kind) in eyes.list_tree(&copy.source)? {
            if kind == ListedKind::Link || name.to_str().is_none() || touched.len() > expansion::MOST_NAMES {
                return None;
            }
            touched.extend(targets.iter().map(|target| self.edit_access(&target.join(&name))));
        }
        Some(touched)
    }
}
