//! Reading files that others may have prepared: bounded, regular files only, never waiting, never led out of the
//! folder that they should be in.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// No settings file is read beyond this.
pub(crate) const SETTINGS_MAX_BYTES: u64 = 1024 * 1024;
/// The state file that gimlet shares with other programs holds histories too.
pub(crate) const STATE_MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Why a file was not read.
#[derive(Debug, thiserror::Error)]
pub enum FileReadError {
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
    #[error("it is {0}, not a file")]
    NotAFile(&'static str),
    #[error("it is larger than {} KiB", .0 / 1024)]
    TooLarge(u64),
    #[error("it is a link that leads out of the folder, to {}", .0.display())]
    SymlinkOutside(PathBuf),
    #[error("it is a link that leads nowhere")]
    DanglingSymlink,
    #[error("it is not text: byte {0} is not UTF-8")]
    NotUtf8(usize),
}

/// A pipe without a writer must not hold anybody up, and a terminal must not become ours.
const OPEN: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// The bytes of a file; nothing when there is none.
pub(crate) fn read_file(path: &Path, max_bytes: u64) -> Result<Option<Vec<u8>>, FileReadError> {
    match rustix::fs::open(path, OPEN, Mode::empty()) {
        Ok(descriptor) => read_stable(File::from(descriptor), max_bytes).map(Some),
        // What the person linked to is missed, and what it forbids with it.
        Err(Errno::NOENT | Errno::NOTDIR) if path.symlink_metadata().is_ok() => Err(FileReadError::DanglingSymlink),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(error) => Err(FileReadError::Io(error.into())),
    }
}

/// Reads a file that may be rewritten meanwhile: until it looks the same before and after, a few times at most.
fn read_stable(mut file: File, max_bytes: u64) -> Result<Vec<u8>, FileReadError> {
    const ATTEMPTS: usize = 4;
    let look = |file: &File| file.metadata().map(|now| (now.len(), now.mtime(), now.mtime_nsec()));
    for _ in 1..ATTEMPTS {
        let before = look(&file)?;
        let bytes = read_once(&file, max_bytes)?;
        if look(&file)? == before {
            return Ok(bytes);
        }
        file.rewind()?;
    }
    read_once(&file, max_bytes)
}

fn read_once(file: &File, max_bytes: u64) -> Result<Vec<u8>, FileReadError> {
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(FileReadError::NotAFile(if metadata.is_dir() {
            "a folder"
        } else {
            "a pipe, a socket or a device"
        }));
    }
    if metadata.len() > max_bytes {
        return Err(FileReadError::TooLarge(max_bytes));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0));
    // One byte more than allowed shows a file that grew, or that lies about its size.
    file.take(max_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        return Err(FileReadError::TooLarge(max_bytes));
    }
    Ok(bytes)
}

/// The text of a file; nothing when there is none.
pub(crate) fn read_text(path: &Path, max_bytes: u64) -> Result<Option<String>, FileReadError> {
    let Some(bytes) = read_file(path, max_bytes)? else { return Ok(None) };
    String::from_utf8(bytes).map(Some).map_err(|error| FileReadError::NotUtf8(error.utf8_error().valid_up_to()))
}

/// The bytes of a file that must really lie inside `folder` (a path without links). Links on the way may lead anywhere
/// inside it. Where the kernel can, it holds the border itself, so that nothing can be exchanged in between.
pub(crate) fn read_inside(folder: &Path, path: &Path, max_bytes: u64) -> Result<Option<Vec<u8>>, FileReadError> {
    match open_beneath(folder, path) {
        Ok(file) => read_stable(file, max_bytes).map(Some),
        // A link that leads nowhere is something else than no file.
        Err(Errno::NOENT | Errno::NOTDIR) if path.symlink_metadata().is_ok() => Err(FileReadError::DanglingSymlink),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(Errno::XDEV) => Err(FileReadError::SymlinkOutside(path.canonicalize().unwrap_or_else(|_| path.to_owned()))),
        Err(error) => Err(FileReadError::Io(error.into())),
    }
}

fn open_beneath(folder: &Path, path: &Path) -> Result<File, Errno> {
    use rustix::fs::ResolveFlags;
    let inside = path.strip_prefix(folder).map_err(|_| Errno::XDEV)?;
    let top = rustix::fs::open(folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let border = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(top, inside, OPEN, Mode::empty(), border) {
        Ok(descriptor) => Ok(File::from(descriptor)),
        // Old kernels do not have the call, and some containers forbid it. Absolute links may lead inside too.
        Err(Errno::NOSYS | Errno::PERM | Errno::XDEV) => open_resolved(folder, path),
        Err(error) => Err(error),
    }
}

/// Resolves every link first, looks where that is, and opens it without following a further one.
fn open_resolved(folder: &Path, path: &Path) -> Result<File, Errno> {
    let real = path.canonicalize().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    if !real.starts_with(folder) {
        return Err(Errno::XDEV);
    }
    rustix::fs::open(&real, OPEN | OFlags::NOFOLLOW, Mode::empty()).map(File::from)
}
