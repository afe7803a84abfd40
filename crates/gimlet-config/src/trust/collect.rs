//! Finds every item: in the settings that were loaded, in `.mcp.json`, and in the project's skills, agents and commands.

use std::path::Path;

use serde_json::Value;

use super::documents;
use super::item::{Content, Item, ItemKind, Place, SANDBOX_ANSWERS};
use super::scripts::Ground;
use crate::files::{self, SETTINGS_MAX_BYTES};
use crate::json::{self, Json, JsonText, Member, Node};
use crate::keys::{self, Gate, KEYS};
use crate::load::{Author, Layer, Loaded};
use crate::locations::Locations;

pub(super) fn items(loaded: &Loaded) -> Vec<Item> {
    let project = Project::of(&loaded.locations);
    let mut items = Vec::new();
    for (at, layer) in loaded.layers.iter().enumerate().filter(|(_, layer)| layer.is_gated()) {
        LayerItems { project: &project, layer, at, items: &mut items }.group(&layer.root, "");
    }
    // Then it answers whatever a project says.
    if loaded.person_wants_sandbox() {
        items.retain(|item| !item.is_sandbox_answers());
    }
    if loaded.sources.project {
        for folder in project.folders() {
            project.mcp_servers(&folder.join(".mcp.json"), &mut items);
            documents::collect(&project, folder, &mut items);
        }
    }
    items
}

/// The folders of a project.
pub(super) struct Project<'a> {
    pub(super) root: &'a Path,
    pub(super) cwd: &'a Path,
    pub(super) home: Option<&'a Path>,
}

impl<'a> Project<'a> {
    pub(super) fn of(locations: &'a Locations) -> Self {
        Self { root: locations.project_root(), cwd: &locations.cwd, home: locations.home.as_deref() }
    }
}

impl Project<'_> {
    /// The starting directory and those above it, up to the top of the checkout.
    fn folders(&self) -> impl Iterator<Item = &Path> {
        self.cwd.ancestors().take_while(|folder| folder.starts_with(self.root))
    }

    fn mcp_servers(&self, path: &Path, items: &mut Vec<Item>) {
        // A file that cannot be read starts no server; whoever reads servers says so.
        let Ok(Some(bytes)) = files::read_inside(self.root, path, SETTINGS_MAX_BYTES) else { return };
        let Ok(text) = String::from_utf8(bytes) else { return };
        let Ok(parsed) = json::parse(&text) else { return };
        let text = JsonText::new(text);
        let Some(servers) = parsed.root.get("mcpServers") else { return };
        for Member { key, key_span, value } in servers.members() {
            let whole = value.to_value();
            let content = Content::new(ItemKind::McpServer).part(key.as_bytes()).part(canonical(&whole).as_bytes());
            let (content, scripts) = Ground::of_project(self).follow(content, &whole);
            items.push(Item {
                kind: ItemKind::McpServer,
                name: key.clone(),
                text: format!("{:#}", without_secrets(&whole)),
                file: path.to_owned(),
                line: Some(text.line(key_span.start)),
                executes: true,
                digest: content.digest(),
                scripts,
                own: false,
                place: None,
            });
        }
    }
}

/// A switch of the sandbox may be made stricter at once; the other way is a grant.
fn opens_sandbox(path: &str, value: &Node) -> bool {
    let Some(name) = path.strip_prefix("sandbox.") else { return false };
    keys::SANDBOX_SWITCHES.iter().any(|(switch, closing)| *switch == name && value.json != Json::Bool(*closing))
}

/// The items of one layer.
struct LayerItems<'a> {
    project: &'a Project<'a>,
    layer: &'a Layer,
    at: usize,
    items: &'a mut Vec<Item>,
}

impl LayerItems<'_> {
    fn group(&mut self, node: &Node, above: &str) {
        for member in node.members() {
            let path = if above.is_empty() { member.key.clone() } else { format!("{above}.{}", member.key) };
            if keys::is_group(&path) {
                self.group(&member.value, &path);
            } else if let Some(key) = KEYS.iter().find(|key| key.path == path) {
                let gated = match self.layer.author {
                    Author::Person => false,
                    Author::Unknown | Author::Project => key.gate != Gate::Free || opens_sandbox(&path, &member.value),
                };
                if gated {
                    self.key(&path, &member.value, key.gate == Gate::Executes);
                } else if path == "sandbox.enabled" && self.layer.author != Author::Person {
                    self.answers(&member.value, node);
                }
            }
        }
    }

    fn key(&mut self, path: &str, value: &Node, executes: bool) {
        match path {
            "hooks" => self.hooks(value),
            "env" => self.env(value),
            "permissions.allow" => self.list(path, value, ItemKind::AllowRule),
            "permissions.additionalDirectories" => self.list(path, value, ItemKind::Directory),
            "enabledPlugins" | "extraKnownMarketplaces" => {
                for member in value.members() {
                    let name = format!("{path} {}", member.key);
                    self.add(ItemKind::Plugin, name, &member.value, steps(path, &[&member.key]), executes, None);
                }
            }
            _ => {
                let kind = if executes { ItemKind::Helper } else { ItemKind::Setting };
                self.add(kind, path.to_owned(), value, steps(path, &[]), executes, None);
            }
        }
    }

    /// A sandbox may be turned on at once; that commands run unasked inside it is a grant.
    fn answers(&mut self, enabled: &Node, sandbox: &Node) {
        let answers = sandbox.get("autoAllowBashIfSandboxed").is_none_or(|value| value.json != Json::Bool(false));
        if answers && !matches!(enabled.json, Json::Bool(false) | Json::Null) {
            let shown = Some("commands inside the sandbox run without a question".to_owned());
            self.add(ItemKind::Setting, SANDBOX_ANSWERS.to_owned(), enabled, Vec::new(), false, shown);
            // The walls stand either way.
            self.items.last_mut().into_iter().for_each(|item| item.place = None);
        }
    }

    fn hooks(&mut self, events: &Node) {
        for event in events.members() {
            for (group_at, group) in event.value.elements().iter().enumerate() {
                let matcher = group.get("matcher").and_then(Node::as_str).unwrap_or("*");
                let handlers = group.get("hooks").map(Node::elements).unwrap_or_default();
                for (at, handler) in handlers.iter().enumerate() {
                    let name = format!("{} {matcher}", event.key);
                    let (group_at, at) = (group_at.to_string(), at.to_string());
                    let place = steps("hooks", &[&event.key, &group_at, "hooks", &at]);
                    let shown =
                        ["command", "url", "prompt", "tool"].iter().find_map(|field| handler.get(field)?.as_str());
                    self.add(ItemKind::Hook, name, handler, place, true, shown.map(str::to_owned));
                }
            }
        }
    }

    fn env(&mut self, variables: &Node) {
        for variable in variables.members() {
            // The value may be a secret, so its name has to do.
            let shown = Some(variable.key.clone());
            let place = steps("env", &[&variable.key]);
            self.add(ItemKind::Env, variable.key.clone(), &variable.value, place, true, shown);
        }
    }

    fn list(&mut self, path: &str, list: &Node, kind: ItemKind) {
        for (at, entry) in list.elements().iter().enumerate() {
            let name = entry.as_str().unwrap_or_default().to_owned();
            self.add(kind, name, entry, steps(path, &[&at.to_string()]), false, None);
        }
    }

    fn add(
        &mut self,
        kind: ItemKind,
        name: String,
        node: &Node,
        path: Vec<String>,
        executes: bool,
        shown: Option<String>,
    ) {
        let value = node.to_value();
        let mut content = Content::new(kind).part(name.as_bytes()).part(canonical(&value).as_bytes());
        let mut scripts = Vec::new();
        if executes && kind != ItemKind::Env {
            (content, scripts) = Ground::of_project(self.project).follow(content, &value);
        }
        let text = shown.unwrap_or_else(|| match &node.json {
            Json::String(text) => text.clone(),
            _ => format!("{value:#}"),
        });
        self.items.push(Item {
            kind,
            name,
            text,
            file: self.layer.file.clone(),
            line: Some(self.layer.line(node)),
            executes,
            digest: content.digest(),
            scripts,
            own: self.layer.author != Author::Project,
            place: Some(Place { layer: self.at, path }),
        });
    }
}

fn steps(path: &str, below: &[&str]) -> Vec<String> {
    path.split('.').chain(below.iter().copied()).map(str::to_owned).collect()
}

/// JSON in which the order of keys makes no difference.
fn canonical(value: &Value) -> String {
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

/// A server's entry with names in place of the values that may be secret.
fn without_secrets(server: &Value) -> Value {
    let mut shown = server.clone();
    for field in ["env", "headers"] {
        let Some(values) = shown.get_mut(field).and_then(Value::as_object_mut) else { continue };
        values.values_mut().for_each(|value| *value = Value::String("…".into()));
    }
    shown
}
