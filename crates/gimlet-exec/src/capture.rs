//! Captured output of a command: a bounded part in memory, all of it in a file when it is large, and a count of all
//! bytes.
//!
//! Memory is bounded regardless of the output's size. The file is created only when the output outgrows memory or
//! goes to the background, so an ordinary command touches no disk. Capture never reads from a pipe itself and never
//! kills.

mod spill_file;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use spill_file::SpillFile;

/// Maximum output kept in memory, regardless of the requested limit.
const MAX_INLINE_BYTES: usize = 256 * 1024;
/// Additional bytes kept from the end of the output.
const TAIL_BYTES: usize = 32 * 1024;

/// Limits and destination of captured output.
#[derive(Debug, Clone)]
pub struct CaptureLimits {
    /// Maximum bytes kept in memory without creating a file; at most 256 KiB.
    pub inline_bytes: usize,
    /// File for longer output, which must not exist yet. Missing directories are created.
    pub spill_file: PathBuf,
    /// Size at which the file is truncated while counting goes on.
    pub file_bytes: u64,
    /// A command that prints more than this is killed.
    pub kill_bytes: u64,
}

impl CaptureLimits {
    /// Returns the limits of a foreground command: a file of at most 64 MiB, an end at 5 GB.
    pub fn for_foreground(inline_bytes: usize, spill_file: PathBuf) -> Self {
        Self { inline_bytes, spill_file, file_bytes: 64 * 1024 * 1024, kill_bytes: 5_000_000_000 }
    }
}

/// Everything known about a command's output.
#[derive(Debug, Default)]
pub struct CapturedOutput {
    /// All of the output if it stayed within the inline limit, else its beginning.
    pub head: Vec<u8>,
    /// The last bytes, up to 32 KiB; may overlap with the head.
    pub tail: Vec<u8>,
    pub total_bytes: u64,
    pub total_lines: u64,
    /// The output file, if there is one.
    pub file: Option<PathBuf>,
    /// Number of output bytes in the file.
    pub file_bytes: u64,
    /// Error because of which the file is missing or incomplete.
    pub file_error: Option<std::io::Error>,
}

impl CapturedOutput {
    /// Returns true if `head` is the whole output.
    pub fn is_complete(&self) -> bool {
        self.head.len() as u64 == self.total_bytes
    }
}

/// Progress of a running command's output.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OutputProgress {
    pub total_bytes: u64,
    pub total_lines: u64,
    /// The last lines, oldest first.
    pub last_lines: Vec<String>,
}

/// Counters and the end of the output, readable while another task captures.
#[derive(Debug, Default)]
struct OutputTally {
    total_bytes: u64,
    line_ends: u64,
    /// The end of the output; between one and two times [`TAIL_BYTES`] once there was that much.
    tail: Vec<u8>,
}

impl OutputTally {
    fn add(&mut self, chunk: &[u8]) {
        self.total_bytes += chunk.len() as u64;
        self.line_ends += memchr::memchr_iter(b'\n', chunk).count() as u64;
        if chunk.len() >= TAIL_BYTES {
            self.tail.clear();
        }
        self.tail.extend_from_slice(chunk.get(chunk.len().saturating_sub(TAIL_BYTES)..).unwrap_or_default());
        if self.tail.len() > 2 * TAIL_BYTES {
            self.tail.drain(..self.tail.len() - TAIL_BYTES);
        }
    }

    /// Returns the number of lines, including a last one without a line end.
    fn line_count(&self) -> u64 {
        self.line_ends + u64::from(self.tail.last().is_some_and(|byte| *byte != b'\n'))
    }
}

/// A view on a capture that another task feeds.
#[derive(Debug, Clone, Default)]
pub(crate) struct CaptureMonitor {
    tally: Arc<Mutex<OutputTally>>,
}

impl CaptureMonitor {
    fn lock(&self) -> MutexGuard<'_, OutputTally> {
        // Adding to counters cannot leave them broken, so a panic elsewhere does not matter.
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn progress(&self, lines: usize) -> OutputProgress {
        let tally = self.lock();
        let text = crate::terminal_text::render_for_model(&tally.tail);
        let mut last_lines: Vec<String> = text.lines().rev().take(lines).map(str::to_owned).collect();
        last_lines.reverse();
        OutputProgress { total_bytes: tally.total_bytes, total_lines: tally.line_count(), last_lines }
    }
}

/// Takes output as it comes.
#[derive(Debug)]
pub(crate) struct OutputCapture {
    limits: CaptureLimits,
    head: Vec<u8>,
    gauge: CaptureMonitor,
    spill: SpillFile,
}

impl OutputCapture {
    pub(crate) fn new(mut limits: CaptureLimits) -> Self {
        limits.inline_bytes = limits.inline_bytes.min(MAX_INLINE_BYTES);
        let spill = SpillFile::new(limits.spill_file.clone(), limits.file_bytes);
        Self { limits, head: Vec::new(), gauge: CaptureMonitor::default(), spill }
    }

    pub(crate) fn monitor(&self) -> &CaptureMonitor {
        &self.gauge
    }

    /// Returns the path of the output file.
    pub(crate) fn file(&self) -> &std::path::Path {
        &self.limits.spill_file
    }

    /// Appends one piece of output. Call [`Self::flush_to_file`] before the next.
    pub(crate) fn push(&mut self, chunk: &[u8]) {
        let before = {
            let mut tally = self.gauge.lock();
            let before = tally.total_bytes;
            tally.add(chunk);
            before
        };
        let room = self.limits.inline_bytes - self.head.len();
        let (inline, rest) = chunk.split_at(room.min(chunk.len()));
        self.head.extend_from_slice(inline);
        if self.spill.is_started() {
            self.spill.add(chunk);
        } else if !rest.is_empty() {
            debug_assert!(before <= self.limits.inline_bytes as u64, "all earlier output is in the head");
            self.spill.start(&self.head);
            self.spill.add(rest);
        }
    }

    /// Sends all output to the file from now on, and what came before with it. The file exists afterwards.
    pub(crate) fn move_to_file(&mut self, file_bytes: u64) {
        self.spill.raise_limit(file_bytes);
        if !self.spill.is_started() {
            self.spill.start(&self.head);
            self.spill.open();
        }
    }

    /// Writes pending output to the file. May be dropped and called again without losing or repeating a byte.
    pub(crate) async fn flush_to_file(&mut self) {
        self.spill.flush_pending().await;
    }

    pub(crate) fn is_over_limit(&self) -> bool {
        self.gauge.lock().total_bytes > self.limits.kill_bytes
    }

    /// Finishes the file and returns everything captured.
    pub(crate) async fn finish(&mut self) -> CapturedOutput {
        self.spill.finish().await;
        let tally = self.gauge.lock();
        let tail = tally.tail.get(tally.tail.len().saturating_sub(TAIL_BYTES)..).unwrap_or_default().to_vec();
        let (total_bytes, total_lines) = (tally.total_bytes, tally.line_count());
        drop(tally);
        let (file, file_bytes, file_error) = self.spill.take_outcome();
        let head = std::mem::take(&mut self.head);
        CapturedOutput { head, tail, total_bytes, total_lines, file, file_bytes, file_error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(dir: &tempfile::TempDir) -> CaptureLimits {
        CaptureLimits {
            inline_bytes: 10,
            spill_file: dir.path().join("deep/out.txt"),
            file_bytes: 1000,
            kill_bytes: 5000,
        }
    }

    async fn push_all(capture: &mut OutputCapture, chunks: &[&[u8]]) {
        for chunk in chunks {
            capture.push(chunk);
            capture.flush_to_file().await;
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn short_output_makes_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let mut capture = OutputCapture::new(limits(&dir));
        push_all(&mut capture, &[b"12345", b"67890"]).await;
        let captured = capture.finish().await;
        assert_eq!(captured.head, b"1234567890");
        assert!(captured.is_complete() && captured.file.is_none());
        assert!(!dir.path().join("deep").exists());
    }

    #[tokio::test(flavor = "current_thread")]
    async fn long_output_is_whole_in_a_private_file_and_counted() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let mut capture = OutputCapture::new(limits(&dir));
        push_all(&mut capture, &[b"one\ntwo\n", b"three\nfour"]).await;
        assert_eq!(capture.monitor().progress(2).last_lines, ["three", "four"]);
        let captured = capture.finish().await;
        assert_eq!((captured.total_bytes, captured.total_lines, captured.file_bytes), (18, 4, 18));
        assert_eq!(captured.head, b"one\ntwo\nth");
        let file = captured.file.unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"one\ntwo\nthree\nfour");
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn the_file_is_cut_and_counting_goes_on_until_the_kill_limit() {
        let dir = tempfile::tempdir().unwrap();
        let mut capture = OutputCapture::new(limits(&dir));
        let chunk = [b'x'; 700];
        push_all(&mut capture, &[&chunk, &chunk]).await;
        assert!(!capture.is_over_limit());
        push_all(&mut capture, &[chunk.as_slice(); 6]).await;
        assert!(capture.is_over_limit());
        let captured = capture.finish().await;
        assert_eq!((captured.total_bytes, captured.file_bytes), (5600, 1000));
        assert_eq!(std::fs::metadata(captured.file.unwrap()).unwrap().len(), 1000);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn an_existing_file_is_never_written_to() {
        let dir = tempfile::tempdir().unwrap();
        let mut limits = limits(&dir);
        limits.spill_file = dir.path().join("taken");
        std::fs::write(&limits.spill_file, "precious").unwrap();
        let mut capture = OutputCapture::new(limits);
        push_all(&mut capture, &[&[b'x'; 100]]).await;
        let captured = capture.finish().await;
        assert_eq!(captured.file_error.unwrap().kind(), std::io::ErrorKind::AlreadyExists);
        assert_eq!(captured.total_bytes, 100);
        assert!(captured.file.is_none());
        assert_eq!(std::fs::read(dir.path().join("taken")).unwrap(), b"precious");
    }
}
