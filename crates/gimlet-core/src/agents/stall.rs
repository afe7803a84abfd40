//! When a conversation last got on with its work, so that one that has stalled can be told from one that waits for a
//! person.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// A conversation's sign of life. Work of its subagents counts as its own.
#[derive(Default)]
pub(crate) struct ActivityClock {
    state: Mutex<ActivityState>,
    above: Option<Arc<ActivityClock>>,
}

#[derive(Default)]
struct ActivityState {
    last: Option<Instant>,
    /// How many questions wait for a person.
    asking: usize,
}

impl ActivityClock {
    /// That of a subagent.
    pub(crate) fn with_parent(above: &Arc<ActivityClock>) -> Self {
        Self { state: Mutex::default(), above: Some(above.clone()) }
    }

    /// Something happened.
    pub(crate) fn record_activity(&self) {
        self.update_state(|state| state.last = Some(Instant::now()));
    }

    /// A question is put to a person, who may take any time; until the guard is dropped nothing counts as stalled.
    pub(crate) fn pause_for_ask(self: &Arc<Self>) -> StallPause {
        self.update_state(|state| state.asking += 1);
        StallPause(self.clone())
    }

    /// Waits until nothing has happened for so long.
    pub(crate) async fn wait_for_stall(&self, limit: Duration) {
        loop {
            let quiet = self.idle_time();
            if quiet >= limit {
                return;
            }
            tokio::time::sleep(limit - quiet).await;
        }
    }

    fn idle_time(&self) -> Duration {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if state.asking > 0 {
            state.last = Some(now);
        }
        now.duration_since(*state.last.get_or_insert(now))
    }

    fn update_state(&self, change: impl Fn(&mut ActivityState)) {
        let mut pulse = Some(self);
        while let Some(one) = pulse {
            change(&mut one.state.lock().unwrap_or_else(PoisonError::into_inner));
            pulse = one.above.as_deref();
        }
    }
}

/// A question that waits for a person.
pub(crate) struct StallPause(Arc<ActivityClock>);

impl Drop for StallPause {
    fn drop(&mut self) {
        self.0.update_state(|state| {
            state.asking -= 1;
            state.last = Some(Instant::now());
        });
    }
}
