//! Repositories of submodules that git keeps below its own directory. History can name any of them, even when no
//! folder of the working tree does, so all of them are checked.

use std::fs::{self, DirEntry};
use std::io::ErrorKind;
use std::path::PathBuf;

use super::GitRepository;

/// Limit on the folders that are checked; more count as a trap.
const MAX_FOLDERS: usize = 1024;
/// Limit on folder levels, for names with slashes and submodules in submodules.
const MAX_LEVELS: usize = 16;

impl GitRepository {
    /// Returns the file that would make git run a program that the repository of a submodule names.
    pub(super) fn find_submodule_trap(&self) -> Option<PathBuf> {
        let mut folders = vec![(self.git_dir.join("modules"), 0)];
        let mut seen = 0;
        while let Some((folder, level)) = folders.pop() {
            let entries = match fs::read_dir(&folder) {
                Ok(entries) => entries,
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => continue,
                Err(_) => return Some(folder),
            };
            for entry in entries {
                seen += 1;
                let is_folder = entry.as_ref().ok().and_then(is_folder);
                let (Ok(entry), Some(is_folder), true) = (entry, is_folder, seen <= MAX_FOLDERS && level < MAX_LEVELS)
                else {
                    return Some(folder);
                };
                if !is_folder {
                    continue;
                }
                let inner = entry.path();
                let is_module = ["HEAD", "commondir"].iter().any(|name| inner.join(name).symlink_metadata().is_ok());
                if !is_module {
                    folders.push((inner, level + 1));
                    continue;
                }
                let trap = Self::open(&inner, inner.clone())
                    .map_or_else(|| Some(inner.clone()), |module| module.find_trap_as_submodule());
                if trap.is_some() {
                    return trap;
                }
                folders.push((inner.join("modules"), level + 1));
            }
        }
        None
    }

    /// Returns the trap in a submodule's repository. The location of its working tree does not matter: git enters it
    /// through the folder, which is checked separately if it exists.
    fn find_trap_as_submodule(&self) -> Option<PathBuf> {
        if !self.common_dir.starts_with(&self.git_dir) {
            return Some(self.git_dir.join("commondir"));
        }
        self.read_config().err().or_else(|| self.find_git_dir_trap())
    }
}

/// Returns true if an entry is a folder; `None` for an entry that may lead elsewhere.
fn is_folder(entry: &DirEntry) -> Option<bool> {
    let kind = entry.file_type().ok().filter(|kind| !kind.is_symlink())?;
    Some(kind.is_dir())
}
