//! Bytes that a server sends and that are no text: kept in files beside the transcript, so that commands can use them.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use gimlet_fs::FileDurability;
use gimlet_proto::ToolUseId;

/// Maximum size of one file.
const MAX_BYTES: usize = 16 << 20;

/// Files of one call.
pub(crate) struct BinaryFiles {
    folder: PathBuf,
    prefix: String,
    count: AtomicUsize,
}

impl BinaryFiles {
    pub(crate) fn new(folder: &Path, call: &ToolUseId) -> Self {
        let prefix: String =
            call.as_str().chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').take(64).collect();
        Self { folder: folder.to_owned(), prefix: format!("mcp-{prefix}"), count: AtomicUsize::new(0) }
    }

    /// Stores base64 bytes; returns their file and size.
    pub(crate) fn store(&self, base64: &str, mime_type: Option<&str>) -> Result<(PathBuf, usize), String> {
        if base64.len() / 4 * 3 > MAX_BYTES {
            return Err(format!("it is larger than {} MB", MAX_BYTES >> 20));
        }
        let bytes = BASE64_STANDARD.decode(base64.trim()).map_err(|_| "it is no valid base64".to_owned())?;
        let number = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        let path = self.folder.join(format!("{}-{number}.{}", self.prefix, file_extension(mime_type)));
        let written = gimlet_fs::create_private_dir_all(&self.folder)
            .and_then(|()| gimlet_fs::replace_file(&path, &bytes, FileDurability::Content));
        written.map_err(|error| format!("it cannot be stored: {error}"))?;
        Ok((path, bytes.len()))
    }
}

/// Returns the extension for a type; `bin` for an unknown one.
fn file_extension(mime_type: Option<&str>) -> &'static str {
    let essence = mime_type.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match essence.as_str() {
        "application/gzip" => "gz",
        "application/json" => "json",
        "application/pdf" => "pdf",
        "application/zip" => "zip",
        "audio/mpeg" => "mp3",
        "audio/ogg" => "ogg",
        "audio/wav" | "audio/x-wav" => "wav",
        "image/bmp" => "bmp",
        "image/gif" => "gif",
        "image/jpeg" => "jpg",
        "image/png" => "png",
        "image/svg+xml" => "svg",
        "image/tiff" => "tiff",
        "image/webp" => "webp",
        "video/mp4" => "mp4",
        _ => "bin",
    }
}
