//! Line output on a separate thread, for a consumer that may be slow or gone.

use std::io::{self, Write};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

/// Maximum number of queued lines; beyond it the front end waits for the consumer.
const QUEUE: usize = 1_024;

/// Final state of an output.
#[derive(Debug)]
pub enum OutputEnd {
    /// Everything was written.
    Complete,
    /// The consumer went away.
    Closed,
    /// The consumer was too slow.
    Late,
    Failed(io::Error),
}

/// A writer of lines.
pub struct LineOutput {
    lines: mpsc::Sender<Vec<u8>>,
    closed: watch::Receiver<bool>,
    done: oneshot::Receiver<OutputEnd>,
    thread: Option<JoinHandle<()>>,
}

impl LineOutput {
    /// Starts a thread that owns `sink`.
    pub fn new(sink: impl Write + Send + 'static) -> io::Result<Self> {
        let (lines, mut queue) = mpsc::channel::<Vec<u8>>(QUEUE);
        let (closed_flag, closed) = watch::channel(false);
        let (done_sender, done) = oneshot::channel();
        let thread = std::thread::Builder::new().name("output".to_owned()).stack_size(128 * 1024).spawn(move || {
            let mut sink = sink;
            let mut end = OutputEnd::Complete;
            while let Some(line) = queue.blocking_recv() {
                if let Err(error) = sink.write_all(&line).and_then(|()| sink.flush()) {
                    let gone = error.kind() == io::ErrorKind::BrokenPipe;
                    end = if gone { OutputEnd::Closed } else { OutputEnd::Failed(error) };
                    closed_flag.send_replace(true);
                    break;
                }
            }
            // The front end may have stopped waiting; the outcome is then irrelevant.
            drop(done_sender.send(end));
        })?;
        Ok(Self { lines, closed, done, thread: Some(thread) })
    }

    /// Queues a line, waiting while the queue is full. Returns true if the consumer is still there.
    pub async fn line(&self, line: Vec<u8>) -> bool {
        self.lines.send(line).await.is_ok()
    }

    /// Queues remarks for the user, one line each.
    pub async fn queue_remarks(&self, remarks: &[String]) {
        for remark in remarks {
            // A remark may quote untrusted files, so it is sanitised and kept on one line.
            let remark = crate::sanitise(remark).replace('\n', " ");
            self.line(format!("gimlet: {remark}\n").into_bytes()).await;
        }
    }

    /// Resolves when the consumer has gone away.
    pub async fn gone(&self) {
        let mut closed = self.closed.clone();
        if closed.wait_for(|closed| *closed).await.is_err() {
            // The thread ended normally: the consumer did not go away.
            std::future::pending::<()>().await;
        }
    }

    /// Waits until everything is written, at most for `limit` if there is one.
    pub async fn finish(mut self, limit: Option<Duration>) -> OutputEnd {
        drop(self.lines);
        let done = match limit {
            Some(limit) => tokio::time::timeout(limit, self.done).await.ok(),
            None => Some(self.done.await),
        };
        match done {
            Some(Ok(end)) => {
                if let Some(thread) = self.thread.take() {
                    // The thread has already reported its result; joining cannot take long or fail.
                    drop(thread.join());
                }
                end
            }
            Some(Err(_)) | None => OutputEnd::Late,
        }
    }
}
