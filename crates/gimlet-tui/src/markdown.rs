//! Markdown as styled lines, rendered step by step while it streams in.

mod table_layout;

pub use table_layout::{CellAlignment, render_table};

use crate::glyphs::RenderContext;
use crate::styled_line::{StyledLine, TextTone};
use crate::text_width::{BreakRule, clean_text, wrap_line};

/// Markdown that streams in.
#[derive(Clone, Debug, Default)]
pub struct MarkdownStream {
    source: String,
    is_finished: bool,
    has_output: bool,
    blank_pending: bool,
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

    /// Ends the text.
    pub fn finish(&mut self) {
        self.is_finished = true;
    }

    /// Returns the lines that can no longer change; they are not handed out again.
    pub fn take_finished(&mut self, cx: &RenderContext<'_>) -> Vec<StyledLine> {
        let end = if self.is_finished { self.source.len() } else { self.source.rfind('\n').map_or(0, |end| end + 1) };
        let text: String = self.source.drain(..end).collect();
        let mut rows = Vec::new();
        for line in text.lines() {
            if line.trim().is_empty() {
                self.blank_pending = self.has_output;
                continue;
            }
            if std::mem::take(&mut self.blank_pending) {
                rows.push(StyledLine::blank());
            }
            self.has_output = true;
            let line = StyledLine::of(clean_text(line.trim_end()).replace('\n', " "), TextTone::Text);
            rows.extend(wrap_line(&line, cx.width, BreakRule::Words));
        }
        rows
    }

    /// Returns the lines that may still change.
    pub fn live_lines(&self, cx: &RenderContext<'_>) -> Vec<StyledLine> {
        let mut rest = self.clone();
        rest.finish();
        rest.take_finished(cx)
    }
}
