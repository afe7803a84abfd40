//! What a stored image is: its type and size, read from its first bytes. Knows the few kinds that can be sent at all.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Longest base64 text of one image that a request may carry.
const MAX_BASE64: usize = 10_000_000;
/// Longest side of an image in pixels.
const MAX_SIDE: u32 = 8000;
/// How much of a JPEG is searched for its size; camera data before it is seldom larger.
const HEAD: usize = 256 << 10;

/// An image that can be sent by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Picture {
    /// Its longer side, where it is known.
    pub(crate) side: u32,
}

/// Looks at a base64 text that is said to be an image of this type; says why it cannot be sent.
pub(crate) fn look(declared: &str, base64: &str) -> Result<Picture, &'static str> {
    if base64.len() > MAX_BASE64 {
        return Err("it is larger than 10 MB");
    }
    let base64 = base64.trim().as_bytes();
    let padding = base64.iter().rev().take_while(|byte| **byte == b'=').count();
    let body = &base64[..base64.len() - padding];
    let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    if !base64.len().is_multiple_of(4) || padding > 2 || !body.iter().all(is_base64) {
        return Err("its data is not base64");
    }
    let whole = base64.len().min(HEAD / 4 * 4);
    let bytes = STANDARD.decode(&base64[..whole]).map_err(|_| "its data is not base64")?;
    let (found, sides) = kind_and_sides(&bytes).ok_or("it is neither JPEG, PNG, GIF nor WebP")?;
    if found != declared {
        return Err("it is of another type than it says");
    }
    let side = sides.map_or(0, |(width, height)| width.max(height));
    if side > MAX_SIDE {
        return Err("it has more than 8,000 pixels on a side");
    }
    Ok(Picture { side })
}

type Sides = Option<(u32, u32)>;

fn kind_and_sides(bytes: &[u8]) -> Option<(&'static str, Sides)> {
    if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        return Some(("image/png", Some((big(bytes, 16, 4)?, big(bytes, 20, 4)?))));
    }
    if bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a") {
        return Some(("image/gif", Some((little(bytes, 6, 2)?, little(bytes, 8, 2)?))));
    }
    if bytes.starts_with(b"RIFF") && bytes.get(8..12)? == b"WEBP" {
        return Some(("image/webp", webp(bytes)));
    }
    bytes.starts_with(&[0xff, 0xd8]).then(|| ("image/jpeg", jpeg(bytes)))
}

fn webp(bytes: &[u8]) -> Sides {
    Some(match bytes.get(12..16)? {
        b"VP8X" => (little(bytes, 24, 3)? + 1, little(bytes, 27, 3)? + 1),
        b"VP8L" => {
            let packed = little(bytes, 21, 4)?;
            ((packed & 0x3fff) + 1, (packed >> 14 & 0x3fff) + 1)
        }
        _ => (little(bytes, 26, 2)? & 0x3fff, little(bytes, 28, 2)? & 0x3fff),
    })
}

/// Walks over the segments to the one that has the size.
fn jpeg(bytes: &[u8]) -> Sides {
    let mut at = 2;
    loop {
        let marker = *bytes.get(at + 1)?;
        if matches!(marker, 0xc0..=0xcf) && !matches!(marker, 0xc4 | 0xc8 | 0xcc) {
            return Some((big(bytes, at + 7, 2)?, big(bytes, at + 5, 2)?));
        }
        at += 2 + (big(bytes, at + 2, 2)? as usize).max(2);
    }
}

fn big(bytes: &[u8], at: usize, count: usize) -> Option<u32> {
    Some(bytes.get(at..at + count)?.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte)))
}

fn little(bytes: &[u8], at: usize, count: usize) -> Option<u32> {
    Some(bytes.get(at..at + count)?.iter().rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte)))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The smallest thing that looks like a PNG of this size.
    pub(crate) fn png(width: u32, height: u32) -> String {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        bytes.extend(width.to_be_bytes());
        bytes.extend(height.to_be_bytes());
        STANDARD.encode(bytes)
    }

    #[test]
    fn each_kind_is_known_by_its_first_bytes_and_each_fault_has_its_words() {
        assert_eq!(look("image/png", &png(640, 480)), Ok(Picture { side: 640 }));
        let jpeg = STANDARD.encode([0xff, 0xd8, 0xff, 0xe0, 0, 4, 0, 0, 0xff, 0xc0, 0, 11, 8, 0, 50, 0, 70, 3]);
        assert_eq!(look("image/jpeg", &jpeg), Ok(Picture { side: 70 }));
        let gif = STANDARD.encode(b"GIF89a\x10\x00\x20\x00");
        assert_eq!(look("image/gif", &gif), Ok(Picture { side: 32 }));
        let faults = [
            ("image/png", png(9000, 1), "8,000 pixels"),
            ("image/jpeg", png(1, 1), "another type"),
            ("image/png", "AAAA".into(), "neither"),
            ("image/png", "****".into(), "not base64"),
            ("image/png", "A".repeat(MAX_BASE64 + 4), "10 MB"),
        ];
        for (declared, data, part) in faults {
            let why = look(declared, &data).unwrap_err();
            assert!(why.contains(part), "{why}");
        }
    }
}
