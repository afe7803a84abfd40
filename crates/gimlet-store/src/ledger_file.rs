//! Append-only files of JSON lines beside a transcript.
//!
//! A line is written with one write. A line that was torn by a crash costs only itself: the next one begins on a line
//! of its own, and readers count what they cannot parse.

use std::io::{self, BufRead, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::disk::{Disk, LogFile, RealDisk, read_range};

/// File of lines, open for appending.
pub(crate) struct LedgerFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    file: Option<Arc<dyn LogFile>>,
}

impl LedgerFile {
    /// Creates the ledger. Nothing is written before the first line.
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { disk: Arc::new(RealDisk), path, file: None }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a line, with one write.
    pub(crate) fn append(&mut self, line: &impl Serialize) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(line)?;
        bytes.push(b'\n');
        let file = match &self.file {
            Some(file) if !file.is_removed()? => file.clone(),
            _ => {
                let file = self.open()?;
                if has_torn_end(file.as_ref())? {
                    bytes.insert(0, b'\n');
                }
                file
            }
        };
        // A short write leaves a torn line; the next opening checks the end again.
        self.file = None;
        if file.append(&bytes)? < bytes.len() {
            return Err(io::Error::new(ErrorKind::WriteZero, "the disk took only part of the line"));
        }
        self.file = Some(file);
        Ok(())
    }

    fn open(&self) -> io::Result<Arc<dyn LogFile>> {
        if let Some(dir) = self.path.parent() {
            self.disk.create_dirs(dir)?;
        }
        self.disk.open_append(&self.path)
    }
}

fn has_torn_end(file: &dyn LogFile) -> io::Result<bool> {
    let size = file.size()?;
    Ok(size > 0 && read_range(file, size - 1, 1)? != b"\n")
}

/// Reads the lines of a ledger in order; also returns the number of lines that could not be parsed. A file that does
/// not exist has none.
pub(crate) fn read_ledger<T: DeserializeOwned>(path: &Path) -> io::Result<(Vec<T>, usize)> {
    let file = match crate::disk::open_regular(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok((Vec::new(), 0)),
        Err(error) => return Err(error),
    };
    let mut lines = Vec::new();
    let mut unreadable = 0;
    for line in io::BufReader::new(file).split(b'\n') {
        let line = line?;
        match serde_json::from_slice(&line) {
            Ok(entry) => lines.push(entry),
            Err(_) if line.is_empty() => {}
            Err(_) => unreadable += 1,
        }
    }
    Ok((lines, unreadable))
}
