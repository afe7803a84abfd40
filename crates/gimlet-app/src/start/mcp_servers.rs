//! The tool servers of a session.

use std::path::PathBuf;
use std::sync::Arc;

use gimlet_config::{LoadedPlugin, McpServerFiles, McpServerMatch, McpServerScope, Scope, SettingsLayer, SourcedValue};
use gimlet_exec::Exec;
use gimlet_mcp::{
    EntryContext, McpServers, ParsedServers, ServerAdmission, ServerKind, ServerLauncher, ServerMatch, ServerSource,
    ServerTimeouts, StartupWait, VariableExpander, parse_server_entries, parse_servers,
};
use gimlet_proto::{ServerRegistry, SessionId};
use serde_json::Value;

use super::launch_stages::LaunchWarnings;
use super::{LaunchOptions, SessionSettings};
use crate::launch_error::LaunchError;
use crate::launch_request::{CustomizationLevel, FrontEndKind, LaunchRequest};
use crate::process_env::ProcessEnv;

/// What servers of a session are started with.
pub(super) struct ServerSurroundings<'a> {
    pub(super) around: &'a ProcessEnv,
    pub(super) exec: &'a Exec,
    pub(super) session: &'a SessionId,
    /// Further folders that the session works in.
    pub(super) directories: Vec<PathBuf>,
}

/// Returns the servers of the cleared session, or those that files, flags and driver name; `None` when there are none.
/// They begin to connect, and nothing waits for them here.
pub(super) fn build_servers(
    request: &LaunchRequest,
    surroundings: ServerSurroundings<'_>,
    manner: &LaunchOptions,
    configured: &SessionSettings,
    warnings: &mut LaunchWarnings,
) -> Result<Option<Arc<McpServers>>, LaunchError> {
    let around = surroundings.around;
    let launcher = ServerLauncher::new(
        surroundings.exec.clone(),
        configured.env.clone(),
        surroundings.session.to_string(),
        around.cwd.clone(),
        surroundings.directories,
    );
    if let Some(servers) = &manner.servers {
        servers.set_launcher(launcher);
        servers.start_connecting();
        return Ok(Some(servers.clone()));
    }
    let ParsedServers { servers: wanted, errors, remarks } = configured_servers(request, around, configured)?;
    warnings.extend(errors.iter().map(ToString::to_string).chain(remarks));
    if manner.driver.is_none() && wanted.is_empty() {
        return Ok(None);
    }
    let wait = match request.front_end.kind {
        _ if around.env.exact("MCP_CONNECTION_NONBLOCKING") == Some("0") => StartupWait::Everything,
        FrontEndKind::Print => StartupWait::Everything,
        FrontEndKind::Driver => StartupWait::Requested,
        FrontEndKind::Terminal => StartupWait::Essential,
    };
    let servers = McpServers::new(manner.driver.clone(), ServerTimeouts::from_env(&configured.env), wanted)
        .with_admission(server_admission(configured))
        .with_redactor(configured.redactor.clone())
        .with_entry_context(entry_context(ServerSource::Dynamic, configured))
        .with_builtin_names(request.tools.offered.as_ref().and_then(|lists| wanted_builtin_names(lists)))
        .with_startup_wait(wait);
    servers.set_launcher(launcher);
    servers.admit_driver_servers(&manner.driver_servers, &manner.driver_server_configs);
    let servers = Arc::new(servers);
    servers.start_connecting();
    Ok(Some(servers))
}

/// Returns the built-in tools that `--tools` names; `None` for all.
fn wanted_builtin_names(lists: &[String]) -> Option<Vec<String>> {
    let names = lists.iter().flat_map(|list| list.split([',', ' '])).filter(|name| !name.is_empty());
    let names: Vec<String> = names.map(str::to_owned).collect();
    if names.iter().any(|name| name == "default") { None } else { Some(names) }
}

/// Returns the servers of files and flags; later ones replace earlier ones of their name.
fn configured_servers(
    request: &LaunchRequest,
    around: &ProcessEnv,
    configured: &SessionSettings,
) -> Result<ParsedServers, LaunchError> {
    let files = configured.server_files();
    let mut all = ParsedServers::default();
    let mut add = |found: ParsedServers| {
        all.servers.extend(found.servers);
        all.errors.extend(found.errors);
        all.remarks.extend(found.remarks);
    };
    if files.is_managed {
        refuse_flags_beside_managed(request)?;
    }
    if !files.is_managed && !request.tools.only_flag_servers {
        add(read_plugin_servers(configured));
    }
    // A safe or bare session leaves out what files add to it.
    let reads_files = files.is_managed || request.settings.customization == CustomizationLevel::Full;
    if reads_files && !request.tools.only_flag_servers {
        let mut from_files = read_server_files(&files, configured);
        from_files.remarks.extend(files.problems.iter().cloned());
        add(from_files);
    }
    for given in &request.tools.server_configs {
        let document = match given.trim() {
            inline if inline.starts_with('{') => given.clone(),
            path => std::fs::read_to_string(around.cwd.join(path))
                .map_err(|error| LaunchError::new(format!("--mcp-config: {path} cannot be read: {error}")))?,
        };
        let found = parse_servers(&document, &entry_context(ServerSource::Dynamic, configured));
        let mut found = found.map_err(|error| LaunchError::new(format!("--mcp-config: {error}")))?;
        if files.is_managed {
            found.servers.retain(|(_, config)| config.kind == ServerKind::Driver);
        }
        add(found);
    }
    Ok(all)
}

/// Refuses servers of the command line where an administrator's file is the only source.
fn refuse_flags_beside_managed(request: &LaunchRequest) -> Result<(), LaunchError> {
    let names_servers = |given: &String| {
        let found = parse_servers(given, &EntryContext::default());
        found.map_or(true, |found| found.servers.iter().any(|(_, config)| config.kind != ServerKind::Driver))
    };
    if !request.tools.server_configs.iter().any(names_servers) && !request.tools.only_flag_servers {
        return Ok(());
    }
    Err(LaunchError::new("--mcp-config and --strict-mcp-config are not used here: managed-mcp.json names all servers")
        .with_hint("Ask whoever manages this machine, or start without them"))
}

/// Parses the servers of files that are used, those of farther scopes first.
pub(super) fn read_server_files(files: &McpServerFiles, configured: &SessionSettings) -> ParsedServers {
    let mut all = ParsedServers::default();
    let used: Vec<_> = files.used().collect();
    for entry in used.into_iter().rev() {
        let mut alone = serde_json::Map::new();
        alone.insert(entry.name.clone(), entry.value.clone());
        let found = parse_server_entries(&alone, &entry_context(server_source(entry.scope), configured));
        all.servers.extend(found.servers);
        all.errors.extend(found.errors);
        all.remarks.extend(found.remarks);
    }
    all
}

/// Parses the servers of plugins. One that a file configures alike is left to that file.
pub(super) fn read_plugin_servers(configured: &SessionSettings) -> ParsedServers {
    let mut all = ParsedServers::default();
    for plugin in configured.plugins().plugins.iter().filter(|plugin| plugin.has_servers) {
        let context = plugin_entry_context(plugin, configured);
        for server in &plugin.contents.servers {
            let name = format!("plugin:{}:{}", plugin.name(), server.name);
            let mut alone = serde_json::Map::new();
            alone.insert(name, with_plugin_folders(server.value.clone(), plugin));
            let found = parse_server_entries(&alone, &context);
            all.servers.extend(found.servers);
            all.errors.extend(found.errors);
            all.remarks.extend(found.remarks);
        }
    }
    all
}

/// Returns the variables that a plugin's entries may use.
fn plugin_entry_context(plugin: &LoadedPlugin, configured: &SessionSettings) -> EntryContext {
    let context = entry_context(ServerSource::Plugin, configured);
    let more = plugin.server_variables();
    EntryContext {
        variables: more.iter().fold(context.variables, |all, (name, value)| all.with(name, value)),
        ..context
    }
}

/// Returns the entry of a program with the plugin's folders in its environment.
fn with_plugin_folders(mut entry: Value, plugin: &LoadedPlugin) -> Value {
    let is_remote = entry.get("url").is_some();
    if let Some(members) = entry.as_object_mut().filter(|_| !is_remote) {
        let env = members.entry("env").or_insert_with(|| Value::Object(serde_json::Map::new()));
        if let Some(env) = env.as_object_mut() {
            for (name, folder) in [("CLAUDE_PLUGIN_ROOT", &plugin.root), ("CLAUDE_PLUGIN_DATA", &plugin.data)] {
                env.entry(name).or_insert_with(|| Value::from(folder.to_string_lossy().into_owned()));
            }
        }
    }
    entry
}

/// Returns the source of the servers of a scope.
pub(super) fn server_source(scope: McpServerScope) -> ServerSource {
    match scope {
        McpServerScope::Managed => ServerSource::Managed,
        McpServerScope::Local => ServerSource::Local,
        McpServerScope::Project => ServerSource::Project,
        McpServerScope::User => ServerSource::User,
    }
}

/// Returns the variables that entries of a source may use: those of projects never get the provider's credentials.
pub(super) fn entry_context(source: ServerSource, configured: &SessionSettings) -> EntryContext {
    let folder = configured.around.cwd.clone().into_os_string();
    let variables = VariableExpander::new(configured.env.clone().with("CLAUDE_PROJECT_DIR", folder));
    let variables = match source {
        ServerSource::Project | ServerSource::Plugin | ServerSource::Agent => {
            variables.without(gimlet_model::secret_variables().flat_map(gimlet_proto::Env::spellings))
        }
        _ => variables,
    };
    EntryContext { source, variables }
}

/// Returns the admission rules for servers. Denials count from every file.
pub(super) fn server_admission(configured: &SessionSettings) -> ServerAdmission {
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

/// Refuses flags that load content an administrator has not approved.
pub(super) fn check_sideloading(request: &LaunchRequest, configured: &SessionSettings) -> Result<(), LaunchError> {
    if configured.effective.settings.disable_sideload_flags != Some(true) {
        return Ok(());
    }
    let given = [
        ("--agents", request.agents.kinds.as_ref().is_some_and(|kinds| !kinds.is_from_host())),
        ("--mcp-config", !request.tools.server_configs.is_empty()),
        ("--plugin-dir", !request.plugins.folders.is_empty()),
        ("--plugin-dir-no-mcp", !request.plugins.folders_without_servers.is_empty()),
    ];
    let given = given.into_iter().filter(|(_, given)| *given).map(|(flag, _)| flag);
    let ignored = request.front_end.ignored_flags.iter().map(String::as_str);
    match given.chain(ignored.filter(|flag| flag.starts_with("--plugin-"))).next() {
        None => Ok(()),
        Some(flag) => {
            Err(LaunchError::new(format!("{flag} is not used here: managed settings say disableSideloadFlags"))
                .with_hint("Ask whoever manages this machine, or start without it"))
        }
    }
}
