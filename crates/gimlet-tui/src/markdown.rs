//! Markdown as styled lines, rendered step by step while it streams in.
//!
//! Blocks are recognized line by line, so that what a line finishes can be handed out at once: a line of code, an item
//! of a list, a paragraph. Only what a later line could change is kept: the paragraph or the table under way. The work for
//! a piece of text does not depend on the length of what came before, and any division into pieces gives the same lines.

mod block_parser;
mod inline_text;
mod line_kind;
mod row_writer;
mod table_layout;

pub use table_layout::{CellAlignment, render_table};

use crate::glyphs::RenderContext;
use crate::styled_line::StyledLine;
use crate::text_width::clean_text;

use block_parser::{BlockParser, LinePart};

/// Longest part of a line that is held; a longer line is rendered in parts.
const MAX_LINE: usize = 4096;

/// Markdown that streams in.
#[derive(Clone, Debug, Default)]
pub struct MarkdownStream {
    /// Text that is not parsed: the beginning of a line, mostly.
    source: String,
    /// True if `source` goes on with a line whose beginning was parsed.
    is_inside_line: bool,
    is_finished: bool,
    parser: BlockParser,
}

/// Renders a whole text.
pub fn render_markdown(text: &str, cx: &RenderContext<'_>) -> Vec<StyledLine> {
    let mut stream = MarkdownStream::default();
    stream.push(text);
    stream.finish();
    stream.take_finished(cx)
}

impl MarkdownStream {
    /// Adds text.
    pub fn push(&mut self, text: &str) {
        self.source.push_str(text);
    }

    /// Ends the text: everything is finished now.
    pub fn finish(&mut self) {
        self.is_finished = true;
    }

    /// Returns the lines that can no longer change; they are not handed out again.
    pub fn take_finished(&mut self, cx: &RenderContext<'_>) -> Vec<StyledLine> {
        let mut out = Vec::new();
        self.parse(cx, &mut out);
        if self.is_finished {
            self.parser.finish(cx, &mut out);
        }
        out
    }

    /// Returns the lines that may still change. To be called after [`Self::take_finished`].
    pub fn live_lines(&self, cx: &RenderContext<'_>) -> Vec<StyledLine> {
        let mut rest = self.clone();
        if has_only_marks(&rest.source) {
            // Not known yet what they begin.
            rest.source.clear();
        }
        rest.parser.is_live = true;
        rest.finish();
        rest.take_finished(cx)
    }

    /// Parses all whole lines, and all of the text once it is finished.
    fn parse(&mut self, cx: &RenderContext<'_>, out: &mut Vec<StyledLine>) {
        let source = std::mem::take(&mut self.source);
        let mut rest = source.as_str();
        loop {
            let window = rest.get(..rest.floor_char_boundary(MAX_LINE + 1)).unwrap_or_default();
            match window.find('\n') {
                Some(end) => {
                    self.parse_part(window.get(..end).unwrap_or_default(), cx, out);
                    self.is_inside_line = false;
                    rest = rest.get(end + 1..).unwrap_or_default();
                }
                None if rest.len() > MAX_LINE => {
                    let cut = cut_position(rest);
                    let (part, after) = rest.split_at(cut);
                    self.parse_part(part, cx, out);
                    self.is_inside_line = true;
                    rest = after;
                }
                None => break,
            }
        }
        if self.is_finished && !rest.is_empty() {
            self.parse_part(rest, cx, out);
            rest = "";
        }
        self.source = rest.to_owned();
    }

    fn parse_part(&mut self, part: &str, cx: &RenderContext<'_>, out: &mut Vec<StyledLine>) {
        let mut kind = if self.is_inside_line { LinePart::Rest } else { LinePart::Start };
        for line in clean_text(part.trim_end_matches('\r')).split('\n') {
            self.parser.take_line(line, kind, cx, out);
            kind = LinePart::Start;
        }
    }
}

/// Returns where a line that is too long is divided: at a space, if there is one in its second half.
fn cut_position(text: &str) -> usize {
    let window = text.get(..text.floor_char_boundary(MAX_LINE)).unwrap_or_default();
    match window.rfind(' ') {
        Some(space) if space > MAX_LINE / 2 => space + 1,
        _ => window.len().max(1),
    }
}

/// Returns true for the beginning of a line that is nothing but marks so far.
fn has_only_marks(text: &str) -> bool {
    let text = text.trim();
    text.len() <= 3
        && text.bytes().all(|byte| matches!(byte, b'`' | b'~' | b'#' | b'-' | b'*' | b'+' | b'>' | b'|' | b'='))
}

#[cfg(test)]
mod tests;
