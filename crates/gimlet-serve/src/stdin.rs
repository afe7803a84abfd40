//! What is piped in: all of it when it ends, or what came so far when it does not, and the rest in batches.
//!
//! Nothing is dropped and memory is bounded: a producer that is faster than the model waits in its own `write`.

use std::io::{self, Read};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TryRecvError;

/// The most that a finished pipe may hold.
const MAX_INPUT: usize = 10 * 1024 * 1024;
/// The most that one batch of an endless pipe carries.
const MAX_BATCH: usize = 64 * 1024;
/// How long an endless pipe must be quiet before what came is passed on.
pub const BATCH_QUIET: Duration = Duration::from_secs(1);
const CHUNK: usize = 64 * 1024;
const CHUNKS_AHEAD: usize = 4;

/// Why piped input cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StdinError {
    #[error("standard input is larger than 10 MB; pass a file's path in the prompt instead")]
    TooLarge,
    #[error("standard input cannot be read: {0}")]
    Unreadable(io::Error),
}

/// What a pipe gave at the start.
#[derive(Debug, PartialEq, Eq)]
pub enum Feed {
    /// All there is.
    Whole(String),
    /// What came before it fell quiet; more may follow.
    Opening(String),
}

/// A pipe being read.
pub struct PipedInput {
    chunks: mpsc::Receiver<io::Result<Vec<u8>>>,
    pending: Vec<u8>,
    /// Something has come.
    spoke: bool,
    ended: bool,
    batch_quiet: Duration,
}

impl PipedInput {
    /// Starts reading on a thread of its own (a blocked `read` cannot be cancelled, only abandoned).
    pub fn start(mut source: impl Read + Send + 'static, batch_quiet: Duration) -> io::Result<Self> {
        let (sender, chunks) = mpsc::channel(CHUNKS_AHEAD);
        std::thread::Builder::new().name("stdin".to_owned()).stack_size(128 * 1024).spawn(move || {
            loop {
                let mut chunk = vec![0; CHUNK];
                let read = match source.read(&mut chunk) {
                    Ok(0) => return,
                    Ok(count) => {
                        chunk.truncate(count);
                        Ok(chunk)
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => Err(error),
                };
                let failed = read.is_err();
                if sender.blocking_send(read).is_err() || failed {
                    return;
                }
            }
        })?;
        Ok(Self { chunks, pending: Vec::new(), spoke: false, ended: false, batch_quiet })
    }

    /// Reads to the end, or until nothing came for `quiet`.
    pub async fn opening(&mut self, quiet: Duration) -> Result<Feed, StdinError> {
        loop {
            match tokio::time::timeout(quiet, self.chunks.recv()).await {
                Ok(Some(chunk)) => self.take(chunk.map_err(StdinError::Unreadable)?),
                Ok(None) => {
                    self.ended = true;
                    let all = std::mem::take(&mut self.pending);
                    return Ok(Feed::Whole(String::from_utf8_lossy(&all).into_owned()));
                }
                Err(_) => return Ok(Feed::Opening(self.take_lines(usize::MAX))),
            }
            if self.pending.len() > MAX_INPUT {
                return Err(StdinError::TooLarge);
            }
        }
    }

    /// The next batch of lines: what came until the pipe fell quiet. `None` at the end of the pipe.
    pub async fn batch(&mut self) -> Option<String> {
        loop {
            if self.ended {
                let rest = std::mem::take(&mut self.pending);
                let rest = String::from_utf8_lossy(&rest).into_owned();
                return (!rest.trim().is_empty()).then_some(rest);
            }
            if self.pending.len() >= MAX_BATCH {
                return Some(self.take_lines(MAX_BATCH));
            }
            let has_line = self.pending.contains(&b'\n');
            let chunk = if has_line {
                match tokio::time::timeout(self.batch_quiet, self.chunks.recv()).await {
                    Ok(chunk) => chunk,
                    Err(_) => return Some(self.take_lines(MAX_BATCH)),
                }
            } else {
                self.chunks.recv().await
            };
            match chunk {
                Some(Ok(chunk)) => self.take(chunk),
                // A pipe that breaks has ended; what it gave is kept.
                Some(Err(_)) | None => self.ended = true,
            }
        }
    }

    /// Whether there is nothing to wait for: everything was taken and nothing can follow, or the pipe has been open and
    /// silent all along, as when a program starts gimlet and never thinks of its input.
    pub fn is_over(&mut self) -> bool {
        if !self.spoke && !self.ended {
            match self.chunks.try_recv() {
                Ok(Ok(chunk)) => self.take(chunk),
                Ok(Err(_)) | Err(TryRecvError::Disconnected) => self.ended = true,
                Err(TryRecvError::Empty) => {}
            }
        }
        !self.spoke || (self.ended && self.pending.is_empty())
    }

    fn take(&mut self, chunk: Vec<u8>) {
        self.spoke = true;
        self.pending.extend(chunk);
    }

    /// Takes whole lines up to a limit; a line longer than the limit is split.
    fn take_lines(&mut self, limit: usize) -> String {
        let window = &self.pending[..self.pending.len().min(limit)];
        let end = match window.iter().rposition(|byte| *byte == b'\n') {
            Some(last) => last + 1,
            None => window.len(),
        };
        let rest = self.pending.split_off(end);
        let taken = std::mem::replace(&mut self.pending, rest);
        String::from_utf8_lossy(&taken).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[tokio::test]
    async fn a_finished_pipe_is_whole() {
        let mut input = PipedInput::start(&b"one\ntwo"[..], BATCH_QUIET).unwrap();
        assert_eq!(input.opening(Duration::from_secs(5)).await.unwrap(), Feed::Whole("one\ntwo".into()));
        assert!(input.is_over());
    }

    #[tokio::test]
    async fn an_endless_pipe_opens_with_what_came_and_goes_on_in_batches() {
        let (mut writer, reader) = UnixStream::pair().unwrap();
        let mut input = PipedInput::start(reader, Duration::from_millis(20)).unwrap();
        writer.write_all(b"first\npart").unwrap();
        while !input.pending.ends_with(b"part") {
            let chunk = input.chunks.recv().await.unwrap().unwrap();
            input.take(chunk);
        }
        assert_eq!(input.opening(Duration::from_millis(20)).await.unwrap(), Feed::Opening("first\n".into()));
        writer.write_all(b"ial\nmore\n").unwrap();
        assert_eq!(input.batch().await.as_deref(), Some("partial\nmore\n"));
        drop(writer);
        assert_eq!(input.batch().await, None);
        assert!(input.is_over());
    }

    #[tokio::test]
    async fn a_pipe_that_never_speaks_is_not_waited_for() {
        let (writer, reader) = UnixStream::pair().unwrap();
        let mut input = PipedInput::start(reader, BATCH_QUIET).unwrap();
        assert_eq!(input.opening(Duration::from_millis(5)).await.unwrap(), Feed::Opening(String::new()));
        assert!(input.is_over());
        drop(writer);
    }

    #[tokio::test]
    async fn more_than_the_limit_is_refused() {
        let mut input = PipedInput::start(io::repeat(b'x').take(MAX_INPUT as u64 + 1), BATCH_QUIET).unwrap();
        assert!(matches!(input.opening(Duration::from_secs(5)).await, Err(StdinError::TooLarge)));
    }
}
