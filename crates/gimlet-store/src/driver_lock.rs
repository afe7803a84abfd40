//! Driver lock of a session: an advisory lock on a side file, tied to the open file description.
//!
//! The kernel releases it when the process ends in any way, so there are no stale locks. Reading a transcript and
//! appending metadata to it need no lock.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;

use crate::disk::{create_private_dirs, open_private};

/// Lock held by the one process that runs turns in a session.
#[derive(Debug)]
pub(crate) struct DriverLock {
    _file: File,
}

/// Result of trying to become the driver.
pub(crate) enum LockClaim {
    Held(DriverLock),
    /// Another process drives the session.
    Busy,
    /// The lock file cannot be made or locked here (a read-only home, for example); no other process can hold it
    /// either.
    Unavailable,
}

impl DriverLock {
    pub(crate) fn claim(path: &Path) -> LockClaim {
        let opened = path
            .parent()
            .map_or(Ok(()), create_private_dirs)
            .and_then(|()| open_private(path, OpenOptions::new().read(true).write(true).create(true).truncate(false)));
        let file = match opened {
            Ok(file) => file,
            Err(_) => return LockClaim::Unavailable,
        };
        match file.try_lock() {
            Ok(()) => LockClaim::Held(DriverLock { _file: file }),
            Err(TryLockError::WouldBlock) => LockClaim::Busy,
            Err(TryLockError::Error(_)) => LockClaim::Unavailable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_driver_at_a_time_and_the_next_after_it() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("s/driver.lock");
        let LockClaim::Held(first) = DriverLock::claim(&path) else { panic!("the lock is free") };
        assert!(matches!(DriverLock::claim(&path), LockClaim::Busy));
        drop(first);
        assert!(matches!(DriverLock::claim(&path), LockClaim::Held(_)));
    }
}
