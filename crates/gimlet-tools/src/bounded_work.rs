//! Blocking work under a timeout and a cancellation token.
//!
//! The work is stopped by a flag that it checks between files and between reads. The caller waits for it only briefly
//! after that: a thread stuck in a dead network mount must not hold up an interrupt.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// Time that a stopped search gets to finish.
const GRACE: Duration = Duration::from_millis(50);

/// A flag that asks work to end early.
#[derive(Clone, Debug, Default)]
pub(crate) struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    pub(crate) fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Raises the flag when the waiting side goes away, whichever way it does.
struct RaiseOnDrop(StopFlag);

impl Drop for RaiseOnDrop {
    fn drop(&mut self) {
        self.0.raise();
    }
}

/// Outcome of bounded work.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BoundedOutcome<T> {
    Finished(T),
    TimedOut,
    Cancelled,
}

/// Runs `work` on a blocking thread until it is done, the time is up or the token is cancelled.
pub(crate) async fn run_bounded<T: Send + 'static>(
    limit: Duration,
    cancel: &CancellationToken,
    work: impl FnOnce(StopFlag) -> T + Send + 'static,
) -> BoundedOutcome<T> {
    let stop = StopFlag::default();
    let raise = RaiseOnDrop(stop.clone());
    let mut running = tokio::task::spawn_blocking(move || work(stop));
    let ending = tokio::select! {
        biased;
        () = cancel.cancelled() => BoundedOutcome::Cancelled,
        done = &mut running => match done {
            Ok(result) => return BoundedOutcome::Finished(result),
            // A panic belongs to the call that caused it; the runtime turns it into a failed result.
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => return BoundedOutcome::Cancelled,
        },
        () = tokio::time::sleep(limit) => BoundedOutcome::TimedOut,
    };
    drop(raise);
    // The late result is dropped; the grace period only lets the work record what it has.
    let _late = tokio::time::timeout(GRACE, running).await;
    ending
}
