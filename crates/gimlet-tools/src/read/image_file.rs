//! An image as Read gives it to programs and to the model.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gimlet_media::{FittedImage, PixelSize};
use gimlet_proto::{ContentPart, ResultContent};
use serde::{Deserialize, Serialize};

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

impl ImageFile {
    pub(super) fn new(path: String, original_size: u64, fitted: &FittedImage) -> Self {
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
