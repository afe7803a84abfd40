//! Time of a conversation's last activity, to distinguish one that has stalled from one that waits for the user.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Activity of a conversation. Activity of its subagents counts as its own.
#[derive(Default)]
pub(crate) struct ActivityClock {
    state: Mutex<ActivityState>,
    above: Option<Arc<ActivityClock>>,
}

#[derive(Default)]
struct ActivityState {
    last: Option<Instant>,
    /// Number of questions that wait for the user.
    asking: usize,
}

impl ActivityClock {
    /// Returns a clock for a subagent.
    pub(crate) fn with_parent(above: &Arc<ActivityClock>) -> Self {
        Self { state: Mutex::default(), above: Some(above.clone()) }
    }

    /// Records activity.
    pub(crate) fn record_activity(&self) {
        self.update_state(|state| state.last = Some(Instant::now()));
    }

    /// Pauses stall detection while the user is asked, who may take any time, until the guard is dropped.
    pub(crate) fn pause_for_ask(self: &Arc<Self>) -> StallPause {
        self.update_state(|state| state.asking += 1);
        StallPause(self.clone())
    }

    /// Waits until nothing has happened for this long.
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
        let mut clock = Some(self);
        while let Some(one) = clock {
            change(&mut one.state.lock().unwrap_or_else(PoisonError::into_inner));
            clock = one.above.as_deref();
        }
    }
}

/// Guard for a question that waits for the user.
pub(crate) struct StallPause(Arc<ActivityClock>);

impl Drop for StallPause {
    fn drop(&mut self) {
        self.0.update_state(|state| {
            state.asking -= 1;
            state.last = Some(Instant::now());
        });
    }
}
