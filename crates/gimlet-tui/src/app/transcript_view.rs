//! The whole conversation on a screen of its own: thinking, full output and times, to scroll and search in.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use gimlet_proto::{HistoryBody, HistoryItem};

use crate::feed::{ViewDetail, render_history};
use crate::glyphs::RenderContext;
use crate::styled_line::{StyledLine, TextStyle, TextTone};
use crate::text_width::{clean_line, truncate_line};

/// The view and where it stands.
#[derive(Debug)]
pub(super) struct TranscriptView {
    items: Vec<HistoryItem>,
    /// Rendered lines and the width they were made for.
    rendered: Option<(usize, Vec<StyledLine>)>,
    /// Lines of prompts within the rendered ones.
    prompt_rows: Vec<usize>,
    first_row: usize,
    height: usize,
    must_show_end: bool,
    search: Option<SearchInput>,
}

#[derive(Clone, Debug, Default)]
struct SearchInput {
    text: String,
    is_typing: bool,
}

/// What a key led to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TranscriptOutcome {
    Stays,
    Leaves,
    /// Show this in the user's editor.
    Edits(String),
}

impl TranscriptView {
    pub(super) fn new(items: Vec<HistoryItem>) -> Self {
        Self {
            items,
            rendered: None,
            prompt_rows: Vec::new(),
            first_row: 0,
            height: 1,
            must_show_end: true,
            search: None,
        }
    }

    pub(super) fn scroll(&mut self, rows: i64) {
        self.first_row = if rows < 0 {
            self.first_row.saturating_sub(rows.unsigned_abs() as usize)
        } else {
            self.first_row.saturating_add(rows.unsigned_abs() as usize)
        };
    }

    pub(super) fn handle_key(&mut self, key: KeyEvent) -> TranscriptOutcome {
        let has_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if let Some(search) = self.search.as_mut().filter(|search| search.is_typing) {
            match key.code {
                KeyCode::Esc => self.search = None,
                KeyCode::Enter => search.is_typing = false,
                KeyCode::Backspace => drop(search.text.pop()),
                KeyCode::Char(char) if !has_control => search.text.push(char),
                _ => {}
            }
            self.find_next(self.first_row);
            return TranscriptOutcome::Stays;
        }
        let page = i64::try_from(self.height.saturating_sub(2)).unwrap_or(1);
        match key.code {
            KeyCode::Esc | KeyCode::Char('q') => return TranscriptOutcome::Leaves,
            KeyCode::Char('o' | 'c') if has_control => return TranscriptOutcome::Leaves,
            KeyCode::Char('v') => return TranscriptOutcome::Edits(self.plain_text()),
            KeyCode::Up | KeyCode::Char('k') => self.scroll(-1),
            KeyCode::Down | KeyCode::Char('j') => self.scroll(1),
            KeyCode::PageUp | KeyCode::Char('b') => self.scroll(-page),
            KeyCode::PageDown | KeyCode::Char(' ' | 'f') => self.scroll(page),
            KeyCode::Char('u') => self.scroll(-page / 2),
            KeyCode::Char('d') => self.scroll(page / 2),
            KeyCode::Home | KeyCode::Char('g') => self.first_row = 0,
            KeyCode::End | KeyCode::Char('G') => self.first_row = usize::MAX,
            KeyCode::Char('{') => {
                let before = self.prompt_rows.iter().rev().find(|row| **row < self.first_row);
                self.first_row = before.copied().unwrap_or(0);
            }
            KeyCode::Char('}') => {
                let after = self.prompt_rows.iter().find(|row| **row > self.first_row);
                self.first_row = after.copied().unwrap_or(usize::MAX);
            }
            KeyCode::Char('/') => self.search = Some(SearchInput { text: String::new(), is_typing: true }),
            KeyCode::Char('n') => self.find_next(self.first_row + 1),
            KeyCode::Char('N') => self.find_previous(),
            _ => {}
        }
        TranscriptOutcome::Stays
    }

    fn matching_rows(&self) -> Vec<usize> {
        let wanted = self.search.as_ref().map(|search| search.text.to_lowercase()).unwrap_or_default();
        let lines = self.rendered.as_ref().map(|(_, lines)| lines.as_slice()).unwrap_or_default();
        if wanted.is_empty() {
            return Vec::new();
        }
        let matches = lines.iter().enumerate().filter(|(_, line)| line.text().to_lowercase().contains(&wanted));
        matches.map(|(row, _)| row).collect()
    }

    fn find_next(&mut self, from: usize) {
        let rows = self.matching_rows();
        if let Some(row) = rows.iter().find(|row| **row >= from).or_else(|| rows.first()) {
            self.first_row = *row;
        }
    }

    fn find_previous(&mut self) {
        let rows = self.matching_rows();
        if let Some(row) = rows.iter().rev().find(|row| **row < self.first_row).or_else(|| rows.last()) {
            self.first_row = *row;
        }
    }

    fn plain_text(&self) -> String {
        let lines = self.rendered.as_ref().map(|(_, lines)| lines.as_slice()).unwrap_or_default();
        lines.iter().map(|line| line.text() + "\n").collect()
    }

    /// Renders the whole screen.
    pub(super) fn render(&mut self, rows: usize, cx: &RenderContext<'_>) -> Vec<StyledLine> {
        if self.rendered.as_ref().is_none_or(|(width, _)| *width != cx.width) {
            self.render_items(cx);
        }
        self.height = rows.saturating_sub(1).max(1);
        let lines = self.rendered.as_ref().map(|(_, lines)| lines.as_slice()).unwrap_or_default();
        let last_start = lines.len().saturating_sub(self.height);
        if std::mem::take(&mut self.must_show_end) {
            self.first_row = last_start;
        }
        self.first_row = self.first_row.min(last_start);
        let shown = lines.iter().skip(self.first_row).take(self.height);
        let mut out: Vec<StyledLine> = shown.cloned().collect();
        let wanted = self.search.as_ref().map(|search| search.text.to_lowercase()).unwrap_or_default();
        if !wanted.is_empty() {
            for line in out.iter_mut().filter(|line| line.text().to_lowercase().contains(&wanted)) {
                line.spans.iter_mut().for_each(|span| span.style.reverse = true);
            }
        }
        out.resize(self.height, StyledLine::blank());
        if rows > 1 {
            out.push(self.status_line(lines.len(), cx));
        }
        out
    }

    fn render_items(&mut self, cx: &RenderContext<'_>) {
        self.prompt_rows.clear();
        let mut lines = Vec::new();
        for item in &self.items {
            let rows = render_history(std::slice::from_ref(item), ViewDetail::Whole, cx);
            if rows.is_empty() {
                continue;
            }
            if !lines.is_empty() {
                lines.push(StyledLine::blank());
            }
            if matches!(item.body, HistoryBody::Prompt(_)) {
                self.prompt_rows.push(lines.len());
            }
            lines.extend(rows);
        }
        if lines.is_empty() {
            lines.push(StyledLine::of("  Nothing was said yet.", TextTone::Dim));
        }
        self.rendered = Some((cx.width, lines));
    }

    fn status_line(&self, count: usize, cx: &RenderContext<'_>) -> StyledLine {
        if let Some(search) = &self.search {
            let found = self.matching_rows().len();
            let keys = if search.is_typing { "enter" } else { "n N next, previous" };
            let text = format!("/{}  {found} found  {keys}", clean_line(&search.text));
            return truncate_line(&StyledLine::of(text, TextTone::Accent), cx.width);
        }
        let end = (self.first_row + self.height).min(count);
        let text = format!("Transcript  {end}/{count}   q back  / search  {{ }} prompts  v editor");
        truncate_line(&StyledLine::of(text, TextStyle::of(TextTone::Dim)), cx.width)
    }
}
