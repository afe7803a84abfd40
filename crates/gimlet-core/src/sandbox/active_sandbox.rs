//! The walls that hold at the moment. Settings can change them between two commands; a command that runs keeps the walls
//! it began with.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use gimlet_exec::HostJudge;

use super::SessionSandbox;

/// The walls of a session, shared by all its conversations.
#[derive(Default)]
pub(crate) struct ActiveSandbox {
    current: Mutex<CurrentSandbox>,
    /// Decides about hosts that are on no list.
    judge: OnceLock<Arc<dyn HostJudge>>,
}

#[derive(Default)]
struct CurrentSandbox {
    latest: Option<Arc<SessionSandbox>>,
    is_on: bool,
}

impl ActiveSandbox {
    /// The walls for the next command.
    pub(crate) fn current(&self) -> Option<Arc<SessionSandbox>> {
        let current = self.lock();
        current.latest.clone().filter(|_| current.is_on)
    }

    /// The walls that there were last, also when they are off by now: commands behind them may have left traces.
    pub(crate) fn latest(&self) -> Option<Arc<SessionSandbox>> {
        self.lock().latest.clone()
    }

    pub(crate) fn replace(&self, sandboxing: Option<Arc<SessionSandbox>>) {
        if let (Some(sandboxing), Some(judge)) = (&sandboxing, self.judge.get()) {
            sandboxing.set_host_judge(judge);
        }
        let mut current = self.lock();
        current.is_on = sandboxing.is_some();
        current.latest = sandboxing.or(current.latest.take());
    }

    /// Lets the gate decide about hosts that are on no list, now and behind later walls.
    pub(crate) fn set_host_judge(&self, judge: Arc<dyn HostJudge>) {
        let judge = self.judge.get_or_init(|| judge);
        if let Some(sandboxing) = self.latest() {
            sandboxing.set_host_judge(judge);
        }
    }

    fn lock(&self) -> MutexGuard<'_, CurrentSandbox> {
        // Only whole values are swapped under this lock.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
