//! The Glob tool: finds files by name, the most recently changed first.
//!
//! It uses names and times only and never opens a file.

mod file_pattern;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use gimlet_core::tool::{
    AgentAvailability, InputProblem, PathContext, PromptContext, Tool, ToolContext, ToolError, ToolResult,
};
use gimlet_proto::{AccessNeed, ResultContent, View};
use ignore::DirEntry;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::file_pattern::FilePattern;
use crate::walk::{self, BoundedOutcome, IgnoreFiles, SearchBase, SortedPage, StopFlag, UnreadFiles};

/// Most files that one call lists.
const MOST_FILES: usize = 100;

/// Directories of dependencies and build products: entered only when the call names them.
const HEAVY_DIRS: [&str; 3] = ["node_modules", "target", ".venv"];

/// On unless turned off: list files that ignore files exclude.
const NO_IGNORE: &str = "CLAUDE_CODE_GLOB_NO_IGNORE";
/// On unless turned off: list hidden files.
const HIDDEN: &str = "CLAUDE_CODE_GLOB_HIDDEN";

/// Finds files by name.
pub(crate) struct Glob;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GlobInput {
    /// Glob pattern, relative to `path` or absolute.
    pattern: String,
    /// Directory to search. Leave out for the working directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<PathBuf>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GlobOutput {
    duration_ms: u64,
    num_files: usize,
    filenames: Vec<String>,
    truncated: bool,
    total_matches: usize,
    count_is_complete: bool,
    /// Remarks for the model besides the list.
    #[serde(skip)]
    remarks: Vec<String>,
}

impl Tool for Glob {
    const NAME: &'static str = "Glob";
    type Input = GlobInput;
    type Output = GlobOutput;

    fn prompt(&self, cx: &PromptContext) -> Cow<'static, str> {
        let text = "Finds files by name pattern and lists up to 100 of them, newest first. `**` crosses directories, so \
         `**/*.ts` looks everywhere and `*.ts` only in the directory itself; `?`, `[a-z]` and `{js,ts}` work too. \
         To look for text inside files, use Grep.";
        match walk::is_off(&cx.env, NO_IGNORE) || walk::is_off(&cx.env, HIDDEN) {
            true => text.into(),
            false => format!("{text} Hidden and git-ignored files are included.").into(),
        }
    }

    fn agent_availability(&self) -> AgentAvailability {
        AgentAvailability::Always
    }

    fn search_hint(&self) -> &'static str {
        "find files by name pattern"
    }

    fn needs(&self, input: &GlobInput, cx: &PathContext) -> Vec<AccessNeed> {
        vec![AccessNeed::Read(file_pattern::split(&input.pattern, &directory(input, cx), cx).0)]
    }

    fn backfill_observable_input(&self, input: &mut GlobInput, cx: &PathContext) {
        walk::expand_path(&mut input.path, cx);
    }

    fn validate_input(&self, input: &GlobInput, cx: &PathContext) -> Result<(), InputProblem> {
        walk::check_path(input.path.as_deref(), cx)?;
        walk::check_no_nul("pattern", &input.pattern)?;
        match input.pattern.is_empty() {
            true => Err(InputProblem::new(3, "`pattern` is empty; `**/*` matches every file")),
            false => Ok(()),
        }
    }

    fn description(&self, input: &GlobInput, cx: &PathContext) -> String {
        match &input.path {
            Some(path) => format!("{} in {}", input.pattern, cx.display(path)),
            None => input.pattern.clone(),
        }
    }

    async fn call(&self, input: GlobInput, cx: &ToolContext) -> Result<ToolResult<GlobOutput>, ToolError> {
        find_files(input, cx, walk::time_limit(&cx.paths.env)).await.map(ToolResult::new)
    }

    fn auto_classifier_input(&self, input: &GlobInput) -> String {
        match &input.path {
            Some(path) => format!("{} in {}", input.pattern, path.display()),
            None => input.pattern.clone(),
        }
    }

    fn parse_output(&self, json: &str) -> Option<GlobOutput> {
        serde_json::from_str(json).ok()
    }

    fn to_blocks(&self, output: &GlobOutput) -> ResultContent {
        let mut text = output.filenames.join("\n");
        if !text.is_empty() && !output.remarks.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(&output.remarks.join("\n"));
        text.into()
    }

    fn view(&self, _input: &GlobInput, output: &GlobOutput) -> View {
        let note = (!output.remarks.is_empty()).then(|| output.remarks.join(" "));
        View::Files { paths: output.filenames.clone(), note }
    }
}

/// Returns the directory that the pattern is relative to.
fn directory(input: &GlobInput, cx: &PathContext) -> PathBuf {
    input.path.as_deref().map_or_else(|| cx.cwd.clone(), |path| cx.expand_path(path))
}

async fn find_files(input: GlobInput, cx: &ToolContext, limit: Duration) -> Result<GlobOutput, ToolError> {
    let directory = directory(&input, &cx.paths);
    let (base, rest) = file_pattern::split(&input.pattern, &directory, &cx.paths);
    let named = FilePattern::new(rest).map_err(|error| {
        let hint = "Braces and brackets must be closed; put a backslash before one that is part of a name.";
        ToolError::input(format!("The glob `{}` is not valid: {error}. {hint}", input.pattern))
    })?;
    let search = Arc::new(GlobSearch::new(SearchBase::new(base, cx), named, &cx.paths));
    let (worker, given) = (search.clone(), cx.resolved_path(&directory).to_owned());
    let ending = walk::run_bounded(limit, &cx.cancel, move |stop| {
        check_directory(&given)?;
        worker.run(&stop);
        Ok(())
    })
    .await;
    let is_complete = match ending {
        BoundedOutcome::Finished(Ok(())) => true,
        BoundedOutcome::Finished(Err(error)) => return Err(walk::missing_base(&directory, &error, &cx.paths)),
        BoundedOutcome::TimedOut => false,
        BoundedOutcome::Cancelled => return Err(walk::interrupted()),
    };
    Ok(search.output(&input.pattern, cx, (!is_complete).then_some(limit)))
}

/// Returns an error if a requested directory is missing; one that only the pattern names may be absent.
fn check_directory(path: &Path) -> std::io::Result<()> {
    match std::fs::metadata(path)?.is_dir() {
        true => Ok(()),
        false => Err(std::io::Error::new(std::io::ErrorKind::NotADirectory, "it is a file, not a directory")),
    }
}

/// Newest first, ties by path.
type GlobSortKey = (Reverse<SystemTime>, PathBuf);

/// One search and what it has found so far; shared, so that a search that ran out of time still has its findings.
struct GlobSearch {
    base: SearchBase,
    pattern: FilePattern,
    ignore_files: IgnoreFiles,
    see_hidden: bool,
    found: Mutex<SortedPage<GlobSortKey, ()>>,
    unread: UnreadFiles,
    left_out_heavy: Arc<AtomicBool>,
}

impl GlobSearch {
    fn new(base: SearchBase, pattern: FilePattern, cx: &PathContext) -> Self {
        let obeys = walk::is_off(&cx.env, NO_IGNORE);
        Self {
            base,
            pattern,
            ignore_files: if obeys { IgnoreFiles::Obey } else { IgnoreFiles::Disregard },
            see_hidden: !walk::is_off(&cx.env, HIDDEN),
            found: Mutex::new(SortedPage::new(MOST_FILES, usize::MAX)),
            unread: UnreadFiles::default(),
            left_out_heavy: Arc::default(),
        }
    }

    fn found(&self) -> MutexGuard<'_, SortedPage<GlobSortKey, ()>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, stop: &StopFlag) {
        // The walk reports a missing root as unreadable, but a pattern may name a directory that does not exist.
        if !self.base.real_path.is_dir() {
            return;
        }
        let enters_heavy =
            HEAVY_DIRS.map(|name| self.pattern.names(name) || has_component(&self.base.display_path, name));
        let left_out = self.left_out_heavy.clone();
        let mut walk = walk::builder(&self.base, self.ignore_files, move |entry| {
            let heavy = HEAVY_DIRS.iter().position(|name| entry.file_name() == *name);
            let enters = heavy.is_none_or(|index| enters_heavy[index]);
            if !enters {
                left_out.store(true, Ordering::Relaxed);
            }
            enters
        });
        walk.hidden(!self.see_hidden).max_depth(self.pattern.depth());
        walk::run(&walk, stop, &self.unread, || |entry: &DirEntry| self.visit(entry));
    }

    fn visit(&self, entry: &DirEntry) {
        let path = entry.path();
        let relative = self.base.relative(path);
        let is_dir = entry.file_type().is_none_or(|kind| kind.is_dir());
        if is_dir || !self.pattern.is_match(relative) {
            return;
        }
        // Follows a symlink: one to a file is listed like a file, a dangling one is not.
        match std::fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(metadata) => {
                let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                self.found().add((Reverse(modified), relative.to_owned()), (), 1, 0);
            }
            Err(_) if entry.path_is_symlink() => {}
            Err(error) => self.unread.record_error(&format!("{}: {error}", path.display())),
        }
    }

    /// Returns the results. `ran_out_of` is the timeout if it ended the search.
    fn output(&self, pattern: &str, cx: &ToolContext, ran_out_of: Option<Duration>) -> GlobOutput {
        let found = std::mem::replace(&mut *self.found(), SortedPage::new(0, 0));
        let total = found.total_values();
        let filenames: Vec<String> =
            found.into_kept().map(|((_, path), ())| self.base.show(&path, &cx.paths)).collect();
        GlobOutput {
            duration_ms: cx.elapsed_ms(),
            num_files: filenames.len(),
            truncated: filenames.len() < total || ran_out_of.is_some(),
            total_matches: total,
            count_is_complete: ran_out_of.is_none(),
            remarks: self.remarks(pattern, filenames.len(), total, ran_out_of),
            filenames,
        }
    }

    fn remarks(&self, pattern: &str, shown: usize, total: usize, ran_out_of: Option<Duration>) -> Vec<String> {
        let mut remarks = Vec::new();
        if let Some(limit) = ran_out_of {
            remarks.push(format!(
                "Stopped after {} s: {total} matches so far, there may be more. Search a narrower path or pattern.",
                limit.as_secs()
            ));
        } else if total == 0 {
            let hint = match pattern.contains('/') {
                true => String::new(),
                false => format!(" This pattern looks in one directory only; `**/{pattern}` looks below it too."),
            };
            remarks.push(format!("No file in {} matches `{pattern}`.{hint}", self.base.display_path.display()));
        }
        if shown < total {
            remarks.push(format!(
                "Showing the {shown} most recently changed of {total} matches. A narrower pattern shows the others."
            ));
        }
        if total == 0 && self.left_out_heavy.load(Ordering::Relaxed) {
            remarks.push(format!("Not searched because the pattern does not name them: {}.", HEAVY_DIRS.join(", ")));
        }
        remarks.extend(self.unread.summary());
        remarks
    }
}

fn has_component(path: &Path, name: &str) -> bool {
    path.components().any(|part| part.as_os_str() == name)
}
