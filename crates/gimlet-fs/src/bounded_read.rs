//! Reads files that others may have prepared: with a limit whose excess is an error, regular files only, never
//! blocking, never outside the folder that they should be in.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

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

impl From<FileReadError> for io::Error {
    fn from(error: FileReadError) -> Self {
        let kind = match &error {
            FileReadError::Io(_) => io::ErrorKind::Other,
            FileReadError::NotAFile(_) | FileReadError::SymlinkOutside(_) => io::ErrorKind::InvalidInput,
            FileReadError::TooLarge(_) => io::ErrorKind::FileTooLarge,
            FileReadError::DanglingSymlink => io::ErrorKind::NotFound,
            FileReadError::NotUtf8(_) => io::ErrorKind::InvalidData,
        };
        match error {
            FileReadError::Io(error) => error,
            error => Self::new(kind, error),
        }
    }
}

/// Opens a regular file for reading, following symlinks. Returns an error for anything else: a pipe would block until
/// it has a writer, and a device has no end.
pub fn open_regular_file(path: &Path) -> Result<File, FileReadError> {
    let file = File::from(rustix::fs::open(path, OPEN, Mode::empty()).map_err(io::Error::from)?);
    require_regular(&file.metadata()?)?;
    Ok(file)
}

/// Reads the bytes of a file, following symlinks; `None` when it does not exist.
pub fn read_file(path: &Path, max_bytes: u64) -> Result<Option<Vec<u8>>, FileReadError> {
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
    require_regular(&metadata)?;
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

fn require_regular(metadata: &Metadata) -> Result<(), FileReadError> {
    if metadata.is_file() {
        Ok(())
    } else if metadata.is_dir() {
        Err(FileReadError::NotAFile("a folder"))
    } else {
        Err(FileReadError::NotAFile("a pipe, a socket or a device"))
    }
}

/// Reads the text of a file, following symlinks; `None` when it does not exist.
pub fn read_text(path: &Path, max_bytes: u64) -> Result<Option<String>, FileReadError> {
    read_file(path, max_bytes)?.map(to_text).transpose()
}

fn to_text(bytes: Vec<u8>) -> Result<String, FileReadError> {
    String::from_utf8(bytes).map_err(|error| FileReadError::NotUtf8(error.utf8_error().valid_up_to()))
}

/// Reads the bytes of a file where commands may write: a symlink at the path itself is an error, as a missing file is.
pub fn read_file_nofollow(path: &Path, max_bytes: u64) -> Result<Vec<u8>, FileReadError> {
    // Checked first, since to open a device may already do something.
    let metadata = path.symlink_metadata()?;
    if metadata.is_symlink() {
        return Err(FileReadError::NotAFile("a symlink"));
    }
    require_regular(&metadata)?;
    let file = rustix::fs::open(path, OPEN | OFlags::NOFOLLOW, Mode::empty()).map_err(io::Error::from)?;
    read_once(&File::from(file), max_bytes)
}

/// Reads as [`read_file_nofollow`] does, and returns the content as text.
pub fn read_text_nofollow(path: &Path, max_bytes: u64) -> Result<String, FileReadError> {
    to_text(read_file_nofollow(path, max_bytes)?)
}

/// Reads the bytes of a file that must really be inside `folder` (a path without symlinks). Symlinks on the way may
/// point anywhere inside it. Where the kernel can, it enforces the boundary itself, so that nothing can be replaced in
/// between.
pub fn read_inside(folder: &Path, path: &Path, max_bytes: u64) -> Result<Option<Vec<u8>>, FileReadError> {
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// Creates files that must not be read, and returns the folder with them.
    fn folder_with_odd_files() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("file"), "text").unwrap();
        fs::write(at("binary"), b"te\xff").unwrap();
        File::create(at("large")).unwrap().set_len(1 << 40).unwrap();
        symlink("/dev/zero", at("endless")).unwrap();
        symlink("file", at("link")).unwrap();
        symlink("absent", at("dangling")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
        dir
    }

    #[test]
    fn nothing_but_a_small_file_is_read_without_following() {
        let dir = folder_with_odd_files();
        let at = |name: &str| dir.path().join(name);
        assert_eq!(read_text_nofollow(&at("file"), 4).unwrap(), "text");
        let too_large = io::Error::from(read_file_nofollow(&at("file"), 3).unwrap_err());
        assert_eq!(too_large.kind(), io::ErrorKind::FileTooLarge);
        for name in ["large", "endless", "link", "dangling", "pipe", ".", "absent"] {
            assert!(read_file_nofollow(&at(name), 4096).is_err(), "{name}");
        }
        assert!(matches!(read_text_nofollow(&at("binary"), 4096), Err(FileReadError::NotUtf8(2))));
    }

    #[test]
    fn symlinks_are_followed_to_small_files_only() {
        let dir = folder_with_odd_files();
        let at = |name: &str| dir.path().join(name);
        for name in ["file", "link"] {
            assert_eq!(read_text(&at(name), 4).unwrap().as_deref(), Some("text"));
            assert!(open_regular_file(&at(name)).is_ok(), "{name}");
            assert!(matches!(read_text(&at(name), 3), Err(FileReadError::TooLarge(3))), "{name}");
        }
        assert_eq!(read_text(&at("absent"), 4).unwrap(), None);
        assert!(matches!(read_text(&at("dangling"), 4), Err(FileReadError::DanglingSymlink)));
        assert!(matches!(read_file(&at("large"), 4096), Err(FileReadError::TooLarge(4096))));
        for name in ["endless", "pipe", "."] {
            assert!(matches!(read_file(&at(name), 4096), Err(FileReadError::NotAFile(_))), "{name}");
            assert!(matches!(open_regular_file(&at(name)), Err(FileReadError::NotAFile(_))), "{name}");
        }
    }

    #[test]
    fn a_file_outside_the_folder_is_not_read() {
        let dir = folder_with_odd_files();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir(root.join("inner")).unwrap();
        symlink("../file", root.join("inner/out")).unwrap();
        symlink(root.join("inner/own"), root.join("inner/absolute")).unwrap();
        fs::write(root.join("inner/own"), "own").unwrap();
        let read = |name: &str| read_inside(&root.join("inner"), &root.join("inner").join(name), 4096);
        for name in ["own", "absolute"] {
            assert_eq!(read(name).unwrap().unwrap(), b"own", "{name}");
        }
        assert!(matches!(read("out"), Err(FileReadError::SymlinkOutside(_))));
        assert_eq!(read("absent").unwrap(), None);
    }
}
