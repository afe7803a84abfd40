//! The tool servers of a session.

use std::sync::Arc;

use gimlet_config::{McpServerMatch, Scope, SettingsLayer, SourcedValue};
use gimlet_mcp::{McpServers, ServerAdmission, ServerMatch, ServerTimeouts, parse_servers};
use gimlet_proto::ServerRegistry;

use super::{LaunchOptions, SessionSettings};
use crate::launch_error::LaunchError;
use crate::launch_request::LaunchRequest;
use crate::process_env::ProcessEnv;

/// Returns the servers of the cleared session, or those that flags and driver name; `None` when there can be none.
pub(super) fn build_servers(
    request: &LaunchRequest,
    around: &ProcessEnv,
    manner: &LaunchOptions,
    configured: &SessionSettings,
) -> Result<Option<Arc<McpServers>>, LaunchError> {
    if let Some(servers) = &manner.servers {
        return Ok(Some(servers.clone()));
    }
    let Some(driver) = &manner.driver else { return Ok(None) };
    let mut servers = Vec::new();
    for given in &request.tools.server_configs {
        let document = match given.trim() {
            inline if inline.starts_with('{') => given.clone(),
            path => std::fs::read_to_string(around.cwd.join(path))
                .map_err(|error| LaunchError::new(format!("--mcp-config: {path} cannot be read: {error}")))?,
        };
        let found = parse_servers(&document).map_err(|error| LaunchError::new(format!("--mcp-config: {error}")))?;
        servers.extend(found);
    }
    let servers = McpServers::new(Some(driver.clone()), ServerTimeouts::from_env(&configured.env), servers);
    let servers = servers.with_admission(server_admission(configured)).with_redactor(configured.redactor.clone());
    servers.admit_driver_servers(&manner.driver_servers, &manner.driver_server_configs);
    Ok(Some(Arc::new(servers)))
}

/// Returns the admission rules for servers. Denials count from every file.
fn server_admission(configured: &SessionSettings) -> ServerAdmission {
    let effective = &configured.effective;
    let matches = |entry: &SourcedValue| -> Option<ServerMatch> {
        let entry: McpServerMatch = serde_json::from_value(entry.value.clone()).ok()?;
        let by_place = || entry.server_command.map(ServerMatch::Command).or(entry.server_url.map(ServerMatch::Url));
        entry.server_name.map(ServerMatch::Name).or_else(by_place)
    };
    let managed_only = effective.settings.allow_managed_mcp_servers_only == Some(true);
    let counts = |entry: &&SourcedValue| !managed_only || entry.origin.scope == Scope::Managed;
    let allowed = effective.merged.entries("allowedMcpServers").iter().filter(counts).filter_map(matches).collect();
    let managed = configured.loaded.layers.iter().filter(|layer| layer.scope == Scope::Managed);
    let is_said = match managed_only {
        true => managed.map(SettingsLayer::to_value).any(|settings| settings.get("allowedMcpServers").is_some()),
        false => effective.settings.allowed_mcp_servers.is_some(),
    };
    ServerAdmission {
        allowed: is_said.then_some(allowed),
        denied: effective.merged.entries("deniedMcpServers").iter().filter_map(matches).collect(),
    }
}

/// Returns the flags that name plugins. Plugins do not exist yet, so they were ignored.
pub(super) fn plugin_flags(request: &LaunchRequest) -> impl Iterator<Item = &str> {
    request.front_end.ignored_flags.iter().map(String::as_str).filter(|flag| flag.starts_with("--plugin-"))
}

/// Refuses flags that load content an administrator has not approved.
pub(super) fn check_sideloading(request: &LaunchRequest, configured: &SessionSettings) -> Result<(), LaunchError> {
    if configured.effective.settings.disable_sideload_flags != Some(true) {
        return Ok(());
    }
    let given = [
        ("--agents", request.agents.kinds.as_ref().is_some_and(|kinds| !kinds.is_from_host())),
        ("--mcp-config", !request.tools.server_configs.is_empty()),
    ];
    let given = given.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag);
    match given.chain(plugin_flags(request)).next() {
        None => Ok(()),
        Some(flag) => {
            Err(LaunchError::new(format!("{flag} is not used here: managed settings say disableSideloadFlags"))
                .with_hint("Ask whoever manages this machine, or start without it"))
        }
    }
}
