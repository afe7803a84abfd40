//! Edit: replaces one piece of text in a file, or every occurrence of it.
//!
//! It never guesses: the text must be found beyond doubt, every departure from an exact match is told, and no byte
//! outside the replaced text changes.

mod closest;
mod fold;
mod lenient;
mod matching;

use std::borrow::Cow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gimlet_core::files::{ContentHash, Stamp, hash_beside};
use gimlet_core::tool::{
    ForAgents, InputProblem, OnInterrupt, PathContext, PromptContext, Tool, ToolContext, ToolError, ToolResult,
};
use gimlet_core::{Recorded, Services};
use gimlet_proto::{DiffHunk, Need, ResultContent, View};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::matching::{Found, How, NoMatch, Wanted};
use crate::diff;
use crate::text_file::open::{Loaded, load_for_change};
use crate::text_file::standing::{self, Memory, Standing};
use crate::text_file::{Splice, TextFile, file_path, lock, normalised, replace};

/// Codes of refused inputs, beside those of every file tool.
const NO_CHANGE: u32 = 20;
const NOTEBOOK: u32 = 21;

/// Lines named when a text is found too often.
const MOST_NAMED: usize = 10;

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

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EditOutput {
    file_path: String,
    old_string: String,
    new_string: String,
    original_file: Option<String>,
    structured_patch: Vec<DiffHunk>,
    user_modified: bool,
    replace_all: bool,
    /// What the model is told.
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

    fn needs(&self, input: &EditInput, cx: &PathContext) -> Vec<Need> {
        vec![Need::Write(cx.expand(Path::new(&input.file_path)))]
    }

    fn backfill_observable_input(&self, input: &mut EditInput, cx: &PathContext) {
        file_path::expand(&mut input.file_path, cx);
    }

    fn validate_input(&self, input: &EditInput, cx: &PathContext) -> Result<(), InputProblem> {
        if input.old_string == input.new_string {
            return Err(InputProblem::new(NO_CHANGE, "`old_string` and `new_string` are the same: nothing to change."));
        }
        if file_path::is_notebook(Path::new(&input.file_path)) {
            let text = format!(
                "{} is a notebook; change its cells with NotebookEdit if you have it, else with a script.",
                input.file_path
            );
            return Err(InputProblem::new(NOTEBOOK, text));
        }
        file_path::check(&input.file_path, cx)
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
        let path = cx.paths.expand(Path::new(&input.file_path));
        let target = cx.target(&path).to_owned();
        if file_path::is_special(&target) {
            return Err(ToolError::failed(file_path::special_text(&target.display().to_string())));
        }
        let held = lock::acquire(&cx.services, &target).await;
        let job = Job {
            memory: Memory::of(&target, cx),
            services: cx.services.clone(),
            recorded: cx.recorded(),
            lenient: cx.services.env.flag("GIMLET_EDIT_LENIENT"),
            reads_unasked: cx.reads_unasked(&target),
            paths: cx.paths.clone(),
            path,
            target,
            input,
        };
        // The lock moves along: it is held until the file is done, even if nobody waits for the result any more.
        let running = tokio::task::spawn_blocking(move || {
            let result = job.run();
            drop(held);
            result
        });
        running.await.unwrap_or_else(|error| Err(ToolError::failed(format!("The edit ended abnormally: {error}"))))
    }

    fn to_blocks(&self, output: &EditOutput) -> ResultContent {
        output.report.as_str().into()
    }

    fn view(&self, _input: &EditInput, output: &EditOutput) -> View {
        View::Diff { path: output.file_path.clone(), hunks: output.structured_patch.clone() }
    }

    fn auto_classifier_input(&self, input: &EditInput) -> String {
        format!("{}: {}", input.file_path, input.new_string)
    }

    fn on_interrupt(&self) -> OnInterrupt {
        OnInterrupt::FinishAtomically
    }

    fn eager_input(&self) -> bool {
        true
    }

    /// The new content is written beside the old one; only putting it in its place waits.
    fn begins_unrecorded(&self) -> bool {
        true
    }

    fn for_agents(&self) -> ForAgents {
        ForAgents::Always
    }

    fn search_hint(&self) -> &'static str {
        "edit change replace modify text in file"
    }
}

/// One edit, ready to run on a thread that may block.
struct Job {
    memory: Memory,
    services: Arc<Services>,
    recorded: Recorded,
    lenient: bool,
    /// The model may look at the file whenever it wants to.
    reads_unasked: bool,
    paths: PathContext,
    /// As spelled, for people and programs.
    path: PathBuf,
    /// What the gate judged: the file that is written.
    target: PathBuf,
    input: EditInput,
}

/// An edit that was made.
struct Made {
    stamp: Stamp,
    /// What the model knew before.
    before: Standing,
    original: Option<String>,
    patch: Vec<DiffHunk>,
    report: String,
}

impl Job {
    fn run(self) -> Result<ToolResult<EditOutput>, ToolError> {
        let made = match load_for_change(&self.target, &self.services.env)? {
            None if self.input.old_string.is_empty() => self.create()?,
            None => return Err(ToolError::failed(file_path::missing_text(&self.path, &self.paths))),
            Some(old) => self.change(&old)?,
        };
        let Self { path, target, input, .. } = self;
        let Made { stamp, before, original, patch, report } = made;
        let output = EditOutput {
            file_path: path.display().to_string(),
            old_string: input.old_string,
            new_string: input.new_string,
            original_file: original,
            structured_patch: patch,
            user_modified: false,
            replace_all: input.replace_all,
            report,
        };
        Ok(ToolResult::new(output)
            .with_change(move |session| standing::record(&mut session.files, target, stamp, before)))
    }

    fn create(&self) -> Result<Made, ToolError> {
        let content = &self.input.new_string;
        self.services.before_change(&self.target, None);
        let metadata = replace::create(&self.target, content.as_bytes(), &self.recorded)?;
        Ok(Made {
            stamp: Stamp::of(content.as_bytes(), &metadata),
            before: Standing::Whole,
            original: None,
            patch: diff::hunks("", content),
            report: format!("Created {}.", self.path.display()),
        })
    }

    fn change(&self, old: &Loaded) -> Result<Made, ToolError> {
        let path = self.path.display();
        let (hash, file) = hash_beside(&old.bytes, || TextFile::decode(&old.bytes));
        let file = file.map_err(|error| {
            ToolError::failed(format!("{path} cannot be edited: {error}. Convert its encoding first."))
        })?;
        let (splices, before, mut report) = if self.input.old_string.is_empty() {
            (vec![self.fill(&file)?], Standing::Whole, format!("Filled {path}, which was empty."))
        } else {
            self.find(&file, &hash)?
        };
        let raw = file.spliced(&splices);
        let bytes = file.encoding().encode(&raw);
        let stamp = if bytes == old.bytes {
            report.push_str(" The file already had that text; nothing changed.");
            Stamp::new(hash, &old.metadata)
        } else {
            self.services.before_change(&self.target, Some((&old.bytes, old.metadata.mode())));
            let backups = self.services.results_dir.join("backups");
            let replace = || replace::replace(&self.target, old, &bytes, &backups, &self.recorded);
            let (hash, metadata) = hash_beside(&bytes, replace);
            Stamp::new(hash, &metadata?)
        };
        Ok(Made { stamp, before, patch: diff::hunks(file.raw(), &raw), original: diff::original(file.raw()), report })
    }

    /// Fills a file that has nothing but blanks.
    fn fill(&self, file: &TextFile<'_>) -> Result<Splice, ToolError> {
        if !file.text().trim().is_empty() {
            return Err(ToolError::input(format!(
                "{} is not empty, and an empty `old_string` is only for new or empty files. Name the text to replace, \
                 or use Write to replace the whole file.",
                self.path.display()
            )));
        }
        Ok(Splice { range: 0..file.text().len(), with: normalised(&self.input.new_string).into_owned() })
    }

    /// Finds the place, judged together with what the model knows of the file.
    fn find(&self, file: &TextFile<'_>, hash: &ContentHash) -> Result<(Vec<Splice>, Standing, String), ToolError> {
        let path = self.path.display();
        let text = file.text();
        let before = self.memory.judge(hash, text);
        let is_unread = before == Standing::Unread && !self.memory.is_trusted();
        if is_unread || before == Standing::FirstPage {
            return Err(ToolError::failed(format!(
                "{path} has not been read, or only its first page. Read it, or the region around the change \
                 (`offset` and `limit`), then edit."
            )));
        }
        let (old_string, new_string) = (normalised(&self.input.old_string), normalised(&self.input.new_string));
        let wanted = Wanted {
            old: &old_string,
            new: &new_string,
            replace_all: self.input.replace_all,
            lenient: self.lenient && before != Standing::Stale,
        };
        let found = matching::find(text, wanted);
        if before == Standing::Stale && !self.reads_unasked {
            return Err(ToolError::failed(format!(
                "{path} changed since you read it, and its present content may not be looked at unasked. Read it again, \
                 then edit."
            )));
        }
        if before == Standing::Stale && !is_certain(&found) {
            return Err(ToolError::failed(format!(
                "{path} changed since you read it, and the edit does not fit its present content beyond doubt. Read it \
                 again, then edit."
            )));
        }
        let found = found.map_err(|problem| self.explain(text, wanted, problem))?;
        let mut report = report(&path.to_string(), text, &found);
        if before == Standing::Stale {
            report.push_str(" The file had other changes since you read it; they are kept.");
        }
        Ok((found.splices, before, report))
    }

    fn explain(&self, text: &str, wanted: Wanted<'_>, problem: NoMatch) -> ToolError {
        let path = self.path.display();
        match problem {
            NoMatch::Ambiguous { lines, how } => {
                let named: Vec<String> = lines.iter().take(MOST_NAMED).map(usize::to_string).collect();
                let more = if lines.len() > MOST_NAMED { " and more" } else { "" };
                let alike = if how == How::Typography { " but for the form of quotes, dashes or spaces" } else { "" };
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
                if let Some(closest) = closest::describe(text, wanted.old) {
                    message.push(' ');
                    message.push_str(&closest);
                }
                ToolError::failed(message)
            }
        }
    }
}

/// On a file with other content than the model saw, only an exact match at a single place is safe.
fn is_certain(found: &Result<Found, NoMatch>) -> bool {
    found.as_ref().is_ok_and(|found| found.how == How::Exact && found.splices.len() == 1)
}

fn report(path: &str, text: &str, found: &Found) -> String {
    let mut report = match found.splices.as_slice() {
        [only] => format!("Edited {path} at line {}.", matching::line_of(text, only.range.start)),
        many => format!("Edited {path}: {} replacements.", many.len()),
    };
    if let Some(note) = found.how.note() {
        report.push(' ');
        report.push_str(note);
    }
    report
}

#[cfg(test)]
#[path = "edit/edit_tests.rs"]
mod edit_tests;
