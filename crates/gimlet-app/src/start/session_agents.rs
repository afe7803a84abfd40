//! The agents of a session: built-in ones, those of files, and those that the caller defines. What waits for trust in a
//! project's files is left out of them, and files that change are taken up while the session runs.

use std::path::{Path, PathBuf};

use gimlet_config::{
    AgentActions, AgentFile, AgentFiles, AgentMcpServer, AgentMemoryScope, CustomizationKind, DocumentScope,
};
use gimlet_core::{AgentKind, AgentMemoryFolders, AgentRoster, AgentSource, LiveAgentRoster};
use gimlet_proto::AgentSpec;
use serde_json::value::to_raw_value;
use serde_json::{Map, Value};

use super::SessionSettings;
use super::file_stamps::FileStamps;

/// Agents that a session begins with.
pub(super) struct DefinedAgents {
    /// Those that the caller defines.
    pub(super) caller: Vec<(String, AgentSpec)>,
    /// All of them, without their hooks.
    pub(super) roster: AgentRoster,
}

impl SessionSettings {
    /// Reads the agents of all files that count.
    pub(super) fn agent_files(&self) -> AgentFiles {
        let added: Vec<&Path> = self.flag_directories.iter().map(PathBuf::as_path).collect();
        let mut files = self.document_reader.agents(&added);
        if self.is_plugin_only(CustomizationKind::Agents) {
            files.agents.retain(|agent| matches!(agent.origin.scope, DocumentScope::Managed | DocumentScope::Plugin));
        }
        files
    }

    /// Returns all kinds of subagents: built-in ones, those of files, and those of the caller.
    pub(super) fn agent_roster(&self, caller: &[(String, AgentSpec)]) -> AgentRoster {
        let kinds = self.agent_files().agents.into_iter().map(|file| self.agent_kind(&file));
        AgentRoster::built_in(&self.env).with_kinds(kinds).with(AgentSource::Caller, caller.iter().cloned())
    }

    /// Returns the agent of a file, as far as it may act.
    pub(super) fn agent_kind(&self, file: &AgentFile) -> AgentKind {
        let none = AgentActions::default();
        let actions = file.actions.get(&self.trust).unwrap_or(&none);
        // Work that was meant for a tree of its own must not be done in the shared one.
        let wants_tree = actions.worktree || file.actions.withheld_fields(&self.trust).contains(&"isolation");
        let spec = AgentSpec {
            description: file.description.clone(),
            prompt: file.prompt.clone(),
            tools: file.tools.clone(),
            disallowed_tools: file.disallowed_tools.clone(),
            model: actions.model.clone(),
            max_turns: file.max_turns,
            background: file.background,
            effort: actions.effort.clone(),
            permission_mode: actions.permission_mode,
            initial_prompt: file.initial_prompt.clone(),
            skills: file.skills.clone(),
            mcp_servers: server_list(&actions.mcp_servers),
            memory: actions.memory.map(|scope| memory_scope_name(scope).to_owned()),
            isolation: wants_tree.then(|| "worktree".to_owned()),
            color: file.color.clone(),
        };
        let source = match file.origin.scope {
            DocumentScope::Managed => AgentSource::Managed,
            DocumentScope::User => AgentSource::User,
            DocumentScope::Plugin => AgentSource::Plugin,
            DocumentScope::Project | DocumentScope::AddedFolder => AgentSource::Project,
        };
        let hooks = self.agent_hook_entries(&file.name, &actions.hooks);
        AgentKind { hooks, ..AgentKind::new(file.name.clone(), spec, source) }
    }

    /// Returns the folders of agents' memories; none where memory is off.
    pub(super) fn agent_memory_folders(&self) -> AgentMemoryFolders {
        let is_off = self.effective.settings.auto_memory_enabled == Some(false)
            || self.env.flag("CLAUDE_CODE_DISABLE_AUTO_MEMORY");
        if is_off {
            return AgentMemoryFolders::default();
        }
        AgentMemoryFolders {
            config_home: Some(self.around.config_home.clone()),
            project: Some(self.around.cwd.clone()),
        }
    }
}

/// Returns `mcpServers` in the form of a definition; `None` if it names and defines none.
fn server_list(servers: &[AgentMcpServer]) -> Option<Box<serde_json::value::RawValue>> {
    let entry = |server: &AgentMcpServer| match &server.definition {
        None => Value::from(server.name.clone()),
        Some(definition) => Value::Object(Map::from_iter([(server.name.clone(), definition.clone())])),
    };
    let list: Vec<Value> = servers.iter().map(entry).collect();
    if list.is_empty() { None } else { to_raw_value(&list).ok() }
}

pub(super) fn memory_scope_name(scope: AgentMemoryScope) -> &'static str {
    match scope {
        AgentMemoryScope::User => "user",
        AgentMemoryScope::Project => "project",
        AgentMemoryScope::Local => "local",
    }
}

/// The roster of a running session, and the files that it comes from.
pub(super) struct LiveAgents {
    roster: LiveAgentRoster,
    caller: Vec<(String, AgentSpec)>,
    /// Files and folders as they were when they were last read.
    seen: FileStamps,
    /// Folder that stands for all of them.
    folder: PathBuf,
}

impl LiveAgents {
    pub(super) fn new(settings: &SessionSettings, caller: Vec<(String, AgentSpec)>) -> Self {
        let roster = LiveAgentRoster::new(settings.agent_roster(&caller));
        let folder = settings.around.cwd.join(".claude/agents");
        Self { roster, caller, seen: stamp_paths(settings), folder }
    }

    pub(super) fn roster(&self) -> LiveAgentRoster {
        self.roster.clone()
    }

    /// Returns a name for the files if any of them has changed since they were last read.
    pub(super) fn changed_path(&self) -> Option<PathBuf> {
        (!self.seen.are_unchanged()).then(|| self.folder.clone())
    }

    /// Takes up the files as the settings have read them.
    pub(super) fn refresh(&mut self, settings: &SessionSettings) {
        self.roster.replace(settings.agent_roster(&self.caller));
        self.seen = stamp_paths(settings);
    }
}

fn stamp_paths(settings: &SessionSettings) -> FileStamps {
    let added: Vec<&Path> = settings.flag_directories.iter().map(PathBuf::as_path).collect();
    FileStamps::take(settings.document_reader.agent_paths(&added))
}
