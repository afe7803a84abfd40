//! State of one server of a session.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gimlet_core::tool::AbsentTools;
use gimlet_proto::{ServerStatus, ServerView};
use serde_json::value::{RawValue, to_raw_value};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::ServerOrigin;
use super::tool_identity::ToolIdentity;
use crate::connection::{ConnectError, ListedTool, ServerConnection};
use crate::driver_channel::ServerInbox;
use crate::server_config::{ServerConfig, ServerKind};
use crate::tool_names::{ToolNameTable, tool_name_prefix};

/// Timeout for a server that timed out once, in the next turn; each further timeout halves it.
const AGAIN: Duration = Duration::from_secs(1);
/// Maximum number of halvings.
const MOST_HALVES: u32 = 4;
/// Timeout for a server that reported changed tools, in the next turn; each timeout halves it as well.
const LIST_AGAIN: Duration = Duration::from_secs(5);

pub(super) struct ServerEntry {
    pub(super) name: String,
    pub(super) config: ServerConfig,
    pub(super) origin: ServerOrigin,
    pub(super) enabled: bool,
    pub(super) state: ServerState,
    /// Slot in which it is connected.
    pub(super) connect_slot: Arc<ConnectSlot>,
    /// Number of consecutive connection timeouts.
    pub(super) connect_timeouts: u32,
    /// Number of consecutive timeouts of lists that it had announced as changed.
    pub(super) list_timeouts: u32,
    /// True while a task keeps the server connected.
    pub(super) is_supervised: bool,
    /// Most recently listed tools, kept after a disconnection.
    pub(super) listed: Option<Arc<[ListedTool]>>,
    /// Cancels the waits for this server when it is removed.
    _gone: DropGuard,
}

#[derive(Clone)]
pub(super) enum ServerState {
    Waiting,
    Connected(Arc<ServerConnection>),
    Failed(ConnectError),
}

/// Slot for connecting one server: one attempt at a time, cancelled when the server is removed.
#[derive(Default)]
pub(super) struct ConnectSlot {
    /// Held while connecting, so that it is not done twice.
    pub(super) connecting: tokio::sync::Mutex<()>,
    pub(super) removed: CancellationToken,
    /// Inbox for messages that the server sends while it is being connected.
    inbox: Mutex<Option<Arc<ServerInbox>>>,
}

impl ConnectSlot {
    pub(super) fn set_inbox(&self, inbox: &Arc<ServerInbox>) {
        *self.inbox.lock().unwrap_or_else(PoisonError::into_inner) = Some(inbox.clone());
    }

    fn inbox(&self) -> Option<Arc<ServerInbox>> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ServerEntry {
    pub(super) fn new(name: String, config: ServerConfig, origin: ServerOrigin) -> Self {
        let connect_slot = Arc::new(ConnectSlot::default());
        Self {
            name,
            config,
            origin,
            enabled: true,
            state: ServerState::Waiting,
            _gone: connect_slot.removed.clone().drop_guard(),
            connect_slot,
            connect_timeouts: 0,
            list_timeouts: 0,
            is_supervised: false,
            listed: None,
        }
    }

    pub(super) fn is_connected(&self) -> bool {
        matches!(&self.state, ServerState::Connected(connection) if !connection.is_closed())
    }

    /// Returns the open connection of a server that may be used.
    pub(super) fn connection(&self) -> Option<&Arc<ServerConnection>> {
        match &self.state {
            ServerState::Connected(connection) if self.enabled && !connection.is_closed() => Some(connection),
            _ => None,
        }
    }

    /// Returns true if the last connection attempt timed out.
    pub(super) fn has_timed_out(&self) -> bool {
        matches!(self.state, ServerState::Failed(ConnectError::TimedOut(_)))
    }

    /// Returns the timeout for the next connection attempt, given the previous ones.
    pub(super) fn connect_timeout(&self) -> Duration {
        if self.has_timed_out() { halve_timeout(AGAIN, self.connect_timeouts.saturating_sub(1)) } else { Duration::MAX }
    }

    /// Returns the timeout for a list that the server announced as changed.
    pub(super) fn list_timeout(&self) -> Duration {
        halve_timeout(LIST_AGAIN, self.list_timeouts)
    }

    /// Drops the connection, so that the server is connected anew by another task.
    pub(super) fn restart(&mut self) {
        let slot = Arc::new(ConnectSlot::default());
        self._gone = slot.removed.clone().drop_guard();
        self.connect_slot = slot;
        self.state = ServerState::Waiting;
        self.is_supervised = false;
    }

    /// Returns one line about a server outside the driving program that has failed.
    pub(super) fn failure_line(&self) -> Option<String> {
        let name = &self.name;
        let why = match &self.state {
            _ if !self.enabled || self.is_in_driver() => return None,
            ServerState::Failed(why) => why.to_string(),
            ServerState::Connected(connection) if connection.is_closed() => connection.signals().end_reason()?,
            ServerState::Connected(_) | ServerState::Waiting => return None,
        };
        Some(format!("the MCP server '{name}' is not connected: {why}"))
    }

    /// Returns true if the server is inside the driving program.
    pub(super) fn is_in_driver(&self) -> bool {
        self.config.kind == ServerKind::Driver
    }

    /// Returns the inbox of the server; one that is just being connected has one, too.
    pub(super) fn inbox(&self) -> Result<Arc<ServerInbox>, String> {
        let is_usable = matches!(self.state, ServerState::Waiting) && self.enabled || self.connection().is_some();
        let found = self.connect_slot.inbox().filter(|_| is_usable);
        found.ok_or_else(|| format!("the server '{}' is not connected", self.name))
    }

    /// Clears earlier failures, because the server is requested explicitly.
    pub(super) fn clear_failure(&mut self) {
        if matches!(self.state, ServerState::Failed(_)) {
            self.state = ServerState::Waiting;
        }
    }

    /// Returns the reason why its tools are missing; `None` if they are not.
    pub(super) fn absence(&self) -> Option<AbsentTools> {
        let name = &self.name;
        let why = match &self.state {
            _ if !self.enabled => format!("its server '{name}' is turned off"),
            ServerState::Failed(error) => format!("its server '{name}' could not be connected ({error})"),
            ServerState::Waiting => format!("its server '{name}' is not connected"),
            ServerState::Connected(connection) if connection.is_closed() => match connection.signals().end_reason() {
                Some(why) => format!("its server '{name}' is gone ({why})"),
                None => format!("its server '{name}' is gone"),
            },
            ServerState::Connected(_) => return None,
        };
        Some(AbsentTools { prefix: tool_name_prefix(name), why })
    }

    pub(super) fn view(&self) -> ServerView {
        let connection = match &self.state {
            ServerState::Connected(connection) if self.enabled => Some(connection),
            _ => None,
        };
        ServerView {
            name: self.name.clone(),
            status: match &self.state {
                _ if !self.enabled => ServerStatus::Disabled,
                ServerState::Waiting => ServerStatus::Pending,
                ServerState::Connected(connection) if connection.is_closed() => ServerStatus::Failed,
                ServerState::Connected(_) => ServerStatus::Connected,
                ServerState::Failed(ConnectError::NeedsAuthentication(_)) => ServerStatus::NeedsAuth,
                ServerState::Failed(_) => ServerStatus::Failed,
            },
            source: self.config.source.as_str(),
            info: connection.and_then(|connection| connection.server_info()),
            error: match &self.state {
                ServerState::Failed(error) if self.enabled => Some(error.to_string()),
                ServerState::Connected(connection) if self.enabled && connection.is_closed() => {
                    Some(connection.signals().end_reason().unwrap_or_else(|| "the connection is closed".to_owned()))
                }
                _ => None,
            },
            config: to_raw_value(&self.config.raw_entry).unwrap_or_else(|_| RawValue::NULL.to_owned()),
            tools: connection.map(|connection| connection.tool_views()).unwrap_or_default(),
        }
    }
}

fn halve_timeout(patience: Duration, times: u32) -> Duration {
    patience / 2_u32.pow(times.min(MOST_HALVES))
}

/// Assigns the names of the tools of all servers.
pub(super) fn assign_tool_names(entries: &[ServerEntry]) -> ToolNameTable {
    let tools = |entry: &ServerEntry| entry.connection().map(|connection| connection.tool_names()).unwrap_or_default();
    let servers: Vec<_> = entries.iter().map(|entry| (entry.name.clone(), tools(entry))).collect();
    ToolNameTable::assign(&servers)
}

/// Returns the current meaning of every server and tool name.
pub(super) fn current_identities(entries: &[ServerEntry], names: &ToolNameTable) -> Vec<(String, ToolIdentity)> {
    let mut meant = Vec::new();
    for (entry, connection) in entries.iter().filter_map(|entry| Some((entry, entry.connection()?))) {
        for ListedTool { tool, .. } in connection.listed_tools().iter().filter(|known| known.input_schema.is_ok()) {
            let Some(called) = names.get(&entry.name, &tool.name) else { continue };
            let (server, of_tool) = called.rule_names.split_at(called.server_rule_count);
            let meaning = ToolIdentity::Tool { server: entry.name.clone(), tool: tool.clone() };
            meant.extend(of_tool.iter().chain([&called.name]).map(|name| (name.clone(), meaning.clone())));
            meant.extend(server.iter().map(|name| (name.clone(), ToolIdentity::Server(entry.name.clone()))));
        }
    }
    meant
}

/// Returns the connected server that has the tool of this full name, and the tool's own name there.
pub(super) fn find_tool_owner<'a>(
    entries: &'a [ServerEntry],
    names: &ToolNameTable,
    tool: &str,
) -> Result<(&'a ServerEntry, &'a Arc<ServerConnection>, String), String> {
    let found = || {
        let (server, own) = names.find_owner(tool)?;
        let entry = entries.iter().find(|entry| entry.name == server)?;
        Some((entry, entry.connection()?, own.to_owned()))
    };
    found().ok_or_else(|| format!("no connected server has a tool named '{tool}'"))
}

/// Returns the open connection of a server.
pub(super) fn find_connection<'a>(
    entries: &'a [ServerEntry],
    server: &str,
) -> Result<&'a Arc<ServerConnection>, String> {
    let entry = entries.iter().find(|entry| entry.name == server).ok_or_else(|| unknown_server_message(server))?;
    entry.connection().ok_or_else(|| format!("the server '{server}' is not connected"))
}

pub(super) fn denied_message(tool: &str) -> String {
    format!("the configuration of its server denies '{tool}'")
}

pub(super) fn unknown_server_message(server: &str) -> String {
    format!("there is no server named '{server}'")
}
