//! Fitting of images to what requests carry: those that people attach and those that tool servers return.
//!
//! Core decodes nothing. It knows by an image's header that it is too large and hands it to the [`ImageFitter`]; an
//! image within the limits is never touched.

use std::sync::Arc;

use gimlet_proto::{Block, BlockKind, BoxFuture, ContentPart, ResultContent};
use gimlet_text::SendableImage;
use serde::Deserialize;

use crate::turn::Turn;

/// Size of a base64 image above which it is compressed.
const MAX_BASE64: usize = 700_000;

/// Scales and compresses images.
pub trait ImageFitter: Send + Sync {
    /// Fits a base64 image into the limits; the error is the reason why it cannot be sent.
    fn fit_image(&self, base64: String, max_side: u32) -> BoxFuture<'static, Result<FittedImagePart, String>>;
}

/// An image within the limits.
#[derive(Clone, Debug)]
pub struct FittedImagePart {
    pub part: ContentPart,
    /// Both sizes in words, if the image was scaled: coordinates in it are others than in the original.
    pub scaling: Option<String>,
}

/// Returns true if an image is too large to be sent as it is.
fn needs_fitting(base64: &str, max_side: u32) -> bool {
    base64.len() > MAX_BASE64
        || SendableImage::from_base64(base64).is_ok_and(|image| image.side > max_side)
        || is_refused_image(base64)
}

/// Returns true for an image of a known type that no request may carry.
fn is_refused_image(base64: &str) -> bool {
    SendableImage::from_base64(base64).is_err() && gimlet_text::detect_image_type(base64).is_ok()
}

/// Fits the images of a tool's result. An image that cannot be sent becomes a note.
pub(crate) async fn fit_result_images(turn: &Turn, content: &mut ResultContent) {
    let ResultContent::Parts(parts) = content else { return };
    let Some(fitter) = turn.scope.services.image_fitter() else { return };
    let max_side = turn.model_facts().image_side;
    let mut fitted = Vec::with_capacity(parts.len());
    for part in std::mem::take(parts) {
        let ContentPart::Image { source } = &part else {
            fitted.push(part);
            continue;
        };
        if !needs_fitting(source.data(), max_side) {
            fitted.push(part);
            continue;
        }
        match fitter.fit_image(source.data().to_owned(), max_side).await {
            Ok(FittedImagePart { part, scaling }) => {
                fitted.push(part);
                fitted.extend(scaling.map(|sizes| ContentPart::Text { text: format!("(The image was {sizes}.)") }));
            }
            Err(why) => fitted.push(ContentPart::Text { text: format!("(An image was left out: {why}.)") }),
        }
    }
    *parts = fitted;
}

/// Fits the images of a prompt. Returns a note for the model about each that was scaled. What cannot be fitted stays as
/// it is, and the check of the prompt refuses it.
pub(crate) async fn fit_prompt_images(turn: &Turn, blocks: &mut [Block]) -> Vec<String> {
    let mut notes = Vec::new();
    let Some(fitter) = turn.scope.services.image_fitter().cloned() else { return notes };
    let max_side = turn.model_facts().image_side;
    for block in blocks {
        let Some(data) = inline_image(block).filter(|data| needs_fitting(data, max_side)) else { continue };
        if let Ok(FittedImagePart { part, scaling }) = fitter.fit_image(data, max_side).await {
            *block = Block::from_part(&part);
            notes.extend(scaling.map(|sizes| format!("An image of the prompt above was {sizes}.")));
        }
    }
    notes
}

/// Returns the base64 data of an image block that holds its bytes.
fn inline_image(block: &Block) -> Option<String> {
    #[derive(Deserialize)]
    struct ImageBlock {
        source: ImageBytes,
    }
    #[derive(Deserialize)]
    struct ImageBytes {
        r#type: String,
        data: String,
    }
    if block.kind() != BlockKind::Image {
        return None;
    }
    let ImageBlock { source } = serde_json::from_str(block.json()).ok()?;
    if source.r#type == "base64" { Some(source.data) } else { None }
}

/// The fitter of a session, if it has one.
pub(crate) type SharedImageFitter = Option<Arc<dyn ImageFitter>>;
