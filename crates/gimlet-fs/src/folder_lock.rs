//! Advisory lock of a folder, held while a file in it is read, changed and replaced.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

/// Pause between two attempts.
const POLL: Duration = Duration::from_millis(5);

/// Lock of a folder, released when it is dropped or the process ends.
#[derive(Debug)]
pub struct FolderLock {
    /// `None` where the file system has no locks.
    _folder: Option<File>,
}

impl FolderLock {
    /// Locks an existing folder. Any process that may read the folder can hold the lock, so the wait is bounded;
    /// returns an error when the time is up. Some network file systems have no locks: there it succeeds without one,
    /// and the caller's own comparison before a rename is all there is.
    pub fn acquire(folder: &Path, max_wait: Duration) -> io::Result<Self> {
        let folder = File::open(folder)?;
        let started = Instant::now();
        loop {
            match rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Self { _folder: Some(folder) }),
                Err(Errno::WOULDBLOCK | Errno::INTR) if started.elapsed() < max_wait => {
                    std::thread::park_timeout(POLL);
                }
                Err(Errno::NOLCK | Errno::OPNOTSUPP | Errno::INVAL) => return Ok(Self { _folder: None }),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holder_at_a_time_and_the_wait_ends() {
        let temp = tempfile::tempdir().unwrap();
        let first = FolderLock::acquire(temp.path(), Duration::ZERO).unwrap();
        let refused = FolderLock::acquire(temp.path(), Duration::ZERO).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
        drop(first);
        drop(FolderLock::acquire(temp.path(), Duration::ZERO).unwrap());
        assert!(FolderLock::acquire(&temp.path().join("absent"), Duration::ZERO).is_err());
    }
}
