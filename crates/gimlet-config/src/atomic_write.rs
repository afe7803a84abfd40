//! Atomic replacement of a file: readers see the old content or the new, never a part. Writes a temporary file beside
//! it, syncs it and renames it. Changes are made under a lock of the folder, on the file's content at that moment.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::bounded_read::{self, FileReadError};

/// Maximum number of attempts when another process writes the file in the meantime.
const ATTEMPTS: usize = 5;
const LOCK_WAIT: Duration = Duration::from_secs(30);
const LOCK_POLL: Duration = Duration::from_millis(5);

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
    create_private_folder(&folder).map_err(written)?;
    let _lock = lock_folder(&folder).map_err(written)?;
    let read = || {
        bounded_read::read_text(&target, max_bytes)
            .map_err(|source| FileUpdateError::Read { path: path.to_owned(), source })
    };
    for _ in 0..ATTEMPTS {
        let before = read()?;
        let Some(after) = change(before.as_deref()).map_err(FileUpdateError::Change)? else { return Ok(()) };
        let temporary = AtomicTempFile::write(&target, after.as_bytes()).map_err(written)?;
        if read()? == before {
            return temporary.rename_into_place(&target, &folder).map_err(written);
        }
    }
    Err(FileUpdateError::Busy { path: path.to_owned() })
}

/// Writes a file that does not exist yet, private to the user.
pub(crate) fn create_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    create_private_folder(folder)?;
    AtomicTempFile::write(path, bytes)?.rename_into_place(path, folder)
}

pub(crate) fn create_private_folder(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Locks the folder until the returned file is dropped. Any process that may read the folder can hold the lock, so the
/// wait is bounded.
fn lock_folder(folder: &Path) -> io::Result<Option<File>> {
    let file = File::open(folder)?;
    let started = Instant::now();
    loop {
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Some(file)),
            Err(Errno::WOULDBLOCK | Errno::INTR) if started.elapsed() < LOCK_WAIT => {
                std::thread::park_timeout(LOCK_POLL);
            }
            // Some network file systems have no locks; the comparison before the rename is then all there is.
            Err(Errno::NOLCK | Errno::OPNOTSUPP | Errno::INVAL) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Temporary file beside its target, removed unless it replaces the target.
struct AtomicTempFile {
    path: PathBuf,
    placed: bool,
}

impl AtomicTempFile {
    fn write(target: &Path, bytes: &[u8]) -> io::Result<Self> {
        let mode = target.metadata().map_or(0o600, |metadata| metadata.permissions().mode() & 0o777);
        let (mut file, path) = Self::open_new(target)?;
        let temporary = Self { path, placed: false };
        file.write_all(bytes)?;
        file.set_permissions(Permissions::from_mode(mode))?;
        file.sync_all()?;
        Ok(temporary)
    }

    fn open_new(target: &Path) -> io::Result<(File, PathBuf)> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
        loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = target.with_file_name(format!(".{name}.{}.{count}.tmp", std::process::id()));
            match File::options().write(true).create_new(true).mode(0o600).open(&path) {
                // Left behind by a process with an equal id.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                created => return Ok((created?, path)),
            }
        }
    }

    fn rename_into_place(mut self, target: &Path, folder: &Path) -> io::Result<()> {
        std::fs::rename(&self.path, target)?;
        self.placed = true;
        File::open(folder)?.sync_all()
    }
}

impl Drop for AtomicTempFile {
    fn drop(&mut self) {
        if !self.placed {
            // The earlier failure has been reported already; a file that cannot be removed does not change it.
            drop(std::fs::remove_file(&self.path));
        }
    }
}
