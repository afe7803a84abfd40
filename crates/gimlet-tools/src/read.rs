//! Read: a text file or a range of its lines, numbered, within a token budget; images and notebooks decoded.
//!
//! It never blocks on special files, never holds more of a file than it shows, and reports every truncation in one
//! fixed form.

mod file_kind;
mod file_parts;
mod file_scan;
mod image_file;
mod line_splitter;
mod media_file;
mod notebook_file;
mod read_job;
mod read_page;
mod text_page;

use std::borrow::Cow;
use std::num::NonZeroU64;
use std::path::Path;

use gimlet_core::files::ViewKey;
use gimlet_core::tool::{
    AgentAvailability, InputProblem, PathContext, PromptContext, ResultCap, Tool, ToolContext, ToolError, ToolResult,
};
use gimlet_proto::{AccessNeed, ResultContent, View};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::image_file::ImageFile;
use self::notebook_file::NotebookPage;
use self::read_job::{ReadEnd, ReadJob};
use self::read_page::TokenBudget;
use self::text_page::TextPage;
use crate::text_file::file_path;
use crate::text_file::open::{OpenError, open_regular};

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
    Image {
        file: ImageFile,
    },
    Notebook {
        file: NotebookPage,
    },
    FileUnchanged {
        file: UnchangedFile,
    },
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
        let ended = if job.size <= INLINE_BYTES {
            job.run()
        } else {
            let running = tokio::task::spawn_blocking(move || job.run());
            running.await.unwrap_or_else(|error| {
                Err(ReadEnd::Failed(ToolError::failed(format!("The read ended abnormally: {error}"))))
            })
        };
        let result = match ended {
            Ok(result) => Ok(result),
            Err(ReadEnd::Media(media)) => media.read(cx.image_side(), &cx.cancel).await,
            Err(ReadEnd::Failed(error)) => Err(error),
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
            ReadOutput::Image { file } => file.content(),
            ReadOutput::Notebook { file } => file.content(),
            ReadOutput::FileUnchanged { file } => {
                format!("{} is unchanged since you read it; the earlier result still holds.", file.file_path).into()
            }
        }
    }

    fn view(&self, input: &ReadInput, output: &ReadOutput) -> View {
        let (path, note) = match output {
            ReadOutput::Text { file } => (&file.file_path, file.summary()),
            // The first page is not part of a recorded output.
            ReadOutput::Parts { file, page } if page.num_lines == 0 => {
                (&file.file_path, format!("{} parts", file.count))
            }
            ReadOutput::Parts { file, page } => (&file.file_path, format!("{}, {} parts", page.summary(), file.count)),
            // The public shape of an image has no path.
            ReadOutput::Image { file } => (&input.file_path, file.summary()),
            ReadOutput::Notebook { file } => (&file.file_path, file.summary()),
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

#[cfg(test)]
#[path = "read/read_tests.rs"]
mod read_tests;
