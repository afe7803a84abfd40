//! A file that is decoded before it is shown: an image or a notebook.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use gimlet_core::files::{FileStamp, hash_content};
use gimlet_core::tool::{ToolError, ToolResult};
use gimlet_media::{FittedImage, ImageLimits};
use tokio_util::sync::CancellationToken;

use super::ReadOutput;
use super::image_file::ImageFile;
use super::notebook_file::{CellSelection, NotebookPage};
use super::read_page::TokenBudget;
use crate::bounded_work::{BoundedOutcome, run_bounded};
use crate::text_file::{TextFile, read_state};

/// Time for decoding one file.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Largest notebook that is read.
const MAX_NOTEBOOK_BYTES: u64 = 100 << 20;

/// Kind of a file that is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MediaKind {
    Image,
    Notebook,
}

/// An opened file of a kind that is decoded.
pub(super) struct MediaFile {
    pub(super) kind: MediaKind,
    pub(super) file: File,
    pub(super) size: u64,
    pub(super) modified: Option<SystemTime>,
    /// Path as given, for the user and programs.
    pub(super) path: PathBuf,
    /// Path that the gate judged, for the read state.
    pub(super) target: PathBuf,
    pub(super) has_pages: bool,
    /// Cells of a notebook that are asked for.
    pub(super) cells: CellSelection,
    pub(super) budget: TokenBudget,
}

impl MediaFile {
    /// Decodes the file for a model that uses images with this longest side. Returns at once when cancelled.
    pub(super) async fn read(
        self,
        image_side: u32,
        cancel: &CancellationToken,
    ) -> Result<ToolResult<ReadOutput>, ToolError> {
        let path = self.path.display().to_string();
        match run_bounded(TIMEOUT, cancel, move |_| self.decode(image_side)).await {
            BoundedOutcome::Finished(result) => result,
            BoundedOutcome::Cancelled => Err(ToolError::interrupted(format!("The read of {path} was interrupted."))),
            BoundedOutcome::TimedOut => {
                let seconds = TIMEOUT.as_secs();
                Err(ToolError::failed(format!("{path} could not be decoded within {seconds} s.")))
            }
        }
    }

    fn decode(self, image_side: u32) -> Result<ToolResult<ReadOutput>, ToolError> {
        if self.has_pages {
            let what = match self.kind {
                MediaKind::Image => "an image",
                MediaKind::Notebook => "a notebook",
            };
            return Err(ToolError::input(format!("{} is {what}; `pages` is for PDFs.", self.path.display())));
        }
        let limits = ImageLimits::for_side(image_side);
        match self.kind {
            MediaKind::Image => self.read_image(limits),
            MediaKind::Notebook => self.read_notebook(limits),
        }
    }

    fn read_image(mut self, limits: ImageLimits) -> Result<ToolResult<ReadOutput>, ToolError> {
        let path = self.path.display().to_string();
        let bytes = self.bytes(ImageLimits::MAX_FILE_BYTES, "Make a smaller one with a shell command.")?;
        let fitted = FittedImage::fit(bytes, limits)
            .map_err(|fault| ToolError::failed(format!("{path} cannot be shown: {fault}.")))?;
        Ok(ToolResult::new(ReadOutput::Image { file: ImageFile::new(path, self.size, &fitted) }))
    }

    fn read_notebook(mut self, limits: ImageLimits) -> Result<ToolResult<ReadOutput>, ToolError> {
        let path = self.path.display().to_string();
        let hint = "Print the cells that you need with `jq`, for example `jq -r '.cells[0].source | add'`.";
        let bytes = self.bytes(MAX_NOTEBOOK_BYTES, hint)?;
        let not_shown = |why: String| {
            ToolError::failed(format!("{path} cannot be shown as a notebook: {why}. Look at its text in the shell."))
        };
        let text = TextFile::decode(&bytes).map_err(|error| not_shown(error.to_string()))?;
        let page = NotebookPage::read(&path, text.text(), self.cells, self.budget, limits)
            .map_err(|fault| not_shown(fault.to_string()))?;
        let stamp = FileStamp { modified: self.modified, size: bytes.len() as u64, hash: hash_content(&bytes) };
        let (target, is_whole) = (self.target, page.is_whole());
        let view = if is_whole { None } else { Some(read_state::GLIMPSE) };
        Ok(ToolResult::new(ReadOutput::Notebook { file: page })
            .with_change(move |session| session.files.record_read(target, stamp, is_whole, view)))
    }

    /// Reads the whole file from its start.
    fn bytes(&mut self, most: u64, hint: &str) -> Result<Vec<u8>, ToolError> {
        let path = self.path.display();
        if self.size > most {
            let (size, most) = (self.size, most >> 20);
            let text =
                format!("{path} has {size} bytes, more than the {most} MiB that are read of such a file. {hint}");
            return Err(ToolError::failed(text));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(self.size).unwrap_or_default());
        let read = self.file.rewind().and_then(|()| (&mut self.file).take(most).read_to_end(&mut bytes));
        read.map_err(|error| ToolError::failed(format!("{path} could not be read: {error}")))?;
        Ok(bytes)
    }
}
