//! Lookups where a command's text alone does not show the files that it reads: patterns are expanded, folders walked
//! and lists of names resolved, each within bounds. A result that is too large or not visible is never taken to be
//! harmless.

use std::cell::Cell;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::denied_files::FileDenyRules;
use crate::paths::{DirListing, FileView, GlobPath, GlobSegment, ListedEntry, ListedKind};
use crate::shell::{PatternLookup, PendingLookup, PrintedLookup, PrintedNames, TreeListing};

/// Limit of names that one pattern or one list may expand to.
pub(super) const MOST_NAMES: usize = 1_000;
/// Limit of names that are read for one command altogether.
const MOST_SEEN: usize = 20_000;
/// Limit of names in the path of a folder that is listed. The work for each of them grows with their number.
const DEEPEST: usize = 100;

/// Budget for directory lookups; expansion fails when it is used up.
pub(super) struct LookupBudget<'a> {
    view: &'a dyn FileView,
    remaining: Cell<usize>,
}

/// A path that a command may open, and its kind.
type ExpandedPath = (PathBuf, ListedKind);

impl<'a> LookupBudget<'a> {
    pub(super) fn new(view: &'a dyn FileView) -> Self {
        Self { view, remaining: Cell::new(MOST_SEEN) }
    }

    /// Returns every path whose symlinks have to be followed and judged before the command is known to stay where it
    /// may read; `None` when that cannot be determined.
    pub(super) fn paths_to_follow(&self, look: &PendingLookup) -> Option<Vec<PathBuf>> {
        match look {
            PendingLookup::Pattern(look) => self.pattern_paths(look),
            PendingLookup::Tree { roots, deep } => self.tree_paths(roots, *deep, false),
            PendingLookup::Printed(look) => self.printed_paths(look, false),
        }
    }

    /// Returns every path that the lookup stands for, symlink or not.
    pub(super) fn all_paths(&self, look: &PendingLookup) -> Option<Vec<PathBuf>> {
        match look {
            PendingLookup::Pattern(look) => Some(self.match_pattern(look)?.into_iter().map(|(path, _)| path).collect()),
            PendingLookup::Tree { roots, deep } => self.tree_paths(roots, *deep, true),
            PendingLookup::Printed(look) => self.printed_paths(look, true),
        }
    }

    /// Returns the names that the shell expands a pattern to; `None` when some would be taken for something else.
    pub(super) fn match_pattern(&self, look: &PatternLookup) -> Option<Vec<ExpandedPath>> {
        self.expand_to_words(look, &mut Vec::new())
    }

    /// Returns the kind of a path without following a symlink at its end; `None` if nothing exists there.
    pub(super) fn entry_kind(&self, path: &Path) -> Option<ListedKind> {
        let (folder, name) = (path.parent()?, path.file_name()?);
        self.list_folder(folder)?.into_iter().find(|entry| entry.name == name).map(|entry| entry.kind)
    }

    /// Returns everything below a folder, by its path from there; no symlink is followed. A path that is not a folder
    /// has nothing below.
    pub(super) fn list_tree(&self, folder: &Path) -> Option<Vec<ExpandedPath>> {
        let mut found = Vec::new();
        let mut waiting = vec![PathBuf::new()];
        while let Some(below) = waiting.pop() {
            for entry in self.list_folder(&folder.join(&below))? {
                let path = below.join(&entry.name);
                if entry.kind == ListedKind::Folder {
                    waiting.push(path.clone());
                }
                found.push((path, entry.kind));
            }
        }
        Some(found)
    }

    /// Returns the closed files below a folder, walked without following symlinks, with `only` those of these names.
    pub(super) fn denied_below(
        &self,
        folder: &Path,
        closing: &FileDenyRules<'_>,
        only: &[GlobSegment],
    ) -> Option<Vec<PathBuf>> {
        let mut closed = Vec::new();
        let real = self.view.follow(folder)?.real;
        let mut waiting = vec![(folder.to_owned(), real)];
        while let Some((spelled, real)) = waiting.pop() {
            // No closed file is further down.
            let may_close = |path: &Path| closing.covers(path) || closing.may_cover_below(path);
            let linked = spelled != real;
            if !(may_close(&spelled) || linked && may_close(&real)) {
                continue;
            }
            for entry in self.list_folder(&real)? {
                let (spelled, real) = (spelled.join(&entry.name), real.join(&entry.name));
                if entry.kind == ListedKind::Folder {
                    waiting.push((spelled, real));
                    continue;
                }
                let opened = only.is_empty() || only.iter().any(|name| name.matches(&entry.name));
                if opened && (closing.covers(&spelled) || (linked && closing.covers(&real))) {
                    closed.extend([spelled, real]);
                }
            }
        }
        Some(closed)
    }

    /// Returns the paths that a pattern stands for.
    pub(super) fn expand_glob(&self, pattern: &GlobPath, from: &[PathBuf]) -> Option<Vec<PathBuf>> {
        Some(self.expand_segments(pattern, from, &mut Vec::new())?.into_iter().map(|(path, _)| path).collect())
    }

    fn list_folder(&self, folder: &Path) -> Option<Vec<ListedEntry>> {
        let left = self.remaining.get();
        let listing = if is_too_deep(folder) { DirListing::Unknown } else { self.view.list(folder, left) };
        match listing {
            DirListing::Entries(entries) if entries.len() <= left => {
                self.remaining.set(left - entries.len());
                Some(entries)
            }
            DirListing::NotFound => Some(Vec::new()),
            // The number of entries is not known, only that it exceeds the budget.
            DirListing::Entries(_) | DirListing::Unknown => {
                self.remaining.set(0);
                None
            }
        }
    }

    /// Returns true if the path may be a folder; reads no more than its first name.
    fn is_folder(&self, path: &Path) -> bool {
        is_too_deep(path) || !matches!(self.view.list(path, 0), DirListing::NotFound)
    }

    /// Returns the names that a pattern expands to, and adds every folder that the shell reads for them.
    fn expand_segments(
        &self,
        pattern: &GlobPath,
        from: &[PathBuf],
        folders: &mut Vec<PathBuf>,
    ) -> Option<Vec<ExpandedPath>> {
        let starts = if pattern.absolute { vec![PathBuf::from("/")] } else { from.to_vec() };
        let mut places: Vec<ExpandedPath> = starts.into_iter().map(|start| (start, ListedKind::Folder)).collect();
        for segment in &pattern.segments {
            let mut next = Vec::new();
            for (place, _) in places {
                if let Some(name) = segment.to_literal() {
                    // The kind of this entry was not checked.
                    next.push((place.join(name), ListedKind::Link));
                    continue;
                }
                if segment.is_any_depth() {
                    next.extend(self.expand_any_depth(place, folders)?);
                    continue;
                }
                let entries = self.list_folder(&place)?.into_iter().filter(|entry| segment.may_expand_to(&entry.name));
                next.extend(entries.map(|entry| (place.join(&entry.name), entry.kind)));
                folders.push(place);
            }
            if next.len() > MOST_NAMES {
                return None;
            }
            places = next;
        }
        Some(places)
    }

    /// Returns the expansion of `**`, both as `*` and as everything below.
    fn expand_any_depth(&self, folder: PathBuf, folders: &mut Vec<PathBuf>) -> Option<Vec<ExpandedPath>> {
        let mut found = vec![(folder.clone(), ListedKind::Folder)];
        let mut waiting = vec![folder];
        while let Some(folder) = waiting.pop() {
            for entry in self.list_folder(&folder)? {
                if entry.name.as_encoded_bytes().starts_with(b".") {
                    continue;
                }
                let path = folder.join(&entry.name);
                if entry.kind == ListedKind::Folder {
                    waiting.push(path.clone());
                }
                found.push((path, entry.kind));
            }
            folders.push(folder);
        }
        Some(found)
    }

    fn pattern_paths(&self, look: &PatternLookup) -> Option<Vec<PathBuf>> {
        let mut judged = Vec::new();
        let found = self.expand_to_words(look, &mut judged)?;
        // An entry that is not a symlink is where its folder is.
        let links = found.into_iter().filter(|(_, kind)| look.role.opens && *kind == ListedKind::Link);
        judged.extend(links.map(|(path, _)| path));
        Some(judged)
    }

    fn expand_to_words(&self, look: &PatternLookup, folders: &mut Vec<PathBuf>) -> Option<Vec<ExpandedPath>> {
        let found = self.expand_segments(&look.pattern, &look.from, folders)?;
        for (path, _) in &found {
            let word = relative_spelling(path, &look.from);
            let is_option_like = word.is_some_and(|word| word.as_os_str().as_encoded_bytes().starts_with(b"-"));
            let option = is_option_like && !look.pattern.absolute;
            if option && look.role.may_be_option && !look.pattern.prefixed {
                return None;
            }
            if !look.one_word && !path.to_str().is_some_and(stays_one_word) {
                return None;
            }
        }
        Some(found)
    }

    /// Returns symlinks in folders, and in the folders that these lead to; with `all` also other entries.
    fn tree_paths(&self, roots: &[PathBuf], deep: bool, all: bool) -> Option<Vec<PathBuf>> {
        let mut judged = Vec::new();
        let mut seen: HashSet<PathBuf> = HashSet::new();
        let mut waiting: Vec<PathBuf> = roots.to_vec();
        while let Some(path) = waiting.pop() {
            let folder = self.view.follow(&path)?.real;
            if !seen.insert(folder.clone()) {
                continue;
            }
            for entry in self.list_folder(&folder)? {
                let path = folder.join(&entry.name);
                if deep && entry.kind != ListedKind::Other {
                    waiting.push(path.clone());
                }
                if all || entry.kind == ListedKind::Link {
                    judged.push(path);
                }
            }
        }
        Some(judged)
    }

    fn printed_paths(&self, look: &PrintedLookup, all: bool) -> Option<Vec<PathBuf>> {
        let fits = |name: &str| look.reader.keeps_whole(name) && !(name.starts_with('-') && look.role.may_be_option);
        let judged = match &look.printed {
            PrintedNames::WorkingDirectory => {
                look.from.iter().all(|here| here.to_str().is_some_and(fits)).then(|| look.from.clone())
            }
            PrintedNames::Entries(folder) => self.printed_entries(folder, &look.from, &fits),
            PrintedNames::Matches { patterns, lists } => self.printed_matches(patterns, *lists, &look.from, &fits),
            PrintedNames::Tree(below) => self.printed_below(below, &look.from, &fits, all),
        }?;
        (judged.len() <= MOST_NAMES).then_some(judged)
    }

    /// Returns the names in the listing of a folder, or the folder itself if it is empty.
    fn printed_entries(&self, folder: &str, from: &[PathBuf], fits: &dyn Fn(&str) -> bool) -> Option<Vec<PathBuf>> {
        let mut judged = Vec::new();
        for path in from.iter().map(|from| from.join(folder)) {
            let entries = self.list_folder(&path)?;
            if entries.is_empty() {
                if !fits(folder) {
                    return None;
                }
                judged.push(path);
            }
            for entry in entries.iter().filter(|entry| !entry.name.as_encoded_bytes().starts_with(b".")) {
                entry.name.to_str().filter(|name| fits(name))?;
                // The bare name is relative to the directory of the other command.
                judged.extend(from.iter().map(|from| from.join(&entry.name)));
            }
        }
        Some(judged)
    }

    /// Returns the matches of patterns; with `lists` nothing is known about the content of matched folders.
    fn printed_matches(
        &self,
        patterns: &[GlobPath],
        lists: bool,
        from: &[PathBuf],
        fits: &dyn Fn(&str) -> bool,
    ) -> Option<Vec<PathBuf>> {
        let mut judged = Vec::new();
        for pattern in patterns {
            for (path, _) in self.expand_segments(pattern, from, &mut judged)? {
                match (self.is_folder(&path), lists) {
                    (true, true) => return None,
                    (true, false) => continue,
                    (false, _) => {}
                }
                let word = relative_spelling(&path, from).or(Some(&path)).and_then(Path::to_str);
                word.filter(|word| fits(word))?;
                judged.push(path);
            }
        }
        Some(judged)
    }

    fn printed_below(
        &self,
        below: &TreeListing,
        from: &[PathBuf],
        fits: &dyn Fn(&str) -> bool,
        all: bool,
    ) -> Option<Vec<PathBuf>> {
        let mut judged = Vec::new();
        for from in from {
            for root in &below.roots {
                self.walk_tree(from, root, below, fits, &mut |kind, path| {
                    if all || kind == ListedKind::Link {
                        judged.push(path);
                    }
                })?;
                judged.push(from.join(root));
            }
        }
        Some(judged)
    }

    /// Passes everything below a folder to `found`, without following symlinks; `None` when that cannot be determined.
    fn walk_tree(
        &self,
        from: &Path,
        root: &str,
        below: &TreeListing,
        fits: &dyn Fn(&str) -> bool,
        found: &mut dyn FnMut(ListedKind, PathBuf),
    ) -> Option<()> {
        let mut waiting = vec![(from.join(root), if below.without_root { String::new() } else { root.to_owned() })];
        if !below.without_root && !fits(root) {
            return None;
        }
        while let Some((folder, printed)) = waiting.pop() {
            for entry in self.list_folder(&folder)? {
                let name = entry.name.to_str()?;
                let word = match printed.as_str() {
                    "" => name.to_owned(),
                    folder if folder.ends_with('/') => format!("{folder}{name}"),
                    folder => format!("{folder}/{name}"),
                };
                let path = folder.join(name);
                if below.name_pattern.as_ref().is_none_or(|named| named.matches(&entry.name)) {
                    if !fits(&word) {
                        return None;
                    }
                    found(entry.kind, path.clone());
                }
                if entry.kind == ListedKind::Folder {
                    waiting.push((path, word));
                }
            }
        }
        Some(())
    }
}

fn is_too_deep(folder: &Path) -> bool {
    folder.components().count() > DEEPEST
}

/// Returns the word for a path, relative to the directory it was found from.
fn relative_spelling<'a>(path: &'a Path, from: &[PathBuf]) -> Option<&'a Path> {
    // The shortest, because a pattern may reach from one of the directories into another.
    from.iter().filter_map(|from| path.strip_prefix(from).ok()).min_by_key(|word| word.as_os_str().len())
}

fn stays_one_word(path: &str) -> bool {
    !path.contains(|c: char| c.is_whitespace() || c.is_control() || matches!(c, '*' | '?' | '['))
}
