//! Tool servers that files configure: those of a project in `.mcp.json`, the user's own in `.claude.json`, and an
//! administrator's in `managed-mcp.json`. Entries are returned as they are written; nothing is started here.
//!
//! A project's server is used only if its definition is trusted. Approval lists in settings can leave servers out and
//! never add one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gimlet_fs::{read_file, read_inside};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::backup;
use crate::effective_settings::EffectiveSettings;
use crate::file_ownership;
use crate::file_update::{self, FileUpdateError};
use crate::json_edit::{self, JsonEdit, JsonEditError};
use crate::load::LoadedSettings;
use crate::locations::SettingsLocations;
use crate::size_limits::{SETTINGS_MAX_BYTES, STATE_MAX_BYTES};
use crate::trust::{ProjectItem, ProjectItemKind, ProjectTrust, ServerDefinition, TrustInventory};

/// File of an administrator's servers, beside the managed settings.
const MANAGED_FILE: &str = "managed-mcp.json";
const PROJECT_FILE: &str = ".mcp.json";
const SERVERS: &str = "mcpServers";

/// Where a server is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum McpServerScope {
    /// By an administrator; excludes all others.
    Managed,
    /// By the user, for one project.
    Local,
    /// By the project.
    Project,
    /// By the user, for all projects.
    User,
}

impl McpServerScope {
    pub fn as_str(self) -> &'static str {
        match self {
            McpServerScope::Managed => "managed",
            McpServerScope::Local => "local",
            McpServerScope::Project => "project",
            McpServerScope::User => "user",
        }
    }
}

/// Whether a server is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum McpServerState {
    Used,
    /// Its definition is not trusted.
    Untrusted,
    /// The user's list of approved servers does not have it.
    NotApproved,
    /// `disabledMcpjsonServers` names it.
    Rejected,
    /// The user turned it off for this project.
    Disabled,
    /// A server of the same name in a nearer scope is used instead.
    Shadowed(McpServerScope),
}

/// A server in a file.
#[derive(Clone, Debug, PartialEq)]
pub struct McpServerEntry {
    pub name: String,
    pub scope: McpServerScope,
    pub file: PathBuf,
    /// As it is written.
    pub value: Value,
    pub state: McpServerState,
}

/// Servers of all files, and the problems of files that cannot be used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct McpServerFiles {
    pub entries: Vec<McpServerEntry>,
    /// One line each.
    pub problems: Vec<String>,
    /// True if an administrator's file excludes all other servers.
    pub is_managed: bool,
}

impl McpServerFiles {
    /// Reads the servers of all files.
    pub fn read(
        loaded: &LoadedSettings,
        inventory: &TrustInventory,
        trust: &ProjectTrust,
        effective: &EffectiveSettings,
    ) -> Self {
        let locations = &loaded.locations;
        let mut files = Self::default();
        if files.add_managed(&locations.managed_dir.join(MANAGED_FILE)) {
            files.is_managed = true;
            return files;
        }
        let state = files.read_state_file(locations);
        let keys = project_keys(locations);
        let projects = keys.iter().filter_map(|key| state.projects.get(key.as_str()));
        let disabled: Vec<String> = projects.clone().flat_map(|project| project.disabled.clone()).collect();
        if loaded.sources.local {
            for project in projects {
                files.add_all(McpServerScope::Local, &locations.state_file, &project.servers, &|_, _| {
                    McpServerState::Used
                });
            }
        }
        if loaded.sources.project {
            files.add_project(locations, inventory, trust, effective);
        }
        if loaded.sources.user {
            files.add_all(McpServerScope::User, &locations.state_file, &state.servers, &|_, _| McpServerState::Used);
        }
        files.settle(&disabled);
        files
    }

    /// Returns the servers to use, nearer scopes before others.
    pub fn used(&self) -> impl Iterator<Item = &McpServerEntry> {
        self.entries.iter().filter(|entry| entry.state == McpServerState::Used)
    }

    /// Adds the administrator's servers. Returns false if there is no file of theirs.
    fn add_managed(&mut self, file: &Path) -> bool {
        let document = match read_file(file, SETTINGS_MAX_BYTES) {
            Ok(None) => return false,
            Ok(Some(bytes)) => parse_document(&bytes),
            // One that cannot be read excludes the others all the same.
            Err(error) => Err(error.to_string()),
        };
        match document {
            Ok(servers) => self.add_all(McpServerScope::Managed, file, &servers, &|_, _| McpServerState::Used),
            Err(problem) => self.problems.push(format!("{}: {problem}", file.display())),
        }
        true
    }

    fn read_state_file(&mut self, locations: &SettingsLocations) -> StateServers {
        let file = &locations.state_file;
        let bytes = match read_file(file, STATE_MAX_BYTES) {
            Ok(Some(bytes)) => bytes,
            // Problems of this file are reported where it is checked as a whole.
            Ok(None) | Err(_) => return StateServers::default(),
        };
        // The file can be large, and most have no servers.
        let mentions = |key: &str| bytes.windows(key.len()).any(|window| window == key.as_bytes());
        if !mentions("\"mcpServers\"") && !mentions("\"disabledMcpServers\"") {
            return StateServers::default();
        }
        let doubts = locations.user.check_state_file(file);
        if !doubts.is_empty() {
            let why = file_ownership::describe_problems(&doubts);
            self.problems.push(format!("{}: its MCP servers are not used: {why}", file.display()));
            return StateServers::default();
        }
        StateServers::parse(&bytes, &project_keys(locations)).unwrap_or_default()
    }

    /// Adds the project's servers, those of nearer folders first.
    fn add_project(
        &mut self,
        locations: &SettingsLocations,
        inventory: &TrustInventory,
        trust: &ProjectTrust,
        effective: &EffectiveSettings,
    ) {
        let root = locations.project_root();
        for folder in locations.cwd.ancestors().take_while(|folder| folder.starts_with(root)) {
            let file = folder.join(PROJECT_FILE);
            if let Some(problem) = project_file_problem(root, &file) {
                self.problems.push(format!("{}: {problem}", file.display()));
            }
        }
        let settings = &effective.settings;
        let lists = |list: &Option<Vec<String>>, name: &str| list.iter().flatten().any(|listed| listed == name);
        let is_server = |item: &&ProjectItem| item.kind == ProjectItemKind::McpServer;
        for item in inventory.items.iter().filter(is_server) {
            let Some(ServerDefinition(value)) = &item.server else { continue };
            let approves_all = settings.enable_all_project_mcp_servers == Some(true);
            let is_listed = lists(&settings.enabled_mcpjson_servers, &item.name);
            let state = if lists(&settings.disabled_mcpjson_servers, &item.name) {
                McpServerState::Rejected
            } else if !inventory.covers(trust, ProjectItemKind::McpServer, &item.file, &item.name) {
                McpServerState::Untrusted
            } else if settings.enabled_mcpjson_servers.is_some() && !approves_all && !is_listed {
                McpServerState::NotApproved
            } else {
                McpServerState::Used
            };
            self.add(McpServerScope::Project, &item.file, &item.name, value, state);
        }
    }

    fn add_all(
        &mut self,
        scope: McpServerScope,
        file: &Path,
        servers: &Map<String, Value>,
        state: &dyn Fn(&str, &Value) -> McpServerState,
    ) {
        servers.iter().for_each(|(name, value)| self.add(scope, file, name, value, state(name, value)));
    }

    fn add(&mut self, scope: McpServerScope, file: &Path, name: &str, value: &Value, state: McpServerState) {
        let (name, file, value) = (name.to_owned(), file.to_owned(), value.clone());
        self.entries.push(McpServerEntry { name, scope, file, value, state });
    }

    /// Settles which of several servers of one name is used: the first that may be.
    fn settle(&mut self, disabled: &[String]) {
        let mut owners: BTreeMap<String, McpServerScope> = BTreeMap::new();
        for entry in &mut self.entries {
            if let Some(scope) = owners.get(&entry.name) {
                entry.state = McpServerState::Shadowed(*scope);
                continue;
            }
            if entry.state == McpServerState::Used {
                owners.insert(entry.name.clone(), entry.scope);
                if disabled.contains(&entry.name) {
                    entry.state = McpServerState::Disabled;
                }
            }
        }
    }
}

/// Servers in `.claude.json`.
#[derive(Default)]
struct StateServers {
    servers: Map<String, Value>,
    projects: BTreeMap<String, ProjectServers>,
}

#[derive(Default)]
struct ProjectServers {
    servers: Map<String, Value>,
    disabled: Vec<String>,
}

impl StateServers {
    /// Parses the parts that are about servers of these projects. Parts of another shape count as absent.
    fn parse(bytes: &[u8], keys: &[String]) -> Option<Self> {
        #[derive(Deserialize)]
        struct StateFile<'a> {
            #[serde(rename = "mcpServers", borrow, default)]
            servers: Option<&'a RawValue>,
            #[serde(borrow, default)]
            projects: Option<&'a RawValue>,
        }
        #[derive(Deserialize)]
        struct ProjectState<'a> {
            #[serde(rename = "mcpServers", borrow, default)]
            servers: Option<&'a RawValue>,
            #[serde(rename = "disabledMcpServers", borrow, default)]
            disabled: Option<&'a RawValue>,
        }
        fn parse_part<T: Default + serde::de::DeserializeOwned>(part: Option<&RawValue>) -> T {
            part.and_then(|part| serde_json::from_str(part.get()).ok()).unwrap_or_default()
        }
        let text = std::str::from_utf8(bytes).ok()?.trim_start_matches('\u{feff}');
        let file: StateFile<'_> = serde_json::from_str(text).ok()?;
        let projects: BTreeMap<String, Box<RawValue>> = parse_part(file.projects);
        let project = |key: &String| {
            let state: ProjectState<'_> = serde_json::from_str(projects.get(key)?.get()).ok()?;
            let servers = ProjectServers { servers: parse_part(state.servers), disabled: parse_part(state.disabled) };
            Some((key.clone(), servers))
        };
        Some(Self { servers: parse_part(file.servers), projects: keys.iter().filter_map(project).collect() })
    }
}

/// Returns the keys of the project in `.claude.json`: programs differ in which of its folders they name.
fn project_keys(locations: &SettingsLocations) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    for folder in [locations.cwd.as_path(), locations.project_root(), locations.trust_root()] {
        if let Some(key) = folder.to_str()
            && !keys.iter().any(|known| known == key)
        {
            keys.push(key.to_owned());
        }
    }
    keys
}

/// Returns the problem of a project's file as a whole.
fn project_file_problem(root: &Path, file: &Path) -> Option<String> {
    match read_inside(root, file, SETTINGS_MAX_BYTES) {
        Ok(None) => None,
        Ok(Some(bytes)) => parse_document(&bytes).err(),
        Err(error) => Some(error.to_string()),
    }
}

fn parse_document(bytes: &[u8]) -> Result<Map<String, Value>, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
    let document: Value = match serde_json::from_str(text.trim_start_matches('\u{feff}')) {
        Ok(document) => document,
        Err(error) => return Err(format!("it is not JSON: {error}")),
    };
    match document.get(SERVERS) {
        Some(Value::Object(servers)) => Ok(servers.clone()),
        Some(_) => Err("mcpServers is no object".to_owned()),
        None if document.get("servers").is_some() => {
            Err("it has no key mcpServers; the key 'servers' is that of another program".to_owned())
        }
        None => Err("it has no key mcpServers".to_owned()),
    }
}

/// File that can be edited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpConfigFile {
    pub path: PathBuf,
    /// Keys down to the servers.
    keys: Vec<String>,
}

impl McpConfigFile {
    /// Returns the file of a scope; `None` for one that only an administrator edits.
    pub fn for_scope(locations: &SettingsLocations, scope: McpServerScope) -> Option<Self> {
        let servers = SERVERS.to_owned();
        let project = locations.project_root().to_string_lossy().into_owned();
        let (path, keys) = match scope {
            McpServerScope::Managed => return None,
            McpServerScope::User => (locations.state_file.clone(), vec![servers]),
            McpServerScope::Local => (locations.state_file.clone(), vec!["projects".to_owned(), project, servers]),
            McpServerScope::Project => (locations.project_root().join(PROJECT_FILE), vec![servers]),
        };
        Some(Self { path, keys })
    }

    /// Returns the file of an entry, with the place where that is.
    pub fn for_entry(locations: &SettingsLocations, entry: &McpServerEntry) -> Option<Self> {
        let file = Self::for_scope(locations, entry.scope)?;
        if entry.scope != McpServerScope::Local {
            return Some(Self { path: entry.file.clone(), ..file });
        }
        // Another program may have used another folder of the project as the key.
        let bytes = read_file(&file.path, STATE_MAX_BYTES).ok().flatten()?;
        let keys = project_keys(locations);
        let state = StateServers::parse(&bytes, &keys)?;
        let holds = |key: &&String| state.projects.get(*key).is_some_and(|held| held.servers.contains_key(&entry.name));
        let project = keys.iter().find(holds)?.clone();
        Some(Self { keys: vec!["projects".to_owned(), project, SERVERS.to_owned()], ..file })
    }
}

/// Reason why a server was not written.
#[derive(Debug, thiserror::Error)]
pub enum McpEditError {
    #[error("{}: {source}", path.display())]
    Edit { path: PathBuf, source: JsonEditError },
    #[error("{0}")]
    File(String),
    #[error("{} is a link, which gimlet does not write through", path.display())]
    Symlink { path: PathBuf },
    #[error("there is already a server named '{name}' in {}; remove it first", path.display())]
    Exists { name: String, path: PathBuf },
}

/// Adds a server to a file (`Some`) or removes it, and leaves every other byte as it is.
pub fn edit_mcp_servers(
    locations: &SettingsLocations,
    file: &McpConfigFile,
    name: &str,
    server: Option<&Value>,
) -> Result<(), McpEditError> {
    let path = &file.path;
    let is_state = *path == locations.state_file;
    if is_state {
        let doubts = locations.user.check_state_file(path);
        if path.symlink_metadata().is_ok() && !doubts.is_empty() {
            let why = file_ownership::describe_problems(&doubts);
            return Err(McpEditError::File(format!("{}: {why}", path.display())));
        }
        backup::back_up_file(path, &locations.config_dir.join("backups"))
            .map_err(|error| McpEditError::File(format!("{} cannot be backed up: {error}", path.display())))?;
    } else if path.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink()) {
        return Err(McpEditError::Symlink { path: path.clone() });
    }
    let mut keys: Vec<&str> = file.keys.iter().map(String::as_str).collect();
    keys.push(name);
    let change = |text: Option<&str>| -> Result<Option<String>, McpEditError> {
        let text = text.unwrap_or_default();
        let before: Value = serde_json::from_str(text.trim_start_matches('\u{feff}')).unwrap_or_default();
        let known = keys.iter().try_fold(&before, |value, key| value.get(*key));
        let edit = match server {
            Some(_) if known.is_some() => {
                return Err(McpEditError::Exists { name: name.to_owned(), path: path.clone() });
            }
            Some(server) => JsonEdit::Set(server.clone()),
            None => JsonEdit::RemoveKey,
        };
        let edited = json_edit::apply_edit(text, &keys, &edit);
        edited.map(Some).map_err(|source| McpEditError::Edit { path: path.clone(), source })
    };
    file_update::update_file(path, STATE_MAX_BYTES, change).map_err(|error| match error {
        FileUpdateError::Change(error) => error,
        other => McpEditError::File(other.to_string()),
    })
}
