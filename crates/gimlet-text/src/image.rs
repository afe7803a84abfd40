//! Detection of an image's type and size from its first bytes. Knows only the types that can be sent.

use std::borrow::Cow;

/// Longest base64 text of one image that a request may carry.
const MAX_BASE64: usize = 10_000_000;
/// Longest side of an image in pixels.
const MAX_SIDE: u32 = 8000;
/// Length of a JPEG's prefix that is searched for its size; the camera data before it is seldom larger.
const HEAD: usize = 256 << 10;

/// An image that can be sent on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendableImage {
    /// Media type detected from the bytes, independent of any declared type.
    pub media_type: &'static str,
    /// Its longer side in pixels; 0 if that is too far from the beginning of the data.
    pub side: u32,
}

/// Removes whitespace from base64, as the wire requires: many programs break it into lines.
pub fn strip_base64_whitespace(base64: &str) -> Cow<'_, str> {
    match base64.contains(|c: char| c.is_ascii_whitespace()) {
        true => Cow::Owned(base64.split_ascii_whitespace().collect()),
        false => Cow::Borrowed(base64),
    }
}

/// Returns true if a text is base64 in one piece, with its padding.
pub fn is_base64(text: &str) -> bool {
    let bytes = text.as_bytes();
    let padding = bytes.iter().rev().take_while(|byte| **byte == b'=').count();
    let digit = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    bytes.len().is_multiple_of(4) && padding <= 2 && bytes[..bytes.len() - padding].iter().all(digit)
}

/// Decodes base64 that is known to be valid; without a crate for it, because every other crate waits for this one to
/// build.
fn decode_base64(base64: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let mut bytes = Vec::with_capacity(base64.len() / 4 * 3);
    for four in base64.chunks(4) {
        let digits = four.iter().take_while(|byte| **byte != b'=');
        let bits = digits.clone().fold(0u32, |bits, byte| bits << 6 | u32::from(digit(*byte)));
        let count = digits.count();
        let whole = (bits << (6 * (4 - count))).to_be_bytes();
        bytes.extend(&whole[1..count.max(1)]);
    }
    bytes
}

/// Detects the type of a base64 image of any size. The error is the reason why it is no image.
pub fn detect_image_type(base64: &str) -> Result<&'static str, &'static str> {
    if base64.is_empty() {
        return Err("it is empty");
    }
    if !is_base64(base64) {
        return Err("its data is not base64");
    }
    let head = base64.len().min(64);
    let found = detect_format(&decode_base64(&base64.as_bytes()[..head]));
    found.map(|(media_type, _)| media_type).ok_or("it is neither JPEG, PNG, GIF nor WebP")
}

impl SendableImage {
    /// No model takes more images in a request.
    pub const MOST: usize = 600;
    /// Every model takes so many, and those with the short window no more.
    pub const MOST_FOR_ALL: usize = 100;
    /// The short window, in tokens.
    const SHORT_WINDOW: u64 = 200_000;
    /// Of more images than this each must be small.
    pub const MANY: usize = 20;
    /// The longest side of a small image in pixels.
    pub const SMALL_SIDE: u32 = 2000;

    /// Returns the number of images that a request may carry to a model with this window.
    pub fn max_count_for_window(window: u64) -> usize {
        if window > Self::SHORT_WINDOW { Self::MOST } else { Self::MOST_FOR_ALL }
    }

    /// Checks a base64 text that is declared to be an image. The error is the reason why it cannot be sent.
    pub fn from_base64(base64: &str) -> Result<Self, &'static str> {
        if base64.len() > MAX_BASE64 {
            return Err("it is larger than 10 MB");
        }
        if base64.is_empty() {
            return Err("it is empty");
        }
        if !is_base64(base64) {
            return Err("its data is not base64");
        }
        let head = base64.len().min(HEAD / 4 * 4);
        let bytes = decode_base64(&base64.as_bytes()[..head]);
        let (media_type, sides) = detect_format(&bytes).ok_or("it is neither JPEG, PNG, GIF nor WebP")?;
        if sides.is_none() && head == base64.len() {
            return Err("it is cut off or damaged");
        }
        let side = sides.map_or(0, |(width, height)| width.max(height));
        if side > MAX_SIDE {
            return Err("it has more than 8,000 pixels on a side");
        }
        Ok(Self { media_type, side })
    }
}

type PixelSize = Option<(u32, u32)>;

fn detect_format(bytes: &[u8]) -> Option<(&'static str, PixelSize)> {
    if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        return Some(("image/png", read_big_endian(bytes, 16, 4).zip(read_big_endian(bytes, 20, 4))));
    }
    if bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a") {
        return Some(("image/gif", read_little_endian(bytes, 6, 2).zip(read_little_endian(bytes, 8, 2))));
    }
    if bytes.starts_with(b"RIFF") && bytes.get(8..12)? == b"WEBP" {
        return Some(("image/webp", read_webp_size(bytes)));
    }
    bytes.starts_with(&[0xff, 0xd8]).then(|| ("image/jpeg", read_jpeg_size(bytes)))
}

fn read_webp_size(bytes: &[u8]) -> PixelSize {
    Some(match bytes.get(12..16)? {
        b"VP8X" => (read_little_endian(bytes, 24, 3)? + 1, read_little_endian(bytes, 27, 3)? + 1),
        b"VP8L" => {
            let packed = read_little_endian(bytes, 21, 4)?;
            ((packed & 0x3fff) + 1, (packed >> 14 & 0x3fff) + 1)
        }
        _ => (read_little_endian(bytes, 26, 2)? & 0x3fff, read_little_endian(bytes, 28, 2)? & 0x3fff),
    })
}

/// Walks over the segments to the one that has the size.
fn read_jpeg_size(bytes: &[u8]) -> PixelSize {
    let mut at = 2;
    loop {
        let marker = *bytes.get(at + 1)?;
        if matches!(marker, 0xc0..=0xcf) && !matches!(marker, 0xc4 | 0xc8 | 0xcc) {
            return Some((read_big_endian(bytes, at + 7, 2)?, read_big_endian(bytes, at + 5, 2)?));
        }
        at += 2 + (read_big_endian(bytes, at + 2, 2)? as usize).max(2);
    }
}

fn read_big_endian(bytes: &[u8], at: usize, count: usize) -> Option<u32> {
    Some(bytes.get(at..at + count)?.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte)))
}

fn read_little_endian(bytes: &[u8], at: usize, count: usize) -> Option<u32> {
    Some(bytes.get(at..at + count)?.iter().rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode_base64(bytes: &[u8]) -> String {
        const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut text = String::new();
        for three in bytes.chunks(3) {
            let bits = three.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
            for place in 0..4 {
                let digit = DIGITS[(bits >> (18 - 6 * place)) as usize & 63] as char;
                text.push(if place > three.len() { '=' } else { digit });
            }
        }
        text
    }

    #[test]
    fn base64_is_decoded_to_the_last_byte() {
        assert_eq!(decode_base64(b"aGVsbG8="), b"hello");
        assert_eq!(decode_base64(b"aGk="), b"hi");
        for length in 0..7 {
            let bytes: Vec<u8> = (250..=255).cycle().take(length).collect();
            assert!(is_base64(&encode_base64(&bytes)));
            assert_eq!(decode_base64(encode_base64(&bytes).as_bytes()), bytes);
        }
    }

    fn png_base64(width: u32, height: u32) -> String {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        bytes.extend(width.to_be_bytes());
        bytes.extend(height.to_be_bytes());
        encode_base64(&bytes)
    }

    #[test]
    fn each_kind_is_known_by_its_first_bytes_and_each_fault_has_its_words() {
        let found = |media_type, side| Ok(SendableImage { media_type, side });
        assert_eq!(SendableImage::from_base64(&png_base64(640, 480)), found("image/png", 640));
        let jpeg = encode_base64(&[0xff, 0xd8, 0xff, 0xe0, 0, 4, 0, 0, 0xff, 0xc0, 0, 11, 8, 0, 50, 0, 70, 3]);
        assert_eq!(SendableImage::from_base64(&jpeg), found("image/jpeg", 70));
        let gif = encode_base64(b"GIF89a\x10\x00\x20\x00");
        assert_eq!(SendableImage::from_base64(&gif), found("image/gif", 32));
        let faults = [
            (String::new(), "empty"),
            (png_base64(9000, 1), "8,000 pixels"),
            ("AAAA".into(), "neither"),
            ("****".into(), "not base64"),
            (encode_base64(&[0xff, 0xd8, 0xff]), "cut off"),
            (encode_base64(b"\x89PNG\r\n\x1a\n\0"), "cut off"),
            ("A".repeat(MAX_BASE64 + 4), "10 MB"),
        ];
        for (data, part) in faults {
            let why = SendableImage::from_base64(&data).unwrap_err();
            assert!(why.contains(part), "{why}");
        }
    }
}
