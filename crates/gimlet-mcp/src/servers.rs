//! The servers of one session. Those inside the driving program are connected when first needed; the others from the
//! session's beginning on, in the background. What they offer changes between turns only.

mod catalogue;
mod connect;
mod server_entry;
mod supervise;
mod tool_identity;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use gimlet_core::commands::CommandRegistry;
use gimlet_core::tool::{AbsentTools, PermissionVerdict, ServerRequestFacts, ToolRef, ToolSource, ToolSourceNews};
use gimlet_core::{HostPermit, Redactor, UserAsker};
use gimlet_proto::{
    BoxFuture, Driver, Env, Notice, NoticeLevel, ServerRegistry, ServerRequest, ServerSetChange, ServerView,
    provider_safe_name,
};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::CHARS_PER_TOKEN;
use crate::admission::ServerAdmission;
use crate::connection::{CallLimits, ConnectError};
use crate::server_client::{SharedAsker, SharedRoots};
use crate::server_config::{
    EntryContext, ParsedServers, ServerConfig, ServerConfigError, ServerKind, parse_server_map,
};
use crate::server_launcher::ServerLauncher;
use crate::server_text::sanitize_label;
use crate::tool_policies::{ToolPolicies, ToolPolicy};
use connect::ConnectTarget;
use server_entry::{
    ServerEntry, ServerState, assign_tool_names, current_identities, denied_message, find_connection, find_tool_owner,
    unknown_server_message,
};
pub use supervise::StartupWait;
use tool_identity::IdentityRegistry;

/// Default timeout for connecting to a server.
const CONNECT: Duration = Duration::from_secs(30);
/// Default timeout for a call: long enough for everything that is meant to end.
const CALL: Duration = Duration::from_secs(100_000);
/// Default time that a first turn waits for servers, since the session began.
const STARTUP: Duration = Duration::from_secs(5);
/// Default times without an answer or progress after which a call is given up.
const IDLE_REMOTE: Duration = Duration::from_secs(5 * 60);
const IDLE_PROGRAM: Duration = Duration::from_secs(30 * 60);
/// Time limit for lists that servers reported as changed.
const LIST_AGAIN: Duration = Duration::from_secs(5);
/// Maximum number of changed resources of a server that the model is told at once.
const MOST_UPDATES_TOLD: usize = 20;
/// Default number of tokens of a result kept in the conversation.
const RESULT_TOKENS: usize = 25_000;
/// Maximum total size of the tools of all servers in a request, in bytes. No model has room for as much.
const MOST_OFFERED: usize = 2 << 20;
/// Default numbers of programs and of remote servers that are started at the same time.
const PROGRAM_STARTS: usize = 3;
const REMOTE_STARTS: usize = 20;

/// Timeouts and result limit for servers.
#[derive(Clone, Copy, Debug)]
pub struct ServerTimeouts {
    connect: Duration,
    startup: Duration,
    limits: CallLimits,
    /// Limit of the environment for calls without answer or progress; zero for none.
    idle: Option<Duration>,
    program_starts: usize,
    remote_starts: usize,
}

impl ServerTimeouts {
    /// Reads the timeouts from the environment.
    pub fn from_env(env: &Env) -> Self {
        let ms = |name| env.integer(name).filter(|ms| *ms > 0).map(Duration::from_millis);
        let count = |name| env.integer(name).and_then(|count| usize::try_from(count).ok()).filter(|count| *count > 0);
        let result_chars = count("MAX_MCP_OUTPUT_TOKENS").unwrap_or(RESULT_TOKENS).saturating_mul(CHARS_PER_TOKEN);
        Self {
            connect: ms("MCP_TIMEOUT").unwrap_or(CONNECT),
            startup: ms("MCP_CONNECT_TIMEOUT_MS").unwrap_or(STARTUP),
            limits: CallLimits { call: ms("MCP_TOOL_TIMEOUT").unwrap_or(CALL), idle: None, result_chars },
            idle: env.integer("CLAUDE_CODE_MCP_TOOL_IDLE_TIMEOUT").map(Duration::from_millis),
            program_starts: count("MCP_SERVER_CONNECTION_BATCH_SIZE").unwrap_or(PROGRAM_STARTS).min(100),
            remote_starts: count("MCP_REMOTE_SERVER_CONNECTION_BATCH_SIZE").unwrap_or(REMOTE_STARTS).min(100),
        }
    }

    /// Returns the timeouts for a caller that waits for every server as long as that may take.
    #[must_use]
    pub fn waiting_for_all(self) -> Self {
        Self { startup: self.connect + STARTUP, ..self }
    }

    /// Returns the limits for the calls of a server.
    fn call_limits(&self, config: &ServerConfig) -> CallLimits {
        let idle = match config.kind {
            ServerKind::Driver => None,
            ServerKind::Stdio(_) => Some(self.idle.unwrap_or(IDLE_PROGRAM)),
            ServerKind::Remote(_) => Some(self.idle.unwrap_or(IDLE_REMOTE)),
        };
        // A server's own limit for calls holds for silence as well.
        let idle = idle.filter(|limit| !limit.is_zero()).map(|limit| limit.max(config.timeout.unwrap_or_default()));
        CallLimits { call: config.timeout.unwrap_or(self.limits.call), idle, ..self.limits }
    }
}

/// Origin of the request for a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerOrigin {
    /// The start of the session.
    Launch,
    /// The driving program, later.
    Request,
}

/// All servers of a session.
pub struct McpServers {
    driver: Option<Arc<dyn Driver>>,
    asker: SharedAsker,
    timeouts: ServerTimeouts,
    admission: ServerAdmission,
    /// Redactor that receives the credentials of configurations.
    redactor: Redactor,
    entries: Mutex<Vec<ServerEntry>>,
    /// Tool policies of removed servers, for when they come back.
    removed_policies: Mutex<HashMap<String, ToolPolicies>>,
    /// News that the user has not seen yet.
    news: Mutex<ToolSourceNews>,
    /// Warnings about tools that are not offered, as far as they still apply.
    reported_warnings: Mutex<Vec<String>>,
    identities: Mutex<IdentityRegistry>,
    /// Variables for configurations that arrive later.
    entry_context: EntryContext,
    launcher: Mutex<Option<ServerLauncher>>,
    roots: SharedRoots,
    startup_wait: StartupWait,
    opened_at: OnceLock<Instant>,
    self_ref: OnceLock<Weak<McpServers>>,
    /// Tasks that keep servers connected.
    tasks: Mutex<JoinSet<()>>,
    program_starts: Arc<Semaphore>,
    remote_starts: Arc<Semaphore>,
    /// Registry in which prompts of servers are commands, and the names of those that are in it.
    commands: Mutex<Option<CommandRegistry>>,
    prompt_names: Mutex<Vec<String>>,
    /// Built-in tools that the caller wants; `None` for all.
    builtin_names: Option<Vec<String>>,
    /// Count of changes of servers' states.
    changes: watch::Sender<u64>,
}

impl McpServers {
    /// Creates the servers by name; a later one replaces an earlier one of its name.
    pub fn new(
        driver: Option<Arc<dyn Driver>>,
        timeouts: ServerTimeouts,
        servers: impl IntoIterator<Item = (String, ServerConfig)>,
    ) -> Self {
        let mut entries: Vec<ServerEntry> = Vec::new();
        for (name, config) in servers {
            entries.retain(|entry| entry.name != name);
            entries.push(ServerEntry::new(name, config, ServerOrigin::Launch));
        }
        Self {
            driver,
            asker: SharedAsker::default(),
            timeouts,
            admission: ServerAdmission::default(),
            redactor: Redactor::default(),
            entries: Mutex::new(entries),
            removed_policies: Mutex::default(),
            news: Mutex::default(),
            reported_warnings: Mutex::default(),
            identities: Mutex::default(),
            entry_context: EntryContext::default(),
            launcher: Mutex::default(),
            roots: SharedRoots::default(),
            startup_wait: StartupWait::default(),
            opened_at: OnceLock::new(),
            self_ref: OnceLock::new(),
            tasks: Mutex::default(),
            program_starts: Arc::new(Semaphore::new(timeouts.program_starts)),
            remote_starts: Arc::new(Semaphore::new(timeouts.remote_starts)),
            commands: Mutex::default(),
            prompt_names: Mutex::default(),
            builtin_names: None,
            changes: watch::Sender::default(),
        }
    }

    /// Expands these variables in configurations that arrive later.
    pub fn with_entry_context(self, entry_context: EntryContext) -> Self {
        Self { entry_context, ..self }
    }

    /// Offers only these of gimlet's own tools for servers.
    pub fn with_builtin_names(self, builtin_names: Option<Vec<String>>) -> Self {
        Self { builtin_names, ..self }
    }

    /// Sets which servers the first turn waits for.
    pub fn with_startup_wait(self, startup_wait: StartupWait) -> Self {
        Self { startup_wait, ..self }
    }

    /// Sets the means to start servers, in place of those of a session before: what that one started ends with it.
    pub fn set_launcher(&self, launcher: ServerLauncher) {
        self.roots.set(launcher.roots());
        let before = lock_ignoring_poison(&self.launcher).replace(launcher);
        if before.is_none() {
            return;
        }
        for entry in self.lock_entries().iter_mut() {
            if matches!(entry.config.kind, ServerKind::Stdio(_)) {
                entry.restart();
            }
        }
    }

    fn launcher(&self) -> Option<ServerLauncher> {
        lock_ignoring_poison(&self.launcher).clone()
    }

    /// Restricts the servers to those that the lists admit.
    pub fn with_admission(self, admission: ServerAdmission) -> Self {
        Self { admission, ..self }
    }

    /// Registers the credentials of the servers with a redactor.
    pub fn with_redactor(self, redactor: Redactor) -> Self {
        self.lock_entries().iter().for_each(|entry| entry.config.register_secrets(&redactor));
        Self { redactor, ..self }
    }

    /// Calls a tool by its full name.
    async fn call_tool(&self, tool: &str, input: Map<String, Value>) -> Result<Value, String> {
        let (called, limit) = {
            let entries = self.lock_entries();
            let (entry, connection, own) = find_tool_owner(&entries, &assign_tool_names(&entries), tool)?;
            // The permission gate has decided already, but servers may have changed since then.
            if entry.config.policies.policy_for(&entry.name, &own) == ToolPolicy::Deny {
                return Err(denied_message(tool));
            }
            (connection.call_tool(own, input), entry.config.timeout)
        };
        let limit = limit.unwrap_or(self.timeouts.limits.call);
        let late = |_| Err(format!("the tool '{tool}' did not answer within {} s", limit.as_secs()));
        tokio::time::timeout(limit, called).await.unwrap_or_else(late)
    }

    async fn read_resource(&self, server: &str, uri: String) -> Result<Value, String> {
        let read = find_connection(&self.lock_entries(), server)?.read_resource(uri);
        let limit = self.timeouts.connect;
        let late = |_| Err(format!("the server '{server}' did not answer within {} s", limit.as_secs()));
        tokio::time::timeout(limit, read).await.unwrap_or_else(late)
    }

    /// Passes log lines of servers on to the debug log.
    fn log_server_lines(&self, entries: &[ServerEntry]) {
        let connected = entries.iter().filter_map(|entry| Some((entry, entry.connection()?)));
        for (entry, connection) in connected {
            let lines = connection.signals().take_log_lines().into_iter();
            let notices = lines.map(|line| {
                let text = format!("the MCP server '{}' {line}", entry.name);
                Notice { level: NoticeLevel::Debug, text }
            });
            lock_ignoring_poison(&self.news).notices.extend(notices);
        }
    }

    /// Marks the servers that this session has no means to start.
    fn fail_unreachable(&self) {
        let why = "servers of their own cannot be started in this session";
        for entry in self.lock_entries().iter_mut() {
            if !entry.is_in_driver() && matches!(entry.state, ServerState::Waiting) {
                entry.state = ServerState::Failed(ConnectError::Failed(why.to_owned()));
            }
        }
    }

    /// Warns once about the tools that are not offered.
    fn warn_once(&self, left_out: Vec<String>) {
        let mut told = lock_ignoring_poison(&self.reported_warnings);
        self.warn(left_out.iter().filter(|remark| !told.contains(remark)).cloned());
        *told = left_out;
    }

    fn warn(&self, remarks: impl IntoIterator<Item = String>) {
        let notices = remarks.into_iter().map(|text| Notice { level: NoticeLevel::Warning, text });
        lock_ignoring_poison(&self.news).notices.extend(notices);
    }

    fn lock_entries(&self) -> MutexGuard<'_, Vec<ServerEntry>> {
        lock_ignoring_poison(&self.entries)
    }
}

impl ToolSource for McpServers {
    fn tools(&self) -> BoxFuture<'_, Vec<ToolRef>> {
        Box::pin(async move {
            tokio::join!(self.connect_servers(ConnectTarget::InDriver), self.wait_for_startup());
            if self.launcher().is_none() {
                self.fail_unreachable();
            }
            tokio::join!(self.refresh_changed_tools(), self.refresh_changed_prompts());
            let own = self.resource_tools();
            let entries = self.lock_entries();
            let names = assign_tool_names(&entries);
            let others = lock_ignoring_poison(&self.identities).update(current_identities(&entries, &names));
            lock_ignoring_poison(&self.news).changed.extend(others);
            let guests = entries.iter().filter(|entry| entry.enabled).flat_map(|entry| match &entry.state {
                ServerState::Connected(connection) => {
                    let limits = self.timeouts.call_limits(&entry.config);
                    connection.offered_tools(&entry.name, &names, &entry.config.policies, limits)
                }
                ServerState::Waiting | ServerState::Failed(_) => Vec::new(),
            });
            let mut guests: Vec<(ToolRef, usize)> = guests.collect();
            // Sorted, so that the beginning of the prompt does not depend on the order of servers and listings.
            guests.sort_by(|(one, _), (other, _)| one.name().cmp(other.name()));
            let (guests, beyond) = fit_size_budget(MOST_OFFERED, guests);
            self.log_server_lines(&entries);
            let failures = entries.iter().filter_map(ServerEntry::failure_line);
            self.warn_once(failures.chain(names.warnings).chain(beyond).collect());
            own.into_iter().chain(guests).collect()
        })
    }

    fn absent_tools(&self) -> Vec<AbsentTools> {
        self.lock_entries().iter().filter_map(ServerEntry::absence).collect()
    }

    fn take_news(&self) -> ToolSourceNews {
        std::mem::take(&mut *lock_ignoring_poison(&self.news))
    }

    fn instructions(&self) -> Vec<(String, String)> {
        let said = |entry: &ServerEntry| Some((entry.name.clone(), entry.connection()?.instructions()?));
        self.lock_entries().iter().filter_map(said).collect()
    }

    fn take_reminders(&self) -> Vec<String> {
        let changed = |entry: &ServerEntry| {
            let updated = entry.connection()?.signals().take_updated_resources();
            let uris: Vec<String> = updated.iter().take(MOST_UPDATES_TOLD).map(|uri| sanitize_label(uri)).collect();
            let name = &entry.name;
            (!uris.is_empty()).then(|| {
                format!(
                    "Resources of the MCP server '{name}' have changed since they were read: {}. Read them again if \
                     their content matters.",
                    uris.join(", ")
                )
            })
        };
        self.lock_entries().iter().filter_map(changed).collect()
    }

    fn set_directories(&self, directories: &[PathBuf]) {
        if self.roots.set(directories) {
            let entries = self.lock_entries();
            let connected = entries.iter().filter(|entry| !entry.is_in_driver()).filter_map(ServerEntry::connection);
            for connection in connected {
                lock_ignoring_poison(&self.tasks).spawn(connection.notify_roots());
            }
        }
    }

    fn set_user_asker(&self, asker: UserAsker) {
        self.asker.set(asker);
    }

    fn servers(&self) -> Vec<ServerView> {
        self.list()
    }

    fn look_up_request<'a>(&'a self, wish: &'a ServerRequest) -> BoxFuture<'a, ServerRequestFacts> {
        Box::pin(async move {
            self.connect_servers(ConnectTarget::Quick).await;
            let (ServerRequest::Call { tool, .. } | ServerRequest::Decide { tool, .. }) = wish else {
                return ServerRequestFacts::default();
            };
            self.wait_for_server_of(tool).await;
            let entries = self.lock_entries();
            let names = assign_tool_names(&entries);
            let Ok((entry, _, own)) = find_tool_owner(&entries, &names, tool) else {
                return ServerRequestFacts::default();
            };
            let verdict = match entry.config.policies.policy_for(&entry.name, &own) {
                ToolPolicy::Deny => PermissionVerdict::Deny(denied_message(tool)),
                ToolPolicy::Ask | ToolPolicy::ByRules => PermissionVerdict::Passthrough,
            };
            let also_named = names.get(&entry.name, &own).map(|called| called.rule_names.clone());
            ServerRequestFacts { also_named: also_named.unwrap_or_default(), verdict }
        })
    }

    fn execute_request(&self, leave: HostPermit) -> BoxFuture<'_, Result<Value, String>> {
        Box::pin(async move {
            match leave.into_request() {
                ServerRequest::Call { tool, input } | ServerRequest::Decide { tool, input } => {
                    self.call_tool(&tool, input).await
                }
                ServerRequest::Read { server, uri } => self.read_resource(&server, uri).await,
            }
        })
    }
}

impl ServerRegistry for McpServers {
    fn list(&self) -> Vec<ServerView> {
        self.lock_entries().iter().map(ServerEntry::view).collect()
    }

    fn reconnect<'a>(&'a self, server: &'a str) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            {
                let mut entries = self.lock_entries();
                let entry = entries
                    .iter_mut()
                    .find(|entry| entry.name == server)
                    .ok_or_else(|| unknown_server_message(server))?;
                if !entry.enabled {
                    return Err(format!("the server '{server}' is switched off"));
                }
                entry.state = ServerState::Waiting;
            }
            self.connect_servers(ConnectTarget::Named(&[server])).await;
            self.spawn_supervisors();
            self.check_connected(server)
        })
    }

    fn set_enabled<'a>(&'a self, server: &'a str, enabled: bool) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            {
                let mut entries = self.lock_entries();
                let entry = entries
                    .iter_mut()
                    .find(|entry| entry.name == server)
                    .ok_or_else(|| unknown_server_message(server))?;
                entry.enabled = enabled;
                if !enabled {
                    entry.state = ServerState::Waiting;
                    return Ok(());
                }
                entry.clear_failure();
            }
            self.connect_servers(ConnectTarget::Named(&[server])).await;
            self.spawn_supervisors();
            self.check_connected(server)
        })
    }

    fn admit_driver_servers(&self, names: &[String], said: &Map<String, Value>) {
        let mut entries = self.lock_entries();
        for name in names {
            let inside = |entry: &ServerEntry| entry.config.kind == ServerKind::Driver;
            if !entries.iter().any(|entry| entry.name == *name && inside(entry)) {
                entries.retain(|entry| entry.name != *name);
                entries.push(ServerEntry::new(name.clone(), ServerConfig::for_driver(name), ServerOrigin::Launch));
            }
        }
        let known: Vec<String> = entries.iter().map(|entry| entry.name.clone()).collect();
        for (key, said) in said {
            // A key that is no server's exact name means every server with that provider-safe name.
            let means = |name: &str| name == key || (!known.contains(key) && provider_safe_name(name) == *key);
            let inside = entries.iter_mut().filter(|entry| entry.config.kind == ServerKind::Driver);
            inside.filter(|entry| means(&entry.name)).for_each(|entry| entry.config.apply_overrides(said));
        }
    }

    fn server_for_tool(&self, tool: &str) -> Option<String> {
        let entries = self.lock_entries();
        find_tool_owner(&entries, &assign_tool_names(&entries), tool).ok().map(|(entry, ..)| entry.name.clone())
    }

    fn deliver_message(&self, server: &str, message: &RawValue) -> Result<(), String> {
        let inbox = self
            .lock_entries()
            .iter()
            .find(|entry| entry.name == server)
            .ok_or_else(|| unknown_server_message(server))?
            .inbox()?;
        inbox.accept_message(message)
    }

    fn replace<'a>(&'a self, servers: &'a RawValue) -> BoxFuture<'a, Result<ServerSetChange, String>> {
        Box::pin(async move {
            let parsed = parse_server_map(servers, &self.entry_context).map_err(|error| error.to_string())?;
            let ParsedServers { servers: wanted, errors, remarks } = parsed;
            self.warn(remarks);
            wanted.iter().for_each(|(_, config)| config.register_secrets(&self.redactor));
            let mut changed = ServerSetChange::default();
            {
                let mut entries = self.lock_entries();
                let mut parted = lock_ignoring_poison(&self.removed_policies);
                let named = |name: &str| wanted.iter().any(|(wanted, _)| wanted == name);
                entries.retain(|entry| {
                    let passing = entry.origin == ServerOrigin::Request || entry.config.kind == ServerKind::Driver;
                    let keep = named(&entry.name) || !passing;
                    if !keep {
                        changed.removed.push(entry.name.clone());
                        parted.insert(entry.name.clone(), entry.config.policies.clone());
                    }
                    keep
                });
                for (name, config) in wanted.clone() {
                    let earlier = entries.iter().find(|entry| entry.name == name).map(|entry| &entry.config.policies);
                    let config = config.inherit_policies(earlier.or_else(|| parted.get(&name)));
                    match entries.iter_mut().find(|entry| entry.name == name) {
                        Some(entry) if entry.config == config => {
                            entry.origin = ServerOrigin::Request;
                            entry.clear_failure();
                        }
                        Some(entry) => *entry = ServerEntry::new(name, config, ServerOrigin::Request),
                        None => {
                            changed.added.push(name.clone());
                            entries.push(ServerEntry::new(name, config, ServerOrigin::Request));
                        }
                    }
                }
            }
            // The other servers may take longer; they were not requested.
            let named: Vec<&str> = wanted.iter().map(|(name, _)| name.as_str()).collect();
            self.connect_servers(ConnectTarget::Named(&named)).await;
            self.spawn_supervisors();
            changed.errors = errors
                .into_iter()
                .map(|error| match error {
                    ServerConfigError::Entry(name, why) => (name, why),
                    other => (String::new(), other.to_string()),
                })
                .collect();
            let failed: Vec<(String, String)> = self
                .lock_entries()
                .iter()
                .filter(|entry| entry.origin == ServerOrigin::Request)
                .filter_map(|entry| match &entry.state {
                    ServerState::Failed(error) => Some((entry.name.clone(), error.to_string())),
                    ServerState::Waiting | ServerState::Connected(_) => None,
                })
                .collect();
            changed.errors.extend(failed);
            Ok(changed)
        })
    }
}

fn lock_ignoring_poison<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the tools that fit into the size budget, and a warning about the others.
fn fit_size_budget(room: usize, guests: Vec<(ToolRef, usize)>) -> (Vec<ToolRef>, Option<String>) {
    let mut left = room;
    let mut beyond: BTreeMap<String, usize> = BTreeMap::new();
    let mut offered = Vec::with_capacity(guests.len());
    for (guest, size) in guests {
        if let Some(rest) = left.checked_sub(size) {
            left = rest;
            offered.push(guest);
        } else if let Some(server) = guest.server() {
            *beyond.entry(server.name.clone()).or_default() += 1;
        }
    }
    let counts: Vec<String> =
        beyond.iter().map(|(server, count)| format!("{count} of the server '{server}'")).collect();
    let remark = || format!("the tools of all servers take more than 2 MB; left out are {}", counts.join(", "));
    let remark = (!counts.is_empty()).then(remark);
    (offered, remark)
}
