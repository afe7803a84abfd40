//! State that the calls of one conversation share.

use std::path::PathBuf;

use crate::files::FileStates;

/// Session state that tools read and change (through [`StateChange`](crate::tool::StateChange)s).
#[derive(Clone, Debug)]
pub struct SessionState {
    /// Directory in which commands run and relative paths begin.
    pub cwd: PathBuf,
    pub project_dir: PathBuf,
    /// Working directories, the project first.
    pub roots: Vec<PathBuf>,
    pub files: FileStates,
    /// Files that calls have read for the model, as they were named, until others have looked at them.
    pub read_files: Vec<PathBuf>,
    /// Change of the permission mode that a call requested, until the gate has handled it.
    pub mode_request: Option<ModeChangeRequest>,
}

/// Change of the permission mode that a tool may request. The gate keeps the mode and decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModeChangeRequest {
    BeginPlan,
    /// Return to the mode before planning, unless the user chose another.
    EndPlan,
}

impl SessionState {
    pub fn new(project_dir: PathBuf, added: Vec<PathBuf>) -> Self {
        let mut roots = vec![project_dir.clone()];
        roots.extend(added);
        let files = FileStates::default();
        Self { cwd: project_dir.clone(), project_dir, roots, files, read_files: Vec::new(), mode_request: None }
    }

    /// Returns the initial state of a subagent: it starts in the project directory and knows no files.
    pub(crate) fn for_agent(&self) -> Self {
        Self { roots: self.roots.clone(), ..Self::new(self.project_dir.clone(), Vec::new()) }
    }
}
