//! A command that nobody waits for: a task of its own takes its output into a file until it ends.
//!
//! The task belongs to the [`BackgroundCommand`]; when that is dropped the task stops and the command's tree ends.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::capture::{CaptureMonitor, OutputProgress};
use crate::foreground::{FinishedCommand, ForegroundCommand};

/// How a background command is doing.
#[derive(Debug, Clone, Default)]
pub enum BackgroundState {
    #[default]
    Running,
    Ended(Arc<FinishedCommand>),
}

/// A command in the background. Dropping it ends the command's whole tree.
#[derive(Debug)]
pub struct BackgroundCommand {
    pid: u32,
    output_file: PathBuf,
    gauge: CaptureMonitor,
    kills: mpsc::Sender<Duration>,
    state: watch::Receiver<BackgroundState>,
    /// Aborts the task when dropped.
    _carrier: JoinSet<()>,
}

impl BackgroundCommand {
    pub(crate) fn from_foreground(command: ForegroundCommand) -> Self {
        let (kills, kill_requests) = mpsc::channel(1);
        let (publish, state) = watch::channel(BackgroundState::default());
        let (pid, gauge) = (command.pid(), command.capture().monitor().clone());
        let output_file = command.capture().file().to_owned();
        let mut carrier = JoinSet::new();
        carrier.spawn(async move {
            let finished = run_to_end_or_kill(command, kill_requests).await;
            publish.send_replace(BackgroundState::Ended(Arc::new(finished)));
        });
        Self { pid, output_file, gauge, kills, state, _carrier: carrier }
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The file that receives the output; it exists unless it could not be made, which the end tells.
    pub fn output_file(&self) -> &Path {
        &self.output_file
    }

    /// Where the output stands, with up to that many of its last lines.
    pub fn progress(&self, lines: usize) -> OutputProgress {
        self.gauge.progress(lines)
    }

    /// How it is doing now.
    pub fn state(&self) -> BackgroundState {
        self.state.borrow().clone()
    }

    /// A receiver that learns of the end, for whoever tells others.
    pub fn watch(&self) -> watch::Receiver<BackgroundState> {
        self.state.clone()
    }

    /// Waits for the end; `None` only if the runtime went away first.
    pub async fn wait(&self) -> Option<Arc<FinishedCommand>> {
        let mut state = self.state.clone();
        let ended = state.wait_for(|state| matches!(state, BackgroundState::Ended(_))).await.ok()?;
        match &*ended {
            BackgroundState::Ended(finished) => Some(Arc::clone(finished)),
            BackgroundState::Running => None,
        }
    }

    /// Ends the whole tree: TERM, `grace`, KILL; returns when it is over.
    pub async fn kill(&self, grace: Duration) -> Option<Arc<FinishedCommand>> {
        // A full channel means that another kill is under way, a closed one that it is over.
        let _ = self.kills.try_send(grace);
        self.wait().await
    }
}

async fn run_to_end_or_kill(
    mut command: ForegroundCommand,
    mut kill_requests: mpsc::Receiver<Duration>,
) -> FinishedCommand {
    let grace = tokio::select! {
        finished = command.finish() => return finished,
        grace = kill_requests.recv() => grace,
    };
    // Without a sender the owner is gone, and this task is about to be aborted anyway.
    command.kill(grace.unwrap_or_default()).await
}
