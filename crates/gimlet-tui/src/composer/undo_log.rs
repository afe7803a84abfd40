//! Changes of a draft in the order in which they were made, so that they can be taken back and made again.

use super::edit_buffer::EditKind;

/// Maximum number of steps that are kept.
const MAX_STEPS: usize = 1000;

/// One replacement of text.
#[derive(Clone, Debug)]
pub(crate) struct TextSplice {
    pub(crate) at: usize,
    pub(crate) removed: String,
    pub(crate) inserted: String,
}

/// What one undo takes back.
#[derive(Clone, Debug)]
struct UndoStep {
    splices: Vec<TextSplice>,
    cursor_before: usize,
    cursor_after: usize,
}

/// Changes that were made, and those that were taken back.
#[derive(Clone, Debug, Default)]
pub(crate) struct UndoLog {
    done: Vec<UndoStep>,
    undone: Vec<UndoStep>,
    /// The kind of the last change, if the next one may join it.
    run: Option<EditKind>,
    /// True while all changes join the group's step.
    in_group: bool,
    /// True once the group has its step.
    has_group_step: bool,
}

impl UndoLog {
    pub(crate) fn record(&mut self, splice: TextSplice, kind: EditKind, cursor_before: usize, cursor_after: usize) {
        self.undone.clear();
        let joins_run = kind != EditKind::Other && self.run == Some(kind) && !begins_word(&splice, kind);
        let joins = if self.in_group { self.has_group_step } else { joins_run };
        match self.done.last_mut() {
            Some(step) if joins => {
                step.splices.push(splice);
                step.cursor_after = cursor_after;
            }
            _ => {
                self.done.push(UndoStep { splices: vec![splice], cursor_before, cursor_after });
                if self.done.len() > MAX_STEPS {
                    self.done.remove(0);
                }
            }
        }
        self.has_group_step = self.in_group;
        self.run = if kind == EditKind::Other { None } else { Some(kind) };
    }

    /// Makes the next change a step of its own.
    pub(crate) fn end_run(&mut self) {
        self.run = None;
    }

    /// Makes all changes until the group ends one step.
    pub(crate) fn begin_group(&mut self) {
        self.in_group = true;
        self.has_group_step = false;
    }

    pub(crate) fn end_group(&mut self) {
        self.in_group = false;
        self.has_group_step = false;
        self.run = None;
    }

    /// Takes the last step back in `text`; returns where the cursor was before it.
    pub(crate) fn undo(&mut self, text: &mut String) -> Option<usize> {
        self.end_group();
        let step = self.done.pop()?;
        for splice in step.splices.iter().rev() {
            text.replace_range(splice.at..splice.at + splice.inserted.len(), &splice.removed);
        }
        let cursor = step.cursor_before;
        self.undone.push(step);
        Some(cursor)
    }

    /// Makes the last step that was taken back again; returns where the cursor was after it.
    pub(crate) fn redo(&mut self, text: &mut String) -> Option<usize> {
        self.end_group();
        let step = self.undone.pop()?;
        for splice in &step.splices {
            text.replace_range(splice.at..splice.at + splice.removed.len(), &splice.inserted);
        }
        let cursor = step.cursor_after;
        self.done.push(step);
        Some(cursor)
    }
}

/// Returns true for the space after a word: undo goes back word by word.
fn begins_word(splice: &TextSplice, kind: EditKind) -> bool {
    kind == EditKind::Typing && splice.inserted.chars().all(char::is_whitespace)
}
