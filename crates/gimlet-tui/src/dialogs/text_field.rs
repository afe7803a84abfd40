//! A field for words in a question or a form.

use crossterm::event::{KeyCode, KeyModifiers};

use crate::composer::clean_inserted;
use crate::composer::edit_buffer::EditKind;
use crate::composer::input_layout::InputLayout;
use crate::composer::text_editor::TextEditor;
use crate::key_bindings::KeyStroke;
use crate::styled_line::{StyledLine, TextTone};

/// Whether a field may hold line breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldLines {
    One,
    Many,
}

/// Text that is being entered.
#[derive(Clone, Debug)]
pub(crate) struct TextField {
    editor: TextEditor,
    lines: FieldLines,
}

/// A field as lines, with the row and column of its cursor.
#[derive(Clone, Debug)]
pub(crate) struct FieldView {
    pub(crate) lines: Vec<StyledLine>,
    pub(crate) cursor: (usize, usize),
}

impl TextField {
    pub(crate) fn new(lines: FieldLines) -> Self {
        Self { editor: TextEditor::default(), lines }
    }

    pub(crate) fn with_text(lines: FieldLines, text: &str) -> Self {
        let mut field = Self::new(lines);
        field.set_text(text);
        field
    }

    pub(crate) fn text(&self) -> &str {
        self.editor.buffer.text()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.editor.buffer.is_empty()
    }

    pub(crate) fn set_text(&mut self, text: &str) {
        self.editor.buffer.set_text(&clean_inserted(text));
    }

    pub(crate) fn insert(&mut self, text: &str) {
        let text = clean_inserted(text);
        let text = if self.lines == FieldLines::One { text.trim().replace('\n', " ") } else { text };
        self.editor.buffer.insert(&text, EditKind::Other);
    }

    /// Edits with a key; returns false for keys that are not the field's: Enter, Tab, Esc, up and down.
    pub(crate) fn handle_key(&mut self, stroke: KeyStroke) -> bool {
        let is_newline = match stroke.code() {
            KeyCode::Enter => stroke.modifiers().intersects(KeyModifiers::SHIFT | KeyModifiers::ALT),
            KeyCode::Char('j') => stroke.modifiers() == KeyModifiers::CONTROL,
            _ => false,
        };
        if is_newline {
            if self.lines == FieldLines::Many {
                self.editor.buffer.insert("\n", EditKind::Other);
            }
            return true;
        }
        if stroke.code() == KeyCode::Char('_') && stroke.modifiers() == KeyModifiers::CONTROL {
            self.editor.buffer.undo();
            return true;
        }
        self.editor.edit_with_key(stroke)
    }

    /// Renders a mark for each character, in one row of at most `width` columns.
    pub(crate) fn render_masked(&self, width: usize, mark: &str, tone: TextTone) -> FieldView {
        let count = self.text().chars().count().min(width.saturating_sub(1));
        let cursor = self.editor.buffer.text()[..self.editor.buffer.cursor()].chars().count();
        FieldView { lines: vec![StyledLine::of(mark.repeat(count), tone)], cursor: (0, cursor.min(count)) }
    }

    /// Renders the field in rows of at most `width` columns, the last of them free for the cursor.
    pub(crate) fn render(&self, width: usize, tone: TextTone) -> FieldView {
        let layout = InputLayout::new(&self.editor.buffer, width.saturating_sub(1).max(1));
        let position = layout.position(self.editor.buffer.cursor());
        let row_line = |row| {
            let mut line = StyledLine::blank();
            for (_, text) in layout.row_texts(row, self.text()) {
                line.push(text, tone);
            }
            line
        };
        let lines = layout.rows.iter().map(row_line).collect();
        FieldView { lines, cursor: (position.row, position.column.min(width.saturating_sub(1))) }
    }
}
