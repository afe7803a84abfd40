//! Text around a JSON value: lines of offsets, and errors with their positions.

use memchr::memchr_iter;

/// Text that can map a byte offset to its line.
#[derive(Clone, Debug, Default)]
pub(crate) struct JsonText {
    text: String,
    /// Offset at which each line after the first begins.
    line_starts: Vec<usize>,
}

/// Position in a file, both counted from 1; the column counts characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TextPosition {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

/// Reason why a text is not JSON.
#[derive(Debug, PartialEq)]
pub(crate) struct JsonSyntaxError {
    pub(crate) offset: usize,
    pub(crate) message: String,
}

impl JsonText {
    pub(crate) fn new(text: String) -> Self {
        let line_starts = memchr_iter(b'\n', text.as_bytes()).map(|end| end + 1).collect();
        Self { text, line_starts }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    pub(crate) fn line_at(&self, offset: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= offset) + 1
    }

    pub(crate) fn position_at(&self, offset: usize) -> TextPosition {
        let line = self.line_at(offset);
        let start = if line == 1 { 0 } else { self.line_starts[line - 2] };
        let before = self.text.get(start..offset.min(self.text.len())).unwrap_or_default();
        TextPosition { line, column: before.chars().count() + 1 }
    }
}
