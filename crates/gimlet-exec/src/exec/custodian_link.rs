//! The connection to the custodian: opened with the first order, reopened when the custodian was killed, closed once.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions};

use super::{CustodianProgram, ExecConfig, ExecError};
use crate::custodian::{CUSTODIAN_NAME, KEEPER_NAME};
use crate::memory_group::MemoryGroup;
use crate::orphans::{LockedRecord, RunRecord};
use crate::procfs::{self, ProcessEntry};
use crate::sys::{self, ForkSide};
use crate::{custodian, custody_wire, message_socket};

/// Timeout after which a full socket no longer counts as a busy custodian.
pub(super) const STUCK_AFTER: Duration = Duration::from_secs(5);
/// Additional time beyond the grace period for an orderly end, before gimlet continues without it.
const END_LIMIT: Duration = Duration::from_secs(3);
/// Time without a response after which a custodian may have been stopped.
const ROUSE_AFTER: Duration = Duration::from_millis(100);
/// Number of times gimlet itself tries to kill processes that custodian and keepers did not.
const FORCE_ROUNDS: usize = 100;
/// Time limit for a killed process to be dead.
const DEATH_LIMIT_MS: u32 = 2000;

pub(super) enum OrderSendError {
    Full,
    Failed(ExecError),
}

/// Parameters for starting a custodian.
#[derive(Clone, Copy)]
pub(super) struct CustodianStart<'a> {
    pub(super) config: &'a ExecConfig,
    pub(super) run: &'a RunRecord,
    pub(super) memory: Option<&'a MemoryGroup>,
}

/// Handles that are kept open for the custodian and its keepers.
#[derive(Debug, Default)]
pub(super) struct CustodyHandles {
    link: Option<CustodianLink>,
    lifeline: Option<LifelinePair>,
    record: Option<LockedRecord>,
    shut_down: bool,
}

#[derive(Debug)]
pub(super) struct CustodianLink {
    orders: OwnedFd,
    custodian: CustodianProcess,
}

/// Two ends of a stream. All of gimlet's processes hold the far end; when the near one closes, they end.
#[derive(Debug)]
struct LifelinePair {
    near: UnixStream,
    /// Kept for a custodian that replaces a dead one.
    far: UnixStream,
}

#[derive(Debug)]
enum CustodianProcess {
    Executed(Child),
    Forked(i32),
}

impl CustodianProcess {
    fn pid(&self) -> i32 {
        match self {
            Self::Executed(child) => child.id() as i32,
            Self::Forked(pid) => *pid,
        }
    }

    /// Signals the custodian. Until it is reaped its process id is still its own.
    fn signal(&self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.pid()) {
            let _ = rustix::process::kill_process(pid, signal);
        }
    }

    /// Collects the exit status, so that no zombie remains; returns false while the process is still alive.
    fn reap(&mut self) -> bool {
        match self {
            Self::Executed(child) => !matches!(child.try_wait(), Ok(None)),
            Self::Forked(pid) => Pid::from_raw(*pid)
                .is_none_or(|pid| !matches!(rustix::process::waitpid(Some(pid), WaitOptions::NOHANG), Ok(None))),
        }
    }
}

impl CustodyHandles {
    /// Sends one order, starting the custodian first if there is none.
    pub(super) fn send_order(
        &mut self,
        with: CustodianStart<'_>,
        message: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(), OrderSendError> {
        if let (None, Some(dir), false) = (&self.record, &with.config.runtime_dir, self.shut_down) {
            // For the next start only; a session must not fail because it could not be written.
            self.record = with.run.write_locked(dir).ok();
        }
        let link = self.ensure_link(with).map_err(OrderSendError::Failed)?;
        match message_socket::send(&link.orders, message, descriptors).map_err(OrderSendError::from) {
            Err(OrderSendError::Failed(error)) => {
                self.drop_dead_link();
                Err(OrderSendError::Failed(error))
            }
            outcome => outcome,
        }
    }

    /// Returns the connection to the custodian, which is started if there is none. This alone writes nothing to disk.
    pub(super) fn ensure_link(&mut self, with: CustodianStart<'_>) -> Result<&CustodianLink, ExecError> {
        if self.shut_down {
            return Err(ExecError::ShutDown);
        }
        match &mut self.link {
            Some(link) => Ok(link),
            none => {
                let link = none.insert(start_custodian(with.config, with.run, &mut self.lifeline)?);
                // Before its first order, so that no command is outside the group. That this works was checked when
                // the group was created.
                drop(with.memory.map(|group| group.add_process(link.custodian.pid())));
                Ok(link)
            }
        }
    }

    /// Drops the connection if its other end is closed; the next order makes a new one.
    pub(super) fn drop_dead_link(&mut self) {
        if let Some(mut link) = self.link.take_if(|link| is_closed(&link.orders)) {
            link.custodian.reap();
        }
        reap_orphans();
    }

    /// Continues a stopped custodian.
    pub(super) fn continue_custodian(&self) {
        if let Some(link) = &self.link {
            link.custodian.signal(Signal::CONT);
        }
    }

    /// Returns the custodian's process id when it no longer listens.
    pub(super) fn dying_custodian(&self) -> Option<i32> {
        self.link.as_ref().filter(|link| is_closed(&link.orders)).map(|link| link.custodian.pid())
    }

    pub(super) fn custodian_pid(&self) -> Option<u32> {
        self.link.as_ref().map(|link| link.custodian.pid() as u32)
    }

    /// Takes the record of this run, if one was written.
    pub(super) fn take_record(&mut self) -> Option<LockedRecord> {
        self.record.take()
    }

    /// Signals every process on the lifeline to end; returns `None` when nothing was ever started.
    pub(super) fn begin_shutdown(&mut self, grace: Duration) -> Option<CustodyShutdown> {
        self.shut_down = true;
        let lifeline = self.lifeline.take()?;
        // A lifeline that cannot be written to is still closed when it is dropped.
        drop((&lifeline.near).write_all(&custody_wire::encode_grace(grace)));
        Some(CustodyShutdown { link: self.link.take(), _lifeline: lifeline })
    }
}

/// An orderly shutdown in progress.
pub(super) struct CustodyShutdown {
    link: Option<CustodianLink>,
    /// Open until all is over, so that the grace it carries can be read.
    _lifeline: LifelinePair,
}

impl CustodyShutdown {
    /// Waits for the custodian, which leaves when nothing is left below it, and does its work if it does not.
    pub(super) async fn wait(self, grace: Duration, run: &RunRecord) {
        if let Some(CustodianLink { orders, mut custodian }) = self.link {
            if let Ok(orders) = sys::watch_readable(orders) {
                let gone = async { while orders.readable().await.is_ok_and(|guard| !is_closed(guard.get_inner())) {} };
                // A process that cannot be killed must not keep the user waiting.
                let _ = tokio::time::timeout(
                    grace + END_LIMIT,
                    wait_while_continuing(gone, || custodian.signal(Signal::CONT)),
                )
                .await;
            }
            // Its sockets close a moment before it is quite dead.
            for _ in 0..20 {
                if custodian.reap() {
                    return reap_orphans();
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            kill_without_custodian(custodian, run).await;
        }
        reap_orphans();
    }
}

/// Ends everything without the custodian, which was prevented from doing so.
async fn kill_without_custodian(mut custodian: CustodianProcess, run: &RunRecord) {
    custodian.signal(Signal::KILL);
    for _ in 0..FORCE_ROUNDS {
        let found = run.kill_all();
        // Children of the dead are this process's now, whether they still carry the mark or not.
        reap_orphans();
        if custodian.reap() && found == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits for something that a stopped process has to do, continuing that process from time to time.
pub(super) async fn wait_while_continuing<T>(awaited: impl Future<Output = T>, rouse: impl Fn()) -> T {
    tokio::pin!(awaited);
    loop {
        match tokio::time::timeout(ROUSE_AFTER, &mut awaited).await {
            Ok(outcome) => return outcome,
            Err(_) => rouse(),
        }
    }
}

fn is_closed(socket: impl AsFd) -> bool {
    matches!(message_socket::peek(socket, &mut [0; 1]), Ok(0) | Err(rustix::io::Errno::CONNRESET))
}

fn start_custodian(
    config: &ExecConfig,
    run: &RunRecord,
    lifeline: &mut Option<LifelinePair>,
) -> Result<CustodianLink, ExecError> {
    // Orphans of a dead custodian come to this process instead of to init; without that only they escape.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let connect = || -> io::Result<(OwnedFd, OwnedFd, UnixStream)> {
        let (near, far) = message_socket::pair()?;
        let line = match lifeline {
            Some(line) => line,
            none => {
                let (near, far) = UnixStream::pair()?;
                none.insert(LifelinePair { near, far })
            }
        };
        Ok((near, far, line.far.try_clone()?))
    };
    let (orders, far, line) = connect().map_err(ExecError::StartCustodian)?;
    let custodian = match &config.custodian {
        CustodianProgram::Reexec(path) => reexec_custodian(path, far, line, run.mark()),
        CustodianProgram::Fork => fork_custodian(&far, &line, run.mark()),
    };
    Ok(CustodianLink { orders, custodian: custodian.map_err(ExecError::StartCustodian)? })
}

/// Runs this binary again as a custodian, with its two sockets as standard input and output.
fn reexec_custodian(
    path: &std::path::Path,
    orders: OwnedFd,
    lifeline: UnixStream,
    mark: u64,
) -> io::Result<CustodianProcess> {
    let run = |program: &std::path::Path, orders: OwnedFd, lifeline: UnixStream| {
        #[allow(clippy::disallowed_methods, reason = "this is the room that starts processes")]
        Command::new(program)
            .arg0(custodian::ARGV0)
            .arg(custodian::ARGUMENT)
            .arg(mark.to_string())
            // Commands can read the environment of their ancestors, and gimlet's contains keys.
            .env_clear()
            .stdin(orders)
            .stdout(OwnedFd::from(lifeline))
            .stderr(Stdio::null())
            .spawn()
    };
    // The running image itself, even when an upgrade replaced or removed its file.
    let spare = (orders.try_clone()?, lifeline.try_clone()?);
    let child = run("/proc/self/exe".as_ref(), orders, lifeline).or_else(|_| run(path, spare.0, spare.1))?;
    Ok(CustodianProcess::Executed(child))
}

fn fork_custodian(orders: &OwnedFd, lifeline: &UnixStream, mark: u64) -> io::Result<CustodianProcess> {
    match sys::fork()? {
        ForkSide::Parent(pid) => Ok(CustodianProcess::Forked(pid)),
        ForkSide::Child => custodian::become_custodian(orders, lifeline, mark),
    }
}

/// Waits until a process that was killed has handed its children on. Its sockets close before that.
pub(super) async fn wait_for_death(pid: i32) {
    for _ in 0..DEATH_LIMIT_MS {
        if ProcessEntry::read(pid).is_none_or(|process| process.zombie) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Signals a keeper by its process id, unless that id belongs to another process by now.
pub(super) fn signal_keeper(pid: i32, signal: Signal) {
    if let Some(keeper) = find_living_keeper(pid) {
        let _ = keeper.signal(signal);
    }
}

/// Kills all that descends from a keeper which does not do so itself. Even a stopped one inherits its orphans, so
/// nothing gets away.
pub(super) fn kill_keeper_descendants(pid: i32) {
    for _ in 0..FORCE_ROUNDS {
        let below = find_living_keeper(pid)
            .map(|_| procfs::living_descendants(&procfs::list_processes(), &[pid]))
            .unwrap_or_default();
        if below.is_empty() {
            return;
        }
        for process in below {
            let _ = process.signal(Signal::KILL);
        }
        std::thread::yield_now();
    }
}

fn find_living_keeper(pid: i32) -> Option<ProcessEntry> {
    ProcessEntry::read(pid)
        .filter(|process| process.name().is_some_and(|name| name.as_bytes() == KEEPER_NAME.to_bytes()))
}

/// Kills and reaps processes that were reparented to this process because their keeper and the custodian were killed.
///
/// Commands always run in sessions of their own, so a child in another session that is neither custodian nor keeper
/// is such an orphan. Keepers that lost only their custodian continue their work and are merely reaped when dead.
pub(super) fn reap_orphans() {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let Some(here) = ProcessEntry::read(own) else { return };
    let ours = |process: &ProcessEntry| {
        process
            .name()
            .is_some_and(|name| [CUSTODIAN_NAME, KEEPER_NAME].iter().any(|ours| ours.to_bytes() == name.as_bytes()))
    };
    // Killing a parent reparents its children to this process, so one pass is not enough; but the number of passes is
    // bounded.
    for _ in 0..50 {
        let processes = procfs::list_processes();
        let adopted =
            |process: &&ProcessEntry| process.parent == own && process.session != here.session && !ours(process);
        let strays: Vec<i32> = processes.iter().filter(adopted).map(|process| process.pid).collect();
        for process in processes.iter().filter(|process| strays.contains(&process.pid)) {
            let _ = process.signal(Signal::KILL);
        }
        for process in procfs::living_descendants(&processes, &strays) {
            let _ = process.signal(Signal::KILL);
        }
        let dead_keepers = processes.iter().filter(|process| process.parent == own && process.zombie && ours(process));
        for pid in dead_keepers.map(|process| process.pid).chain(strays.iter().copied()).filter_map(Pid::from_raw) {
            let _ = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
        }
        if strays.is_empty() {
            return;
        }
        std::thread::yield_now();
    }
}
