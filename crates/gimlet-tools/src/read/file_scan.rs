//! One pass over a file: judges its kind, fills the page, counts lines and hashes content, in constant memory.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use gimlet_core::files::ContentHash;
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::file_kind::{self, FileKind};
use super::line_splitter::LineSplitter;
use super::read_page::{LINE_KEEP, LineSelection, ReadPage, TokenBudget};
use crate::text_file::TextEncoding;

const CHUNK: usize = 64 * 1024;
/// A complete page of a larger file is given without counting the rest of its lines.
const COUNTED: u64 = 256 << 20;

/// Result of one pass.
pub(super) struct FileScan {
    pub(super) page: ReadPage,
    pub(super) encoding: TextEncoding,
    /// The hash of all bytes; `None` when the pass ended early, and then the line count is a lower bound.
    pub(super) hash: Option<ContentHash>,
}

/// Reason why there is no page.
#[derive(Debug)]
pub(super) enum ScanError {
    NotText(FileKind),
    /// The named range does not fit; this many lines of it do.
    OverBudget {
        fitting: u64,
    },
    Cancelled,
    Io(io::Error),
}

/// Reads `file` from its start.
pub(super) fn scan(
    file: &mut File,
    size: u64,
    path: &Path,
    selection: LineSelection,
    budget: TokenBudget,
    cancel: &CancellationToken,
) -> Result<FileScan, ScanError> {
    // One byte more than the file has, so that a small file is one read and the end another.
    let room = usize::try_from(size).unwrap_or(usize::MAX).saturating_add(1).clamp(file_kind::HEAD, CHUNK);
    let mut chunk = vec![0; room];
    let mut page = ReadPage::new(selection, budget, room.min(size as usize));
    let mut hasher = Sha256::new();
    let mut splitter: Option<(LineSplitter, TextEncoding)> = None;
    let mut done: u64 = 0;
    let mut is_counted = true;
    loop {
        let length = read_chunk(file, &mut chunk).map_err(ScanError::Io)?;
        let bytes = &chunk[..length];
        let (splitter, _) = match &mut splitter {
            Some(running) => running,
            None => match file_kind::detect_kind(&bytes[..length.min(file_kind::HEAD)], path) {
                FileKind::Text(encoding) => splitter.insert((LineSplitter::new(encoding, LINE_KEEP), encoding)),
                other => return Err(ScanError::NotText(other)),
            },
        };
        if length == 0 {
            break;
        }
        hasher.update(bytes);
        splitter.feed(bytes, &mut page);
        done += length as u64;
        if page.over_budget && selection.explicit {
            return Err(ScanError::OverBudget { fitting: page.shown });
        }
        if done >= COUNTED && page.is_complete() {
            is_counted = false;
            break;
        }
        if cancel.is_cancelled() {
            return Err(ScanError::Cancelled);
        }
    }
    let encoding = splitter.as_ref().map_or(TextEncoding::Utf8, |(_, encoding)| *encoding);
    if let Some((splitter, _)) = splitter
        && is_counted
    {
        splitter.finish(&mut page);
    }
    if page.over_budget && selection.explicit {
        return Err(ScanError::OverBudget { fitting: page.shown });
    }
    page.finish();
    Ok(FileScan { page, encoding, hash: is_counted.then(|| hasher.finalize().into()) })
}

pub(super) fn read_chunk(file: &mut File, chunk: &mut [u8]) -> io::Result<usize> {
    loop {
        match file.read(chunk) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
