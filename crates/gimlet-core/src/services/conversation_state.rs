//! State that the calls of one conversation share, and that no other conversation sees.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::agents::ActivityClock;
use crate::past_calls::PastCalls;
use crate::session::SessionState;

/// Working directories and known files, tool states, past calls, results folder and activity of one conversation.
pub(super) struct ConversationState {
    session_state: Mutex<SessionState>,
    tool_states: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
    /// Calls that the conversation made before this run.
    pub(super) past_calls: PastCalls,
    /// Directory for large results and background output, created on first use.
    pub(super) results_dir: PathBuf,
    /// Time of the last progress in this conversation.
    pub(super) activity: Arc<ActivityClock>,
}

impl ConversationState {
    pub(super) fn new(session_state: SessionState, results_dir: PathBuf) -> Self {
        Self {
            session_state: Mutex::new(session_state),
            tool_states: Mutex::default(),
            past_calls: PastCalls::default(),
            results_dir,
            activity: Arc::default(),
        }
    }

    /// Returns the state of a subagent launched from here: it starts in the project directory and knows no files.
    pub(super) fn for_agent(&self, results_dir: PathBuf, past_calls: PastCalls) -> Self {
        let session_state = self.lock().for_agent();
        let activity = Arc::new(ActivityClock::with_parent(&self.activity));
        Self { past_calls, activity, ..Self::new(session_state, results_dir) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, SessionState> {
        self.session_state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the state of a tool, created on first use.
    pub(super) fn tool_state<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let mut states = self.tool_states.lock().unwrap_or_else(PoisonError::into_inner);
        let state = states.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default()));
        // The entry was created from a T under the type id of T, so the downcast succeeds.
        state.clone().downcast::<T>().unwrap_or_default()
    }
}
