//! One read of an opened file: text is answered here, everything else that can be shown is handed on.

use std::fs::File;
use std::path::PathBuf;
use std::time::SystemTime;

use gimlet_core::files::{FileStamp, FileState, ViewKey};
use gimlet_core::tool::{ToolError, ToolResult};
use tokio_util::sync::CancellationToken;

use super::file_kind::{self, FileKind};
use super::file_scan::{self, FileScan, ScanError};
use super::media_file::{MediaFile, MediaKind};
use super::notebook_file::CellSelection;
use super::read_page::{LineSelection, TokenBudget};
use super::text_page::TextPage;
use super::{BINARY_HINT, ReadOutput, StoredParts, UnchangedFile, file_parts};
use crate::text_file::read_state;
use crate::text_file::replace::is_old_enough;

/// End of a read that gave no text.
pub(super) enum ReadEnd {
    /// The file is to be decoded.
    Media(MediaFile),
    Failed(ToolError),
}

/// One read, ready to run on any thread.
pub(super) struct ReadJob {
    pub(super) file: File,
    pub(super) size: u64,
    pub(super) modified: Option<SystemTime>,
    pub(super) budget: TokenBudget,
    pub(super) known: Option<FileState>,
    pub(super) view: ViewKey,
    pub(super) is_range: bool,
    pub(super) by_default: bool,
    pub(super) has_pages: bool,
    /// Path as given, for the user and programs.
    pub(super) path: PathBuf,
    /// Path that the gate judged, for the read state.
    pub(super) target: PathBuf,
    pub(super) results_dir: PathBuf,
    pub(super) call: String,
    pub(super) cancel: CancellationToken,
}

impl ReadJob {
    /// Reads the file, or says why that does not end here.
    pub(super) fn run(mut self) -> Result<ToolResult<ReadOutput>, ReadEnd> {
        let selection =
            LineSelection { first: self.view.offset.unwrap_or(1), limit: self.view.limit, explicit: self.is_range };
        let scanned = file_scan::scan(&mut self.file, self.size, &self.target, selection, self.budget, &self.cancel);
        let scan = match scanned {
            Ok(scan) => scan,
            Err(ScanError::NotText(FileKind::Image(_))) => {
                return Err(ReadEnd::Media(self.into_media_file(MediaKind::Image)));
            }
            Err(ScanError::NotText(FileKind::Notebook)) => {
                return Err(ReadEnd::Media(self.into_media_file(MediaKind::Notebook)));
            }
            Err(error) => return Err(ReadEnd::Failed(self.explain(error))),
        };
        if self.size == 0 && file_kind::has_image_name(&self.target) {
            let text = format!("{} is empty (0 bytes): there is no image in it.", self.path.display());
            return Err(ReadEnd::Failed(ToolError::failed(text)));
        }
        if self.has_pages {
            let text = format!("{} is text; `pages` is for PDFs. Use `offset` and `limit`.", self.path.display());
            return Err(ReadEnd::Failed(ToolError::input(text)));
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

    fn into_media_file(self, kind: MediaKind) -> MediaFile {
        // The user's default number of lines says nothing about cells.
        let limit = if self.by_default { None } else { self.view.limit };
        MediaFile {
            kind,
            file: self.file,
            size: self.size,
            modified: self.modified,
            path: self.path,
            target: self.target,
            has_pages: self.has_pages,
            cells: CellSelection { first: self.view.offset.unwrap_or(1), limit },
            budget: self.budget,
        }
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
            ScanError::NotText(FileKind::Pdf) => format!(
                "{path} is a PDF ({size} bytes). PDFs cannot be read yet; extract the text with `pdftotext` in the \
                 shell and read that."
            ),
            ScanError::NotText(FileKind::Binary(format)) => {
                let what = format.map_or(String::new(), |format| format!(": {format}"));
                format!("{path} is not text ({size} bytes{what}). {BINARY_HINT}")
            }
            ScanError::NotText(FileKind::Text(_) | FileKind::Image(_) | FileKind::Notebook) => {
                format!("{path} could not be read as text.")
            }
        };
        ToolError::failed(text)
    }
}
