//! What was typed during a turn and runs here once the turn is over: commands that would end it, and shell commands.

use std::collections::VecDeque;

/// Kind of a line that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeldKind {
    Command,
    Shell,
}

/// The lines, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct HeldInput {
    lines: VecDeque<(HeldKind, String)>,
}

impl HeldInput {
    pub(super) fn push(&mut self, kind: HeldKind, text: String) {
        self.lines.push_back((kind, text));
    }

    pub(super) fn pop(&mut self) -> Option<(HeldKind, String)> {
        self.lines.pop_front()
    }

    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns the lines as they were typed.
    pub(super) fn texts(&self) -> impl Iterator<Item = String> {
        self.lines.iter().map(|(kind, text)| match kind {
            HeldKind::Command => text.clone(),
            HeldKind::Shell => format!("!{text}"),
        })
    }

    /// Removes the lines and returns them as they were typed, the newest first.
    pub(super) fn take_texts(&mut self) -> Vec<String> {
        let mut texts: Vec<String> = self.texts().collect();
        texts.reverse();
        self.lines.clear();
        texts
    }
}
