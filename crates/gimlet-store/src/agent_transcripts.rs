//! Transcripts of subagents and the description beside each, which connects it to the call that started it.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::SystemTime;

use gimlet_proto::SessionId;

use crate::LoadError;
use crate::disk::{create_private_dirs, open_private, read_small_file, replace_private};
use crate::entry_format::EntryStamp;
use crate::layout::SessionFiles;
use crate::load::{LoadOptions, LoadedSession, load_conversation};
use crate::transcript::{Transcript, TranscriptOptions};
use crate::transcript_log::MirrorFactory;

/// Transcripts of a session's subagents. They are not kept if the session's is not.
#[derive(Clone)]
pub struct AgentTranscripts {
    pub(crate) session: SessionId,
    pub(crate) files: Option<SessionFiles>,
    pub(crate) stamp: EntryStamp,
    pub(crate) options: Option<TranscriptOptions>,
    pub(crate) mirrors: Option<MirrorFactory>,
}

impl AgentTranscripts {
    /// Creates a new subagent's transcript, with its description beside it. A description that cannot be written does
    /// not prevent the start; the transcript itself reports disk errors.
    pub fn create(&self, agent_id: &str, meta: &AgentMeta) -> (Transcript, io::Result<()>) {
        match (&self.files, &self.options) {
            (Some(files), Some(options)) => {
                let written = write_agent_meta(files, agent_id, meta);
                let mut transcript = Transcript::for_agent(files, agent_id, self.stamp.clone(), options.clone());
                if let Some(mirrors) = &self.mirrors {
                    let mut mirror = mirrors(&files.agent_transcript(agent_id));
                    // A mirror has no place for a second file.
                    mirror(&meta.to_entry_line());
                    transcript.set_mirror(mirror);
                }
                (transcript, written)
            }
            _ => (Transcript::new_unsaved(self.session.clone(), self.stamp.clone()), Ok(())),
        }
    }

    /// Resumes the transcript of a subagent that has ended; `None` where nothing is kept. The caller makes sure that
    /// there is no other writer.
    pub fn resume(
        &self,
        agent_id: &str,
        options: &LoadOptions,
    ) -> Result<Option<(Transcript, LoadedSession)>, LoadError> {
        let (Some(files), Some(kept)) = (&self.files, &self.options) else { return Ok(None) };
        let path = files.agent_transcript(agent_id);
        let loaded = load_conversation(&path, options)?;
        let mut transcript =
            Transcript::for_agent(files, agent_id, self.stamp.clone(), kept.clone()).continue_from(&loaded);
        if let Some(mirrors) = &self.mirrors {
            transcript.set_mirror(mirrors(&path));
        }
        Ok(Some((transcript, loaded)))
    }

    /// Returns the session's subagents, oldest first. Descriptions that cannot be parsed are skipped.
    pub fn list_agents(&self) -> Vec<KnownAgent> {
        let Some(dir) = self.files.as_ref().map(SessionFiles::subagents) else { return Vec::new() };
        let mut known: Vec<(SystemTime, KnownAgent)> = std::fs::read_dir(dir)
            .into_iter()
            .flatten()
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let name = entry.file_name().into_string().ok()?;
                let id = name.strip_prefix("agent-")?.strip_suffix(".meta.json")?.to_owned();
                let meta = serde_json::from_str(&read_small_file(&entry.path()).ok()?).ok()?;
                Some((entry.metadata().ok()?.modified().ok()?, KnownAgent { id, meta }))
            })
            .collect();
        known.sort_by(|(one, a), (other, b)| one.cmp(other).then_with(|| a.id.cmp(&b.id)));
        known.into_iter().map(|(_, agent)| agent).collect()
    }

    /// Records that the user stopped a subagent, for later runs. Members that other programs wrote into its
    /// description stay.
    pub fn mark_stopped(&self, agent_id: &str) -> io::Result<()> {
        let Some(path) = self.files.as_ref().map(|files| files.agent_meta(agent_id)) else { return Ok(()) };
        let mut meta: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&read_small_file(&path)?)?;
        meta.insert("stoppedByUser".to_owned(), true.into());
        replace_private(&path, &serde_json::to_vec(&meta)?)
    }

    /// Returns the path of a subagent's transcript, if it is kept.
    pub fn path(&self, agent_id: &str) -> Option<PathBuf> {
        self.files.as_ref().map(|files| files.agent_transcript(agent_id))
    }
}

/// Subagent of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownAgent {
    pub id: String,
    pub meta: AgentMeta,
}

/// Description written beside a subagent's transcript when it starts.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentMeta {
    pub agent_type: String,
    pub description: String,
    /// Call that started it, in its parent.
    pub tool_use_id: String,
    pub spawn_depth: u32,
    /// Parent, if that is a subagent itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_agent_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worktree_path: Option<PathBuf>,
    /// True if the user stopped it; only the user may start it again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stopped_by_user: bool,
}

impl AgentMeta {
    /// Renders the description as a line of the transcript.
    fn to_entry_line(&self) -> String {
        #[derive(serde::Serialize)]
        struct AgentMetaEntry<'a> {
            r#type: &'static str,
            #[serde(flatten)]
            meta: &'a AgentMeta,
        }
        // Texts and numbers cannot fail to render.
        serde_json::to_string(&AgentMetaEntry { r#type: "agent_metadata", meta: self }).unwrap_or_default()
    }
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
