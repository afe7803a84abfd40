//! What calls of one conversation see of each other.

use std::path::PathBuf;

use crate::files::FileStates;

/// Session state that tools look at and change (through [`Change`](crate::tool::Change)s).
#[derive(Clone, Debug)]
pub struct SessionState {
    /// Where commands run and relative paths begin.
    pub cwd: PathBuf,
    pub project_dir: PathBuf,
    /// Working directories, the project first.
    pub roots: Vec<PathBuf>,
    pub files: FileStates,
    /// Folders of the session's own, such as that of its plans, which it may always write.
    pub own: Vec<PathBuf>,
}

impl SessionState {
    pub fn new(project_dir: PathBuf, added: Vec<PathBuf>) -> Self {
        let mut roots = vec![project_dir.clone()];
        roots.extend(added);
        Self { cwd: project_dir.clone(), project_dir, roots, files: FileStates::default(), own: Vec::new() }
    }

    /// The same session with folders of its own.
    pub fn with_own(mut self, folders: Vec<PathBuf>) -> Self {
        self.own = folders;
        self
    }
}
