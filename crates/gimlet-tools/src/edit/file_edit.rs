//! Replacing text in one file: all of the replacements or none, each on what the one before it left, and one write.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gimlet_core::files::{ContentHash, FileStamp, hash_while};
use gimlet_core::tool::{PathContext, ToolContext, ToolError};
use gimlet_core::{DurableBarrier, SessionServices, SessionState};
use gimlet_proto::DiffHunk;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::closest_match;
use super::edit_match::{self, EditMatch, EditRequest, MatchKind, NoMatch};
use crate::diff;
use crate::text_file::open::{LoadedFile, load_for_change};
use crate::text_file::read_state::{self, FileKnowledge, ReadState};
use crate::text_file::{TextEncoding, TextFile, TextSplice, file_path, normalised, replace, write_lock};

/// Lines named when a text is found too often.
const MOST_NAMED: usize = 10;

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
        lenient: cx.services.env().flag("GIMLET_EDIT_LENIENT"),
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
    lenient: bool,
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
            patch: diff::hunks("", &content),
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
        let (raw, done) = self.replaced(&file, first, before).map_err(|error| self.error_for_replacement(0, error))?;
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
        let (patch, original) = (diff::hunks(file.raw(), &raw), diff::original(file.raw()));
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

    /// Returns the text as on disk after one replacement.
    fn replaced(
        &self,
        file: &TextFile<'_>,
        wanted: &TextReplacement,
        before: ReadState,
    ) -> Result<(String, ReplacementOutcome), ToolError> {
        if wanted.old_string.is_empty() {
            return Ok((file.spliced(&[self.fill(file, wanted)?]), ReplacementOutcome::Filled));
        }
        let found = self.find(file.text(), wanted, before)?;
        let first_line = found.splices.first().map_or(1, |splice| edit_match::line_of(file.text(), splice.range.start));
        let applied = ReplacementOutcome::Replaced { first_line, count: found.splices.len(), note: found.how.note() };
        Ok((file.spliced(&found.splices), applied))
    }

    /// Fills a file that has nothing but whitespace.
    fn fill(&self, file: &TextFile<'_>, wanted: &TextReplacement) -> Result<TextSplice, ToolError> {
        if !file.text().trim().is_empty() {
            return Err(ToolError::input(format!(
                "{} is not empty, and an empty `old_string` is only for new or empty files. Name the text to replace, \
                 or use Write to replace the whole file.",
                self.path.display()
            )));
        }
        Ok(TextSplice { range: 0..file.text().len(), with: normalised(&wanted.new_string).into_owned() })
    }

    /// Finds the place, judged together with what the model knows of the file.
    fn find(&self, text: &str, wanted: &TextReplacement, before: ReadState) -> Result<EditMatch, ToolError> {
        let (old, new) = (normalised(&wanted.old_string), normalised(&wanted.new_string));
        let lenient = self.lenient && before != ReadState::Stale;
        let wanted = EditRequest { old: &old, new: &new, replace_all: wanted.replace_all, lenient };
        let found = edit_match::find(text, wanted);
        if before == ReadState::Stale && !is_certain(&found) {
            return Err(ToolError::failed(format!(
                "{} changed since you read it, and the edit does not fit its present content beyond doubt. Read it \
                 again, then edit.",
                self.path.display()
            )));
        }
        found.map_err(|problem| self.explain(text, wanted, problem))
    }

    fn explain(&self, text: &str, wanted: EditRequest<'_>, problem: NoMatch) -> ToolError {
        let path = self.path.display();
        match problem {
            NoMatch::Ambiguous { lines, how } => {
                let named: Vec<String> = lines.iter().take(MOST_NAMED).map(usize::to_string).collect();
                let more = if lines.len() > MOST_NAMED { " and more" } else { "" };
                let alike =
                    if how == MatchKind::Typography { " but for the form of quotes, dashes or spaces" } else { "" };
                ToolError::failed(format!(
                    "`old_string` is found {} times in {path}{alike}, on lines {}{more}. Add lines around it until it is \
                     unique, or set `replace_all`.",
                    lines.len(),
                    named.join(", ")
                ))
            }
            NoMatch::Missing => {
                let mut message = format!("`old_string` was not found in {path}; nothing was changed.");
                if !wanted.new.trim().is_empty() && text.contains(wanted.new) {
                    message.push_str(" `new_string` is there already: the edit may have been made before.");
                }
                if let Some(closest) = closest_match::describe(text, wanted.old) {
                    message.push(' ');
                    message.push_str(&closest);
                }
                ToolError::failed(message)
            }
        }
    }
}

/// Returns true for an exact match at a single place: nothing else is safe on a file that changed since the model read
/// it.
fn is_certain(found: &Result<EditMatch, NoMatch>) -> bool {
    found.as_ref().is_ok_and(|found| found.how == MatchKind::Exact && found.splices.len() == 1)
}
