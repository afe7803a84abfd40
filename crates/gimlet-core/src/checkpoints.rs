//! File checkpoints: files as they were before the session changed them.
//!
//! Tools that change files record a file's state before its first change after a prompt; the store keeps it. A rewind
//! to a prompt restores every such file and leaves the conversation unchanged. Symlinks are never followed or
//! replaced, folders never removed, and a file that cannot be stored is changed nevertheless, with a warning to the
//! user.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gimlet_proto::{AgentPath, EntryId, EventBody, Notice, NoticeLevel, RewindOutcome};
use gimlet_store::{
    CurrentContent, KeptFile, PriorContent, SessionCheckpoints, read_current_content, restore_file_content,
};
use similar::{Algorithm, DiffTag, capture_diff_slices_deadline};

use crate::services::SessionServices;

/// Time limit for counting the changed lines of one file exactly.
const COUNTING: Duration = Duration::from_millis(200);

/// Checkpoints of a running session.
pub(crate) struct FileCheckpoints {
    kept: Mutex<SessionCheckpoints>,
}

impl FileCheckpoints {
    pub(crate) fn new(kept: SessionCheckpoints) -> Self {
        Self { kept: Mutex::new(kept) }
    }

    fn lock(&self) -> MutexGuard<'_, SessionCheckpoints> {
        // After a poisoned lock the journal at worst lacks its last line.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionServices {
    /// Starts a checkpoint at a prompt, to which files can be rewound.
    pub(crate) fn begin_checkpoint(&self, prompt: &EntryId) {
        let Some(checkpoints) = self.checkpoints() else { return };
        if let Err(error) = checkpoints.lock().begin_prompt(prompt) {
            self.warn(format!("files cannot be brought back to this prompt: {error}"));
        }
    }

    /// Stores a file's state before a call changes it: its content and mode, or `None` if it did not exist. Must be
    /// called on a thread that may block, with symlinks resolved in `path`.
    pub fn checkpoint_before_change(&self, path: &Path, was: Option<(&[u8], u32)>) {
        let Some(checkpoints) = self.checkpoints() else { return };
        // The plan belongs to the session and is not rewound.
        if self.own_paths().iter().any(|own| path.starts_with(own)) {
            return;
        }
        let before = was.map_or(PriorContent::Absent, |(bytes, mode)| PriorContent::File { bytes, mode });
        if let Err(error) = checkpoints.lock().keep_file(path, before) {
            self.warn(format!("no way back for one file: {error}"));
        }
    }

    fn warn(&self, text: String) {
        self.publish(&AgentPath::default(), EventBody::Notice(Notice { level: NoticeLevel::Warning, text }));
    }
}

/// Restores every file changed since a prompt; a dry run only reports the changes.
pub(crate) async fn rewind_files(
    services: Arc<SessionServices>,
    prompt: EntryId,
    dry_run: bool,
) -> Result<RewindOutcome, String> {
    let checkpoints = services.checkpoints().ok_or(RewindOutcome::NOT_ENABLED)?;
    let (files, folder) = {
        let kept = checkpoints.lock();
        (kept.files_at(&prompt).ok_or(RewindOutcome::UNKNOWN_PROMPT)?, kept.folder().to_owned())
    };
    let mut rewound = RewindOutcome::default();
    let mut failed = Vec::new();
    for (path, was) in files {
        // No call may write the file while it is restored.
        let held = services.path_lock(&path).lock_owned().await;
        let (of, folder, of_session) = (path.clone(), folder.clone(), services.clone());
        let job = tokio::task::spawn_blocking(move || {
            let step = restore_file(&of_session, &of, was.as_ref(), &folder, dry_run);
            drop(held);
            step
        });
        match job.await {
            Ok(Ok(FileRestoreOutcome::Unchanged)) => {}
            Ok(Ok(FileRestoreOutcome::SkippedSymlink)) => rewound.skipped_links += 1,
            Ok(Ok(FileRestoreOutcome::Changed { insertions, deletions })) => {
                rewound.files_changed.push(path);
                rewound.insertions += insertions;
                rewound.deletions += deletions;
            }
            Ok(Err(error)) => failed.push(format!("{}: {error}", path.display())),
            Err(error) => failed.push(format!("{}: {error}", path.display())),
        }
    }
    if failed.is_empty() {
        return Ok(rewound);
    }
    let done = rewound.files_changed.len();
    Err(format!("{done} files were brought back, but not these: {}", failed.join("; ")))
}

/// Outcome for one file.
enum FileRestoreOutcome {
    Unchanged,
    SkippedSymlink,
    Changed { insertions: u64, deletions: u64 },
}

fn restore_file(
    services: &SessionServices,
    path: &Path,
    was: Option<&KeptFile>,
    folder: &Path,
    dry_run: bool,
) -> std::io::Result<FileRestoreOutcome> {
    let now = match read_current_content(path)? {
        CurrentContent::Link => return Ok(FileRestoreOutcome::SkippedSymlink),
        CurrentContent::Absent => None,
        CurrentContent::File(bytes) => Some(bytes),
    };
    let then = was.map(|kept| kept.read(folder)).transpose()?;
    if now == then {
        return Ok(FileRestoreOutcome::Unchanged);
    }
    if !dry_run {
        restore_file_content(path, then.as_deref().zip(was.map(|kept| kept.mode)))?;
        services.note_authorized_change(path, now.as_deref(), then.as_deref());
    }
    let (insertions, deletions) =
        count_changed_lines(now.as_deref().unwrap_or_default(), then.as_deref().unwrap_or_default());
    Ok(FileRestoreOutcome::Changed { insertions, deletions })
}

/// Counts the added and removed lines.
fn count_changed_lines(old: &[u8], new: &[u8]) -> (u64, u64) {
    let lines = |bytes| -> Vec<&[u8]> { <[u8]>::split_inclusive(bytes, |byte| *byte == b'\n').collect() };
    let (old, new) = (lines(old), lines(new));
    let deadline = Some(Instant::now() + COUNTING);
    let (mut insertions, mut deletions) = (0, 0);
    for change in capture_diff_slices_deadline(Algorithm::Myers, &old, &new, deadline) {
        if change.tag() != DiffTag::Equal {
            insertions += change.new_range().len() as u64;
            deletions += change.old_range().len() as u64;
        }
    }
    (insertions, deletions)
}

/// Records a client's statement that a file was read when it had this modification time, so that it may be edited. A
/// file that changed since stays unread.
pub(crate) async fn record_external_read(
    services: Arc<SessionServices>,
    path: PathBuf,
    mtime_ms: u64,
) -> Result<(), String> {
    let path = services.paths().expand_path(&path);
    let read = tokio::task::spawn_blocking(move || {
        let path = path.canonicalize()?;
        let metadata = path.metadata()?;
        let since_epoch = metadata.modified()?.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let unchanged = metadata.is_file() && since_epoch.as_millis() <= u128::from(mtime_ms);
        if !unchanged {
            return Ok(None);
        }
        let bytes = std::fs::read(&path)?;
        Ok(Some((path, crate::files::FileStamp::from_bytes(&bytes, &metadata))))
    });
    let read = read.await.map_err(|error| error.to_string())?;
    if let Some((path, stamp)) = read.map_err(|error: std::io::Error| error.to_string())? {
        services.apply_changes([Box::new(move |session: &mut crate::session::SessionState| {
            session.files.record_read(path, stamp, true, None);
        }) as crate::tool::StateChange]);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_come_and_go_are_counted() {
        for (old, new, counts) in [
            ("", "a\nb\n", (2, 0)),
            ("a\nb\n", "", (0, 2)),
            ("a\nb\nc\n", "a\nx\nc\n", (1, 1)),
            ("a\nb", "a\nb\n", (1, 1)),
        ] {
            assert_eq!(count_changed_lines(old.as_bytes(), new.as_bytes()), counts, "{old:?} {new:?}");
        }
    }
}
