//! Reader of lines of a file of any size through one buffer, each with its offset; only the longest line must fit in
//! memory.

use std::io::{ErrorKind, Read, Result};

use memchr::memchr;

const CHUNK: usize = 1 << 20;

/// One line, without its line break.
pub(crate) struct FileLine<'a> {
    /// Offset of its start in the file.
    pub(crate) at: u64,
    /// Counted from one.
    pub(crate) number: usize,
    pub(crate) bytes: &'a [u8],
    /// True if a line break follows.
    pub(crate) ended: bool,
}

pub(crate) struct LineReader<R> {
    source: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// File offset of `buffer[start]`.
    offset: u64,
    number: usize,
    drained: bool,
}

impl<R: Read> LineReader<R> {
    pub(crate) fn new(source: R) -> Self {
        Self { source, buffer: vec![0; CHUNK], start: 0, end: 0, offset: 0, number: 0, drained: false }
    }

    /// Returns the number of bytes returned so far.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    pub(crate) fn next_line(&mut self) -> Result<Option<FileLine<'_>>> {
        let mut searched = self.start;
        let (length, ended) = loop {
            if let Some(found) = memchr(b'\n', &self.buffer[searched..self.end]) {
                break (searched + found - self.start, true);
            }
            if self.drained {
                break (self.end - self.start, false);
            }
            let kept = self.end - self.start;
            self.fill_buffer()?;
            searched = self.start + kept;
        };
        if length == 0 && !ended {
            return Ok(None);
        }
        let (from, at) = (self.start, self.offset);
        let taken = length + usize::from(ended);
        self.start += taken;
        self.offset += taken as u64;
        self.number += 1;
        Ok(Some(FileLine { at, number: self.number, bytes: &self.buffer[from..from + length], ended }))
    }

    /// Reads more behind what is not yet handed out.
    fn fill_buffer(&mut self) -> Result<()> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.buffer.len() {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        loop {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.drained = true,
                Ok(count) => self.end += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_empty_lines_and_a_missing_last_break() {
        let long = "x".repeat(CHUNK * 2 + 3);
        let text = format!("a\n\n{long}\nend");
        let mut lines = LineReader::new(text.as_bytes());
        let mut seen = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            assert_eq!(&text.as_bytes()[line.at as usize..][..line.bytes.len()], line.bytes);
            seen.push((line.number, line.bytes.len(), line.ended));
        }
        assert_eq!(seen, [(1, 1, true), (2, 0, true), (3, long.len(), true), (4, 3, false)]);
        assert_eq!(lines.offset(), text.len() as u64);
    }
}
