//! Barrier until the request for a call is durable on disk. No call has effects before that; preparations need not
//! wait.

use tokio::sync::watch;

/// Signal to the waiting calls. If dropped unused, their waits fail.
#[derive(Debug)]
pub struct DurableSignal(watch::Sender<bool>);

impl DurableSignal {
    /// Creates a signal with the barrier for the waiting calls.
    pub fn pair() -> (Self, DurableBarrier) {
        let (sender, receiver) = watch::channel(false);
        (Self(sender), DurableBarrier(Some(receiver)))
    }

    pub fn mark_durable(self) {
        self.0.send_replace(true);
    }
}

/// Barrier that a call awaits before its first effect. The default does not wait.
#[derive(Clone, Debug, Default)]
pub struct DurableBarrier(Option<watch::Receiver<bool>>);

/// Error of a turn that ended before the record was durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the turn ended before this call was on record")]
pub struct NotDurableError;

impl DurableBarrier {
    /// Blocks the thread until the record is durable. For threads that may block, within the session's runtime.
    pub fn wait(&self) -> Result<(), NotDurableError> {
        let Some(mut receiver) = self.0.clone() else { return Ok(()) };
        let safe = |safe: &bool| *safe;
        if safe(&receiver.borrow()) {
            return Ok(());
        }
        let waited = tokio::runtime::Handle::current().block_on(receiver.wait_for(safe));
        waited.map(drop).map_err(|_| NotDurableError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_call_goes_on_when_its_record_is_safe_and_not_when_the_turn_is_gone() {
        assert_eq!(DurableBarrier::default().wait(), Ok(()));
        for (done, expected) in [(true, Ok(())), (false, Err(NotDurableError))] {
            let (recording, recorded) = DurableSignal::pair();
            let later = recorded.clone();
            let waiting = tokio::task::spawn_blocking(move || recorded.wait());
            tokio::task::yield_now().await;
            assert!(!waiting.is_finished());
            if done {
                recording.mark_durable();
            } else {
                drop(recording);
            }
            assert_eq!(waiting.await.unwrap(), expected);
            assert_eq!(tokio::task::spawn_blocking(move || later.wait()).await.unwrap(), expected);
        }
    }
}
