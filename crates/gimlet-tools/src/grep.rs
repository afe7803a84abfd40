//! The Grep tool: searches file contents with ripgrep's libraries, in this process.
//!
//! It never counts as having read a file: what it shows of one is not enough to edit it safely.

mod file_filter;
mod file_sink;
mod grep_report;
mod regex_engine;
mod search;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use gimlet_core::tool::{
    AgentAvailability, InputProblem, PathContext, PromptContext, Tool, ToolContext, ToolError, ToolResult,
};
use gimlet_proto::{AccessNeed, ResultContent, View};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::file_sink::SinkOptions;
use self::grep_report::PageRange;
use self::regex_engine::{PatternOptions, RegexEngine};
use self::search::GrepRequest;
use crate::walk::{self, BoundedOutcome, SearchBase};

/// Default number of entries shown.
const HEAD_LIMIT: u32 = 250;

/// Searches file contents.
pub(crate) struct Grep;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GrepInput {
    /// Regular expression to look for.
    pattern: String,
    /// File or directory to search. Leave out for the working directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<PathBuf>,
    /// Only files whose name matches, e.g. `*.{ts,tsx}`; several separated by commas, `!` excludes.
    #[serde(skip_serializing_if = "Option::is_none")]
    glob: Option<String>,
    /// Only files of this ripgrep type: rust, py, js, go, ...
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    file_type: Option<String>,
    /// What to show: file names, matching lines, or counts per file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "files_with_matches"))]
    output_mode: Option<OutputMode>,
    /// Lines to show after each match (content mode).
    #[serde(rename = "-A", skip_serializing_if = "Option::is_none")]
    after: Option<u32>,
    /// Lines to show before each match (content mode).
    #[serde(rename = "-B", skip_serializing_if = "Option::is_none")]
    before: Option<u32>,
    /// Same as `context`.
    #[serde(rename = "-C", skip_serializing_if = "Option::is_none")]
    around: Option<u32>,
    /// Lines to show before and after each match (content mode); wins over -A and -B.
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<u32>,
    /// Show line numbers (content mode).
    #[serde(rename = "-n", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = true))]
    line_numbers: Option<bool>,
    /// Ignore case.
    #[serde(rename = "-i", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = false))]
    ignore_case: Option<bool>,
    /// Show only the matched parts of lines (content mode).
    #[serde(rename = "-o", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = false))]
    only_matching: Option<bool>,
    /// Show at most this many lines, files or counts; 0 for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = HEAD_LIMIT))]
    head_limit: Option<u32>,
    /// Skip this many lines, files or counts first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 0))]
    offset: Option<u32>,
    /// Let the pattern span lines; `.` then matches line breaks.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = false))]
    multiline: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OutputMode {
    Content,
    FilesWithMatches,
    Count,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GrepOutput {
    mode: OutputMode,
    num_files: usize,
    filenames: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    num_lines: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    num_matches: Option<u64>,
    total_files: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_lines: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    applied_limit: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    applied_offset: Option<usize>,
    /// Remarks for the model besides the entries.
    #[serde(skip)]
    remarks: Vec<String>,
}

impl GrepInput {
    fn mode(&self) -> OutputMode {
        self.output_mode.unwrap_or(OutputMode::FilesWithMatches)
    }

    fn base(&self, cx: &PathContext) -> PathBuf {
        self.path.as_deref().map_or_else(|| cx.cwd.clone(), |path| cx.expand_path(path))
    }

    fn paging(&self) -> PageRange {
        PageRange {
            offset: self.offset.unwrap_or(0) as usize,
            limit: match self.head_limit.unwrap_or(HEAD_LIMIT) {
                0 => None,
                limit => Some(limit as usize),
            },
        }
    }

    /// Returns the number of lines shown before and after a match.
    fn context_lines(&self) -> (usize, usize) {
        if self.mode() != OutputMode::Content {
            return (0, 0);
        }
        let around = self.around.or(self.context);
        let lines = |own: Option<u32>| around.or(own).unwrap_or(0) as usize;
        (lines(self.before), lines(self.after))
    }

    /// Returns a note about parameters that have no effect in this mode.
    fn ignored_parameters_note(&self) -> Option<String> {
        if self.mode() == OutputMode::Content {
            return None;
        }
        let counts = [("-A", self.after), ("-B", self.before), ("-C", self.around), ("context", self.context)];
        let mut names: Vec<&str> =
            counts.iter().filter(|(_, value)| value.is_some_and(|lines| lines > 0)).map(|(name, _)| *name).collect();
        if self.only_matching == Some(true) {
            names.push("-o");
        }
        (!names.is_empty()).then(|| format!("Ignored, only for output_mode content: {}.", names.join(", ")))
    }

    fn request(&self, cx: &ToolContext) -> Result<GrepRequest, ToolError> {
        let multiline = self.multiline == Some(true);
        let options = PatternOptions { ignore_case: self.ignore_case == Some(true), multiline };
        let base = SearchBase::new(self.base(&cx.paths), cx);
        let prefix = base.display_path.strip_prefix(&cx.paths.cwd).unwrap_or(Path::new(""));
        let globs = self.glob.as_deref().map(|list| file_filter::globs(list, &base.real_path, prefix)).transpose()?;
        let (before, after) = self.context_lines();
        Ok(GrepRequest {
            engine: RegexEngine::new(&self.pattern, options)?,
            globs,
            types: self.file_type.as_deref().map(file_filter::file_type).transpose()?,
            taking: SinkOptions {
                mode: self.mode(),
                numbers: self.line_numbers != Some(false),
                only_matching: self.only_matching == Some(true),
                most_lines: self.paging().end(),
                most_bytes: search::MOST_TEXT,
            },
            multiline,
            before,
            after,
            base,
        })
    }
}

impl Tool for Grep {
    const NAME: &'static str = "Grep";
    type Input = GrepInput;
    type Output = GrepOutput;

    fn prompt(&self, _cx: &PromptContext) -> Cow<'static, str> {
        "Searches file contents with ripgrep's engine; prefer it to running grep or rg in a shell. The pattern is a \
         regular expression: escape braces and other special characters to match them as text, as in \
         `interface\\{\\}`. Look-around and backreferences work. By default it lists the files that match, newest \
         first; output_mode \"content\" shows the lines and \"count\" the number of matches per file. Git-ignored \
         and binary files are skipped unless `path` names one; hidden files are searched. Results are paged by \
         head_limit and offset, and totals are always given. Patterns match within a line unless multiline is set."
            .into()
    }

    fn agent_availability(&self) -> AgentAvailability {
        AgentAvailability::Always
    }

    fn search_hint(&self) -> &'static str {
        "search file contents by regular expression"
    }

    fn needs(&self, input: &GrepInput, cx: &PathContext) -> Vec<AccessNeed> {
        vec![AccessNeed::Read(input.base(cx))]
    }

    fn backfill_observable_input(&self, input: &mut GrepInput, cx: &PathContext) {
        walk::expand_path(&mut input.path, cx);
    }

    fn validate_input(&self, input: &GrepInput, cx: &PathContext) -> Result<(), InputProblem> {
        walk::check_path(input.path.as_deref(), cx)?;
        walk::check_no_nul("glob", input.glob.as_deref().unwrap_or_default())?;
        match input.pattern.is_empty() {
            true => Err(InputProblem::new(3, "`pattern` is empty; to list files, use Glob")),
            false => Ok(()),
        }
    }

    fn description(&self, input: &GrepInput, cx: &PathContext) -> String {
        match &input.path {
            Some(path) => format!("{} in {}", input.pattern, cx.display(path)),
            None => input.pattern.clone(),
        }
    }

    async fn call(&self, input: GrepInput, cx: &ToolContext) -> Result<ToolResult<GrepOutput>, ToolError> {
        let request = input.request(cx)?;
        let base = request.base.clone();
        let separators = request.separators();
        let limit = walk::time_limit(&cx.paths.env);
        let findings = match walk::run_bounded(limit, &cx.cancel, move |stop| search::run(&request, &stop)).await {
            BoundedOutcome::Finished(Ok(findings)) => findings,
            BoundedOutcome::Finished(Err(error)) => {
                return Err(walk::missing_base(&base.display_path, &error, &cx.paths));
            }
            BoundedOutcome::TimedOut => return Err(walk::timed_out(limit)),
            BoundedOutcome::Cancelled => return Err(walk::interrupted()),
        };
        let output = grep_report::GrepReport {
            mode: input.mode(),
            paging: input.paging(),
            separators,
            pattern: &input.pattern,
            base: &base,
            paths: &cx.paths,
        }
        .output(findings, input.ignored_parameters_note());
        Ok(ToolResult::new(output))
    }

    fn auto_classifier_input(&self, input: &GrepInput) -> String {
        match &input.path {
            Some(path) => format!("{} in {}", input.pattern, path.display()),
            None => input.pattern.clone(),
        }
    }

    fn parse_output(&self, json: &str) -> Option<GrepOutput> {
        serde_json::from_str(json).ok()
    }

    fn to_blocks(&self, output: &GrepOutput) -> ResultContent {
        grep_report::format_for_model(output).into()
    }

    fn view(&self, _input: &GrepInput, output: &GrepOutput) -> View {
        match output.mode {
            OutputMode::FilesWithMatches => {
                let note = (!output.remarks.is_empty()).then(|| output.remarks.join(" "));
                View::Files { paths: output.filenames.clone(), note }
            }
            OutputMode::Content | OutputMode::Count => View::Text(grep_report::format_for_model(output)),
        }
    }
}
