//! NotebookEdit: replaces, inserts or deletes one cell of a notebook. Everything outside the cell keeps its bytes.

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
use gimlet_media::{CellChange, CellEdit, CellKind, EditedNotebook, ParsedNotebook};
use gimlet_proto::{AccessNeed, ResultContent, View};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::diff;
use crate::text_file::open::{LoadedFile, load_for_change, load_up_to};
use crate::text_file::read_state::{self, FileKnowledge, ReadState};
use crate::text_file::{TextFile, file_path, replace, write_lock};

/// Codes of refused inputs, beside those of every file tool.
const NO_NOTEBOOK: u32 = 30;
const NO_CELL: u32 = 31;
const NO_TYPE: u32 = 32;

/// Larger notebooks have no preview: it has to be there before the question.
const MAX_PREVIEWED_BYTES: u64 = 8 << 20;

pub(crate) struct NotebookEdit;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NotebookEditInput {
    /// Absolute path
    notebook_path: String,
    /// As Read shows it
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cell_id: Option<String>,
    /// New source
    new_source: String,
    /// Needed to insert
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cell_type: Option<EditableCellType>,
    /// Default: replace
    #[serde(default, skip_serializing_if = "Option::is_none")]
    edit_mode: Option<CellEditMode>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum EditableCellType {
    Code,
    Markdown,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum CellEditMode {
    #[default]
    Replace,
    Insert,
    Delete,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct NotebookEditOutput {
    new_source: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    old_source: Option<String>,
    cell_id: String,
    cell_type: String,
    language: String,
    edit_mode: CellEditMode,
    notebook_path: String,
    /// Content before and after; absent if it is large.
    original_file: Option<String>,
    updated_file: Option<String>,
    #[serde(skip)]
    is_amended: bool,
}

impl NotebookEditInput {
    fn mode(&self) -> CellEditMode {
        self.edit_mode.unwrap_or_default()
    }

    fn edit(&self) -> CellEdit {
        let kind = self.cell_type.map(|kind| match kind {
            EditableCellType::Code => CellKind::Code,
            EditableCellType::Markdown => CellKind::Markdown,
        });
        let source = self.new_source.clone();
        let change = match self.mode() {
            CellEditMode::Replace => CellChange::Replace { source, kind },
            CellEditMode::Insert => CellChange::Insert { source, kind: kind.unwrap_or(CellKind::Code) },
            CellEditMode::Delete => CellChange::Delete,
        };
        CellEdit { cell_id: self.cell_id.clone(), change }
    }
}

impl Tool for NotebookEdit {
    const NAME: &'static str = "NotebookEdit";
    type Input = NotebookEditInput;
    type Output = NotebookEditOutput;

    fn prompt(&self, _cx: &PromptContext) -> Cow<'static, str> {
        Cow::Borrowed(include_str!("notebook_edit.md").trim_ascii_end())
    }

    fn needs(&self, input: &NotebookEditInput, cx: &PathContext) -> Vec<AccessNeed> {
        vec![AccessNeed::Write(cx.expand_path(Path::new(&input.notebook_path)))]
    }

    fn backfill_observable_input(&self, input: &mut NotebookEditInput, cx: &PathContext) {
        file_path::expand(&mut input.notebook_path, cx);
    }

    fn validate_input(&self, input: &NotebookEditInput, cx: &PathContext) -> Result<(), InputProblem> {
        file_path::check_parameter("notebook_path", &input.notebook_path, cx)?;
        if !file_path::is_notebook(Path::new(&input.notebook_path)) {
            let text = format!("{} is no notebook by its name (.ipynb). Change it with Edit.", input.notebook_path);
            return Err(InputProblem::new(NO_NOTEBOOK, text));
        }
        match input.mode() {
            CellEditMode::Insert if input.cell_type.is_none() => {
                Err(InputProblem::new(NO_TYPE, "A new cell needs `cell_type`: \"code\" or \"markdown\"."))
            }
            CellEditMode::Replace | CellEditMode::Delete if input.cell_id.is_none() => Err(InputProblem::new(
                NO_CELL,
                "`cell_id` is missing: it says which cell is meant. Read the notebook for the ids.",
            )),
            CellEditMode::Replace | CellEditMode::Insert | CellEditMode::Delete => Ok(()),
        }
    }

    fn key_repairs(&self) -> &'static [(&'static str, &'static str)] {
        &[("file_path", "notebook_path"), ("path", "notebook_path"), ("source", "new_source")]
    }

    fn is_destructive(&self, input: &NotebookEditInput, _cx: &PathContext) -> bool {
        input.mode() == CellEditMode::Delete
    }

    async fn call(
        &self,
        input: NotebookEditInput,
        cx: &ToolContext,
    ) -> Result<ToolResult<NotebookEditOutput>, ToolError> {
        let path = cx.paths.expand_path(Path::new(&input.notebook_path));
        let target = cx.resolved_path(&path).to_owned();
        if crate::special_files::is_special(&target) {
            return Err(ToolError::failed(crate::special_files::special_text(&target.display().to_string())));
        }
        let held = write_lock::acquire(&cx.services, &target).await;
        let job = NotebookEditJob {
            memory: FileKnowledge::for_file(&target, cx),
            services: cx.services.clone(),
            recorded: cx.durable_barrier(),
            paths: cx.paths.clone(),
            is_amended: cx.is_input_edited(),
            path,
            target,
            input,
        };
        // The lock moves into the task: it is held until the file is written, even if the caller stops waiting.
        let running = tokio::task::spawn_blocking(move || {
            let result = job.run();
            drop(held);
            result
        });
        running.await.unwrap_or_else(|error| Err(ToolError::failed(format!("The edit ended abnormally: {error}"))))
    }

    fn to_blocks(&self, output: &NotebookEditOutput) -> ResultContent {
        let NotebookEditOutput { cell_id, cell_type, notebook_path, .. } = output;
        let mut text = match output.edit_mode {
            CellEditMode::Replace => format!("Replaced the source of cell {cell_id:?} in {notebook_path}."),
            CellEditMode::Insert => format!("Inserted the {cell_type} cell {cell_id:?} into {notebook_path}."),
            CellEditMode::Delete => format!("Deleted cell {cell_id:?} from {notebook_path}."),
        };
        if output.is_amended {
            text.push(' ');
            text.push_str(&diff::amended_notice(&text_diff::hunks(
                output.old_source.as_deref().unwrap_or_default(),
                &output.new_source,
            )));
        }
        text.into()
    }

    fn view(&self, _input: &NotebookEditInput, output: &NotebookEditOutput) -> View {
        let old = output.old_source.as_deref().unwrap_or_default();
        source_diff(&output.notebook_path, &output.cell_id, old, &output.new_source)
    }

    fn preview(&self, input: &NotebookEditInput, cx: &PreviewContext) -> View {
        preview_edit(input, cx).unwrap_or_else(|why| View::Text(format!("no preview: {why}")))
    }

    fn auto_classifier_input(&self, input: &NotebookEditInput) -> String {
        let cell = input.cell_id.as_deref().unwrap_or("the start");
        format!("{}: {:?} at {cell}: {}", input.notebook_path, input.mode(), input.new_source)
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
        "jupyter notebook ipynb cell edit insert delete"
    }

    fn should_defer(&self) -> bool {
        true
    }
}

/// Shows the change of a cell's source.
fn source_diff(path: &str, cell: &str, old: &str, new: &str) -> View {
    let path = format!("{path} · {cell}");
    // The last line of a source has no end; that is nothing to show.
    let with_end = |source: &str| match source.is_empty() || source.ends_with('\n') {
        true => source.to_owned(),
        false => format!("{source}\n"),
    };
    match text_diff::hunks(&with_end(old), &with_end(new)) {
        hunks if hunks.is_empty() => View::Text(format!("{path}: the source stays as it is")),
        hunks => View::Diff { path, hunks },
    }
}

fn preview_edit(input: &NotebookEditInput, cx: &PreviewContext) -> Result<View, String> {
    let path = cx.paths.expand_path(Path::new(&input.notebook_path));
    let target = cx.readable_path(&path)?;
    if crate::special_files::is_special(target) {
        return Err(format!("{} is a device or kernel file", input.notebook_path));
    }
    let loaded = load_up_to(target, MAX_PREVIEWED_BYTES).map_err(|error| error.to_string())?;
    let loaded = loaded.ok_or_else(|| format!("{} does not exist", input.notebook_path))?;
    let file = TextFile::decode(&loaded.bytes).map_err(|error| error.to_string())?;
    let notebook = ParsedNotebook::parse(file.raw()).map_err(|fault| fault.to_string())?;
    let edited = notebook.edit(&input.edit(), || "new".to_owned()).map_err(|error| error.to_string())?;
    let new = if input.mode() == CellEditMode::Delete { "" } else { input.new_source.as_str() };
    let old = edited.old_source.unwrap_or_default();
    Ok(source_diff(&input.notebook_path, &edited.cell_id, &old, new))
}

/// One edit, ready to run on a thread that may block.
struct NotebookEditJob {
    memory: FileKnowledge,
    services: Arc<SessionServices>,
    recorded: DurableBarrier,
    paths: PathContext,
    is_amended: bool,
    /// Path as given, for the user and programs.
    path: PathBuf,
    /// Path that the gate judged: the file that is written.
    target: PathBuf,
    input: NotebookEditInput,
}

impl NotebookEditJob {
    fn run(self) -> Result<ToolResult<NotebookEditOutput>, ToolError> {
        let Some(old) = load_for_change(&self.target, self.services.env())? else {
            return Err(ToolError::failed(file_path::missing_text(&self.path, &self.paths)));
        };
        let path = self.path.display().to_string();
        let refused = |why: String| ToolError::failed(format!("{path} was not changed: {why}."));
        let (hash, file) = hash_while(&old.bytes, || TextFile::decode(&old.bytes));
        let file = file.map_err(|error| refused(error.to_string()))?;
        let before = self.memory.read_state(&hash, file.text());
        match before {
            ReadState::Whole | ReadState::Parts => {}
            ReadState::Unread | ReadState::FirstPage => {
                return Err(refused("you have not read it. Read it first".to_owned()));
            }
            ReadState::Stale => return Err(refused("it changed since you read it. Read it again".to_owned())),
        }
        let notebook = ParsedNotebook::parse(file.raw()).map_err(|fault| refused(fault.to_string()))?;
        let edited = notebook.edit(&self.input.edit(), fresh_cell_id).map_err(|error| refused(error.to_string()))?;
        let language = notebook.language().to_owned();
        let stamp = self.write(&old, &file, &edited)?;
        let mode = self.input.mode();
        let EditedNotebook { text, cell_id, kind, old_source } = edited;
        let output = NotebookEditOutput {
            new_source: if mode == CellEditMode::Delete { String::new() } else { self.input.new_source },
            old_source,
            cell_id,
            cell_type: kind.name().to_owned(),
            language,
            edit_mode: mode,
            notebook_path: path.clone(),
            original_file: diff::original(file.raw()),
            updated_file: diff::original(&text),
            is_amended: self.is_amended,
        };
        let target = self.target;
        Ok(ToolResult::new(output)
            .with_change(move |session| read_state::record_write(&mut session.files, target, stamp, before)))
    }

    fn write(&self, old: &LoadedFile, file: &TextFile<'_>, edited: &EditedNotebook) -> Result<FileStamp, ToolError> {
        let bytes = file.encoding().encode(&edited.text);
        self.services.checkpoint_before_change(&self.target, Some((&old.bytes, old.metadata.mode())));
        let backups = self.services.results_dir().join("backups");
        let replace = || replace::replace(&self.target, old, &bytes, &backups, &self.recorded);
        let (hash, metadata) = hash_while(&bytes, replace);
        let stamp = FileStamp::new(hash, &metadata?);
        self.services.note_authorized_change(&self.target, Some(&old.bytes), Some(&bytes));
        Ok(stamp)
    }
}

/// Returns an id as Jupyter makes them.
fn fresh_cell_id() -> String {
    uuid::Uuid::new_v4().simple().to_string()[..8].to_owned()
}

#[cfg(test)]
#[path = "notebook_edit_tests.rs"]
mod notebook_edit_tests;
