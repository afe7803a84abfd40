//! Choice of the model for a request: the requested one, or a fallback until the user's next prompt.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use gimlet_proto::{BlockKind, ModelError, ModelErrorKind, ModelRequest, Role};

/// Position in the fallback chain of each requested model in the current turn.
#[derive(Debug, Default)]
pub(super) struct FallbackState(Mutex<HashMap<String, usize>>);

impl FallbackState {
    /// Returns the number of skipped models of the chain. A new prompt starts with the requested one again.
    pub(super) fn skipped_models(&self, request: &ModelRequest) -> usize {
        // A count is consistent at any moment.
        let mut fallen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if begins_turn(request) {
            fallen.remove(&request.model);
        }
        fallen.get(&request.model).copied().unwrap_or(0)
    }

    /// Sets the position in the chain for the rest of the turn.
    pub(super) fn set_position(&self, request: &ModelRequest, place: usize) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(request.model.clone(), place);
    }
}

/// Returns true if another model might succeed. Errors of the key, the account or the request itself would recur with
/// any model.
pub(super) fn may_fall_back(error: &ModelError) -> bool {
    matches!(error.kind, ModelErrorKind::Overloaded | ModelErrorKind::Server | ModelErrorKind::ModelNotFound)
}

/// Returns true if the last message is the user's; tool results continue the turn.
fn begins_turn(request: &ModelRequest) -> bool {
    let since_reply = request.messages.iter().rev().take_while(|message| message.role == Role::User);
    !since_reply.flat_map(|message| &message.blocks).any(|block| block.kind() == BlockKind::ToolResult)
}
