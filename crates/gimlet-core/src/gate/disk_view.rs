//! Paths and folders as they are on disk: symlinks resolved once, for all checks.

use std::fs::DirEntry;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use gimlet_fs::PathStat;
use gimlet_policy::{DirListing, FileView, FollowedPath, ListedEntry, ListedKind, follow_symlinks};

use super::git_traps::find_git_trap;

/// The disk as a decision sees it.
#[derive(Clone, Copy, Debug)]
pub struct DiskFileView;

impl FileView for DiskFileView {
    fn follow(&self, path: &Path) -> Option<FollowedPath> {
        follow_symlinks(path, &PathStat::read)
    }

    fn list(&self, folder: &Path, most: usize) -> DirListing {
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return DirListing::NotFound;
            }
            Err(_) => return DirListing::Unknown,
        };
        let mut found = Vec::new();
        for entry in entries {
            match entry {
                Ok(entry) if found.len() < most => found.push(to_listed_entry(&entry)),
                _ => return DirListing::Unknown,
            }
        }
        DirListing::Entries(found)
    }

    fn find_git_trap(&self, cwd: &Path) -> Option<PathBuf> {
        find_git_trap(cwd)
    }
}

fn to_listed_entry(entry: &DirEntry) -> ListedEntry {
    let kind = match entry.file_type() {
        Ok(kind) if kind.is_dir() => ListedKind::Folder,
        Ok(kind) if !kind.is_symlink() => ListedKind::Other,
        // An entry of unknown type may be a symlink.
        _ => ListedKind::Link,
    };
    ListedEntry { name: entry.file_name(), kind }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn real(path: &Path) -> Option<PathBuf> {
        DiskFileView.follow(path).map(|followed| followed.real)
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
        assert_eq!(DiskFileView.follow(&base.join("hop")).unwrap().hops, [base.join("dangling")]);
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
        let DirListing::Entries(mut found) = DiskFileView.list(&base, 3) else { panic!("it can be listed") };
        found.sort_by(|a, b| a.name.cmp(&b.name));
        let kinds: Vec<ListedKind> = found.iter().map(|entry| entry.kind).collect();
        assert_eq!(kinds, [ListedKind::Other, ListedKind::Folder, ListedKind::Link]);
        assert_eq!(DiskFileView.list(&base, 2), DirListing::Unknown, "more than was asked for");
        assert_eq!(
            DiskFileView.list(&base.join("link"), 9),
            DirListing::Entries(Vec::new()),
            "the folder itself is followed"
        );
        for none in ["file", "missing", "file/below"] {
            assert_eq!(DiskFileView.list(&base.join(none), 9), DirListing::NotFound, "{none}");
        }
    }
}
