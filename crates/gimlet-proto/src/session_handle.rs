//! What a front end holds of a session.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use crate::{EventHub, EventReader, ModelUsage, Op, PermissionMode, SessionId, TaskView, TurnSetup};

/// The state of a session at its last step; queries read it without waiting for the turn.
#[derive(Clone, Debug, Default)]
pub struct SessionSnapshot {
    pub busy: bool,
    pub mode: PermissionMode,
    pub model: String,
    pub cwd: PathBuf,
    /// Prompt size of the last request.
    pub context_tokens: u64,
    pub by_model: Vec<ModelUsage>,
    pub tasks: Vec<TaskView>,
    /// What a turn that begins now runs in, as far as that is known.
    pub turn_setup: TurnSetup,
}

/// One conversation, from outside: operations go in, events come out, the snapshot can be looked at.
#[derive(Clone)]
pub struct SessionHandle {
    pub id: SessionId,
    ops: mpsc::UnboundedSender<Op>,
    hub: EventHub,
    snapshot: watch::Receiver<Arc<SessionSnapshot>>,
    exit_requested: watch::Sender<bool>,
}

/// Tells a session that gimlet itself has to go.
#[derive(Clone)]
pub struct ExitSignal(watch::Receiver<bool>);

impl ExitSignal {
    /// Resolves when it is so, also when it has been so before; never otherwise.
    pub async fn wait_for_request(&mut self) {
        if self.0.wait_for(|leaving| *leaving).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl SessionHandle {
    pub fn new(
        id: SessionId,
        ops: mpsc::UnboundedSender<Op>,
        hub: EventHub,
        snapshot: watch::Receiver<Arc<SessionSnapshot>>,
    ) -> Self {
        Self { id, ops, hub, snapshot, exit_requested: watch::Sender::new(false) }
    }

    /// Sends an operation. After the session closed it is dropped, as everything is then.
    pub fn send(&self, op: Op) {
        drop(self.ops.send(op));
    }

    /// gimlet has to go now: the session leaves what runs unfinished, so that it can be gone on with, and closes.
    pub fn request_exit(&self) {
        self.exit_requested.send_replace(true);
    }

    /// For the session itself.
    pub fn exit_signal(&self) -> ExitSignal {
        ExitSignal(self.exit_requested.subscribe())
    }

    pub fn subscribe(&self) -> EventReader {
        self.hub.subscribe()
    }

    pub fn snapshot(&self) -> Arc<SessionSnapshot> {
        self.snapshot.borrow().clone()
    }
}
