//! Output that is one picture: a `data:` URI becomes an image for the model, if it is one that models accept.
//!
//! A picture that a provider refuses would spoil every later request of the conversation, so anything doubtful stays
//! text.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gimlet_exec::Captured;

/// Longest URI that is looked at; larger pictures are refused by providers.
const LARGEST_URI: u64 = 5_000_000;
/// Providers refuse pictures with a longer side.
const LONGEST_SIDE: u32 = 8_000;

/// A picture in a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Image<'a> {
    pub(super) media_type: &'static str,
    pub(super) base64: &'a str,
}

impl<'a> Image<'a> {
    /// The picture that a text consists of. Looks at its form only.
    pub(super) fn in_text(text: &'a str) -> Option<Self> {
        let rest = text.trim().strip_prefix("data:image/")?;
        let (kind, base64) = rest.split_once(";base64,")?;
        let media_type = match kind {
            "png" => "image/png",
            "jpeg" | "jpg" => "image/jpeg",
            _ => return None,
        };
        Some(Self { media_type, base64 })
    }

    /// Whether the bytes are a picture of that kind and of a size that is accepted.
    fn is_sound(&self) -> bool {
        let Ok(bytes) = STANDARD.decode(self.base64) else { return false };
        let sides = if self.media_type == "image/png" { png_sides(&bytes) } else { jpeg_sides(&bytes) };
        sides.is_some_and(|(width, height)| (1..=LONGEST_SIDE).contains(&width) && (1..=LONGEST_SIDE).contains(&height))
    }
}

/// The URI of the picture that a command printed, if that is all it printed.
pub(super) async fn printed(captured: &Captured) -> Option<String> {
    if !captured.head.trim_ascii_start().starts_with(b"data:image/") || captured.total_bytes > LARGEST_URI {
        return None;
    }
    let bytes = match &captured.file {
        Some(file) if !captured.is_whole() => tokio::fs::read(file).await.ok()?,
        Some(_) | None => captured.head.clone(),
    };
    let text = String::from_utf8(bytes).ok()?.trim().to_owned();
    Image::in_text(&text)?.is_sound().then_some(text)
}

fn png_sides(bytes: &[u8]) -> Option<(u32, u32)> {
    let header = bytes.strip_prefix(b"\x89PNG\r\n\x1a\n")?;
    let sides = header.get(4..)?.strip_prefix(b"IHDR")?;
    Some((big_endian(sides.get(..4)?), big_endian(sides.get(4..8)?)))
}

/// The sides are in the first "start of frame" segment.
fn jpeg_sides(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut rest = bytes.strip_prefix(b"\xff\xd8")?;
    loop {
        let (marker, segment) = (*rest.get(1)?, rest.get(2..)?);
        if *rest.first()? != 0xff {
            return None;
        }
        let length = big_endian(segment.get(..2)?) as usize;
        if matches!(marker, 0xc0..=0xcf) && !matches!(marker, 0xc4 | 0xc8 | 0xcc) {
            return Some((big_endian(segment.get(5..7)?), big_endian(segment.get(3..5)?)));
        }
        rest = segment.get(length..)?;
    }
}

fn big_endian(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png(width: u32) -> String {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        bytes.extend(width.to_be_bytes());
        bytes.extend(1u32.to_be_bytes());
        format!("data:image/png;base64,{}", STANDARD.encode(bytes))
    }

    fn is_sound(text: &str) -> bool {
        Image::in_text(text).is_some_and(|image| image.is_sound())
    }

    #[test]
    fn only_pictures_that_a_provider_takes_are_sound() {
        assert!(is_sound(&png(10)) && is_sound(&format!("{}\n", png(8_000))));
        assert!(!is_sound(&png(8_001)) && !is_sound(&png(0)));
        let jpeg = b"\xff\xd8\xff\xe0\0\x04ab\xff\xc0\0\x0b\x08\0\x02\0\x03\x01\0\0\0";
        assert_eq!(jpeg_sides(jpeg), Some((3, 2)));
        assert!(is_sound(&format!("data:image/jpeg;base64,{}", STANDARD.encode(jpeg))));
        for text in
            ["data:image/png;base64,aGVsbG8=", "data:image/png;base64,***", "data:image/svg+xml;base64,AA==", "hi"]
        {
            assert!(!is_sound(text), "{text}");
        }
    }
}
