//! Width of text on a terminal, wrapping, and making hostile text harmless. Everything that is shown passes here.
//!
//! Widths are counted in cells by grapheme: a wide character, a letter with its combining marks and an emoji sequence are
//! one unit that is never divided. Text from outside goes through [`clean_text`] or [`clean_line`] before it becomes part of
//! a [`StyledLine`]; what they return holds no control character but the line feed.

mod clean;
mod wrap;

use std::borrow::Cow;

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

pub use clean::{TAB_WIDTH, clean_line, clean_text};
pub use wrap::{BreakRule, wrap_line, wrap_ranges};

use crate::styled_line::StyledLine;

/// One visible character with its place in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextCell<'a> {
    /// Index of its first byte.
    pub start: usize,
    pub text: &'a str,
    /// Number of columns that it takes: 0 to 2.
    pub width: usize,
}

/// The visible characters of a text in order.
#[derive(Clone, Debug)]
pub struct TextCells<'a> {
    text: &'a str,
    start: usize,
}

impl<'a> TextCells<'a> {
    pub fn new(text: &'a str) -> Self {
        Self { text, start: 0 }
    }
}

impl<'a> Iterator for TextCells<'a> {
    type Item = TextCell<'a>;

    fn next(&mut self) -> Option<TextCell<'a>> {
        let rest = self.text.get(self.start..)?;
        let bytes = rest.as_bytes();
        let first = *bytes.first()?;
        // Printable ASCII before more ASCII stands alone; this spares the tables for nearly all text.
        let is_single = (b' '..=b'~').contains(&first) && bytes.get(1).is_none_or(u8::is_ascii);
        let text = if is_single { rest.get(..1)? } else { rest.graphemes(true).next()? };
        let width = if is_single { 1 } else { grapheme_width(text) };
        let cell = TextCell { start: self.start, text, width };
        self.start += text.len();
        Some(cell)
    }
}

/// Returns the columns of one grapheme. No grapheme takes more than two, whatever its parts add up to.
fn grapheme_width(grapheme: &str) -> usize {
    if grapheme == "\t" { TAB_WIDTH } else { grapheme.width().min(2) }
}

/// Returns the number of columns that a text of one line takes.
pub fn display_width(text: &str) -> usize {
    if text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return text.len();
    }
    TextCells::new(text).map(|cell| cell.width).sum()
}

/// Returns the number of columns that a line takes when it is not wrapped.
pub fn line_width(line: &StyledLine) -> usize {
    line.spans.iter().map(|span| display_width(&span.text)).sum()
}

/// Returns the longest start of a text that is at most `width` columns wide.
pub fn prefix_of_width(text: &str, width: usize) -> &str {
    let mut used = 0;
    for cell in TextCells::new(text) {
        used += cell.width;
        if used > width {
            return text.get(..cell.start).unwrap_or_default();
        }
    }
    text
}

/// Cuts a text that is wider than `width`; `…` stands for its end.
pub fn truncate_end(text: &str, width: usize) -> Cow<'_, str> {
    if fits(text, width) {
        return Cow::Borrowed(text);
    }
    match width.checked_sub(1) {
        Some(kept) => Cow::Owned(format!("{}…", prefix_of_width(text, kept).trim_end())),
        None => Cow::Borrowed(""),
    }
}

/// Cuts a text that is wider than `width` at its start, as is right for paths; `…` stands for what is gone.
pub fn truncate_start(text: &str, width: usize) -> Cow<'_, str> {
    if fits(text, width) {
        return Cow::Borrowed(text);
    }
    let Some(kept) = width.checked_sub(1) else { return Cow::Borrowed("") };
    let mut start = text.len();
    let mut used = 0;
    for (index, grapheme) in text.grapheme_indices(true).rev() {
        used += grapheme_width(grapheme);
        if used > kept {
            break;
        }
        start = index;
    }
    Cow::Owned(format!("…{}", text.get(start..).unwrap_or_default()))
}

/// Cuts a line that is wider than `width`; `…` stands for its end in the style of the last visible character.
pub fn truncate_line(line: &StyledLine, width: usize) -> StyledLine {
    if line_width(line) <= width {
        return line.clone();
    }
    let mut cut = StyledLine { spans: Vec::new(), hang: line.hang };
    let Some(mut left) = width.checked_sub(1) else { return cut };
    let mut style = line.spans.first().map(|span| span.style).unwrap_or_default();
    for span in &line.spans {
        let prefix = prefix_of_width(&span.text, left);
        cut.push(prefix, span.style);
        if !prefix.is_empty() {
            style = span.style;
        }
        if prefix.len() < span.text.len() {
            break;
        }
        left -= display_width(prefix);
    }
    cut.push("…", style);
    cut
}

/// Returns true for a text of at most `width` columns, without reading all of a long one.
fn fits(text: &str, width: usize) -> bool {
    prefix_of_width(text, width).len() == text.len()
}

#[cfg(test)]
mod tests;
