//! A shell that is started before there is a command for it, so that no command waits for its shell to load.
//!
//! It takes the command from its standard input and is from there on what any other shell is: one process for one
//! command, under custody like all, with the environment that holds when the command comes. Until then it has done
//! nothing: it has read no file of the user's, and waits in the root directory, where it keeps nothing busy.

use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;

use super::wrapper;
use crate::exec::{Exec, Running, Spawn, Stdin, Streams};

/// How long after a command the next shell is started: a short command is over then and its result on its way.
const LATER: Duration = Duration::from_millis(2);
/// The longest order that is written at once; an empty pipe holds twice as much.
const MOST_BYTES: usize = 32 * 1024;

/// The variables of commands. Another environment is another allocation.
pub(super) type Environment = Arc<[(OsString, OsString)]>;

/// The shell that waits, if there is one.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    next: Mutex<Option<Next>>,
}

/// The task that starts a shell, or has, and the environment of that shell.
type Next = (JoinSet<Option<Running>>, Environment);

/// What a shell that waits has to be told.
pub(super) struct Told<'a> {
    pub(super) cwd: &'a Path,
    pub(super) text: &'a str,
    pub(super) snapshot: Option<&'a Path>,
    pub(super) env_file: Option<&'a Path>,
}

impl Waiting {
    /// Sees to it that the next command finds a shell that waits: at once, or after the command that just began.
    pub(super) fn prepare(&self, exec: &Exec, bash: &Path, environment: &Environment, at_once: bool) {
        let mut next = self.lock();
        if next.as_ref().is_some_and(|(_, own)| Arc::ptr_eq(own, environment)) {
            return;
        }
        let (exec, spawn) = (exec.clone(), spawn(bash, environment));
        let mut starting = JoinSet::new();
        starting.spawn(async move {
            if !at_once {
                tokio::time::sleep(LATER).await;
            }
            // Without one the next command starts its own shell and says what is wrong.
            exec.spawn(spawn).await.ok()
        });
        *next = Some((starting, Arc::clone(environment)));
    }

    /// Gives the command to the shell that waits; `None` when there is none for it.
    pub(super) fn take(&self, environment: &Environment, told: &Told<'_>) -> Option<Running> {
        let order = wrapper::order(told.cwd, told.text, told.snapshot, told.env_file);
        if order.len() > MOST_BYTES {
            return None;
        }
        let mut running = self.take_started(environment)?;
        let stdin = running.stdin.take()?;
        // A shell that did not get the whole of it does nothing, and ends with what is dropped here.
        let is_told = !running.has_ended() && stdin.try_write(&order).is_ok_and(|written| written == order.len());
        is_told.then_some(running)
    }

    /// A shell that was started with this environment. One that is just being started stays for the next command.
    fn take_started(&self, environment: &Environment) -> Option<Running> {
        let mut next = self.lock();
        let (starting, own) = next.as_mut()?;
        let started = starting.try_join_next();
        let is_current = Arc::ptr_eq(own, environment);
        if started.is_some() || !is_current {
            *next = None;
        }
        started.filter(|_| is_current)?.ok()?
    }

    fn lock(&self) -> MutexGuard<'_, Option<Next>> {
        // It is changed in single steps; there is nothing half done to find.
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn spawn(bash: &Path, environment: &Environment) -> Spawn {
    let mut env: Vec<(OsString, OsString)> = environment.iter().filter(|(name, _)| name != "PWD").cloned().collect();
    env.push(("PWD".into(), "/".into()));
    Spawn {
        program: bash.into(),
        args: wrapper::waiting_arguments(),
        cwd: "/".into(),
        env,
        stdin: Stdin::Pipe,
        streams: Streams::Merged,
        report: true,
    }
}
