//! One pass over a file: judges its kind, fills the page, counts lines and hashes content, in constant memory.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use gimlet_core::files::ContentHash;
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::kind::{self, Kind};
use super::lines::Splitter;
use super::page::{Budget, LINE_KEEP, Page, Selection};
use crate::text_file::Encoding;

const CHUNK: usize = 64 * 1024;
/// A complete page of a larger file is given without counting the rest of its lines.
const COUNTED: u64 = 256 << 20;

/// What one pass found.
pub(super) struct Scan {
    pub(super) page: Page,
    pub(super) encoding: Encoding,
    /// The hash of all bytes; `None` when the pass ended early, and then the line count is a lower bound.
    pub(super) hash: Option<ContentHash>,
}

/// Why there is no page.
#[derive(Debug)]
pub(super) enum ScanError {
    NotText(Kind),
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
    selection: Selection,
    budget: Budget,
    cancel: &CancellationToken,
) -> Result<Scan, ScanError> {
    // One byte more than the file has, so that a small file is one read and the end another.
    let room = usize::try_from(size).unwrap_or(usize::MAX).saturating_add(1).clamp(kind::HEAD, CHUNK);
    let mut chunk = vec![0; room];
    let mut page = Page::new(selection, budget, room.min(size as usize));
    let mut hasher = Sha256::new();
    let mut splitter: Option<(Splitter, Encoding)> = None;
    let mut done: u64 = 0;
    let mut is_counted = true;
    loop {
        let length = read(file, &mut chunk).map_err(ScanError::Io)?;
        let bytes = &chunk[..length];
        let (splitter, _) = match &mut splitter {
            Some(running) => running,
            None => match kind::of(&bytes[..length.min(kind::HEAD)], path) {
                Kind::Text(encoding) => splitter.insert((Splitter::new(encoding, LINE_KEEP), encoding)),
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
    let encoding = splitter.as_ref().map_or(Encoding::Utf8, |(_, encoding)| *encoding);
    if let Some((splitter, _)) = splitter.filter(|_| is_counted) {
        splitter.finish(&mut page);
    }
    if page.over_budget && selection.explicit {
        return Err(ScanError::OverBudget { fitting: page.shown });
    }
    page.finish();
    Ok(Scan { page, encoding, hash: is_counted.then(|| hasher.finalize().into()) })
}

pub(super) fn read(file: &mut File, chunk: &mut [u8]) -> io::Result<usize> {
    loop {
        match file.read(chunk) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
