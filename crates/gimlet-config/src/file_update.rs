//! Changes of a text file that several processes may change: under a lock of the folder, on the file's content at that
//! moment, and by atomic replacement.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use gimlet_fs::{AtomicFile, FileDurability, FileReadError, FolderLock, create_private_dir_all, read_text};

/// Maximum number of attempts when another process writes the file in the meantime.
const ATTEMPTS: usize = 5;
const LOCK_WAIT: Duration = Duration::from_secs(30);

/// Reason why a file was not changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileUpdateError<E> {
    #[error("{}: {source}", path.display())]
    Read { path: PathBuf, source: FileReadError },
    #[error("{} cannot be written: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("{} is being rewritten by another program", path.display())]
    Busy { path: PathBuf },
    #[error("{0}")]
    Change(E),
}

/// Changes a text file: `change` receives its content (`None` when there is no file) and returns the new one, or
/// `None` to leave the file as it is. New files are private to the user. Blocks while another gimlet changes a file of
/// that folder.
pub(crate) fn update_file<E>(
    path: &Path,
    max_bytes: u64,
    mut change: impl FnMut(Option<&str>) -> Result<Option<String>, E>,
) -> Result<(), FileUpdateError<E>> {
    let written = |source| FileUpdateError::Write { path: path.to_owned(), source };
    // A symlink stays a symlink: its target is changed.
    let target = match path.canonicalize() {
        Ok(target) => target,
        Err(error) if error.kind() == io::ErrorKind::NotFound && path.symlink_metadata().is_err() => path.to_owned(),
        Err(source) => return Err(written(source)),
    };
    let folder = target.parent().unwrap_or(Path::new("/")).to_owned();
    create_private_dir_all(&folder).map_err(written)?;
    let _lock = FolderLock::acquire(&folder, LOCK_WAIT).map_err(written)?;
    let read =
        || read_text(&target, max_bytes).map_err(|source| FileUpdateError::Read { path: path.to_owned(), source });
    for _ in 0..ATTEMPTS {
        let before = read()?;
        let Some(after) = change(before.as_deref()).map_err(FileUpdateError::Change)? else { return Ok(()) };
        let file = write_beside(&target, after.as_bytes()).map_err(written)?;
        if read()? == before {
            return file.rename_into_place(FileDurability::ContentAndName).map_err(written);
        }
    }
    Err(FileUpdateError::Busy { path: path.to_owned() })
}

/// Writes the new content of a file, synced and with the mode of the old one.
fn write_beside(target: &Path, bytes: &[u8]) -> io::Result<AtomicFile> {
    let mut file = AtomicFile::create(target)?;
    file.write_all(bytes)?;
    file.keep_mode_of_target()?;
    file.sync()?;
    Ok(file)
}
