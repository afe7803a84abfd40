//! Results from one file: a match, a count, or lines.
//!
//! Lines are collected as `:12:text` for a match and `-12-text` for context, to be appended to the file's name; the
//! empty line stands for the `--` between groups. When the file's limits are used up, lines are only counted.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use grep_matcher::{Match, Matcher};
use grep_searcher::{Searcher, Sink, SinkContext, SinkFinish, SinkMatch};

use super::OutputMode;

/// Longer lines are clipped around the match.
const MOST_CHARS: usize = 500;
/// Characters shown before the match in a clipped line.
const CHARS_BEFORE: usize = 150;

/// Options for collecting from a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct SinkOptions {
    pub(super) mode: OutputMode,
    /// Put line numbers before lines.
    pub(super) numbers: bool,
    /// Only the matched parts, one to a line.
    pub(super) only_matching: bool,
    /// Maximum lines and bytes collected from one file; the rest is counted.
    pub(super) most_lines: usize,
    pub(super) most_bytes: usize,
}

/// Results from one file.
#[derive(Debug, Default)]
pub(super) struct FileHits {
    /// Matching lines, or matches in multiline mode. One is enough to end the search for files.
    pub(super) matches: u64,
    /// Lines to show, collected or not.
    pub(super) lines: usize,
    pub(super) text: String,
    /// Offset of the first NUL byte, if the file has one.
    pub(super) binary_at: Option<u64>,
}

/// Takes from one file what the call wants.
pub(super) struct FileSink<'a, M> {
    matcher: &'a M,
    taking: SinkOptions,
    /// Bytes that every line takes besides its text: the path is put before it.
    line_overhead: usize,
    /// Asked at the first match: whether the file can be on the page at all.
    is_wanted: &'a dyn Fn() -> bool,
    collects: Option<bool>,
    pub(super) hits: FileHits,
}

impl<'a, M: Matcher> FileSink<'a, M> {
    pub(super) fn new(matcher: &'a M, taking: SinkOptions, path: &Path, is_wanted: &'a dyn Fn() -> bool) -> Self {
        let line_overhead = path.as_os_str().len();
        Self { matcher, taking, line_overhead, is_wanted, collects: None, hits: FileHits::default() }
    }

    fn has_room(&mut self) -> bool {
        self.hits.lines < self.taking.most_lines
            && self.hits.text.len() + self.hits.lines * self.line_overhead < self.taking.most_bytes
            && *self.collects.get_or_insert_with(self.is_wanted)
    }

    fn push(&mut self, mark: char, number: Option<u64>, line: &[u8], at: usize) {
        if self.has_room() {
            let text = &mut self.hits.text;
            text.push(mark);
            if let Some(number) = number
                && self.taking.numbers
            {
                // Writing to a string cannot fail.
                let _ok = write!(text, "{number}{mark}");
            }
            push_clipped(text, line, at);
            text.push('\n');
        }
        self.hits.lines += 1;
    }

    /// Shows each line of a match. In multiline mode there can be several.
    fn push_match(&mut self, found: &SinkMatch<'_>) -> io::Result<()> {
        for (index, line) in found.lines().enumerate() {
            let line = without_line_end(line);
            let at = match line.len() > MOST_CHARS && self.has_room() {
                true => self.matcher.find(line).map_err(as_io)?.map_or(0, |found| found.start()),
                false => 0,
            };
            self.push(':', line_number(found, index), line, at);
        }
        Ok(())
    }

    /// Shows each matched part, line by line where it spans several.
    fn push_parts(&mut self, searcher: &Searcher, found: &SinkMatch<'_>) -> io::Result<()> {
        let bytes = found.bytes();
        let mut parts = Vec::new();
        for_each_match(self.matcher, searcher, found, |part| parts.push(part)).map_err(as_io)?;
        let (mut index, mut counted_to) = (0, 0);
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            index += memchr::memchr_iter(b'\n', &bytes[counted_to..part.start()]).count();
            counted_to = part.start();
            let text = bytes[part].strip_suffix(b"\n").unwrap_or(&bytes[part]);
            for (offset, line) in text.split(|byte| *byte == b'\n').enumerate() {
                self.push(':', line_number(found, index + offset), without_line_end(line), 0);
            }
        }
        Ok(())
    }
}

impl<M: Matcher> Sink for FileSink<'_, M> {
    type Error = io::Error;

    fn matched(&mut self, searcher: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        match self.taking.mode {
            OutputMode::FilesWithMatches => self.hits.matches = 1,
            OutputMode::Count if searcher.multi_line_with_matcher(self.matcher) => {
                let matches = &mut self.hits.matches;
                for_each_match(self.matcher, searcher, found, |_| *matches += 1).map_err(as_io)?;
            }
            OutputMode::Count => self.hits.matches += 1,
            OutputMode::Content => {
                self.hits.matches += 1;
                match self.taking.only_matching {
                    true => self.push_parts(searcher, found)?,
                    false => self.push_match(found)?,
                }
            }
        }
        Ok(self.taking.mode != OutputMode::FilesWithMatches)
    }

    fn context(&mut self, _searcher: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        self.push('-', context.line_number(), without_line_end(context.bytes()), 0);
        Ok(true)
    }

    fn context_break(&mut self, _searcher: &Searcher) -> io::Result<bool> {
        if self.has_room() {
            self.hits.text.push('\n');
        }
        self.hits.lines += 1;
        Ok(true)
    }

    fn finish(&mut self, _searcher: &Searcher, finish: &SinkFinish) -> io::Result<()> {
        self.hits.binary_at = finish.binary_byte_offset();
        Ok(())
    }
}

/// The engines' errors can be shown but are no errors to the type system.
fn as_io(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(error.to_string())
}

fn line_number(found: &SinkMatch<'_>, index: usize) -> Option<u64> {
    found.line_number().map(|first| first + index as u64)
}

/// Calls `each` for every match in what the searcher found, with offsets into its bytes.
fn for_each_match<M: Matcher>(
    matcher: &M,
    searcher: &Searcher,
    found: &SinkMatch<'_>,
    mut each: impl FnMut(Match),
) -> Result<(), M::Error> {
    let range = found.bytes_range_in_buffer();
    if !searcher.multi_line_with_matcher(matcher) {
        // Without its end, so that nothing matches behind the line.
        return matcher.find_iter(without_line_end(found.bytes()), |part| {
            each(part);
            true
        });
    }
    // With the text behind it, so that look-ahead sees what the search saw.
    matcher.find_iter_at(found.buffer(), range.start, |part| {
        if part.start() >= range.end {
            return false;
        }
        each(Match::new(part.start() - range.start, part.end().min(range.end) - range.start));
        true
    })
}

fn without_line_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Appends a line, clipped around `at` if it is long. Bytes that are no UTF-8 become replacement characters.
fn push_clipped(text: &mut String, line: &[u8], at: usize) {
    if line.len() <= MOST_CHARS || skip_chars(line, 0, MOST_CHARS) == line.len() {
        return text.push_str(&String::from_utf8_lossy(line));
    }
    let start = match skip_chars(line, 0, CHARS_BEFORE) >= at {
        true => 0,
        false => back_chars(line, at, CHARS_BEFORE),
    };
    let end = skip_chars(line, start, MOST_CHARS);
    if start > 0 {
        text.push_str(&format!("[{start} bytes cut] "));
    }
    text.push_str(&String::from_utf8_lossy(&line[start..end]));
    if end < line.len() {
        text.push_str(&format!(" [{} bytes cut]", line.len() - end));
    }
}

fn is_char_start(byte: u8) -> bool {
    byte & 0xC0 != 0x80
}

/// Returns the offset `count` characters after `from`: at most four bytes for each, even in invalid UTF-8.
fn skip_chars(line: &[u8], from: usize, count: usize) -> usize {
    let window = &line[from..line.len().min(from + count * 4)];
    let starts = window.iter().enumerate().filter(|(_, byte)| is_char_start(**byte));
    starts.map(|(index, _)| from + index).nth(count).unwrap_or(from + window.len())
}

/// Returns the offset `count` characters before `from`.
fn back_chars(line: &[u8], from: usize, count: usize) -> usize {
    let least = from.saturating_sub(count * 4);
    let starts = (least..from).rev().filter(|index| is_char_start(line[*index]));
    starts.take(count).last().unwrap_or(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clipped(line: &[u8], at: usize) -> String {
        let mut text = String::new();
        push_clipped(&mut text, line, at);
        text
    }

    #[test]
    fn long_lines_are_clipped_around_the_match() {
        let line = format!("{}NEEDLE{}", "a".repeat(10_000), "b".repeat(10_000));
        let shown = clipped(line.as_bytes(), 10_000);
        assert!(shown.starts_with("[9850 bytes cut] aaa") && shown.ends_with("bbb [9656 bytes cut]"), "{shown}");
        assert!(shown.contains("aNEEDLEb"));
        let line = format!("NEEDLE{}", "b".repeat(1_000));
        assert!(clipped(line.as_bytes(), 0).starts_with("NEEDLEb"));
    }

    #[test]
    fn characters_count_and_stay_whole() {
        let line = "é".repeat(500);
        assert_eq!(clipped(line.as_bytes(), 0), line);
        let line = "é".repeat(2_000);
        let shown = clipped(line.as_bytes(), 2_000);
        assert_eq!(shown.matches('é').count(), MOST_CHARS);
        assert!(!shown.contains(char::REPLACEMENT_CHARACTER));
        assert!(clipped(&[0x80; 5_000], 2_500).len() < 20_000);
    }
}
