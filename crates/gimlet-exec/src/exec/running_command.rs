//! One running command: its pipes, its exit, its end.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::MemfdFlags;
use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, Signal, WaitOptions};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe;

use super::{DirectoryReporter, ExecError, ExecState, SpawnOrder, StdinMode, StreamMode, custodian_link};
use crate::custody_wire::{self, INLINE_ORDER_BYTES, KeeperEvent, KeeperRequest, OrderDescriptors, STATUS_BYTES};
use crate::{message_socket, sys};

/// Additional time beyond the grace period before a kill returns in any case.
const KILL_LIMIT: Duration = Duration::from_secs(3);
/// Additional time beyond the grace period before a keeper counts as disabled.
const KEEPER_LIMIT: Duration = Duration::from_secs(2);
/// Maximum length of a report; a longer one is invalid.
const MAX_REPORT_BYTES: usize = 64 * 1024;

/// Exit of a command: a code or a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandExit {
    pub code: Option<i32>,
    pub signal: Option<i32>,
}

impl CommandExit {
    fn from_raw(status: i32) -> Self {
        let status = std::process::ExitStatus::from_raw(status);
        Self { code: status.code(), signal: status.signal() }
    }

    pub fn is_success(self) -> bool {
        self.code == Some(0)
    }

    /// Returns the exit status as a shell would: the code, or 128 plus the signal.
    pub fn shell_code(self) -> i32 {
        self.code.or(self.signal.map(|signal| 128 + signal)).unwrap_or(-1)
    }
}

/// A command under custody. Dropping it ends its whole process tree, unless [`RunningCommand::release`] was called.
#[derive(Debug)]
pub struct RunningCommand {
    pub pid: u32,
    /// Standard output, and standard error with it unless the streams were split.
    pub output: Option<pipe::Receiver>,
    /// Standard error of split streams.
    pub errors: Option<pipe::Receiver>,
    /// The writing end of a piped standard input; dropping it is the end of the command's input.
    pub stdin: Option<pipe::Sender>,
    report: Option<pipe::Receiver>,
    status: AsyncFd<OwnedFd>,
    exit: Option<CommandExit>,
    keeper: i32,
    /// Keeps the lifeline open as long as a command may need it.
    shared: Arc<ExecState>,
}

impl RunningCommand {
    /// Waits for the command itself, not for what it left in the background. May be dropped and called again.
    pub async fn wait(&mut self) -> Result<CommandExit, ExecError> {
        if let Some(exit) = self.exit {
            return Ok(exit);
        }
        loop {
            match next_keeper_event(&self.status).await {
                Some(KeeperEvent::Exited { status }) => {
                    let exit = CommandExit::from_raw(status);
                    self.exit = Some(exit);
                    return Ok(exit);
                }
                Some(KeeperEvent::Started { .. } | KeeperEvent::Failed { .. }) => {}
                None => {
                    self.shared.clean_up_after_keeper(self.keeper).await;
                    return Err(ExecError::KeeperDied { pid: self.pid });
                }
            }
        }
    }

    /// Returns the command's exit, if it is known by now.
    pub fn exit(&self) -> Option<CommandExit> {
        self.exit
    }

    /// Sends a signal to the command alone, which must not have ended.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(process) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) {
            // A process that is gone by now is detected by its messages.
            let _ = rustix::process::kill_process(process, signal);
        }
    }

    /// Returns true if the command has ended by now, or lost its keeper.
    pub(crate) fn has_ended(&mut self) -> bool {
        let mut message = [0; STATUS_BYTES];
        match message_socket::receive(self.status.get_ref(), &mut message) {
            Ok(received) => {
                if let Some(KeeperEvent::Exited { status }) =
                    KeeperEvent::decode(message.get(..received.len).unwrap_or_default())
                {
                    self.exit = Some(CommandExit::from_raw(status));
                }
                true
            }
            Err(error) => error != Errno::AGAIN,
        }
    }

    /// Ends the whole process tree: TERM to all of it, `grace`, then KILL to the rest. Returns when nothing is left.
    ///
    /// Also works after the command itself exited: then it ends the processes that the command left behind.
    pub async fn kill(&mut self, grace: Duration) {
        // The command may have stopped its custodian or keeper.
        self.shared.lock_custody().continue_custodian();
        custodian_link::signal_keeper(self.keeper, Signal::CONT);
        // A failed send means that the keeper is gone already.
        let _ = message_socket::send(self.status.get_ref(), &KeeperRequest::Kill { grace }.encode(), &[]);
        let mut is_gone = tokio::time::timeout(grace + KEEPER_LIMIT, self.wait_for_keeper_exit()).await.is_ok();
        if !is_gone {
            // The command prevents its keeper from working; once the command is gone nothing does.
            custodian_link::kill_keeper_descendants(self.keeper);
            self.shared.lock_custody().continue_custodian();
            custodian_link::signal_keeper(self.keeper, Signal::CONT);
            // A process that survives this long is in an uninterruptible wait or another user's; it cannot be killed.
            is_gone = tokio::time::timeout(KILL_LIMIT - KEEPER_LIMIT, self.wait_for_keeper_exit()).await.is_ok();
        }
        if is_gone && self.exit.is_none() {
            self.shared.clean_up_after_keeper(self.keeper).await;
        }
        self.reap_keeper();
    }

    /// Waits until the keeper has left, as it does when nothing is below it. May be dropped and called again.
    async fn wait_for_keeper_exit(&mut self) {
        while let Some(news) = next_keeper_event(&self.status).await {
            if let KeeperEvent::Exited { status } = news {
                self.exit = Some(CommandExit::from_raw(status));
            }
        }
    }

    /// Lets the command's background processes live until the session ends. Their output is discarded from here on,
    /// without an error for the writers.
    pub fn release(mut self) {
        self.detach_pipes_to_keeper();
    }

    pub(crate) fn detach_pipes_to_keeper(&mut self) {
        let pipes = [self.output.take(), self.errors.take()];
        let pipes: Vec<OwnedFd> =
            pipes.into_iter().flatten().filter_map(|pipe| pipe.into_nonblocking_fd().ok()).collect();
        let descriptors: Vec<BorrowedFd<'_>> = pipes.iter().map(AsFd::as_fd).collect();
        // A failed send means that the keeper is gone, and with it everything that could be released.
        let _ = message_socket::send(self.status.get_ref(), &KeeperRequest::Release.encode(), &descriptors);
    }

    /// Returns the report about the command's directory received so far, without waiting for more.
    pub fn take_report(&mut self) -> Vec<u8> {
        let Some(report) = self.report.take() else { return Vec::new() };
        let mut bytes = Vec::new();
        let mut chunk = [0; 4096];
        while bytes.len() < MAX_REPORT_BYTES {
            match rustix::io::read(&report, &mut chunk) {
                Ok(0) => break,
                Ok(len) => bytes.extend_from_slice(chunk.get(..len).unwrap_or_default()),
                Err(Errno::INTR) => {}
                // Survivors of the command may hold the pipe open; what they would add is no report any more.
                Err(_) => break,
            }
        }
        bytes
    }

    /// Reaps the keeper: one whose custodian was killed has become a child of this process; others have not.
    fn reap_keeper(&self) {
        if let Some(keeper) = Pid::from_raw(self.keeper) {
            let _ = rustix::process::waitpid(Some(keeper), WaitOptions::NOHANG);
        }
    }
}

/// Returns the next message on a status socket; `None` when the keeper is gone.
async fn next_keeper_event(status: &AsyncFd<OwnedFd>) -> Option<KeeperEvent> {
    let received = status
        .async_io(Interest::READABLE, |socket| {
            let mut message = [0; STATUS_BYTES];
            let len = message_socket::receive(socket, &mut message)?.len;
            Ok((message, len))
        })
        .await;
    let (message, len) = received.ok()?;
    KeeperEvent::decode(message.get(..len)?)
}

/// Returns the descriptors that an order sends along.
pub(super) fn descriptors_for(order: &SpawnOrder) -> OrderDescriptors {
    OrderDescriptors {
        stdin: order.stdin == StdinMode::Pipe,
        stderr: order.streams == StreamMode::Split,
        report: order.report != DirectoryReporter::Disabled,
        program_reports: order.report == DirectoryReporter::Program,
        rules: order.confinement.as_ref().is_some_and(|confinement| confinement.is_enforced()),
        in_file: false,
    }
}

/// gimlet's ends of a command that is about to start.
pub(super) struct ParentEnds {
    status: OwnedFd,
    output: OwnedFd,
    stdin: Option<OwnedFd>,
    errors: Option<OwnedFd>,
    report: Option<OwnedFd>,
}

/// The command's ends of the pipes, to be closed here once they are sent.
pub(super) struct ChildEnds {
    status: OwnedFd,
    stdout: OwnedFd,
    stdin: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
    report: Option<OwnedFd>,
}

/// Opens the sockets and pipes of an order.
pub(super) fn open_order_pipes(order: &SpawnOrder) -> Result<(ParentEnds, ChildEnds), ExecError> {
    let parts = descriptors_for(order);
    let open_pipe = || rustix::pipe::pipe_with(PipeFlags::CLOEXEC);
    let open_if = |wanted: bool| wanted.then(open_pipe).transpose().map(Option::unzip);
    let opened = || -> Result<_, Errno> {
        let (status, far_status) = message_socket::pair()?;
        let (output, stdout) = open_pipe()?;
        let (far_stdin, stdin) = open_if(parts.stdin)?;
        let (errors, stderr) = open_if(parts.stderr)?;
        let (report, far_report) = open_if(parts.report)?;
        let near = ParentEnds { status, output, stdin, errors, report };
        Ok((near, ChildEnds { status: far_status, stdout, stdin: far_stdin, stderr, report: far_report }))
    };
    opened().map_err(|error| order.pipe_error(error))
}

/// A message ready to be sent, its words in a memory file if they are too many for a socket.
pub(super) struct OrderMessage<'a> {
    message: &'a [u8],
    short: [u8; 2],
    file: Option<OwnedFd>,
    rules: Option<BorrowedFd<'a>>,
    far: &'a ChildEnds,
}

pub(super) fn build_order_message<'a>(
    order: &'a SpawnOrder,
    message: &'a [u8],
    far: &'a ChildEnds,
) -> Result<OrderMessage<'a>, ExecError> {
    let file = (message.len() > INLINE_ORDER_BYTES).then(|| write_memory_file(message)).transpose();
    let file = file.map_err(|error| order.pipe_error(error))?;
    let rules = order.confinement.as_ref().and_then(|confinement| confinement.rules());
    Ok(OrderMessage { message, short: custody_wire::encode_order_in_file(descriptors_for(order)), file, rules, far })
}

impl OrderMessage<'_> {
    pub(super) fn message(&self) -> &[u8] {
        if self.file.is_some() { &self.short } else { self.message }
    }

    /// Returns the descriptors in the sequence that the keeper expects.
    pub(super) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let ChildEnds { status, stdout, stdin, stderr, report } = self.far;
        let pipes = [stdin, stderr, report].into_iter().flatten();
        let pipes = [status, stdout].into_iter().chain(pipes).map(AsFd::as_fd);
        pipes.chain(self.rules).chain(self.file.as_ref().map(AsFd::as_fd)).collect()
    }
}

fn write_memory_file(bytes: &[u8]) -> io::Result<OwnedFd> {
    let file = rustix::fs::memfd_create("gimlet-order", MemfdFlags::CLOEXEC)?;
    let mut rest = bytes;
    while !rest.is_empty() {
        let written = rustix::io::write(&file, rest)?;
        rest = rest.get(written..).unwrap_or_default();
    }
    Ok(file)
}

impl ParentEnds {
    /// Waits for the keeper's first word.
    pub(super) async fn wait_until_started(
        self,
        shared: Arc<ExecState>,
        order: &SpawnOrder,
    ) -> Result<RunningCommand, ExecError> {
        let status = sys::watch_readable(self.status).map_err(|error| order.pipe_error(error))?;
        let (pid, keeper) = match custodian_link::wait_while_continuing(next_keeper_event(&status), || {
            shared.lock_custody().continue_custodian()
        })
        .await
        {
            Some(KeeperEvent::Started { pid, keeper }) => (pid as u32, keeper),
            Some(KeeperEvent::Failed { stage, errno }) => return Err(order.start_error(stage, errno)),
            Some(KeeperEvent::Exited { .. }) | None => {
                shared.lock_custody().drop_dead_link();
                return Err(ExecError::CustodianDied);
            }
        };
        let receiver = |fd: OwnedFd| pipe::Receiver::from_owned_fd(fd).map_err(|error| order.pipe_error(error));
        let sender = |fd: OwnedFd| pipe::Sender::from_owned_fd(fd).map_err(|error| order.pipe_error(error));
        Ok(RunningCommand {
            pid,
            output: Some(receiver(self.output)?),
            errors: self.errors.map(receiver).transpose()?,
            stdin: self.stdin.map(sender).transpose()?,
            report: self.report.map(receiver).transpose()?,
            status,
            exit: None,
            keeper,
            shared,
        })
    }
}

/// Parses the directory that a shell reported: an absolute path and a line end.
pub(crate) fn parse_reported_directory(report: &[u8]) -> Option<PathBuf> {
    let path = report.strip_suffix(b"\n")?;
    path.starts_with(b"/").then(|| PathBuf::from(OsStr::from_bytes(path)))
}
