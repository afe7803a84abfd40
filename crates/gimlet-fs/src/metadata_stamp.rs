//! What tells from outside, without reading a file, that it is still the same with the same content.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Identity, size and times of a file. Equal stamps mean an unchanged file; other stamps mean that it may have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetadataStamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl MetadataStamp {
    /// Returns the stamp of the file that the path leads to; `None` if there is none.
    pub fn read(path: &Path) -> Option<Self> {
        let metadata = path.metadata().ok()?;
        Some(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}
