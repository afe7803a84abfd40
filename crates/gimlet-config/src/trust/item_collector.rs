//! Finds every item: in the loaded settings, in `.mcp.json`, and in the project's skills, agents and commands.

use std::path::Path;

use gimlet_fs::read_inside;
use serde_json::Value;

use super::project_item::{
    DigestBuilder, LayerPath, ProjectItem, ProjectItemKind, SANDBOX_ANSWERS, ServerDefinition, redact_secrets,
};
use super::referenced_scripts::ScriptRoots;
use crate::documents::DocumentReader;
use crate::json::{self, JsonMember, JsonNode, JsonText, JsonValue};
use crate::load::{FileAuthor, LoadedSettings, SettingsLayer};
use crate::locations::SettingsLocations;
use crate::scope::Scope;
use crate::setting_keys::{self, KEYS, TrustRequirement};
use crate::size_limits::SETTINGS_MAX_BYTES;

pub(super) fn collect_items(loaded: &LoadedSettings, documents: &DocumentReader) -> Vec<ProjectItem> {
    let project = ProjectFolders::from_locations(&loaded.locations);
    let mut items = Vec::new();
    for (at, layer) in loaded.layers.iter().enumerate().filter(|(_, layer)| layer.needs_trust()) {
        LayerItemCollector { project: &project, layer, at, items: &mut items }.collect_group(&layer.root, "");
    }
    // A hook of the user's own that runs a file of the project waits until that file is trusted.
    for (at, layer) in loaded.layers.iter().enumerate() {
        if layer.scope == Scope::User && !layer.needs_trust() {
            LayerItemCollector { project: &project, layer, at, items: &mut items }.collect_hooks_with_scripts();
        }
    }
    // The sandbox then answers permission questions regardless of the project.
    if loaded.has_user_enabled_sandbox() {
        items.retain(|item| !item.is_sandbox_auto_allow());
    }
    if loaded.sources.project {
        for folder in project.folders() {
            project.add_mcp_servers(&folder.join(".mcp.json"), &mut items);
        }
        items.extend(documents.document_items());
    }
    items.extend(documents.memory_items());
    items
}

/// Folders of a project.
pub(crate) struct ProjectFolders<'a> {
    pub(super) root: &'a Path,
    pub(super) cwd: &'a Path,
    pub(super) home: Option<&'a Path>,
}

impl<'a> ProjectFolders<'a> {
    pub(crate) fn from_locations(locations: &'a SettingsLocations) -> Self {
        Self { root: locations.project_root(), cwd: &locations.cwd, home: locations.home.as_deref() }
    }
}

impl ProjectFolders<'_> {
    /// Returns the starting directory and its parents, up to the top of the checkout.
    fn folders(&self) -> impl Iterator<Item = &Path> {
        self.cwd.ancestors().take_while(|folder| folder.starts_with(self.root))
    }

    fn add_mcp_servers(&self, path: &Path, items: &mut Vec<ProjectItem>) {
        // A file that cannot be read starts no server; the reader of servers reports it.
        let Ok(Some(bytes)) = read_inside(self.root, path, SETTINGS_MAX_BYTES) else { return };
        let Ok(text) = String::from_utf8(bytes) else { return };
        let Ok(parsed) = json::parse_json(&text) else { return };
        let text = JsonText::new(text);
        let Some(servers) = parsed.root.get("mcpServers") else { return };
        for JsonMember { key, key_span, value } in servers.members() {
            let whole = value.to_value();
            let content = DigestBuilder::new(ProjectItemKind::McpServer)
                .add_part(key.as_bytes())
                .add_part(canonical_json(&whole).as_bytes());
            let (content, scripts) = ScriptRoots::for_project(self).add_scripts(content, &whole);
            items.push(ProjectItem {
                kind: ProjectItemKind::McpServer,
                name: key.clone(),
                text: format!("{:#}", redact_secrets(&whole)),
                file: path.to_owned(),
                line: Some(text.line_at(key_span.start)),
                executes: true,
                digest: content.finish(),
                scripts,
                own: false,
                place: None,
                server: Some(ServerDefinition(whole)),
            });
        }
    }
}

/// Returns true if the value loosens the sandbox, which is a grant; a stricter one applies at once.
fn is_sandbox_loosening(path: &str, value: &JsonNode) -> bool {
    let Some(name) = path.strip_prefix("sandbox.") else { return false };
    setting_keys::SANDBOX_SWITCHES
        .iter()
        .any(|(switch, closing)| *switch == name && value.json != JsonValue::Bool(*closing))
}

/// Collector of the items of one layer.
struct LayerItemCollector<'a> {
    project: &'a ProjectFolders<'a>,
    layer: &'a SettingsLayer,
    at: usize,
    items: &'a mut Vec<ProjectItem>,
}

impl LayerItemCollector<'_> {
    fn collect_group(&mut self, node: &JsonNode, above: &str) {
        for member in node.members() {
            let path = if above.is_empty() { member.key.clone() } else { format!("{above}.{}", member.key) };
            if setting_keys::is_group(&path) {
                self.collect_group(&member.value, &path);
            } else if let Some(key) = KEYS.iter().find(|key| key.path == path) {
                let gated = match self.layer.author {
                    FileAuthor::User => false,
                    FileAuthor::Unknown | FileAuthor::Project => {
                        key.trust != TrustRequirement::Free || is_sandbox_loosening(&path, &member.value)
                    }
                };
                if gated {
                    self.collect_key(&path, &member.value, key.trust == TrustRequirement::Executes);
                } else if path == "sandbox.enabled" && self.layer.author != FileAuthor::User {
                    self.add_sandbox_auto_allow(&member.value, node);
                }
            }
        }
    }

    fn collect_key(&mut self, path: &str, value: &JsonNode, executes: bool) {
        match path {
            "hooks" => self.add_hooks(value),
            "env" => self.add_env(value),
            "permissions.allow" => self.add_list(path, value, ProjectItemKind::AllowRule),
            "permissions.additionalDirectories" => self.add_list(path, value, ProjectItemKind::Directory),
            "enabledPlugins" | "extraKnownMarketplaces" => {
                for member in value.members() {
                    let name = format!("{path} {}", member.key);
                    self.add_item(
                        ProjectItemKind::Plugin,
                        name,
                        &member.value,
                        path_segments(path, &[&member.key]),
                        executes,
                        None,
                    );
                }
            }
            _ => {
                let kind = if executes { ProjectItemKind::Helper } else { ProjectItemKind::Setting };
                self.add_item(kind, path.to_owned(), value, path_segments(path, &[]), executes, None);
            }
        }
    }

    /// Adds the item that commands run unasked inside the sandbox, which is a grant; the sandbox itself may be turned
    /// on at once.
    fn add_sandbox_auto_allow(&mut self, enabled: &JsonNode, sandbox: &JsonNode) {
        let answers = sandbox.get("autoAllowBashIfSandboxed").is_none_or(|value| value.json != JsonValue::Bool(false));
        if answers && !matches!(enabled.json, JsonValue::Bool(false) | JsonValue::Null) {
            let shown = Some("commands inside the sandbox run without a question".to_owned());
            self.add_item(ProjectItemKind::Setting, SANDBOX_ANSWERS.to_owned(), enabled, Vec::new(), false, shown);
            // The sandbox applies either way.
            self.items.last_mut().into_iter().for_each(|item| item.place = None);
        }
    }

    /// Adds the hooks whose commands name files of the project.
    fn collect_hooks_with_scripts(&mut self) {
        let Some(events) = self.layer.root.get("hooks") else { return };
        let first = self.items.len();
        self.add_hooks(events);
        let added = self.items.split_off(first);
        self.items.extend(added.into_iter().filter(|item| !item.scripts.is_empty()));
    }

    fn add_hooks(&mut self, events: &JsonNode) {
        for event in events.members() {
            for (group_at, group) in event.value.elements().iter().enumerate() {
                let matcher = group.get("matcher").and_then(JsonNode::as_str).unwrap_or("*");
                let handlers = group.get("hooks").map(JsonNode::elements).unwrap_or_default();
                for (at, handler) in handlers.iter().enumerate() {
                    let name = format!("{} {matcher}", event.key);
                    let (group_at, at) = (group_at.to_string(), at.to_string());
                    let place = path_segments("hooks", &[&event.key, &group_at, "hooks", &at]);
                    let shown =
                        ["command", "url", "prompt", "tool"].iter().find_map(|field| handler.get(field)?.as_str());
                    self.add_item(ProjectItemKind::Hook, name, handler, place, true, shown.map(str::to_owned));
                }
            }
        }
    }

    fn add_env(&mut self, variables: &JsonNode) {
        for variable in variables.members() {
            // The value may be a secret, so only its name is shown.
            let shown = Some(variable.key.clone());
            let place = path_segments("env", &[&variable.key]);
            self.add_item(ProjectItemKind::Env, variable.key.clone(), &variable.value, place, true, shown);
        }
    }

    fn add_list(&mut self, path: &str, list: &JsonNode, kind: ProjectItemKind) {
        for (at, entry) in list.elements().iter().enumerate() {
            let name = entry.as_str().unwrap_or_default().to_owned();
            self.add_item(kind, name, entry, path_segments(path, &[&at.to_string()]), false, None);
        }
    }

    fn add_item(
        &mut self,
        kind: ProjectItemKind,
        name: String,
        node: &JsonNode,
        path: Vec<String>,
        executes: bool,
        shown: Option<String>,
    ) {
        let value = node.to_value();
        let mut content =
            DigestBuilder::new(kind).add_part(name.as_bytes()).add_part(canonical_json(&value).as_bytes());
        let mut scripts = Vec::new();
        if executes && kind != ProjectItemKind::Env {
            let command = without_unrun_members(kind, value.clone());
            (content, scripts) = ScriptRoots::for_project(self.project).add_scripts(content, &command);
        }
        let text = shown.unwrap_or_else(|| match &node.json {
            JsonValue::String(text) => text.clone(),
            _ => format!("{value:#}"),
        });
        self.items.push(ProjectItem {
            kind,
            name,
            text,
            file: self.layer.file.clone(),
            line: Some(self.layer.line_of_node(node)),
            executes,
            digest: content.finish(),
            scripts,
            own: self.layer.author != FileAuthor::Project,
            place: Some(LayerPath { layer: self.at, path }),
            server: None,
        });
    }
}

/// Returns the value of an item without the members of a hook that are never run: words in them name no scripts.
fn without_unrun_members(kind: ProjectItemKind, mut value: Value) -> Value {
    if kind == ProjectItemKind::Hook
        && let Some(members) = value.as_object_mut()
    {
        members.retain(|name, _| !matches!(name.as_str(), "if" | "statusMessage" | "prompt"));
    }
    value
}

fn path_segments(path: &str, below: &[&str]) -> Vec<String> {
    path.split('.').chain(below.iter().copied()).map(str::to_owned).collect()
}

/// Returns JSON that does not depend on the order of keys.
fn canonical_json(value: &Value) -> String {
    fn sorted(value: &Value) -> Value {
        match value {
            Value::Object(members) => {
                let mut members: Vec<_> = members.iter().map(|(key, value)| (key.clone(), sorted(value))).collect();
                members.sort_by(|a, b| a.0.cmp(&b.0));
                Value::Object(members.into_iter().collect())
            }
            Value::Array(values) => Value::Array(values.iter().map(sorted).collect()),
            other => other.clone(),
        }
    }
    sorted(value).to_string()
}
