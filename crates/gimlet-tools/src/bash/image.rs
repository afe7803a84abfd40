//! Output that is one image: a `data:` URI becomes an image for the model, scaled if it is too large.
//!
//! An image that a provider refuses would break every later request of the conversation, so anything doubtful stays
//! text.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gimlet_exec::CapturedOutput;
use gimlet_media::{FittedImage, ImageLimits};
use gimlet_proto::ContentPart;

/// Maximum length of a URI that is looked at.
const LARGEST_URI: u64 = 20_000_000;

/// Parses a text that is one image; the bytes determine its type.
pub(super) fn parse_image_uri(text: &str) -> Option<ContentPart> {
    ContentPart::image_from_base64(uri_data(text)?).ok()
}

fn uri_data(text: &str) -> Option<&str> {
    text.trim().strip_prefix("data:image/")?.split_once(";base64,").map(|(_, base64)| base64)
}

/// Returns the URI of the image that a command printed, if that is its whole output, fitted for a model that uses images
/// with this longest side.
pub(super) async fn printed_image_uri(captured: &CapturedOutput, max_side: u32) -> Option<String> {
    if !captured.head.trim_ascii_start().starts_with(b"data:image/") || captured.total_bytes > LARGEST_URI {
        return None;
    }
    let bytes = match &captured.file {
        Some(file) if !captured.is_complete() => tokio::fs::read(file).await.ok()?,
        Some(_) | None => captured.head.clone(),
    };
    let fitting = tokio::task::spawn_blocking(move || fit_uri(&String::from_utf8(bytes).ok()?, max_side));
    fitting.await.ok().flatten()
}

fn fit_uri(text: &str, max_side: u32) -> Option<String> {
    let base64: String = uri_data(text)?.split_ascii_whitespace().collect();
    let fitted = FittedImage::fit(STANDARD.decode(base64).ok()?, ImageLimits::for_side(max_side)).ok()?;
    Some(format!("data:{};base64,{}", fitted.format.media_type(), STANDARD.encode(&fitted.bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample_images::{png_image, sample_images};

    fn uri(kind: &str, bytes: &[u8]) -> String {
        format!("data:image/{kind};base64,{}", STANDARD.encode(bytes))
    }

    #[test]
    fn every_kind_that_a_provider_takes_is_an_image_and_nothing_else() {
        for (name, bytes) in sample_images(16, 9) {
            // The bytes decide, not the declared type.
            let fitted = fit_uri(&format!("{}\n", uri("png", &bytes)), 1_568).unwrap();
            let Some(ContentPart::Image { source }) = parse_image_uri(&fitted) else { panic!("{name}") };
            assert_eq!((source.media_type(), source.data()), (name, STANDARD.encode(&bytes).as_str()));
        }
        let cut = png_image(16, 9)[..40].to_vec();
        for text in [uri("png", &cut), uri("png", b"hello"), "data:image/png;base64,***".to_owned(), "hi".to_owned()] {
            assert_eq!(fit_uri(&text, 1_568), None, "{text}");
        }
    }

    #[test]
    fn a_large_image_is_scaled() {
        let fitted = fit_uri(&uri("png", &png_image(9_000, 20)), 1_568).unwrap();
        assert!(parse_image_uri(&fitted).is_some());
    }
}
