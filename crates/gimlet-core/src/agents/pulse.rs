//! When a conversation last got on with its work, so that one that has stalled can be told from one that waits for a
//! person.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// A conversation's sign of life. Work of its subagents counts as its own.
#[derive(Default)]
pub(crate) struct Pulse {
    state: Mutex<State>,
    above: Option<Arc<Pulse>>,
}

#[derive(Default)]
struct State {
    last: Option<Instant>,
    /// How many questions wait for a person.
    asking: usize,
}

impl Pulse {
    /// That of a subagent.
    pub(crate) fn within(above: &Arc<Pulse>) -> Self {
        Self { state: Mutex::default(), above: Some(above.clone()) }
    }

    /// Something happened.
    pub(crate) fn beat(&self) {
        self.change(|state| state.last = Some(Instant::now()));
    }

    /// A question is put to a person, who may take any time; until the guard is dropped nothing counts as stalled.
    pub(crate) fn asking(self: &Arc<Self>) -> Asking {
        self.change(|state| state.asking += 1);
        Asking(self.clone())
    }

    /// Waits until nothing has happened for so long.
    pub(crate) async fn stalls_for(&self, limit: Duration) {
        loop {
            let quiet = self.quiet();
            if quiet >= limit {
                return;
            }
            tokio::time::sleep(limit - quiet).await;
        }
    }

    fn quiet(&self) -> Duration {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if state.asking > 0 {
            state.last = Some(now);
        }
        now.duration_since(*state.last.get_or_insert(now))
    }

    fn change(&self, change: impl Fn(&mut State)) {
        let mut pulse = Some(self);
        while let Some(one) = pulse {
            change(&mut one.state.lock().unwrap_or_else(PoisonError::into_inner));
            pulse = one.above.as_deref();
        }
    }
}

/// A question that waits for a person.
pub(crate) struct Asking(Arc<Pulse>);

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.change(|state| {
            state.asking -= 1;
            state.last = Some(Instant::now());
        });
    }
}
