//! Foreground calls that can continue in the background on request, one by one or all together.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gimlet_proto::{AgentPath, ToolUseId};
use tokio_util::sync::CancellationToken;

use crate::tool::ToolContext;

/// Calls of a session that can be moved to the background. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct BackgroundableCalls {
    calls: Arc<Mutex<Vec<BackgroundableCall>>>,
    next: Arc<AtomicU64>,
}

struct BackgroundableCall {
    /// Own number, as call ids are unique only within their conversation.
    number: u64,
    call: ToolUseId,
    agent: AgentPath,
    wish: CancellationToken,
}

impl BackgroundableCalls {
    /// Requests that this call, or all calls of the main conversation, continue in the background, together with the
    /// calls of their subagents. Returns true if there was any.
    pub(crate) fn request_background(&self, call: Option<&ToolUseId>) -> bool {
        let is_meant = |entry: &&BackgroundableCall| match call {
            Some(call) => entry.call == *call,
            None => entry.agent == AgentPath::default(),
        };
        let calls = self.lock();
        let meant = calls.iter().filter(is_meant);
        meant.map(|entry| entry.wish.cancel()).count() > 0
    }

    fn lock(&self) -> MutexGuard<'_, Vec<BackgroundableCall>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Guard of a movable call; the call can be moved as long as the guard exists.
pub struct BackgroundingGuard {
    number: u64,
    wish: CancellationToken,
    calls: BackgroundableCalls,
}

impl BackgroundingGuard {
    /// Waits until the user moves the call to the background.
    pub async fn wait_for_request(&self) {
        self.wish.cancelled().await;
    }
}

impl Drop for BackgroundingGuard {
    fn drop(&mut self) {
        self.calls.lock().retain(|entry| entry.number != self.number);
    }
}

impl ToolContext {
    /// Registers this call as movable to the background. If background work is disabled, no request will come.
    pub fn allow_backgrounding(&self) -> BackgroundingGuard {
        let calls = self.services.backgroundable_calls().clone();
        let moving = BackgroundingGuard {
            number: calls.next.fetch_add(1, Ordering::Relaxed),
            wish: CancellationToken::new(),
            calls,
        };
        if !self.services.env().flag("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS") {
            moving.calls.lock().push(BackgroundableCall {
                number: moving.number,
                call: self.call.clone(),
                agent: self.agent.clone(),
                wish: moving.wish.clone(),
            });
        }
        moving
    }
}
