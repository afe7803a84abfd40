//! Failures that keep a session from starting, as programs know them.

use std::path::PathBuf;

/// Kind of failure that kept a session from starting, where it has a public name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StartupFailure {
    pub reason: Option<&'static str>,
    /// Settings file that cannot be used.
    pub invalid_file: Option<PathBuf>,
}
