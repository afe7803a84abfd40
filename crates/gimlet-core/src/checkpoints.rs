//! File checkpoints: files as they were before the session changed them.
//!
//! Tools that change files record a file's state before its first change after a prompt; the store keeps it. A rewind
//! to a prompt restores every such file and leaves the conversation unchanged. Symlinks are never followed or
//! replaced, only folders that the session created are removed, and those only when they are empty. A file that cannot
//! be stored is changed nevertheless, with a warning to the user. How the session left each file is recorded too, so
//! that a rewind knows which files something else has changed since.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gimlet_proto::{
    AgentPath, DiffHunk, EntryId, EventBody, Notice, NoticeLevel, RewindMode, RewindOutcome, RewoundFile,
};
use gimlet_store::{
    CreatedFolder, CurrentContent, KeptFile, PriorContent, SessionCheckpoints, WrittenFile, overwrite_file_content,
    read_current_content, remove_empty_folders, restore_file_content,
};
use similar::{Algorithm, DiffTag, capture_diff_slices_deadline};

use crate::services::SessionServices;
use crate::text_diff;

/// Time limit for counting the changed lines of one file exactly.
const COUNTING: Duration = Duration::from_millis(200);
/// Size of a file up to which a preview shows the lines.
const MAX_PREVIEW_BYTES: usize = 1 << 20;

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

    /// Records how a call left a file that it changed. Must be called on a thread that may block.
    pub(crate) fn checkpoint_after_change(&self, path: &Path) {
        if let Some(checkpoints) = self.checkpoints() {
            checkpoints.lock().note_written(path);
        }
    }

    fn warn(&self, text: String) {
        self.publish(&AgentPath::default(), EventBody::Notice(Notice { level: NoticeLevel::Warning, text }));
    }
}

/// Restores every file changed since a prompt, as the mode says.
pub(crate) async fn rewind_files(
    services: Arc<SessionServices>,
    prompt: EntryId,
    mode: RewindMode,
) -> Result<RewindOutcome, String> {
    let checkpoints = services.checkpoints().ok_or(RewindOutcome::NOT_ENABLED)?;
    let (files, created, folder) = {
        let kept = checkpoints.lock();
        let files = kept.files_at(&prompt).ok_or(RewindOutcome::UNKNOWN_PROMPT)?;
        let restore = |(path, was): (PathBuf, Option<KeptFile>)| FileRestore {
            written: kept.last_written(&path).cloned(),
            path,
            was,
        };
        let files: Vec<FileRestore> = files.into_iter().map(restore).collect();
        (files, kept.folders_created_since(&prompt), kept.folder().to_owned())
    };
    let mut rewound = RewindOutcome::default();
    let mut failed = Vec::new();
    for file in files {
        let path = file.path.clone();
        // No call may write the file while it is restored.
        let held = services.path_lock(&path).lock_owned().await;
        let (folder, of_session) = (folder.clone(), services.clone());
        let job = tokio::task::spawn_blocking(move || {
            let step = file.restore(&of_session, &folder, mode);
            drop(held);
            step
        });
        match job.await {
            Ok(Ok(FileRestoreOutcome::Unchanged)) => {}
            Ok(Ok(FileRestoreOutcome::SkippedLink)) => rewound.skipped_links += 1,
            Ok(Ok(FileRestoreOutcome::Kept)) => rewound.kept.push(path),
            Ok(Ok(FileRestoreOutcome::Changed(file))) => rewound.files.push(*file),
            Ok(Err(error)) => failed.push(format!("{}: {error}", path.display())),
            Err(error) => failed.push(format!("{}: {error}", path.display())),
        }
    }
    if mode != RewindMode::Preview {
        remove_created_folders(created).await;
    }
    if failed.is_empty() {
        return Ok(rewound);
    }
    let done = rewound.files.len();
    Err(format!("{done} files were brought back, but not these: {}", failed.join("; ")))
}

/// Removes the folders that the session created, as far as they are empty, the deepest first.
async fn remove_created_folders(mut created: Vec<CreatedFolder>) {
    if created.is_empty() {
        return;
    }
    created.sort_by_key(|folder| std::cmp::Reverse(folder.deepest.components().count()));
    let removal = move || created.iter().for_each(|folder| remove_empty_folders(&folder.deepest, &folder.topmost));
    // A folder that stays is empty, and no file is wrong because of it.
    drop(tokio::task::spawn_blocking(removal).await);
}

/// One file to restore: its state at the prompt, and the state in which the session left it.
struct FileRestore {
    path: PathBuf,
    was: Option<KeptFile>,
    written: Option<WrittenFile>,
}

/// Outcome for one file.
enum FileRestoreOutcome {
    Unchanged,
    SkippedLink,
    /// Something else has changed it since, so it stays.
    Kept,
    Changed(Box<RewoundFile>),
}

impl FileRestore {
    fn restore(
        &self,
        services: &SessionServices,
        folder: &Path,
        mode: RewindMode,
    ) -> std::io::Result<FileRestoreOutcome> {
        let state = read_current_content(&self.path)?;
        let changed_by_hand = self.written.as_ref().is_some_and(|written| !written.is_same(&state));
        let now = match &state {
            CurrentContent::Absent => None,
            CurrentContent::Link => return Ok(FileRestoreOutcome::SkippedLink),
            // Under its other names it may be something else for the user, unless the session itself wrote it so.
            CurrentContent::File(file) if file.links > 1 && (changed_by_hand || self.written.is_none()) => {
                return Ok(FileRestoreOutcome::SkippedLink);
            }
            CurrentContent::File(file) => Some(file),
        };
        let then = match &self.was {
            Some(kept) => Some((kept.read(folder)?, kept.mode)),
            None => None,
        };
        if now.map(|file| (&file.bytes, file.mode)) == then.as_ref().map(|(bytes, mode)| (bytes, *mode)) {
            return Ok(FileRestoreOutcome::Unchanged);
        }
        if changed_by_hand && mode == RewindMode::KeepManualChanges {
            return Ok(FileRestoreOutcome::Kept);
        }
        let (old, new) = (now.map(|file| file.bytes.as_slice()), then.as_ref().map(|(bytes, _)| bytes.as_slice()));
        if mode != RewindMode::Preview {
            // So that one can go back to a later prompt again.
            services.checkpoint_before_change(&self.path, now.map(|file| (file.bytes.as_slice(), file.mode)));
            match &then {
                Some((bytes, mode)) if now.is_some_and(|file| file.links > 1) => {
                    overwrite_file_content(&self.path, bytes, *mode)?;
                }
                Some((bytes, mode)) => restore_file_content(&self.path, Some((bytes, *mode)))?,
                None => restore_file_content(&self.path, None)?,
            }
            services.note_authorized_change(&self.path, old, new);
        }
        let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
        let (insertions, deletions) = count_changed_lines(old, new);
        let hunks = if mode == RewindMode::Preview { preview_hunks(old, new) } else { Vec::new() };
        let file = RewoundFile { path: self.path.clone(), insertions, deletions, hunks, changed_by_hand };
        Ok(FileRestoreOutcome::Changed(Box::new(file)))
    }
}

/// Returns the lines that a restoration changes; none if a side is not text or too large.
fn preview_hunks(old: &[u8], new: &[u8]) -> Vec<DiffHunk> {
    if old.len().max(new.len()) > MAX_PREVIEW_BYTES {
        return Vec::new();
    }
    match (std::str::from_utf8(old), std::str::from_utf8(new)) {
        (Ok(old), Ok(new)) => text_diff::hunks(old, new),
        _ => Vec::new(),
    }
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
