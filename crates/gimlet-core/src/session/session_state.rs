//! What calls of one conversation see of each other.

use std::path::PathBuf;

use crate::files::FileStates;

/// Session state that tools look at and change (through [`StateChange`](crate::tool::Change)s).
#[derive(Clone, Debug)]
pub struct SessionState {
    /// Where commands run and relative paths begin.
    pub cwd: PathBuf,
    pub project_dir: PathBuf,
    /// Working directories, the project first.
    pub roots: Vec<PathBuf>,
    pub files: FileStates,
    /// What a call asked of the permission mode, until the gate has heard of it.
    pub mode_request: Option<ModeChangeRequest>,
}

/// What a tool may want of the permission mode. The gate keeps the mode and has the last word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModeChangeRequest {
    BeginPlan,
    /// Back to the mode before planning, unless the person chose another.
    EndPlan,
}

impl SessionState {
    pub fn new(project_dir: PathBuf, added: Vec<PathBuf>) -> Self {
        let mut roots = vec![project_dir.clone()];
        roots.extend(added);
        let files = FileStates::default();
        Self { cwd: project_dir.clone(), project_dir, roots, files, mode_request: None }
    }
}
