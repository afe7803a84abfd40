//! The keeper of one command: starts it, reports to gimlet how it ended, and ends all its descendants on request.
//!
//! As a subreaper it adopts every orphan of its command, so its descendants are exactly the command's processes. It
//! lives until it has no descendants, even if the other end of its socket is closed.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, Signal, WaitOptions};

use super::{FORCE_LIMIT, KEEPER_NAME, SILENT_END_GRACE};
use crate::custody_wire::{KeeperEvent, KeeperRequest, STATUS_BYTES, StartStage};
use crate::sys::ForkSide;
use crate::{custody_wire, message_socket, procfs, sandbox, sys};

/// The descriptor on which a program reports in which directory its command ended.
pub(crate) const REPORT_DESCRIPTOR: RawFd = 3;

pub(super) struct Keeper {
    /// `None` once gimlet released the command or is gone.
    status: Option<OwnedFd>,
    lifeline: OwnedFd,
    signals: OwnedFd,
    /// Process id of the command until it is reaped. Until then the id names its process group safely.
    leader: Option<i32>,
    end: Option<KillSchedule>,
    /// Present while the command runs in a directory that this process shares with it.
    shared_directory: Option<SharedDirectory>,
    /// Read ends of the pipes of a released command, kept open and emptied for its survivors.
    sinks: Vec<OwnedFd>,
}

/// A kill in progress.
struct KillSchedule {
    force_at: Instant,
    /// Grows from round to round, so that an unkillable process does not keep a processor busy.
    next_round_in: Duration,
}

/// Reports to gimlet why a command did not start. If that fails too, the closed socket signals it.
pub(super) fn report_failure(status: &OwnedFd, stage: StartStage, error: &io::Error) {
    let errno = error.raw_os_error().unwrap_or(libc::EIO);
    let _ = message_socket::send(status, &KeeperEvent::Failed { stage, errno }.encode(), &[]);
}

/// Resources of a keeper that has no command yet.
pub(super) struct KeeperSetup {
    signals: OwnedFd,
    lifeline: OwnedFd,
}

/// Makes this process a keeper that has no command yet.
pub(super) fn prepare_keeper(lifeline: &OwnedFd) -> Result<KeeperSetup, LaunchFailure> {
    let _ = rustix::thread::set_name(KEEPER_NAME);
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).map_err(LaunchFailure::from_keeper_error)?;
    super::continue_when_parent_dies();
    let signals = sys::child_signals().map_err(LaunchFailure::from_keeper_error)?;
    let lifeline = lifeline.try_clone().map_err(LaunchFailure::from_keeper_error)?;
    Ok(KeeperSetup { signals, lifeline })
}

impl Keeper {
    /// Starts the ordered command; returns `None` when that failed, after reporting it to gimlet.
    pub(super) fn start(
        message: &[u8],
        descriptors: Vec<OwnedFd>,
        held: Result<KeeperSetup, LaunchFailure>,
    ) -> Option<Self> {
        let mut descriptors = descriptors.into_iter();
        let status = descriptors.next()?;
        match held.and_then(|held| Ok((held, launch_command(message, descriptors)?))) {
            Ok((KeeperSetup { signals, lifeline }, LaunchedCommand { leader, shared_directory })) => {
                let own = rustix::process::getpid().as_raw_nonzero().get();
                let _ = message_socket::send(&status, &KeeperEvent::Started { pid: leader, keeper: own }.encode(), &[]);
                let (status, leader) = (Some(status), Some(leader));
                Some(Self { status, lifeline, signals, leader, end: None, shared_directory, sinks: Vec::new() })
            }
            Err(LaunchFailure { stage, error }) => {
                report_failure(&status, stage, &error);
                None
            }
        }
    }

    pub(super) fn run(&mut self) {
        loop {
            let ready = self.wait_for_events();
            if ready.signals {
                super::drain_readable(&self.signals);
            }
            if ready.status {
                self.handle_request();
            }
            if ready.lifeline && self.end.is_none() {
                self.handle_lifeline();
            }
            self.sinks.retain(super::drain_readable);
            if self.reap_children() == ReapResult::NoneLeft || self.force_kill_if_due() == ForceResult::GaveUp {
                return;
            }
        }
    }

    fn wait_for_events(&self) -> ReadyEvents {
        let mut polled = vec![PollFd::new(&self.signals, PollFlags::IN)];
        // Once the end has begun the lifeline has nothing more to say and would only wake us again and again.
        let lifeline = self.end.is_none().then(|| polled.push(PollFd::new(&self.lifeline, PollFlags::IN)));
        let lifeline = lifeline.map(|()| polled.len() - 1);
        let status = self.status.as_ref().map(|status| polled.push(PollFd::new(status, PollFlags::IN)));
        let status = status.map(|()| polled.len() - 1);
        polled.extend(self.sinks.iter().map(|sink| PollFd::new(sink, PollFlags::IN)));
        let timeout = self.end.as_ref().map(|end| {
            let until_force = end.force_at.saturating_duration_since(Instant::now());
            if until_force.is_zero() { end.next_round_in } else { until_force }
        });
        super::poll(&mut polled, timeout);
        let is_ready = |index: Option<usize>| {
            index.and_then(|index| polled.get(index)).is_some_and(|polled| !polled.revents().is_empty())
        };
        ReadyEvents { signals: is_ready(Some(0)), lifeline: is_ready(lifeline), status: is_ready(status) }
    }

    fn handle_request(&mut self) {
        let Some(status) = &self.status else { return };
        let mut message = [0; STATUS_BYTES];
        let received = match message_socket::receive(status, &mut message) {
            Err(Errno::AGAIN) => return,
            Ok(received) if received.len > 0 => received,
            // Closed without a request: the requester of this command is gone.
            Ok(_) | Err(_) => {
                self.status = None;
                return self.begin_kill(SILENT_END_GRACE);
            }
        };
        match KeeperRequest::decode(message.get(..received.len).unwrap_or_default()) {
            Some(KeeperRequest::Kill { grace }) => self.begin_kill(grace),
            Some(KeeperRequest::Release) => {
                self.status = None;
                self.sinks = received.descriptors;
            }
            None => {}
        }
    }

    fn handle_lifeline(&mut self) {
        let mut grace = [0; 4];
        match message_socket::peek(&self.lifeline, &mut grace) {
            Ok(len) => {
                let grace = custody_wire::decode_grace(grace.get(..len).unwrap_or_default());
                self.begin_kill(grace.unwrap_or(SILENT_END_GRACE));
            }
            Err(Errno::AGAIN) => {}
            Err(_) => self.begin_kill(SILENT_END_GRACE),
        }
    }

    /// Sends TERM to the whole tree and sets the time for KILL. On a repeated call the earlier time applies.
    fn begin_kill(&mut self, grace: Duration) {
        let force_at = Instant::now() + grace;
        if let Some(end) = &mut self.end {
            end.force_at = end.force_at.min(force_at);
            return;
        }
        self.end = Some(KillSchedule { force_at, next_round_in: Duration::from_millis(1) });
        // Leave the root that the command may have changed, so that processes are found in the system's own `/proc`.
        if let Some(directory) = self.shared_directory.take() {
            directory.unshare();
        }
        if grace.is_zero() {
            return;
        }
        let group = self.leader.and_then(Pid::from_raw);
        if let Some(group) = group {
            let _ = rustix::process::kill_process_group(group, Signal::TERM);
        }
        for process in own_descendants() {
            if Some(process.group) != self.leader {
                let _ = process.signal(Signal::TERM);
            }
            // A stopped process would only see the request when it is continued.
            let _ = process.signal(Signal::CONT);
        }
    }

    /// Reaps dead children and reports the command's own exit to gimlet.
    fn reap_children(&mut self) -> ReapResult {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    if Some(pid.as_raw_nonzero().get()) == self.leader {
                        self.leader = None;
                        if let Some(directory) = self.shared_directory.take() {
                            directory.report_directory();
                            directory.unshare();
                        }
                        if let Some(socket) = &self.status {
                            let _ = message_socket::send(
                                socket,
                                &KeeperEvent::Exited { status: status.as_raw() }.encode(),
                                &[],
                            );
                        }
                    }
                }
                Ok(None) => return ReapResult::SomeLeft,
                Err(Errno::INTR) => {}
                Err(_) => return ReapResult::NoneLeft,
            }
        }
    }

    fn force_kill_if_due(&mut self) -> ForceResult {
        let Some(end) = &mut self.end else { return ForceResult::NotYet };
        let overdue = Instant::now().saturating_duration_since(end.force_at);
        if overdue.is_zero() && Instant::now() < end.force_at {
            return ForceResult::NotYet;
        }
        if overdue > FORCE_LIMIT {
            return ForceResult::GaveUp;
        }
        end.next_round_in = (end.next_round_in * 2).min(Duration::from_millis(100));
        if let Some(group) = self.leader.and_then(Pid::from_raw) {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
        for process in own_descendants() {
            let _ = process.signal(Signal::KILL);
        }
        ForceResult::Again
    }
}

struct ReadyEvents {
    signals: bool,
    lifeline: bool,
    status: bool,
}

#[derive(PartialEq)]
enum ReapResult {
    /// This process has no descendants left.
    NoneLeft,
    SomeLeft,
}

#[derive(PartialEq)]
enum ForceResult {
    NotYet,
    Again,
    GaveUp,
}

fn own_descendants() -> Vec<procfs::ProcessEntry> {
    procfs::living_descendants(&procfs::list_processes(), &[rustix::process::getpid().as_raw_nonzero().get()])
}

/// Reason and stage of a failed start.
pub(super) struct LaunchFailure {
    stage: StartStage,
    error: io::Error,
}

impl LaunchFailure {
    fn from_keeper_error(error: impl Into<io::Error>) -> Self {
        Self { stage: StartStage::Keeper, error: error.into() }
    }
}

/// A command that has started.
struct LaunchedCommand {
    leader: i32,
    shared_directory: Option<SharedDirectory>,
}

/// The working directory of a command, which the keeper shares: it changes with the command's.
struct SharedDirectory {
    /// Pipe for reporting the directory when the command has ended.
    report: OwnedFd,
    /// The root as it was before the command could change it.
    root: OwnedFd,
}

impl SharedDirectory {
    /// Reports the directory in which the command ended. A removed directory has no name and is not reported.
    fn report_directory(&self) {
        let Ok(directory) = rustix::process::getcwd(Vec::new()) else { return };
        let mut line = directory.into_bytes();
        line.push(b'\n');
        // A pipe accepts a path without blocking; without a reader the report is not needed.
        let _ = rustix::io::write(&self.report, &line);
    }

    /// Stops sharing and returns to the system's root.
    fn unshare(&self) {
        drop(sys::stop_sharing_directory());
        let _ = rustix::process::fchdir(&self.root);
        if root_identity(&self.root) != current_root_identity() {
            // Only a process that may change its root can have changed it.
            let _ = rustix::process::chroot(".");
        }
        let _ = rustix::process::chdir("/");
    }
}

fn root_identity(root: &OwnedFd) -> Option<(u64, u64)> {
    rustix::fs::fstat(root).ok().map(|stat| (stat.st_dev, stat.st_ino))
}

fn current_root_identity() -> Option<(u64, u64)> {
    rustix::fs::stat("/").ok().map(|stat| (stat.st_dev, stat.st_ino))
}

/// Starts the command of an order; its descriptors come in the sequence of [`wire::OrderDescriptors`].
fn launch_command(
    message: &[u8],
    mut descriptors: impl Iterator<Item = OwnedFd>,
) -> Result<LaunchedCommand, LaunchFailure> {
    let missing = || LaunchFailure::from_keeper_error(Errno::PROTO);
    let parts = custody_wire::decode_order_descriptors(message).ok_or_else(missing)?;
    let mut next = |wanted: bool| if wanted { descriptors.next().map(Some).ok_or_else(missing) } else { Ok(None) };
    let stdout = next(true)?.ok_or_else(missing)?;
    let stdin = next(parts.stdin)?;
    let stderr = next(parts.stderr)?;
    let report = next(parts.report)?;
    let rules = next(parts.rules)?;
    let payload = next(parts.in_file)?;
    let from_file = payload.map(read_payload).transpose().map_err(LaunchFailure::from_keeper_error)?;
    let order = custody_wire::decode_order(from_file.as_deref().unwrap_or(message)).ok_or_else(missing)?;
    let null = std::fs::File::open("/dev/null").map_err(LaunchFailure::from_keeper_error)?;
    let root = std::fs::File::open("/").map_err(LaunchFailure::from_keeper_error)?;
    rustix::process::chdir(order.cwd).map_err(|error| LaunchFailure { stage: StartStage::Cwd, error: error.into() })?;
    let mut table: Vec<(BorrowedFd<'_>, RawFd)> = vec![
        (stdin.as_ref().map_or(null.as_fd(), AsFd::as_fd), 0),
        (stdout.as_fd(), 1),
        (stderr.as_ref().unwrap_or(&stdout).as_fd(), 2),
    ];
    if parts.program_reports {
        table.extend(report.as_ref().map(|report| (report.as_fd(), REPORT_DESCRIPTOR)));
    }
    let image = sys::ProgramImage { program: order.program, args: &order.args, env: &order.env, descriptors: &table };
    let keeper_reports = parts.report && !parts.program_reports;
    let started = if keeper_reports || rules.is_some() {
        spawn_forked(&image, rules.as_ref(), keeper_reports)
    } else {
        sys::spawn_image(&image)
    };
    let leader = started.map_err(|error| LaunchFailure { stage: StartStage::Program, error })?;
    let shared_directory = match report {
        Some(report) if keeper_reports => Some(SharedDirectory { report, root: root.into() }),
        _ => {
            // A keeper must not hold the command's directory, which may be removed or unmounted while survivors run
            // elsewhere.
            let _ = rustix::process::chdir("/");
            None
        }
    };
    Ok(LaunchedCommand { leader, shared_directory })
}

/// Starts a program by forking this process, in a session of its own. In between it does what [`sys::spawn_image`]
/// cannot: the directory is shared, and the process is restricted by a set of rules before it becomes the program.
fn spawn_forked(image: &sys::ProgramImage<'_>, rules: Option<&OwnedFd>, share_directory: bool) -> io::Result<i32> {
    // Closed on exec when the program starts; until then it carries the reason for a failure.
    let (failure, far_failure) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    let forked = if share_directory { sys::fork_sharing_directory() } else { sys::fork() };
    let pid = match forked? {
        ForkSide::Parent(pid) => pid,
        ForkSide::Child => {
            let error = exec_confined(image, rules);
            let code = error.raw_os_error().unwrap_or(libc::EIO);
            let _ = rustix::io::write(&far_failure, &code.to_ne_bytes());
            sys::exit_now(127)
        }
    };
    drop(far_failure);
    let mut code = [0; 4];
    let told = loop {
        match rustix::io::read(&failure, &mut code) {
            Err(Errno::INTR) => {}
            told => break told,
        }
    };
    if told != Ok(code.len()) {
        return Ok(pid);
    }
    let _ = rustix::process::waitpid(Pid::from_raw(pid), WaitOptions::empty());
    if share_directory {
        drop(sys::stop_sharing_directory());
    }
    Err(io::Error::from_raw_os_error(i32::from_ne_bytes(code)))
}

/// Executes a program restricted by a set of rules. Returns only on failure.
fn exec_confined(image: &sys::ProgramImage<'_>, rules: Option<&OwnedFd>) -> io::Error {
    let _ = rustix::process::setsid();
    if let Some(rules) = rules
        && let Err(error) = sandbox::enforce_confinement(rules)
    {
        return error;
    }
    sys::exec_image(image)
}

fn read_payload(file: OwnedFd) -> io::Result<Vec<u8>> {
    let mut file = std::fs::File::from(file);
    io::Seek::rewind(&mut file)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}
