//! What a decision may find out about files: where a path leads and what lies in a folder. The answers come from whoever
//! asks for the decision, a disk or a table in a test, so that the decision itself stays a pure function.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::{Followed, normalise};

/// The file system as a decision sees it.
pub trait FileView {
    /// Where an absolute path leads once links are followed, `..` behind a link as the kernel takes it; `None` when nobody
    /// can say.
    fn follow(&self, path: &Path) -> Option<Followed>;

    /// What lies in a folder, the folder itself followed.
    fn list(&self, folder: &Path, most: usize) -> Listing;

    /// Whether what it lists is all there is, so that a name which is not in a folder may be taken not to be there.
    fn is_whole(&self) -> bool {
        true
    }

    /// The file by which git, started in this folder, would run programs that the repository names.
    fn git_trap(&self, cwd: &Path) -> Option<PathBuf>;
}

/// What lies in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listing {
    Entries(Vec<Listed>),
    /// There is no folder of that name.
    NoFolder,
    /// It may not be read, or there is more in it than was asked for.
    Unknown,
}

/// One name in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub name: OsString,
    pub kind: Kind,
}

/// What a name in a folder stands for, as far as links are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Folder,
    /// It may lead anywhere.
    Link,
    /// A file, or anything else that leads nowhere.
    Other,
}

/// A world without links, in which nobody has looked into a folder yet.
pub(crate) struct Unseen<'a> {
    pub(crate) cwd: &'a Path,
}

impl FileView for Unseen<'_> {
    fn follow(&self, path: &Path) -> Option<Followed> {
        Some(Followed::plain(normalise(self.cwd, path)))
    }

    fn list(&self, _folder: &Path, _most: usize) -> Listing {
        Listing::NoFolder
    }

    fn is_whole(&self) -> bool {
        false
    }

    fn git_trap(&self, _cwd: &Path) -> Option<PathBuf> {
        None
    }
}
