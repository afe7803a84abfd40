//! How gimlet ends when it could not start: one line that says what failed and what to do.

use std::path::PathBuf;
use std::process::ExitCode;

use gimlet_serve::StartupFailure;

/// A failure before or outside a session.
#[derive(Debug)]
pub(crate) struct Report {
    message: String,
    hint: Option<String>,
    /// What kind of failure it is, where programs have a word for it.
    kind: StartupFailure,
}

impl Report {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, kind: StartupFailure::default() }
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The public word for this kind of failure.
    pub(crate) fn with_reason(mut self, reason: &'static str) -> Self {
        self.kind.reason = Some(reason);
        self
    }

    /// It is this settings file that cannot be used.
    pub(crate) fn with_invalid_file(mut self, path: PathBuf) -> Self {
        self.kind = StartupFailure { reason: Some("config_file_invalid"), invalid_file: Some(path) };
        self
    }

    pub(crate) fn kind(&self) -> &StartupFailure {
        &self.kind
    }

    /// What failed and what to do, for programs.
    pub(crate) fn text(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{}. {hint}", self.message.trim_end_matches('.')),
            None => self.message.clone(),
        }
    }

    /// One line for people. What scripts know word for word begins as they know it.
    pub(crate) fn line(&self) -> String {
        match self.text() {
            text if text.starts_with("Error: ") => text,
            text => format!("gimlet: {text}"),
        }
    }

    /// Everything that fails before a session ends in 1, as scripts expect.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(1)
    }
}
