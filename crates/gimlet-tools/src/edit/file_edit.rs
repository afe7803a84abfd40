//! Replacing text in one file: all of the replacements or none, each on what the one before it left, and one write.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gimlet_core::files::{ContentHash, FileStamp, hash_while};
use gimlet_core::tool::{PathContext, ToolContext, ToolError};
use gimlet_core::{DurableBarrier, SessionServices, SessionState, text_diff};
use gimlet_proto::{DiffHunk, Env};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::text_replacer::TextReplacer;
use crate::diff;
use crate::text_file::open::{LoadedFile, load_for_change};
use crate::text_file::read_state::{self, FileKnowledge, ReadState};
use crate::text_file::{TextEncoding, TextFile, file_path, replace, write_lock};

/// One text for another.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TextReplacement {
    /// The text to replace
    pub(crate) old_string: String,
    /// What to put there
    pub(crate) new_string: String,
    /// Replace every occurrence
    #[serde(default)]
    pub(crate) replace_all: bool,
}

/// Outcome of one replacement.
pub(crate) enum ReplacementOutcome {
    Created,
    Filled,
    Replaced { first_line: usize, count: usize, note: Option<&'static str> },
}

impl ReplacementOutcome {
    /// Formats the outcome as a sentence.
    pub(crate) fn report(&self, path: &str) -> String {
        match self {
            ReplacementOutcome::Created => format!("Created {path}."),
            ReplacementOutcome::Filled => format!("Filled {path}, which was empty."),
            ReplacementOutcome::Replaced { first_line, count: 1, .. } => {
                self.with_note(format!("Edited {path} at line {first_line}."))
            }
            ReplacementOutcome::Replaced { count, .. } => {
                self.with_note(format!("Edited {path}: {count} replacements."))
            }
        }
    }

    /// Formats the outcome as an item in a list of replacements of one file.
    pub(crate) fn item(&self) -> String {
        match self {
            ReplacementOutcome::Created => "created the file.".to_owned(),
            ReplacementOutcome::Filled => "filled the file, which was empty.".to_owned(),
            ReplacementOutcome::Replaced { first_line, count: 1, .. } => self.with_note(format!("line {first_line}.")),
            ReplacementOutcome::Replaced { count, .. } => self.with_note(format!("{count} replacements.")),
        }
    }

    fn with_note(&self, mut text: String) -> String {
        if let ReplacementOutcome::Replaced { note: Some(note), .. } = self {
            text.push(' ');
            text.push_str(note);
        }
        text
    }
}

/// A change that was made.
pub(crate) struct CompletedEdit {
    /// Path as given, for the user and programs.
    pub(crate) path: String,
    pub(crate) original: Option<String>,
    pub(crate) patch: Vec<DiffHunk>,
    /// One for each replacement.
    pub(crate) applied: Vec<ReplacementOutcome>,
    /// Further remarks about the file.
    pub(crate) remarks: Vec<&'static str>,
    known: EditedFileState,
}

/// New state of the file in the conversation.
struct EditedFileState {
    target: PathBuf,
    stamp: FileStamp,
    /// State known to the model before the edit.
    before: ReadState,
}

impl CompletedEdit {
    /// Returns the text for the model, starting with `text`.
    pub(crate) fn report(&self, mut text: String, amended: bool) -> String {
        let amended = amended.then(|| diff::amended_notice(&self.patch));
        for remark in self.remarks.iter().copied().chain(amended.as_deref()) {
            text.push(' ');
            text.push_str(remark);
        }
        text
    }

    /// Returns the update of the conversation's knowledge of the file.
    pub(crate) fn state_update(&self) -> impl FnOnce(&mut SessionState) + Send + 'static {
        let EditedFileState { target, stamp, before } = &self.known;
        let (target, stamp, before) = (target.clone(), *stamp, *before);
        move |session| read_state::record_write(&mut session.files, target, stamp, before)
    }
}

/// Returns true if a text that does not match exactly may be found by the lenient ladder.
pub(super) fn is_lenient(env: &Env) -> bool {
    env.flag("GIMLET_EDIT_LENIENT")
}

/// Makes the replacements, of which there is at least one.
pub(crate) async fn apply_replacements(
    file: &str,
    wanted: Vec<TextReplacement>,
    cx: &ToolContext,
) -> Result<CompletedEdit, ToolError> {
    let path = cx.paths.expand_path(Path::new(file));
    let target = cx.resolved_path(&path).to_owned();
    if crate::special_files::is_special(&target) {
        return Err(ToolError::failed(crate::special_files::special_text(&target.display().to_string())));
    }
    let held = write_lock::acquire(&cx.services, &target).await;
    let job = FileEditJob {
        memory: FileKnowledge::for_file(&target, cx),
        services: cx.services.clone(),
        recorded: cx.durable_barrier(),
        replacer: TextReplacer { path: path.clone(), lenient: is_lenient(cx.services.env()) },
        reads_unasked: cx.may_read_unasked(&target),
        paths: cx.paths.clone(),
        path,
        target,
        replacements: wanted,
    };
    // The lock moves into the task: it is held until the file is written, even if the caller stops waiting.
    let running = tokio::task::spawn_blocking(move || {
        let result = job.run();
        drop(held);
        result
    });
    running.await.unwrap_or_else(|error| Err(ToolError::failed(format!("The edit ended abnormally: {error}"))))
}

/// A change, ready to run on a thread that may block.
struct FileEditJob {
    memory: FileKnowledge,
    services: Arc<SessionServices>,
    recorded: DurableBarrier,
    replacer: TextReplacer,
    /// True if the model may read the file without a question.
    reads_unasked: bool,
    paths: PathContext,
    /// Path as given, for the user and programs.
    path: PathBuf,
    /// Path that the gate judged: the file that is written.
    target: PathBuf,
    replacements: Vec<TextReplacement>,
}

impl FileEditJob {
    fn run(self) -> Result<CompletedEdit, ToolError> {
        match load_for_change(&self.target, self.services.env())? {
            None => self.create(),
            Some(old) => self.change(&old),
        }
    }

    fn create(self) -> Result<CompletedEdit, ToolError> {
        let Some((first, rest)) = self.replacements.split_first().filter(|(first, _)| first.old_string.is_empty())
        else {
            return Err(ToolError::failed(file_path::missing_text(&self.path, &self.paths)));
        };
        let mut applied = vec![ReplacementOutcome::Created];
        let content = self.apply(rest, first.new_string.clone(), TextEncoding::Utf8, ReadState::Whole, &mut applied)?;
        self.services.checkpoint_before_change(&self.target, None);
        let metadata = replace::create(&self.target, content.as_bytes(), &self.recorded)?;
        self.services.note_authorized_change(&self.target, None, Some(content.as_bytes()));
        let known = EditedFileState {
            stamp: FileStamp::from_bytes(content.as_bytes(), &metadata),
            before: ReadState::Whole,
            target: self.target,
        };
        let path = self.path.display().to_string();
        Ok(CompletedEdit {
            path,
            original: None,
            patch: text_diff::hunks("", &content),
            applied,
            remarks: Vec::new(),
            known,
        })
    }

    fn change(self, old: &LoadedFile) -> Result<CompletedEdit, ToolError> {
        let path = self.path.display().to_string();
        let (hash, file) = hash_while(&old.bytes, || TextFile::decode(&old.bytes));
        let file = file.map_err(|error| {
            ToolError::failed(format!("{path} cannot be edited: {error}. Convert its encoding first."))
        })?;
        let (first, rest) =
            self.replacements.split_first().ok_or_else(|| ToolError::input("There is nothing to edit."))?;
        let before =
            if first.old_string.is_empty() { ReadState::Whole } else { self.check_read_state(&hash, file.text())? };
        let (raw, done) =
            self.replacer.replaced(&file, first, before).map_err(|error| self.error_for_replacement(0, error))?;
        let mut applied = vec![done];
        let raw = self.apply(rest, raw, file.encoding(), before, &mut applied)?;
        let bytes = file.encoding().encode(&raw);
        let mut remarks = Vec::new();
        if before == ReadState::Stale {
            remarks.push("The file had other changes since you read it; they are kept.");
        }
        let stamp = if bytes == old.bytes {
            remarks.push("The file already had that text; nothing changed.");
            FileStamp::new(hash, &old.metadata)
        } else {
            self.services.checkpoint_before_change(&self.target, Some((&old.bytes, old.metadata.mode())));
            let backups = self.services.results_dir().join("backups");
            let replace = || replace::replace(&self.target, old, &bytes, &backups, &self.recorded);
            let (hash, metadata) = hash_while(&bytes, replace);
            let stamp = FileStamp::new(hash, &metadata?);
            self.services.note_authorized_change(&self.target, Some(&old.bytes), Some(&bytes));
            stamp
        };
        let (patch, original) = (text_diff::hunks(file.raw(), &raw), diff::original(file.raw()));
        let known = EditedFileState { target: self.target, stamp, before };
        Ok(CompletedEdit { path, original, patch, applied, remarks, known })
    }

    /// Applies the replacements after the first, in order.
    fn apply(
        &self,
        rest: &[TextReplacement],
        mut raw: String,
        encoding: TextEncoding,
        before: ReadState,
        applied: &mut Vec<ReplacementOutcome>,
    ) -> Result<String, ToolError> {
        for wanted in rest {
            let file = TextFile::new(encoding, raw.as_str().into());
            let (next, done) = self
                .replacer
                .replaced(&file, wanted, before)
                .map_err(|error| self.error_for_replacement(applied.len(), error))?;
            raw = next;
            applied.push(done);
        }
        Ok(raw)
    }

    /// Adds to an error which of several replacements failed, and that none of them was made.
    fn error_for_replacement(&self, index: usize, mut error: ToolError) -> ToolError {
        if self.replacements.len() > 1 {
            let (number, all) = (index + 1, self.replacements.len());
            error.model_text = format!("Edit {number} of {all}: {} None of the edits was made.", error.model_text);
        }
        error
    }

    /// Returns the read state of the file; an error if the model has not read enough of it to edit it.
    fn check_read_state(&self, hash: &ContentHash, text: &str) -> Result<ReadState, ToolError> {
        let path = self.path.display();
        let before = self.memory.read_state(hash, text);
        let is_unread = before == ReadState::Unread && !self.memory.is_trusted();
        if is_unread || before == ReadState::FirstPage {
            return Err(ToolError::failed(format!(
                "{path} has not been read, or only its first page. Read it, or the region around the change \
                 (`offset` and `limit`), then edit."
            )));
        }
        if before == ReadState::Stale && !self.reads_unasked {
            return Err(ToolError::failed(format!(
                "{path} changed since you read it, and its present content may not be looked at unasked. Read it again, \
                 then edit."
            )));
        }
        Ok(before)
    }
}
