//! A foreground command: its output is captured as it arrives, its end is reported once.
//!
//! Timeouts belong to the caller, who drops [`ForegroundCommand::finish`] when time is up and then either kills the
//! command or moves it to the background; nothing is lost by that.

use std::path::PathBuf;
use std::time::Duration;

use tokio::net::unix::pipe;
use tokio::time::Instant;

use crate::background::BackgroundCommand;
use crate::capture::{CaptureLimits, CapturedOutput, OutputCapture, OutputProgress};
use crate::exec::{CommandExit, ExecError, RunningCommand};

/// Time limit for reading the pipe after a command's exit, when another process holds it open.
const DRAIN_LIMIT: Duration = Duration::from_millis(500);
/// Time without data after which a pipe that is held open counts as drained.
const DRAIN_QUIET: Duration = Duration::from_millis(150);
/// Grace period for a command that printed too much.
const OVER_LIMIT_GRACE: Duration = Duration::from_secs(2);
/// Maximum bytes read from a pipe at once; the size of a pipe.
const READ_BYTES: usize = 64 * 1024;

/// Reason why a command ended.
#[derive(Debug)]
pub enum CommandEnd {
    /// By itself, with a code or by a signal that was not ours.
    Exited(CommandExit),
    /// By [`ForegroundCommand::kill`] or its background form.
    Killed(Option<CommandExit>),
    /// It printed more than the limit and was killed.
    OutputLimit { limit_bytes: u64 },
    /// It was killed because the process that kept it was.
    KeeperDied(ExecError),
}

/// A command that is over.
#[derive(Debug)]
pub struct FinishedCommand {
    pub end: CommandEnd,
    pub output: CapturedOutput,
    /// Data that the command wrote to its report descriptor.
    pub report: Vec<u8>,
}

impl FinishedCommand {
    /// Returns the directory in which a shell command ended, if it was reported.
    pub fn cwd(&self) -> Option<PathBuf> {
        crate::exec::parse_reported_directory(&self.report)
    }
}

/// A running command and what it printed so far. Dropping it ends the command's whole tree.
#[derive(Debug)]
pub struct ForegroundCommand {
    running: RunningCommand,
    pipe: Option<pipe::Receiver>,
    capture: OutputCapture,
    limit_bytes: u64,
    buffer: Vec<u8>,
    drain: Option<DrainWindow>,
}

/// The short time after a command's exit.
#[derive(Debug)]
struct DrainWindow {
    ends_at: Instant,
    last_output_at: Instant,
}

impl DrainWindow {
    fn deadline(&self) -> Instant {
        self.ends_at.min(self.last_output_at + DRAIN_QUIET)
    }
}

impl ForegroundCommand {
    pub fn new(mut running: RunningCommand, limits: CaptureLimits) -> Self {
        let pipe = running.output.take();
        let limit_bytes = limits.kill_bytes;
        Self {
            running,
            pipe,
            capture: OutputCapture::new(limits),
            limit_bytes,
            buffer: vec![0; READ_BYTES],
            drain: None,
        }
    }

    pub fn pid(&self) -> u32 {
        self.running.pid
    }

    /// Returns the progress of the output, with up to this many of its last lines.
    pub fn progress(&self, lines: usize) -> OutputProgress {
        self.capture.monitor().progress(lines)
    }

    /// Waits for the command's end. May be dropped and called again until it has returned once.
    ///
    /// Background processes that the command left live on until the session ends.
    pub async fn finish(&mut self) -> FinishedCommand {
        let ended = self.run_to_end().await;
        self.collect_result(ended).await
    }

    /// Ends the whole process tree: TERM, `grace`, KILL. Output printed meanwhile is still captured.
    pub async fn kill(&mut self, grace: Duration) -> FinishedCommand {
        self.kill_and_read(grace).await;
        let ended = CommandEnd::Killed(self.running.exit());
        self.collect_result(ended).await
    }

    /// Moves the command to the background: from now on all its output goes to the file, and no caller waits for it.
    /// When this returns, the file exists with the output so far.
    ///
    /// Must be called within the runtime that is to drive it.
    pub fn into_background(mut self) -> BackgroundCommand {
        self.capture.move_to_file(self.limit_bytes);
        BackgroundCommand::from_foreground(self)
    }

    pub(crate) fn capture(&self) -> &OutputCapture {
        &self.capture
    }

    async fn run_to_end(&mut self) -> CommandEnd {
        loop {
            self.capture.flush_to_file().await;
            if self.capture.is_over_limit() {
                self.kill_and_read(OVER_LIMIT_GRACE).await;
                return CommandEnd::OutputLimit { limit_bytes: self.limit_bytes };
            }
            if let (Some(exit), None) = (self.running.exit(), &self.pipe) {
                return CommandEnd::Exited(exit);
            }
            let Self { running, pipe, capture, buffer, drain, .. } = self;
            let deadline = drain.as_ref().map(DrainWindow::deadline);
            tokio::select! {
                biased;
                len = read_some(pipe.as_ref(), buffer), if pipe.is_some() => match len {
                    0 => *pipe = None,
                    len => {
                        capture.push(buffer.get(..len).unwrap_or_default());
                        if let Some(drain) = drain {
                            drain.last_output_at = Instant::now();
                        }
                    }
                },
                exit = running.wait(), if drain.is_none() => match exit {
                    Ok(_) => {
                        let now = Instant::now();
                        *drain = Some(DrainWindow { ends_at: now + DRAIN_LIMIT, last_output_at: now });
                    }
                    Err(error) => return CommandEnd::KeeperDied(error),
                },
                () = sleep_until(deadline), if deadline.is_some() => {
                    if let Some(exit) = running.exit() {
                        return CommandEnd::Exited(exit);
                    }
                }
            }
        }
    }

    async fn kill_and_read(&mut self, grace: Duration) {
        let Self { running, pipe, capture, buffer, .. } = self;
        let kill = running.kill(grace);
        tokio::pin!(kill);
        loop {
            tokio::select! {
                biased;
                () = &mut kill => break,
                len = read_some(pipe.as_ref(), buffer), if pipe.is_some() => match len {
                    0 => *pipe = None,
                    // A command that is being killed for its output may go on printing; none of that is wanted.
                    _ if capture.is_over_limit() => {}
                    len => {
                        capture.push(buffer.get(..len).unwrap_or_default());
                        capture.flush_to_file().await;
                    }
                },
            }
        }
        // The writers are dead; the data that they left in the pipe is available, but the runtime may not know of it
        // yet.
        let latest = Instant::now() + DRAIN_LIMIT;
        while let Ok(len) = tokio::time::timeout(DRAIN_QUIET, read_some(self.pipe.as_ref(), &mut self.buffer)).await {
            if len == 0 || self.capture.is_over_limit() || Instant::now() > latest {
                break;
            }
            self.capture.push(self.buffer.get(..len).unwrap_or_default());
            self.capture.flush_to_file().await;
        }
    }

    async fn collect_result(&mut self, ended: CommandEnd) -> FinishedCommand {
        let report = self.running.take_report();
        self.running.output = self.pipe.take();
        self.running.detach_pipes_to_keeper();
        FinishedCommand { end: ended, output: self.capture.finish().await, report }
    }
}

/// Reads the next bytes of a pipe; returns zero when it is closed.
async fn read_some(pipe: Option<&pipe::Receiver>, buffer: &mut [u8]) -> usize {
    let Some(pipe) = pipe else { return 0 };
    loop {
        if pipe.readable().await.is_err() {
            return 0;
        }
        match pipe.try_read(buffer) {
            Ok(len) => return len,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return 0,
        }
    }
}

async fn sleep_until(deadline: Option<Instant>) {
    if let Some(deadline) = deadline {
        tokio::time::sleep_until(deadline).await;
    }
}
