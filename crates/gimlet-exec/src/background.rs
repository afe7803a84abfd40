//! A background command: a task of its own writes its output into a file until it ends.
//!
//! The task belongs to the [`BackgroundCommand`]; when that is dropped the task stops and the command's process tree
//! ends.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::capture::{CaptureMonitor, OutputProgress};
use crate::foreground::{FinishedCommand, ForegroundCommand};

/// State of a background command.
#[derive(Debug, Clone, Default)]
pub enum BackgroundState {
    #[default]
    Running,
    Ended(Arc<FinishedCommand>),
}

/// A command in the background. Dropping it ends the command's whole process tree.
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

    /// Returns the file that receives the output. It exists unless it could not be created, which the final state
    /// reports.
    pub fn output_file(&self) -> &Path {
        &self.output_file
    }

    /// Returns the progress of the output, with up to this many of its last lines.
    pub fn progress(&self, lines: usize) -> OutputProgress {
        self.gauge.progress(lines)
    }

    /// Returns the current state.
    pub fn state(&self) -> BackgroundState {
        self.state.borrow().clone()
    }

    /// Returns a receiver that is notified of the end.
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

    /// Ends the whole process tree: TERM, `grace`, KILL; returns when it is over.
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
