//! Choices one below the other, with a pointer at the current one: the part that all questions and pickers share.

use super::dialog_keys::{DialogKey, DialogKeys, is_typing};
use super::text_field::{FieldLines, TextField};
use crate::glyphs::RenderContext;
use crate::key_bindings::KeyStroke;
use crate::styled_line::{StyledLine, TextStyle, TextTone};
use crate::text_width::{BreakRule, clean_line, clean_text, wrap_line};

/// Columns in front of the pointer.
const INDENT: usize = 2;

/// One choice.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChoiceRow {
    label: String,
    /// Dim, behind the label.
    detail: String,
    /// Dim, in rows of its own below.
    description: String,
    /// Words that belong to this choice. Letters typed on it begin them.
    field: Option<TextField>,
    /// Of several that may be chosen: whether this one is.
    mark: Option<bool>,
}

impl ChoiceRow {
    pub(crate) fn new(label: impl Into<String>) -> Self {
        Self { label: label.into(), ..Self::default() }
    }

    #[must_use]
    pub(crate) fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }

    #[must_use]
    pub(crate) fn with_description(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    #[must_use]
    pub(crate) fn with_field(mut self) -> Self {
        self.field = Some(TextField::new(FieldLines::Many));
        self
    }

    #[must_use]
    pub(crate) fn with_mark(mut self, is_marked: bool) -> Self {
        self.mark = Some(is_marked);
        self
    }

    pub(crate) fn words(&self) -> &str {
        self.field.as_ref().map_or("", |field| field.text().trim())
    }

    pub(crate) fn is_marked(&self) -> bool {
        self.mark == Some(true)
    }
}

/// What a key did in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChoiceOutcome {
    Ignored,
    Changed,
    /// The current choice was taken.
    Accepted(usize),
    Cancelled,
}

/// Choices and the current one.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChoiceList {
    rows: Vec<ChoiceRow>,
    selected: usize,
}

/// The list as lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChoiceListView {
    pub(crate) lines: Vec<StyledLine>,
    /// Lines of the current choice.
    pub(crate) focus: std::ops::Range<usize>,
    /// Row and column in `lines`.
    pub(crate) cursor: Option<(usize, usize)>,
}

impl ChoiceList {
    pub(crate) fn new(rows: Vec<ChoiceRow>) -> Self {
        Self { rows, selected: 0 }
    }

    pub(crate) fn rows(&self) -> &[ChoiceRow] {
        &self.rows
    }

    pub(crate) fn selected(&self) -> usize {
        self.selected
    }

    pub(crate) fn select(&mut self, index: usize) {
        self.selected = index.min(self.rows.len().saturating_sub(1));
    }

    /// Returns true while the current choice takes words.
    pub(crate) fn is_on_field(&self) -> bool {
        self.rows.get(self.selected).is_some_and(|row| row.field.is_some())
    }

    pub(crate) fn paste(&mut self, text: &str) -> bool {
        let Some(row) = self.rows.get_mut(self.selected) else { return false };
        let Some(field) = &mut row.field else { return false };
        field.insert(text);
        if row.mark.is_some() {
            row.mark = Some(true);
        }
        true
    }

    /// Handles a key: letters go into the field of the current choice, a shown digit takes that choice.
    pub(crate) fn handle_key(&mut self, stroke: KeyStroke, keys: &DialogKeys) -> ChoiceOutcome {
        let key = keys.translate(stroke);
        let count = self.rows.len();
        if let Some(row) = self.rows.get_mut(self.selected)
            && let Some(field) = &mut row.field
        {
            let is_shortcut = match key {
                DialogKey::Digit(digit) => field.is_empty() && digit <= count,
                DialogKey::Toggle => field.is_empty(),
                _ => false,
            };
            let belongs_to_field = if is_typing(stroke) { !is_shortcut } else { !field.is_empty() };
            if belongs_to_field && field.handle_key(stroke) {
                if row.mark.is_some() {
                    row.mark = Some(!field.is_empty());
                }
                return ChoiceOutcome::Changed;
            }
        }
        match key {
            DialogKey::Up => {
                self.selected = if self.selected == 0 { count.saturating_sub(1) } else { self.selected - 1 }
            }
            DialogKey::Down => self.selected = if self.selected + 1 >= count { 0 } else { self.selected + 1 },
            DialogKey::Digit(digit) if digit <= count => {
                self.selected = digit - 1;
                return self.take_by_digit();
            }
            DialogKey::Toggle => return self.toggle(),
            DialogKey::Accept => return ChoiceOutcome::Accepted(self.selected),
            DialogKey::Cancel => return ChoiceOutcome::Cancelled,
            _ => return ChoiceOutcome::Ignored,
        }
        ChoiceOutcome::Changed
    }

    /// A digit marks where several may be chosen, waits for words where some belong, and takes the choice elsewhere.
    fn take_by_digit(&mut self) -> ChoiceOutcome {
        match self.rows.get(self.selected) {
            Some(ChoiceRow { mark: Some(_), field: None, .. }) => self.toggle(),
            Some(ChoiceRow { field: Some(_), .. }) => ChoiceOutcome::Changed,
            _ => ChoiceOutcome::Accepted(self.selected),
        }
    }

    fn toggle(&mut self) -> ChoiceOutcome {
        let Some(row) = self.rows.get_mut(self.selected) else { return ChoiceOutcome::Ignored };
        match (row.mark, &row.field) {
            // A choice of words is marked by its words.
            (Some(_), Some(field)) if field.is_empty() => ChoiceOutcome::Ignored,
            (Some(is_marked), _) => {
                row.mark = Some(!is_marked);
                ChoiceOutcome::Changed
            }
            (None, _) => ChoiceOutcome::Ignored,
        }
    }

    pub(crate) fn render(&self, context: &RenderContext<'_>) -> ChoiceListView {
        let mut view = ChoiceListView::default();
        for (index, row) in self.rows.iter().enumerate() {
            let start = view.lines.len();
            self.render_row(index, row, context, &mut view);
            if index == self.selected {
                view.focus = start..view.lines.len();
            }
        }
        view
    }

    fn render_row(&self, index: usize, row: &ChoiceRow, context: &RenderContext<'_>, view: &mut ChoiceListView) {
        let is_selected = index == self.selected;
        let glyphs = context.glyphs;
        let tone = if is_selected { TextTone::Accent } else { TextTone::Text };
        let pointer = if is_selected { glyphs.pointer } else { " " };
        let number = if self.rows.len() < 10 { format!("{}  ", index + 1) } else { String::new() };
        let mut line = StyledLine::of(format!("{}{pointer} ", " ".repeat(INDENT)), TextTone::Accent);
        line.push(&number, TextTone::Dim);
        let mut hang = INDENT + 2 + number.len();
        if let Some(is_marked) = row.mark {
            let mark = if is_marked { glyphs.marked } else { glyphs.unmarked };
            line.push(format!("{mark} "), if is_marked { TextTone::Success } else { TextTone::Dim });
            hang += crate::text_width::display_width(mark) + 1;
        }
        let style = if is_selected { TextStyle::of(tone).bold() } else { TextStyle::of(tone) };
        line.push(clean_line(&row.label), style);
        if !row.detail.is_empty() {
            line.push(format!("  {}", clean_line(&row.detail)), TextTone::Dim);
        }
        let rows = wrap_line(&line.hanging(hang), context.width, BreakRule::Words);
        let end_column = rows.last().map_or(0, crate::text_width::line_width);
        view.lines.extend(rows);
        if !row.description.is_empty() {
            for text in clean_text(&row.description).lines() {
                let line = StyledLine::of(format!("{}{text}", " ".repeat(hang)), TextTone::Dim).hanging(hang);
                view.lines.extend(wrap_line(&line, context.width, BreakRule::Words));
            }
        }
        let Some(field) = &row.field else { return };
        if field.is_empty() {
            if is_selected {
                let column = (end_column + 1).min(context.width.saturating_sub(1));
                view.cursor = Some((view.lines.len() - 1, column));
            }
            return;
        }
        let inner = field.render(context.width.saturating_sub(hang).max(2), TextTone::Text);
        if is_selected {
            view.cursor = Some((view.lines.len() + inner.cursor.0, hang + inner.cursor.1));
        }
        view.lines.extend(crate::feed::indent_lines(inner.lines, hang));
    }
}
