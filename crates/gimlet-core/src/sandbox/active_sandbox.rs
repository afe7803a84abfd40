//! The current sandbox. Settings can change it between two commands; a running command keeps the sandbox it started
//! with.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use gimlet_exec::HostJudge;

use super::SessionSandbox;

/// Sandbox of a session, shared by all its conversations.
#[derive(Default)]
pub(crate) struct ActiveSandbox {
    current: Mutex<CurrentSandbox>,
    /// Judge that decides about unlisted hosts.
    judge: OnceLock<Arc<dyn HostJudge>>,
}

#[derive(Default)]
struct CurrentSandbox {
    latest: Option<Arc<SessionSandbox>>,
    is_on: bool,
}

impl ActiveSandbox {
    /// Returns the sandbox for the next command, if it is on.
    pub(crate) fn current(&self) -> Option<Arc<SessionSandbox>> {
        let current = self.lock();
        if current.is_on { current.latest.clone() } else { None }
    }

    /// Returns the last sandbox, even if it is off by now: its commands may have left files behind.
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

    /// Sets the judge that decides about unlisted hosts, for this and later sandboxes.
    pub(crate) fn set_host_judge(&self, judge: Arc<dyn HostJudge>) {
        let judge = self.judge.get_or_init(|| judge);
        if let Some(sandboxing) = self.latest() {
            sandboxing.set_host_judge(judge);
        }
    }

    fn lock(&self) -> MutexGuard<'_, CurrentSandbox> {
        // Values under this lock are only replaced as a whole.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
