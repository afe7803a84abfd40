//! Report of a failed start: one line with the failure and the remedy.

use std::path::PathBuf;
use std::process::ExitCode;

use gimlet_serve::StartupFailure;

/// A failure before or outside a session.
#[derive(Debug)]
pub(crate) struct Report {
    message: String,
    hint: Option<String>,
    /// Kind of failure, where programs have a name for it.
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

    /// Sets the public name for this kind of failure.
    pub(crate) fn with_reason(mut self, reason: &'static str) -> Self {
        self.kind.reason = Some(reason);
        self
    }

    /// Marks this settings file as the invalid one.
    pub(crate) fn with_invalid_file(mut self, path: PathBuf) -> Self {
        self.kind = StartupFailure { reason: Some("config_file_invalid"), invalid_file: Some(path) };
        self
    }

    pub(crate) fn kind(&self) -> &StartupFailure {
        &self.kind
    }

    /// Returns the failure and the remedy, for programs.
    pub(crate) fn text(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{}. {hint}", self.message.trim_end_matches('.')),
            None => self.message.clone(),
        }
    }

    /// Returns one line for the user. Messages that scripts match on keep their beginning.
    pub(crate) fn line(&self) -> String {
        match self.text() {
            text if text.starts_with("Error: ") => text,
            text => format!("gimlet: {text}"),
        }
    }

    /// Returns 1 for every failure before a session, as scripts expect.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(1)
    }
}
