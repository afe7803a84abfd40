//! Piped standard input: all of it if the pipe ends, otherwise what has arrived so far, and the rest in batches.
//!
//! Memory is bounded. A producer that is faster than the model blocks in its own `write`, so nothing is dropped. The
//! one exception is the opening of a flooding pipe: telling a file that is too large from an endless pipe takes further
//! reading, and the bytes read for that cannot be kept.

use std::io::{self, Read};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::time::Instant;

/// Maximum size of a finished pipe.
const MAX_INPUT: usize = 10 * 1024 * 1024;
/// Maximum size of the opening of an endless pipe. It is often all there is for a while, and it fits every model.
const MAX_OPENING: usize = 256 * 1024;
/// Maximum size of each later batch.
const MAX_BATCH: usize = 64 * 1024;

/// Timeouts for collecting lines from a pipe that does not end.
#[derive(Clone, Copy, Debug)]
pub struct InputTimeouts {
    /// Silence after which the lines collected so far probably belong together.
    pub quiet: Duration,
    /// Maximum time since collecting began: a busy log is never quiet, and an alert must not wait for its end.
    pub total: Duration,
}

impl InputTimeouts {
    /// Timeouts for the opening. The output of a command that runs for a moment should still arrive whole.
    pub const OPENING: Self = Self { quiet: Duration::from_secs(2), total: Duration::from_secs(5) };
    /// Timeouts for each batch after the opening.
    pub const BATCH: Self = Self { quiet: Duration::from_secs(1), total: Duration::from_secs(5) };
}

const CHUNK: usize = 64 * 1024;
const CHUNKS_AHEAD: usize = 4;

/// Reason why piped input cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StdinError {
    #[error("standard input is larger than 10 MB; pass a file's path in the prompt instead")]
    TooLarge,
    #[error("standard input cannot be read: {0}")]
    Unreadable(io::Error),
}

/// Input read from a pipe at the start.
#[derive(Debug, PartialEq, Eq)]
pub enum InitialInput {
    /// The whole input.
    Whole(String),
    /// The input that arrived before the timeout; more may follow.
    Opening(String),
}

/// Pipe that is being read.
pub struct PipedInput {
    chunks: mpsc::Receiver<io::Result<Vec<u8>>>,
    pending: Vec<u8>,
    /// True once any input has arrived.
    has_received: bool,
    ended: bool,
    /// True if a pipe that is silent all along is waited for.
    follows: bool,
    timeouts: InputTimeouts,
    /// Time when collecting the next batch began. Stored here because waiting for a batch may be cancelled and
    /// restarted at any time.
    collecting_since: Option<Instant>,
}

impl PipedInput {
    /// Starts reading on a separate thread (a blocked `read` cannot be cancelled, only abandoned).
    ///
    /// `patience` applies to the batches after the opening.
    pub fn start(mut source: impl Read + Send + 'static, patience: InputTimeouts) -> io::Result<Self> {
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
        Ok(Self {
            chunks,
            pending: Vec::new(),
            has_received: false,
            ended: false,
            follows: false,
            timeouts: patience,
            collecting_since: None,
        })
    }

    /// Waits for input however long the pipe is silent.
    pub async fn follow(&mut self) {
        self.follows = true;
        if let Some(Ok(chunk)) = self.chunks.recv().await {
            self.push_chunk(chunk);
        }
    }

    /// Returns true if the pipe is open and has been silent all along.
    pub fn is_silent(&self) -> bool {
        !self.has_received && !self.ended
    }

    /// Returns true if any input arrives within the given time; the input is kept.
    pub async fn has_input_within(&mut self, within: Duration) -> bool {
        let ChunkWait::Chunk(Ok(chunk)) = self.next_chunk(within, Instant::now() + within).await else { return false };
        self.push_chunk(chunk);
        true
    }

    /// Reads a pipe that must end, to its end.
    pub async fn read_to_end(&mut self) -> Result<String, StdinError> {
        while let Some(chunk) = self.chunks.recv().await {
            self.push_chunk(chunk.map_err(StdinError::Unreadable)?);
            if self.pending.len() > MAX_INPUT {
                return Err(StdinError::TooLarge);
            }
        }
        Ok(self.take_rest())
    }

    /// Reads to the end or until a timeout. Only then is it known if more than [`MAX_INPUT`] is a file that is too
    /// large or an endless pipe.
    pub async fn read_opening(&mut self, patience: InputTimeouts) -> Result<InitialInput, StdinError> {
        let deadline = Instant::now() + patience.total;
        let mut flood: Option<FloodedInput> = None;
        loop {
            let chunk = match self.next_chunk(patience.quiet, deadline).await {
                ChunkWait::Chunk(chunk) => chunk.map_err(StdinError::Unreadable)?,
                ChunkWait::Ended if flood.is_some() => return Err(StdinError::TooLarge),
                ChunkWait::Ended => return Ok(InitialInput::Whole(self.take_rest())),
                ChunkWait::TimedOut => break,
            };
            match &mut flood {
                None => self.push_chunk(chunk),
                Some(flood) => flood.push_chunk(&chunk),
            }
            if self.pending.len() > MAX_INPUT {
                flood = Some(FloodedInput::new(&std::mem::take(&mut self.pending)));
            }
        }
        Ok(InitialInput::Opening(match flood {
            None => self.take_lines(MAX_OPENING),
            Some(flood) => flood.into_opening(&mut self.pending),
        }))
    }

    /// Returns the next batch of lines, collected until a timeout, or `None` at the end of the pipe.
    pub async fn next_batch(&mut self) -> Option<String> {
        loop {
            if self.pending.len() >= MAX_BATCH {
                return Some(self.take_lines(MAX_BATCH));
            }
            if self.ended {
                let rest = self.take_rest();
                return (!rest.trim().is_empty()).then_some(rest);
            }
            let waited = if self.pending.contains(&b'\n') {
                let since = *self.collecting_since.get_or_insert_with(Instant::now);
                self.next_chunk(self.timeouts.quiet, since + self.timeouts.total).await
            } else {
                self.chunks.recv().await.map_or(ChunkWait::Ended, ChunkWait::Chunk)
            };
            match waited {
                ChunkWait::Chunk(Ok(chunk)) => self.push_chunk(chunk),
                // A broken pipe has ended; the input read so far is kept.
                ChunkWait::Chunk(Err(_)) | ChunkWait::Ended => self.ended = true,
                ChunkWait::TimedOut => return Some(self.take_lines(MAX_BATCH)),
            }
        }
    }

    async fn next_chunk(&mut self, quiet: Duration, deadline: Instant) -> ChunkWait {
        let now = Instant::now();
        // A pipe that always has data would win against any timer.
        if now >= deadline {
            return ChunkWait::TimedOut;
        }
        match tokio::time::timeout_at(deadline.min(now + quiet), self.chunks.recv()).await {
            Ok(chunk) => chunk.map_or(ChunkWait::Ended, ChunkWait::Chunk),
            Err(_) => ChunkWait::TimedOut,
        }
    }

    /// Returns true if there is nothing to wait for: all input was taken and none can follow, or the pipe has been open
    /// and silent all along, as when a program starts gimlet and ignores its input.
    pub fn is_finished(&mut self) -> bool {
        if !self.has_received && !self.ended {
            match self.chunks.try_recv() {
                Ok(Ok(chunk)) => self.push_chunk(chunk),
                Ok(Err(_)) | Err(TryRecvError::Disconnected) => self.ended = true,
                Err(TryRecvError::Empty) => {}
            }
        }
        (!self.has_received && !self.follows) || (self.ended && self.pending.is_empty())
    }

    fn push_chunk(&mut self, chunk: Vec<u8>) {
        self.has_received = true;
        self.pending.extend(chunk);
    }

    /// Takes all remaining input; nothing can follow.
    fn take_rest(&mut self) -> String {
        self.ended = true;
        let rest = std::mem::take(&mut self.pending);
        String::from_utf8_lossy(&rest).into_owned()
    }

    /// Takes whole lines up to a limit; a line longer than the limit is split.
    fn take_lines(&mut self, limit: usize) -> String {
        self.collecting_since = None;
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

/// Result of waiting for the pipe.
enum ChunkWait {
    Chunk(io::Result<Vec<u8>>),
    Ended,
    /// The timeout was reached.
    TimedOut,
}

/// Pipe that delivered more than fits before its end was known: its beginning, its latest bytes, and the number of
/// bytes omitted between them.
struct FloodedInput {
    head: Vec<u8>,
    tail: Vec<u8>,
    left_out: usize,
}

impl FloodedInput {
    const PART: usize = MAX_OPENING / 2;

    fn new(all: &[u8]) -> Self {
        let (head, rest) = all.split_at(all.len().min(Self::PART));
        let head_end = head.iter().rposition(|byte| *byte == b'\n').map_or(head.len(), |last| last + 1);
        let mut flood = Self { head: head[..head_end].to_vec(), tail: Vec::new(), left_out: head.len() - head_end };
        flood.push_chunk(rest);
        flood
    }

    fn push_chunk(&mut self, chunk: &[u8]) {
        self.tail.extend_from_slice(chunk);
        // Twice the part, so that not every chunk moves the retained bytes.
        if self.tail.len() > 2 * Self::PART {
            self.drop_oldest(self.tail.len() - Self::PART);
        }
    }

    fn drop_oldest(&mut self, count: usize) {
        self.left_out += self.tail.drain(..count).count();
    }

    /// Returns the beginning and the latest lines with a note about the omitted part. An incomplete last line goes to
    /// `pending`.
    fn into_opening(mut self, pending: &mut Vec<u8>) -> String {
        let newline = |byte: &u8| *byte == b'\n';
        if let Some(last) = self.tail.iter().rposition(newline) {
            *pending = self.tail.split_off(last + 1);
        }
        self.drop_oldest(self.tail.len().saturating_sub(Self::PART));
        if let Some(first) = self.tail.iter().position(newline)
            && first + 1 < self.tail.len()
        {
            self.drop_oldest(first + 1);
        }
        let Self { head, tail, left_out } = self;
        let (head, tail) = (String::from_utf8_lossy(&head), String::from_utf8_lossy(&tail));
        format!("{}\n[{left_out} bytes came too fast and were left out here]\n{tail}", head.trim_end_matches('\n'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    const LONG: Duration = Duration::from_secs(60);

    fn input_timeouts(quiet: Duration, total: Duration) -> InputTimeouts {
        InputTimeouts { quiet, total }
    }

    fn millis(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    /// Reader that never ends and is never quiet, like `yes`.
    struct EndlessReader;

    impl Read for EndlessReader {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let lines = buffer.len() / 2;
            buffer[..lines * 2].copy_from_slice(&b"y\n".repeat(lines));
            Ok(lines * 2)
        }
    }

    #[tokio::test]
    async fn a_finished_pipe_is_whole() {
        for opening in [true, false] {
            let mut input = PipedInput::start(&b"one\ntwo"[..], InputTimeouts::BATCH).unwrap();
            let text = match opening {
                true => match input.read_opening(InputTimeouts::OPENING).await.unwrap() {
                    InitialInput::Whole(text) => text,
                    InitialInput::Opening(text) => panic!("only the opening: {text}"),
                },
                false => input.read_to_end().await.unwrap(),
            };
            assert_eq!(text, "one\ntwo");
            assert!(input.is_finished());
        }
    }

    #[tokio::test]
    async fn an_endless_pipe_opens_with_what_came_and_goes_on_in_batches() {
        let (mut writer, reader) = UnixStream::pair().unwrap();
        let mut input = PipedInput::start(reader, input_timeouts(millis(20), LONG)).unwrap();
        writer.write_all(b"first\npart").unwrap();
        while !input.pending.ends_with(b"part") {
            let chunk = input.chunks.recv().await.unwrap().unwrap();
            input.push_chunk(chunk);
        }
        let opening = input.read_opening(input_timeouts(millis(20), LONG)).await.unwrap();
        assert_eq!(opening, InitialInput::Opening("first\n".into()));
        writer.write_all(b"ial\nmore\n").unwrap();
        assert_eq!(input.next_batch().await.as_deref(), Some("partial\nmore\n"));
        drop(writer);
        assert_eq!(input.next_batch().await, None);
        assert!(input.is_finished());
    }

    #[tokio::test]
    async fn a_log_that_is_never_quiet_is_passed_on_all_the_same() {
        let (mut writer, reader) = UnixStream::pair().unwrap();
        let mut input = PipedInput::start(reader, input_timeouts(LONG, millis(30))).unwrap();
        let busy = std::thread::spawn(move || {
            // Until the reader is gone.
            for line in 0.. {
                if writeln!(writer, "line {line}").is_err() {
                    return;
                }
                std::thread::yield_now();
            }
        });
        let InitialInput::Opening(mut seen) = input.read_opening(input_timeouts(LONG, millis(30))).await.unwrap()
        else {
            panic!("the pipe has no end");
        };
        for _ in 0..3 {
            let batch = input.next_batch().await.unwrap();
            assert!(batch.len() <= MAX_BATCH);
            seen += &batch;
        }
        drop(input);
        busy.join().unwrap();
        let wanted: String = (0..seen.lines().count()).map(|line| format!("line {line}\n")).collect();
        assert!(seen == wanted, "lines are missing or out of order");
    }

    #[tokio::test]
    async fn giving_up_the_wait_for_a_batch_does_not_begin_it_anew() {
        let (mut writer, reader) = UnixStream::pair().unwrap();
        let mut input = PipedInput::start(reader, input_timeouts(LONG, millis(20))).unwrap();
        writer.write_all(b"a line\n").unwrap();
        let mut given_up = 0;
        let batch = loop {
            match tokio::time::timeout(millis(5), input.next_batch()).await {
                Ok(batch) => break batch,
                Err(_) => given_up += 1,
            }
            assert!(given_up < 1000, "it is never passed on");
        };
        assert_eq!(batch.as_deref(), Some("a line\n"));
    }

    #[tokio::test]
    async fn a_flood_begins_a_turn_with_its_first_and_latest_lines_and_says_what_is_missing() {
        let mut input = PipedInput::start(EndlessReader, InputTimeouts::BATCH).unwrap();
        // Long enough for the flood to exceed the limit on any machine: the time starts once it has.
        while input.pending.len() <= MAX_INPUT {
            let chunk = input.chunks.recv().await.unwrap().unwrap();
            input.push_chunk(chunk);
        }
        let InitialInput::Opening(text) = input.read_opening(input_timeouts(LONG, millis(50))).await.unwrap() else {
            panic!("the pipe has no end");
        };
        assert!(text.len() <= MAX_OPENING + 100, "{} bytes", text.len());
        let (mut notes, lines): (Vec<_>, Vec<_>) = text.lines().partition(|line| line.starts_with('['));
        assert!(lines.iter().all(|line| *line == "y"));
        let note = notes.pop().unwrap();
        let left_out = note.strip_prefix('[').unwrap().strip_suffix(" bytes came too fast and were left out here]");
        assert!(left_out.unwrap().parse::<usize>().unwrap() > MAX_INPUT - 2 * MAX_OPENING, "{note}");
        assert!(notes.is_empty() && !input.is_finished());
        assert_eq!(input.next_batch().await.unwrap().len(), MAX_BATCH);
    }

    #[test]
    fn the_parts_of_a_flood_are_whole_lines_and_what_is_left_out_is_counted() {
        let all: String = (0..100_000).map(|line| format!("line {line}\n")).collect();
        let mut flood = FloodedInput::new(&all.as_bytes()[..300_000]);
        for chunk in all.as_bytes()[300_000..].chunks(5_000) {
            flood.push_chunk(chunk);
        }
        flood.push_chunk(b"unfini");
        let mut pending = Vec::new();
        let opening = flood.into_opening(&mut pending);
        assert_eq!(pending, b"unfini");
        let (head, rest) = opening.split_once("\n[").unwrap();
        let (left_out, tail) = rest.split_once(" bytes came too fast and were left out here]\n").unwrap();
        assert!(all.starts_with(&format!("{head}\n")) && all.ends_with(&format!("\n{tail}")));
        assert_eq!(head.len() + 1 + left_out.parse::<usize>().unwrap() + tail.len(), all.len());
    }

    #[tokio::test]
    async fn a_pipe_that_never_speaks_is_not_waited_for() {
        let (writer, reader) = UnixStream::pair().unwrap();
        let mut input = PipedInput::start(reader, InputTimeouts::BATCH).unwrap();
        assert_eq!(
            input.read_opening(input_timeouts(millis(5), LONG)).await.unwrap(),
            InitialInput::Opening(String::new())
        );
        assert!(input.is_finished());
        drop(writer);
    }

    #[tokio::test]
    async fn more_than_the_limit_is_refused_if_it_ends_or_has_to() {
        let large = || io::repeat(b'x').take(MAX_INPUT as u64 + 1);
        let mut input = PipedInput::start(large(), InputTimeouts::BATCH).unwrap();
        assert!(matches!(input.read_opening(input_timeouts(LONG, LONG)).await, Err(StdinError::TooLarge)));
        let mut input = PipedInput::start(large().chain(EndlessReader), InputTimeouts::BATCH).unwrap();
        assert!(matches!(input.read_to_end().await, Err(StdinError::TooLarge)));
    }
}
