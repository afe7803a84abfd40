//! Atomic replacement of a file: readers see the old content or the new, never a part. Writes a temporary file beside
//! it, syncs it as far as asked, and renames it.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// What of a replaced file survives a crash of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileDurability {
    /// The old content or the new one, whole: the content is synced before the rename.
    Content,
    /// The new content: its name is synced as well.
    ContentAndName,
}

/// Replaces a file with these bytes, or creates it; private to the user.
pub fn replace_file(target: &Path, bytes: &[u8], durability: FileDurability) -> io::Result<()> {
    let mut file = AtomicFile::create(target)?;
    file.write_all(bytes)?;
    file.sync()?;
    file.rename_into_place(durability)
}

/// Temporary file beside its target, removed unless it replaces the target.
#[derive(Debug)]
pub struct AtomicFile {
    file: File,
    target: PathBuf,
    temporary: PathBuf,
    is_placed: bool,
}

impl AtomicFile {
    /// Creates the temporary file, private to the user. A symlink at `target` would be replaced itself.
    pub fn create(target: &Path) -> io::Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
        loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let temporary = target.with_file_name(format!(".{name}.{}.{count}.tmp", std::process::id()));
            match File::options().write(true).create_new(true).mode(0o600).open(&temporary) {
                // Left behind by a process with an equal id.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                created => {
                    return Ok(Self { file: created?, target: target.to_owned(), temporary, is_placed: false });
                }
            }
        }
    }

    /// Gives the file the permissions of the one that it will replace, if there is one.
    pub fn keep_mode_of_target(&self) -> io::Result<()> {
        match self.target.metadata() {
            Ok(metadata) => self.file.set_permissions(Permissions::from_mode(metadata.permissions().mode() & 0o777)),
            Err(_) => Ok(()),
        }
    }

    /// Waits until what was written is on stable storage. Call it before the rename: an earlier content of the target
    /// is gone afterwards.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    /// Replaces the target.
    pub fn rename_into_place(mut self, durability: FileDurability) -> io::Result<()> {
        std::fs::rename(&self.temporary, &self.target)?;
        self.is_placed = true;
        match (durability, self.target.parent()) {
            (FileDurability::ContentAndName, Some(folder)) => File::open(folder)?.sync_all(),
            (FileDurability::ContentAndName | FileDurability::Content, _) => Ok(()),
        }
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if !self.is_placed {
            // The earlier failure has been reported already; a file that cannot be removed does not change it.
            drop(std::fs::remove_file(&self.temporary));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_file_is_created_private_and_replaced_whole() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("file");
        replace_file(&path, b"one", FileDurability::ContentAndName).unwrap();
        assert_eq!((std::fs::read(&path).unwrap(), mode(&path)), (b"one".to_vec(), 0o600));
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let mut file = AtomicFile::create(&path).unwrap();
        file.write_all(b"two").unwrap();
        file.keep_mode_of_target().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"one");
        file.sync().unwrap();
        file.rename_into_place(FileDurability::Content).unwrap();
        assert_eq!((std::fs::read(&path).unwrap(), mode(&path)), (b"two".to_vec(), 0o644));
        assert_eq!(temp.path().read_dir().unwrap().count(), 1);
    }

    #[test]
    fn a_replacement_that_is_given_up_leaves_nothing() {
        let temp = tempfile::tempdir().unwrap();
        std::fs::write(temp.path().join("file"), "old").unwrap();
        let mut file = AtomicFile::create(&temp.path().join("file")).unwrap();
        file.write_all(b"new").unwrap();
        drop(file);
        std::fs::create_dir(temp.path().join("folder")).unwrap();
        assert!(replace_file(&temp.path().join("folder"), b"x", FileDurability::Content).is_err());
        assert_eq!(std::fs::read(temp.path().join("file")).unwrap(), b"old");
        assert_eq!(temp.path().read_dir().unwrap().count(), 2);
    }

    #[test]
    fn a_symlink_is_replaced_itself() {
        let temp = tempfile::tempdir().unwrap();
        let (kept, link) = (temp.path().join("kept"), temp.path().join("link"));
        std::fs::write(&kept, "kept").unwrap();
        std::os::unix::fs::symlink("kept", &link).unwrap();
        replace_file(&link, b"new", FileDurability::Content).unwrap();
        assert_eq!(std::fs::read(&kept).unwrap(), b"kept");
        assert!(!link.is_symlink());
    }
}
