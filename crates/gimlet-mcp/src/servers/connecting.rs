//! Greeting servers, and taking over what they list.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use gimlet_proto::{Level, Notice};

use super::entry::{Door, Entry, State, unknown};
use super::{McpServers, locked};
use crate::config::{ServerConfig, ServerKind};
use crate::listing::{Difference, left_out};
use crate::naming::every_name;
use crate::server::{ConnectError, Connection, Opening};

/// Which servers somebody wants connected.
#[derive(Clone, Copy)]
pub(super) enum Wanted<'a> {
    /// A turn begins: all of them. One that let everybody wait before is given a moment.
    All,
    /// Beside a turn: all but those that let everybody wait.
    Quick,
    /// These.
    Named(&'a [&'a str]),
}

impl Wanted<'_> {
    fn includes(self, entry: &Entry) -> bool {
        let wanted = match self {
            Self::All => true,
            Self::Quick => !entry.was_silent(),
            Self::Named(names) => names.contains(&entry.name.as_str()) && !entry.was_silent(),
        };
        wanted && entry.enabled && !entry.is_connected()
    }
}

impl McpServers {
    /// Connects whatever is wanted and not there. One that fails is tried again next time.
    pub(super) async fn connect(&self, wanted: Wanted<'_>) {
        let doors: Vec<Arc<Door>> =
            self.lock().iter().filter(|entry| wanted.includes(entry)).map(|entry| entry.door.clone()).collect();
        join_all(doors.iter().map(|door| self.greet(door, wanted))).await;
    }

    /// Greets one server, unless somebody else just did or it is taken away.
    async fn greet(&self, door: &Arc<Door>, wanted: Wanted<'_>) {
        let greeting = async {
            let _alone = door.greeting.lock().await;
            let found = {
                let entries = self.lock();
                let entry = entries.iter().find(|entry| Arc::ptr_eq(&entry.door, door));
                entry.filter(|entry| wanted.includes(entry)).map(|entry| {
                    (entry.name.clone(), entry.config.clone(), self.timeouts.connect.min(entry.patience()))
                })
            };
            let Some((name, config, patience)) = found else { return };
            let state = match self.reach(&name, &config, patience, door).await {
                Ok(connection) => State::Connected(Arc::new(connection)),
                Err(error) => State::Failed(error),
            };
            if let Some(entry) = self.lock().iter_mut().find(|entry| Arc::ptr_eq(&entry.door, door)) {
                entry.state = state;
                self.take_list(entry);
                entry.silences = if entry.was_silent() { entry.silences.saturating_add(1) } else { 0 };
            }
        };
        tokio::select! {
            biased;
            () = door.gone.cancelled() => {}
            () = greeting => {}
        }
    }

    async fn reach(
        &self,
        name: &str,
        config: &ServerConfig,
        patience: Duration,
        door: &Door,
    ) -> Result<Connection, ConnectError> {
        if let Some(why) = self.admission.refusal(name, config) {
            return Err(ConnectError::Failed(why.to_owned()));
        }
        match (&config.kind, &self.driver) {
            (ServerKind::Driver, Some(driver)) => {
                let opening = Opening::new(driver.clone(), name);
                door.open(opening.inbox());
                opening.finish(patience).await
            }
            (ServerKind::Driver, None) => Err(ConnectError::Failed("no program drives this session".to_owned())),
            (ServerKind::Elsewhere(kind), _) => {
                Err(ConnectError::Failed(format!("servers of type {kind} are not available in this version of gimlet")))
            }
        }
    }

    /// Asks those for their tools again that said that they have others. Whoever does not answer keeps what they had, and
    /// is given less time when they say so again.
    pub(super) async fn list_again(&self) {
        let relisted = |entry: &Entry| {
            let connection = entry.connection()?;
            let told = connection.inbox().take_relisted()?;
            Some((entry.name.clone(), connection.clone(), told, entry.patience_for_list()))
        };
        let asked: Vec<_> = self.lock().iter().filter_map(relisted).collect();
        join_all(asked.into_iter().map(|(name, connection, told, patience)| async move {
            let listed = connection.list_again(self.timeouts.connect.min(patience)).await;
            told.settle();
            if let Some(entry) = self.lock().iter_mut().find(|entry| entry.name == name) {
                entry.unlisted = if listed.is_ok() { 0 } else { entry.unlisted.saturating_add(1) };
                self.take_list(entry);
            }
            if let Err(why) = listed {
                self.remark([format!("the server '{name}' keeps the tools that it had: {why}")]);
            }
        }))
        .await;
    }

    /// Takes note of a list that came, and of what is different in it.
    fn take_list(&self, entry: &mut Entry) {
        let Some(connection) = entry.connection() else { return };
        let (tools, trouble) = (connection.tools(), connection.take_trouble());
        let name = &entry.name;
        self.remark(trouble.into_iter().map(|trouble| format!("the server '{name}' {trouble}")));
        // One that kept its list has nothing to say about it.
        if entry.listed.as_ref().is_some_and(|before| Arc::ptr_eq(before, &tools)) {
            return;
        }
        let out = left_out(&tools);
        self.remark(out.into_iter().map(|out| format!("the server '{name}' has tools that are left out: {out}")));
        if let Some(before) = &entry.listed {
            let difference = Difference::between(before, &tools);
            let mut news = locked(&self.news);
            let text =
                difference.words().map(|words| format!("the tools of the server '{name}' are others now: {words}"));
            news.notices.extend(text.map(|text| Notice { level: Level::Info, text }));
            news.changed.extend(difference.tools().flat_map(|tool| every_name(name, tool)));
        }
        entry.listed = Some(tools);
    }

    /// How a server stands after an attempt: an error says why it is not there.
    pub(super) fn standing(&self, server: &str) -> Result<(), String> {
        let entries = self.lock();
        let entry = entries.iter().find(|entry| entry.name == server).ok_or_else(|| unknown(server))?;
        match &entry.state {
            State::Failed(error) => Err(format!("{server}: {error}")),
            State::Connected(_) | State::Waiting => Ok(()),
        }
    }
}
