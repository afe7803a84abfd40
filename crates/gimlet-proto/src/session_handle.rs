//! A front end's handle of a session.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use crate::{CommandInfo, EventHub, EventReader, ModelUsage, Op, PermissionMode, SessionId, TaskView, TurnSetup};

/// The state of a session at its last step; queries read it without waiting for the turn.
#[derive(Clone, Debug, Default)]
pub struct SessionSnapshot {
    pub busy: bool,
    pub mode: PermissionMode,
    pub model: String,
    /// Thinking effort; `None` for the model's default.
    pub effort: Option<String>,
    pub cwd: PathBuf,
    /// Prompt size of the last request.
    pub context_tokens: u64,
    pub by_model: Vec<ModelUsage>,
    pub tasks: Vec<TaskView>,
    /// Slash commands that can be typed.
    pub commands: Arc<[CommandInfo]>,
    /// Setup of a turn that begins now, as far as it is known.
    pub turn_setup: TurnSetup,
}

/// Handle of one conversation: accepts operations, publishes events, and has a readable snapshot.
#[derive(Clone)]
pub struct SessionHandle {
    pub id: SessionId,
    ops: mpsc::UnboundedSender<Op>,
    hub: EventHub,
    snapshot: watch::Receiver<Arc<SessionSnapshot>>,
    exit_requested: watch::Sender<bool>,
}

/// Signals to a session that gimlet itself has to exit.
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

    /// Requests that the session leaves running work unfinished, so that it can be resumed, and closes, because
    /// gimlet has to exit.
    pub fn request_exit(&self) {
        self.exit_requested.send_replace(true);
    }

    /// Returns the exit signal for the session itself.
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
