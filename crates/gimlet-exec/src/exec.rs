//! gimlet's side of custody: starts the custodian with the first command and sends it orders.
//!
//! [`Exec`] is a cheap handle that every part of a session shares; [`RunningCommand`] is one command. Nothing here
//! blocks a thread: each command has a socket of its own for its keeper's messages.

mod custodian_link;
mod program_lookup;
mod running_command;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rustix::io::Errno;

use crate::custody_wire::{self, OrderWords, StartStage};
use crate::memory_group::MemoryGroup;
use crate::orphans::RunRecord;
use crate::sandbox::Confinement;
use custodian_link::CustodyHandles;
pub(crate) use program_lookup::{find_in_path, is_runnable};
pub(crate) use running_command::parse_reported_directory;
pub use running_command::{CommandExit, RunningCommand};

/// The variable that every command carries, so that a later start can find what an earlier one lost.
pub(crate) const MARKER_VARIABLE: &str = "GIMLET_CUSTODY";

/// Program that is run as the custodian.
#[derive(Debug, Clone)]
pub enum CustodianProgram {
    /// Run this binary again: the running image itself where the system can name it, else the given path. Its `main`
    /// must begin with [`crate::run_custodian_if_asked`].
    Reexec(PathBuf),
    /// Fork without running anything: for programs whose `main` is not gimlet's, such as test harnesses. Costs a copy
    /// of this process's page tables and keeps its memory mapped.
    Fork,
}

/// Configuration of an [`Exec`].
#[derive(Debug, Clone)]
pub struct ExecConfig {
    pub custodian: CustodianProgram,
    /// Names the session in the environment of its commands.
    pub session_marker: String,
    /// Directory of a small record of this run while it has commands, for [`crate::sweep_orphans`]. Without it
    /// nothing is written.
    pub runtime_dir: Option<PathBuf>,
}

/// Standard input of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StdinMode {
    /// `/dev/null`.
    #[default]
    Null,
    /// A pipe whose writing end is in [`RunningCommand`].
    Pipe,
}

/// Destination of standard output and standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StreamMode {
    /// Into one pipe, interleaved as they were written.
    #[default]
    Merged,
    /// Each into a pipe of its own.
    Split,
}

/// Process that reports the directory in which a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DirectoryReporter {
    #[default]
    Disabled,
    /// The keeper, which shares its working directory with the command. Nothing of it is visible to the command, and
    /// only a change of directory changes it. A program that the system would run as another user runs as this one.
    Keeper,
    /// The program itself, on descriptor 3.
    Program,
}

/// A program to start.
#[derive(Debug, Clone)]
pub struct SpawnRequest {
    /// A path, or a name to be found in the `PATH` of `env`.
    pub program: OsString,
    /// The arguments after the program's own name.
    pub args: Vec<OsString>,
    pub cwd: PathBuf,
    /// The whole environment; nothing is inherited besides the custody marker.
    pub env: Vec<(OsString, OsString)>,
    pub stdin: StdinMode,
    pub streams: StreamMode,
    pub report: DirectoryReporter,
    /// Restrictions of the program and all its descendants.
    pub confinement: Option<Arc<Confinement>>,
}

/// Error of starting a program, or the loss of its keeper.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    #[error("cannot start the process custodian")]
    StartCustodian(#[source] io::Error),
    #[error("the process custodian died")]
    CustodianDied,
    #[error("the process custodian does not answer")]
    CustodianStuck,
    #[error("killed: the keeper of process {pid} died")]
    KeeperDied { pid: u32 },
    #[error("no new processes: the session is ending")]
    ShutDown,
    #[error("cannot open a pipe for {program:?}")]
    Pipe { program: OsString, source: io::Error },
    #[error("cannot start {program:?}: an argument, a variable or the directory contains a NUL byte")]
    Nul { program: OsString },
    #[error("cannot start {program:?} in {cwd}: the directory cannot be entered", cwd = cwd.display())]
    Cwd { program: OsString, cwd: PathBuf, source: io::Error },
    #[error("cannot start {program:?}: there is no such program in PATH")]
    NotFound { program: OsString },
    #[error("cannot start {program:?}")]
    Program { program: OsString, source: io::Error },
    #[error("cannot keep {program:?}")]
    Keeper { program: OsString, source: io::Error },
}

/// A handle for starting processes that end with the session. Cheap to clone; creating it starts nothing.
#[derive(Debug, Clone)]
pub struct Exec {
    shared: Arc<ExecState>,
}

/// State shared by the handle and every running command; dropping it ends all of them.
#[derive(Debug)]
pub(crate) struct ExecState {
    config: ExecConfig,
    run: RunRecord,
    custody: Mutex<CustodyHandles>,
    /// Held by the caller that ends everything.
    ending: tokio::sync::Mutex<()>,
    /// Files that are of use to this session's commands only.
    temporary: Mutex<Vec<PathBuf>>,
    /// Memory control group shared by all commands.
    memory: OnceLock<MemoryGroup>,
}

impl Exec {
    pub fn new(config: ExecConfig) -> Self {
        let run = RunRecord::for_this_process(&config.session_marker);
        let (custody, ending, temporary, memory) = Default::default();
        Self { shared: Arc::new(ExecState { config, run, custody, ending, temporary, memory }) }
    }

    /// Makes all commands share the memory limit of this group. Must be called before anything is started.
    pub fn use_memory_group(&self, group: MemoryGroup) {
        // A second group would leave what runs in the first.
        drop(self.shared.memory.set(group));
    }

    /// Starts the custodian in the background if there is none, so that the first command need not wait for it. If
    /// that fails, the first command retries and returns the error.
    pub fn prestart_custodian(&self) {
        if self.custodian_pid().is_none() {
            let shared = Arc::clone(&self.shared);
            tokio::task::spawn_blocking(move || drop(shared.lock_custody().ensure_link(shared.custodian_start())));
        }
    }

    /// Starts a program in a session of its own, under custody. A custodian that was killed is replaced once.
    pub async fn spawn(&self, spawn: SpawnRequest) -> Result<RunningCommand, ExecError> {
        let program = program_lookup::resolve_program(&spawn)?;
        let mut env = spawn.env;
        env.retain(|(name, _)| name != MARKER_VARIABLE);
        env.push((MARKER_VARIABLE.into(), self.shared.run.marker().into()));
        let args: Vec<OsString> = std::iter::once(spawn.program.clone()).chain(spawn.args).collect();
        let order = SpawnOrder { name: spawn.program, program, args, cwd: spawn.cwd, env, ..SpawnOrder::default() };
        let order = SpawnOrder { stdin: spawn.stdin, streams: spawn.streams, report: spawn.report, ..order };
        let order = SpawnOrder { confinement: spawn.confinement, ..order };
        match self.shared.start_command(&order).await {
            Err(ExecError::CustodianDied) => self.shared.start_command(&order).await,
            outcome => outcome,
        }
    }

    /// Ends everything that was started, gracefully for as long as `grace`, and the custodian with it.
    ///
    /// Nothing can be started afterwards. Returns when all processes are gone, or when even force did not help for
    /// some seconds. Continues if the caller stops waiting; further calls wait for the shutdown already in progress.
    pub async fn shutdown(&self, grace: Duration) {
        let shared = Arc::clone(&self.shared);
        #[allow(clippy::disallowed_methods, reason = "it has to outlive whoever called it, and ends by itself")]
        let ended = tokio::spawn(async move {
            let _turn = shared.ending.lock().await;
            let ending = shared.lock_custody().begin_shutdown(grace);
            if let Some(ending) = ending {
                ending.wait(grace, &shared.run).await;
            }
            shared.remove_temporary_files();
            shared.remove_memory_group().await;
            let record = shared.lock_custody().take_record();
            if let Some(record) = record {
                record.remove();
            }
        });
        // It fails with the runtime, which ends everything.
        drop(ended.await);
    }

    /// Registers a file to be removed by [`Self::shutdown`], or when the last handle and the last command are gone.
    pub fn remove_at_end(&self, file: PathBuf) {
        self.shared.lock_temporary().push(file);
    }

    /// Returns the custodian's process id while there is one, for diagnostics.
    pub fn custodian_pid(&self) -> Option<u32> {
        self.shared.lock_custody().custodian_pid()
    }
}

/// A spawn whose program has been found.
#[derive(Debug, Default)]
pub(crate) struct SpawnOrder {
    /// As the caller wrote it, for messages.
    name: OsString,
    program: PathBuf,
    args: Vec<OsString>,
    cwd: PathBuf,
    env: Vec<(OsString, OsString)>,
    stdin: StdinMode,
    streams: StreamMode,
    report: DirectoryReporter,
    confinement: Option<Arc<Confinement>>,
}

impl SpawnOrder {
    fn to_words(&self) -> OrderWords<'_> {
        OrderWords { program: self.program.as_os_str(), cwd: self.cwd.as_os_str(), args: &self.args, env: &self.env }
    }

    fn start_error(&self, stage: StartStage, errno: i32) -> ExecError {
        let source = io::Error::from_raw_os_error(errno);
        let program = self.name.clone();
        match stage {
            StartStage::Keeper => ExecError::Keeper { program, source },
            StartStage::Cwd => ExecError::Cwd { program, cwd: self.cwd.clone(), source },
            StartStage::Program => ExecError::Program { program, source },
        }
    }

    fn pipe_error(&self, source: impl Into<io::Error>) -> ExecError {
        ExecError::Pipe { program: self.name.clone(), source: source.into() }
    }
}

impl ExecState {
    fn lock_custody(&self) -> std::sync::MutexGuard<'_, CustodyHandles> {
        // No code that holds the lock can leave the custody half changed, so a poisoned lock is still valid.
        self.custody.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn custodian_start(&self) -> custodian_link::CustodianStart<'_> {
        custodian_link::CustodianStart { config: &self.config, run: &self.run, memory: self.memory.get() }
    }

    fn lock_temporary(&self) -> std::sync::MutexGuard<'_, Vec<PathBuf>> {
        // A list of names cannot be half changed.
        self.temporary.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remove_temporary_files(&self) {
        for file in self.lock_temporary().drain(..) {
            // It may never have been created, or be gone already.
            drop(std::fs::remove_file(file));
        }
    }

    async fn remove_memory_group(&self) {
        let Some(group) = self.memory.get() else { return };
        // The last processes are dead, and leave their group a moment later.
        for _ in 0..50 {
            if group.remove() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn start_command(self: &Arc<Self>, order: &SpawnOrder) -> Result<RunningCommand, ExecError> {
        let message = custody_wire::encode_order(&order.to_words(), running_command::descriptors_for(order))
            .map_err(|_| ExecError::Nul { program: order.name.clone() })?;
        let (starting, far) = running_command::open_order_pipes(order)?;
        let parcel = running_command::build_order_message(order, &message, &far)?;
        let mut waited = Duration::ZERO;
        loop {
            let sent = self.lock_custody().send_order(self.custodian_start(), parcel.message(), &parcel.descriptors());
            match sent {
                Ok(()) => break,
                // The custodian is momentarily behind; its socket buffers dozens of orders.
                Err(custodian_link::OrderSendError::Full) if waited < custodian_link::STUCK_AFTER => {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                    waited += Duration::from_millis(2);
                }
                Err(custodian_link::OrderSendError::Full) => return Err(ExecError::CustodianStuck),
                Err(custodian_link::OrderSendError::Failed(error)) => return Err(error),
            }
        }
        drop(parcel);
        drop(far);
        starting.wait_until_started(Arc::clone(self), order).await
    }

    /// Cleans up after a killed keeper. Its orphans are reparented to the custodian, which kills them, or to gimlet
    /// when the custodian was killed, too.
    async fn clean_up_after_keeper(&self, keeper: i32) {
        custodian_link::wait_for_death(keeper).await;
        let dying_custodian = self.lock_custody().dying_custodian();
        if let Some(custodian) = dying_custodian {
            custodian_link::wait_for_death(custodian).await;
        }
        custodian_link::reap_orphans();
    }
}

impl Drop for ExecState {
    fn drop(&mut self) {
        self.remove_temporary_files();
    }
}

impl From<Errno> for custodian_link::OrderSendError {
    fn from(error: Errno) -> Self {
        match error {
            Errno::AGAIN => Self::Full,
            _ => Self::Failed(ExecError::CustodianDied),
        }
    }
}
