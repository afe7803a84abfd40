//! How gimlet ends when it could not start: one line that says what failed and what to do.

use std::process::ExitCode;

/// A failure before or outside a session.
#[derive(Debug)]
pub(crate) struct Report {
    message: String,
    hint: Option<String>,
}

impl Report {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// What failed and what to do, for programs.
    pub(crate) fn text(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{}. {hint}", self.message.trim_end_matches('.')),
            None => self.message.clone(),
        }
    }

    /// One line for people.
    pub(crate) fn line(&self) -> String {
        format!("gimlet: {}", self.text())
    }

    /// Everything that fails before a session ends in 1, as scripts expect.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(1)
    }
}
