//! Reading of small files where commands may write: follows no symlink, never waits, and reads no more than a file of
//! its kind can contain. Blocking, but never for long.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// Maximum bytes read from a file that contains one path.
pub(super) const PATH_FILE: u64 = 4 * 1024;

/// Opening must not block on a pipe or on a file with a lease, and must not acquire a controlling terminal.
const OPEN: OFlags =
    OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::NOFOLLOW);

/// Returns the bytes of a regular file that has at most this many.
pub(super) fn read_bounded(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    // Asked first, since to open a device may already do something.
    let is_file = std::fs::symlink_metadata(path)?.is_file();
    let file = is_file.then(|| rustix::fs::open(path, OPEN, Mode::empty())).transpose()?.map(File::from);
    let file = file.ok_or(io::ErrorKind::Unsupported)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len().min(most)).unwrap_or(0));
    // One byte more shows a file that grew.
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes) }
}

/// Reads as [`read_bounded`] does, and returns the content as text.
pub(super) fn read_bounded_text(path: &Path, most: u64) -> io::Result<String> {
    String::from_utf8(read_bounded(path, most)?).map_err(|_| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn nothing_but_a_small_file_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("file"), "text").unwrap();
        assert_eq!(read_bounded_text(&at("file"), 4).unwrap(), "text");
        assert_eq!(read_bounded(&at("file"), 3).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        File::create(at("large")).unwrap().set_len(1 << 40).unwrap();
        std::os::unix::fs::symlink("/dev/zero", at("endless")).unwrap();
        std::os::unix::fs::symlink("file", at("link")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
        for name in ["large", "endless", "link", "pipe", ".", "absent"] {
            assert!(read_bounded(&at(name), PATH_FILE).is_err(), "{name}");
        }
    }
}
