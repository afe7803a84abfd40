//! Edit: replaces one piece of text in a file, or every occurrence of it.
//!
//! It never guesses: the match must be unambiguous, every inexact match is reported, and no byte outside the replaced
//! text changes.

mod closest_match;
mod edit_match;
pub(crate) mod edit_preview;
pub(crate) mod file_edit;
mod lenient_match;
mod text_replacer;
mod typography;

use std::borrow::Cow;
use std::path::Path;

use gimlet_core::tool::{
    AgentAvailability, InputProblem, InterruptBehavior, PathContext, PreviewContext, PromptContext, Tool, ToolContext,
    ToolError, ToolResult,
};
use gimlet_proto::{AccessNeed, DiffHunk, ResultContent, View};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::file_edit::TextReplacement;
use crate::text_file::file_path;

/// Codes of refused inputs, beside those of every file tool.
pub(crate) const NO_CHANGE: u32 = 20;
const NOTEBOOK: u32 = 21;

pub(crate) struct Edit;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EditInput {
    /// Absolute path of the file
    file_path: String,
    /// The text to replace
    old_string: String,
    /// What to put there
    new_string: String,
    /// Replace every occurrence
    #[serde(default)]
    replace_all: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EditOutput {
    file_path: String,
    old_string: String,
    new_string: String,
    original_file: Option<String>,
    structured_patch: Vec<DiffHunk>,
    user_modified: bool,
    replace_all: bool,
    /// Text for the model.
    #[serde(skip)]
    report: String,
}

impl Tool for Edit {
    const NAME: &'static str = "Edit";
    type Input = EditInput;
    type Output = EditOutput;

    fn prompt(&self, _cx: &PromptContext) -> Cow<'static, str> {
        Cow::Borrowed(include_str!("edit.md").trim_ascii_end())
    }

    fn needs(&self, input: &EditInput, cx: &PathContext) -> Vec<AccessNeed> {
        vec![AccessNeed::Write(cx.expand_path(Path::new(&input.file_path)))]
    }

    fn backfill_observable_input(&self, input: &mut EditInput, cx: &PathContext) {
        file_path::expand(&mut input.file_path, cx);
    }

    fn validate_input(&self, input: &EditInput, cx: &PathContext) -> Result<(), InputProblem> {
        if input.old_string == input.new_string {
            return Err(InputProblem::new(NO_CHANGE, "`old_string` and `new_string` are the same: nothing to change."));
        }
        check_file(&input.file_path, cx)
    }

    fn key_repairs(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("path", "file_path"),
            ("filePath", "file_path"),
            ("oldString", "old_string"),
            ("newString", "new_string"),
            ("replaceAll", "replace_all"),
        ]
    }

    async fn call(&self, input: EditInput, cx: &ToolContext) -> Result<ToolResult<EditOutput>, ToolError> {
        let EditInput { file_path, old_string, new_string, replace_all } = input;
        let wanted = TextReplacement { old_string, new_string, replace_all };
        let made = file_edit::apply_replacements(&file_path, vec![wanted.clone()], cx).await?;
        let told: Vec<String> = made.applied.iter().map(|applied| applied.report(&made.path)).collect();
        let report = made.report(told.join(" "), cx.is_input_edited());
        let change = made.state_update();
        let output = EditOutput {
            file_path: made.path,
            old_string: wanted.old_string,
            new_string: wanted.new_string,
            original_file: made.original,
            structured_patch: made.patch,
            user_modified: cx.is_input_edited(),
            replace_all: wanted.replace_all,
            report,
        };
        Ok(ToolResult::new(output).with_change(change))
    }

    fn to_blocks(&self, output: &EditOutput) -> ResultContent {
        output.report.as_str().into()
    }

    fn view(&self, _input: &EditInput, output: &EditOutput) -> View {
        View::Diff { path: output.file_path.clone(), hunks: output.structured_patch.clone() }
    }

    fn preview(&self, input: &EditInput, cx: &PreviewContext) -> View {
        let EditInput { file_path, old_string, new_string, replace_all } = input.clone();
        edit_preview::preview_replacements(&file_path, &[TextReplacement { old_string, new_string, replace_all }], cx)
    }

    fn auto_classifier_input(&self, input: &EditInput) -> String {
        format!("{}: replace {:?} by {:?}", input.file_path, input.old_string, input.new_string)
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
        "edit change replace modify text in file"
    }
}

/// Checks that a file of that name can be edited as text.
pub(crate) fn check_file(path: &str, cx: &PathContext) -> Result<(), InputProblem> {
    if file_path::is_notebook(Path::new(path)) {
        let text =
            format!("{path} is a notebook; change its cells with NotebookEdit if you have it, else with a script.");
        return Err(InputProblem::new(NOTEBOOK, text));
    }
    file_path::check(path, cx)
}

#[cfg(test)]
#[path = "edit/edit_tests.rs"]
mod edit_tests;
