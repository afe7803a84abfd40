//! A program that is given bytes on standard input and whose two output streams are kept apart, such as a hook.
//!
//! It runs under custody like every command, without a terminal. A program that does not read its input is not waited
//! for; output beyond the limit is read and dropped, so that the writer never blocks and memory stays bounded.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use gimlet_proto::Env;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::{Receiver, Sender};

use crate::exec::{
    CommandExit, DirectoryReporter, Exec, ExecError, RunningCommand, SpawnRequest, StdinMode, StreamMode,
};
use crate::shell::errand_environment;

/// Time limit for reading the pipes after the program's exit, when another process holds them open.
const DRAIN_LIMIT: Duration = Duration::from_millis(150);

/// The program, its input and its limits.
#[derive(Debug, Clone)]
pub struct CapturedCommand<'a> {
    /// A path, or a name to be found in the `PATH` of the environment.
    pub program: OsString,
    pub args: Vec<OsString>,
    pub cwd: &'a Path,
    /// gimlet's own environment, with what the settings add to it.
    pub env: &'a Env,
    /// Variables beyond that environment; they win over it.
    pub variables: Vec<(OsString, OsString)>,
    pub stdin: &'a [u8],
    /// Bytes kept of each output stream.
    pub max_bytes: usize,
}

/// Bytes of one output stream.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct CapturedStream {
    /// The beginning, up to the limit.
    pub bytes: Vec<u8>,
    /// Length of everything that was written.
    pub total: u64,
}

impl CapturedStream {
    /// Returns true if not everything was kept.
    pub fn is_cut(&self) -> bool {
        self.total > self.bytes.len() as u64
    }
}

/// Outcome of a program that ran to its end.
#[derive(Debug)]
pub struct CapturedRun {
    pub exit: CommandExit,
    pub stdout: CapturedStream,
    pub stderr: CapturedStream,
}

impl CapturedCommand<'_> {
    /// Runs the program to its end. Dropping the future ends its whole process tree. Processes that it leaves behind
    /// live until the session ends.
    pub async fn run(self, exec: &Exec) -> Result<CapturedRun, ExecError> {
        let mut env = errand_environment(self.env);
        let replaced = |name: &OsString| self.variables.iter().any(|(known, _)| known == name);
        env.retain(|(name, _)| !replaced(name));
        env.extend(self.variables.iter().cloned());
        let spawn = SpawnRequest {
            program: self.program,
            args: self.args,
            cwd: self.cwd.to_owned(),
            env,
            stdin: StdinMode::Pipe,
            streams: StreamMode::Split,
            report: DirectoryReporter::Disabled,
            confinement: None,
        };
        let mut running = exec.spawn(spawn).await?;
        let (mut stdout, mut stderr) = (CapturedStream::default(), CapturedStream::default());
        let exit = exchange(&mut running, self.stdin, (&mut stdout, &mut stderr), self.max_bytes).await?;
        running.release();
        Ok(CapturedRun { exit, stdout, stderr })
    }
}

/// Writes the input and reads both outputs until the program has ended.
async fn exchange(
    running: &mut RunningCommand,
    input: &[u8],
    (stdout, stderr): (&mut CapturedStream, &mut CapturedStream),
    max_bytes: usize,
) -> Result<CommandExit, ExecError> {
    let stdin = running.stdin.take();
    let (mut output, mut errors) = (running.output.take(), running.errors.take());
    let exit = {
        let traffic = async {
            tokio::join!(
                write_input(stdin, input),
                read_capped(output.as_mut(), stdout, max_bytes),
                read_capped(errors.as_mut(), stderr, max_bytes)
            )
        };
        tokio::pin!(traffic);
        tokio::select! {
            biased;
            _ = &mut traffic => running.wait().await?,
            exit = running.wait() => {
                // Another process may hold the pipes open; the program's own output has been written by now.
                drop(tokio::time::timeout(DRAIN_LIMIT, traffic).await);
                exit?
            }
        }
    };
    (running.output, running.errors) = (output, errors);
    Ok(exit)
}

/// Writes all of the input and closes the pipe. A reader that closes its end early is no error.
async fn write_input(stdin: Option<Sender>, mut input: &[u8]) {
    let Some(stdin) = stdin else { return };
    while !input.is_empty() {
        if stdin.writable().await.is_err() {
            return;
        }
        match stdin.try_write(input) {
            Ok(written) => input = input.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}

/// Reads a pipe to its end, keeping the beginning.
async fn read_capped(pipe: Option<&mut Receiver>, stream: &mut CapturedStream, max_bytes: usize) {
    let Some(pipe) = pipe else { return };
    let mut chunk = vec![0; 16 << 10];
    // A read error ends the reading; the program's exit is reported separately.
    while let Ok(count @ 1..) = pipe.read(&mut chunk).await {
        let room = max_bytes.saturating_sub(stream.bytes.len());
        stream.bytes.extend_from_slice(chunk.get(..count.min(room)).unwrap_or_default());
        stream.total += count as u64;
    }
}
