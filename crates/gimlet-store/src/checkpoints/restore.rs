//! Restores a file by a temporary file and a rename, or by removing it. Symlinks are never followed or replaced, and of
//! folders only empty ones are removed.

use std::fs::{File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::nofollow_dir;

/// Current state of a path.
#[derive(Debug, PartialEq, Eq)]
pub enum CurrentContent {
    Absent,
    File(CurrentFile),
    /// A symlink, or something that is not a file: not to be touched.
    Link,
}

/// A file as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CurrentFile {
    pub bytes: Vec<u8>,
    /// Permission bits.
    pub mode: u32,
    /// Number of hard links. With several, the file is known by other names as well.
    pub links: u64,
}

/// Reads the current state of a path without following symlinks.
pub fn read_current_content(path: &Path) -> io::Result<CurrentContent> {
    let (folder, name) = match nofollow_dir::open_parent_nofollow(path) {
        Ok(place) => place,
        Err(Errno::NOENT) => return Ok(CurrentContent::Absent),
        Err(Errno::LOOP | Errno::NOTDIR) => return Ok(CurrentContent::Link),
        Err(error) => return Err(error.into()),
    };
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut file: File = match rustix::fs::openat(&folder, name, flags, Mode::empty()) {
        Ok(file) => file.into(),
        Err(Errno::NOENT) => return Ok(CurrentContent::Absent),
        Err(Errno::LOOP | Errno::NXIO) => return Ok(CurrentContent::Link),
        Err(error) => return Err(error.into()),
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Ok(CurrentContent::Link);
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(CurrentContent::File(CurrentFile { bytes, mode: metadata.mode() & 0o777, links: metadata.nlink() }))
}

/// Writes content into the file itself, so that it stays the same file under all its names.
pub fn overwrite_file_content(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let (folder, name) = nofollow_dir::open_parent_nofollow(path)?;
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut file: File = rustix::fs::openat(&folder, name, flags, Mode::empty())?.into();
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    file.write_all(bytes)?;
    file.set_len(bytes.len() as u64)?;
    file.set_permissions(Permissions::from_mode(mode & 0o777))?;
    file.sync_all()
}

/// Removes a folder and its parents up to `topmost`, as far as they are empty.
pub fn remove_empty_folders(deepest: &Path, topmost: &Path) {
    for folder in deepest.ancestors().take_while(|folder| folder.starts_with(topmost)) {
        let removed = nofollow_dir::open_parent_nofollow(folder)
            .and_then(|(parent, name)| rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR));
        if removed.is_err_and(|error| error != Errno::NOENT) {
            return;
        }
    }
}

/// Makes a file hold this content with these permission bits; `None` removes it.
pub fn restore_file_content(path: &Path, content: Option<(&[u8], u32)>) -> io::Result<()> {
    let Some((bytes, mode)) = content else {
        let (folder, name) = nofollow_dir::open_parent_nofollow(path)?;
        return Ok(rustix::fs::unlinkat(&folder, name, AtFlags::empty())?);
    };
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let (folder, name) = nofollow_dir::open_parent_nofollow(path)?;
    let draft = format!(".gimlet-{}.tmp", uuid::Uuid::new_v4().simple());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file: File = rustix::fs::openat(&folder, &draft, flags, Mode::from_raw_mode(0o600))?.into();
    let put = file
        .write_all(bytes)
        .and_then(|()| file.set_permissions(Permissions::from_mode(mode & 0o777)))
        .and_then(|()| file.sync_all())
        .and_then(|()| Ok(rustix::fs::renameat(&folder, &draft, &folder, name)?));
    if put.is_err() {
        // Removes the draft; the error to report is that the file was not restored.
        let _ = rustix::fs::unlinkat(&folder, &draft, AtFlags::empty());
    }
    put
}
