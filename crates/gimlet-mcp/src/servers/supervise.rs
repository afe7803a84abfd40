//! Keeping servers outside the driving program connected: in the background from the session's beginning on.
//!
//! A program that ends stays ended until the user wants it back. A remote server that is lost is tried again, with
//! growing pauses.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::connect::ConnectTarget;
use super::server_entry::{ConnectSlot, ServerEntry, ServerState};
use super::{McpServers, lock_ignoring_poison};
use crate::connection::ConnectError;
use crate::server_config::{ServerConfig, ServerKind, ServerSource};
use crate::server_signals::ServerSignals;
use crate::tool_names::tool_name_prefix;

/// Tries of a remote server that cannot be connected at first, and of one that was lost.
const FIRST_TRIES: u32 = 3;
const AGAIN_TRIES: u32 = 5;
/// Pause before the second try; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Time for which one server may keep others from starting.
const START_TURN: Duration = Duration::from_secs(1);

/// Servers that the first turn waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StartupWait {
    /// Those that are marked to be always there: someone sees how the others arrive.
    #[default]
    Essential,
    /// Those that the caller of this session named.
    Requested,
    /// All of them: there is no second turn.
    Everything,
}

/// Place in the line of servers that are being started, given up soon even if the server is slow.
pub(super) struct StartTurn(CancellationToken);

impl Drop for StartTurn {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl McpServers {
    /// Begins to connect the servers outside the driving program, without waiting for them.
    pub fn start_connecting(self: &Arc<Self>) {
        // A session that replaces another one has the same servers.
        drop(self.self_ref.set(Arc::downgrade(self)));
        self.opened_at.get_or_init(Instant::now);
        self.spawn_supervisors();
    }

    /// Ends all connections and the tasks that keep them.
    pub async fn close(&self) {
        let tasks = std::mem::take(&mut *lock_ignoring_poison(&self.tasks));
        let mut tasks = tasks;
        tasks.shutdown().await;
        for entry in self.lock_entries().iter_mut() {
            entry.is_supervised = false;
            if let Some(connection) = entry.connection() {
                connection.close();
            }
        }
    }

    /// Starts a task for every server outside the driving program that has none.
    pub(super) fn spawn_supervisors(&self) {
        let Some(servers) = self.self_ref.get() else { return };
        for entry in self.lock_entries().iter_mut() {
            if entry.is_in_driver() || !entry.enabled || entry.is_supervised {
                continue;
            }
            entry.is_supervised = true;
            lock_ignoring_poison(&self.tasks).spawn(supervise(servers.clone(), entry.connect_slot.clone()));
        }
    }

    /// Waits for a place among the servers that are being started.
    pub(super) async fn begin_start(&self, config: &ServerConfig) -> Option<StartTurn> {
        let line = match config.kind {
            ServerKind::Stdio(_) => &self.program_starts,
            ServerKind::Driver | ServerKind::Remote(_) => &self.remote_starts,
        };
        let permit: OwnedSemaphorePermit = line.clone().acquire_owned().await.ok()?;
        let done = CancellationToken::new();
        let over = done.clone();
        lock_ignoring_poison(&self.tasks).spawn(async move {
            // Ends with the start, or after a while.
            drop(tokio::time::timeout(START_TURN, over.cancelled()).await);
            drop(permit);
        });
        Some(StartTurn(done))
    }

    /// Waits until the servers that the first turn needs are connected or have failed, for a limited time since the
    /// session began.
    pub(super) async fn wait_for_startup(&self) {
        let Some(opened) = self.opened_at.get() else { return };
        let wait = self.startup_wait;
        let is_needed = |entry: &ServerEntry| {
            entry.config.always_load
                || match wait {
                    StartupWait::Essential => false,
                    StartupWait::Requested => entry.config.source == ServerSource::Dynamic,
                    StartupWait::Everything => true,
                }
        };
        self.wait_while_pending(*opened + self.timeouts.startup, is_needed).await;
    }

    /// Waits for the server that a tool of this name belongs to, if it is still being connected.
    pub(super) async fn wait_for_server_of(&self, tool: &str) {
        let limit = Instant::now() + self.timeouts.connect;
        self.wait_while_pending(limit, |entry| tool.starts_with(&tool_name_prefix(&entry.name))).await;
    }

    /// Waits while a matching server is being connected for the first time.
    pub(super) async fn wait_while_pending(&self, deadline: Instant, is_needed: impl Fn(&ServerEntry) -> bool) {
        let mut changes = self.changes.subscribe();
        loop {
            changes.mark_unchanged();
            let is_pending = |entry: &ServerEntry| {
                entry.enabled && entry.is_supervised && matches!(entry.state, ServerState::Waiting) && is_needed(entry)
            };
            if !self.lock_entries().iter().any(is_pending) {
                return;
            }
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return },
                () = tokio::time::sleep_until(deadline) => return,
            }
        }
    }

    /// Notes that the state of a server has changed.
    pub(super) fn note_change(&self) {
        self.sync_prompt_commands();
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }
}

/// Result of a try, as far as the next one depends on it.
enum TryOutcome {
    Connected(Arc<ServerSignals>),
    /// It may work later.
    Transient,
    /// Nobody wants it, or only the user can help.
    Over,
}

/// Connects one server and connects it again when it is lost.
async fn supervise(servers: Weak<McpServers>, slot: Arc<ConnectSlot>) {
    let (mut tries, mut limit) = (0, FIRST_TRIES);
    loop {
        let outcome = match servers.upgrade() {
            Some(servers) => {
                servers.connect_servers(ConnectTarget::Slot(&slot)).await;
                servers.outcome_of(&slot)
            }
            None => return,
        };
        match outcome {
            TryOutcome::Connected(signals) => {
                let closed = signals.closed();
                loop {
                    tokio::select! {
                        () = closed.cancelled() => break,
                        () = slot.removed.cancelled() => return,
                        () = signals.wait_for_catalogue_change() => {
                            let Some(servers) = servers.upgrade() else { return };
                            servers.refresh_changed_prompts().await;
                        }
                    }
                }
                (tries, limit) = (0, AGAIN_TRIES);
                let Some(servers) = servers.upgrade() else { return };
                servers.note_change();
                if servers.is_program(&slot) {
                    return servers.end_supervision(&slot);
                }
            }
            TryOutcome::Transient => tries += 1,
            TryOutcome::Over => tries = limit,
        }
        if tries >= limit {
            if let Some(servers) = servers.upgrade() {
                servers.end_supervision(&slot);
            }
            return;
        }
        let pause = FIRST_PAUSE * 2_u32.pow(tries.min(5));
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = slot.removed.cancelled() => return,
        }
    }
}

impl McpServers {
    fn outcome_of(&self, slot: &Arc<ConnectSlot>) -> TryOutcome {
        let entries = self.lock_entries();
        let Some(entry) = entries.iter().find(|entry| Arc::ptr_eq(&entry.connect_slot, slot)) else {
            return TryOutcome::Over;
        };
        match &entry.state {
            _ if !entry.enabled => TryOutcome::Over,
            ServerState::Connected(connection) => TryOutcome::Connected(connection.signals().clone()),
            ServerState::Failed(ConnectError::NeedsAuthentication(_)) => TryOutcome::Over,
            ServerState::Failed(_) if matches!(entry.config.kind, ServerKind::Remote(_)) => TryOutcome::Transient,
            ServerState::Failed(_) | ServerState::Waiting => TryOutcome::Over,
        }
    }

    fn is_program(&self, slot: &Arc<ConnectSlot>) -> bool {
        let entries = self.lock_entries();
        let entry = entries.iter().find(|entry| Arc::ptr_eq(&entry.connect_slot, slot));
        entry.is_some_and(|entry| matches!(entry.config.kind, ServerKind::Stdio(_)))
    }

    fn end_supervision(&self, slot: &Arc<ConnectSlot>) {
        if let Some(entry) = self.lock_entries().iter_mut().find(|entry| Arc::ptr_eq(&entry.connect_slot, slot)) {
            entry.is_supervised = false;
        }
        self.note_change();
    }
}
