//! Which model a request goes to: the wanted one, or one that stands in for it until the person's next prompt.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use gimlet_proto::{BlockKind, ModelError, ModelErrorKind, ModelRequest, Role};

/// How far each wanted model has been given up in the current turn.
#[derive(Debug, Default)]
pub(crate) struct FallbackState(Mutex<HashMap<String, usize>>);

impl FallbackState {
    /// How many models of the chain are left out. A new prompt begins with the wanted one again.
    pub(crate) fn skipped_models(&self, request: &ModelRequest) -> usize {
        // A count is whole at any moment.
        let mut fallen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if begins_turn(request) {
            fallen.remove(&request.model);
        }
        fallen.get(&request.model).copied().unwrap_or(0)
    }

    /// The rest of the turn begins at this place of the chain.
    pub(crate) fn set_position(&self, request: &ModelRequest, place: usize) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(request.model.clone(), place);
    }
}

/// Whether another model might do what this one could not. What is wrong with the key, the account or the request
/// itself would be wrong with any.
pub(crate) fn may_fall_back(error: &ModelError) -> bool {
    matches!(error.kind, ModelErrorKind::Overloaded | ModelErrorKind::Server | ModelErrorKind::ModelNotFound)
}

/// Whether the person spoke last; results of calls go on with the turn.
fn begins_turn(request: &ModelRequest) -> bool {
    let since_reply = request.messages.iter().rev().take_while(|message| message.role == Role::User);
    !since_reply.flat_map(|message| &message.blocks).any(|block| block.kind() == BlockKind::ToolResult)
}
