//! A list of rows to choose one from: arrows, digits, and typing to search.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::ListStep;
use crate::glyphs::RenderContext;
use crate::styled_line::{StyledLine, TextStyle, TextTone};
use crate::text_width::{BreakRule, clean_line, display_width, line_width, truncate_line, wrap_line};

/// One row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PickerRow {
    pub label: String,
    /// What is said about it, in the same row if there is room.
    pub detail: String,
    /// At the right edge.
    pub note: String,
}

impl PickerRow {
    pub fn new(label: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { label: label.into(), detail: detail.into(), note: String::new() }
    }
}

/// The list and where its pointer stands.
#[derive(Clone, Debug)]
pub struct ListPicker {
    title: String,
    /// Text between the title and the rows.
    remarks: Vec<StyledLine>,
    /// Hint below the list.
    keys: String,
    rows: Vec<PickerRow>,
    /// Typed to search.
    filter: String,
    /// Indices of the rows that match.
    shown: Vec<usize>,
    selected: usize,
    first: usize,
    height: usize,
    is_searchable: bool,
}

/// From this many rows on, typing searches; fewer are seen at once.
const SEARCHABLE_ROWS: usize = 7;

impl ListPicker {
    pub fn new(title: &str, rows: Vec<PickerRow>) -> Self {
        let shown = (0..rows.len()).collect();
        let is_searchable = rows.len() >= SEARCHABLE_ROWS;
        let keys = if is_searchable { "enter chooses · type to search · esc" } else { "enter chooses · esc" };
        Self {
            title: title.to_owned(),
            remarks: Vec::new(),
            keys: keys.to_owned(),
            rows,
            filter: String::new(),
            shown,
            selected: 0,
            first: 0,
            height: 1,
            is_searchable,
        }
    }

    #[must_use]
    pub fn with_keys(mut self, keys: &str) -> Self {
        self.keys = keys.to_owned();
        self
    }

    /// Shows lines below the title, as far as there is room.
    #[must_use]
    pub fn with_remarks(mut self, remarks: Vec<StyledLine>) -> Self {
        self.remarks = remarks;
        self
    }

    #[must_use]
    pub fn searchable(mut self) -> Self {
        self.is_searchable = true;
        self
    }

    /// Keeps letters for other uses than searching.
    #[must_use]
    pub fn not_searchable(mut self) -> Self {
        self.is_searchable = false;
        self
    }

    /// Returns the index of the row under the pointer.
    pub fn selected(&self) -> Option<usize> {
        self.shown.get(self.selected).copied()
    }

    pub fn select(&mut self, index: usize) {
        self.selected = self.shown.iter().position(|row| *row == index).unwrap_or(0);
    }

    pub fn handle_key(&mut self, key: KeyEvent) -> ListStep {
        let has_control = key.modifiers.contains(KeyModifiers::CONTROL);
        let before = self.selected();
        match key.code {
            KeyCode::Esc if !self.filter.is_empty() => {
                self.filter.clear();
                self.apply_filter();
            }
            KeyCode::Esc => return ListStep::Closes,
            KeyCode::Char('c' | 'd') if has_control => return ListStep::Closes,
            KeyCode::Up => self.move_by(-1),
            KeyCode::Char('p') if has_control => self.move_by(-1),
            KeyCode::Down => self.move_by(1),
            KeyCode::Char('n') if has_control => self.move_by(1),
            KeyCode::PageUp => self.move_by(-(self.height as isize)),
            KeyCode::PageDown => self.move_by(self.height as isize),
            KeyCode::Home => self.selected = 0,
            KeyCode::End => self.selected = self.shown.len().saturating_sub(1),
            KeyCode::Enter => return self.selected().map_or(ListStep::Stays, ListStep::Takes),
            KeyCode::Backspace if self.is_searchable => {
                self.filter.pop();
                self.apply_filter();
            }
            KeyCode::Char(digit @ '1'..='9') if !self.is_searchable => {
                let index = digit as usize - '1' as usize;
                return self.shown.get(index).map_or(ListStep::Stays, |row| ListStep::Takes(*row));
            }
            KeyCode::Char(char) if self.is_searchable && !has_control => self.type_text(&char.to_string()),
            _ => {}
        }
        if self.selected() == before { ListStep::Stays } else { ListStep::Moved }
    }

    pub fn type_text(&mut self, text: &str) {
        if self.is_searchable {
            self.filter.push_str(text.lines().next().unwrap_or_default());
            self.apply_filter();
        }
    }

    fn move_by(&mut self, rows: isize) {
        let last = self.shown.len().saturating_sub(1);
        self.selected = self.selected.saturating_add_signed(rows).min(last);
    }

    fn apply_filter(&mut self) {
        let words: Vec<String> = self.filter.to_lowercase().split_whitespace().map(str::to_owned).collect();
        let matches = |row: &PickerRow| {
            let text = format!("{} {} {}", row.label, row.detail, row.note).to_lowercase();
            words.iter().all(|word| text.contains(word))
        };
        self.shown = (0..self.rows.len()).filter(|index| self.rows.get(*index).is_some_and(matches)).collect();
        self.selected = 0;
    }

    /// Renders the list in at most `max_rows` rows; returns its lines and the cursor in them.
    pub fn render(&mut self, max_rows: usize, cx: &RenderContext<'_>) -> (Vec<StyledLine>, Option<(usize, usize)>) {
        let mut out = vec![StyledLine::of(cx.glyphs.rule.repeat(cx.width), TextTone::Dim)];
        let title = StyledLine::of(format!("  {}", clean_line(&self.title)), TextStyle::of(TextTone::Accent).bold());
        out.push(truncate_line(&title, cx.width));
        self.push_remarks(max_rows, cx, &mut out);
        let mut cursor = None;
        if self.is_searchable {
            let line = StyledLine::of("  Search: ", TextTone::Dim).with(clean_line(&self.filter), TextTone::Text);
            cursor = Some((out.len(), line_width(&line).min(cx.width.saturating_sub(1))));
            out.push(truncate_line(&line, cx.width));
        }
        out.push(StyledLine::blank());
        let room = max_rows.saturating_sub(out.len() + 2).max(1);
        self.height = room;
        self.first = self.first.min(self.selected);
        if self.selected >= self.first + room {
            self.first = self.selected + 1 - room;
        }
        for (place, index) in self.shown.iter().enumerate().skip(self.first).take(room) {
            if let Some(row) = self.rows.get(*index) {
                out.push(self.render_row(place, row, cx));
            }
        }
        if self.shown.is_empty() {
            out.push(StyledLine::of("  Nothing matches.", TextTone::Dim));
        }
        out.push(StyledLine::blank());
        let hidden = self.shown.len().saturating_sub(room);
        let more = if hidden > 0 { format!("{} of {}  ", self.selected + 1, self.shown.len()) } else { String::new() };
        out.push(truncate_line(&StyledLine::of(format!("  {more}{}", self.keys), TextTone::Dim), cx.width));
        (out, cursor)
    }

    /// Adds the remarks; where there is little room, the rows come first.
    fn push_remarks(&self, max_rows: usize, cx: &RenderContext<'_>, out: &mut Vec<StyledLine>) {
        if self.remarks.is_empty() {
            return;
        }
        let rows: Vec<StyledLine> =
            self.remarks.iter().flat_map(|line| wrap_line(line, cx.width, BreakRule::Words)).collect();
        // Rule, title, blank lines and hint beside the rows of the list.
        let room = max_rows.saturating_sub(self.rows.len().min(10) + 6);
        let hidden = rows.len().saturating_sub(room);
        out.push(StyledLine::blank());
        out.extend(rows.into_iter().take(if hidden > 0 { room.saturating_sub(1) } else { room }));
        if hidden > 0 {
            out.push(StyledLine::of(format!("  {} more rows", hidden + 1), TextTone::Dim));
        }
    }

    fn render_row(&self, place: usize, row: &PickerRow, cx: &RenderContext<'_>) -> StyledLine {
        let is_selected = place == self.selected;
        let pointer = if is_selected { cx.glyphs.pointer } else { " " };
        let tone = if is_selected { TextTone::Accent } else { TextTone::Text };
        let mut line = StyledLine::of(format!("  {pointer} "), TextTone::Accent);
        if !self.is_searchable {
            line.push(format!("{}  ", place + 1), TextTone::Dim);
        }
        line.push(clean_line(&row.label), tone);
        if !row.detail.is_empty() {
            line.push(format!("  {}", clean_line(&row.detail)), TextTone::Dim);
        }
        let note = clean_line(&row.note);
        let note_width = if note.is_empty() { 0 } else { display_width(&note) + 2 };
        if note_width == 0 || cx.width < note_width + 30 {
            return truncate_line(&line, cx.width);
        }
        let left = truncate_line(&line, cx.width - note_width);
        let gap = cx.width - note_width - line_width(&left);
        left.with(" ".repeat(gap + 2), TextTone::Text).with(note, TextTone::Dim)
    }
}
