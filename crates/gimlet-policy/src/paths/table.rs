//! A file system that is a table of links and files, for questions about a world that is not this disk's.

use std::collections::{BTreeMap, btree_map};
use std::path::{Path, PathBuf};

use super::{Entry, FileView, Followed, Kind, Listed, Listing, follow_links};

/// Links and files by their absolute paths. Whatever is not in it is taken to be there and to lead nowhere else, but lies
/// in no folder; unless the table is closed.
#[derive(Clone, Debug, Default)]
pub struct FileTable {
    /// The target of a link; `None` for a file.
    entries: BTreeMap<PathBuf, Option<PathBuf>>,
    whole: bool,
}

impl FileTable {
    pub fn add_link(&mut self, path: impl Into<PathBuf>, target: impl Into<PathBuf>) {
        self.entries.insert(path.into(), Some(target.into()));
    }

    pub fn add_file(&mut self, path: impl Into<PathBuf>) {
        self.entries.insert(path.into(), None);
    }

    /// Says that there is nothing besides what is in the table.
    pub fn close(&mut self) {
        self.whole = true;
    }

    fn look(&self, path: &Path) -> Entry {
        match self.entries.get(path) {
            Some(Some(target)) => Entry::Link(target.clone()),
            Some(None) | None => Entry::Plain,
        }
    }
}

impl FileView for FileTable {
    fn follow(&self, path: &Path) -> Option<Followed> {
        follow_links(path, &|path| self.look(path))
    }

    fn list(&self, folder: &Path, most: usize) -> Listing {
        let Some(Followed { real, .. }) = self.follow(folder) else { return Listing::Unknown };
        let mut found: BTreeMap<_, Kind> = BTreeMap::new();
        for (path, target) in &self.entries {
            let Ok(below) = path.strip_prefix(&real) else { continue };
            let mut names = below.iter();
            let Some(name) = names.next() else { continue };
            let kind = match (names.next(), target) {
                (Some(_), _) => Kind::Folder,
                (None, Some(_)) => Kind::Link,
                (None, None) => Kind::Other,
            };
            match found.entry(name.to_owned()) {
                btree_map::Entry::Vacant(vacant) => drop(vacant.insert(kind)),
                btree_map::Entry::Occupied(mut known) if kind == Kind::Folder => drop(known.insert(kind)),
                btree_map::Entry::Occupied(_) => {}
            }
        }
        match found.len() {
            0 => Listing::NoFolder,
            length if length > most => Listing::Unknown,
            _ => Listing::Entries(found.into_iter().map(|(name, kind)| Listed { name, kind }).collect()),
        }
    }

    fn is_whole(&self) -> bool {
        self.whole
    }

    fn git_trap(&self, _cwd: &Path) -> Option<PathBuf> {
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
            Listing::Entries(entries) => {
                entries.iter().map(|entry| format!("{} {:?}", entry.name.display(), entry.kind)).collect()
            }
            other => vec![format!("{other:?}")],
        };
        assert_eq!(names("/repo", 9), ["again Link", "out Link", "src Folder"]);
        assert_eq!(names("/repo/again", 9), ["a.rs Other"], "the folder itself is followed");
        assert_eq!(names("/repo/src/a.rs", 9), ["NoFolder"]);
        assert_eq!(names("/repo", 2), ["Unknown"]);
    }
}
