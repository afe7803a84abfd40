//! Transport to a program of its own: one JSON-RPC message per line, on pipes under custody.
//!
//! The program's processes end with the connection, with the session, and with gimlet itself. Lines are limited, so a
//! program that never ends one cannot fill the memory. Standard error is drained, and its end kept for error messages.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gimlet_exec::{CommandExit, Exec, ExecError, RunningCommand, SpawnRequest};
use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe;
use tokio::task::JoinSet;

use crate::server_signals::ServerSignals;
use crate::server_text::sanitize_error_output;

/// Maximum length of one message.
const MAX_LINE_BYTES: usize = 16 << 20;
/// Bytes kept of the end of standard error.
const KEPT_ERROR_BYTES: usize = 8 << 10;
/// Time for a program to end after its standard input was closed, before it is terminated.
const CLOSE_LIMIT: Duration = Duration::from_millis(500);
/// Time between SIGTERM and SIGKILL.
const KILL_GRACE: Duration = Duration::from_millis(500);
/// Time for the exit and the last lines of standard error to arrive once standard output has ended.
const EXIT_LIMIT: Duration = Duration::from_millis(500);
/// Maximum number of lines in a row that are no messages.
const MOST_NOISE: usize = 1_000;

/// Transport over the pipes of a program.
pub(crate) struct StdioTransport {
    output: BufReader<pipe::Receiver>,
    input: Arc<tokio::sync::Mutex<Option<pipe::Sender>>>,
    line: Vec<u8>,
    running: RunningCommand,
    errors: Arc<Mutex<VecDeque<u8>>>,
    /// Drains standard error; ends with this value.
    drain: JoinSet<()>,
    signals: Arc<ServerSignals>,
}

impl StdioTransport {
    /// Starts the program.
    pub(crate) async fn start(
        exec: &Exec,
        spawn: SpawnRequest,
        signals: Arc<ServerSignals>,
    ) -> Result<Self, ExecError> {
        let mut running = exec.spawn(spawn).await?;
        let errors = Arc::new(Mutex::new(VecDeque::new()));
        let mut drain = JoinSet::new();
        if let Some(pipe) = running.errors.take() {
            drain.spawn(drain_errors(pipe, errors.clone()));
        }
        let input = Arc::new(tokio::sync::Mutex::new(running.stdin.take()));
        let output = running.output.take().ok_or(ExecError::CustodianDied)?;
        let output = BufReader::new(output);
        Ok(Self { output, input, line: Vec::new(), running, errors, drain, signals })
    }

    /// Reads up to the end of a line into the buffer. Returns false at the end of the output. Can be dropped and
    /// called again.
    async fn read_line(&mut self) -> Result<bool, LineError> {
        loop {
            let available = self.output.fill_buf().await.map_err(LineError::Io)?;
            if available.is_empty() {
                return Ok(false);
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let count = end.map_or(available.len(), |at| at + 1);
            if self.line.len() + count > MAX_LINE_BYTES {
                return Err(LineError::TooLong);
            }
            self.line.extend_from_slice(&available[..count]);
            self.output.consume(count);
            if end.is_some() {
                return Ok(true);
            }
        }
    }

    /// Returns the reason for which the program can be read no more.
    async fn describe_end(&mut self) -> String {
        let exit = tokio::time::timeout(EXIT_LIMIT, self.running.wait()).await;
        // The pipe ends with the program, unless something that it left behind holds it open.
        drop(tokio::time::timeout(EXIT_LIMIT, async { while self.drain.join_next().await.is_some() {} }).await);
        let what = match exit {
            Ok(Ok(exit)) => describe_exit(exit),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it closed its standard output".to_owned(),
        };
        let said = self.errors.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect::<Vec<u8>>();
        match sanitize_error_output(&said) {
            Some(said) => format!("{what}; its standard error ends with: {said}"),
            None => what,
        }
    }
}

enum LineError {
    Io(io::Error),
    TooLong,
}

fn describe_exit(exit: CommandExit) -> String {
    match (exit.code, exit.signal) {
        (Some(code), _) => format!("it exited with {code}"),
        (None, Some(signal)) => format!("it was ended by signal {signal}"),
        (None, None) => "it ended".to_owned(),
    }
}

/// Reads standard error to its end and keeps its last bytes.
async fn drain_errors(mut pipe: pipe::Receiver, kept: Arc<Mutex<VecDeque<u8>>>) {
    let mut chunk = vec![0; 4096];
    while let Ok(count @ 1..) = pipe.read(&mut chunk).await {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(&chunk[..count]);
        let beyond = kept.len().saturating_sub(KEPT_ERROR_BYTES);
        kept.drain(..beyond);
    }
}

impl Transport<RoleClient> for StdioTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let input = self.input.clone();
        async move {
            let mut line = serde_json::to_vec(&item)?;
            line.push(b'\n');
            // A message that was begun is finished, or the next one would be a part of it.
            let mut input = input.lock_owned().await;
            let pipe = input.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
            let written = pipe.write_all(&line).await;
            if written.is_err() {
                *input = None;
            }
            written
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let mut noise = 0;
        loop {
            match self.read_line().await {
                Ok(true) => {}
                Ok(false) => {
                    let reason = self.describe_end().await;
                    self.signals.set_end_reason(reason);
                    return None;
                }
                Err(LineError::TooLong) => {
                    let limit = MAX_LINE_BYTES >> 20;
                    self.signals.set_end_reason(format!("it sent a message of more than {limit} MB"));
                    return None;
                }
                Err(LineError::Io(error)) => {
                    self.signals.set_end_reason(format!("its output cannot be read: {error}"));
                    return None;
                }
            }
            let line = std::mem::take(&mut self.line);
            if let Ok(message) = serde_json::from_slice(&line) {
                return Some(message);
            }
            // Many programs print something of their own first; a program that prints nothing else is no server.
            if !line.trim_ascii().is_empty() {
                noise += 1;
                self.signals.add_log_line(format!(
                    "printed a line that is no message: {}",
                    sanitize_error_output(&line[..line.len().min(200)]).unwrap_or_default()
                ));
            }
            if noise == MOST_NOISE {
                self.signals.set_end_reason("it prints lines that are no messages on its standard output".to_owned());
                return None;
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        // A writer that is stuck holds the lock; the program is ended all the same.
        if let Ok(mut input) = self.input.try_lock() {
            *input = None;
        }
        drop(tokio::time::timeout(CLOSE_LIMIT, self.running.wait()).await);
        self.running.kill(KILL_GRACE).await;
        Ok(())
    }
}
