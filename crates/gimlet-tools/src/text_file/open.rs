//! Opening a file of unknown kind: never blocks, never follows a symlink that appeared after the gate's check, and
//! returns regular files only.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use gimlet_core::files::FileLocation;
use gimlet_core::tool::ToolError;
use gimlet_proto::Env;
use rustix::fs::{AtFlags, FileType, OFlags};
use rustix::io::Errno;

/// Switch: the files belong to a Perforce workspace.
const PERFORCE: &str = "CLAUDE_CODE_PERFORCE_MODE";
const OWNER_WRITES: u32 = 0o200;

/// The largest file that is loaded whole for a change.
pub(crate) const MOST_BYTES: u64 = 1 << 30;

/// Reason why a file could not be opened. The model reads the texts.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error("{0} does not exist")]
    Missing(PathBuf),
    #[error("{0} is a directory. List it with Glob or `ls`.")]
    Directory(PathBuf),
    #[error("{}", crate::special_files::special_text(&format!("{} ({})", path.display(), kind)))]
    Special { path: PathBuf, kind: &'static str },
    #[error("{0} became a symbolic link after it was checked, so it was left alone. Try again.")]
    Link(PathBuf),
    #[error("{0} is read-only because Perforce has not opened it. Run `p4 edit {q}`, then try again.", q = quoted(.0))]
    NotOpened(PathBuf),
    #[error("{path} has {size} bytes, too much to load. Use shell tools that work on streams, such as `sed`.")]
    TooLarge { path: PathBuf, size: u64 },
    #[error("{path} could not be opened: {source}")]
    Io { path: PathBuf, source: io::Error },
}

/// Returns a path quoted as one word of a shell command.
fn quoted(path: &Path) -> String {
    gimlet_text::quote_shell_word(&path.display().to_string()).into_owned()
}

impl From<OpenError> for ToolError {
    fn from(error: OpenError) -> Self {
        ToolError::failed(error.to_string())
    }
}

impl OpenError {
    fn new(path: &Path, source: Errno) -> Self {
        match source {
            Errno::NOENT | Errno::NOTDIR => OpenError::Missing(path.to_owned()),
            Errno::LOOP => OpenError::Link(path.to_owned()),
            _ => OpenError::Io { path: path.to_owned(), source: source.into() },
        }
    }
}

/// Opens the regular file at a symlink-free path for reading.
pub(crate) fn open_regular(path: &Path) -> Result<(File, Metadata), OpenError> {
    let place = FileLocation::for_path(path).map_err(|source| OpenError::new(path, source))?;
    open_regular_at(&place, path)
}

/// Opens the regular file at a location; `path` is only for messages.
pub(crate) fn open_regular_at(place: &FileLocation, path: &Path) -> Result<(File, Metadata), OpenError> {
    // Checking first keeps devices from being opened at all; checking the open file again closes the race.
    let problem = |source| OpenError::new(path, source);
    let seen = rustix::fs::statat(&place.folder, &place.name, AtFlags::SYMLINK_NOFOLLOW).map_err(problem)?;
    check_type(path, FileType::from_raw_mode(seen.st_mode))?;
    let file = place.open(OFlags::RDONLY).map_err(problem)?;
    let metadata = file.metadata().map_err(|source| OpenError::Io { path: path.to_owned(), source })?;
    check_type(path, FileType::from_raw_mode(metadata.mode()))?;
    Ok((file, metadata))
}

fn check_type(path: &Path, kind: FileType) -> Result<(), OpenError> {
    let path = path.to_owned();
    let kind = match kind {
        FileType::RegularFile => return Ok(()),
        FileType::Directory => return Err(OpenError::Directory(path)),
        FileType::Symlink => return Err(OpenError::Link(path)),
        FileType::Fifo => "a named pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice => "a character device",
        FileType::BlockDevice => "a block device",
        _ => "not a regular file",
    };
    Err(OpenError::Special { path, kind })
}

/// A file read whole, and how it stood then.
#[derive(Debug)]
pub(crate) struct LoadedFile {
    pub(crate) bytes: Vec<u8>,
    pub(crate) metadata: Metadata,
}

/// Loads a regular file of at most this many bytes.
pub(crate) fn load(path: &Path, most: u64) -> Result<LoadedFile, OpenError> {
    let (file, metadata) = open_regular(path)?;
    let too_large = |size| OpenError::TooLarge { path: path.to_owned(), size };
    if metadata.len() > most {
        return Err(too_large(metadata.len()));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0));
    // The file may grow while it is read; the limit still applies.
    let read = file.take(most + 1).read_to_end(&mut bytes);
    read.map_err(|source| OpenError::Io { path: path.to_owned(), source })?;
    if bytes.len() as u64 > most {
        return Err(too_large(bytes.len() as u64));
    }
    Ok(LoadedFile { bytes, metadata })
}

/// Loads a regular file that is about to change, or `None` when there is nothing at the path. Under Perforce, a file
/// without the owner's write permission is one that was not opened yet; writing it would leave the server unaware.
pub(crate) fn load_for_change(path: &Path, env: &Env) -> Result<Option<LoadedFile>, OpenError> {
    let loaded = load_if_there(path)?;
    let is_closed = |loaded: &LoadedFile| loaded.metadata.mode() & OWNER_WRITES == 0;
    if env.flag(PERFORCE) && loaded.as_ref().is_some_and(is_closed) {
        return Err(OpenError::NotOpened(path.to_owned()));
    }
    Ok(loaded)
}

/// Loads a regular file, or `None` when there is nothing at the path.
pub(crate) fn load_if_there(path: &Path) -> Result<Option<LoadedFile>, OpenError> {
    load_up_to(path, MOST_BYTES)
}

/// Loads a regular file of at most this many bytes, or `None` when there is nothing at the path.
pub(crate) fn load_up_to(path: &Path, most: u64) -> Result<Option<LoadedFile>, OpenError> {
    match load(path, most) {
        Ok(loaded) => Ok(Some(loaded)),
        Err(OpenError::Missing(_)) => Ok(None),
        Err(error) => Err(error),
    }
}
