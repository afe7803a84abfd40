//! Kind of a file, by its first bytes; the name is used only where bytes are ambiguous.

use std::path::Path;

use gimlet_media::ImageFormat;

use crate::text_file::TextEncoding;
use crate::text_file::file_path::is_notebook;

/// Number of bytes inspected.
pub(super) const HEAD: usize = 8 * 1024;

/// Kind detected from the first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileKind {
    Text(TextEncoding),
    Image(ImageFormat),
    Pdf,
    Notebook,
    /// Something else, with the name of its format where known.
    Binary(Option<&'static str>),
}

const MAGIC: &[(&[u8], FileKind)] = &[
    (b"%PDF-", FileKind::Pdf),
    (b"\x7FELF", FileKind::Binary(Some("ELF program"))),
    (b"PK\x03\x04", FileKind::Binary(Some("ZIP archive"))),
    (b"\x1F\x8B", FileKind::Binary(Some("gzip data"))),
    (b"BZh", FileKind::Binary(Some("bzip2 data"))),
    (b"\xFD7zXZ\0", FileKind::Binary(Some("xz data"))),
    (b"\x28\xB5\x2F\xFD", FileKind::Binary(Some("zstd data"))),
    (b"SQLite format 3\0", FileKind::Binary(Some("SQLite database"))),
    (b"\0asm", FileKind::Binary(Some("WebAssembly module"))),
    (b"\xFF\xFE\0\0", FileKind::Binary(Some("UTF-32 text"))),
    (b"\0\0\xFE\xFF", FileKind::Binary(Some("UTF-32 text"))),
];

/// Names that are refused unseen: formats that are never text.
const BINARY_NAMES: &[&str] = &[
    "7z", "a", "avi", "bin", "bz2", "class", "dll", "dmg", "doc", "docx", "dylib", "eot", "exe", "flac", "gz", "ico",
    "iso", "jar", "mkv", "mov", "mp3", "mp4", "o", "obj", "ogg", "otf", "ppt", "pptx", "pyc", "rar", "so", "sqlite",
    "tar", "tgz", "ttf", "war", "wasm", "wav", "woff", "woff2", "xls", "xlsx", "xz", "zip", "zst",
];

/// Returns true if the file extension belongs to a format that is never text.
pub(super) fn has_binary_name(path: &Path) -> bool {
    extension(path).is_some_and(|extension| BINARY_NAMES.contains(&extension.as_str()))
}

/// Returns true if the file extension is a JSON one; JSON tokens are short.
pub(super) fn has_json_name(path: &Path) -> bool {
    extension(path).is_some_and(|extension| matches!(extension.as_str(), "json" | "jsonl" | "ndjson" | "geojson"))
}

/// Returns true if the file extension is that of an image that can be shown.
pub(super) fn has_image_name(path: &Path) -> bool {
    extension(path).is_some_and(|extension| matches!(extension.as_str(), "png" | "jpg" | "jpeg" | "gif" | "webp"))
}

fn extension(path: &Path) -> Option<String> {
    path.extension().and_then(|extension| extension.to_str()).map(str::to_ascii_lowercase)
}

/// Judges the first [`HEAD`] bytes.
pub(super) fn detect_kind(head: &[u8], path: &Path) -> FileKind {
    if let Some((_, kind)) = MAGIC.iter().find(|(magic, _)| head.starts_with(magic)) {
        return *kind;
    }
    if let Some(format) = ImageFormat::detect(head) {
        return FileKind::Image(format);
    }
    let encoding = TextEncoding::from_head(head);
    if encoding.is_utf16() {
        return FileKind::Text(encoding);
    }
    if head.contains(&0) {
        return FileKind::Binary(None);
    }
    let odd = |byte: &&u8| matches!(**byte, 0..=8 | 11 | 14..=26 | 28..=31 | 127);
    if head.iter().filter(odd).count() * 10 > head.len() * 3 {
        return FileKind::Binary(None);
    }
    let opens_object = head.trim_ascii_start().first() == Some(&b'{');
    if opens_object && is_notebook(path) {
        return FileKind::Notebook;
    }
    FileKind::Text(encoding)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_decide_and_names_only_help() {
        let of = |head: &[u8], name| detect_kind(head, Path::new(name));
        assert_eq!(of(b"<html>", "a.png"), FileKind::Text(TextEncoding::Utf8));
        assert_eq!(of(b"\x89PNG\r\n\x1a\n....", "notes.txt"), FileKind::Image(ImageFormat::Png));
        assert_eq!(of(b"RIFF....WEBPVP8 ", "x"), FileKind::Image(ImageFormat::WebP));
        assert_eq!(of(b"%PDF-1.7", "x"), FileKind::Pdf);
        assert_eq!(of(b" {\"cells\":[]}", "x.ipynb"), FileKind::Notebook);
        assert_eq!(of(b"not json", "x.ipynb"), FileKind::Text(TextEncoding::Utf8));
        assert_eq!(of(b"a\0b", "x"), FileKind::Binary(None));
        assert_eq!(of(b"\x01\x02\x03abc", "x"), FileKind::Binary(None));
        assert_eq!(of(b"\x1b[31mred\x1b[0m", "x.log"), FileKind::Text(TextEncoding::Utf8));
        assert_eq!(of(b"\xFF\xFEa\0", "x"), FileKind::Text(TextEncoding::Utf16Le));
        assert_eq!(of(b"", "x"), FileKind::Text(TextEncoding::Utf8));
        assert!(has_binary_name(Path::new("a.ZIP")) && !has_binary_name(Path::new("a.svg")));
    }
}
