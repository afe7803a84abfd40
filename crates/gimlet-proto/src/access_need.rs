//! Resources that a tool call would access, stated before the call runs.

use std::path::PathBuf;

/// One thing that a call needs. The gate decides on the list of them, never on the tool's name alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessNeed {
    /// Read this file or directory (absolute, symlinks not yet resolved).
    Read(PathBuf),
    /// Create or change this file.
    Write(PathBuf),
    /// Run this shell command text.
    Run(String),
    /// Fetch this URL.
    Fetch(String),
    /// Only the session's own state (a to-do list, a background task's output).
    Session,
    /// Not known: asks, runs alone, never counts as reading.
    Opaque,
}
