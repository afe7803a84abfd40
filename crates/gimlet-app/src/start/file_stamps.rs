//! Stamps of files and folders, to notice cheaply that one of them may have changed.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Stamps of files and folders; missing ones have none.
pub(super) struct FileStamps {
    stamps: Vec<(PathBuf, Option<FileStamp>)>,
}

/// What changes with the content of a file or the names in a folder.
#[derive(PartialEq, Eq)]
struct FileStamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileStamp {
    fn read(path: &Path) -> Option<Self> {
        let metadata = path.metadata().ok()?;
        Some(Self {
            inode: metadata.ino(),
            size: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}

impl FileStamps {
    /// Takes the stamps of these paths.
    pub(super) fn take(mut paths: Vec<PathBuf>) -> Self {
        paths.sort_unstable();
        paths.dedup();
        let stamped = |path: PathBuf| {
            let stamp = FileStamp::read(&path);
            (path, stamp)
        };
        Self { stamps: paths.into_iter().map(stamped).collect() }
    }

    /// Returns true if all of them are as they were.
    pub(super) fn are_unchanged(&self) -> bool {
        self.stamps.iter().all(|(path, stamp)| FileStamp::read(path) == *stamp)
    }
}
