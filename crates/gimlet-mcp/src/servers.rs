//! The servers of one session: connected when they are first needed, looked after between turns.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use gimlet_core::tool::{Absence, News, PermissionVerdict, Sought, ToolRef, ToolSource};
use gimlet_core::{Leave, Redactor};
use gimlet_proto::{
    BoxFuture, Driver, Env, Level, Notice, ServerStatus, ServerView, ServerWish, Servers, ServersChanged, plain_name,
};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use crate::CHARS_PER_TOKEN;
use crate::admission::Admission;
use crate::config::{ServerConfig, ServerKind, servers_of};
use crate::listing::{Difference, left_out};
use crate::naming::{Names, every_name, name_prefix};
use crate::policies::{Policies, Policy};
use crate::server::{ConnectError, Connection, IN_DRIVER, Known, Limits, connect};

/// How long a server may take to answer at first.
const CONNECT: Duration = Duration::from_secs(30);
/// How long a call may take: long enough for everything that is meant to end.
const CALL: Duration = Duration::from_secs(100_000);
/// What stays of a result in the conversation unless somebody says otherwise: as much as of any tool's.
const RESULT_CHARS: usize = 50_000;

/// How long a server that was silent once may hold up the next turn; each further silence halves it.
const AGAIN: Duration = Duration::from_secs(1);
/// How often it is halved.
const MOST_HALVES: u32 = 4;
/// How long a server that said that it has other tools may hold up the next turn.
const LIST_AGAIN: Duration = Duration::from_secs(5);

/// How long servers are waited for, and how much of them is kept.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    connect: Duration,
    limits: Limits,
}

impl Timeouts {
    /// As the environment wants them.
    pub fn from_env(env: &Env) -> Self {
        let ms = |name| env.integer(name).filter(|ms| *ms > 0).map(Duration::from_millis);
        let tokens = env.integer("MAX_MCP_OUTPUT_TOKENS").filter(|tokens| *tokens > 0);
        let chars = |tokens: u64| usize::try_from(tokens).unwrap_or(usize::MAX).saturating_mul(CHARS_PER_TOKEN);
        Self {
            connect: ms("MCP_TIMEOUT").unwrap_or(CONNECT),
            limits: Limits {
                call: ms("MCP_TOOL_TIMEOUT").unwrap_or(CALL),
                result_chars: tokens.map_or(RESULT_CHARS, chars),
            },
        }
    }
}

/// Who wanted a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The start of the session.
    Launch,
    /// The driving program, later.
    Request,
}

struct Entry {
    name: String,
    config: ServerConfig,
    origin: Origin,
    enabled: bool,
    state: State,
    /// How often in a row it did not answer a greeting.
    silences: u32,
    /// The tools that it listed last, whatever became of it since.
    listed: Option<Arc<[Known]>>,
}

#[derive(Clone)]
enum State {
    Waiting,
    Connected(Arc<Connection>),
    Failed(ConnectError),
}

/// All servers of a session.
pub struct McpServers {
    driver: Option<Arc<dyn Driver>>,
    timeouts: Timeouts,
    admission: Admission,
    /// Learns the credentials that configurations hold.
    redactor: Redactor,
    entries: Mutex<Vec<Entry>>,
    /// What was said about the tools of servers that were taken away, for when they come back.
    parted: Mutex<HashMap<String, Policies>>,
    /// Held while connecting, so that a server is not greeted twice.
    connecting: tokio::sync::Mutex<()>,
    /// What people should know and were not told yet.
    news: Mutex<News>,
    /// What was said about tools without a name of their own, as far as it is still so.
    nameless: Mutex<Vec<String>>,
}

impl McpServers {
    /// Servers by name; a later one of the same name takes the place of the earlier.
    pub fn new(
        driver: Option<Arc<dyn Driver>>,
        timeouts: Timeouts,
        servers: impl IntoIterator<Item = (String, ServerConfig)>,
    ) -> Self {
        let mut entries: Vec<Entry> = Vec::new();
        for (name, config) in servers {
            entries.retain(|entry| entry.name != name);
            entries.push(Entry::new(name, config, Origin::Launch));
        }
        Self {
            driver,
            timeouts,
            admission: Admission::default(),
            redactor: Redactor::default(),
            entries: Mutex::new(entries),
            parted: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
            news: Mutex::default(),
            nameless: Mutex::default(),
        }
    }

    /// The same, of which only those are used that these lists leave.
    pub fn admitted_by(self, admission: Admission) -> Self {
        Self { admission, ..self }
    }

    /// The same, of whose credentials nothing is shown that this masks.
    pub fn masked_by(self, redactor: Redactor) -> Self {
        self.lock().iter().for_each(|entry| entry.config.teach(&redactor));
        Self { redactor, ..self }
    }

    /// Connects whatever is wanted and not there. One that fails is tried again next time; one that let everybody wait
    /// is given a moment before a turn and not tried beside one.
    async fn connect_all(&self, also_silent: bool) {
        let _alone = self.connecting.lock().await;
        let wanted: Vec<(String, ServerConfig, Duration)> = {
            let entries = self.lock();
            let wanted = entries.iter().filter(|entry| entry.enabled && !entry.is_connected());
            let wanted = wanted.filter(|entry| also_silent || !entry.was_silent());
            let patience = |entry: &Entry| self.timeouts.connect.min(entry.patience());
            wanted.map(|entry| (entry.name.clone(), entry.config.clone(), patience(entry))).collect()
        };
        let attempts = wanted.into_iter().map(|(name, config, patience)| async move {
            let state = match self.reach(&name, &config, patience).await {
                Ok(connection) => State::Connected(Arc::new(connection)),
                Err(error) => State::Failed(error),
            };
            (name, state)
        });
        for (name, state) in join_all(attempts).await {
            // A server that was taken away meanwhile is closed by forgetting it.
            if let Some(entry) = self.lock().iter_mut().find(|entry| entry.name == name) {
                entry.state = state;
                self.take_list(entry);
                entry.silences = if entry.was_silent() { entry.silences.saturating_add(1) } else { 0 };
            }
        }
    }

    /// Asks those for their tools again that said that they have others. Whoever does not answer keeps what they had.
    async fn list_again(&self) {
        let relisted = |entry: &Entry| Some(entry.connection()?.clone()).filter(|found| found.inbox().take_relisted());
        let asked: Vec<_> =
            self.lock().iter().filter_map(|entry| Some((entry.name.clone(), relisted(entry)?))).collect();
        let patience = self.timeouts.connect.min(LIST_AGAIN);
        let asked = asked.into_iter().map(|(name, found)| async move { (name, found.list_again(patience).await) });
        for (name, listed) in join_all(asked).await {
            match listed {
                Ok(()) => {
                    self.lock().iter_mut().filter(|entry| entry.name == name).for_each(|entry| self.take_list(entry))
                }
                Err(why) => self.remark([format!("the server '{name}' keeps the tools that it had: {why}")]),
            }
        }
    }

    /// Takes note of a list that came, and of what is different in it.
    fn take_list(&self, entry: &mut Entry) {
        let Some(tools) = entry.connection().map(|connection| connection.tools()) else { return };
        let name = &entry.name;
        let out = left_out(&tools);
        self.remark(out.into_iter().map(|out| format!("the server '{name}' has tools that are left out: {out}")));
        if let Some(before) = &entry.listed {
            let difference = Difference::between(before, &tools);
            let mut news = self.news.lock().unwrap_or_else(PoisonError::into_inner);
            let text =
                difference.words().map(|words| format!("the tools of the server '{name}' are others now: {words}"));
            news.notices.extend(text.map(|text| Notice { level: Level::Info, text }));
            news.changed.extend(difference.tools().flat_map(|tool| every_name(name, tool)));
        }
        entry.listed = Some(tools);
    }

    async fn reach(&self, name: &str, config: &ServerConfig, patience: Duration) -> Result<Connection, ConnectError> {
        if let Some(why) = self.admission.refusal(name, config) {
            return Err(ConnectError::Failed(why.to_owned()));
        }
        match (&config.kind, &self.driver) {
            (ServerKind::Driver, Some(driver)) => connect(driver.clone(), name, patience).await,
            (ServerKind::Driver, None) => Err(ConnectError::Failed("no program drives this session".to_owned())),
            (ServerKind::Elsewhere(kind), _) => {
                Err(ConnectError::Failed(format!("servers of type {kind} are not available in this version of gimlet")))
            }
        }
    }

    /// Calls a tool by its full name.
    async fn call(&self, tool: &str, input: Map<String, Value>) -> Result<Value, String> {
        let (called, limit) = {
            let entries = self.lock();
            let (entry, connection, own) = owner(&entries, &names(&entries), tool)?;
            // The gate has decided already; servers may have changed since then.
            if entry.config.policies.about(&entry.name, &own) == Policy::Deny {
                return Err(denied(tool));
            }
            (connection.call(own, input), entry.config.timeout)
        };
        let limit = limit.unwrap_or(self.timeouts.limits.call);
        let late = |_| Err(format!("the tool '{tool}' did not answer within {} s", limit.as_secs()));
        tokio::time::timeout(limit, called).await.unwrap_or_else(late)
    }

    async fn read_resource(&self, server: &str, uri: String) -> Result<Value, String> {
        let read = connected(&self.lock(), server)?.read_resource(uri);
        let limit = self.timeouts.connect;
        let late = |_| Err(format!("the server '{server}' did not answer within {} s", limit.as_secs()));
        tokio::time::timeout(limit, read).await.unwrap_or_else(late)
    }

    /// Says once which tools have no name of their own.
    fn remark_on(&self, names: &Names) {
        let mut told = self.nameless.lock().unwrap_or_else(PoisonError::into_inner);
        self.remark(names.left_out.iter().filter(|remark| !told.contains(remark)).cloned());
        told.clone_from(&names.left_out);
    }

    fn remark(&self, remarks: impl IntoIterator<Item = String>) {
        let notices = remarks.into_iter().map(|text| Notice { level: Level::Warning, text });
        self.news.lock().unwrap_or_else(PoisonError::into_inner).notices.extend(notices);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How a server stands after an attempt: an error says why it is not there.
    fn standing(&self, server: &str) -> Result<(), String> {
        let entries = self.lock();
        let entry = entries.iter().find(|entry| entry.name == server).ok_or_else(|| unknown(server))?;
        match &entry.state {
            State::Failed(error) => Err(format!("{server}: {error}")),
            State::Connected(_) | State::Waiting => Ok(()),
        }
    }
}

impl Entry {
    fn new(name: String, config: ServerConfig, origin: Origin) -> Self {
        Self { name, config, origin, enabled: true, state: State::Waiting, silences: 0, listed: None }
    }

    fn is_connected(&self) -> bool {
        matches!(&self.state, State::Connected(connection) if !connection.is_closed())
    }

    /// The open connection of a server that may be used.
    fn connection(&self) -> Option<&Arc<Connection>> {
        match &self.state {
            State::Connected(connection) if self.enabled && !connection.is_closed() => Some(connection),
            _ => None,
        }
    }

    /// It did not answer when it was greeted last.
    fn was_silent(&self) -> bool {
        matches!(self.state, State::Failed(ConnectError::TimedOut(_)))
    }

    /// How long it may let others wait, given how it has answered so far.
    fn patience(&self) -> Duration {
        if self.was_silent() {
            AGAIN / 2_u32.pow(self.silences.saturating_sub(1).min(MOST_HALVES))
        } else {
            Duration::MAX
        }
    }

    /// Somebody wants it now, whatever came of the attempts before.
    fn give_another_chance(&mut self) {
        if matches!(self.state, State::Failed(_)) {
            self.state = State::Waiting;
        }
    }

    /// What to say of its tools when they are not there.
    fn absence(&self) -> Option<Absence> {
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

    fn view(&self) -> ServerView {
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

impl ToolSource for McpServers {
    fn tools(&self) -> BoxFuture<'_, Vec<ToolRef>> {
        Box::pin(async move {
            self.connect_all(true).await;
            self.list_again().await;
            let entries = self.lock();
            let names = names(&entries);
            self.remark_on(&names);
            let guests = entries.iter().filter(|entry| entry.enabled).flat_map(|entry| match &entry.state {
                State::Connected(connection) => {
                    let call = entry.config.timeout.unwrap_or(self.timeouts.limits.call);
                    let limits = Limits { call, ..self.timeouts.limits };
                    connection.guests(&entry.name, &names, &entry.config.policies, limits)
                }
                State::Waiting | State::Failed(_) => Vec::new(),
            });
            let mut guests: Vec<ToolRef> = guests.collect();
            // Whatever order servers come and list in, the beginning of the prompt stays the same.
            guests.sort_by(|one, other| one.name().cmp(other.name()));
            guests
        })
    }

    fn absent(&self) -> Vec<Absence> {
        self.lock().iter().filter_map(Entry::absence).collect()
    }

    fn news(&self) -> News {
        std::mem::take(&mut *self.news.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn instructions(&self) -> Vec<(String, String)> {
        let said = |entry: &Entry| Some((entry.name.clone(), entry.connection()?.instructions()?));
        self.lock().iter().filter_map(said).collect()
    }

    fn servers(&self) -> Vec<ServerView> {
        self.list()
    }

    fn look_up<'a>(&'a self, wish: &'a ServerWish) -> BoxFuture<'a, Sought> {
        Box::pin(async move {
            self.connect_all(false).await;
            let (ServerWish::Call { tool, .. } | ServerWish::Decide { tool, .. }) = wish else {
                return Sought::default();
            };
            let entries = self.lock();
            let names = names(&entries);
            let Ok((entry, _, own)) = owner(&entries, &names, tool) else { return Sought::default() };
            let verdict = match entry.config.policies.about(&entry.name, &own) {
                Policy::Deny => PermissionVerdict::Deny(denied(tool)),
                Policy::Ask | Policy::AsUsual => PermissionVerdict::Passthrough,
            };
            let also_named = names.get(&entry.name, &own).map(|called| called.also.clone());
            Sought { also_named: also_named.unwrap_or_default(), verdict }
        })
    }

    fn fulfil(&self, leave: Leave) -> BoxFuture<'_, Result<Value, String>> {
        Box::pin(async move {
            match leave.into_wish() {
                ServerWish::Call { tool, input } | ServerWish::Decide { tool, input } => self.call(&tool, input).await,
                ServerWish::Read { server, uri } => self.read_resource(&server, uri).await,
            }
        })
    }
}

impl Servers for McpServers {
    fn list(&self) -> Vec<ServerView> {
        self.lock().iter().map(Entry::view).collect()
    }

    fn reconnect<'a>(&'a self, server: &'a str) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            {
                let mut entries = self.lock();
                let entry = entries.iter_mut().find(|entry| entry.name == server).ok_or_else(|| unknown(server))?;
                if !entry.enabled {
                    return Err(format!("the server '{server}' is switched off"));
                }
                entry.state = State::Waiting;
            }
            self.connect_all(false).await;
            self.standing(server)
        })
    }

    fn enable<'a>(&'a self, server: &'a str, enabled: bool) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            {
                let mut entries = self.lock();
                let entry = entries.iter_mut().find(|entry| entry.name == server).ok_or_else(|| unknown(server))?;
                entry.enabled = enabled;
                if !enabled {
                    entry.state = State::Waiting;
                    return Ok(());
                }
                entry.give_another_chance();
            }
            self.connect_all(false).await;
            self.standing(server)
        })
    }

    fn admit(&self, names: &[String], said: &Map<String, Value>) {
        let mut entries = self.lock();
        for name in names {
            let inside = |entry: &Entry| entry.config.kind == ServerKind::Driver;
            if !entries.iter().any(|entry| entry.name == *name && inside(entry)) {
                entries.retain(|entry| entry.name != *name);
                entries.push(Entry::new(name.clone(), ServerConfig::in_driver(name), Origin::Launch));
            }
        }
        let known: Vec<String> = entries.iter().map(|entry| entry.name.clone()).collect();
        for (key, said) in said {
            // In the characters that can be sent a key means every server that is called by it.
            let means = |name: &str| name == key || (!known.contains(key) && plain_name(name) == *key);
            let inside = entries.iter_mut().filter(|entry| entry.config.kind == ServerKind::Driver);
            inside.filter(|entry| means(&entry.name)).for_each(|entry| entry.config.amend(said));
        }
    }

    fn server_of(&self, tool: &str) -> Option<String> {
        let entries = self.lock();
        owner(&entries, &names(&entries), tool).ok().map(|(entry, ..)| entry.name.clone())
    }

    fn deliver(&self, server: &str, message: &RawValue) -> Result<(), String> {
        connected(&self.lock(), server)?.inbox().take(message)
    }

    fn replace<'a>(&'a self, servers: &'a RawValue) -> BoxFuture<'a, Result<ServersChanged, String>> {
        Box::pin(async move {
            let wanted = servers_of(servers).map_err(|error| error.to_string())?;
            wanted.iter().for_each(|(_, config)| config.teach(&self.redactor));
            let mut changed = ServersChanged::default();
            {
                let mut entries = self.lock();
                let mut parted = self.parted.lock().unwrap_or_else(PoisonError::into_inner);
                let named = |name: &str| wanted.iter().any(|(wanted, _)| wanted == name);
                entries.retain(|entry| {
                    let passing = entry.origin == Origin::Request || entry.config.kind == ServerKind::Driver;
                    let keep = named(&entry.name) || !passing;
                    if !keep {
                        changed.removed.push(entry.name.clone());
                        parted.insert(entry.name.clone(), entry.config.policies.clone());
                    }
                    keep
                });
                for (name, config) in wanted {
                    let earlier = entries.iter().find(|entry| entry.name == name).map(|entry| &entry.config.policies);
                    let config = config.after(earlier.or_else(|| parted.get(&name)));
                    match entries.iter_mut().find(|entry| entry.name == name) {
                        Some(entry) if entry.config == config => {
                            entry.origin = Origin::Request;
                            entry.give_another_chance();
                        }
                        Some(entry) => *entry = Entry::new(name, config, Origin::Request),
                        None => {
                            changed.added.push(name.clone());
                            entries.push(Entry::new(name, config, Origin::Request));
                        }
                    }
                }
            }
            self.connect_all(false).await;
            changed.errors = self
                .lock()
                .iter()
                .filter(|entry| entry.origin == Origin::Request)
                .filter_map(|entry| match &entry.state {
                    State::Failed(error) => Some((entry.name.clone(), error.to_string())),
                    State::Waiting | State::Connected(_) => None,
                })
                .collect();
            Ok(changed)
        })
    }
}

/// What the tools of all servers are called.
fn names(entries: &[Entry]) -> Names {
    let tools = |entry: &Entry| entry.connection().map(|connection| connection.tool_names()).unwrap_or_default();
    let servers: Vec<_> = entries.iter().map(|entry| (entry.name.clone(), tools(entry))).collect();
    Names::of(&servers)
}

/// The connected server that has the tool of this full name, and the tool's own name there.
fn owner<'a>(
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
fn connected<'a>(entries: &'a [Entry], server: &str) -> Result<&'a Arc<Connection>, String> {
    let entry = entries.iter().find(|entry| entry.name == server).ok_or_else(|| unknown(server))?;
    entry.connection().ok_or_else(|| format!("the server '{server}' is not connected"))
}

fn denied(tool: &str) -> String {
    format!("the configuration of its server denies '{tool}'")
}

fn unknown(server: &str) -> String {
    format!("there is no server named '{server}'")
}
