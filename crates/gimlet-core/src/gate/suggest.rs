//! What would answer a question for good, as changes that an answer can bring: for the person, who decides whether to
//! make them.

use std::sync::Arc;

use gimlet_policy::Suggestion;
use gimlet_proto::SuggestedChange;
use serde_json::value::to_raw_value;

use super::{Gate, walls};
use crate::call::CallScope;
use crate::tool::Prepared;

impl Gate {
    /// What would answer the question for good.
    pub(super) fn suggestions(&self, scope: &CallScope, prepared: &Prepared) -> Vec<SuggestedChange> {
        let walls = walls(scope, prepared, scope.services.walls().now().as_deref());
        let found = self.judging(scope, walls, |judging| match prepared.held_back {
            Some(_) => judging.suggestions_after_confinement(prepared.into()),
            None => judging.suggestions(prepared.into()),
        });
        let change = |suggestion: Suggestion| {
            let update = to_raw_value(&suggestion.update).ok()?;
            Some(SuggestedChange { covers: suggestion.covers, update: Arc::from(update) })
        };
        found.into_iter().filter_map(change).collect()
    }
}
