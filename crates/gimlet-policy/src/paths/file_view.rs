//! What a decision may find out about files: where a path leads and what lies in a folder. The answers come from whoever
//! asks for the decision, a disk or a table in a test, so that the decision itself stays a pure function.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::{FollowedPath, normalise};

/// The file system as a decision sees it.
pub trait FileView {
    /// Where an absolute path leads once links are followed, `..` behind a link as the kernel takes it; `None` when nobody
    /// can say.
    fn follow(&self, path: &Path) -> Option<FollowedPath>;

    /// What lies in a folder, the folder itself followed.
    fn list(&self, folder: &Path, most: usize) -> DirListing;

    /// Whether what it lists is all there is, so that a name which is not in a folder may be taken not to be there.
    fn is_complete(&self) -> bool {
        true
    }

    /// The file by which git, started in this folder, would run programs that the repository names.
    fn find_git_trap(&self, cwd: &Path) -> Option<PathBuf>;
}

/// What lies in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DirListing {
    Entries(Vec<ListedEntry>),
    /// There is no folder of that name.
    NotFound,
    /// It may not be read, or there is more in it than was asked for.
    Unknown,
}

/// One name in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedEntry {
    pub name: OsString,
    pub kind: ListedKind,
}

/// What a name in a folder stands for, as far as links are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListedKind {
    Folder,
    /// It may lead anywhere.
    Link,
    /// A file, or anything else that leads nowhere.
    Other,
}

/// A world without links, in which nobody has looked into a folder yet.
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
