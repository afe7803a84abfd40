//! The servers of one session: connected when first needed, maintained between turns.

mod connect;
mod server_entry;
mod tool_identity;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gimlet_core::tool::{AbsentTools, PermissionVerdict, ServerRequestFacts, ToolRef, ToolSource, ToolSourceNews};
use gimlet_core::{HostPermit, Redactor, UserAsker};
use gimlet_proto::{
    BoxFuture, Driver, Env, Notice, NoticeLevel, ServerRegistry, ServerRequest, ServerSetChange, ServerView,
    provider_safe_name,
};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::CHARS_PER_TOKEN;
use crate::admission::ServerAdmission;
use crate::connection::CallLimits;
use crate::elicitation::SharedAsker;
use crate::server_config::{ServerConfig, ServerKind, parse_server_map};
use crate::tool_policies::{ToolPolicies, ToolPolicy};
use connect::ConnectTarget;
use server_entry::{
    ServerEntry, ServerState, assign_tool_names, current_identities, denied_message, find_connection, find_tool_owner,
    unknown_server_message,
};
use tool_identity::IdentityRegistry;

/// Default timeout for connecting to a server.
const CONNECT: Duration = Duration::from_secs(30);
/// Default timeout for a call: long enough for everything that is meant to end.
const CALL: Duration = Duration::from_secs(100_000);
/// Default number of characters of a result kept in the conversation, as for any tool.
const RESULT_CHARS: usize = 50_000;
/// Maximum total size of the tools of all servers in a request, in bytes. No model has room for as much.
const MOST_OFFERED: usize = 2 << 20;

/// Timeouts and result limit for servers.
#[derive(Clone, Copy, Debug)]
pub struct ServerTimeouts {
    connect: Duration,
    limits: CallLimits,
}

impl ServerTimeouts {
    /// Reads the timeouts from the environment.
    pub fn from_env(env: &Env) -> Self {
        let ms = |name| env.integer(name).filter(|ms| *ms > 0).map(Duration::from_millis);
        let tokens = env.integer("MAX_MCP_OUTPUT_TOKENS").filter(|tokens| *tokens > 0);
        let chars = |tokens: u64| usize::try_from(tokens).unwrap_or(usize::MAX).saturating_mul(CHARS_PER_TOKEN);
        Self {
            connect: ms("MCP_TIMEOUT").unwrap_or(CONNECT),
            limits: CallLimits {
                call: ms("MCP_TOOL_TIMEOUT").unwrap_or(CALL),
                result_chars: tokens.map_or(RESULT_CHARS, chars),
            },
        }
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
        }
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
            self.connect_servers(ConnectTarget::All).await;
            self.refresh_changed_tools().await;
            let entries = self.lock_entries();
            let names = assign_tool_names(&entries);
            let others = lock_ignoring_poison(&self.identities).update(current_identities(&entries, &names));
            lock_ignoring_poison(&self.news).changed.extend(others);
            let guests = entries.iter().filter(|entry| entry.enabled).flat_map(|entry| match &entry.state {
                ServerState::Connected(connection) => {
                    let call = entry.config.timeout.unwrap_or(self.timeouts.limits.call);
                    let limits = CallLimits { call, ..self.timeouts.limits };
                    connection.offered_tools(&entry.name, &names, &entry.config.policies, limits)
                }
                ServerState::Waiting | ServerState::Failed(_) => Vec::new(),
            });
            let mut guests: Vec<(ToolRef, usize)> = guests.collect();
            // Sorted, so that the beginning of the prompt does not depend on the order of servers and listings.
            guests.sort_by(|(one, _), (other, _)| one.name().cmp(other.name()));
            let (guests, beyond) = fit_size_budget(MOST_OFFERED, guests);
            self.warn_once(names.warnings.into_iter().chain(beyond).collect());
            guests
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
            let wanted = parse_server_map(servers).map_err(|error| error.to_string())?;
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
            changed.errors = self
                .lock_entries()
                .iter()
                .filter(|entry| entry.origin == ServerOrigin::Request)
                .filter_map(|entry| match &entry.state {
                    ServerState::Failed(error) => Some((entry.name.clone(), error.to_string())),
                    ServerState::Waiting | ServerState::Connected(_) => None,
                })
                .collect();
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
