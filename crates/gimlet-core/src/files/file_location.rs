//! A file's folder, held open, and its name in it.
//!
//! Paths must be symlink-free: the gate resolved the symlinks and judged the result. The folder is opened without
//! following any, so replacing a folder by a symlink after the judgement leads to an error, not to the file.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::{Errno, Result};

/// Flags of a handle that only serves to reach the folder's content, so that search permission is enough.
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Location of an existing or future file.
pub struct FileLocation {
    pub folder: OwnedFd,
    pub name: OsString,
}

impl FileLocation {
    /// Opens the folder of a symlink-free path. The folder must exist, the file need not.
    pub fn for_path(path: &Path) -> Result<Self> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Err(Errno::ISDIR) };
        Ok(Self { folder: open_folder(folder)?, name: name.to_owned() })
    }

    /// Opens the file itself, without blocking and without following a symlink.
    pub fn open(&self, flags: OFlags) -> Result<File> {
        let flags = flags | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&self.folder, &self.name, flags, Mode::empty()).map(File::from)
    }
}

const NO_LINKS: ResolveFlags = ResolveFlags::NO_SYMLINKS.union(ResolveFlags::NO_MAGICLINKS);

fn open_folder(folder: &Path) -> Result<OwnedFd> {
    match rustix::fs::openat2(CWD, folder, FOLDER, Mode::empty(), NO_LINKS) {
        // Older kernels lack the call, and sandboxes may forbid it.
        Err(Errno::NOSYS | Errno::PERM) => open_folder_stepwise(folder),
        result => result,
    }
}

/// Opens a folder one component at a time, none of which may be a symlink.
fn open_folder_stepwise(folder: &Path) -> Result<OwnedFd> {
    let start = if folder.is_absolute() { "/" } else { "." };
    let mut handle = rustix::fs::openat(CWD, start, FOLDER, Mode::empty())?;
    for step in folder.components() {
        if let Component::Normal(name) = step {
            handle = rustix::fs::openat(&handle, name, FOLDER | OFlags::NOFOLLOW, Mode::empty())?;
        }
    }
    Ok(handle)
}

/// Opens the regular file at a symlink-free path for reading, like [`FileLocation::open`]; with a single system call
/// if possible, for callers that open thousands of files.
pub fn open_for_reading(path: &Path) -> std::io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = match rustix::fs::openat2(CWD, path, flags, Mode::empty(), NO_LINKS) {
        Err(Errno::NOSYS | Errno::PERM) => FileLocation::for_path(path)?.open(OFlags::RDONLY)?,
        result => File::from(result?),
    };
    require_regular_file(file)
}

/// Returns the file if it is a regular one, an error otherwise.
fn require_regular_file(file: File) -> std::io::Result<File> {
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "it is no regular file")),
    }
}

/// Opens the output file of a command. The command may have replaced it by a symlink to an unreadable file, or by a
/// pipe that never ends; neither is opened.
pub fn open_output_file(file: &Path) -> std::io::Result<File> {
    let (Some(folder), Some(name)) = (file.parent(), file.file_name()) else {
        return Err(std::io::ErrorKind::InvalidInput.into());
    };
    // The system's temporary directory may be behind a symlink.
    require_regular_file(FileLocation::for_path(&folder.canonicalize()?.join(name))?.open(OFlags::RDONLY)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn folders_behind_symlinks_are_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("real/deep")).unwrap();
        symlink("real", root.join("link")).unwrap();
        for open in [open_folder, open_folder_stepwise] {
            assert!(open(&root.join("real/deep")).is_ok());
            assert!(open(&root.join("link/deep")).is_err());
            assert!(open(&root.join("link")).is_err());
            assert_eq!(open(&root.join("none")).unwrap_err(), Errno::NOENT);
        }
        assert_eq!(FileLocation::for_path(&root.join("link/deep/f")).map(drop).unwrap_err(), Errno::LOOP);
    }

    #[test]
    fn only_regular_files_that_no_link_leads_to_are_opened_to_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("real")).unwrap();
        std::fs::write(root.join("real/f"), "content").unwrap();
        symlink("real", root.join("link")).unwrap();
        symlink("f", root.join("real/g")).unwrap();
        rustix::fs::mkfifoat(CWD, root.join("pipe"), Mode::RUSR | Mode::WUSR).unwrap();
        assert_eq!(std::io::read_to_string(open_for_reading(&root.join("real/f")).unwrap()).unwrap(), "content");
        for other in ["link/f", "real/g", "pipe", "real", "none"] {
            assert!(open_for_reading(&root.join(other)).is_err(), "{other}");
        }
    }

    #[test]
    fn swapping_a_folder_for_a_symlink_never_escapes() {
        use std::sync::atomic::{AtomicBool, Ordering};
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for (name, content) in [("inside", "inside"), ("outside", "canary")] {
            std::fs::create_dir(root.join(name)).unwrap();
            std::fs::write(root.join(name).join("f"), content).unwrap();
        }
        symlink("outside", root.join("link")).unwrap();
        let done = AtomicBool::new(false);
        let (inside, link) = (root.join("inside"), root.join("link"));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let flags = rustix::fs::RenameFlags::EXCHANGE;
                    rustix::fs::renameat_with(CWD, &inside, CWD, &link, flags).unwrap();
                }
            });
            let seen = |open: fn(&Path) -> Result<OwnedFd>| {
                let place = FileLocation { folder: open(&inside).ok()?, name: "f".into() };
                std::io::read_to_string(place.open(OFlags::RDONLY).ok()?).ok()
            };
            let tries = (0..4_000).map(|n| seen(if n % 2 == 0 { open_folder } else { open_folder_stepwise }));
            let found: std::collections::BTreeSet<String> = tries.flatten().collect();
            done.store(true, Ordering::Relaxed);
            assert!(found.iter().all(|content| content == "inside"), "{found:?}");
        });
    }
}
