//! The text of a draft with its cursor. Every change goes through [`EditBuffer::replace`] and can be undone.
//!
//! The cursor always stands between two units. A unit is a grapheme or the placeholder of an attachment, so that neither
//! is ever divided. Lines are separated by `\n`; there is no `\r` in a buffer.

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

use super::undo_log::{TextSplice, UndoLog};

/// What ends a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WordRule {
    /// A word is letters, digits and `_`; all else lies between words.
    Letters,
    /// Everything but whitespace is part of a word.
    Blanks,
}

/// Whether a change goes on with the previous one, so that both are undone together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EditKind {
    /// Typed letters: a run of them is one change.
    Typing,
    /// Single units deleted: a run of them is one change.
    Erasing,
    Other,
}

/// Text that is being edited.
#[derive(Clone, Debug, Default)]
pub(crate) struct EditBuffer {
    text: String,
    cursor: usize,
    /// Texts that are one unit wherever they stand: the placeholders of attachments.
    atoms: Vec<String>,
    undo: UndoLog,
}

impl EditBuffer {
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn cursor(&self) -> usize {
        self.cursor
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub(crate) fn atoms(&self) -> &[String] {
        &self.atoms
    }

    /// Makes every occurrence of a text one unit.
    pub(crate) fn add_atom(&mut self, atom: String) {
        if !atom.is_empty() && !self.atoms.contains(&atom) {
            self.atoms.push(atom);
        }
    }

    /// Moves the cursor to the last border of units at or before an index.
    pub(crate) fn set_cursor(&mut self, at: usize) {
        let at = self.floor_border(at);
        if at != self.cursor {
            self.undo.end_run();
        }
        self.cursor = at;
    }

    /// Returns the slice of a range whose ends are borders.
    pub(crate) fn slice(&self, range: Range<usize>) -> &str {
        self.text.get(range).unwrap_or_default()
    }

    // Lines

    /// Returns the line that an index is in, without its line feed.
    pub(crate) fn line_range(&self, at: usize) -> Range<usize> {
        let at = at.min(self.text.len());
        let bytes = self.text.as_bytes();
        let start = bytes[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |index| index + 1);
        let end = bytes[at..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |index| at + index);
        start..end
    }

    /// Returns the index of the first character of a line that is not blank, or its end.
    pub(crate) fn first_nonblank(&self, at: usize) -> usize {
        let line = self.line_range(at);
        let text = self.slice(line.clone());
        line.start + (text.len() - text.trim_start_matches([' ', '\t']).len())
    }

    /// Returns the line before the one at an index.
    pub(crate) fn line_above(&self, at: usize) -> Option<Range<usize>> {
        let start = self.line_range(at).start;
        Some(self.line_range(start.checked_sub(1)?))
    }

    /// Returns the line after the one at an index.
    pub(crate) fn line_below(&self, at: usize) -> Option<Range<usize>> {
        let end = self.line_range(at).end;
        if end < self.text.len() { Some(self.line_range(end + 1)) } else { None }
    }

    // Units

    /// Returns the units of the line at an index, in order.
    pub(crate) fn line_units(&self, at: usize) -> Vec<Range<usize>> {
        let line = self.line_range(at);
        text_units(self.slice(line.clone()), &self.atoms)
            .map(|unit| line.start + unit.start..line.start + unit.end)
            .collect()
    }

    /// Returns the border before the one at an index; the index itself at the start of the text.
    pub(crate) fn previous_border(&self, at: usize) -> usize {
        let line = self.line_range(at);
        if at == line.start {
            return at.saturating_sub(1);
        }
        let units = self.line_units(at);
        units.iter().rev().find(|unit| unit.start < at).map_or(line.start, |unit| unit.start)
    }

    /// Returns the border after an index; the index itself at the end of the text.
    pub(crate) fn next_border(&self, at: usize) -> usize {
        let line = self.line_range(at);
        if at >= line.end {
            return (line.end + 1).min(self.text.len());
        }
        self.line_units(at).iter().find(|unit| unit.end > at).map_or(line.end, |unit| unit.end)
    }

    /// Returns the last border at or before an index.
    pub(crate) fn floor_border(&self, at: usize) -> usize {
        let at = at.min(self.text.len());
        let line = self.line_range(floor_char(&self.text, at));
        if at >= line.end {
            return line.end;
        }
        self.line_units(line.start).iter().rev().find(|unit| unit.start <= at).map_or(line.start, |unit| unit.start)
    }

    fn ceil_border(&self, at: usize) -> usize {
        let floor = self.floor_border(at);
        if floor < at { self.next_border(floor) } else { floor }
    }

    // Words

    /// Returns the start of the word that ends before an index, over what lies between.
    pub(crate) fn word_start_before(&self, at: usize, rule: WordRule) -> usize {
        let mut at = at;
        while at > 0 && !self.is_word_before(at, rule) {
            at = self.previous_border(at);
        }
        while at > 0 && self.is_word_before(at, rule) {
            at = self.previous_border(at);
        }
        at
    }

    /// Returns the end of the word that begins after an index, over what lies between.
    pub(crate) fn word_end_after(&self, at: usize, rule: WordRule) -> usize {
        let mut at = at;
        while at < self.text.len() && !self.is_word_after(at, rule) {
            at = self.next_border(at);
        }
        while at < self.text.len() && self.is_word_after(at, rule) {
            at = self.next_border(at);
        }
        at
    }

    fn is_word_before(&self, at: usize, rule: WordRule) -> bool {
        is_word_unit(self.slice(self.previous_border(at)..at), rule)
    }

    fn is_word_after(&self, at: usize, rule: WordRule) -> bool {
        is_word_unit(self.slice(at..self.next_border(at)), rule)
    }

    // Changes

    /// Replaces a range of text. The cursor stands after the new text.
    pub(crate) fn replace(&mut self, range: Range<usize>, new: &str, kind: EditKind) {
        let range = range.start.min(self.text.len())..range.end.min(self.text.len());
        if range.is_empty() && new.is_empty() {
            return;
        }
        let cursor_before = self.cursor;
        let removed = self.slice(range.clone()).to_owned();
        self.text.replace_range(range.clone(), new);
        // The new text may join what stands after it in one unit.
        self.cursor = self.ceil_border(range.start + new.len());
        let splice = TextSplice { at: range.start, removed, inserted: new.to_owned() };
        self.undo.record(splice, kind, cursor_before, self.cursor);
    }

    /// Inserts text at the cursor.
    pub(crate) fn insert(&mut self, text: &str, kind: EditKind) {
        self.replace(self.cursor..self.cursor, text, kind);
    }

    /// Removes a range and returns it. The cursor stands where it was.
    pub(crate) fn remove(&mut self, range: Range<usize>, kind: EditKind) -> String {
        let removed = self.slice(range.clone()).to_owned();
        self.replace(range, "", kind);
        removed
    }

    /// Replaces the whole text as one change, with the cursor at its end.
    pub(crate) fn set_text(&mut self, text: &str) {
        self.replace(0..self.text.len(), text, EditKind::Other);
        self.cursor = self.text.len();
    }

    /// Makes all changes until [`Self::end_group`] one for undo.
    pub(crate) fn begin_group(&mut self) {
        self.undo.begin_group();
    }

    pub(crate) fn end_group(&mut self) {
        self.undo.end_group();
    }

    /// Takes the last change back; returns false if there is none.
    pub(crate) fn undo(&mut self) -> bool {
        let Some(cursor) = self.undo.undo(&mut self.text) else { return false };
        self.cursor = self.floor_border(cursor);
        true
    }

    /// Makes the last change that was taken back again; returns false if there is none.
    pub(crate) fn redo(&mut self) -> bool {
        let Some(cursor) = self.undo.redo(&mut self.text) else { return false };
        self.cursor = self.floor_border(cursor);
        true
    }

    /// Forgets what could be undone.
    pub(crate) fn forget_changes(&mut self) {
        self.undo = UndoLog::default();
    }
}

/// Returns the units of a text of one line, as ranges of bytes.
pub(crate) fn text_units<'a>(text: &'a str, atoms: &'a [String]) -> impl Iterator<Item = Range<usize>> + 'a {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = text.get(at..)?;
        let bytes = rest.as_bytes();
        let first = *bytes.first()?;
        let atom = if atoms.is_empty() { None } else { atoms.iter().find(|atom| rest.starts_with(atom.as_str())) };
        let len = match atom {
            Some(atom) => atom.len(),
            None if first.is_ascii() && bytes.get(1).is_none_or(u8::is_ascii) => 1,
            None => rest.graphemes(true).next()?.len(),
        };
        at += len;
        Some(at - len..at)
    })
}

fn is_word_unit(unit: &str, rule: WordRule) -> bool {
    let Some(first) = unit.chars().next() else { return false };
    match rule {
        WordRule::Letters => first.is_alphanumeric() || first == '_' || (unit.len() > 1 && first == '['),
        WordRule::Blanks => !first.is_whitespace(),
    }
}

fn floor_char(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests;
