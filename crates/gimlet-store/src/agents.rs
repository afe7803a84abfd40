//! The description beside a subagent's transcript, which links it to the call that started it.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::PathBuf;

use crate::disk::{create_private_dirs, open_private};
use crate::layout::SessionFiles;

/// What is written beside a subagent's transcript when it starts.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentMeta {
    pub agent_type: String,
    pub description: String,
    /// The call that started it, in its parent.
    pub tool_use_id: String,
    pub spawn_depth: u32,
    /// Only when the parent is a subagent itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_agent_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worktree_path: Option<PathBuf>,
}

/// Writes the description of a subagent; to be called when it starts.
pub fn write_agent_meta(files: &SessionFiles, agent_id: &str, meta: &AgentMeta) -> io::Result<()> {
    let path = files.agent_meta(agent_id);
    if let Some(dir) = path.parent() {
        create_private_dirs(dir)?;
    }
    let mut file = open_private(&path, OpenOptions::new().write(true).create(true).truncate(true))?;
    file.write_all(&serde_json::to_vec(meta)?)
}
