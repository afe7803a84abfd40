//! A page of text below the conversation: what a command shows and a key closes.

use std::borrow::Cow;

use crossterm::event::{KeyCode, KeyEvent};
use gimlet_proto::ContextUsage;

use crate::feed::{SessionSpending, indent_lines, render_context, render_cost};
use crate::glyphs::RenderContext;
use crate::markdown::render_markdown;
use crate::styled_line::{StyledLine, TextStyle, TextTone};
use crate::text_width::{BreakRule, clean_line, truncate_line, wrap_line};

/// Rows of a page besides its content.
const FRAME_ROWS: usize = 4;

/// A title and what stands below it, which can be scrolled if it does not fit.
#[derive(Clone, Debug)]
pub(crate) struct TextPage {
    title: String,
    content: PageContent,
    first_row: usize,
    last_height: usize,
}

/// What a page shows.
#[derive(Clone, Debug)]
pub(crate) enum PageContent {
    Lines(Vec<StyledLine>),
    /// The context window as a picture.
    Context(Box<ContextUsage>),
    /// What the session used.
    Spending(Box<SessionSpending>),
    /// Text of the model's.
    Markdown(String),
}

impl TextPage {
    pub(crate) fn new(title: &str, lines: Vec<StyledLine>) -> Self {
        Self::with_content(title, PageContent::Lines(lines))
    }

    pub(crate) fn with_content(title: &str, content: PageContent) -> Self {
        Self { title: title.to_owned(), content, first_row: 0, last_height: 1 }
    }

    /// Handles one key; returns false if the page is to close.
    pub(crate) fn handle_key(&mut self, key: KeyEvent) -> bool {
        match key.code {
            KeyCode::Up => self.first_row = self.first_row.saturating_sub(1),
            KeyCode::Down => self.first_row += 1,
            KeyCode::PageUp => self.first_row = self.first_row.saturating_sub(self.last_height),
            KeyCode::PageDown | KeyCode::Char(' ') => self.first_row += self.last_height,
            KeyCode::Home => self.first_row = 0,
            KeyCode::End => self.first_row = usize::MAX,
            _ => return false,
        }
        true
    }

    fn rows(&self, cx: &RenderContext<'_>) -> Vec<StyledLine> {
        let lines = match &self.content {
            PageContent::Lines(lines) => Cow::Borrowed(lines),
            PageContent::Context(usage) => Cow::Owned(render_context(usage, cx)),
            PageContent::Spending(spending) => Cow::Owned(render_cost(spending, cx)),
            PageContent::Markdown(text) => {
                let inner = RenderContext { width: cx.width.saturating_sub(2).max(8), ..*cx };
                Cow::Owned(indent_lines(render_markdown(text, &inner), 2))
            }
        };
        lines.iter().flat_map(|line| wrap_line(line, cx.width, BreakRule::Words)).collect()
    }

    /// Returns true if the page would push most of the conversation off a screen of this height. It is shown in place
    /// of everything then, so that the conversation stands where it was afterwards.
    pub(crate) fn needs_whole_screen(&self, screen_rows: usize, cx: &RenderContext<'_>) -> bool {
        self.rows(cx).len() + FRAME_ROWS > screen_rows / 2
    }

    /// Renders the page in at most `max_rows` rows.
    pub(crate) fn render(&mut self, max_rows: usize, cx: &RenderContext<'_>) -> Vec<StyledLine> {
        let rows = self.rows(cx);
        let room = max_rows.saturating_sub(FRAME_ROWS).max(1);
        self.last_height = room;
        self.first_row = self.first_row.min(rows.len().saturating_sub(room));
        let hidden = rows.len().saturating_sub(self.first_row + room);
        let mut out = vec![
            StyledLine::of(cx.glyphs.rule.repeat(cx.width), TextTone::Dim),
            truncate_line(
                &StyledLine::of(format!("  {}", clean_line(&self.title)), TextStyle::of(TextTone::Accent).bold()),
                cx.width,
            ),
        ];
        out.extend(rows.into_iter().skip(self.first_row).take(room));
        out.push(StyledLine::blank());
        let hint = match (self.first_row, hidden) {
            (0, 0) => "  Esc closes".to_owned(),
            (_, 0) => format!("  {} scrolls · Esc closes", cx.glyphs.up),
            (_, hidden) => format!("  {hidden} more lines · {} scrolls · Esc closes", cx.glyphs.down),
        };
        out.push(StyledLine::of(hint, TextTone::Dim));
        out
    }
}
