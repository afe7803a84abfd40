//! The transcripts of subagents and the description beside each, which links it to the call that started it.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::PathBuf;

use gimlet_proto::SessionId;

use crate::disk::{create_private_dirs, open_private};
use crate::entry::Stamp;
use crate::layout::SessionFiles;
use crate::transcript::{Transcript, TranscriptOptions};

/// Where the subagents of a session write. Where nothing of a session is kept, nothing of them is.
#[derive(Clone)]
pub struct AgentTranscripts {
    pub(crate) session: SessionId,
    pub(crate) files: Option<SessionFiles>,
    pub(crate) stamp: Stamp,
    pub(crate) options: Option<TranscriptOptions>,
}

impl AgentTranscripts {
    /// A new subagent's transcript, with its description beside it. A description that cannot be written is no reason
    /// not to start; the transcript itself tells of trouble with the disk.
    pub fn create(&self, agent_id: &str, meta: &AgentMeta) -> (Transcript, io::Result<()>) {
        match (&self.files, &self.options) {
            (Some(files), Some(options)) => {
                let written = write_agent_meta(files, agent_id, meta);
                (Transcript::agent(files, agent_id, self.stamp.clone(), options.clone()), written)
            }
            _ => (Transcript::unsaved(self.session.clone(), self.stamp.clone()), Ok(())),
        }
    }

    /// Where a subagent's transcript is, if it is kept.
    pub fn path(&self, agent_id: &str) -> Option<PathBuf> {
        self.files.as_ref().map(|files| files.agent_transcript(agent_id))
    }
}

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
