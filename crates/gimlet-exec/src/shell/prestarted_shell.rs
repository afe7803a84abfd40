//! A shell that is started before there is a command for it, so that no command waits for its shell to load.
//!
//! It reads the command from its standard input and then behaves like any other shell: one process for one command,
//! under custody, with the environment that is current when the command arrives. Until then it has done nothing: it
//! has read no file of the user's, and waits in the root directory, where it keeps nothing busy.

use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::Signal;
use tokio::io::AsyncWriteExt as _;
use tokio::task::JoinSet;

use super::shell_wrapper;
use crate::exec::{DirectoryReporter, Exec, RunningCommand, SpawnRequest, StdinMode, StreamMode};
use crate::sandbox::Confinement;

/// Maximum length of an order that is written at once; an empty pipe holds twice as much.
const MOST_BYTES: usize = 32 * 1024;

/// The variables of commands. Another environment is another allocation.
pub(super) type SharedEnvironment = Arc<[(OsString, OsString)]>;

/// Start parameters of a shell that do not depend on its command.
#[derive(Debug, Clone)]
pub(super) struct ShellContext {
    pub(super) environment: SharedEnvironment,
    pub(super) confinement: Option<Arc<Confinement>>,
}

impl ShellContext {
    /// Returns true if a shell that was started with one context can take a command for the other.
    fn matches(&self, other: &Self) -> bool {
        let confinement = |surroundings: &Self| surroundings.confinement.as_ref().map(Arc::as_ptr);
        Arc::ptr_eq(&self.environment, &other.environment) && confinement(self) == confinement(other)
    }
}

/// The waiting shell, if there is one.
#[derive(Debug, Default)]
pub(super) struct PrestartedShell {
    next: Mutex<Option<PendingShell>>,
}

/// A shell that waits or is being started.
#[derive(Debug)]
struct PendingShell {
    starting: JoinSet<Option<RunningCommand>>,
    surroundings: ShellContext,
}

impl PrestartedShell {
    /// Sees to it that the next command finds a shell that waits.
    pub(super) fn ensure_started(&self, exec: &Exec, bash: &Path, surroundings: &ShellContext) {
        let mut next = self.lock();
        if next.as_ref().is_some_and(|next| next.surroundings.matches(surroundings)) {
            return;
        }
        let (exec, spawn) = (exec.clone(), shell_spawn_request(bash, surroundings));
        let mut starting = JoinSet::new();
        // Without one the next command starts its own shell and returns the error.
        starting.spawn(async move { exec.spawn(spawn).await.ok() });
        *next = Some(PendingShell { starting, surroundings: surroundings.clone() });
    }

    /// Sends an order to the waiting shell; returns `None` when there is none for it.
    pub(super) async fn send_order(&self, surroundings: &ShellContext, order: &[u8]) -> Option<RunningCommand> {
        if order.len() > MOST_BYTES {
            return None;
        }
        let PendingShell { mut starting, surroundings: own } = self.lock().take()?;
        if !own.matches(surroundings) {
            return None;
        }
        let mut running = starting.join_next().await?.ok()??;
        let mut stdin = running.stdin.take()?;
        if running.has_ended() {
            return None;
        }
        // An earlier command may have stopped it.
        running.signal(Signal::CONT);
        // The order fits into the empty pipe, so that this does not wait for the shell to read. A shell that did not
        // receive all of it does nothing, and ends when its handles are dropped here.
        stdin.write_all(order).await.ok().map(|()| running)
    }

    fn lock(&self) -> MutexGuard<'_, Option<PendingShell>> {
        // It is changed in single steps; a poisoned lock still holds a complete value.
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn shell_spawn_request(bash: &Path, surroundings: &ShellContext) -> SpawnRequest {
    let ShellContext { environment, confinement } = surroundings;
    let mut env: Vec<(OsString, OsString)> = environment.iter().filter(|(name, _)| name != "PWD").cloned().collect();
    env.push(("PWD".into(), "/".into()));
    SpawnRequest {
        program: bash.into(),
        args: shell_wrapper::waiting_arguments(),
        cwd: "/".into(),
        env,
        stdin: StdinMode::Pipe,
        streams: StreamMode::Merged,
        report: DirectoryReporter::Keeper,
        confinement: confinement.clone(),
    }
}
