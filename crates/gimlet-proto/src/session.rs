//! What a front end holds of a session.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use crate::{Hub, ModelUsage, Op, Opened, PermissionMode, Reader, SessionId, TaskView};

/// The state of a session at its last step; queries read it without waiting for the turn.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub busy: bool,
    pub mode: PermissionMode,
    pub model: String,
    pub cwd: PathBuf,
    /// Prompt size of the last request.
    pub context_tokens: u64,
    pub by_model: Vec<ModelUsage>,
    pub tasks: Vec<TaskView>,
    /// What a turn that begins now runs in, as far as that is known.
    pub opened: Opened,
}

/// One conversation, from outside: operations go in, events come out, the snapshot can be looked at.
#[derive(Clone)]
pub struct SessionHandle {
    pub id: SessionId,
    ops: mpsc::UnboundedSender<Op>,
    hub: Hub,
    snapshot: watch::Receiver<Arc<Snapshot>>,
    leaving: watch::Sender<bool>,
}

/// Tells a session that gimlet itself has to go.
#[derive(Clone)]
pub struct Leaving(watch::Receiver<bool>);

impl Leaving {
    /// Resolves when it is so, also when it has been so before; never otherwise.
    pub async fn wanted(&mut self) {
        if self.0.wait_for(|leaving| *leaving).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl SessionHandle {
    pub fn new(
        id: SessionId,
        ops: mpsc::UnboundedSender<Op>,
        hub: Hub,
        snapshot: watch::Receiver<Arc<Snapshot>>,
    ) -> Self {
        Self { id, ops, hub, snapshot, leaving: watch::Sender::new(false) }
    }

    /// Sends an operation. After the session closed it is dropped, as everything is then.
    pub fn send(&self, op: Op) {
        drop(self.ops.send(op));
    }

    /// gimlet has to go now: the session leaves what runs unfinished, so that it can be gone on with, and closes.
    pub fn leave(&self) {
        self.leaving.send_replace(true);
    }

    /// For the session itself.
    pub fn leaving(&self) -> Leaving {
        Leaving(self.leaving.subscribe())
    }

    pub fn subscribe(&self) -> Reader {
        self.hub.subscribe()
    }

    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.borrow().clone()
    }
}
