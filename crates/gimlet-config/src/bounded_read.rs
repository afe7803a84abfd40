//! Reads files that others may have prepared: bounded, regular files only, never blocking, never outside the folder
//! that they should be in.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Maximum size of a settings file.
pub(crate) const SETTINGS_MAX_BYTES: u64 = 1024 * 1024;
/// Maximum size of the state file that gimlet shares with other programs; it holds histories too.
pub(crate) const STATE_MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Reason why a file was not read.
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

/// Open flags: a pipe without a writer must not block, and a terminal must not become the controlling one.
const OPEN: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Reads the bytes of a file; `None` when it does not exist.
pub(crate) fn read_file(path: &Path, max_bytes: u64) -> Result<Option<Vec<u8>>, FileReadError> {
    match rustix::fs::open(path, OPEN, Mode::empty()) {
        Ok(descriptor) => read_stable(File::from(descriptor), max_bytes).map(Some),
        // The symlink's target is missing, and with it the restrictions that it holds.
        Err(Errno::NOENT | Errno::NOTDIR) if path.symlink_metadata().is_ok() => Err(FileReadError::DanglingSymlink),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(error) => Err(FileReadError::Io(error.into())),
    }
}

/// Reads a file that may be rewritten meanwhile: retries a few times until its metadata is equal before and after.
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
    // One byte more than allowed reveals a file that grew, or whose reported size is wrong.
    file.take(max_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        return Err(FileReadError::TooLarge(max_bytes));
    }
    Ok(bytes)
}

/// Reads the text of a file; `None` when it does not exist.
pub(crate) fn read_text(path: &Path, max_bytes: u64) -> Result<Option<String>, FileReadError> {
    let Some(bytes) = read_file(path, max_bytes)? else { return Ok(None) };
    String::from_utf8(bytes).map(Some).map_err(|error| FileReadError::NotUtf8(error.utf8_error().valid_up_to()))
}

/// Reads the bytes of a file that must really be inside `folder` (a path without symlinks). Symlinks on the way may
/// point anywhere inside it. Where the kernel can, it enforces the boundary itself, so that nothing can be replaced in
/// between.
pub(crate) fn read_inside(folder: &Path, path: &Path, max_bytes: u64) -> Result<Option<Vec<u8>>, FileReadError> {
    match open_beneath(folder, path) {
        Ok(file) => read_stable(file, max_bytes).map(Some),
        // A dangling symlink is not a missing file.
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
        // Old kernels do not have the call, and some containers forbid it. Absolute symlinks may point inside too.
        Err(Errno::NOSYS | Errno::PERM | Errno::XDEV) => open_resolved(folder, path),
        Err(error) => Err(error),
    }
}

/// Resolves all symlinks first, checks that the result is inside the folder, and opens it without following another
/// symlink.
fn open_resolved(folder: &Path, path: &Path) -> Result<File, Errno> {
    let real = path.canonicalize().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    if !real.starts_with(folder) {
        return Err(Errno::XDEV);
    }
    rustix::fs::open(&real, OPEN | OFlags::NOFOLLOW, Mode::empty()).map(File::from)
}
