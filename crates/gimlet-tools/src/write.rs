//! Write: creates a file or replaces all of it, byte for byte as given, in the encoding that it has.
//!
//! It never overwrites content that the model has not seen, and never leaves a half-written file.

mod elision;

use std::borrow::Cow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gimlet_core::files::{FileStamp, hash_while};
use gimlet_core::tool::{
    AgentAvailability, InputProblem, InterruptBehavior, PathContext, PreviewContext, PromptContext, Tool, ToolContext,
    ToolError, ToolResult,
};
use gimlet_core::{DurableBarrier, SessionServices, text_diff};
use gimlet_proto::{AccessNeed, DiffHunk, ResultContent, View};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::diff;
use crate::text_file::open::{LoadedFile, load_for_change};
use crate::text_file::read_state::{FileKnowledge, ReadState};
use crate::text_file::{TextFile, file_path, replace, write_lock};

pub(crate) struct Write;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WriteInput {
    /// Absolute path of the file
    file_path: String,
    /// The whole content
    content: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WriteOutput {
    r#type: WriteKind,
    file_path: String,
    content: String,
    structured_patch: Vec<DiffHunk>,
    original_file: Option<String>,
    /// True if the content was changed when the call was approved.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    user_modified: bool,
}

impl WriteOutput {
    fn hunks(&self) -> Vec<DiffHunk> {
        match self.r#type {
            WriteKind::Create => text_diff::hunks("", &self.content),
            WriteKind::Update => self.structured_patch.clone(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum WriteKind {
    Create,
    Update,
}

impl Tool for Write {
    const NAME: &'static str = "Write";
    type Input = WriteInput;
    type Output = WriteOutput;

    fn prompt(&self, _cx: &PromptContext) -> Cow<'static, str> {
        Cow::Borrowed(include_str!("write.md").trim_ascii_end())
    }

    fn needs(&self, input: &WriteInput, cx: &PathContext) -> Vec<AccessNeed> {
        vec![AccessNeed::Write(cx.expand_path(Path::new(&input.file_path)))]
    }

    fn backfill_observable_input(&self, input: &mut WriteInput, cx: &PathContext) {
        file_path::expand(&mut input.file_path, cx);
    }

    fn validate_input(&self, input: &WriteInput, cx: &PathContext) -> Result<(), InputProblem> {
        file_path::check(&input.file_path, cx)
    }

    fn key_repairs(&self) -> &'static [(&'static str, &'static str)] {
        &[("path", "file_path"), ("filePath", "file_path")]
    }

    async fn call(&self, input: WriteInput, cx: &ToolContext) -> Result<ToolResult<WriteOutput>, ToolError> {
        let path = cx.paths.expand_path(Path::new(&input.file_path));
        let target = cx.resolved_path(&path).to_owned();
        if crate::special_files::is_special(&target) {
            return Err(ToolError::failed(crate::special_files::special_text(&target.display().to_string())));
        }
        let held = write_lock::acquire(&cx.services, &target).await;
        let job = WriteJob {
            memory: FileKnowledge::for_file(&target, cx),
            services: cx.services.clone(),
            recorded: cx.durable_barrier(),
            amended: cx.is_input_edited(),
            path,
            target,
            content: input.content,
        };
        // The lock moves into the task: it is held until the file is written, even if the caller stops waiting.
        let running = tokio::task::spawn_blocking(move || {
            let result = job.run();
            drop(held);
            result
        });
        running.await.unwrap_or_else(|error| Err(ToolError::failed(format!("The write ended abnormally: {error}"))))
    }

    fn to_blocks(&self, output: &WriteOutput) -> ResultContent {
        let verb = match output.r#type {
            WriteKind::Create => "Created",
            WriteKind::Update => "Replaced the content of",
        };
        let lines = output.content.lines().count();
        let unit = if lines == 1 { "line" } else { "lines" };
        let mut text = format!("{verb} {} ({lines} {unit}).", output.file_path);
        if output.user_modified {
            text.push(' ');
            text.push_str(&diff::amended_notice(&output.hunks()));
        }
        text.into()
    }

    fn view(&self, _input: &WriteInput, output: &WriteOutput) -> View {
        View::Diff { path: output.file_path.clone(), hunks: output.hunks() }
    }

    fn preview(&self, input: &WriteInput, cx: &PreviewContext) -> View {
        crate::edit::edit_preview::preview_content(&input.file_path, &input.content, cx)
    }

    fn auto_classifier_input(&self, input: &WriteInput) -> String {
        format!("{}: {}", input.file_path, input.content)
    }

    fn on_interrupt(&self) -> InterruptBehavior {
        InterruptBehavior::FinishAtomically
    }

    fn eager_input(&self) -> bool {
        true
    }

    /// Returns true: the new content is written to a temporary file; only the rename waits.
    fn may_start_before_durable(&self) -> bool {
        true
    }

    fn agent_availability(&self) -> AgentAvailability {
        AgentAvailability::Always
    }

    fn search_hint(&self) -> &'static str {
        "create overwrite save new file"
    }
}

/// One write, ready to run on a thread that may block.
struct WriteJob {
    memory: FileKnowledge,
    services: Arc<SessionServices>,
    recorded: DurableBarrier,
    amended: bool,
    /// Path as given, for the user and programs.
    path: PathBuf,
    /// Path that the gate judged: the file that is written.
    target: PathBuf,
    content: String,
}

impl WriteJob {
    fn run(self) -> Result<ToolResult<WriteOutput>, ToolError> {
        match load_for_change(&self.target, self.services.env())? {
            None => self.create(),
            Some(old) => self.update(old),
        }
    }

    fn create(self) -> Result<ToolResult<WriteOutput>, ToolError> {
        self.services.checkpoint_before_change(&self.target, None);
        let metadata = replace::create(&self.target, self.content.as_bytes(), &self.recorded)?;
        self.services.note_authorized_change(&self.target, None, Some(self.content.as_bytes()));
        let stamp = FileStamp::from_bytes(self.content.as_bytes(), &metadata);
        Ok(self.result(WriteKind::Create, None, Vec::new(), stamp))
    }

    fn update(self, old: LoadedFile) -> Result<ToolResult<WriteOutput>, ToolError> {
        let path = self.path.display();
        let (hash, text) = hash_while(&old.bytes, || TextFile::decode(&old.bytes));
        let text = text.map_err(|error| {
            ToolError::failed(format!(
                "{path} exists and is not text ({error}), so it was not overwritten. Delete it first if it is to go."
            ))
        })?;
        let before = self.memory.read_state(&hash, text.text());
        let problem = match before {
            // An empty file has nothing that could be lost.
            ReadState::Whole => None,
            ReadState::Unread | ReadState::FirstPage | ReadState::Parts | ReadState::Stale if old.bytes.is_empty() => {
                None
            }
            ReadState::Unread if self.memory.is_trusted() => None,
            ReadState::Unread | ReadState::FirstPage => {
                Some("exists and you have not read all of it. Read it first, or use Edit for a part")
            }
            ReadState::Parts => Some("was read only in part. Read the rest first, or use Edit for the part you know"),
            ReadState::Stale => Some("changed since you read it. Read it again, then write"),
        };
        if let Some(problem) = problem {
            return Err(ToolError::failed(format!("{path} {problem}. Nothing was written.")));
        }
        if let Some(line) = elision::find_placeholder(text.text(), &self.content) {
            return Err(ToolError::input(format!(
                "The content has a placeholder where the file has code ({line:?}). Write replaces the whole file: give \
                 the complete content, or use Edit for a part. Nothing was written."
            )));
        }
        // A mark in the content would be a second one.
        let content = if text.encoding().byte_order_mark().is_empty() {
            self.content.as_str()
        } else {
            self.content.strip_prefix('\u{FEFF}').unwrap_or(&self.content)
        };
        let bytes = text.encoding().encode(content);
        let stamp = if bytes == old.bytes {
            FileStamp::new(hash, &old.metadata)
        } else {
            self.services.checkpoint_before_change(&self.target, Some((&old.bytes, old.metadata.mode())));
            let backups = self.services.results_dir().join("backups");
            let replace = || replace::replace(&self.target, &old, &bytes, &backups, &self.recorded);
            let (hash, metadata) = hash_while(&bytes, replace);
            let stamp = FileStamp::new(hash, &metadata?);
            self.services.note_authorized_change(&self.target, Some(&old.bytes), Some(&bytes));
            stamp
        };
        let patch = text_diff::hunks(text.raw(), content);
        let original = diff::original(text.raw());
        Ok(self.result(WriteKind::Update, original, patch, stamp))
    }

    fn result(
        self,
        kind: WriteKind,
        original_file: Option<String>,
        structured_patch: Vec<DiffHunk>,
        stamp: FileStamp,
    ) -> ToolResult<WriteOutput> {
        let target = self.target;
        ToolResult::new(WriteOutput {
            r#type: kind,
            file_path: self.path.display().to_string(),
            content: self.content,
            structured_patch,
            original_file,
            user_modified: self.amended,
        })
        .with_change(move |session| session.files.record_write(target, stamp))
    }
}

#[cfg(test)]
#[path = "write/write_tests.rs"]
mod write_tests;
