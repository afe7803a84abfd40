//! Protection of files that mounts cannot protect: protected files that do not exist yet, symlinks, and all of them
//! where there are no mounts.
//!
//! Their state is captured before a command and restored after it, and the command's changes are moved to a folder
//! from which nothing is run. Blocking; small: only the protected paths themselves are read.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gimlet_proto::{SandboxSpec, SandboxViolation};

use super::default_spec::{protected_in_folder, protected_in_repository};
use super::dir_handle::{UnlockedFolders, may_exist};
use super::git_config_check::is_harmless;
use super::launch_plan::unreplaced_paths;
use super::probe::{SandboxLayer, SandboxSupport};
use super::protected_path::{IfImmovable, ProtectedPath, matches_any, quarantine_path};
use super::repo_scan::{RepoScanner, RepositorySet, is_repository};
use super::restore_log::{GuardSeq, RestoredPaths};
use super::snapshot_builder::{
    ProtectedBy, ProtectedSnapshot, SnapshotBuilder, containing_root, counterparts_in_roots,
};
use super::symlinks::{direct_git_target, git_link_target};

/// Maximum number of repositories that are protected by mounts; further ones are captured and restored.
const MAX_HELD: usize = 200;
/// File in a `.claude` folder that counts as the user's own without asking.
const LOCAL_SETTINGS: &str = "settings.local.json";

/// Folder that commands can also write if there are no mounts.
const SHARED_MEMORY: &str = "/dev/shm";

/// State of the protected paths before a command.
#[derive(Debug, Default)]
pub struct TamperGuard {
    snapshot: ProtectedSnapshot,
    /// Writable folders that were no repositories themselves.
    plain_folders: Vec<PathBuf>,
    /// Writable folders that are scanned for repositories again afterwards.
    roots: Vec<PathBuf>,
    /// The repositories that existed.
    repositories: RepositorySet,
    /// Target of each `.git` that is a file or symlink. Those that commands created are checked as if they were new.
    links: BTreeMap<PathBuf, Option<PathBuf>>,
    /// Folders that were closed to the user themselves.
    closed: Vec<PathBuf>,
    /// Protected files by which gimlet's own settings are changed.
    settings: Vec<PathBuf>,
    seq: GuardSeq,
}

impl TamperGuard {
    /// Captures the state of a spec's protected paths, including those of every repository. Mounts protect the
    /// existing ones; without mounts all are captured.
    pub fn capture_before(spec: &SandboxSpec, available: &SandboxSupport, census: &mut RepoScanner) -> Self {
        if spec.files_open {
            // There is nothing to guard.
            return Self::default();
        }
        let has_mounts = available.layers().contains(&SandboxLayer::Mounts);
        let shared = (!has_mounts).then(|| PathBuf::from(SHARED_MEMORY));
        let writable: Vec<PathBuf> = spec.write.iter().chain(&spec.temp_dir).chain(&shared).cloned().collect();
        let roots = unreplaced_paths(&writable);
        let mut opened = UnlockedFolders::default();
        let repositories = census.scan(&roots, &mut opened);
        let began = census.restore_log.begin_guard();
        let closed = opened.paths();
        let mut noting = SnapshotBuilder::new(&roots, &closed, has_mounts);
        let denied: HashSet<&PathBuf> = spec.deny_write.iter().collect();
        let targets = repositories.links.iter().map(|link| (link.clone(), git_link_target(link)));
        let mut links: BTreeMap<PathBuf, Option<PathBuf>> = targets.collect();
        let (mut loose, mut count) = (HashSet::new(), 0);
        for (repository, is_link) in repositories.iter_with_link_flag() {
            let is_loose =
                census.was_created_by_command(repository) && is_plain_repository(repository, is_link, &roots);
            count += usize::from(!is_loose);
            let by = match is_loose {
                true => ProtectedBy::PlainOnly { folder: containing_folder(repository) },
                false if count <= MAX_HELD => ProtectedBy::GuardMount,
                false => ProtectedBy::RestoreOnly,
            };
            let own = match is_link {
                true => Vec::from_iter((!is_loose).then(|| repository.clone())),
                false => protected_in_repository(repository),
            };
            loose.extend(is_loose.then_some(repository));
            let paths = own.into_iter().chain(protected_beside(repository));
            paths.filter(|path| !denied.contains(path)).for_each(|path| noting.add_path(&path, by));
        }
        let configured = repositories.configured.iter().map(|folder| folder.join(LOCAL_SETTINGS));
        for (count, path) in configured.filter(|path| !denied.contains(path)).enumerate() {
            noting.add_path(&path, if count < MAX_HELD { ProtectedBy::GuardMount } else { ProtectedBy::RestoreOnly });
        }
        spec.deny_write.iter().for_each(|path| noting.add_path(path, ProtectedBy::SpecMount));
        for repository in &repositories.folders {
            noting.add_config_refs(repository, &|| checkout_folders(repository, &links), ProtectedBy::GuardMount);
        }
        links.retain(|link, _| !loose.contains(link));
        let noted = noting.snapshot;
        let settings = noted.paths.iter().map(ProtectedPath::path).filter(|path| is_settings_file(path));
        let settings = settings.map(Path::to_owned).collect();
        let plain_folders = roots.iter().filter(|root| !is_repository(root)).cloned().collect();
        Self { snapshot: noted, plain_folders, roots, repositories, links, closed, settings, seq: began }
    }

    /// Returns gimlet's settings files that the command could write, or create.
    pub fn settings_files(&self) -> &[PathBuf] {
        &self.settings
    }

    /// Sets the expected text of a settings file, overriding the text captured when the command began. A file that
    /// gimlet has `rewritten` since is not the one that a mount protects.
    pub fn expect(&mut self, path: &Path, text: Option<&str>, rewritten: bool) {
        match self.snapshot.get_mut(path) {
            Some(watched) => watched.expect_text(text, rewritten),
            None if rewritten => {
                let root = containing_root(path, &self.roots);
                if let Some(watched) = root.and_then(|root| ProtectedPath::from_own_write(root, path, text)) {
                    self.snapshot.push(watched);
                }
            }
            None => {}
        }
    }

    /// Records gimlet's own, permitted change of a file, given by its real path, so that it is not attributed to a
    /// command. If the file's earlier content is not the known one, the whole change counts as a command's.
    pub fn record_own_write(&mut self, path: &Path, was: Option<&[u8]>, now: Option<&[u8]>) {
        self.snapshot.paths.iter_mut().for_each(|watched| watched.record_own_write(path, was, now));
    }

    /// Returns true if some folders could not be read, so that repositories in them are not guarded.
    pub fn is_partial(&self) -> bool {
        self.repositories.is_partial
    }

    /// Returns the protected paths that the sandbox has to mount besides those of the spec.
    pub fn paths_to_mount(&self) -> &[PathBuf] {
        &self.snapshot.mounted_paths
    }

    /// Returns the folders that the sandbox has to close besides those of the spec: their owner, for whom they are
    /// closed already, could open them.
    pub fn closed_folders(&self) -> &[PathBuf] {
        &self.closed
    }

    /// Restores what changed. The command's files are moved into `quarantine`; those that cannot be removed are
    /// reported.
    pub fn restore_after(mut self, quarantine: &Path, census: &mut RepoScanner) -> Vec<SandboxViolation> {
        self.apply_other_restores(census);
        let mut opened = UnlockedFolders::default();
        let mut now = census.scan(&self.roots, &mut opened);
        // Folders that the command closed may hide something, and stay open.
        opened.relock_only(&self.closed);
        let (mut found, mut mended) = (Vec::new(), RestoredPaths::new());
        for watched in &self.snapshot.paths {
            found.extend(watched.restore(quarantine, &mut mended));
        }
        let mut taken = Vec::new();
        for folder in self.plain_folders.iter().filter(|folder| is_repository(folder)) {
            taken.extend(quarantine_path(folder, &folder.join("HEAD"), quarantine, IfImmovable::Remove));
        }
        if !found.is_empty() || !taken.is_empty() {
            now = census.scan(&self.roots, &mut opened);
        }
        taken.extend(self.quarantine_new_repositories(&now, quarantine));
        mended.extend(taken.iter().filter_map(|taken| match taken {
            SandboxViolation::Tampered { path, .. } => Some((path.clone(), Arc::default())),
            _ => None,
        }));
        found.extend(taken);
        found.extend((now.is_partial && !self.repositories.is_partial).then_some(SandboxViolation::Unseen));
        // Paths behind a removed symlink appeared to exist to other guards.
        let touched: Vec<PathBuf> = mended.iter().map(|(path, _)| path.clone()).collect();
        let is_behind = |watched: &&ProtectedPath| touched.iter().any(|path| watched.path().starts_with(path));
        let behind = self.snapshot.paths.iter().filter(is_behind);
        mended.extend(behind.map(|watched| (watched.path().to_owned(), watched.before().clone())));
        census.restore_log.end_guard(self.seq, mended);
        census.record_created(&self.repositories, &now);
        found
    }

    /// Applies the restores that the guards of other commands made meanwhile.
    fn apply_other_restores(&mut self, census: &RepoScanner) {
        let told = census.restore_log.restores_since(&self.seq);
        self.snapshot.paths.iter_mut().for_each(|watched| watched.apply_restores(&told));
        let were_made = self.roots.iter().filter(|root| told.contains_key(&root.join("HEAD")));
        self.plain_folders.extend(were_made.cloned());
    }

    /// Quarantines the parts of new repositories that git or other programs would run; the rest of a repository may
    /// stay.
    fn quarantine_new_repositories(&self, now: &RepositorySet, quarantine: &Path) -> Vec<SandboxViolation> {
        let folders: Vec<&PathBuf> = now.folders.difference(&self.repositories.folders).collect();
        let new = folders.iter().copied().chain(now.links.difference(&self.repositories.links));
        // Captured paths are restored by now, regardless of who changed them.
        let watched: HashSet<&Path> = self.snapshot.paths.iter().map(ProtectedPath::path).collect();
        let is_known = |path: &Path, folder: Option<&Path>| {
            watched.contains(path) || matches_any(path, &counterparts_in_roots(path, folder, &self.roots))
        };
        let beside = new.flat_map(|repository| {
            let folder = containing_folder(repository);
            protected_beside(repository).into_iter().filter(move |path| !is_known(path, folder))
        });
        let configured = now.configured.difference(&self.repositories.configured);
        let configured = configured.map(|folder| folder.join(LOCAL_SETTINGS));
        let configured = configured.filter(|file| !is_known(file, file.ancestors().nth(2)));
        let risky = folders.iter().flat_map(|folder| protected_in_repository(folder)).chain(beside).chain(configured);
        let risky = risky.filter(|path| !is_harmless(path)).collect::<Vec<_>>().into_iter();
        // Only the symlink is the command's own; its target may be a real repository of the user.
        let astray = now
            .links
            .iter()
            .filter(|link| !self.points_as_before(link) && !may_keep_git_link(link, &self.roots))
            .cloned();
        let taken = risky.chain(astray).filter_map(|path| {
            quarantine_path(containing_root(&path, &self.roots)?, &path, quarantine, IfImmovable::Remove)
        });
        taken.collect()
    }

    /// Returns true if a `.git` that existed before has its earlier target, or none, regardless of changes on the
    /// path to it.
    fn points_as_before(&self, link: &Path) -> bool {
        let now = || git_link_target(link);
        self.links.get(link).is_some_and(|before| now().is_none_or(|now| before.as_ref() == Some(&now)))
    }
}

/// Returns true if a new `.git` points to a repository in a guarded folder, as those of submodules and worktrees do.
fn may_keep_git_link(link: &Path, roots: &[PathBuf]) -> bool {
    direct_git_target(link, roots).is_some_and(|target| {
        containing_root(&target, roots).is_some()
            && protected_in_repository(&target).iter().all(|path| is_harmless(path))
    })
}

/// Returns true if a repository contains nothing that other programs would run, and nothing such is beside it except
/// copies of what is at the top of a writable folder, which the user permitted; worktrees bring those along.
fn is_plain_repository(repository: &Path, is_link: bool, roots: &[PathBuf]) -> bool {
    let own = match is_link {
        true => may_keep_git_link(repository, roots),
        false => protected_in_repository(repository).iter().all(|path| is_harmless(path)),
    };
    let folder = containing_folder(repository);
    own && protected_beside(repository)
        .iter()
        .all(|path| !may_exist(path) || matches_any(path, &counterparts_in_roots(path, folder, roots)))
}

/// Returns the folders that a repository is checked out in; for a bare one only itself.
fn checkout_folders(repository: &Path, links: &BTreeMap<PathBuf, Option<PathBuf>>) -> Vec<PathBuf> {
    let worktrees = repository.join("worktrees");
    let leads_here = |target: &Path| target == repository || target.starts_with(&worktrees);
    let linked = links.iter().filter(|(_, target)| target.as_deref().is_some_and(leads_here));
    let linked = linked.filter_map(|(link, _)| link.parent());
    linked.chain(containing_folder(repository)).chain([repository]).map(Path::to_owned).collect()
}

fn is_settings_file(path: &Path) -> bool {
    path.ends_with(".claude/settings.json") || path.ends_with(".claude/settings.local.json")
}

/// Returns the folder that a `.git` belongs to.
fn containing_folder(repository: &Path) -> Option<&Path> {
    if repository.ends_with(".git") { repository.parent() } else { None }
}

/// Returns the protected paths beside a `.git`, in the folder that belongs to it.
fn protected_beside(repository: &Path) -> Vec<PathBuf> {
    containing_folder(repository).map(protected_in_folder).unwrap_or_default()
}

#[cfg(test)]
mod tests;
