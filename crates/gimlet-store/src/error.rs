//! Errors of session records, with the path and the failed operation.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use gimlet_proto::EntryId;

/// Failure to open, write or sync a transcript. Records that were stored before are not affected by any of these.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TranscriptError {
    #[error("another process is working in this session ({}); fork the session or wait for it to end", path.display())]
    Busy { path: PathBuf },
    #[error("session {} exists already", path.display())]
    Exists { path: PathBuf },
    #[error("cannot create the session directory {}: {source}", path.display())]
    CreateDirectory { path: PathBuf, source: Arc<io::Error> },
    #[error("cannot open the transcript {}: {source}", path.display())]
    Open { path: PathBuf, source: Arc<io::Error> },
    #[error("cannot write to the transcript {}: {source}", path.display())]
    Append { path: PathBuf, source: Arc<io::Error> },
    #[error(
        "the transcript {} was removed while the session runs; it has been written again, as far as it was written",
        path.display()
    )]
    Removed { path: PathBuf },
    #[error("cannot make the transcript {} durable: {source}", path.display())]
    Sync { path: PathBuf, source: Arc<io::Error> },
}

impl TranscriptError {
    /// Returns the system's reason, when there is one: `StorageFull`, `QuotaExceeded`, `ReadOnlyFilesystem` and so on.
    pub fn io_kind(&self) -> Option<io::ErrorKind> {
        match self {
            TranscriptError::Busy { .. } | TranscriptError::Exists { .. } | TranscriptError::Removed { .. } => None,
            TranscriptError::CreateDirectory { source, .. }
            | TranscriptError::Open { source, .. }
            | TranscriptError::Append { source, .. }
            | TranscriptError::Sync { source, .. } => Some(source.kind()),
        }
    }
}

/// Failure to read a transcript at all. Damage inside a readable file is not an error, see [`crate::Damage`].
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("cannot read the transcript {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("no entry {uuid} in {}", path.display())]
    NoSuchEntry { path: PathBuf, uuid: String },
    #[error(
        "the conversation in {} takes about {} MB, and a request takes at most {} MB",
        path.display(), bytes.div_ceil(1_000_000), limit / 1_000_000
    )]
    TooLarge {
        path: PathBuf,
        /// Size of its entries in the file.
        bytes: u64,
        limit: u64,
        /// Last entry up to which it fits into any model.
        fits_up_to: Option<EntryId>,
    },
}

/// Failure to copy a session.
#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("session {} exists already", path.display())]
    Exists { path: PathBuf },
    #[error("cannot write the copy {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
}
