//! Error of a session that could not be opened: the failure and the remedy.

use std::error::Error;
use std::fmt;
use std::path::PathBuf;

use gimlet_proto::StartupFailure;

/// A failure before or outside a session.
#[derive(Debug)]
pub struct LaunchError {
    message: String,
    hint: Option<String>,
    /// Kind of failure, where programs have a name for it.
    kind: StartupFailure,
}

impl LaunchError {
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, kind: StartupFailure::default() }
    }

    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Sets the public name for this kind of failure.
    pub fn with_reason(mut self, reason: &'static str) -> Self {
        self.kind.reason = Some(reason);
        self
    }

    /// Marks this settings file as the invalid one.
    pub fn with_invalid_file(mut self, path: PathBuf) -> Self {
        self.kind = StartupFailure { reason: Some("config_file_invalid"), invalid_file: Some(path) };
        self
    }

    pub fn kind(&self) -> &StartupFailure {
        &self.kind
    }

    /// Returns the failure and the remedy.
    pub fn text(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{}. {hint}", self.message.trim_end_matches('.')),
            None => self.message.clone(),
        }
    }
}

impl fmt::Display for LaunchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl Error for LaunchError {}
