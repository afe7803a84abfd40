//! Finds the repositories in the folders that commands may write, at any depth.
//!
//! A repository brings configuration that git runs later, outside the sandbox. So repositories are searched before
//! and after every command. Results are cached: a folder with an unchanged time of last change has unchanged entries,
//! and that time cannot be set. Only changed folders are read again; the others cost one system call each. Blocking.

use std::collections::{BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::dir_handle::{UnlockedFolders, is_not_found_error};
use super::path_state::FileIdentity;
use super::restore_log::RestoreLog;

/// Maximum number of scanned folders, the shallow ones first.
const MAX_FOLDERS: usize = 100_000;
/// Time within which a folder that changed shortly before it was read may have changed again unnoticed, within one
/// tick of the kernel's clock.
const TICK_SECONDS: i64 = 2;
const DOT_GIT: &str = ".git";
const DOT_CLAUDE: &str = ".claude";

/// Cached state of the folders, and the log of restores in them.
#[derive(Debug)]
pub struct RepoScanner {
    folders: HashMap<PathBuf, ScannedFolder>,
    most: usize,
    pub(super) restore_log: RestoreLog,
    /// Repositories, and `.git` files or symlinks to one, that commands created.
    created: HashMap<PathBuf, FileIdentity>,
}

impl Default for RepoScanner {
    fn default() -> Self {
        Self { folders: HashMap::new(), most: MAX_FOLDERS, restore_log: RestoreLog::default(), created: HashMap::new() }
    }
}

#[derive(Debug, Clone)]
struct ScannedFolder {
    inode: u64,
    changed: (i64, i64),
    /// Seconds since the epoch.
    read_at: i64,
    folders: Vec<OsString>,
    /// True if it is a repository itself, bare or the inside of one.
    is_repository: bool,
    /// True if it has a `.git` that is not a folder but points to one.
    has_link: bool,
    /// True if it names the location of the rest of the repository.
    has_common: bool,
}

/// The existing repositories.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct RepositorySet {
    /// The folders that git calls the repository: `.git`, bare ones, those of submodules and worktrees.
    pub(super) folders: BTreeSet<PathBuf>,
    /// Each `.git` that is a file or a symlink and names the repository's location.
    pub(super) links: BTreeSet<PathBuf>,
    /// Folders named `.claude`, wherever they are: gimlet reads settings in the one of the folder that it is started
    /// in.
    pub(super) configured: BTreeSet<PathBuf>,
    /// True if there are more folders, or some that cannot be read.
    pub(super) is_partial: bool,
}

impl RepositorySet {
    /// Returns all of them, each with a flag that is true for a `.git` that points to one.
    pub(super) fn iter_with_link_flag(&self) -> impl Iterator<Item = (&PathBuf, bool)> {
        self.folders.iter().map(|folder| (folder, false)).chain(self.links.iter().map(|link| (link, true)))
    }
}

impl RepoScanner {
    /// Creates a scanner with a lower limit of folders.
    #[cfg(test)]
    pub(super) fn with_max_folders(most: usize) -> Self {
        Self { most, ..Self::default() }
    }

    /// Scans all folders below these, which are real paths. Those that are closed to the user are opened for it.
    pub(super) fn scan(&mut self, roots: &[PathBuf], opened: &mut UnlockedFolders) -> RepositorySet {
        let mut found = RepositorySet::default();
        let mut seen = HashMap::with_capacity(self.folders.len());
        let mut waiting: Vec<PathBuf> = roots.to_vec();
        // Breadth first, so that a deep folder does not use up what its neighbours need.
        while !waiting.is_empty() {
            let mut next = Vec::new();
            for path in waiting {
                if seen.contains_key(&path) {
                    continue;
                }
                if seen.len() >= self.most {
                    found.is_partial = true;
                    break;
                }
                let folder = match self.scan_folder(&path, opened) {
                    Ok(Some(folder)) => folder,
                    // Another user's folder, which commands cannot read either.
                    Ok(None) => continue,
                    Err(error) if error.kind() == io::ErrorKind::PermissionDenied => continue,
                    Err(_) => {
                        found.is_partial = true;
                        continue;
                    }
                };
                if folder.is_repository || path.file_name() == Some(OsStr::new(DOT_GIT)) {
                    found.folders.insert(path.clone());
                }
                if path.file_name() == Some(OsStr::new(DOT_CLAUDE)) {
                    found.configured.insert(path.clone());
                }
                // Git takes the configuration of a worktree from there, even if the folder is otherwise incomplete.
                let worktrees = path.parent().filter(|parent| folder.has_common && parent.ends_with("worktrees"));
                found.folders.extend(worktrees.and_then(Path::parent).map(Path::to_owned));
                if folder.has_link {
                    found.links.insert(path.join(DOT_GIT));
                }
                next.extend(folder.folders.iter().map(|name| path.join(name)));
                seen.insert(path, folder);
            }
            waiting = next;
        }
        self.folders = seen;
        found
    }

    /// Records the repositories that a command created.
    pub(super) fn record_created(&mut self, before: &RepositorySet, now: &RepositorySet) {
        self.created.retain(|path, _| now.folders.contains(path) || now.links.contains(path));
        let new = now.folders.difference(&before.folders).chain(now.links.difference(&before.links));
        self.created.extend(new.filter_map(|path| Some((path.clone(), FileIdentity::for_path(path)?))));
    }

    /// Returns true if a command created the repository.
    pub(super) fn was_created_by_command(&self, repository: &Path) -> bool {
        self.created.get(repository).is_some_and(|made| FileIdentity::for_path(repository).as_ref() == Some(made))
    }

    /// Scans one folder, from the cache if it cannot have changed. Returns `None` for symlinks and missing folders.
    fn scan_folder(&mut self, path: &Path, opened: &mut UnlockedFolders) -> io::Result<Option<ScannedFolder>> {
        let mut metadata = match fs::symlink_metadata(path) {
            Ok(metadata) if metadata.is_dir() => metadata,
            Ok(_) => return Ok(None),
            Err(error) if is_not_found_error(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        if opened.unlock_if_closed(path, &metadata) {
            metadata = fs::symlink_metadata(path)?;
        }
        let (inode, changed) = (metadata.ino(), (metadata.ctime(), metadata.ctime_nsec()));
        let is_same = |folder: &ScannedFolder| {
            folder.inode == inode && folder.changed == changed && folder.read_at - changed.0 >= TICK_SECONDS
        };
        if let Some(known) = self.folders.remove(path).filter(is_same) {
            return Ok(Some(known));
        }
        match ScannedFolder::read(path, inode, changed) {
            Err(error) if is_not_found_error(&error) => Ok(None),
            read => read.map(Some),
        }
    }
}

impl ScannedFolder {
    fn read(path: &Path, inode: u64, changed: (i64, i64)) -> io::Result<Self> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let mut folder = Self {
            inode,
            changed,
            read_at: i64::try_from(now).unwrap_or(0),
            folders: Vec::new(),
            is_repository: false,
            has_link: false,
            has_common: false,
        };
        let mut marks = RepositoryMarkers::default();
        for entry in path.read_dir()? {
            let entry = entry?;
            let name = entry.file_name();
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            marks.record_name(&name);
            match (name == DOT_GIT, is_folder) {
                (true, false) => folder.has_link = true,
                (_, true) => folder.folders.push(name),
                (false, false) => {}
            }
        }
        // Nothing is skipped, not even the inside of repositories: a skipped folder could hide something.
        folder.is_repository = marks.are_complete();
        folder.has_common = marks.common;
        Ok(folder)
    }
}

/// Markers by which git recognises a repository.
#[derive(Debug, Default)]
struct RepositoryMarkers {
    head: bool,
    objects: bool,
    refs: bool,
    common: bool,
}

impl RepositoryMarkers {
    fn record_name(&mut self, name: &OsStr) {
        match name.to_str() {
            Some("HEAD") => self.head = true,
            Some("objects") => self.objects = true,
            Some("refs") => self.refs = true,
            Some("commondir") => self.common = true,
            _ => {}
        }
    }

    fn are_complete(&self) -> bool {
        self.head && (self.common || (self.objects && self.refs))
    }
}

/// Returns true if git would recognise a folder as a repository.
pub(super) fn is_repository(folder: &Path) -> bool {
    let has = |name: &str| folder.join(name).symlink_metadata().is_ok();
    let marks =
        RepositoryMarkers { head: has("HEAD"), objects: has("objects"), refs: has("refs"), common: has("commondir") };
    marks.are_complete()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan_all(census: &mut RepoScanner, roots: &[PathBuf]) -> RepositorySet {
        census.scan(roots, &mut UnlockedFolders::default())
    }

    fn create_repository(at: &Path) {
        for folder in ["objects", "refs"] {
            fs::create_dir_all(at.join(folder)).unwrap();
        }
        fs::write(at.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    }

    #[test]
    fn repositories_are_found_at_any_depth_and_also_when_they_are_new() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let old = [".git", ".git/modules/a/b", "mirror.git", "vendor/lib/.git", "1/2/3/4/5/6/.git"];
        old.iter().for_each(|name| create_repository(&root.join(name)));
        fs::create_dir_all(root.join("node_modules/x/y")).unwrap();
        fs::create_dir_all(root.join("linked")).unwrap();
        fs::write(root.join("linked/.git"), "gitdir: ../mirror.git\n").unwrap();
        let mut census = RepoScanner::default();
        let roots = [root.clone()];
        let found = scan_all(&mut census, &roots);
        assert_eq!(found.folders, old.iter().map(|name| root.join(name)).collect());
        assert_eq!(found.links, [root.join("linked/.git")].into());
        assert_eq!(scan_all(&mut census, &roots), found);
        create_repository(&root.join("node_modules/x/y/.git"));
        create_repository(&root.join("1/2/other"));
        std::os::unix::fs::symlink("../../mirror.git", root.join("1/2/.git")).unwrap();
        let later = scan_all(&mut census, &roots);
        let new: Vec<&PathBuf> = later.folders.difference(&found.folders).collect();
        assert_eq!(new, [&root.join("1/2/other"), &root.join("node_modules/x/y/.git")]);
        assert!(later.links.contains(&root.join("1/2/.git")));
    }

    #[test]
    fn folders_that_change_places_are_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        create_repository(&root.join("a/x/.git"));
        fs::create_dir_all(root.join("b/x")).unwrap();
        let mut census = RepoScanner::default();
        // As if all of it had been read long after it was created.
        assert_eq!(scan_all(&mut census, std::slice::from_ref(&root)).folders.len(), 1);
        census.folders.values_mut().for_each(|folder| folder.read_at += 100);
        for (from, to) in [("a", "c"), ("b", "a"), ("c", "b")] {
            fs::rename(root.join(from), root.join(to)).unwrap();
        }
        assert_eq!(scan_all(&mut census, std::slice::from_ref(&root)).folders, [root.join("b/x/.git")].into());
    }

    #[test]
    fn what_did_not_change_is_not_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("a")).unwrap();
        let mut census = RepoScanner::default();
        scan_all(&mut census, std::slice::from_ref(&root));
        // Only the cache knows this folder, whose parent did not change.
        let known = census.folders.get_mut(&root).unwrap();
        known.read_at += 100;
        known.has_link = true;
        assert_eq!(scan_all(&mut census, std::slice::from_ref(&root)).links, [root.join(".git")].into());
    }
}
