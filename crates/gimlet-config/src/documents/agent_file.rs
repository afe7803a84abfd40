//! Agents that users and projects define in Markdown files.

use std::path::{Path, PathBuf};

use gimlet_proto::PermissionMode;
use serde::Deserialize;
use serde_json::Value;

use super::field_reader::FieldReader;
use super::front_matter::{self, FieldTable};
use super::trust_gate::{TrustGate, TrustGated};
use super::{DocumentOrigin, DocumentReader, FoundDocument, SkippedDocument};
use crate::effective_settings::HookLine;
use crate::merge::SettingOrigin;
use crate::plugins::PluginComponent;
use crate::problem::{ProblemSeverity, SettingsProblem};
use crate::settings::HookGroup;
use crate::trust::ProjectItemKind;

const FIELDS: FieldTable = FieldTable {
    names: &[
        "name",
        "description",
        "tools",
        "disallowedTools",
        "model",
        "permissionMode",
        "maxTurns",
        "skills",
        "mcpServers",
        "hooks",
        "memory",
        "background",
        "effort",
        "isolation",
        "color",
        "initialPrompt",
    ],
    old_names: &[("allowed-tools", "tools"), ("turns", "maxTurns")],
    inert: &[
        "version",
        "author",
        "license",
        "metadata",
        "tags",
        "category",
        "keywords",
        "homepage",
        "repository",
        "title",
        "created",
        "updated",
    ],
    structured: &["hooks", "mcpServers"],
};

/// Names of efforts.
pub(super) const EFFORTS: [(&str, &str); 5] =
    [("low", "low"), ("medium", "medium"), ("high", "high"), ("xhigh", "xhigh"), ("max", "max")];

/// Fields that agents of plugins cannot have.
const NOT_OF_PLUGINS: [&str; 3] = ["permissionMode", "mcpServers", "hooks"];

/// Agent of a file. An untrusted project may give its text and a narrower list of tools; the rest is in `actions`.
#[derive(Clone, Debug)]
pub struct AgentFile {
    pub origin: DocumentOrigin,
    pub name: String,
    /// When to use it; the model reads this.
    pub description: String,
    /// Its system prompt.
    pub prompt: String,
    /// Tools that it may use; `None` for all of its parent's.
    pub tools: Option<Vec<String>>,
    pub disallowed_tools: Vec<String>,
    pub max_turns: Option<u32>,
    /// Skills that it begins with.
    pub skills: Vec<String>,
    pub background: Option<bool>,
    pub color: Option<String>,
    /// First prompt when the main conversation runs as this agent.
    pub initial_prompt: Option<String>,
    pub actions: TrustGated<AgentActions>,
}

/// Fields of an agent that wait for trust.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentActions {
    /// An id, an alias, or `inherit`.
    pub model: Option<String>,
    pub effort: Option<String>,
    pub permission_mode: Option<PermissionMode>,
    pub mcp_servers: Vec<AgentMcpServer>,
    pub hooks: Vec<HookLine>,
    pub memory: Option<AgentMemoryScope>,
    /// True if it works in a worktree of its own.
    pub worktree: bool,
}

/// Server that an agent uses.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentMcpServer {
    pub name: String,
    /// Definition of a server of the agent's own; `None` for one that the session has.
    pub definition: Option<Value>,
}

/// Scope of an agent's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentMemoryScope {
    User,
    Project,
    Local,
}

/// Agents of all files.
#[derive(Clone, Debug, Default)]
pub struct AgentFiles {
    /// Agents by precedence: the administrator's, the project's (the closest first), the user's. A name occurs at most
    /// once in each scope.
    pub agents: Vec<AgentFile>,
    pub skipped: Vec<SkippedDocument>,
    pub problems: Vec<SettingsProblem>,
}

impl AgentFiles {
    /// Returns the agent of this name with the highest precedence.
    pub fn find(&self, name: &str) -> Option<&AgentFile> {
        self.agents.iter().find(|agent| agent.name == name)
    }

    fn add(&mut self, agent: AgentFile) {
        let scope = agent.origin.scope;
        let same = self.agents.iter().find(|other| other.origin.scope == scope && other.name == agent.name);
        let Some(other) = same else {
            self.agents.push(agent);
            return;
        };
        let (path, used) = (&agent.origin.path, &other.origin.path);
        let top = |path: &PathBuf| path.ancestors().find(|folder| folder.ends_with("agents")).map(PathBuf::from);
        // A closer folder of the project overrides one further up, as documented.
        if top(path) == top(used) {
            let reason = format!("{} has the same name `{}` and is used", used.display(), agent.name);
            self.skipped.push(SkippedDocument::new(path, reason));
        }
    }
}

impl DocumentReader {
    /// Reads the agents of all areas and of these added folders.
    pub fn agents(&self, added_folders: &[&Path]) -> AgentFiles {
        let mut files = AgentFiles::default();
        for area in self.areas().into_iter().chain(added_folders.iter().filter_map(|folder| self.added_area(folder))) {
            for found in self.read_folder(&area, "agents", &mut files.skipped) {
                match AgentFile::parse(&found, self.gate(&found, ProjectItemKind::Agent)) {
                    Ok((agent, problems)) => {
                        files.problems.extend(problems.into_iter().chain(found.encoding_problem()));
                        files.add(agent);
                    }
                    Err(skip) => files.skipped.push(skip),
                }
            }
        }
        for document in self.plugin_documents(PluginComponent::Agents, &mut files.skipped) {
            let found = &document.found;
            match AgentFile::parse(found, self.gate(found, ProjectItemKind::Skill)) {
                Ok((mut agent, problems)) => {
                    agent.name = document.qualified_name(&agent.name);
                    files.problems.extend(problems.into_iter().chain(found.encoding_problem()));
                    files.add(agent);
                }
                Err(skip) => files.skipped.push(skip),
            }
        }
        files
    }
}

impl DocumentReader {
    /// Returns the files and folders that decide which agents there are. A change of any of them may change an agent.
    pub fn agent_paths(&self, added_folders: &[&Path]) -> Vec<PathBuf> {
        let added = added_folders.iter().filter_map(|folder| self.added_area(folder));
        let areas = self.areas().into_iter().chain(added);
        let folders = areas.flat_map(|area| self.watched_paths(&area.folder.join("agents"), area.border.as_deref()));
        folders.chain(self.plugin_paths(PluginComponent::Agents)).collect()
    }
}

impl AgentFile {
    fn parse(found: &FoundDocument, gate: TrustGate) -> Result<(Self, Vec<SettingsProblem>), SkippedDocument> {
        let text = &found.document.text;
        let parts = front_matter::split_document(text);
        let skip = |line, reason: String| SkippedDocument { path: found.path.clone(), line: Some(line), reason };
        let stem = || found.path.file_stem().map(|name| name.to_string_lossy().into_owned());
        if parts.front_matter.is_empty() {
            return Err(skip(1, "an agent begins with front matter: `---`, `name`, `description`, `---`".to_owned()));
        }
        if !parts.is_closed {
            return Err(skip(1, "the front matter has no closing `---`".to_owned()));
        }
        let mut fields = FieldReader::parse(&found.path, &text[parts.front_matter], &FIELDS)
            .map_err(|error| skip(error.line, format!("the front matter cannot be read: {}", error.message)))?;
        let name_line = fields.line_of("name").unwrap_or(1);
        let name = fields.text("name").or_else(|| found.plugin.as_ref().and_then(|_| stem()));
        let name = name.ok_or_else(|| skip(1, "it has no `name`".to_owned()))?;
        if name.starts_with('-') || name.contains(':') {
            return Err(skip(name_line, format!("the name `{name}` begins with `-` or contains `:`")));
        }
        let description = fields.text("description").ok_or_else(|| skip(1, "it has no `description`".to_owned()))?;
        let reserved: Vec<(&str, usize)> =
            NOT_OF_PLUGINS.iter().filter_map(|name| Some((*name, fields.line_of(name)?))).collect();
        let (mut actions, set) = AgentActions::read(&mut fields, found);
        if found.plugin.is_some() {
            actions = AgentActions { permission_mode: None, mcp_servers: Vec::new(), hooks: Vec::new(), ..actions };
        }
        let agent = Self {
            origin: found.origin(),
            name,
            description,
            prompt: super::trim_blank_lines(&text[parts.body]).to_owned(),
            tools: fields.names("tools"),
            disallowed_tools: fields.names("disallowedTools").unwrap_or_default(),
            max_turns: fields.count("maxTurns"),
            skills: fields.names("skills").unwrap_or_default(),
            background: fields.flag("background"),
            color: fields.text("color"),
            initial_prompt: fields.text("initialPrompt"),
            actions: TrustGated::new(actions, set, gate),
        };
        let mut problems = fields.into_problems();
        if found.plugin.is_some() {
            problems.extend(reserved.into_iter().map(|(name, line)| SettingsProblem {
                severity: ProblemSeverity::Info,
                file: found.path.clone(),
                line: Some(line),
                column: None,
                key: name.to_owned(),
                message: "ignored: an agent of a plugin cannot have it".to_owned(),
            }));
        }
        Ok((agent, problems))
    }
}

impl AgentActions {
    /// Takes the fields that act, with the names of those that are set.
    fn read(fields: &mut FieldReader, found: &FoundDocument) -> (Self, Vec<&'static str>) {
        const ACTING: [&str; 7] = ["model", "effort", "permissionMode", "mcpServers", "hooks", "memory", "isolation"];
        const MEMORIES: [(&str, AgentMemoryScope); 3] = [
            ("user", AgentMemoryScope::User),
            ("project", AgentMemoryScope::Project),
            ("local", AgentMemoryScope::Local),
        ];
        let set = ACTING.into_iter().filter(|name| fields.line_of(name).is_some()).collect();
        let wanted = "a mode: default, acceptEdits, plan, auto, dontAsk or bypassPermissions";
        let servers = fields.members("mcpServers").into_iter();
        let actions = Self {
            model: fields.text("model"),
            effort: fields.word("effort", &EFFORTS).map(str::to_owned),
            permission_mode: fields.parsed("permissionMode", wanted),
            mcp_servers: servers
                .map(|(name, _, definition)| AgentMcpServer {
                    name,
                    definition: Some(definition).filter(|it| !it.is_null()),
                })
                .collect(),
            hooks: read_hooks(fields, found),
            memory: fields.word("memory", &MEMORIES),
            worktree: fields.word("isolation", &[("worktree", true), ("none", false)]).unwrap_or(false),
        };
        (actions, set)
    }
}

/// Takes the hooks of a document.
pub(super) fn read_hooks(fields: &mut FieldReader, found: &FoundDocument) -> Vec<HookLine> {
    let mut hooks = Vec::new();
    for (event, line, groups) in fields.members("hooks") {
        let groups = match Vec::<HookGroup>::deserialize(&groups) {
            Ok(groups) => groups,
            Err(error) => {
                fields.report_member("hooks", line, format!("{event} is ignored: {error}"));
                continue;
            }
        };
        let scope = found.plugin.as_ref().map_or(found.scope.settings_scope(), |plugin| plugin.scope);
        let origin = SettingOrigin { scope, file: found.path.clone(), line };
        for group in groups {
            for handler in group.hooks {
                let (event, matcher, origin) = (event.clone(), group.matcher.clone(), origin.clone());
                hooks.push(HookLine { event, matcher, handler, origin });
            }
        }
    }
    hooks
}
