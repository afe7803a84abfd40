//! Facts about files that a decision may query: the target of a path and the content of a folder. The caller supplies
//! them, from a disk or a table in a test, so that the decision itself stays a pure function.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::{FollowedPath, normalise};

/// The file system as a decision sees it.
pub trait FileView {
    /// Returns the target of an absolute path once symlinks are followed, with `..` after a symlink resolved as the
    /// kernel does; `None` when it cannot be resolved.
    fn follow(&self, path: &Path) -> Option<FollowedPath>;

    /// Lists a folder; a symlink to the folder is followed.
    fn list(&self, folder: &Path, most: usize) -> DirListing;

    /// Returns true if listings are complete, so that a name that is not listed does not exist.
    fn is_complete(&self) -> bool {
        true
    }

    /// Returns the file by which git, started in this folder, would run programs that the repository names.
    fn find_git_trap(&self, cwd: &Path) -> Option<PathBuf>;
}

/// Result of listing a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DirListing {
    Entries(Vec<ListedEntry>),
    /// There is no folder of that name.
    NotFound,
    /// It may not be read, or has more entries than requested.
    Unknown,
}

/// One name in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedEntry {
    pub name: OsString,
    pub kind: ListedKind,
}

/// Kind of a folder's entry, as far as symlinks are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListedKind {
    Folder,
    /// A symlink, which may lead anywhere.
    Link,
    /// A file, or anything else that is neither folder nor symlink.
    Other,
}

/// File view without symlinks, in which no folder was listed yet.
pub(crate) struct LinkFreeView<'a> {
    pub(crate) cwd: &'a Path,
}

impl FileView for LinkFreeView<'_> {
    fn follow(&self, path: &Path) -> Option<FollowedPath> {
        Some(FollowedPath::without_links(normalise(self.cwd, path)))
    }

    fn list(&self, _folder: &Path, _most: usize) -> DirListing {
        DirListing::NotFound
    }

    fn is_complete(&self) -> bool {
        false
    }

    fn find_git_trap(&self, _cwd: &Path) -> Option<PathBuf> {
        None
    }
}
