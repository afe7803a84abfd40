//! Decoder of images that are too large for a request.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gimlet_core::{FittedImagePart, ImageFitter};
use gimlet_media::{FittedImage, ImageLimits};
use gimlet_proto::{BoxFuture, ContentPart};

/// Decodes and scales images on threads that may block.
pub(super) struct ImageDecoder;

impl ImageFitter for ImageDecoder {
    fn fit_image(&self, base64: String, max_side: u32) -> BoxFuture<'static, Result<FittedImagePart, String>> {
        let fitting = tokio::task::spawn_blocking(move || fit(&base64, max_side));
        Box::pin(async move { fitting.await.unwrap_or_else(|error| Err(error.to_string())) })
    }
}

fn fit(base64: &str, max_side: u32) -> Result<FittedImagePart, String> {
    let bytes = STANDARD.decode(base64).map_err(|_| "its data is not base64".to_owned())?;
    if bytes.len() as u64 > ImageLimits::MAX_FILE_BYTES {
        return Err(format!("it is larger than {} MiB", ImageLimits::MAX_FILE_BYTES >> 20));
    }
    let fitted = FittedImage::fit(bytes, ImageLimits::for_side(max_side)).map_err(|fault| fault.to_string())?;
    let scaling = fitted.is_scaled().then(|| format!("scaled from {} to {} pixels", fitted.original_size, fitted.size));
    let part = ContentPart::image(fitted.format.media_type(), STANDARD.encode(&fitted.bytes));
    Ok(FittedImagePart { part, scaling })
}
