//! Questions of the session that wait for the user: one is shown, the others stand behind it.

use std::collections::VecDeque;

use crossterm::event::KeyEvent;
use gimlet_proto::{AskAnswer, AskBody, AskId, AskView, PermissionMode};

use crate::dialogs::{AskDialog, DialogOutcome, DialogView};
use crate::glyphs::RenderContext;

/// The questions, oldest first, and the dialog of the first one.
#[derive(Debug, Default)]
pub(super) struct OpenAsks {
    waiting: VecDeque<AskView>,
    dialog: Option<AskDialog>,
}

/// What a key led to.
#[derive(Debug)]
pub(super) enum AskStep {
    Stays,
    Answers {
        ask: AskId,
        answer: AskAnswer,
        /// The mode from now on.
        mode: Option<PermissionMode>,
        /// The folder is not trusted, so nothing goes on here.
        leaves: bool,
    },
}

impl OpenAsks {
    pub(super) fn open(&mut self, ask: AskView) {
        self.waiting.push_back(ask);
        self.show_first();
    }

    /// Removes a question that was answered elsewhere or withdrawn.
    pub(super) fn close(&mut self, id: AskId) {
        let was_shown = self.waiting.front().is_some_and(|ask| ask.id == id);
        self.waiting.retain(|ask| ask.id != id);
        if was_shown {
            self.dialog = None;
            self.show_first();
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn is_open(&self) -> bool {
        self.dialog.is_some()
    }

    pub(super) fn is_trust(&self) -> bool {
        self.waiting.front().is_some_and(|ask| matches!(ask.body, AskBody::Trust(_)))
    }

    /// Number of questions behind the one that is shown.
    pub(super) fn count_behind(&self) -> usize {
        self.waiting.len().saturating_sub(1)
    }

    fn show_first(&mut self) {
        if self.dialog.is_none() {
            self.dialog = self.waiting.front().map(AskDialog::for_ask);
        }
    }

    /// Removes the question that is shown; returns its id.
    pub(super) fn take_current(&mut self) -> Option<AskId> {
        let ask = self.waiting.pop_front()?;
        self.dialog = None;
        self.show_first();
        Some(ask.id)
    }

    pub(super) fn paste(&mut self, text: &str) {
        if let Some(dialog) = &mut self.dialog {
            dialog.handle_paste(text);
        }
    }

    pub(super) fn handle_key(&mut self, key: KeyEvent) -> AskStep {
        let Some(dialog) = &mut self.dialog else { return AskStep::Stays };
        match dialog.handle_key(key) {
            DialogOutcome::None => AskStep::Stays,
            DialogOutcome::Answer { answer, mode } => {
                let is_no = !matches!(answer, AskAnswer::Yes(_));
                let leaves = is_no && self.is_trust();
                match self.take_current() {
                    Some(ask) => AskStep::Answers { ask, answer, mode, leaves },
                    None => AskStep::Stays,
                }
            }
        }
    }

    pub(super) fn render(&mut self, max_rows: usize, cx: &RenderContext<'_>) -> Option<DialogView> {
        self.dialog.as_mut().map(|dialog| dialog.render(cx.width, max_rows, cx))
    }
}
