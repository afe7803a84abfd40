//! Report of a failed command: one line for the user, and the exit code.

use std::process::ExitCode;

use gimlet_app::LaunchError;
use gimlet_proto::StartupFailure;

/// A failure before or outside a session, as the binary reports it.
#[derive(Debug)]
pub(crate) struct Report {
    error: LaunchError,
}

impl Report {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { error: LaunchError::new(message) }
    }

    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { error: self.error.with_hint(hint) }
    }

    /// Sets the public name for this kind of failure.
    pub(crate) fn with_reason(self, reason: &'static str) -> Self {
        Self { error: self.error.with_reason(reason) }
    }

    pub(crate) fn kind(&self) -> &StartupFailure {
        self.error.kind()
    }

    /// Returns the failure and the remedy, for programs.
    pub(crate) fn text(&self) -> String {
        self.error.text()
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

impl From<LaunchError> for Report {
    fn from(error: LaunchError) -> Self {
        Self { error }
    }
}
