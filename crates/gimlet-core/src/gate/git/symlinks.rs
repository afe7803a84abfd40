//! Symlinks and alternates by which a git directory would have git read what lies outside of it.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::read_file;

/// Entries of one git directory that are looked at.
const MAX_ENTRIES: usize = 2048;
/// Levels of folders below `refs` and `logs`.
const MAX_LEVELS: usize = 6;
const MAX_ALTERNATES_BYTES: u64 = 64 * 1024;

/// How far a folder of a git directory is looked at.
#[derive(Clone, Copy)]
struct Look {
    /// Levels of folders below it.
    levels: usize,
    /// Whether everything has to be seen. Deep in `refs` and `logs`, git shows only what has the form of a reference.
    whole: bool,
}

/// The folders whose files read-only commands read. `hooks` is looked at where hooks are; objects are not walked.
fn look_of(folder: &str) -> Option<Look> {
    match folder {
        "objects" => Some(Look { levels: 0, whole: true }),
        "info" | "rebase-apply" | "rebase-merge" | "reftable" | "sequencer" => Some(Look { levels: 1, whole: true }),
        "worktrees" => Some(Look { levels: 2, whole: true }),
        "logs" | "refs" => Some(Look { levels: MAX_LEVELS, whole: false }),
        _ => None,
    }
}

/// The first path in a git directory by which git would read something outside of these folders.
pub(super) fn way_out(git_dir: &Path, inside: &[PathBuf]) -> Option<PathBuf> {
    let mut scan = Scan { git_dir, inside, seen: 0 };
    scan.all().err().or_else(|| scan.alternates())
}

struct Scan<'a> {
    git_dir: &'a Path,
    inside: &'a [PathBuf],
    seen: usize,
}

impl Scan<'_> {
    /// Looks at the whole git directory. What need not be seen whole comes last, so that it takes nobody's share.
    fn all(&mut self) -> Result<(), PathBuf> {
        let mut folders: Vec<(PathBuf, Look)> = Vec::new();
        for folder in self.folders_in(self.git_dir, true)? {
            let look = folder.file_name().and_then(|name| name.to_str()).and_then(look_of);
            folders.extend(look.map(|look| (folder, look)));
        }
        let objects = self.git_dir.join("objects");
        folders.extend(["info", "pack"].map(|part| (objects.join(part), Look { levels: 1, whole: true })));
        folders.sort_by_key(|(_, look)| !look.whole);
        folders.iter().try_for_each(|(folder, look)| self.descend(folder, *look))
    }

    /// Looks at a folder and those below it. Fails with the path that leads out or cannot be looked at.
    fn descend(&mut self, folder: &Path, look: Look) -> Result<(), PathBuf> {
        for inner in self.folders_in(folder, look.whole)? {
            if let Some(levels) = look.levels.checked_sub(1) {
                self.descend(&inner, Look { levels, ..look })?;
            }
        }
        Ok(())
    }

    /// Looks at the entries of a folder and returns the folders among them.
    fn folders_in(&mut self, folder: &Path, whole: bool) -> Result<Vec<PathBuf>, PathBuf> {
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
            if kind.is_symlink() && !self.stays_inside(&entry.path()) {
                return Err(entry.path());
            }
            if kind.is_dir() {
                folders.push(entry.path());
            }
        }
        Ok(folders)
    }

    fn stays_inside(&self, symlink: &Path) -> bool {
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

    /// The file of alternates, if one of the folders of objects in it lies outside.
    fn alternates(&self) -> Option<PathBuf> {
        let objects = self.git_dir.join("objects");
        let file = objects.join("info").join("alternates");
        let Ok(bytes) = read_file(&file, MAX_ALTERNATES_BYTES) else { return Some(file) };
        let text = String::from_utf8(bytes.unwrap_or_default());
        let stays = |line: &str| objects.join(line).canonicalize().is_ok_and(|folder| self.contains(&folder));
        let harmless =
            text.is_ok_and(|text| text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).all(stays));
        (!harmless).then_some(file)
    }
}
