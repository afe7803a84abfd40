//! Type and size of an image, read from its first bytes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// An image's true type and size in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ImageHeader {
    pub(crate) media_type: &'static str,
    pub(crate) width: u32,
    pub(crate) height: u32,
}

impl ImageHeader {
    /// One token for each square of 28 pixels, after scaling to the largest useful edge.
    pub(crate) fn tokens(&self) -> u64 {
        const LONG_EDGE: f64 = 2576.0;
        const MOST: u64 = 4784;
        let scale = (LONG_EDGE / f64::from(self.width.max(self.height).max(1))).min(1.0);
        let squares = |side: u32| ((f64::from(side) * scale).round() as u64).div_ceil(28);
        (squares(self.width) * squares(self.height)).min(MOST)
    }
}

/// Reads the head of a base64 text; `None` when it is no image of a known kind.
pub(crate) fn read_image_header(base64: &str) -> Option<ImageHeader> {
    let bytes = STANDARD.decode(base64).ok()?;
    png(&bytes).or_else(|| gif(&bytes)).or_else(|| webp(&bytes)).or_else(|| jpeg(&bytes))
}

/// Returns true if a base64 text begins as a PDF does.
pub(crate) fn is_pdf(base64: &str) -> bool {
    STANDARD.decode(base64).is_ok_and(|bytes| bytes.starts_with(b"%PDF-"))
}

fn big(bytes: &[u8], at: usize, count: usize) -> Option<u32> {
    Some(bytes.get(at..at + count)?.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte)))
}

fn little(bytes: &[u8], at: usize, count: usize) -> Option<u32> {
    Some(bytes.get(at..at + count)?.iter().rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte)))
}

fn png(bytes: &[u8]) -> Option<ImageHeader> {
    if !bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        return None;
    }
    Some(ImageHeader { media_type: "image/png", width: big(bytes, 16, 4)?, height: big(bytes, 20, 4)? })
}

fn gif(bytes: &[u8]) -> Option<ImageHeader> {
    if !bytes.starts_with(b"GIF87a") && !bytes.starts_with(b"GIF89a") {
        return None;
    }
    Some(ImageHeader { media_type: "image/gif", width: little(bytes, 6, 2)?, height: little(bytes, 8, 2)? })
}

fn webp(bytes: &[u8]) -> Option<ImageHeader> {
    if !bytes.starts_with(b"RIFF") || bytes.get(8..12)? != b"WEBP" {
        return None;
    }
    let (width, height) = match bytes.get(12..16)? {
        b"VP8X" => (little(bytes, 24, 3)? + 1, little(bytes, 27, 3)? + 1),
        b"VP8L" => {
            let packed = little(bytes, 21, 4)?;
            ((packed & 0x3fff) + 1, (packed >> 14 & 0x3fff) + 1)
        }
        _ => (little(bytes, 26, 2)? & 0x3fff, little(bytes, 28, 2)? & 0x3fff),
    };
    Some(ImageHeader { media_type: "image/webp", width, height })
}

/// Walks a JPEG's segments to the frame header.
fn jpeg(bytes: &[u8]) -> Option<ImageHeader> {
    if !bytes.starts_with(&[0xff, 0xd8]) {
        return None;
    }
    let mut at = 2;
    loop {
        let marker = *bytes.get(at + 1)?;
        let is_frame = matches!(marker, 0xc0..=0xcf) && !matches!(marker, 0xc4 | 0xc8 | 0xcc);
        if is_frame {
            let (height, width) = (big(bytes, at + 5, 2)?, big(bytes, at + 7, 2)?);
            return Some(ImageHeader { media_type: "image/jpeg", width, height });
        }
        at += 2 + big(bytes, at + 2, 2)? as usize;
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns the smallest data that passes for a PNG of this size.
    pub(crate) fn png_of(width: u32, height: u32) -> String {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        bytes.extend(width.to_be_bytes());
        bytes.extend(height.to_be_bytes());
        STANDARD.encode(bytes)
    }

    #[test]
    fn reads_every_kind_and_counts_squares() {
        assert_eq!(
            read_image_header(&png_of(280, 29)),
            Some(ImageHeader { media_type: "image/png", width: 280, height: 29 })
        );
        assert_eq!(read_image_header(&png_of(280, 29)).unwrap().tokens(), 20);
        let gif = STANDARD.encode(b"GIF89a\x10\0\x20\0");
        assert_eq!(read_image_header(&gif), Some(ImageHeader { media_type: "image/gif", width: 16, height: 32 }));
        let jpeg = STANDARD.encode([0xff, 0xd8, 0xff, 0xe0, 0, 4, 1, 2, 0xff, 0xc0, 0, 17, 8, 0, 5, 0, 7, 3]);
        assert_eq!(read_image_header(&jpeg), Some(ImageHeader { media_type: "image/jpeg", width: 7, height: 5 }));
        let webp = STANDARD.encode(b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0\0\0\0\0\x09\0\0\x13\0\0");
        assert_eq!(read_image_header(&webp), Some(ImageHeader { media_type: "image/webp", width: 10, height: 20 }));
        assert_eq!(read_image_header("bm90IGFuIGltYWdl"), None);
    }
}
