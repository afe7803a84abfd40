//! Append-only file under a transcript: whole lines, one `write(2)` each, and the handling of failures.
//!
//! Other processes append to the file, and a crash or a full disk can leave half a line at its end. So the log keeps
//! no offset of its own: before it writes it checks that the file is as it left it, and never appends a record to a
//! torn line. A record that could not be written waits and goes first at the next chance. The file is never truncated
//! or rewritten; one that was removed is restored whole or not at all.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::TranscriptError;
use crate::disk::{Disk, LogFile, read_range};
use crate::driver_lock::{DriverLock, LockClaim};
use crate::session_labels::SessionLabels;
use crate::sync_thread::SyncTarget;

/// Maximum number of bytes from other processes that are searched for new titles and tags; lists read back only a part
/// of this.
const FOREIGN_WINDOW: u64 = 1 << 20;

/// Sees every line after it was written.
pub type LineMirror = Box<dyn FnMut(&str) + Send>;
/// Makes the copier of a transcript, from its path.
pub type MirrorFactory = Arc<dyn Fn(&Path) -> LineMirror + Send + Sync>;

pub(crate) struct TranscriptLog {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    lock_path: Option<PathBuf>,
    lock: Option<DriverLock>,
    file: Option<Arc<dyn LogFile>>,
    /// True if the session begins with this log; a file that another process began meanwhile is left alone.
    is_new: bool,
    /// Removed file, until its content is written again.
    removed: Option<Arc<dyn LogFile>>,
    /// Size at the last check or write, with a whole last line; `None` when the last write failed or nothing was read
    /// yet.
    left_at: Option<u64>,
    /// Offset before which everything has been seen.
    seen_to: u64,
    waiting: VecDeque<String>,
    /// Lines beside a conversation that has no entry yet: a file begins with an entry.
    early: Vec<String>,
    /// Bytes written beside the conversation that are not counted yet.
    uncounted: usize,
    /// First error of an outage, until it was reported.
    untold: Option<TranscriptError>,
    /// The first error of the current outage, until it is over.
    outage: Option<TranscriptError>,
    /// New names that no directory sync has covered yet.
    new_names_in: Vec<PathBuf>,
    /// Titles and tags that other processes wrote since the last check.
    foreign: SessionLabels,
    mirror: Option<LineMirror>,
}

/// Log shared by the driver of the conversation and the side writers.
#[derive(Clone)]
pub(crate) struct SharedLog {
    path: Arc<Path>,
    log: Arc<Mutex<TranscriptLog>>,
}

impl SharedLog {
    pub(crate) fn new(log: TranscriptLog) -> Self {
        Self { path: log.path.as_path().into(), log: Arc::new(Mutex::new(log)) }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, TranscriptLog> {
        lock_log(&self.log)
    }

    pub(crate) fn downgrade(&self) -> Weak<Mutex<TranscriptLog>> {
        Arc::downgrade(&self.log)
    }
}

pub(crate) fn lock_log(log: &Mutex<TranscriptLog>) -> MutexGuard<'_, TranscriptLog> {
    // A log whose holder panicked checks the file again before it writes.
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TranscriptLog {
    pub(crate) fn new(disk: Arc<dyn Disk>, path: PathBuf, lock_path: Option<PathBuf>) -> Self {
        Self {
            disk,
            path,
            lock_path,
            lock: None,
            file: None,
            is_new: false,
            removed: None,
            left_at: None,
            seen_to: 0,
            waiting: VecDeque::new(),
            early: Vec::new(),
            uncounted: 0,
            untold: None,
            outage: None,
            new_names_in: Vec::new(),
            foreign: SessionLabels::default(),
            mirror: None,
        }
    }

    /// Marks the log as that of a session that does not exist yet.
    pub(crate) fn for_new_session(self) -> Self {
        Self { is_new: true, ..self }
    }

    /// Marks everything before `length` as read already.
    pub(crate) fn set_seen_length(&mut self, length: u64) {
        self.seen_to = length;
    }

    pub(crate) fn set_mirror(&mut self, mirror: LineMirror) {
        self.mirror = Some(mirror);
    }

    pub(crate) fn disk(&self) -> Arc<dyn Disk> {
        self.disk.clone()
    }

    /// Becomes the driver now instead of with the first record.
    pub(crate) fn claim(&mut self) -> Result<(), TranscriptError> {
        let (None, Some(lock_path)) = (&self.lock, &self.lock_path) else { return Ok(()) };
        match DriverLock::claim(lock_path) {
            LockClaim::Held(lock) => self.lock = Some(lock),
            LockClaim::Busy => return Err(TranscriptError::Busy { path: self.path.clone() }),
            // If no lock file can be made, the transcript's own write reports the error, once.
            LockClaim::Unavailable => {}
        }
        Ok(())
    }

    /// Writes one line (with its line break), after those that are still waiting. Returns the number of bytes written
    /// since the last call.
    pub(crate) fn append(&mut self, line: String) -> usize {
        let length = line.len();
        self.waiting.push_back(line);
        self.write_waiting();
        for line in std::mem::take(&mut self.early) {
            self.append_side_line(line);
        }
        length + std::mem::take(&mut self.uncounted)
    }

    /// Writes a line that is no part of the conversation, once that has begun.
    pub(crate) fn append_side_line(&mut self, line: String) {
        if self.file.is_none() && self.waiting.is_empty() && self.seen_to == 0 {
            self.early.push(line);
            return;
        }
        self.uncounted += line.len();
        self.foreign.apply_line(line.trim_end().as_bytes());
        self.waiting.push_back(line);
        self.write_waiting();
    }

    /// Tries once more what could not be written.
    pub(crate) fn write_waiting(&mut self) {
        while let Some(line) = self.waiting.pop_front() {
            match self.write_line(&line) {
                Ok(()) => {
                    self.outage = None;
                    if let Some(mirror) = &mut self.mirror {
                        mirror(line.trim_end_matches('\n'));
                    }
                }
                Err(error) => {
                    self.waiting.push_front(line);
                    if self.outage.is_none() {
                        self.untold = Some(error.clone());
                        self.outage = Some(error);
                    }
                    return;
                }
            }
        }
    }

    /// Returns true if every record so far has reached the file.
    pub(crate) fn is_complete(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns the reason why records are waiting, as long as they do.
    pub(crate) fn outage(&self) -> Option<&TranscriptError> {
        self.outage.as_ref()
    }

    pub(crate) fn take_error(&mut self) -> Option<TranscriptError> {
        self.untold.take()
    }

    /// Returns the titles and tags that other processes wrote to the file since the last call.
    pub(crate) fn take_foreign_labels(&mut self) -> SessionLabels {
        std::mem::take(&mut self.foreign)
    }

    /// Checks for writes of other processes to the file, without writing.
    pub(crate) fn detect_foreign_writes(&mut self) {
        if let Some(file) = self.file.clone() {
            // If the size is unknown, the next write checks again.
            drop(self.observe_file(&*file));
        }
    }

    /// Returns the open file and the directories to sync with it.
    pub(crate) fn take_unsynced(&mut self) -> Option<SyncTarget> {
        let file = self.file.clone()?;
        Some(SyncTarget { file, dirs: std::mem::take(&mut self.new_names_in), path: self.path.clone() })
    }

    fn write_line(&mut self, line: &str) -> Result<(), TranscriptError> {
        let file = self.open_file()?;
        let fail = |path: &Path, source| TranscriptError::Append { path: path.to_owned(), source: Arc::new(source) };
        let (length, torn) = self.observe_file(&*file).map_err(|source| fail(&self.path, source))?;
        self.left_at = None;
        self.seen_to = length;
        let written = if torn { file.append(format!("\n{line}").as_bytes()) } else { file.append(line.as_bytes()) };
        let wanted = line.len() + usize::from(torn);
        match written {
            Ok(count) if count == wanted => {
                self.left_at = Some(length + count as u64);
                Ok(())
            }
            Ok(count) => {
                let text = format!("only {count} of {wanted} bytes were written");
                Err(fail(&self.path, io::Error::new(io::ErrorKind::WriteZero, text)))
            }
            Err(source) => Err(fail(&self.path, source)),
        }
    }

    /// Returns the size of the file and whether its end is torn; records what other processes wrote.
    fn observe_file(&mut self, file: &dyn LogFile) -> io::Result<(u64, bool)> {
        let length = file.size()?;
        if self.left_at == Some(length) {
            return Ok((length, false));
        }
        let start = self.seen_to.max(length.saturating_sub(FOREIGN_WINDOW)).min(length);
        if start < length {
            // Our own last line may be in this range too; the last label in the file wins, regardless of its author.
            let bytes = read_range(file, start, (length - start) as usize)?;
            self.foreign.merge_newer(SessionLabels::from_lines(&bytes));
        }
        let torn = length > 0 && read_range(file, length - 1, 1)? != b"\n";
        self.seen_to = length;
        self.left_at = (!torn).then_some(length);
        Ok((length, torn))
    }

    fn open_file(&mut self) -> Result<Arc<dyn LogFile>, TranscriptError> {
        match self.file.take() {
            Some(file) if file.is_removed().unwrap_or(false) => {
                self.removed = Some(file);
                // The lock was removed with the file; another process could become the driver.
                self.lock = None;
                self.left_at = None;
                self.seen_to = 0;
            }
            Some(file) => {
                self.file = Some(file.clone());
                return Ok(file);
            }
            None => {}
        }
        self.claim()?;
        let dir = self.path.parent().unwrap_or(Path::new("."));
        self.disk
            .create_dirs(dir)
            .map_err(|source| TranscriptError::CreateDirectory { path: dir.to_owned(), source: Arc::new(source) })?;
        if let Some(removed) = &self.removed {
            restore_removed_file(&*self.disk, &**removed, &self.path)
                .map_err(|source| TranscriptError::Append { path: self.path.clone(), source: Arc::new(source) })?;
            // Only now: until its content has a name again, this is the only place that has it.
            self.removed = None;
            self.untold = Some(TranscriptError::Removed { path: self.path.clone() });
        }
        let failed = |source| TranscriptError::Open { path: self.path.clone(), source: Arc::new(source) };
        let file = self.disk.open_append(&self.path).map_err(failed)?;
        if self.is_new && file.size().map_err(failed)? > 0 {
            // A process that resumes that session must not find it driven by one that cannot write to it.
            self.lock = None;
            return Err(TranscriptError::Exists { path: self.path.clone() });
        }
        self.is_new = false;
        self.new_names_in = dir.ancestors().take(2).map(Path::to_owned).collect();
        self.file = Some(file.clone());
        Ok(file)
    }
}

/// Writes the content of a removed file to its path again, all of it or nothing. A file that another process has begun
/// there is left alone.
fn restore_removed_file(disk: &dyn Disk, removed: &dyn LogFile, path: &Path) -> io::Result<()> {
    let draft = path.with_extension(format!("{}.draft", uuid::Uuid::new_v4().simple()));
    let placed = disk
        .open_append(&draft)
        .and_then(|file| copy_contents(removed, &*file))
        .and_then(|()| disk.publish_draft(&draft, path));
    if !matches!(placed, Ok(true)) {
        // A draft that cannot be removed only takes space: it is never read.
        drop(disk.remove_file(&draft));
    }
    placed.map(drop)
}

fn copy_contents(from: &dyn LogFile, to: &dyn LogFile) -> io::Result<()> {
    const PIECE: usize = 1 << 20;
    let mut at = 0;
    loop {
        let piece = read_range(from, at, PIECE)?;
        if piece.is_empty() {
            return to.sync_data();
        }
        at += piece.len() as u64;
        let mut left = piece.as_slice();
        while !left.is_empty() {
            match to.append(left)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                count => left = &left[count..],
            }
        }
    }
}
