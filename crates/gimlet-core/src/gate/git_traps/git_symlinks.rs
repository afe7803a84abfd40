//! Symlinks and alternates in a git directory that would make git read files outside of it.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::read_bounded;

/// Limit on the entries of one git directory that are checked.
const MAX_ENTRIES: usize = 2048;
/// Limit on folder levels below `refs` and `logs`.
const MAX_LEVELS: usize = 6;
const MAX_ALTERNATES_BYTES: u64 = 64 * 1024;

/// Extent to which a folder of a git directory is checked.
#[derive(Clone, Copy)]
struct FolderScanDepth {
    /// Levels of folders below it.
    levels: usize,
    /// True if every entry must be checked. Deep in `refs` and `logs`, git shows only files that have the format of a
    /// reference.
    whole: bool,
}

/// Returns the extent for folders whose files read-only commands read. `hooks` is checked elsewhere; objects are not
/// walked.
fn scan_depth_for(folder: &str) -> Option<FolderScanDepth> {
    match folder {
        "objects" => Some(FolderScanDepth { levels: 0, whole: true }),
        "info" | "rebase-apply" | "rebase-merge" | "reftable" | "sequencer" => {
            Some(FolderScanDepth { levels: 1, whole: true })
        }
        "worktrees" => Some(FolderScanDepth { levels: 2, whole: true }),
        "logs" | "refs" => Some(FolderScanDepth { levels: MAX_LEVELS, whole: false }),
        _ => None,
    }
}

/// Returns the first path in a git directory that would make git read something outside of these folders.
pub(super) fn find_escaping_path(git_dir: &Path, inside: &[PathBuf]) -> Option<PathBuf> {
    let mut scan = GitDirScan { git_dir, inside, seen: 0 };
    scan.scan_git_dir().err().or_else(|| scan.find_outside_alternates())
}

struct GitDirScan<'a> {
    git_dir: &'a Path,
    inside: &'a [PathBuf],
    seen: usize,
}

impl GitDirScan<'_> {
    /// Checks the whole git directory. Folders that need not be checked completely come last, so that they do not use
    /// up the budget of the others.
    fn scan_git_dir(&mut self) -> Result<(), PathBuf> {
        let mut folders: Vec<(PathBuf, FolderScanDepth)> = Vec::new();
        for folder in self.scan_entries(self.git_dir, true)? {
            let look = folder.file_name().and_then(|name| name.to_str()).and_then(scan_depth_for);
            folders.extend(look.map(|look| (folder, look)));
        }
        let objects = self.git_dir.join("objects");
        folders.extend(["info", "pack"].map(|part| (objects.join(part), FolderScanDepth { levels: 1, whole: true })));
        folders.sort_by_key(|(_, look)| !look.whole);
        folders.iter().try_for_each(|(folder, look)| self.scan_folder(folder, *look))
    }

    /// Checks a folder and those below it. Fails with the path that leads outside or cannot be checked.
    fn scan_folder(&mut self, folder: &Path, look: FolderScanDepth) -> Result<(), PathBuf> {
        for inner in self.scan_entries(folder, look.whole)? {
            if let Some(levels) = look.levels.checked_sub(1) {
                self.scan_folder(&inner, FolderScanDepth { levels, ..look })?;
            }
        }
        Ok(())
    }

    /// Checks the entries of a folder and returns the folders among them.
    fn scan_entries(&mut self, folder: &Path, whole: bool) -> Result<Vec<PathBuf>, PathBuf> {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(Vec::new());
            }
            Err(_) => return Err(folder.to_owned()),
        };
        let mut folders = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|_| folder.to_owned())?;
            self.seen += 1;
            if self.seen > MAX_ENTRIES {
                return if whole { Err(folder.to_owned()) } else { Ok(Vec::new()) };
            }
            let kind = entry.file_type().map_err(|_| entry.path())?;
            if kind.is_symlink() && !self.is_symlink_inside(&entry.path()) {
                return Err(entry.path());
            }
            if kind.is_dir() {
                folders.push(entry.path());
            }
        }
        Ok(folders)
    }

    fn is_symlink_inside(&self, symlink: &Path) -> bool {
        let unread = ["hooks", "lfs"].map(|name| self.git_dir.join(name));
        let is_branch =
            |target: PathBuf| target.starts_with("refs") && !target.components().any(|part| part.as_os_str() == "..");
        unread.iter().any(|path| path == symlink)
            || match symlink.canonicalize() {
                Ok(target) => self.contains(&target),
                // The branch that HEAD names need not exist yet.
                Err(_) => fs::read_link(symlink).is_ok_and(is_branch),
            }
    }

    fn contains(&self, real: &Path) -> bool {
        self.inside.iter().any(|folder| real.starts_with(folder))
    }

    /// Returns the alternates file, if one of the object folders in it lies outside.
    fn find_outside_alternates(&self) -> Option<PathBuf> {
        let objects = self.git_dir.join("objects");
        let file = objects.join("info").join("alternates");
        let Ok(bytes) = read_bounded(&file, MAX_ALTERNATES_BYTES) else { return Some(file) };
        let text = String::from_utf8(bytes.unwrap_or_default());
        let stays = |line: &str| objects.join(line).canonicalize().is_ok_and(|folder| self.contains(&folder));
        let harmless =
            text.is_ok_and(|text| text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).all(stays));
        (!harmless).then_some(file)
    }
}
