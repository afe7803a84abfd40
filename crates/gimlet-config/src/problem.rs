//! What is wrong with a settings file, for people: which file, which line, which key, and what follows from it.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

/// How much a problem matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ProblemSeverity {
    /// Something is ignored, as documented.
    Info,
    /// Something is probably not as its writer meant it.
    Warning,
    /// A file, or something in it that protects, is not honoured. Said at every start.
    Error,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SettingsProblem {
    pub severity: ProblemSeverity,
    /// The file, or a name such as `--settings` for what is no file.
    pub file: PathBuf,
    pub line: Option<usize>,
    pub column: Option<usize>,
    /// The key, with dots between its parts; empty when the whole file is meant.
    pub key: String,
    pub message: String,
}

/// What is said of a key with dots in its name.
pub const DOTTED_KEY: &str = "ignored: a key has no dots in its name; what belongs to another key stands in its braces";
/// How what is said of an address among hosts begins.
pub(crate) const HOST_ALONE: &str = "a host stands alone";

impl SettingsProblem {
    /// Whether its file may say so, but not with these words.
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
