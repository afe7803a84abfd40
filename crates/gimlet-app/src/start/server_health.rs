//! The tool servers of a folder without a session: what files configure, and whether each can be connected.

use std::path::Path;
use std::sync::Arc;

use gimlet_config::{JsonEdit, ProjectItem, ProjectItemKind, SaveError, Scope, TrustStore};
use gimlet_core::tool::ToolSource;
use gimlet_mcp::{McpServers, ServerConfig, ServerLauncher, ServerTimeouts, StartupWait, parse_server_entries};
use gimlet_proto::{ServerRegistry, ServerView};
use serde_json::Map;

use super::SessionSettings;
use super::mcp_servers::{entry_context, read_server_files, server_admission, server_source};
use crate::launch_error::LaunchError;
use crate::launch_request::LaunchRequest;
use crate::process_env::ProcessEnv;
use crate::sandbox_process::new_exec;
use crate::settings_mapping::find_locations;

/// Settings in which the user's choices about servers of `.mcp.json` are kept.
const CHOICES: [&str; 3] = ["enabledMcpjsonServers", "disabledMcpjsonServers", "enableAllProjectMcpServers"];

/// A server that files configure, for lists.
pub struct CataloguedServer {
    pub entry: gimlet_config::McpServerEntry,
    /// What it is, or why its entry cannot be used.
    pub config: Result<ServerConfig, String>,
}

/// Servers that files configure.
pub struct ServerCatalogue {
    pub servers: Vec<CataloguedServer>,
    pub problems: Vec<String>,
    /// True if an administrator's file excludes all other servers.
    pub is_managed: bool,
}

impl ServerCatalogue {
    /// Reads the servers of a folder.
    pub fn read(request: &LaunchRequest, around: &ProcessEnv) -> Result<Self, LaunchError> {
        let configured = SessionSettings::read(request, around)?;
        let files = configured.server_files();
        let mut problems = files.problems.clone();
        let mut servers = Vec::new();
        for entry in files.entries {
            let mut alone = Map::new();
            alone.insert(entry.name.clone(), entry.value.clone());
            let found = parse_server_entries(&alone, &entry_context(server_source(entry.scope), &configured));
            problems.extend(found.remarks);
            let config = match found.servers.into_iter().next() {
                Some((_, config)) => Ok(config),
                None => Err(found.errors.first().map(ToString::to_string).unwrap_or_default()),
            };
            servers.push(CataloguedServer { entry, config });
        }
        Ok(Self { servers, problems, is_managed: files.is_managed })
    }
}

/// Connects the servers of a folder that a session would use, or only the named one, and returns how they stand.
/// Nothing is left running.
pub async fn check_servers(
    request: &LaunchRequest,
    around: &ProcessEnv,
    only: Option<&str>,
) -> Result<Vec<ServerView>, LaunchError> {
    let configured = SessionSettings::read(request, around)?;
    let mut wanted = read_server_files(&configured.server_files(), &configured).servers;
    wanted.retain(|(name, _)| only.is_none_or(|only| only == name));
    let exec = new_exec();
    let servers = McpServers::new(None, ServerTimeouts::from_env(&configured.env).waiting_for_all(), wanted)
        .with_admission(server_admission(&configured))
        .with_startup_wait(StartupWait::Everything);
    let id = "mcp-check".to_owned();
    servers.set_launcher(ServerLauncher::new(exec.clone(), configured.env.clone(), id, around.cwd.clone(), Vec::new()));
    let servers = Arc::new(servers);
    servers.start_connecting();
    drop(servers.tools().await);
    let views = servers.list();
    servers.close().await;
    exec.shutdown(gimlet_exec::KILL_GRACE).await;
    Ok(views)
}

/// Trusts a server of a project's file that the user has just added. Returns false if it waits for trust all the same.
pub fn trust_added_server(around: &ProcessEnv, file: &Path, name: &str) -> Result<bool, LaunchError> {
    let configured = SessionSettings::read(&LaunchRequest::default(), around)?;
    let store = TrustStore::new(&configured.loaded.locations);
    if store.is_in_memory_only() {
        return Ok(false);
    }
    let is_it = |item: &&ProjectItem| {
        item.kind == ProjectItemKind::McpServer && item.name == name && item.file.file_name() == file.file_name()
    };
    let added: Vec<ProjectItem> = configured.inventory.items.iter().filter(is_it).cloned().collect();
    if added.is_empty() || store.accept_items(&added).is_err() {
        return Ok(false);
    }
    let trust = store.load_trust();
    Ok(added.iter().all(|item| trust.covers(item)))
}

/// Removes the user's choices about servers of `.mcp.json` in this project.
pub fn forget_project_choices(around: &ProcessEnv) -> Result<(), LaunchError> {
    let locations = find_locations(around);
    if !locations.local_file().exists() {
        return Ok(());
    }
    for key in CHOICES {
        let saved: Result<_, SaveError> =
            gimlet_config::save_setting(&locations, Scope::Local, key, &JsonEdit::RemoveKey);
        saved.map_err(|error| LaunchError::new(error.to_string()))?;
    }
    Ok(())
}
