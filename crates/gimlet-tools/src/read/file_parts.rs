//! A file that is too large for one read, copied into parts that are not: each can be read whole, by any tool.

use std::fs::{DirBuilder, File};
use std::io::{self, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::file_scan;
use super::line_splitter::{DecodedLine, LineSink, LineSplitter};
use super::read_page::{PAGE_LINES, TokenBudget};
use crate::text_file::TextEncoding;

/// Maximum size of a file that is copied into parts: hundreds of parts are useless and take the user's disk space.
pub(super) const MOST_BYTES: u64 = 8 << 20;

/// The parts of one file.
pub(super) struct FileParts {
    pub(super) count: u64,
    pub(super) folder: PathBuf,
}

/// Writes the parts into a new folder below `results`, named after the call.
pub(super) fn write_parts(
    file: &mut File,
    encoding: TextEncoding,
    budget: TokenBudget,
    results: &Path,
    call: &str,
) -> io::Result<FileParts> {
    file.rewind()?;
    let mut parts = PartWriter {
        folder: new_folder(results, call)?,
        budget,
        text: String::new(),
        spent: 0,
        first: 1,
        lines: 0,
        count: 0,
        problem: None,
    };
    let mut splitter = LineSplitter::new(encoding, usize::MAX);
    let mut chunk = vec![0; 64 * 1024];
    loop {
        let length = file_scan::read_chunk(file, &mut chunk)?;
        if length == 0 {
            break;
        }
        splitter.feed(&chunk[..length], &mut parts);
    }
    splitter.finish(&mut parts);
    parts.close_part();
    match parts.problem {
        None => Ok(FileParts { count: parts.count, folder: parts.folder }),
        Some(problem) => {
            drop(std::fs::remove_dir_all(&parts.folder));
            Err(problem)
        }
    }
}

/// Creates a new folder, so that nothing stored earlier is overwritten.
fn new_folder(results: &Path, call: &str) -> io::Result<PathBuf> {
    let safe: String = call.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')).collect();
    gimlet_fs::create_private_dir_all(results)?;
    let mut number = 1;
    loop {
        let name = if number == 1 { format!("{safe}-parts") } else { format!("{safe}-parts-{number}") };
        let folder = results.join(name);
        match DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 1_000 => number += 1,
            Err(error) => return Err(error),
        }
    }
}

struct PartWriter {
    folder: PathBuf,
    budget: TokenBudget,
    text: String,
    spent: u64,
    /// The file's line that this part begins with.
    first: u64,
    lines: u64,
    count: u64,
    problem: Option<io::Error>,
}

impl PartWriter {
    fn close_part(&mut self) {
        if self.lines == 0 || self.problem.is_some() {
            return;
        }
        self.count += 1;
        let name = format!("{:03}_lines_{}-{}.txt", self.count, self.first, self.first + self.lines - 1);
        let path = self.folder.join(name);
        let written = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .and_then(|mut file| file.write_all(self.text.as_bytes()));
        self.problem = written.err();
        self.text.clear();
        self.first += self.lines;
        self.lines = 0;
        self.spent = 0;
    }
}

impl LineSink for PartWriter {
    fn wants_next(&self) -> bool {
        self.problem.is_none()
    }

    fn push_line(&mut self, line: DecodedLine<'_>) {
        let text = String::from_utf8_lossy(line.bytes);
        let cost = self.budget.cost(self.first + self.lines, &text);
        if self.lines == PAGE_LINES || !self.budget.can_afford(self.spent + cost) {
            self.close_part();
        }
        self.spent += cost;
        self.lines += 1;
        self.text.push_str(&text);
        if line.ended {
            self.text.push('\n');
        }
    }
}
