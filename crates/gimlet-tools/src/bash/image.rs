//! Output that is one image: a `data:` URI becomes an image for the model, if models accept it.
//!
//! An image that a provider refuses would break every later request of the conversation, so anything doubtful stays
//! text. Images are never resized.

use gimlet_exec::CapturedOutput;
use gimlet_proto::ContentPart;

/// Maximum length of a URI; providers refuse larger images.
const LARGEST_URI: u64 = 5_000_000;

/// Parses a text that is one image; the bytes determine its type.
pub(super) fn parse_image_uri(text: &str) -> Option<ContentPart> {
    let (_, base64) = text.trim().strip_prefix("data:image/")?.split_once(";base64,")?;
    ContentPart::image_from_base64(base64).ok()
}

/// Returns the URI of the image that a command printed, if that is its whole output.
pub(super) async fn printed_image_uri(captured: &CapturedOutput) -> Option<String> {
    if !captured.head.trim_ascii_start().starts_with(b"data:image/") || captured.total_bytes > LARGEST_URI {
        return None;
    }
    let bytes = match &captured.file {
        Some(file) if !captured.is_complete() => tokio::fs::read(file).await.ok()?,
        Some(_) | None => captured.head.clone(),
    };
    let text = String::from_utf8(bytes).ok()?.trim().to_owned();
    parse_image_uri(&text).map(|_| text)
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    fn uri(kind: &str, bytes: &[u8]) -> String {
        format!("data:image/{kind};base64,{}", STANDARD.encode(bytes))
    }

    fn png(width: u32) -> Vec<u8> {
        [&b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..], &width.to_be_bytes(), &1u32.to_be_bytes()].concat()
    }

    #[test]
    fn every_kind_that_a_provider_takes_is_a_picture_and_nothing_else() {
        let jpeg = b"\xff\xd8\xff\xe0\0\x04ab\xff\xc0\0\x0b\x08\0\x02\0\x03\x01\0\0\0";
        let webp = b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0\0\0\0\0\x0f\0\0\x0f\0\0";
        for (text, is) in [
            (uri("png", &png(10)), "image/png"),
            (format!("{}\n", uri("png", &png(8_000))), "image/png"),
            (uri("jpg", jpeg), "image/jpeg"),
            (uri("gif", b"GIF89a\x10\0\x20\0"), "image/gif"),
            (uri("webp", webp), "image/webp"),
            // The bytes decide, not the declared type.
            (uri("jpeg", &png(10)), "image/png"),
        ] {
            let Some(ContentPart::Image { source }) = parse_image_uri(&text) else { panic!("{text}") };
            assert_eq!(source.media_type(), is, "{text}");
        }
        let (large, text) = (uri("png", &png(8_001)), uri("png", b"hello"));
        for text in [large.as_str(), &text, "data:image/png;base64,***", "data:image/svg+xml;base64,AA==", "hi"] {
            assert_eq!(parse_image_uri(text), None, "{text}");
        }
    }
}
