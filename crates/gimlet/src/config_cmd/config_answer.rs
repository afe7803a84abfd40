//! Result of a settings command: the text, and remarks on what keeps it from taking effect.

use std::process::ExitCode;

/// Text and remarks, not printed yet. Both quote files that others wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConfigAnswer {
    pub(crate) text: String,
    /// Remarks without the word that introduces them.
    pub(crate) notes: Vec<String>,
}

impl ConfigAnswer {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), notes: Vec::new() }
    }

    pub(super) fn with_notes(mut self, notes: impl IntoIterator<Item = String>) -> Self {
        self.notes.extend(notes);
        self
    }

    /// Prints the text, and the remarks on standard error.
    pub(super) fn print(self) -> ExitCode {
        super::print_sanitised(&self.text);
        for note in self.notes {
            crate::print_error_line(&gimlet_serve::sanitise(&format!("note: {note}")));
        }
        ExitCode::SUCCESS
    }

    /// Returns the text with the remarks below it.
    pub(crate) fn into_text(self) -> String {
        let notes = self.notes.into_iter().map(|note| format!("note: {note}"));
        std::iter::once(self.text).chain(notes).collect::<Vec<_>>().join("\n")
    }
}
