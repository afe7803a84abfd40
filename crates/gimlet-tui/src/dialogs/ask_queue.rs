//! Questions that wait: one is open, the others follow in the order in which they were asked.

use std::collections::VecDeque;

use gimlet_proto::{AskId, AskView};

use super::AskDialog;
use crate::key_bindings::KeyBindings;

/// The open question and those behind it.
#[derive(Debug, Default)]
pub struct AskQueue {
    open: Option<AskDialog>,
    waiting: VecDeque<AskView>,
}

impl AskQueue {
    /// Adds a question; it opens if no other is open.
    pub fn push(&mut self, ask: AskView, bindings: &KeyBindings) {
        self.waiting.push_back(ask);
        self.open_next(bindings);
    }

    /// Removes a question that was answered or is no longer asked; the next one opens.
    pub fn close(&mut self, id: &AskId, bindings: &KeyBindings) {
        self.waiting.retain(|ask| ask.id != *id);
        if self.open.as_ref().is_some_and(|dialog| dialog.id() == id) {
            self.open = None;
        }
        self.open_next(bindings);
    }

    /// Removes all questions, because the session ended.
    pub fn clear(&mut self) {
        self.open = None;
        self.waiting.clear();
    }

    pub fn open(&mut self) -> Option<&mut AskDialog> {
        self.open.as_mut()
    }

    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Returns the number of questions behind the open one.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    fn open_next(&mut self, bindings: &KeyBindings) {
        if self.open.is_none()
            && let Some(ask) = self.waiting.pop_front()
        {
            self.open = Some(AskDialog::for_ask(&ask, bindings));
        }
    }
}
