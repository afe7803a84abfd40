//! The servers of one session: connected when they are first needed, looked after between turns.

mod connecting;
mod entry;
mod meanings;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gimlet_core::tool::{Absence, News, PermissionVerdict, Sought, ToolRef, ToolSource};
use gimlet_core::{Leave, Redactor};
use gimlet_proto::{
    BoxFuture, Driver, Env, Level, Notice, ServerView, ServerWish, Servers, ServersChanged, plain_name,
};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::CHARS_PER_TOKEN;
use crate::admission::Admission;
use crate::config::{ServerConfig, ServerKind, servers_of};
use crate::policies::{Policies, Policy};
use crate::server::Limits;
use connecting::Wanted;
use entry::{Entry, State, connected, denied, meant, names, owner, unknown};
use meanings::Meanings;

/// How long a server may take to answer at first.
const CONNECT: Duration = Duration::from_secs(30);
/// How long a call may take: long enough for everything that is meant to end.
const CALL: Duration = Duration::from_secs(100_000);
/// What stays of a result in the conversation unless somebody says otherwise: as much as of any tool's.
const RESULT_CHARS: usize = 50_000;
/// What the tools of all servers may take of every request, in bytes. No model has room for as much.
const MOST_OFFERED: usize = 2 << 20;

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
    /// What people should know and were not told yet.
    news: Mutex<News>,
    /// What was said about tools that are not offered, as far as it is still so.
    told: Mutex<Vec<String>>,
    meanings: Mutex<Meanings>,
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
            news: Mutex::default(),
            told: Mutex::default(),
            meanings: Mutex::default(),
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

    /// Says once which tools are not offered.
    fn remark_once(&self, left_out: Vec<String>) {
        let mut told = locked(&self.told);
        self.remark(left_out.iter().filter(|remark| !told.contains(remark)).cloned());
        *told = left_out;
    }

    fn remark(&self, remarks: impl IntoIterator<Item = String>) {
        let notices = remarks.into_iter().map(|text| Notice { level: Level::Warning, text });
        locked(&self.news).notices.extend(notices);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        locked(&self.entries)
    }
}

impl ToolSource for McpServers {
    fn tools(&self) -> BoxFuture<'_, Vec<ToolRef>> {
        Box::pin(async move {
            self.connect(Wanted::All).await;
            self.list_again().await;
            let entries = self.lock();
            let names = names(&entries);
            let others = locked(&self.meanings).take(meant(&entries, &names));
            locked(&self.news).changed.extend(others);
            let guests = entries.iter().filter(|entry| entry.enabled).flat_map(|entry| match &entry.state {
                State::Connected(connection) => {
                    let call = entry.config.timeout.unwrap_or(self.timeouts.limits.call);
                    let limits = Limits { call, ..self.timeouts.limits };
                    connection.guests(&entry.name, &names, &entry.config.policies, limits)
                }
                State::Waiting | State::Failed(_) => Vec::new(),
            });
            let mut guests: Vec<(ToolRef, usize)> = guests.collect();
            // Whatever order servers come and list in, the beginning of the prompt stays the same.
            guests.sort_by(|(one, _), (other, _)| one.name().cmp(other.name()));
            let (guests, beyond) = within(MOST_OFFERED, guests);
            self.remark_once(names.left_out.into_iter().chain(beyond).collect());
            guests
        })
    }

    fn absent(&self) -> Vec<Absence> {
        self.lock().iter().filter_map(Entry::absence).collect()
    }

    fn news(&self) -> News {
        std::mem::take(&mut *locked(&self.news))
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
            self.connect(Wanted::Quick).await;
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
            self.connect(Wanted::Named(&[server])).await;
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
            self.connect(Wanted::Named(&[server])).await;
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
        let inbox = self.lock().iter().find(|entry| entry.name == server).ok_or_else(|| unknown(server))?.inbox()?;
        inbox.take(message)
    }

    fn replace<'a>(&'a self, servers: &'a RawValue) -> BoxFuture<'a, Result<ServersChanged, String>> {
        Box::pin(async move {
            let wanted = servers_of(servers).map_err(|error| error.to_string())?;
            wanted.iter().for_each(|(_, config)| config.teach(&self.redactor));
            let mut changed = ServersChanged::default();
            {
                let mut entries = self.lock();
                let mut parted = locked(&self.parted);
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
                for (name, config) in wanted.clone() {
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
            // Others may take their time; nobody asked for those.
            let named: Vec<&str> = wanted.iter().map(|(name, _)| name.as_str()).collect();
            self.connect(Wanted::Named(&named)).await;
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

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// As many tools as there is room for, given how much each takes, and a remark about those beyond.
fn within(room: usize, guests: Vec<(ToolRef, usize)>) -> (Vec<ToolRef>, Option<String>) {
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
