//! Whether the request for a call is safe on disk. Nothing changes the world before it is; what only makes a change ready
//! need not wait for that.

use tokio::sync::watch;

/// Tells those that wait. Dropped without a word, it tells them that nothing is safe.
#[derive(Debug)]
pub struct DurableSignal(watch::Sender<bool>);

impl DurableSignal {
    /// With what the calls get that wait for it.
    pub fn pair() -> (Self, DurableBarrier) {
        let (sender, receiver) = watch::channel(false);
        (Self(sender), DurableBarrier(Some(receiver)))
    }

    pub fn mark_durable(self) {
        self.0.send_replace(true);
    }
}

/// What a call waits for before its first effect. The default has nothing to wait for.
#[derive(Clone, Debug, Default)]
pub struct DurableBarrier(Option<watch::Receiver<bool>>);

/// The turn ended before the record was safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the turn ended before this call was on record")]
pub struct NotDurableError;

impl DurableBarrier {
    /// Blocks the thread until the record is safe. For threads that may block, within the session's runtime.
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
