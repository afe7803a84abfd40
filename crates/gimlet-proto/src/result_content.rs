//! Content that a tool returns to the model: one text, or parts.

use serde::Serialize;

/// The content of a `tool_result`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResultContent {
    Text(String),
    Parts(Vec<ContentPart>),
}

/// One part of a result that is more than plain text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ContentPart {
    Text { text: String },
    Image { source: MediaSource },
    Document { source: MediaSource },
}

/// Bytes of an image or a document as the wire carries them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MediaSource {
    #[serde(rename = "type")]
    kind: &'static str,
    media_type: String,
    data: String,
}

impl MediaSource {
    fn new(media_type: impl Into<String>, base64: impl Into<String>) -> Self {
        Self { kind: "base64", media_type: media_type.into(), data: base64.into() }
    }

    pub fn media_type(&self) -> &str {
        &self.media_type
    }

    /// Returns the bytes in base64.
    pub fn data(&self) -> &str {
        &self.data
    }
}

impl ContentPart {
    /// Creates an image from base64 text, with the type detected from its bytes. The error is the reason why it
    /// cannot be sent.
    pub fn image_from_base64(base64: &str) -> Result<Self, &'static str> {
        let base64 = gimlet_text::strip_base64_whitespace(base64);
        let picture = gimlet_text::SendableImage::from_base64(&base64)?;
        Ok(Self::image(picture.media_type, base64))
    }

    /// Creates an image from base64 text that may be too large to be sent as it is. The error is the reason why it is
    /// no image.
    pub fn unfitted_image(base64: &str) -> Result<Self, &'static str> {
        let base64 = gimlet_text::strip_base64_whitespace(base64);
        Ok(Self::image(gimlet_text::detect_image_type(&base64)?, base64))
    }

    /// Creates an image from base64 text that is known to be of this type.
    pub fn image(media_type: impl Into<String>, base64: impl Into<String>) -> Self {
        ContentPart::Image { source: MediaSource::new(media_type, base64) }
    }

    /// Creates a PDF from base64 text.
    pub fn pdf(base64: impl Into<String>) -> Self {
        ContentPart::Document { source: MediaSource::new("application/pdf", base64) }
    }
}

impl ResultContent {
    /// Returns the length of all text in bytes, which is close enough to characters for every cap we apply.
    pub fn text_len(&self) -> usize {
        match self {
            ResultContent::Text(text) => text.len(),
            ResultContent::Parts(parts) => parts
                .iter()
                .map(|part| match part {
                    ContentPart::Text { text } => text.len(),
                    ContentPart::Image { .. } | ContentPart::Document { .. } => 0,
                })
                .sum(),
        }
    }

    /// Returns true if nothing but whitespace would reach the model.
    pub fn is_blank(&self) -> bool {
        match self {
            ResultContent::Text(text) => text.trim().is_empty(),
            ResultContent::Parts(parts) => parts.iter().all(|part| match part {
                ContentPart::Text { text } => text.trim().is_empty(),
                ContentPart::Image { .. } | ContentPart::Document { .. } => false,
            }),
        }
    }

    /// Returns the text of this content, parts joined by line breaks.
    pub fn to_text(&self) -> String {
        match self {
            ResultContent::Text(text) => text.clone(),
            ResultContent::Parts(parts) => parts
                .iter()
                .filter_map(|part| match part {
                    ContentPart::Text { text } => Some(text.as_str()),
                    ContentPart::Image { .. } | ContentPart::Document { .. } => None,
                })
                .collect::<Vec<_>>()
                .join("\n"),
        }
    }
}

impl From<String> for ResultContent {
    fn from(text: String) -> Self {
        ResultContent::Text(text)
    }
}

impl From<&str> for ResultContent {
    fn from(text: &str) -> Self {
        ResultContent::Text(text.to_owned())
    }
}
