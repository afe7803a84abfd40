//! Connecting to servers and recording their tool lists.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use gimlet_proto::{Notice, NoticeLevel};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;

use super::server_entry::{ConnectSlot, ServerEntry, ServerState, unknown_server_message};
use super::{McpServers, lock_ignoring_poison};
use crate::connection::{ConnectError, ServerConnection};
use crate::driver_channel::DriverChannel;
use crate::observed_transport::ObservedTransport;
use crate::server_client::ServerClient;
use crate::server_config::{RemoteTransport, ServerConfig, ServerKind};
use crate::server_signals::ServerSignals;
use crate::sse_transport::SseTransport;
use crate::tool_listing::{ToolListDiff, describe_unusable_tools};
use crate::tool_names::all_tool_names;

/// Servers to connect.
#[derive(Clone, Copy)]
pub(super) enum ConnectTarget<'a> {
    /// All servers inside the driving program, at the start of a turn. One that timed out before gets a short timeout.
    InDriver,
    /// All servers inside the driving program except those that timed out, apart from the start of a turn.
    Quick,
    /// The named servers, except those that timed out.
    Named(&'a [&'a str]),
    /// The server of this slot.
    Slot(&'a Arc<ConnectSlot>),
}

impl ConnectTarget<'_> {
    fn includes(self, entry: &ServerEntry) -> bool {
        let wanted = match self {
            Self::InDriver => entry.is_in_driver(),
            Self::Quick => entry.is_in_driver() && !entry.has_timed_out(),
            Self::Named(names) => names.contains(&entry.name.as_str()) && !entry.has_timed_out(),
            Self::Slot(slot) => Arc::ptr_eq(slot, &entry.connect_slot),
        };
        wanted && entry.enabled && !entry.is_connected()
    }
}

impl McpServers {
    /// Connects the servers in the target that are not connected. One that fails is retried next time.
    pub(super) async fn connect_servers(&self, wanted: ConnectTarget<'_>) {
        let doors: Vec<Arc<ConnectSlot>> = self
            .lock_entries()
            .iter()
            .filter(|entry| wanted.includes(entry))
            .map(|entry| entry.connect_slot.clone())
            .collect();
        join_all(doors.iter().map(|door| self.connect_server(door, wanted))).await;
    }

    /// Connects one server, unless another task just did or it was removed.
    async fn connect_server(&self, door: &Arc<ConnectSlot>, wanted: ConnectTarget<'_>) {
        let greeting = async {
            let _alone = door.connecting.lock().await;
            let found = {
                let entries = self.lock_entries();
                let entry = entries.iter().find(|entry| Arc::ptr_eq(&entry.connect_slot, door));
                entry.filter(|entry| wanted.includes(entry)).map(|entry| {
                    let patience = if entry.is_in_driver() { entry.connect_timeout() } else { Duration::MAX };
                    (entry.name.clone(), entry.config.clone(), self.timeouts.connect.min(patience))
                })
            };
            let Some((name, config, patience)) = found else { return };
            let opening = self.open_connection(&name, &config, door);
            let opened = match tokio::time::timeout(patience, opening).await {
                Ok(opened) => opened,
                Err(_) => Err(ConnectError::TimedOut(patience)),
            };
            let state = match opened {
                Ok(connection) => ServerState::Connected(Arc::new(connection)),
                Err(error) => ServerState::Failed(error),
            };
            if let Some(entry) = self.lock_entries().iter_mut().find(|entry| Arc::ptr_eq(&entry.connect_slot, door)) {
                entry.state = state;
                self.record_listing(entry);
                entry.connect_timeouts =
                    if entry.has_timed_out() { entry.connect_timeouts.saturating_add(1) } else { 0 };
            }
            self.note_change();
        };
        tokio::select! {
            biased;
            () = door.removed.cancelled() => {}
            () = greeting => {}
        }
    }

    async fn open_connection(
        &self,
        name: &str,
        config: &ServerConfig,
        door: &ConnectSlot,
    ) -> Result<ServerConnection, ConnectError> {
        if let Some(why) = self.admission.refusal_reason(name, config) {
            return Err(ConnectError::Failed(why.to_owned()));
        }
        let signals = Arc::new(ServerSignals::default());
        if config.kind == ServerKind::Driver {
            let Some(driver) = &self.driver else {
                return Err(ConnectError::Failed("no program drives this session".to_owned()));
            };
            let channel = DriverChannel::new(driver.clone(), name, signals.clone());
            let inbox = channel.inbox().clone();
            door.set_inbox(&inbox);
            let client = ServerClient::new(self.asker.clone(), name, signals.clone(), None)
                .with_greeting(move || inbox.mark_initialized());
            return ServerConnection::initialize(client, channel, signals, config.source).await;
        }
        let Some(launcher) = self.launcher() else {
            let why = "servers of their own cannot be started in this session".to_owned();
            return Err(ConnectError::Failed(why));
        };
        let client = ServerClient::new(self.asker.clone(), name, signals.clone(), Some(self.roots.clone()));
        let source = config.source;
        match &config.kind {
            ServerKind::Driver => Err(ConnectError::Failed("no program drives this session".to_owned())),
            ServerKind::Stdio(server) => {
                let _turn = self.begin_start(config).await;
                let started = launcher.start_program(server, source, signals.clone()).await;
                let transport = ObservedTransport::new(started.map_err(ConnectError::Failed)?, signals.clone());
                ServerConnection::initialize(client, transport, signals, source).await
            }
            ServerKind::Remote(server) => {
                let _turn = self.begin_start(config).await;
                let endpoint = launcher.endpoint(name, server, config, signals.clone()).await;
                let endpoint = endpoint.map_err(ConnectError::Failed)?;
                match server.transport {
                    RemoteTransport::Http => {
                        let options = StreamableHttpClientTransportConfig::with_uri(server.url.as_str());
                        let inner = StreamableHttpClientTransport::with_client(endpoint, options);
                        let transport = ObservedTransport::new(inner, signals.clone());
                        ServerConnection::initialize(client, transport, signals, source).await
                    }
                    RemoteTransport::Sse => {
                        let opened = SseTransport::open(endpoint, &server.url).await;
                        let inner = opened.map_err(|error| match signals.is_authentication_needed() {
                            true => ConnectError::NeedsAuthentication(Some(error.0)),
                            false => ConnectError::Failed(error.0),
                        })?;
                        let transport = ObservedTransport::new(inner, signals.clone());
                        ServerConnection::initialize(client, transport, signals, source).await
                    }
                }
            }
        }
    }

    /// Lists the tools of servers that reported changes. A server that does not answer keeps its list and gets a
    /// shorter timeout the next time.
    pub(super) async fn refresh_changed_tools(&self) {
        let relisted = |entry: &ServerEntry| {
            let connection = entry.connection()?;
            let told = connection.signals().take_list_changed()?;
            Some((entry.name.clone(), connection.clone(), told, entry.list_timeout()))
        };
        let asked: Vec<_> = self.lock_entries().iter().filter_map(relisted).collect();
        join_all(asked.into_iter().map(|(name, connection, told, patience)| async move {
            let listed = connection.refresh_tools(self.timeouts.connect.min(patience)).await;
            told.acknowledge();
            if let Some(entry) = self.lock_entries().iter_mut().find(|entry| entry.name == name) {
                entry.list_timeouts = if listed.is_ok() { 0 } else { entry.list_timeouts.saturating_add(1) };
                self.record_listing(entry);
            }
            if let Err(why) = listed {
                self.warn([format!("the server '{name}' keeps the tools that it had: {why}")]);
            }
        }))
        .await;
    }

    /// Records a new tool list and its differences from the previous one.
    fn record_listing(&self, entry: &mut ServerEntry) {
        let Some(connection) = entry.connection() else { return };
        let (tools, trouble) = (connection.listed_tools(), connection.take_warnings());
        let name = &entry.name;
        self.warn(trouble.into_iter().map(|trouble| format!("the server '{name}' {trouble}")));
        // An unchanged list needs no report.
        if entry.listed.as_ref().is_some_and(|before| Arc::ptr_eq(before, &tools)) {
            return;
        }
        let out = describe_unusable_tools(&tools);
        self.warn(out.into_iter().map(|out| format!("the server '{name}' has tools that are left out: {out}")));
        if let Some(before) = &entry.listed {
            let difference = ToolListDiff::between(before, &tools);
            let mut news = lock_ignoring_poison(&self.news);
            let text =
                difference.describe().map(|words| format!("the tools of the server '{name}' are others now: {words}"));
            news.notices.extend(text.map(|text| Notice { level: NoticeLevel::Info, text }));
            news.changed.extend(difference.tool_names().flat_map(|tool| all_tool_names(name, tool)));
        }
        entry.listed = Some(tools);
    }

    /// Returns an error with the reason if a server is not connected after an attempt.
    pub(super) fn check_connected(&self, server: &str) -> Result<(), String> {
        let entries = self.lock_entries();
        let entry = entries.iter().find(|entry| entry.name == server).ok_or_else(|| unknown_server_message(server))?;
        match &entry.state {
            ServerState::Failed(error) => Err(format!("{server}: {error}")),
            ServerState::Connected(_) | ServerState::Waiting => Ok(()),
        }
    }
}
