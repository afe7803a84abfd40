//! MultiEdit: several edits of one file in one call, all of them or none. Models know it from elsewhere, and old
//! transcripts use it, so it can be called; it is not offered, because several Edit calls do as well.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::path::Path;

use gimlet_core::text_diff;
use gimlet_core::tool::{
    AgentAvailability, InputProblem, InterruptBehavior, PathContext, PreviewContext, PromptContext, Tool, ToolContext,
    ToolError, ToolResult,
};
use gimlet_proto::{AccessNeed, DiffHunk, ResultContent, View};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::edit::file_edit::{self, TextReplacement};
use crate::edit::{NO_CHANGE, check_file, edit_preview};

/// Codes of refused inputs, beside those of Edit.
const NO_EDITS: u32 = 30;
const EMPTY_OLD: u32 = 31;
const OVERLAP: u32 = 32;

pub(crate) struct MultiEdit;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MultiEditInput {
    /// Absolute path of the file
    file_path: String,
    /// The edits, in their order
    edits: Vec<TextReplacement>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct MultiEditOutput {
    message: String,
    edits_applied: usize,
    file_path: String,
    /// Diff for the user.
    #[serde(skip)]
    patch: Vec<DiffHunk>,
}

impl Tool for MultiEdit {
    const NAME: &'static str = "MultiEdit";
    type Input = MultiEditInput;
    type Output = MultiEditOutput;

    fn prompt(&self, _cx: &PromptContext) -> Cow<'static, str> {
        "Makes several edits of one file, each as Edit would, one after the other on what the one before it left. If one \
         of them does not apply, none is made."
            .into()
    }

    fn is_hidden(&self) -> bool {
        true
    }

    fn needs(&self, input: &MultiEditInput, cx: &PathContext) -> Vec<AccessNeed> {
        vec![AccessNeed::Write(cx.expand_path(Path::new(&input.file_path)))]
    }

    fn backfill_observable_input(&self, input: &mut MultiEditInput, cx: &PathContext) {
        crate::text_file::file_path::expand(&mut input.file_path, cx);
    }

    fn validate_input(&self, input: &MultiEditInput, cx: &PathContext) -> Result<(), InputProblem> {
        if input.edits.is_empty() {
            return Err(InputProblem::new(NO_EDITS, "`edits` is empty: nothing to change."));
        }
        for (index, edit) in input.edits.iter().enumerate() {
            check_edit(index, edit, &input.edits[..index])?;
        }
        check_file(&input.file_path, cx)
    }

    fn key_repairs(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("path", "file_path"),
            ("filePath", "file_path"),
            ("edits[].oldString", "old_string"),
            ("edits[].newString", "new_string"),
            ("edits[].replaceAll", "replace_all"),
        ]
    }

    async fn call(&self, input: MultiEditInput, cx: &ToolContext) -> Result<ToolResult<MultiEditOutput>, ToolError> {
        let made = file_edit::apply_replacements(&input.file_path, input.edits, cx).await?;
        let count = made.applied.len();
        let mut message = format!("Edited {} with {count} {}:", made.path, if count == 1 { "edit" } else { "edits" });
        for (index, applied) in made.applied.iter().enumerate() {
            // Writing to a string cannot fail.
            let _ = write!(message, "\n{}. {}", index + 1, applied.item());
        }
        let message = made.report(message, cx.is_input_edited());
        let change = made.state_update();
        let output = MultiEditOutput { message, edits_applied: count, file_path: made.path, patch: made.patch };
        Ok(ToolResult::new(output).with_change(change))
    }

    fn to_blocks(&self, output: &MultiEditOutput) -> ResultContent {
        output.message.as_str().into()
    }

    fn view(&self, input: &MultiEditInput, output: &MultiEditOutput) -> View {
        let mut hunks = output.patch.clone();
        if hunks.is_empty() {
            // The diff is not part of a recorded output; the replaced texts are.
            hunks = input.edits.iter().flat_map(|edit| text_diff::hunks(&edit.old_string, &edit.new_string)).collect();
        }
        View::Diff { path: output.file_path.clone(), hunks }
    }

    fn preview(&self, input: &MultiEditInput, cx: &PreviewContext) -> View {
        edit_preview::preview_replacements(&input.file_path, &input.edits, cx)
    }

    fn auto_classifier_input(&self, input: &MultiEditInput) -> String {
        let made = |edit: &TextReplacement| format!("replace {:?} by {:?}", edit.old_string, edit.new_string);
        let all: Vec<String> = input.edits.iter().map(made).collect();
        format!("{}: {}", input.file_path, all.join("; "))
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
        "several edits of one file at once"
    }
}

/// Checks an edit without the file, given the edits before it.
fn check_edit(index: usize, edit: &TextReplacement, earlier: &[TextReplacement]) -> Result<(), InputProblem> {
    let number = index + 1;
    if edit.old_string == edit.new_string {
        let text = format!("Edit {number}: `old_string` and `new_string` are the same, so there is nothing to change.");
        return Err(InputProblem::new(NO_CHANGE, text));
    }
    if edit.old_string.is_empty() {
        return match earlier {
            [] => Ok(()),
            _ => {
                let text = format!("Edit {number}: only the first edit may have an empty `old_string`.");
                Err(InputProblem::new(EMPTY_OLD, text))
            }
        };
    }
    match earlier.iter().position(|before| before.new_string.contains(&edit.old_string)) {
        Some(before) => {
            let text = format!(
                "Edit {number}: its `old_string` is part of the `new_string` of edit {}. Say in that one what is to \
                 stand there in the end.",
                before + 1
            );
            Err(InputProblem::new(OVERLAP, text))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::harness::{ToolBench, ToolCallResult};
    use crate::read::Read;

    fn one(old: &str, new: &str) -> Value {
        json!({"old_string": old, "new_string": new})
    }

    async fn known(content: &str) -> ToolBench {
        let mut bench = ToolBench::new();
        let path = bench.file("f", content);
        bench.call(&Read, json!({"file_path": path})).await.unwrap();
        bench
    }

    async fn edit(bench: &mut ToolBench, edits: Value) -> Result<ToolCallResult, ToolError> {
        let path = bench.path("f");
        bench.call(&MultiEdit, json!({"file_path": path, "edits": edits})).await
    }

    #[tokio::test]
    async fn edits_follow_each_other_and_are_one_write() {
        let mut bench = known("a\r\nb\r\nb\r\n\u{201C}c\u{201D}\r\n").await;
        let all = json!({"oldString": "b", "new_string": "d", "replaceAll": true});
        let given = edit(&mut bench, json!([one("a\n", "x\ny\n"), all, one("\"c\"", "e")])).await.unwrap();
        assert_eq!(bench.text("f"), "x\r\ny\r\nd\r\nd\r\ne\r\n");
        let path = bench.path("f").display().to_string();
        assert!(
            given.text.starts_with(&format!(
                "Edited {path} with 3 edits:\n1. line 1.\n2. 2 replacements.\n3. line 5. The file has other quotes"
            )),
            "{}",
            given.text
        );
        assert_eq!(given.output, json!({"message": given.text, "edits_applied": 3, "file_path": path}));
        assert!(matches!(given.view, View::Diff { hunks, .. } if hunks.len() == 1));
        edit(&mut bench, json!([one("e", "f")])).await.unwrap();
    }

    #[tokio::test]
    async fn one_that_does_not_apply_keeps_all_from_being_made() {
        let mut bench = known("a\nb\nb\n").await;
        for (last, part) in [(one("zzz", "y"), "not found"), (one("b", "y"), "found 2 times")] {
            let error = edit(&mut bench, json!([one("a", "x"), last])).await.unwrap_err().model_text;
            assert!(error.starts_with("Edit 2 of 2: ") && error.contains(part), "{error}");
            assert!(error.ends_with("None of the edits was made."), "{error}");
        }
        let gone = edit(&mut bench, json!([one("a", "x"), one("a", "y")])).await.unwrap_err().model_text;
        assert!(gone.contains("Edit 2 of 2: `old_string` was not found"), "{gone}");
        assert_eq!((bench.text("f").as_str(), bench.names()), ("a\nb\nb\n", vec!["f".to_owned()]));
    }

    #[tokio::test]
    async fn a_file_must_be_known_or_new() {
        let mut bench = ToolBench::new();
        edit(&mut bench, json!([one("", "a\nb\n")])).await.unwrap();
        assert_eq!(bench.text("f"), "a\nb\n");
        bench.file("f", "other\n");
        bench.state.files = Default::default();
        let error = edit(&mut bench, json!([one("other", "x"), one("a", "b")])).await.unwrap_err().model_text;
        assert!(error.contains("has not been read"), "{error}");
    }

    #[test]
    fn what_cannot_be_meant_is_refused_before_anything_is_asked() {
        let bench = ToolBench::new();
        for (edits, part) in [
            (json!([]), "is empty"),
            (json!([one("a", "b"), one("c", "c")]), "Edit 2: `old_string` and `new_string` are the same"),
            (json!([one("a", "b"), one("", "c")]), "only the first"),
            (
                json!([one("a", "b c"), one("x", "y"), one("c", "d")]),
                "Edit 3: its `old_string` is part of the `new_string` of edit 1",
            ),
            (json!([{"old_string": "a", "new_string": "b", "all": true}]), "`edits[0].all`"),
        ] {
            let input = json!({"file_path": "f", "edits": edits});
            let error = bench.prepare(&MultiEdit, input).unwrap_err().model_text;
            assert!(error.contains(part), "{error}");
        }
        let notebook = json!({"file_path": "a.ipynb", "edits": [one("a", "b")]});
        assert!(bench.prepare(&MultiEdit, notebook).unwrap_err().model_text.contains("NotebookEdit"));
        let needs = bench.prepare(&MultiEdit, json!({"path": "f", "edits": [one("a", "b")]})).unwrap().0;
        assert_eq!(needs, [AccessNeed::Write(bench.path("f"))]);
    }
}
