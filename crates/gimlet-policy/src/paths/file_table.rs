//! A file system that is a table of symlinks and files, for decisions that do not depend on this disk.

use std::collections::{BTreeMap, btree_map};
use std::path::{Path, PathBuf};

use gimlet_fs::PathStat;

use super::{DirListing, FileView, FollowedPath, ListedEntry, ListedKind, follow_symlinks};

/// Symlinks and files by their absolute paths. A path that is not in the table is taken to exist and not to be a
/// symlink, but is listed in no folder; unless the table is complete.
#[derive(Clone, Debug, Default)]
pub struct FileTable {
    /// The target of a symlink; `None` for a file.
    entries: BTreeMap<PathBuf, Option<PathBuf>>,
    complete: bool,
}

impl FileTable {
    pub fn add_link(&mut self, path: impl Into<PathBuf>, target: impl Into<PathBuf>) {
        self.entries.insert(path.into(), Some(target.into()));
    }

    pub fn add_file(&mut self, path: impl Into<PathBuf>) {
        self.entries.insert(path.into(), None);
    }

    /// Declares that nothing exists besides the table's entries.
    pub fn mark_complete(&mut self) {
        self.complete = true;
    }

    fn stat(&self, path: &Path) -> PathStat {
        match self.entries.get(path) {
            Some(Some(target)) => PathStat::Link(target.clone()),
            Some(None) | None => PathStat::Plain,
        }
    }
}

impl FileView for FileTable {
    fn follow(&self, path: &Path) -> Option<FollowedPath> {
        follow_symlinks(path, &|path| self.stat(path))
    }

    fn list(&self, folder: &Path, most: usize) -> DirListing {
        let Some(FollowedPath { real, .. }) = self.follow(folder) else { return DirListing::Unknown };
        let mut found: BTreeMap<_, ListedKind> = BTreeMap::new();
        for (path, target) in &self.entries {
            let Ok(below) = path.strip_prefix(&real) else { continue };
            let mut names = below.iter();
            let Some(name) = names.next() else { continue };
            let kind = match (names.next(), target) {
                (Some(_), _) => ListedKind::Folder,
                (None, Some(_)) => ListedKind::Link,
                (None, None) => ListedKind::Other,
            };
            match found.entry(name.to_owned()) {
                btree_map::Entry::Vacant(vacant) => drop(vacant.insert(kind)),
                btree_map::Entry::Occupied(mut known) if kind == ListedKind::Folder => drop(known.insert(kind)),
                btree_map::Entry::Occupied(_) => {}
            }
        }
        match found.len() {
            0 => DirListing::NotFound,
            length if length > most => DirListing::Unknown,
            _ => DirListing::Entries(found.into_iter().map(|(name, kind)| ListedEntry { name, kind }).collect()),
        }
    }

    fn is_complete(&self) -> bool {
        self.complete
    }

    fn find_git_trap(&self, _cwd: &Path) -> Option<PathBuf> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_what_lies_between() {
        let mut table = FileTable::default();
        table.add_file("/repo/src/a.rs");
        table.add_link("/repo/out", "/srv/out");
        table.add_link("/repo/again", "src");
        let names = |folder: &str, most: usize| match table.list(Path::new(folder), most) {
            DirListing::Entries(entries) => {
                entries.iter().map(|entry| format!("{} {:?}", entry.name.display(), entry.kind)).collect()
            }
            other => vec![format!("{other:?}")],
        };
        assert_eq!(names("/repo", 9), ["again Link", "out Link", "src Folder"]);
        assert_eq!(names("/repo/again", 9), ["a.rs Other"], "the folder itself is followed");
        assert_eq!(names("/repo/src/a.rs", 9), ["NotFound"]);
        assert_eq!(names("/repo", 2), ["Unknown"]);
    }
}
