//! Captures the protected paths before a command, with all their targets. Blocking.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use gimlet_fs::read_file_nofollow;

use super::git_config_refs::{GitConfigRef, find_config_refs, resolve_ref_paths};
use super::protected_path::ProtectedPath;
use super::repo_scan::is_repository;
use super::symlinks::resolve_path;

/// Maximum depth to which included configurations are followed; git's own limit.
const MAX_INCLUDES: usize = 10;
/// Maximum bytes read from a configuration outside the repository.
const MAX_CONFIG_BYTES: u64 = 256 * 1024;

/// Mechanism that protects a path while the command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProtectedBy<'a> {
    /// A mount that the spec asks for.
    SpecMount,
    /// A mount that this guard asks for.
    GuardMount,
    /// None; it is restored afterwards.
    RestoreOnly,
    /// None; it may change as long as it contains nothing that other programs would run, or only what is at one of
    /// these tops.
    PlainOnly { folder: Option<&'a Path> },
}

/// The captured paths.
#[derive(Debug, Default)]
pub(super) struct ProtectedSnapshot {
    pub(super) paths: Vec<ProtectedPath>,
    by_path: HashMap<PathBuf, usize>,
    /// Paths that have to be mounted besides those that the spec names.
    pub(super) mounted_paths: Vec<PathBuf>,
}

impl ProtectedSnapshot {
    pub(super) fn get(&self, path: &Path) -> Option<&ProtectedPath> {
        self.paths.get(*self.by_path.get(path)?)
    }

    pub(super) fn get_mut(&mut self, path: &Path) -> Option<&mut ProtectedPath> {
        self.paths.get_mut(*self.by_path.get(path)?)
    }

    pub(super) fn push(&mut self, watched: ProtectedPath) {
        self.by_path.insert(watched.path().to_owned(), self.paths.len());
        self.paths.push(watched);
    }
}

#[derive(Debug)]
pub(super) struct SnapshotBuilder<'a> {
    /// The folders that commands may write.
    pub(super) roots: &'a [PathBuf],
    /// Folders that are closed to the command, so that no mount is made in them.
    pub(super) closed: &'a [PathBuf],
    pub(super) has_mounts: bool,
    seen: HashSet<PathBuf>,
    pub(super) snapshot: ProtectedSnapshot,
}

impl<'a> SnapshotBuilder<'a> {
    pub(super) fn new(roots: &'a [PathBuf], closed: &'a [PathBuf], has_mounts: bool) -> Self {
        Self { roots, closed, has_mounts, seen: HashSet::new(), snapshot: ProtectedSnapshot::default() }
    }

    /// Captures a path, if it lies in a writable folder, and its targets there.
    pub(super) fn add_path(&mut self, path: &Path, by: ProtectedBy<'_>) {
        let Some(root) = containing_root(path, self.roots) else { return };
        if !self.seen.insert(path.to_owned()) {
            return;
        }
        let is_real = || path.symlink_metadata().is_ok_and(|metadata| !metadata.is_symlink());
        let is_open = || !self.closed.iter().any(|closed| path.starts_with(closed));
        let watched = match by {
            ProtectedBy::PlainOnly { folder } => {
                ProtectedPath::capture_plain(root, path, counterparts_in_roots(path, folder, self.roots))
            }
            ProtectedBy::SpecMount | ProtectedBy::GuardMount => {
                ProtectedPath::capture(root, path, self.has_mounts && is_real() && is_open())
            }
            ProtectedBy::RestoreOnly => ProtectedPath::capture(root, path, false),
        };
        // First, so that symlinks are restored before the paths behind them are checked.
        if watched.has_symlink() {
            self.add_symlink_chain(path, by);
        }
        for link in watched.before().links() {
            let link = path.join(link);
            if resolve_path(&link).is_some_and(|way| !way.target.is_dir()) {
                self.add_symlink_chain(&link, by);
            }
        }
        if by == ProtectedBy::GuardMount && is_real() {
            self.snapshot.mounted_paths.push(path.to_owned());
        }
        self.snapshot.push(watched);
    }

    /// Captures every symlink on the way to a path, and its target.
    fn add_symlink_chain(&mut self, path: &Path, by: ProtectedBy<'_>) {
        let Some(way) = resolve_path(path) else { return };
        // The spec names only the symlink; the mount that protects its target is still made by the guard.
        let by = if by == ProtectedBy::SpecMount { ProtectedBy::GuardMount } else { by };
        // A repository is guarded separately, and git has to write it.
        let end = if is_repository(&way.target) { None } else { Some(&way.target) };
        way.links.iter().map(|followed| &followed.link).chain(end).for_each(|place| self.add_path(place, by));
    }

    /// Captures the paths that a repository's configuration refers to. `tops` are the folders that it is checked out
    /// in.
    pub(super) fn add_config_refs(&mut self, repository: &Path, tops: &dyn Fn() -> Vec<PathBuf>, by: ProtectedBy<'_>) {
        for name in ["config", "config.worktree"] {
            self.follow_config(repository, &repository.join(name), tops, by, MAX_INCLUDES);
        }
    }

    fn follow_config(
        &mut self,
        repository: &Path,
        config: &Path,
        tops: &dyn Fn() -> Vec<PathBuf>,
        by: ProtectedBy<'_>,
        further: usize,
    ) {
        let Some(further) = further.checked_sub(1) else { return };
        for lead in self.config_refs_in(config) {
            match lead {
                GitConfigRef::Hooks(spelled) => {
                    let hooks = tops().into_iter().flat_map(|top| resolve_ref_paths(&spelled, &top, self.roots));
                    // Not a folder that contains the whole repository in which the user works.
                    for hooks in hooks.filter(|hooks| !repository.starts_with(hooks)).collect::<Vec<_>>() {
                        self.add_symlink_chain(&hooks, by);
                    }
                }
                GitConfigRef::Configuration(spelled) => {
                    for path in resolve_ref_paths(&spelled, config.parent().unwrap_or(config), self.roots) {
                        self.add_symlink_chain(&path, by);
                        self.follow_config(repository, &path, tops, by, further);
                    }
                }
            }
        }
    }

    /// Returns the paths that one configuration refers to.
    fn config_refs_in(&self, path: &Path) -> Vec<GitConfigRef> {
        match self.snapshot.get(path) {
            Some(watched) if !watched.has_symlink() => {
                watched.before().bytes().map(find_config_refs).unwrap_or_default()
            }
            _ => {
                let bytes = resolve_path(path).and_then(|way| read_file_nofollow(&way.target, MAX_CONFIG_BYTES).ok());
                bytes.map(|bytes| find_config_refs(&bytes)).unwrap_or_default()
            }
        }
    }
}

/// Returns the folder that contains a path.
pub(super) fn containing_root<'a>(path: &Path, roots: &'a [PathBuf]) -> Option<&'a PathBuf> {
    roots.iter().find(|root| path.starts_with(root) && path != *root)
}

/// Returns the paths at the tops of the writable folders that correspond to a path in this one.
pub(super) fn counterparts_in_roots(path: &Path, folder: Option<&Path>, roots: &[PathBuf]) -> Vec<PathBuf> {
    let inside = folder.and_then(|folder| path.strip_prefix(folder).ok());
    inside.map(|inside| roots.iter().map(|root| root.join(inside)).collect()).unwrap_or_default()
}
