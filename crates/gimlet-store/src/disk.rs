//! File layer under a transcript: the few system calls that decide what survives a crash.
//!
//! It is a trait so that tests can record, tear and refuse each call. Implementations add no buffering and no retries
//! of their own: one `write` here is one `write(2)` there.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use gimlet_fs::FileDurability;
use rustix::fs::{CWD, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::symlinks::refuse_symlinks;

/// Maximum size of a file that is read at once.
const SMALL_FILE_MAX_BYTES: u64 = 4 * 1024 * 1024;

/// Opens and makes the files that records go to.
pub trait Disk: Send + Sync {
    /// Makes a directory and its missing parents, for the owner only.
    fn create_dirs(&self, dir: &Path) -> io::Result<()>;
    /// Opens a file for appending and reading, for the owner only, never through a symlink.
    fn open_append(&self, path: &Path) -> io::Result<Arc<dyn LogFile>>;
    /// Renames a draft to its final name, unless a file of that name has content by now; returns true if it was
    /// renamed.
    fn publish_draft(&self, draft: &Path, path: &Path) -> io::Result<bool>;
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
}

/// Open file that is only ever appended to.
pub trait LogFile: Send + Sync {
    /// Appends by one `write(2)` at the end of the file; may write fewer bytes than passed.
    fn append(&self, bytes: &[u8]) -> io::Result<usize>;
    fn size(&self) -> io::Result<u64>;
    /// Returns true if the file was removed: data written to it is lost when it is closed.
    fn is_removed(&self) -> io::Result<bool>;
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Waits until everything appended so far is on stable storage.
    fn sync_data(&self) -> io::Result<()>;
}

/// File system of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn create_dirs(&self, dir: &Path) -> io::Result<()> {
        create_private_dirs(dir)
    }

    fn open_append(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        Ok(Arc::new(open_private(path, OpenOptions::new().read(true).append(true).create(true))?))
    }

    fn publish_draft(&self, draft: &Path, path: &Path) -> io::Result<bool> {
        match rustix::fs::renameat_with(CWD, draft, CWD, path, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(true),
            // The last ones come from file systems that cannot do both in one step.
            Err(Errno::EXIST | Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
            Err(error) => return Err(error.into()),
        }
        match path.symlink_metadata() {
            Ok(there) if !there.is_file() || there.len() > 0 => return Ok(false),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        std::fs::rename(draft, path)?;
        Ok(true)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }
}

impl LogFile for File {
    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut file = self;
        loop {
            match file.write(bytes) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn is_removed(&self) -> io::Result<bool> {
        Ok(self.metadata()?.nlink() == 0)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, buffer, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        File::sync_data(self)
    }
}

/// Makes a directory that only its owner may enter; parents that exist already are left as they are.
pub fn create_private_dirs(dir: &Path) -> io::Result<()> {
    refuse_symlinks(dir)?;
    gimlet_fs::create_private_dir_all(dir)
}

/// Opens a file that only its owner may read. Returns an error for a symlink and for anything but a regular file; the
/// mode of an older file is tightened.
pub(crate) fn open_private(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    refuse_symlinks(path)?;
    // Without NONBLOCK a pipe planted under this name would block forever.
    let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = options.mode(0o600).custom_flags(flags.bits().cast_signed()).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "not a regular file"));
    }
    if metadata.permissions().mode() & 0o7777 != 0o600 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

/// Opens a regular file for reading. Returns an error for anything else, and for symlinks: session files are never
/// reached through them.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    refuse_symlinks(path)?;
    Ok(gimlet_fs::open_regular_file(path)?)
}

/// Reads the text of a small regular file as [`open_regular`] opens it. Returns an error of the kind `FileTooLarge` for
/// a file that is not small.
pub(crate) fn read_small_file(path: &Path) -> io::Result<String> {
    refuse_symlinks(path)?;
    gimlet_fs::read_text(path, SMALL_FILE_MAX_BYTES)?.ok_or_else(|| ErrorKind::NotFound.into())
}

/// Replaces a small file, or creates it, for the owner only.
pub(crate) fn replace_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    refuse_symlinks(path)?;
    gimlet_fs::replace_file(path, bytes, FileDurability::Content)
}

/// Reads `length` bytes from `offset`, or less where the file ends.
pub(crate) fn read_range(file: &dyn LogFile, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let mut filled = 0;
    while filled < length {
        match file.read_at(&mut bytes[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_private_and_looser_ones_are_tightened() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("a/b");
        RealDisk.create_dirs(&dir).unwrap();
        assert_eq!(dir.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        let path = dir.join("loose");
        std::fs::write(&path, "x").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        RealDisk.open_append(&path).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_draft_takes_a_free_name_or_an_empty_files_and_no_other() {
        let temp = tempfile::tempdir().unwrap();
        let (draft, path) = (temp.path().join("draft"), temp.path().join("file"));
        for (there, placed) in [(None, true), (Some(""), true), (Some("theirs"), false)] {
            drop(std::fs::remove_file(&path));
            if let Some(content) = there {
                std::fs::write(&path, content).unwrap();
            }
            std::fs::write(&draft, "ours").unwrap();
            assert_eq!(RealDisk.publish_draft(&draft, &path).unwrap(), placed, "{there:?}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), if placed { "ours" } else { "theirs" });
        }
    }

    #[test]
    fn links_pipes_and_directories_are_refused() {
        let temp = tempfile::tempdir().unwrap();
        let target = temp.path().join("target");
        std::fs::write(&target, "keep").unwrap();
        let link = temp.path().join("link");
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let pipe = temp.path().join("pipe");
        rustix::fs::mknodat(CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        for path in [link, pipe, temp.path().to_owned()] {
            assert!(RealDisk.open_append(&path).is_err(), "{}", path.display());
        }
        assert_eq!(std::fs::read(&target).unwrap(), b"keep");
    }
}
