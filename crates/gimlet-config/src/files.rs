//! Reading files that others may have prepared: bounded, regular files only, never waiting, never led out of the
//! folder that they should be in.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// No settings file is read beyond this.
pub(crate) const SETTINGS_MAX_BYTES: u64 = 1024 * 1024;
/// The state file that gimlet shares with other programs holds histories too.
pub(crate) const STATE_MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Why a file was not read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
    #[error("it is {0}, not a file")]
    NotAFile(&'static str),
    #[error("it is larger than {} KiB", .0 / 1024)]
    TooLarge(u64),
    #[error("it is a link that leads out of the folder, to {}", .0.display())]
    LeadsOut(PathBuf),
    #[error("it is not text: byte {0} is not UTF-8")]
    NotUtf8(usize),
}

/// The bytes of a file; nothing when there is none.
pub(crate) fn read(path: &Path, max_bytes: u64) -> Result<Option<Vec<u8>>, ReadError> {
    // A pipe without a writer must not hold anybody up.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(descriptor) => File::from(descriptor),
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => return Ok(None),
        Err(error) => return Err(ReadError::Io(error.into())),
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(ReadError::NotAFile(if metadata.is_dir() { "a folder" } else { "a special file" }));
    }
    if metadata.len() > max_bytes {
        return Err(ReadError::TooLarge(max_bytes));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0));
    // One byte more than allowed shows a file that grew, or that lies about its size.
    file.take(max_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        return Err(ReadError::TooLarge(max_bytes));
    }
    Ok(Some(bytes))
}

/// The text of a file; nothing when there is none.
pub(crate) fn read_text(path: &Path, max_bytes: u64) -> Result<Option<String>, ReadError> {
    let Some(bytes) = read(path, max_bytes)? else { return Ok(None) };
    String::from_utf8(bytes).map(Some).map_err(|error| ReadError::NotUtf8(error.utf8_error().valid_up_to()))
}

/// The bytes of a file that must really lie inside `folder` (a path without links).
pub(crate) fn read_inside(folder: &Path, path: &Path, max_bytes: u64) -> Result<Option<Vec<u8>>, ReadError> {
    let real = match path.canonicalize() {
        Ok(real) => real,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            // A link that leads nowhere is something else than no file.
            return match path.symlink_metadata() {
                Ok(_) => Err(ReadError::Io(error)),
                Err(_) => Ok(None),
            };
        }
        Err(error) => return Err(ReadError::Io(error)),
    };
    if !real.starts_with(folder) {
        return Err(ReadError::LeadsOut(real));
    }
    read(&real, max_bytes)
}
