//! The file behind a capture: created late, accessible to this user only, never overwriting an existing one.

use std::fs;
use std::io::{self, Seek, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use tokio::fs::File;
use tokio::io::AsyncWriteExt;

/// Maximum bytes that the writer may buffer; bounds memory, not the file.
const WRITE_BUFFER_BYTES: usize = 64 * 1024;

/// Maximum size up to which a file is kept whole after its command ended. Only a background command exceeds it.
const WHOLE_BYTES: u64 = 64 * 1024 * 1024;
/// Bytes kept at each end of a longer file.
const KEPT_BYTES: u64 = WHOLE_BYTES / 2;

#[derive(Debug)]
pub(super) struct SpillFile {
    path: PathBuf,
    limit: u64,
    state: SpillState,
    /// Bytes accepted for the file but not yet handed to it.
    waiting: Vec<u8>,
    /// Number of those bytes already handed to the writer.
    handed: usize,
    /// Bytes accepted for the file in all.
    accepted: u64,
    error: Option<io::Error>,
    /// Second handle of the open file, for truncating it: its name may be another file's by then.
    handle: Option<fs::File>,
}

#[derive(Debug)]
enum SpillState {
    NotNeeded,
    Needed,
    Open(File),
    /// Finished, or given up after an error.
    Closed {
        exists: bool,
    },
}

impl SpillFile {
    pub(super) fn new(path: PathBuf, limit: u64) -> Self {
        let state = SpillState::NotNeeded;
        Self { path, limit, state, waiting: Vec::new(), handed: 0, accepted: 0, error: None, handle: None }
    }

    pub(super) fn is_started(&self) -> bool {
        !matches!(self.state, SpillState::NotNeeded)
    }

    pub(super) fn raise_limit(&mut self, limit: u64) {
        // A file that was cut already has a hole where the rest would begin; it stays cut.
        if self.accepted < self.limit {
            self.limit = self.limit.max(limit);
        }
    }

    pub(super) fn start(&mut self, before: &[u8]) {
        self.state = SpillState::Needed;
        self.add(before);
    }

    pub(super) fn add(&mut self, chunk: &[u8]) {
        if matches!(self.state, SpillState::Closed { .. }) {
            return;
        }
        let room = usize::try_from(self.limit - self.accepted).unwrap_or(usize::MAX);
        let chunk = chunk.get(..room.min(chunk.len())).unwrap_or_default();
        self.waiting.extend_from_slice(chunk);
        self.accepted += chunk.len() as u64;
    }

    /// Creates the file with the pending output, if it is needed and not there yet.
    ///
    /// These are a few small blocking calls in the life of a command; blocking is the only form that cannot be
    /// interrupted between creating the file and recording it. The file is readable as soon as its name is known.
    pub(super) fn open(&mut self) {
        if !matches!(self.state, SpillState::Needed) {
            return;
        }
        self.state = match create_private_file(&self.path) {
            Ok(mut file) => match file.write_all(&std::mem::take(&mut self.waiting)) {
                Ok(()) => {
                    self.handle = file.try_clone().ok();
                    let mut file = File::from_std(file);
                    file.set_max_buf_size(WRITE_BUFFER_BYTES);
                    SpillState::Open(file)
                }
                Err(error) => self.give_up(error, true),
            },
            Err(error) => self.give_up(error, false),
        };
    }

    /// Passes all pending bytes to the writer. Cancel-safe: `write` takes bytes only when it returns their number.
    pub(super) async fn flush_pending(&mut self) {
        self.open();
        while let (SpillState::Open(file), Some(rest)) = (&mut self.state, self.waiting.get(self.handed..)) {
            if rest.is_empty() {
                break;
            }
            match file.write(rest).await {
                Ok(written) => self.handed += written,
                Err(error) => self.state = self.give_up(error, true),
            }
        }
        self.waiting.clear();
        self.handed = 0;
    }

    fn give_up(&mut self, error: io::Error, exists: bool) -> SpillState {
        self.error = Some(error);
        self.accepted = 0;
        SpillState::Closed { exists }
    }

    pub(super) async fn finish(&mut self) {
        self.flush_pending().await;
        if let SpillState::Open(file) = &mut self.state {
            self.state = match file.flush().await {
                Ok(()) => SpillState::Closed { exists: true },
                Err(error) => self.give_up(error, true),
            };
            self.truncate_if_long().await;
        }
    }

    /// Truncates a large file, so that a command that printed gigabytes does not leave them behind for as long as the
    /// session is kept.
    async fn truncate_if_long(&mut self) {
        if let Some(handle) = self.take_long_file() {
            // A file that could not be cut is whole, or at worst has its middle twice; neither is worth a word.
            if let Ok(Ok(left)) = tokio::task::spawn_blocking(move || cut_middle(&handle, KEPT_BYTES)).await {
                self.accepted = left;
            }
        }
    }

    /// Takes the file, if it is over the limit and was not truncated yet.
    fn take_long_file(&mut self) -> Option<fs::File> {
        let handle = self.handle.take();
        if self.accepted > WHOLE_BYTES { handle } else { None }
    }

    /// Returns the path if there is a file, its size, and the error if one occurred.
    pub(super) fn take_outcome(&mut self) -> (Option<PathBuf>, u64, Option<io::Error>) {
        let exists = matches!(self.state, SpillState::Open(_) | SpillState::Closed { exists: true });
        let error = self.error.take();
        let bytes = match (&error, exists) {
            (None, _) => self.accepted,
            (Some(_), true) => fs::metadata(&self.path).map_or(0, |file| file.len()),
            (Some(_), false) => 0,
        };
        (exists.then(|| self.path.clone()), if exists { bytes } else { 0 }, error)
    }
}

impl Drop for SpillFile {
    /// A session that ends drops its commands unfinished.
    fn drop(&mut self) {
        if let Some(handle) = self.take_long_file() {
            drop(cut_middle(&handle, KEPT_BYTES));
        }
    }
}

/// Removes the middle of a file, leaving `kept` bytes at each end and a note between them; returns the remaining
/// size.
fn cut_middle(mut file: &fs::File, kept: u64) -> io::Result<u64> {
    let len = file.metadata()?.len();
    let note = format!("\n[{} bytes left out]\n", len.saturating_sub(2 * kept));
    let mut to = kept + note.len() as u64;
    let mut from = len.saturating_sub(kept);
    if from <= to {
        return Ok(len);
    }
    file.write_all_at(note.as_bytes(), kept)?;
    let mut buffer = vec![0; WRITE_BUFFER_BYTES];
    while from < len {
        let read = file.read_at(&mut buffer, from)?;
        let Some(piece) = buffer.get(..read).filter(|piece| !piece.is_empty()) else { break };
        file.write_all_at(piece, to)?;
        from += read as u64;
        to += read as u64;
    }
    file.set_len(to)?;
    // The writer shares this file position; anything it still buffers follows the end.
    file.seek(io::SeekFrom::End(0))
}

fn create_private_file(path: &Path) -> io::Result<fs::File> {
    let open = || fs::OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path);
    match (open(), path.parent()) {
        (Err(error), Some(parent)) if error.kind() == io::ErrorKind::NotFound => {
            gimlet_fs::create_private_dir_all(parent)?;
            open()
        }
        (outcome, _) => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_file_keeps_both_ends_and_says_what_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let mut file = create_private_file(&path).unwrap();
        let text: String = (0..100_000).map(|number| format!("{number:07}\n")).collect();
        file.write_all(text.as_bytes()).unwrap();
        let left = cut_middle(&file, 80_000).unwrap();
        file.write_all(b"later\n").unwrap();
        let expected = format!("{}\n[640000 bytes left out]\n{}", &text[..80_000], &text[text.len() - 80_000..]);
        assert_eq!(left, expected.len() as u64);
        assert_eq!(fs::read_to_string(&path).unwrap(), expected + "later\n");
    }

    #[test]
    fn a_file_that_would_not_get_shorter_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let mut file = create_private_file(&path).unwrap();
        file.write_all(b"0123456789").unwrap();
        assert_eq!(cut_middle(&file, 5).unwrap(), 10);
        assert_eq!(cut_middle(&file, 4).unwrap(), 10);
        assert_eq!(fs::read(&path).unwrap(), b"0123456789");
    }
}
