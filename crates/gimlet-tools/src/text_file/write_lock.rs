//! One writer per file: calls of this process wait for each other, other processes are asked by an advisory lock.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use gimlet_core::SessionServices;
use rustix::fs::FlockOperation;
use tokio::sync::OwnedMutexGuard;

use super::open::open_regular;

/// Pause between two attempts at a lock that another process holds.
const PAUSE: Duration = Duration::from_millis(5);
/// Maximum attempts: a gimlet writer holds the lock for milliseconds, and other programs' locks are ignored. The check
/// just before the rename protects the content in any case.
const LOOKS: u32 = 200;

/// Held while a file is read, changed and written.
pub(crate) struct WriteLock {
    _calls: OwnedMutexGuard<()>,
    /// Unlocked when closed.
    _processes: Option<File>,
}

/// Waits for the write lock of the file at this symlink-free path.
pub(crate) async fn acquire(services: &SessionServices, path: &Path) -> WriteLock {
    let calls = services.path_lock(path).lock_owned().await;
    WriteLock { _calls: calls, _processes: lock_against_processes(path).await }
}

async fn lock_against_processes(path: &Path) -> Option<File> {
    for _ in 0..LOOKS {
        let (file, opened) = open_regular(path).ok()?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            // A writer that renamed meanwhile left us with a lock on the file it replaced: take the new one.
            Ok(()) => {
                let current = std::fs::symlink_metadata(path).ok()?;
                if (current.dev(), current.ino()) == (opened.dev(), opened.ino()) {
                    return Some(file);
                }
            }
            Err(rustix::io::Errno::WOULDBLOCK) => tokio::time::sleep(PAUSE).await,
            Err(_) => return None,
        }
    }
    None
}
