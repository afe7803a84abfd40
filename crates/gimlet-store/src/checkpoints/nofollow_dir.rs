//! Opens a file's folder without following any symlink: paths of checkpoints had no symlinks when they were recorded,
//! and one that has a symlink by now leads somewhere else.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::{Errno, Result};

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

/// Opens the folder of an absolute path; also returns the file's name in it.
pub(super) fn open_parent_nofollow(path: &Path) -> Result<(OwnedFd, &OsStr)> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Err(Errno::ISDIR) };
    if !folder.is_absolute() {
        return Err(Errno::INVAL);
    }
    let mut handle = rustix::fs::openat(CWD, "/", FOLDER, Mode::empty())?;
    for step in folder.components() {
        match step {
            Component::Normal(name) => handle = rustix::fs::openat(&handle, name, FOLDER, Mode::empty())?,
            Component::RootDir => {}
            Component::Prefix(_) | Component::CurDir | Component::ParentDir => return Err(Errno::INVAL),
        }
    }
    Ok((handle, name))
}
