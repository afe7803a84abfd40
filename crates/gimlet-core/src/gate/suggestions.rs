//! Suggested permanent answers to a question, as changes that an answer can contain: the user decides whether to apply
//! them.

use std::sync::Arc;

use gimlet_policy::PermissionSuggestion;
use gimlet_proto::SuggestedChange;
use serde_json::value::to_raw_value;

use super::{Gate, sandbox_verdict};
use crate::call::CallScope;
use crate::tool::PreparedCall;

impl Gate {
    /// Returns the changes that would answer the question permanently.
    pub(super) fn suggestions(&self, scope: &CallScope, prepared: &PreparedCall) -> Vec<SuggestedChange> {
        let placement = sandbox_verdict(scope, prepared, scope.services.active_sandbox().current().as_deref());
        let found = self.with_policy_input(scope, placement, |judging| match prepared.confinement_denial {
            Some(_) => judging.suggestions_after_confinement(prepared.into()),
            None => judging.suggestions(prepared.into()),
        });
        let change = |suggestion: PermissionSuggestion| {
            let update = to_raw_value(&suggestion.update).ok()?;
            Some(SuggestedChange { covers: suggestion.covers, update: Arc::from(update) })
        };
        found.into_iter().filter_map(change).collect()
    }
}
