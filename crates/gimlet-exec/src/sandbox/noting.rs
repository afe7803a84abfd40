//! Gathers the protected places as they are before a command, with all that they lead to. Blocking.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::census::is_repository;
use super::leads::{Lead, leads, places};
use super::small;
use super::watched::Watched;
use super::way::Way;

/// How deep configurations that include others are followed, as far as git does.
const MAX_INCLUDES: usize = 10;
/// The most that is read of one that lies outside.
const MAX_CONFIG_BYTES: u64 = 256 * 1024;

/// Who keeps a place as it is while the command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By<'a> {
    /// A mount that the spec asks for.
    Spec,
    /// A mount that this guard asks for.
    Guard,
    /// Nobody; it is put back afterwards.
    Nobody,
    /// Nobody, and it may change as long as it says nothing that others would run, or what lies at one of these tops.
    Itself { folder: Option<&'a Path> },
}

/// The places that were noted.
#[derive(Debug, Default)]
pub(super) struct Noted {
    pub(super) watched: Vec<Watched>,
    by_path: HashMap<PathBuf, usize>,
    /// What mounts have to hold besides what the spec names.
    pub(super) held: Vec<PathBuf>,
}

impl Noted {
    pub(super) fn get(&self, path: &Path) -> Option<&Watched> {
        self.watched.get(*self.by_path.get(path)?)
    }

    pub(super) fn get_mut(&mut self, path: &Path) -> Option<&mut Watched> {
        self.watched.get_mut(*self.by_path.get(path)?)
    }

    pub(super) fn push(&mut self, watched: Watched) {
        self.by_path.insert(watched.path().to_owned(), self.watched.len());
        self.watched.push(watched);
    }
}

#[derive(Debug)]
pub(super) struct Noting<'a> {
    /// The folders that commands may write.
    pub(super) roots: &'a [PathBuf],
    /// Folders that are closed to the command, so that no mount is made in them.
    pub(super) closed: &'a [PathBuf],
    pub(super) has_mounts: bool,
    seen: HashSet<PathBuf>,
    pub(super) noted: Noted,
}

impl<'a> Noting<'a> {
    pub(super) fn new(roots: &'a [PathBuf], closed: &'a [PathBuf], has_mounts: bool) -> Self {
        Self { roots, closed, has_mounts, seen: HashSet::new(), noted: Noted::default() }
    }

    /// Notes a place, if it lies in a writable folder, and what it leads to there.
    pub(super) fn note(&mut self, path: &Path, by: By<'_>) {
        let Some(root) = root_of(path, self.roots) else { return };
        if !self.seen.insert(path.to_owned()) {
            return;
        }
        let is_real = || path.symlink_metadata().is_ok_and(|metadata| !metadata.is_symlink());
        let is_open = || !self.closed.iter().any(|closed| path.starts_with(closed));
        let watched = match by {
            By::Itself { folder } => Watched::note_plain(root, path, twins(path, folder, self.roots)),
            By::Spec | By::Guard => Watched::note(root, path, self.has_mounts && is_real() && is_open()),
            By::Nobody => Watched::note(root, path, false),
        };
        // First, so that they lead there again before what lies behind them is looked at.
        if watched.leads_on() {
            self.note_way(path, by);
        }
        for link in watched.before().links() {
            let link = path.join(link);
            if Way::of(&link).is_some_and(|way| !way.end.is_dir()) {
                self.note_way(&link, by);
            }
        }
        self.noted.held.extend(Some(path.to_owned()).filter(|_| by == By::Guard && is_real()));
        self.noted.push(watched);
    }

    /// Notes every link on the way to a path, and its end.
    fn note_way(&mut self, path: &Path, by: By<'_>) {
        let Some(way) = Way::of(path) else { return };
        // The spec names the link only, and a mount that holds what it leads to is made all the same.
        let by = if by == By::Spec { By::Guard } else { by };
        // A repository is guarded by itself, and git has to write it.
        let end = Some(&way.end).filter(|end| !is_repository(end));
        way.links.iter().chain(end).for_each(|place| self.note(place, by));
    }

    /// Notes what the configuration of a repository leads to. `tops` are the folders that it is checked out in.
    pub(super) fn note_leads(&mut self, repository: &Path, tops: &dyn Fn() -> Vec<PathBuf>, by: By<'_>) {
        for name in ["config", "config.worktree"] {
            self.follow(repository, &repository.join(name), tops, by, MAX_INCLUDES);
        }
    }

    fn follow(
        &mut self,
        repository: &Path,
        config: &Path,
        tops: &dyn Fn() -> Vec<PathBuf>,
        by: By<'_>,
        further: usize,
    ) {
        let Some(further) = further.checked_sub(1) else { return };
        for lead in self.leads_of(config) {
            match lead {
                Lead::Hooks(spelled) => {
                    let hooks = tops().into_iter().flat_map(|top| places(&spelled, &top, self.roots));
                    // Not everything that a person works at.
                    for hooks in hooks.filter(|hooks| !repository.starts_with(hooks)).collect::<Vec<_>>() {
                        self.note_way(&hooks, by);
                    }
                }
                Lead::Configuration(spelled) => {
                    for path in places(&spelled, config.parent().unwrap_or(config), self.roots) {
                        self.note_way(&path, by);
                        self.follow(repository, &path, tops, by, further);
                    }
                }
            }
        }
    }

    /// Where one configuration leads.
    fn leads_of(&self, path: &Path) -> Vec<Lead> {
        match self.noted.get(path) {
            Some(watched) if !watched.leads_on() => watched.before().bytes().map(leads).unwrap_or_default(),
            _ => {
                let bytes = Way::of(path).and_then(|way| small::read(&way.end, MAX_CONFIG_BYTES).ok());
                bytes.map(|bytes| leads(&bytes)).unwrap_or_default()
            }
        }
    }
}

/// The folder that a path lies in.
pub(super) fn root_of<'a>(path: &Path, roots: &'a [PathBuf]) -> Option<&'a PathBuf> {
    roots.iter().find(|root| path.starts_with(root) && path != *root)
}

/// Where the same would lie at the tops of the writable folders as lies at a path in this one.
pub(super) fn twins(path: &Path, folder: Option<&Path>, roots: &[PathBuf]) -> Vec<PathBuf> {
    let inside = folder.and_then(|folder| path.strip_prefix(folder).ok());
    inside.map(|inside| roots.iter().map(|root| root.join(inside)).collect()).unwrap_or_default()
}
