//! What is known about one server of a session.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gimlet_core::tool::Absence;
use gimlet_proto::{ServerStatus, ServerView};
use serde_json::value::{RawValue, to_raw_value};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::Origin;
use super::meanings::Meaning;
use crate::channel::Inbox;
use crate::config::{ServerConfig, ServerKind};
use crate::naming::{Names, name_prefix};
use crate::server::{ConnectError, Connection, IN_DRIVER, Known};

/// How long a server that was silent once may hold up the next turn; each further silence halves it.
const AGAIN: Duration = Duration::from_secs(1);
/// How often it is halved.
const MOST_HALVES: u32 = 4;
/// How long a server that said that it has other tools may hold up the next turn; the same holds for it.
const LIST_AGAIN: Duration = Duration::from_secs(5);

pub(super) struct Entry {
    pub(super) name: String,
    pub(super) config: ServerConfig,
    pub(super) origin: Origin,
    pub(super) enabled: bool,
    pub(super) state: State,
    /// Where it is greeted.
    pub(super) door: Arc<Door>,
    /// How often in a row it did not answer a greeting.
    pub(super) silences: u32,
    /// How often in a row it said that it has other tools, and did not list them.
    pub(super) unlisted: u32,
    /// The tools that it listed last, whatever became of it since.
    pub(super) listed: Option<Arc<[Known]>>,
    /// Whoever waits for a server that was taken away waits no longer.
    _gone: DropGuard,
}

#[derive(Clone)]
pub(super) enum State {
    Waiting,
    Connected(Arc<Connection>),
    Failed(ConnectError),
}

/// Where one server is greeted: by one at a time, and not for longer than anybody wants it.
#[derive(Default)]
pub(super) struct Door {
    /// Held while greeting, so that it is not done twice.
    pub(super) greeting: tokio::sync::Mutex<()>,
    pub(super) gone: CancellationToken,
    /// Where it can say something while it is greeted.
    inbox: Mutex<Option<Arc<Inbox>>>,
}

impl Door {
    pub(super) fn open(&self, inbox: &Arc<Inbox>) {
        *self.inbox.lock().unwrap_or_else(PoisonError::into_inner) = Some(inbox.clone());
    }

    fn inbox(&self) -> Option<Arc<Inbox>> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Entry {
    pub(super) fn new(name: String, config: ServerConfig, origin: Origin) -> Self {
        let door = Arc::new(Door::default());
        Self {
            name,
            config,
            origin,
            enabled: true,
            state: State::Waiting,
            _gone: door.gone.clone().drop_guard(),
            door,
            silences: 0,
            unlisted: 0,
            listed: None,
        }
    }

    pub(super) fn is_connected(&self) -> bool {
        matches!(&self.state, State::Connected(connection) if !connection.is_closed())
    }

    /// The open connection of a server that may be used.
    pub(super) fn connection(&self) -> Option<&Arc<Connection>> {
        match &self.state {
            State::Connected(connection) if self.enabled && !connection.is_closed() => Some(connection),
            _ => None,
        }
    }

    /// It did not answer when it was greeted last.
    pub(super) fn was_silent(&self) -> bool {
        matches!(self.state, State::Failed(ConnectError::TimedOut(_)))
    }

    /// How long it may let others wait, given how it has answered so far.
    pub(super) fn patience(&self) -> Duration {
        if self.was_silent() { halved(AGAIN, self.silences.saturating_sub(1)) } else { Duration::MAX }
    }

    /// How long a list that it promised is waited for.
    pub(super) fn patience_for_list(&self) -> Duration {
        halved(LIST_AGAIN, self.unlisted)
    }

    /// Where it can say something: a server that is just being greeted can, too.
    pub(super) fn inbox(&self) -> Result<Arc<Inbox>, String> {
        let found = match &self.state {
            State::Waiting if self.enabled => self.door.inbox(),
            _ => self.connection().map(|connection| connection.inbox().clone()),
        };
        found.ok_or_else(|| format!("the server '{}' is not connected", self.name))
    }

    /// Somebody wants it now, whatever came of the attempts before.
    pub(super) fn give_another_chance(&mut self) {
        if matches!(self.state, State::Failed(_)) {
            self.state = State::Waiting;
        }
    }

    /// What to say of its tools when they are not there.
    pub(super) fn absence(&self) -> Option<Absence> {
        let name = &self.name;
        let why = match &self.state {
            _ if !self.enabled => format!("its server '{name}' is turned off"),
            State::Failed(error) => format!("its server '{name}' could not be connected ({error})"),
            State::Waiting => format!("its server '{name}' is not connected"),
            State::Connected(connection) if connection.is_closed() => format!("its server '{name}' is gone"),
            State::Connected(_) => return None,
        };
        Some(Absence { prefix: name_prefix(name), why })
    }

    pub(super) fn view(&self) -> ServerView {
        let connection = match &self.state {
            State::Connected(connection) if self.enabled => Some(connection),
            _ => None,
        };
        ServerView {
            name: self.name.clone(),
            status: match &self.state {
                _ if !self.enabled => ServerStatus::Disabled,
                State::Waiting => ServerStatus::Pending,
                State::Connected(connection) if connection.is_closed() => ServerStatus::Failed,
                State::Connected(_) => ServerStatus::Connected,
                State::Failed(_) => ServerStatus::Failed,
            },
            source: if self.config.kind == ServerKind::Driver { IN_DRIVER } else { "dynamic" },
            info: connection.and_then(|connection| connection.info()),
            error: match &self.state {
                State::Failed(error) if self.enabled => Some(error.to_string()),
                _ => None,
            },
            config: to_raw_value(&self.config.written).unwrap_or_else(|_| RawValue::NULL.to_owned()),
            tools: connection.map(|connection| connection.views()).unwrap_or_default(),
        }
    }
}

fn halved(patience: Duration, times: u32) -> Duration {
    patience / 2_u32.pow(times.min(MOST_HALVES))
}

/// What the tools of all servers are called.
pub(super) fn names(entries: &[Entry]) -> Names {
    let tools = |entry: &Entry| entry.connection().map(|connection| connection.tool_names()).unwrap_or_default();
    let servers: Vec<_> = entries.iter().map(|entry| (entry.name.clone(), tools(entry))).collect();
    Names::of(&servers)
}

/// What every name of theirs means.
pub(super) fn meant(entries: &[Entry], names: &Names) -> Vec<(String, Meaning)> {
    let mut meant = Vec::new();
    for (entry, connection) in entries.iter().filter_map(|entry| Some((entry, entry.connection()?))) {
        for Known { tool, .. } in connection.tools().iter().filter(|known| known.form.is_ok()) {
            let Some(called) = names.get(&entry.name, &tool.name) else { continue };
            let (server, of_tool) = called.also.split_at(called.of_server);
            let meaning = Meaning::Tool { server: entry.name.clone(), tool: tool.clone() };
            meant.extend(of_tool.iter().chain([&called.name]).map(|name| (name.clone(), meaning.clone())));
            meant.extend(server.iter().map(|name| (name.clone(), Meaning::Server(entry.name.clone()))));
        }
    }
    meant
}

/// The connected server that has the tool of this full name, and the tool's own name there.
pub(super) fn owner<'a>(
    entries: &'a [Entry],
    names: &Names,
    tool: &str,
) -> Result<(&'a Entry, &'a Arc<Connection>, String), String> {
    let found = || {
        let (server, own) = names.owner(tool)?;
        let entry = entries.iter().find(|entry| entry.name == server)?;
        Some((entry, entry.connection()?, own.to_owned()))
    };
    found().ok_or_else(|| format!("no connected server has a tool named '{tool}'"))
}

/// The open connection of a server.
pub(super) fn connected<'a>(entries: &'a [Entry], server: &str) -> Result<&'a Arc<Connection>, String> {
    let entry = entries.iter().find(|entry| entry.name == server).ok_or_else(|| unknown(server))?;
    entry.connection().ok_or_else(|| format!("the server '{server}' is not connected"))
}

pub(super) fn denied(tool: &str) -> String {
    format!("the configuration of its server denies '{tool}'")
}

pub(super) fn unknown(server: &str) -> String {
    format!("there is no server named '{server}'")
}
