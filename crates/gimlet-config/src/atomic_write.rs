//! Replaces a file so that whoever reads it sees the old content or the new, never a part: a temporary file beside it,
//! written, forced to disk, renamed. Changes are made under a lock of the folder, on what the file says at that moment.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::bounded_read::{self, FileReadError};

/// How often a change is made again because somebody else wrote meanwhile.
const ATTEMPTS: usize = 5;
const LOCK_WAIT: Duration = Duration::from_secs(30);
const LOCK_POLL: Duration = Duration::from_millis(5);

/// Why a file was not changed.
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

/// Changes a text file: `change` gets its content (nothing when there is no file) and gives the new one, or nothing to
/// leave it as it is. New files are the person's alone. Blocks while another gimlet changes a file of that folder.
pub(crate) fn update_file<E>(
    path: &Path,
    max_bytes: u64,
    mut change: impl FnMut(Option<&str>) -> Result<Option<String>, E>,
) -> Result<(), FileUpdateError<E>> {
    let written = |source| FileUpdateError::Write { path: path.to_owned(), source };
    // A link stays a link: its target is what changes.
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

/// Writes a file that is not there yet, for the person alone.
pub(crate) fn create_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    create_private_folder(folder)?;
    AtomicTempFile::write(path, bytes)?.rename_into_place(path, folder)
}

pub(crate) fn create_private_folder(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Held until it is dropped. Anybody who may look into the folder can hold it, so nobody waits for ever.
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

/// A file beside its target, removed unless it takes the target's place.
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
                // Left behind by a process of the same number.
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
            // Whatever failed before has been said; a file that cannot be removed changes nothing about it.
            drop(std::fs::remove_file(&self.path));
        }
    }
}
