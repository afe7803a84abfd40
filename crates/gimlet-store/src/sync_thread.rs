//! Syncs records without blocking the conversation: one thread that runs `fdatasync`.
//!
//! Requests that arrive while a sync runs are served together by the next one. The thread ends with its owner.

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll};
use std::thread::JoinHandle;

use tokio::sync::oneshot;

use crate::TranscriptError;
use crate::disk::{Disk, LogFile};

/// Policy for syncing records to stable storage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FsyncMode {
    /// On request (turn end, before effects) and at most a second after a record.
    #[default]
    Turn,
    /// After every record.
    Always,
    Off,
}

/// Resolves when everything written before it was asked for is durable, or cannot be made so.
#[must_use = "nothing is known to be durable before this resolves"]
pub struct SyncFuture {
    state: SyncState,
    path: PathBuf,
}

enum SyncState {
    Done(Option<Result<(), TranscriptError>>),
    Waiting(oneshot::Receiver<Result<(), TranscriptError>>),
}

impl SyncFuture {
    pub(crate) fn ready(result: Result<(), TranscriptError>) -> Self {
        Self { state: SyncState::Done(Some(result)), path: PathBuf::new() }
    }

    /// Waits on this thread; for callers outside an async runtime.
    pub fn wait_blocking(self) -> Result<(), TranscriptError> {
        match self.state {
            SyncState::Done(result) => result.unwrap_or(Ok(())),
            SyncState::Waiting(receiver) => {
                receiver.blocking_recv().unwrap_or_else(|_| Err(thread_ended_error(&self.path)))
            }
        }
    }
}

impl Future for SyncFuture {
    type Output = Result<(), TranscriptError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.state {
            SyncState::Done(result) => Poll::Ready(result.take().unwrap_or(Ok(()))),
            SyncState::Waiting(receiver) => match Pin::new(receiver).poll(context) {
                Poll::Ready(Ok(result)) => Poll::Ready(result),
                Poll::Ready(Err(_)) => Poll::Ready(Err(thread_ended_error(&self.path))),
                Poll::Pending => Poll::Pending,
            },
        }
    }
}

/// Transcript file and new directory entries that are to be synced.
pub(crate) struct SyncTarget {
    pub(crate) file: Arc<dyn LogFile>,
    /// Directories whose new names must be durable too, the innermost first.
    pub(crate) dirs: Vec<PathBuf>,
    pub(crate) path: PathBuf,
}

struct SyncJob {
    what: SyncTarget,
    /// Receiver of the result; `None` when no caller waits for it.
    reply: Option<oneshot::Sender<Result<(), TranscriptError>>>,
}

/// Thread that syncs one transcript.
pub(crate) struct SyncThread {
    jobs: Option<mpsc::Sender<SyncJob>>,
    thread: Option<JoinHandle<()>>,
}

impl SyncThread {
    pub(crate) fn start(disk: Arc<dyn Disk>) -> io::Result<Self> {
        let (jobs, queue) = mpsc::channel::<SyncJob>();
        let thread =
            std::thread::Builder::new().name("transcript-sync".into()).spawn(move || run_sync_jobs(&*disk, &queue))?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    pub(crate) fn request_sync(&self, what: SyncTarget) -> SyncFuture {
        let (reply, receiver) = oneshot::channel();
        let path = what.path.clone();
        match self.jobs.as_ref().map(|jobs| jobs.send(SyncJob { what, reply: Some(reply) })) {
            Some(Ok(())) => SyncFuture { state: SyncState::Waiting(receiver), path },
            _ => SyncFuture::ready(Err(thread_ended_error(&path))),
        }
    }

    /// Requests a sync without waiting. A failure is returned by the next request that waits.
    pub(crate) fn request_sync_detached(&self, what: SyncTarget) {
        if let Some(jobs) = &self.jobs {
            // A thread that has ended is reported to the next request that waits.
            drop(jobs.send(SyncJob { what, reply: None }));
        }
    }
}

impl Drop for SyncThread {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic in the thread has already been answered: its waiting requests saw the channel close.
            drop(thread.join());
        }
    }
}

fn run_sync_jobs(disk: &dyn Disk, queue: &mpsc::Receiver<SyncJob>) {
    // Directories stay here until a sync of them has succeeded.
    let mut dirs = Vec::new();
    // The system reports a failure once. If no request waited for it, the next one that does gets it.
    let mut untold: Option<TranscriptError> = None;
    while let Ok(first) = queue.recv() {
        let mut batch = vec![first];
        batch.extend(queue.try_iter());
        let result = sync_batch(disk, &mut batch, &mut dirs);
        let result = untold.take().map_or(result, Err);
        let mut told = false;
        for reply in batch.into_iter().filter_map(|job| job.reply) {
            told |= reply.send(result.clone()).is_ok();
        }
        untold = if told { None } else { result.err() };
    }
}

fn sync_batch(disk: &dyn Disk, batch: &mut [SyncJob], dirs: &mut Vec<PathBuf>) -> Result<(), TranscriptError> {
    for job in batch.iter_mut() {
        dirs.append(&mut job.what.dirs);
    }
    // All jobs of one queue are about one file, so the newest descriptor covers all of them.
    let Some(SyncJob { what, .. }) = batch.last() else { return Ok(()) };
    let fail = |source| TranscriptError::Sync { path: what.path.clone(), source: Arc::new(source) };
    what.file.sync_data().map_err(fail)?;
    dirs.iter().try_for_each(|dir| disk.sync_dir(dir)).map_err(fail)?;
    dirs.clear();
    Ok(())
}

fn thread_ended_error(path: &std::path::Path) -> TranscriptError {
    TranscriptError::Sync { path: path.to_owned(), source: Arc::new(io::Error::other("the sync thread has ended")) }
}
