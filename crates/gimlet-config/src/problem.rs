//! Problems of a settings file, for display: file, line, key and consequence.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

/// Severity of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ProblemSeverity {
    /// A value is ignored, as documented.
    Info,
    /// A value is probably not as its author meant it.
    Warning,
    /// A file, or a protection in it, is not honoured. Shown at every start.
    Error,
}

/// Problem in a settings file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SettingsProblem {
    pub severity: ProblemSeverity,
    /// Path of the file, or a name such as `--settings` for other sources.
    pub file: PathBuf,
    pub line: Option<usize>,
    pub column: Option<usize>,
    /// Key, with dots between its parts; empty when the whole file is meant.
    pub key: String,
    pub message: String,
}

/// Message for a key with dots in its name.
pub const DOTTED_KEY: &str = "ignored: a key has no dots in its name; what belongs to another key stands in its braces";
/// Start of the message for a URL in a list of hosts.
pub(crate) const HOST_ALONE: &str = "a host stands alone";

impl SettingsProblem {
    /// Returns true if the file may set the value, but not in this notation.
    pub fn is_wrong_notation(&self) -> bool {
        [DOTTED_KEY, HOST_ALONE].iter().any(|words| self.message.starts_with(words))
    }
}

impl fmt::Display for SettingsProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(column) = self.column {
            write!(f, ":{column}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.message)
    }
}
