//! A short command that is run for its output, such as a helper that the user named in their settings.
//!
//! It runs under custody like every command, without a terminal and without input, for a limited time and with
//! limited output. Its output is kept in memory only: it may be a secret, so nothing here writes it to a file or puts
//! it into an error.

use std::path::Path;
use std::time::Duration;

use gimlet_proto::Env;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;

use crate::exec::{
    CommandExit, DirectoryReporter, Exec, ExecError, RunningCommand, SpawnRequest, StdinMode, StreamMode,
};
use crate::shell::errand_environment;
use crate::terminal_text::render_for_model;

/// Bytes kept of standard error: enough for its first line.
const ERROR_BYTES: usize = 4 << 10;
/// Maximum length of foreign text quoted in a message.
const LONGEST_WORDS: usize = 200;
/// Time limit for reading the pipes after the command's exit, when another process holds them open.
const DRAIN_LIMIT: Duration = Duration::from_millis(150);
/// Grace period for commands: for one that timed out, and for all of them when the session closes.
pub const KILL_GRACE: Duration = Duration::from_millis(500);

/// The command and its limits.
#[derive(Debug, Clone, Copy)]
pub struct HelperCommand<'a> {
    /// Given to `/bin/sh` as it is.
    pub command: &'a str,
    pub cwd: &'a Path,
    /// gimlet's own environment, with what the settings add to it. Credentials in it are passed on: a helper may need
    /// one to get another.
    pub env: &'a Env,
    pub timeout: Duration,
    /// Maximum length of the output; longer output is an error.
    pub max_bytes: usize,
}

/// Reason why there is no output.
#[derive(Debug, thiserror::Error)]
pub enum HelperCommandError {
    #[error(transparent)]
    Exec(#[from] ExecError),
    #[error("it did not end within {} s", limit.as_secs_f64())]
    TimedOut { limit: Duration },
    #[error("it printed more than {} KiB", limit_bytes / 1024)]
    OutputTooLarge { limit_bytes: usize },
    #[error("it {}{}", describe_exit(*exit), said.as_ref().map(|said| format!(": {said}")).unwrap_or_default())]
    Failed {
        exit: CommandExit,
        /// The first line of its standard error that is not empty.
        said: Option<String>,
    },
}

fn describe_exit(exit: CommandExit) -> String {
    match (exit.code, exit.signal) {
        (Some(code), _) => format!("exited with {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended without saying how".to_owned(),
    }
}

impl HelperCommand<'_> {
    /// Runs the command and returns its output. Dropping the future ends the command's whole process tree.
    pub async fn run(self, exec: &Exec) -> Result<Vec<u8>, HelperCommandError> {
        let spawn = SpawnRequest {
            program: "/bin/sh".into(),
            args: vec!["-c".into(), self.command.into()],
            cwd: self.cwd.to_owned(),
            env: errand_environment(self.env),
            stdin: StdinMode::Null,
            streams: StreamMode::Split,
            report: DirectoryReporter::Disabled,
            confinement: None,
        };
        let mut running = exec.spawn(spawn).await?;
        match tokio::time::timeout(self.timeout, collect_output(&mut running, self.max_bytes)).await {
            Ok(Ok(answer)) => {
                // An agent that it started for the next time may stay as long as the session.
                running.release();
                Ok(answer)
            }
            Ok(Err(error)) => {
                running.kill(KILL_GRACE).await;
                Err(error)
            }
            Err(_) => {
                running.kill(KILL_GRACE).await;
                Err(HelperCommandError::TimedOut { limit: self.timeout })
            }
        }
    }
}

async fn collect_output(running: &mut RunningCommand, most_bytes: usize) -> Result<Vec<u8>, HelperCommandError> {
    let (mut output, mut errors) = (running.output.take(), running.errors.take());
    let (mut printed, mut complaints) = (Vec::new(), Vec::new());
    let reading = async {
        tokio::try_join!(
            read_pipe(output.as_mut(), &mut printed, most_bytes),
            read_prefix_and_drain(errors.as_mut(), &mut complaints)
        )
    };
    let exit = read_to_exit(running, reading).await;
    // Remaining processes may go on writing; the pipes are closed or handed over with the command.
    (running.output, running.errors) = (output, errors);
    match exit? {
        exit if exit.is_success() => Ok(printed),
        exit => Err(HelperCommandError::Failed { exit, said: first_error_line(&complaints) }),
    }
}

async fn read_to_exit<T>(
    running: &mut RunningCommand,
    reading: impl Future<Output = Result<T, HelperCommandError>>,
) -> Result<CommandExit, HelperCommandError> {
    tokio::pin!(reading);
    tokio::select! {
        biased;
        read = &mut reading => {
            read?;
            Ok(running.wait().await?)
        }
        exit = running.wait() => {
            // A process that still holds the pipes open is not the command; the command's own output has been read
            // already.
            if let Ok(read) = tokio::time::timeout(DRAIN_LIMIT, reading).await {
                read?;
            }
            Ok(exit?)
        }
    }
}

/// Reads all of a pipe, unless that is too much.
async fn read_pipe(
    pipe: Option<&mut Receiver>,
    bytes: &mut Vec<u8>,
    most_bytes: usize,
) -> Result<(), HelperCommandError> {
    let Some(pipe) = pipe else { return Ok(()) };
    // A read error ends the reading; the command's exit is reported separately.
    drop(pipe.take(most_bytes as u64 + 1).read_to_end(bytes).await);
    match bytes.len() > most_bytes {
        true => Err(HelperCommandError::OutputTooLarge { limit_bytes: most_bytes }),
        false => Ok(()),
    }
}

/// Reads the beginning of a pipe and discards the rest, so that the writer is not blocked.
async fn read_prefix_and_drain(pipe: Option<&mut Receiver>, bytes: &mut Vec<u8>) -> Result<(), HelperCommandError> {
    let Some(pipe) = pipe else { return Ok(()) };
    drop((&mut *pipe).take(ERROR_BYTES as u64).read_to_end(bytes).await);
    drop(tokio::io::copy(pipe, &mut tokio::io::sink()).await);
    Ok(())
}

fn first_error_line(bytes: &[u8]) -> Option<String> {
    let text = render_for_model(bytes);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(match line.char_indices().nth(LONGEST_WORDS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    })
}
