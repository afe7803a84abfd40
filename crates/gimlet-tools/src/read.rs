//! Read: a text file or a range of its lines, numbered, within a token budget.
//!
//! It never blocks on special files, never holds more of a file than it shows, and reports every truncation in one
//! fixed form.

mod file_kind;
mod file_parts;
mod file_scan;
mod line_splitter;
mod read_page;

use std::borrow::Cow;
use std::fmt::Write as _;
use std::fs::File;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use gimlet_core::files::{FileStamp, FileState, ViewKey};
use gimlet_core::tool::{
    AgentAvailability, InputProblem, PathContext, PromptContext, ResultCap, Tool, ToolContext, ToolError, ToolResult,
};
use gimlet_proto::{AccessNeed, ResultContent, View};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use self::file_kind::FileKind;
use self::file_scan::{FileScan, ScanError};
use self::read_page::{LineSelection, ReadPage, TokenBudget};
use crate::text_file::open::{OpenError, open_regular};
use crate::text_file::replace::is_old_enough;
use crate::text_file::{file_path, read_state};

/// Codes of refused inputs, beside those of every file tool.
const BINARY_NAME: u32 = 10;
const PAGES: u32 = 11;

const DEFAULT_TOKENS: u64 = 25_000;
/// Smaller files are read on the spot: that takes less time than handing them to another thread.
const INLINE_BYTES: u64 = 256 * 1024;

pub(crate) struct Read;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadInput {
    /// Absolute path of the file
    file_path: String,
    /// First line to read, from 1
    #[serde(default, skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    /// Number of lines to read
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    limit: Option<u64>,
    /// PDF only: "3" or "1-5", at most 20 pages
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pages: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum ReadOutput {
    Text {
        file: TextPage,
    },
    Parts {
        file: StoredParts,
        /// The first page; the public shape has no place for it, the model gets it.
        #[serde(skip)]
        page: TextPage,
    },
    FileUnchanged {
        file: UnchangedFile,
    },
}

/// Some lines of a file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TextPage {
    file_path: String,
    content: String,
    num_lines: u64,
    start_line: u64,
    total_lines: u64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    truncated_by_token_cap: bool,
    #[serde(skip)]
    cut_lines: u64,
    #[serde(skip)]
    is_lossy: bool,
    /// True if the number of lines is the user's default, not the call's parameter.
    #[serde(skip)]
    by_default: bool,
    /// True if `total_lines` is exact; above a certain size counting stops early.
    #[serde(skip, default = "counted")]
    is_counted: bool,
    /// Why the whole of a file that does not fit is not stored as parts.
    #[serde(skip)]
    no_parts: Option<String>,
}

fn counted() -> bool {
    true
}

/// Output written by another program; only text can be rendered from its output alone.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ForeignReadOutput {
    Text { file: TextPage },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StoredParts {
    file_path: String,
    original_size: u64,
    count: u64,
    output_dir: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UnchangedFile {
    file_path: String,
}

impl Tool for Read {
    const NAME: &'static str = "Read";
    type Input = ReadInput;
    type Output = ReadOutput;

    fn prompt(&self, _cx: &PromptContext) -> Cow<'static, str> {
        Cow::Borrowed(include_str!("read.md").trim_ascii_end())
    }

    fn hidden_parameters(&self, _cx: &PromptContext) -> &'static [&'static str] {
        // PDFs are not supported yet; a call that asks for pages gets an error.
        &["pages"]
    }

    fn needs(&self, input: &ReadInput, cx: &PathContext) -> Vec<AccessNeed> {
        vec![AccessNeed::Read(cx.expand_path(Path::new(&input.file_path)))]
    }

    fn backfill_observable_input(&self, input: &mut ReadInput, cx: &PathContext) {
        file_path::expand(&mut input.file_path, cx);
    }

    fn validate_input(&self, input: &ReadInput, cx: &PathContext) -> Result<(), InputProblem> {
        if let Some(pages) = &input.pages {
            check_pages(pages)?;
        }
        if file_kind::has_binary_name(Path::new(&input.file_path)) {
            let text = format!("{} is a binary file by its name. {BINARY_HINT}", input.file_path);
            return Err(InputProblem::new(BINARY_NAME, text));
        }
        file_path::check(&input.file_path, cx)
    }

    fn key_repairs(&self) -> &'static [(&'static str, &'static str)] {
        &[("path", "file_path"), ("filePath", "file_path")]
    }

    async fn call(&self, input: ReadInput, cx: &ToolContext) -> Result<ToolResult<ReadOutput>, ToolError> {
        let path = cx.paths.expand_path(Path::new(&input.file_path));
        let target = cx.resolved_path(&path).to_owned();
        if crate::special_files::is_special(&target) {
            return Err(ToolError::failed(crate::special_files::special_text(&target.display().to_string())));
        }
        let (file, metadata) = match open_regular(&target) {
            Ok(opened) => opened,
            Err(OpenError::Missing(_)) => return Err(ToolError::failed(file_path::missing_text(&path, &cx.paths))),
            Err(error) => return Err(error.into()),
        };
        let tokens = cx.services.env().integer("CLAUDE_CODE_FILE_READ_MAX_OUTPUT_TOKENS").unwrap_or(DEFAULT_TOKENS);
        let default_lines = cx.services.file_preferences().default_lines.map(NonZeroU64::get);
        let offset = input.offset.filter(|offset| *offset > 1);
        let job = ReadJob {
            file,
            size: metadata.len(),
            modified: metadata.modified().ok(),
            budget: TokenBudget::new(tokens, file_kind::has_json_name(&target)),
            known: cx.with_session_state(|session| session.files.get(&target).cloned()),
            view: ViewKey { offset, limit: input.limit.or(default_lines) },
            is_range: input.offset.is_some() || input.limit.is_some(),
            by_default: input.limit.is_none() && default_lines.is_some(),
            has_pages: input.pages.is_some(),
            path,
            target,
            results_dir: cx.services.results_dir().to_owned(),
            call: cx.call.as_str().to_owned(),
            cancel: cx.cancel.clone(),
        };
        let read_file = job.path.clone();
        let result = if job.size <= INLINE_BYTES {
            job.run()
        } else {
            let running = tokio::task::spawn_blocking(move || job.run());
            running.await.unwrap_or_else(|error| Err(ToolError::failed(format!("The read ended abnormally: {error}"))))
        };
        result.map(|result| result.with_change(move |session| session.read_files.push(read_file)))
    }

    fn parse_output(&self, json: &str) -> Option<ReadOutput> {
        let ForeignReadOutput::Text { file } = serde_json::from_str(json).ok()?;
        Some(ReadOutput::Text { file })
    }

    fn to_blocks(&self, output: &ReadOutput) -> ResultContent {
        match output {
            ReadOutput::Text { file } => file.render().into(),
            ReadOutput::Parts { file, page } => format!(
                "{}\n[The whole file is stored as {} parts in {}; the names tell the lines. Grep finds places in the \
                 original.]",
                page.render(),
                file.count,
                file.output_dir
            )
            .into(),
            ReadOutput::FileUnchanged { file } => {
                format!("{} is unchanged since you read it; the earlier result still holds.", file.file_path).into()
            }
        }
    }

    fn view(&self, _input: &ReadInput, output: &ReadOutput) -> View {
        let (path, note) = match output {
            ReadOutput::Text { file } => (&file.file_path, file.summary()),
            // The first page is not part of a recorded output.
            ReadOutput::Parts { file, page } if page.num_lines == 0 => {
                (&file.file_path, format!("{} parts", file.count))
            }
            ReadOutput::Parts { file, page } => (&file.file_path, format!("{}, {} parts", page.summary(), file.count)),
            ReadOutput::FileUnchanged { file } => (&file.file_path, "unchanged".to_owned()),
        };
        View::Files { paths: vec![path.clone()], note: Some(note) }
    }

    fn auto_classifier_input(&self, input: &ReadInput) -> String {
        input.file_path.clone()
    }

    /// The token budget bounds the result.
    fn max_result_chars(&self) -> ResultCap {
        ResultCap::Unlimited
    }

    fn agent_availability(&self) -> AgentAvailability {
        AgentAvailability::Always
    }

    fn search_hint(&self) -> &'static str {
        "read show open view text file lines"
    }
}

const BINARY_HINT: &str = "Look at it with a shell command made for it (`file`, `xxd`, `strings`, an archive tool).";

fn check_pages(pages: &str) -> Result<(), InputProblem> {
    let number = |text: &str| text.trim().parse::<u32>().ok().filter(|number| *number > 0);
    let range = match pages.split_once('-') {
        Some((first, last)) => number(first).zip(number(last)),
        None => number(pages).map(|page| (page, page)),
    };
    match range {
        Some((first, last)) if first <= last && last - first < 20 => Ok(()),
        Some(_) | None => Err(InputProblem::new(
            PAGES,
            format!(
                "`pages` must be a page or an ascending range of at most 20 pages, such as \"3\" or \"1-5\", not {pages:?}."
            ),
        )),
    }
}

/// One read, ready to run on any thread.
struct ReadJob {
    file: File,
    size: u64,
    modified: Option<SystemTime>,
    budget: TokenBudget,
    known: Option<FileState>,
    view: ViewKey,
    is_range: bool,
    by_default: bool,
    has_pages: bool,
    /// Path as given, for the user and programs.
    path: PathBuf,
    /// Path that the gate judged, for the read state.
    target: PathBuf,
    results_dir: PathBuf,
    call: String,
    cancel: CancellationToken,
}

impl ReadJob {
    fn run(mut self) -> Result<ToolResult<ReadOutput>, ToolError> {
        let selection =
            LineSelection { first: self.view.offset.unwrap_or(1), limit: self.view.limit, explicit: self.is_range };
        let scan = file_scan::scan(&mut self.file, self.size, &self.target, selection, self.budget, &self.cancel)
            .map_err(|error| self.explain(error))?;
        if self.has_pages {
            let text = format!("{} is text; `pages` is for PDFs. Use `offset` and `limit`.", self.path.display());
            return Err(ToolError::input(text));
        }
        let page = &scan.page;
        let is_exact = !page.over_budget && page.cut_lines == 0 && !page.is_lossy;
        let stamp = scan.hash.map(|hash| FileStamp { modified: self.modified, size: self.size, hash });
        if is_exact && stamp.is_some_and(|stamp| self.was_shown(stamp)) {
            let file = UnchangedFile { file_path: self.path.display().to_string() };
            return Ok(ToolResult::new(ReadOutput::FileUnchanged { file }));
        }
        let shows_all = selection.first == 1 && page.shown == page.total_lines;
        let view = match () {
            () if page.over_budget => None,
            () if is_exact => Some(self.view.clone()),
            () => Some(read_state::GLIMPSE),
        };
        // A range behind the end shows nothing of the file.
        let shows_file = page.shown > 0 || page.total_lines == 0;
        let stamp = if shows_file { stamp } else { None };
        let target = std::mem::take(&mut self.target);
        let output = self.output(scan, selection.first);
        let result = ToolResult::new(output);
        Ok(match stamp {
            Some(stamp) => result.with_change(move |session| {
                session.files.record_read(target, stamp, is_exact && shows_all, view);
            }),
            None => result,
        })
    }

    /// Returns true if the model still has exactly this view of exactly this file.
    fn was_shown(&self, stamp: FileStamp) -> bool {
        let Some(known) = &self.known else { return false };
        known.stamp == stamp && known.views.contains(&self.view) && stamp.modified.is_some_and(is_old_enough)
    }

    fn output(mut self, scan: FileScan, first: u64) -> ReadOutput {
        let FileScan { page, encoding, hash } = scan;
        let is_over = page.over_budget;
        let page = TextPage { by_default: self.by_default, ..TextPage::new(&self.path, page, first, hash.is_some()) };
        if !is_over {
            return ReadOutput::Text { file: page };
        }
        let stored = if self.size > file_parts::MOST_BYTES {
            Err(format!("it has {} bytes, more than {} MiB", self.size, file_parts::MOST_BYTES >> 20))
        } else {
            file_parts::write_parts(&mut self.file, encoding, self.budget, &self.results_dir, &self.call)
                .map_err(|error| error.to_string())
        };
        match stored {
            Ok(parts) => ReadOutput::Parts {
                file: StoredParts {
                    file_path: page.file_path.clone(),
                    original_size: self.size,
                    count: parts.count,
                    output_dir: parts.folder.display().to_string(),
                },
                page,
            },
            // Without the parts the first page is still valid, and its notice explains how to continue.
            Err(why) => ReadOutput::Text { file: TextPage { no_parts: Some(why), ..page } },
        }
    }

    fn explain(&self, error: ScanError) -> ToolError {
        let path = self.path.display();
        let size = self.size;
        let text = match error {
            ScanError::Cancelled => return ToolError::interrupted(format!("The read of {path} was interrupted.")),
            ScanError::Io(source) => format!("{path} could not be read: {source}"),
            ScanError::OverBudget { fitting } => format!(
                "The lines asked for do not fit into {} tokens; {fitting} lines from there do. Use a smaller `limit`, \
                 or Grep to find the place.",
                self.budget.tokens()
            ),
            ScanError::NotText(FileKind::Image(format)) => format!(
                "{path} is a {format} image ({size} bytes). Images cannot be shown yet; `file` or `identify` in the \
                 shell tell its format and dimensions."
            ),
            ScanError::NotText(FileKind::Pdf) => format!(
                "{path} is a PDF ({size} bytes). PDFs cannot be read yet; extract the text with `pdftotext` in the \
                 shell and read that."
            ),
            ScanError::NotText(FileKind::Notebook) => format!(
                "{path} is a Jupyter notebook. Notebooks cannot be shown yet; print its cells with `jq -r '.cells[] | \
                 .source | add'` in the shell."
            ),
            ScanError::NotText(FileKind::Binary(format)) => {
                let what = format.map_or(String::new(), |format| format!(": {format}"));
                format!("{path} is not text ({size} bytes{what}). {BINARY_HINT}")
            }
            ScanError::NotText(FileKind::Text(_)) => format!("{path} could not be read as text."),
        };
        ToolError::failed(text)
    }
}

impl TextPage {
    fn new(path: &Path, page: ReadPage, first: u64, is_counted: bool) -> Self {
        Self {
            file_path: path.display().to_string(),
            num_lines: page.shown,
            start_line: first,
            total_lines: page.total_lines,
            truncated_by_token_cap: page.over_budget,
            cut_lines: page.cut_lines,
            is_lossy: page.is_lossy,
            by_default: false,
            is_counted,
            no_parts: None,
            content: page.text,
        }
    }

    fn last_line(&self) -> u64 {
        self.start_line + self.num_lines - 1
    }

    /// Renders the numbered lines and the notices about them.
    fn render(&self) -> String {
        if self.total_lines == 0 && self.is_counted {
            return format!("{} exists and is empty.", self.file_path);
        }
        if self.num_lines == 0 {
            return format!(
                "{} has {} lines; line {} is past its end.",
                self.file_path, self.total_lines, self.start_line
            );
        }
        let mut text = String::with_capacity(self.content.len() + self.num_lines as usize * 6 + 128);
        let lines = self.content.split('\n').take(self.num_lines as usize);
        for (number, line) in (self.start_line..).zip(lines) {
            // Writing to a string cannot fail.
            let _ = write!(text, "{number}\t");
            text.push_str(line);
            text.push('\n');
        }
        text.pop();
        self.push_notices(&mut text);
        text
    }

    fn push_notices(&self, text: &mut String) {
        let has_more = self.last_line() < self.total_lines || !self.is_counted;
        let is_cut = !self.truncated_by_token_cap && (has_more || self.start_line > 1);
        let reasons: Vec<&str> = [
            (self.truncated_by_token_cap, "token_budget"),
            (self.cut_lines > 0, "long_lines"),
            (is_cut && self.by_default && has_more, "default_lines"),
            (is_cut && !(self.by_default && has_more), "range"),
        ]
        .into_iter()
        .filter_map(|(applies, reason)| applies.then_some(reason))
        .collect();
        if !reasons.is_empty() {
            let total = if self.is_counted { self.total_lines.to_string() } else { format!("{}+", self.total_lines) };
            let next = if has_more { format!(" next_offset={}", self.last_line() + 1) } else { String::new() };
            let (first, last, reasons) = (self.start_line, self.last_line(), reasons.join(","));
            text.push_str(&format!("\n\n[PARTIAL view: lines={first}-{last} total={total}{next} reason={reasons}]"));
        }
        if let Some(why) = &self.no_parts {
            text.push_str(&format!(
                "\n[The file is not stored as parts: {why}. Go on with `offset`, or find the place with Grep.]"
            ));
        }
        if self.is_lossy {
            text.push_str(
                "\n[Some bytes are not valid text and are shown as \u{FFFD}. The file cannot be edited as it is; \
                 convert its encoding first.]",
            );
        }
    }

    fn summary(&self) -> String {
        if self.num_lines == self.total_lines {
            format!("{} lines", self.total_lines)
        } else if self.num_lines == 0 {
            format!("past the end of {} lines", self.total_lines)
        } else {
            format!("lines {}-{} of {}", self.start_line, self.last_line(), self.total_lines)
        }
    }
}

#[cfg(test)]
#[path = "read/read_tests.rs"]
mod read_tests;
