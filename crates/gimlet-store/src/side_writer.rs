//! Writer of session records beside the conversation, for callers that do not hold the transcript.
//!
//! A running turn holds the transcript, and a prompt that arrives meanwhile must still be written to disk. So both
//! write to one log, line by line. This writer does not keep the log alive: a session that has ended writes nothing
//! more.

use std::sync::{Mutex, Weak};

use gimlet_proto::{EntryId, SessionId};

use crate::checkpoints::FileBackup;
use crate::entry_format;
use crate::transcript_log::{SharedLog, TranscriptLog};

/// Change to the queue of prompts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueChange<'a> {
    /// A prompt was added.
    Enqueued(&'a str),
    /// The first prompt left the queue.
    Dequeued,
    /// A prompt inside the queue was removed.
    Removed(&'a str),
}

/// Writer of such lines.
#[derive(Clone, Debug)]
pub struct SideWriter {
    log: Weak<Mutex<TranscriptLog>>,
    session: SessionId,
}

impl SideWriter {
    pub(crate) fn new(log: Option<&SharedLog>, session: SessionId) -> Self {
        Self { log: log.map(SharedLog::downgrade).unwrap_or_default(), session }
    }

    /// Records a change in the line of prompts that wait.
    pub fn record_queue_change(&self, change: QueueChange<'_>) {
        let (operation, content) = match change {
            QueueChange::Enqueued(text) => ("enqueue", Some(text)),
            QueueChange::Dequeued => ("dequeue", None),
            QueueChange::Removed(text) => ("remove", Some(text)),
        };
        self.append_line(|| entry_format::render_queue_operation(operation, content, self.session.as_str()));
    }

    /// Records a generated title: one that the user sets has precedence.
    pub fn record_title(&self, title: &str) {
        self.append_line(|| entry_format::render_metadata("ai-title", "aiTitle", title, self.session.as_str()));
    }

    /// Records the title that the user sets.
    pub fn record_user_title(&self, title: &str) {
        self.append_line(|| entry_format::render_metadata("custom-title", "customTitle", title, self.session.as_str()));
    }

    /// Records the backups of files that were changed since a prompt, in the form that other programs read.
    pub(crate) fn record_file_history(&self, prompt: &EntryId, backups: &[FileBackup<'_>], update: bool) {
        self.append_line(|| entry_format::render_file_history(prompt.as_str(), backups, update));
    }

    fn append_line(&self, line: impl FnOnce() -> String) {
        if let Some(log) = self.log.upgrade() {
            crate::transcript_log::lock_log(&log).append_side_line(line());
        }
    }
}
