//! What paths really are and what lies in folders: links followed, once, for everybody.

use std::fs::DirEntry;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use gimlet_policy::{Entry, FileView, Followed, Kind, Listed, Listing, follow_links};

use super::git::git_trap_on_disk;

/// The disk as a decision sees it.
#[derive(Clone, Copy, Debug)]
pub struct OnDisk;

impl FileView for OnDisk {
    fn follow(&self, path: &Path) -> Option<Followed> {
        follow_links(path, &look)
    }

    fn list(&self, folder: &Path, most: usize) -> Listing {
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Listing::NoFolder;
            }
            Err(_) => return Listing::Unknown,
        };
        let mut found = Vec::new();
        for entry in entries {
            match entry {
                Ok(entry) if found.len() < most => found.push(listed(&entry)),
                _ => return Listing::Unknown,
            }
        }
        Listing::Entries(found)
    }

    fn git_trap(&self, cwd: &Path) -> Option<PathBuf> {
        git_trap_on_disk(cwd)
    }
}

fn listed(entry: &DirEntry) -> Listed {
    let kind = match entry.file_type() {
        Ok(kind) if kind.is_dir() => Kind::Folder,
        Ok(kind) if !kind.is_symlink() => Kind::Other,
        // What nobody can say may be a link.
        _ => Kind::Link,
    };
    Listed { name: entry.file_name(), kind }
}

fn look(path: &Path) -> Entry {
    match std::fs::read_link(path) {
        Ok(target) => Entry::Link(target),
        // It is there and is no link.
        Err(error) if error.kind() == ErrorKind::InvalidInput => Entry::Plain,
        Err(error) if error.kind() == ErrorKind::NotFound => Entry::Missing,
        Err(_) => Entry::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn real(path: &Path) -> Option<PathBuf> {
        OnDisk.follow(path).map(|followed| followed.real)
    }

    #[test]
    fn links_are_followed_for_files_that_exist_and_that_do_not() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        std::fs::create_dir(base.join("real")).unwrap();
        symlink(base.join("real"), base.join("link")).unwrap();
        assert_eq!(real(&base.join("link/new.txt")), Some(base.join("real/new.txt")));
        assert_eq!(real(&base.join("link/a/b/new.txt")), Some(base.join("real/a/b/new.txt")));
        symlink("/elsewhere/x", base.join("dangling")).unwrap();
        assert_eq!(real(&base.join("dangling")), Some(PathBuf::from("/elsewhere/x")));
        symlink("dangling", base.join("hop")).unwrap();
        assert_eq!(OnDisk.follow(&base.join("hop")).unwrap().hops, [base.join("dangling")]);
        assert_eq!(real(&base.join("hop")), Some(PathBuf::from("/elsewhere/x")));
        symlink(base.join("loop"), base.join("loop")).unwrap();
        assert_eq!(real(&base.join("loop")), None);
        assert_eq!(real(&base.join("loop/inside")), None);
    }

    #[test]
    fn folders_are_listed_with_what_is_a_link_in_them() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        std::fs::create_dir(base.join("folder")).unwrap();
        std::fs::write(base.join("file"), "").unwrap();
        symlink("folder", base.join("link")).unwrap();
        let Listing::Entries(mut found) = OnDisk.list(&base, 3) else { panic!("it can be listed") };
        found.sort_by(|a, b| a.name.cmp(&b.name));
        let kinds: Vec<Kind> = found.iter().map(|entry| entry.kind).collect();
        assert_eq!(kinds, [Kind::Other, Kind::Folder, Kind::Link]);
        assert_eq!(OnDisk.list(&base, 2), Listing::Unknown, "more than was asked for");
        assert_eq!(OnDisk.list(&base.join("link"), 9), Listing::Entries(Vec::new()), "the folder itself is followed");
        for none in ["file", "missing", "file/below"] {
            assert_eq!(OnDisk.list(&base.join(none), 9), Listing::NoFolder, "{none}");
        }
    }
}
