//! A file that is decoded before it is shown: an image.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gimlet_core::tool::{ToolError, ToolResult};
use gimlet_media::{FittedImage, ImageLimits, PixelSize};
use gimlet_proto::{ContentPart, ResultContent};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::ReadOutput;
use crate::bounded_work::{BoundedOutcome, run_bounded};

/// Time for decoding one file.
const TIMEOUT: Duration = Duration::from_secs(120);

/// An opened file of a kind that is decoded.
pub(super) struct MediaFile {
    pub(super) file: File,
    pub(super) size: u64,
    pub(super) path: PathBuf,
    pub(super) has_pages: bool,
}

/// An image as it was read.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ImageFile {
    base64: String,
    #[serde(rename = "type")]
    media_type: String,
    /// Size of the file in bytes.
    original_size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dimensions: Option<ImageDimensions>,
    #[serde(skip)]
    path: String,
}

/// Size of an image in pixels, and as it is shown to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ImageDimensions {
    original_width: u32,
    original_height: u32,
    display_width: u32,
    display_height: u32,
}

impl MediaFile {
    /// Decodes the file for a model that uses images with this longest side. Returns at once when cancelled.
    pub(super) async fn read(
        self,
        image_side: u32,
        cancel: &CancellationToken,
    ) -> Result<ToolResult<ReadOutput>, ToolError> {
        let path = self.path.display().to_string();
        match run_bounded(TIMEOUT, cancel, move |_| self.read_image(image_side)).await {
            BoundedOutcome::Finished(result) => result.map(ToolResult::new),
            BoundedOutcome::Cancelled => Err(ToolError::interrupted(format!("The read of {path} was interrupted."))),
            BoundedOutcome::TimedOut => {
                let seconds = TIMEOUT.as_secs();
                Err(ToolError::failed(format!("{path} could not be decoded within {seconds} s.")))
            }
        }
    }

    fn read_image(mut self, image_side: u32) -> Result<ReadOutput, ToolError> {
        let path = self.path.display().to_string();
        if self.has_pages {
            return Err(ToolError::input(format!("{path} is an image; `pages` is for PDFs.")));
        }
        let bytes = self.bytes(ImageLimits::MAX_FILE_BYTES)?;
        let fitted = FittedImage::fit(bytes, ImageLimits::for_side(image_side))
            .map_err(|fault| ToolError::failed(format!("{path} cannot be shown: {fault}.")))?;
        Ok(ReadOutput::Image { file: ImageFile::new(path, self.size, &fitted) })
    }

    /// Reads the whole file from its start.
    fn bytes(&mut self, most: u64) -> Result<Vec<u8>, ToolError> {
        let path = self.path.display();
        if self.size > most {
            let (size, most) = (self.size, most >> 20);
            return Err(ToolError::failed(format!(
                "{path} has {size} bytes, more than the {most} MiB that are read of such a file. Make a smaller one \
                 with a shell command."
            )));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(self.size).unwrap_or_default());
        let read = self.file.rewind().and_then(|()| (&mut self.file).take(most).read_to_end(&mut bytes));
        read.map_err(|error| ToolError::failed(format!("{path} could not be read: {error}")))?;
        Ok(bytes)
    }
}

impl ImageFile {
    fn new(path: String, original_size: u64, fitted: &FittedImage) -> Self {
        let (original, shown) = (fitted.original_size, fitted.size);
        Self {
            base64: STANDARD.encode(&fitted.bytes),
            media_type: fitted.format.media_type().to_owned(),
            original_size,
            dimensions: Some(ImageDimensions {
                original_width: original.width,
                original_height: original.height,
                display_width: shown.width,
                display_height: shown.height,
            }),
            path,
        }
    }

    /// Returns the path, the sizes and the image for the model.
    pub(super) fn content(&self) -> ResultContent {
        let text = format!("{}: image, {}", self.path, self.sizes());
        ResultContent::Parts(vec![
            ContentPart::Text { text },
            ContentPart::image(self.media_type.as_str(), self.base64.as_str()),
        ])
    }

    /// Describes the size, and the scale of coordinates if the image was scaled.
    fn sizes(&self) -> String {
        let Some(dimensions) = self.dimensions else { return format!("{} bytes", self.original_size) };
        dimensions.describe()
    }

    /// Returns a short description for people.
    pub(super) fn summary(&self) -> String {
        match self.dimensions {
            Some(size) => format!("image, {} × {} pixels", size.original_width, size.original_height),
            None => format!("image, {} bytes", self.original_size),
        }
    }
}

impl ImageDimensions {
    fn describe(self) -> String {
        let original = PixelSize { width: self.original_width, height: self.original_height };
        let shown = PixelSize { width: self.display_width, height: self.display_height };
        if original == shown {
            return format!("{original} pixels");
        }
        let factor = f64::from(original.width.max(original.height)) / f64::from(shown.width.max(shown.height).max(1));
        format!("{original} pixels, shown at {shown}: multiply coordinates by {factor:.3} for the original")
    }
}
