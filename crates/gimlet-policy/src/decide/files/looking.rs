//! Looking where a command's text alone does not say what it reads: patterns are expanded, folders gone through and lists
//! of names worked out, each within bounds. What is too much, or cannot be seen, is not known to be harmless.

use std::cell::Cell;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::closed::Closing;
use crate::paths::{FileView, Kind, Listed, Listing, Segment, Wildcards};
use crate::shell::{Below, Look, PatternLook, Printed, PrintedLook};

/// Names that one pattern or one list may stand for.
pub(super) const MOST_NAMES: usize = 1_000;
/// Names that are looked at for one command altogether.
const MOST_SEEN: usize = 20_000;
/// Names in the path of a folder that is looked into. What is done for each of them grows with their number.
const DEEPEST: usize = 100;

/// Eyes that tire.
pub(super) struct Eyes<'a> {
    view: &'a dyn FileView,
    left: Cell<usize>,
}

/// A path that a command may open, and what lies there.
type Found = (PathBuf, Kind);

impl<'a> Eyes<'a> {
    pub(super) fn new(view: &'a dyn FileView) -> Self {
        Self { view, left: Cell::new(MOST_SEEN) }
    }

    /// Every path whose links have to be followed and judged before the command is known to stay where it may read; `None`
    /// when that cannot be said.
    pub(super) fn paths(&self, look: &Look) -> Option<Vec<PathBuf>> {
        match look {
            Look::Pattern(look) => self.pattern(look),
            Look::Tree { roots, deep } => self.tree(roots, *deep, false),
            Look::Printed(look) => self.printed(look, false),
        }
    }

    /// Every path that the look stands for, whether a link or not.
    pub(super) fn everything(&self, look: &Look) -> Option<Vec<PathBuf>> {
        match look {
            Look::Pattern(look) => Some(self.matching(look)?.into_iter().map(|(path, _)| path).collect()),
            Look::Tree { roots, deep } => self.tree(roots, *deep, true),
            Look::Printed(look) => self.printed(look, true),
        }
    }

    /// The names that the shell puts in place of a pattern; `None` when some would be taken for something else.
    pub(super) fn matching(&self, look: &PatternLook) -> Option<Vec<Found>> {
        self.words_of(look, &mut Vec::new())
    }

    /// What a path stands for, a link at its end not followed; `None` where there is nothing.
    pub(super) fn kind_of(&self, path: &Path) -> Option<Kind> {
        let (folder, name) = (path.parent()?, path.file_name()?);
        self.list(folder)?.into_iter().find(|entry| entry.name == name).map(|entry| entry.kind)
    }

    /// Everything below a folder, by its path from there; no link is followed. What is no folder has nothing below.
    pub(super) fn below_folder(&self, folder: &Path) -> Option<Vec<Found>> {
        let mut found = Vec::new();
        let mut waiting = vec![PathBuf::new()];
        while let Some(below) = waiting.pop() {
            for entry in self.list(&folder.join(&below))? {
                let path = below.join(&entry.name);
                if entry.kind == Kind::Folder {
                    waiting.push(path.clone());
                }
                found.push((path, entry.kind));
            }
        }
        Some(found)
    }

    /// The closed files below a folder that is gone through without following links, `only` for files of these names.
    pub(super) fn closed_below(&self, folder: &Path, closing: &Closing<'_>, only: &[Segment]) -> Option<Vec<PathBuf>> {
        let mut closed = Vec::new();
        let real = self.view.follow(folder)?.real;
        let mut waiting = vec![(folder.to_owned(), real)];
        while let Some((spelled, real)) = waiting.pop() {
            // Nothing that could be closed lies further down.
            let may_close = |path: &Path| closing.covers(path) || closing.may_cover_below(path);
            let linked = spelled != real;
            if !(may_close(&spelled) || linked && may_close(&real)) {
                continue;
            }
            for entry in self.list(&real)? {
                let (spelled, real) = (spelled.join(&entry.name), real.join(&entry.name));
                if entry.kind == Kind::Folder {
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

    /// The paths that a pattern stands for.
    pub(super) fn matches(&self, pattern: &Wildcards, from: &[PathBuf]) -> Option<Vec<PathBuf>> {
        Some(self.expand(pattern, from, &mut Vec::new())?.into_iter().map(|(path, _)| path).collect())
    }

    fn list(&self, folder: &Path) -> Option<Vec<Listed>> {
        let left = self.left.get();
        let listing = if is_deep(folder) { Listing::Unknown } else { self.view.list(folder, left) };
        match listing {
            Listing::Entries(entries) if entries.len() <= left => {
                self.left.set(left - entries.len());
                Some(entries)
            }
            Listing::NoFolder => Some(Vec::new()),
            // How much there was to see is not known, only that it was too much.
            Listing::Entries(_) | Listing::Unknown => {
                self.left.set(0);
                None
            }
        }
    }

    /// Whether a folder may lie there; no more than its first name is read.
    fn is_folder(&self, path: &Path) -> bool {
        is_deep(path) || !matches!(self.view.list(path, 0), Listing::NoFolder)
    }

    /// The names that a pattern stands for, and every folder that the shell looks into for them.
    fn expand(&self, pattern: &Wildcards, from: &[PathBuf], folders: &mut Vec<PathBuf>) -> Option<Vec<Found>> {
        let starts = if pattern.absolute { vec![PathBuf::from("/")] } else { from.to_vec() };
        let mut places: Vec<Found> = starts.into_iter().map(|start| (start, Kind::Folder)).collect();
        for segment in &pattern.segments {
            let mut next = Vec::new();
            for (place, _) in places {
                if let Some(name) = segment.literal() {
                    // What lies there has not been looked at.
                    next.push((place.join(name), Kind::Link));
                    continue;
                }
                if segment.is_any_depth() {
                    next.extend(self.any_depth(place, folders)?);
                    continue;
                }
                let entries = self.list(&place)?.into_iter().filter(|entry| segment.may_become(&entry.name));
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

    /// What `**` stands for, be it taken for `*` or for everything below.
    fn any_depth(&self, folder: PathBuf, folders: &mut Vec<PathBuf>) -> Option<Vec<Found>> {
        let mut found = vec![(folder.clone(), Kind::Folder)];
        let mut waiting = vec![folder];
        while let Some(folder) = waiting.pop() {
            for entry in self.list(&folder)? {
                if entry.name.as_encoded_bytes().starts_with(b".") {
                    continue;
                }
                let path = folder.join(&entry.name);
                if entry.kind == Kind::Folder {
                    waiting.push(path.clone());
                }
                found.push((path, entry.kind));
            }
            folders.push(folder);
        }
        Some(found)
    }

    fn pattern(&self, look: &PatternLook) -> Option<Vec<PathBuf>> {
        let mut judged = Vec::new();
        let found = self.words_of(look, &mut judged)?;
        // Whatever is no link lies where its folder lies.
        let links = found.into_iter().filter(|(_, kind)| look.role.opens && *kind == Kind::Link);
        judged.extend(links.map(|(path, _)| path));
        Some(judged)
    }

    fn words_of(&self, look: &PatternLook, folders: &mut Vec<PathBuf>) -> Option<Vec<Found>> {
        let found = self.expand(&look.pattern, &look.from, folders)?;
        for (path, _) in &found {
            let word = spelled(path, &look.from).filter(|_| !look.pattern.absolute);
            let option = word.is_some_and(|word| word.as_os_str().as_encoded_bytes().starts_with(b"-"));
            if option && look.role.may_be_option && !look.pattern.prefixed {
                return None;
            }
            if !look.whole && !path.to_str().is_some_and(stays_one_word) {
                return None;
            }
        }
        Some(found)
    }

    /// Links in folders, and in the folders that these lead to; with `all` also what is no link.
    fn tree(&self, roots: &[PathBuf], deep: bool, all: bool) -> Option<Vec<PathBuf>> {
        let mut judged = Vec::new();
        let mut seen: HashSet<PathBuf> = HashSet::new();
        let mut waiting: Vec<PathBuf> = roots.to_vec();
        while let Some(path) = waiting.pop() {
            let folder = self.view.follow(&path)?.real;
            if !seen.insert(folder.clone()) {
                continue;
            }
            for entry in self.list(&folder)? {
                let path = folder.join(&entry.name);
                if deep && entry.kind != Kind::Other {
                    waiting.push(path.clone());
                }
                if all || entry.kind == Kind::Link {
                    judged.push(path);
                }
            }
        }
        Some(judged)
    }

    fn printed(&self, look: &PrintedLook, all: bool) -> Option<Vec<PathBuf>> {
        let fits = |name: &str| look.reader.keeps(name) && !(name.starts_with('-') && look.role.may_be_option);
        let judged = match &look.printed {
            Printed::Here => look.from.iter().all(|here| here.to_str().is_some_and(fits)).then(|| look.from.clone()),
            Printed::Entries(folder) => self.printed_entries(folder, &look.from, &fits),
            Printed::Matches { patterns, lists } => self.printed_matches(patterns, *lists, &look.from, &fits),
            Printed::Below(below) => self.printed_below(below, &look.from, &fits, all),
        }?;
        (judged.len() <= MOST_NAMES).then_some(judged)
    }

    /// What a list of a folder names, or the folder itself if it is empty.
    fn printed_entries(&self, folder: &str, from: &[PathBuf], fits: &dyn Fn(&str) -> bool) -> Option<Vec<PathBuf>> {
        let mut judged = Vec::new();
        for path in from.iter().map(|from| from.join(folder)) {
            let entries = self.list(&path)?;
            if entries.is_empty() {
                fits(folder).then_some(())?;
                judged.push(path);
            }
            for entry in entries.iter().filter(|entry| !entry.name.as_encoded_bytes().starts_with(b".")) {
                entry.name.to_str().filter(|name| fits(name))?;
                // The bare name means a file from where the other command stands.
                judged.extend(from.iter().map(|from| from.join(&entry.name)));
            }
        }
        Some(judged)
    }

    /// What patterns match; with `lists` nothing is known of what is in a folder among them.
    fn printed_matches(
        &self,
        patterns: &[Wildcards],
        lists: bool,
        from: &[PathBuf],
        fits: &dyn Fn(&str) -> bool,
    ) -> Option<Vec<PathBuf>> {
        let mut judged = Vec::new();
        for pattern in patterns {
            for (path, _) in self.expand(pattern, from, &mut judged)? {
                match (self.is_folder(&path), lists) {
                    (true, true) => return None,
                    (true, false) => continue,
                    (false, _) => {}
                }
                let word = spelled(&path, from).or(Some(&path)).and_then(Path::to_str);
                word.filter(|word| fits(word))?;
                judged.push(path);
            }
        }
        Some(judged)
    }

    fn printed_below(
        &self,
        below: &Below,
        from: &[PathBuf],
        fits: &dyn Fn(&str) -> bool,
        all: bool,
    ) -> Option<Vec<PathBuf>> {
        let mut judged = Vec::new();
        for from in from {
            for root in &below.roots {
                self.below(from, root, below, fits, &mut |kind, path| {
                    if all || kind == Kind::Link {
                        judged.push(path);
                    }
                })?;
                judged.push(from.join(root));
            }
        }
        Some(judged)
    }

    /// Everything below a folder, which is not left through links.
    fn below(
        &self,
        from: &Path,
        root: &str,
        below: &Below,
        fits: &dyn Fn(&str) -> bool,
        found: &mut dyn FnMut(Kind, PathBuf),
    ) -> Option<()> {
        let mut waiting = vec![(from.join(root), if below.bare { String::new() } else { root.to_owned() })];
        (below.bare || fits(root)).then_some(())?;
        while let Some((folder, printed)) = waiting.pop() {
            for entry in self.list(&folder)? {
                let name = entry.name.to_str()?;
                let word = match printed.as_str() {
                    "" => name.to_owned(),
                    folder if folder.ends_with('/') => format!("{folder}{name}"),
                    folder => format!("{folder}/{name}"),
                };
                let path = folder.join(name);
                if below.named.as_ref().is_none_or(|named| named.matches(&entry.name)) {
                    fits(&word).then_some(())?;
                    found(entry.kind, path.clone());
                }
                if entry.kind == Kind::Folder {
                    waiting.push((path, word));
                }
            }
        }
        Some(())
    }
}

fn is_deep(folder: &Path) -> bool {
    folder.components().count() > DEEPEST
}

/// The word that stands for a path, from whichever directory it was found.
fn spelled<'a>(path: &'a Path, from: &[PathBuf]) -> Option<&'a Path> {
    // The shortest: a pattern may reach from one of the directories into another.
    from.iter().filter_map(|from| path.strip_prefix(from).ok()).min_by_key(|word| word.as_os_str().len())
}

fn stays_one_word(path: &str) -> bool {
    !path.contains(|c: char| c.is_whitespace() || c.is_control() || matches!(c, '*' | '?' | '['))
}
