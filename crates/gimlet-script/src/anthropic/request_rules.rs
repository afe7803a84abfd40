//! Rules that a request must keep, checked at least as strictly as the service checks them.
//!
//! A history bug that the scripted model accepts is a bug that a user meets, so when in doubt a rule here refuses.
//! Every refusal names the rule and the place.

mod cache_markers;
mod content_blocks;
mod fields;
mod message_order;
mod model_parameters;
mod tool_list;

use std::collections::HashSet;

use crate::api_error::ApiError;
use crate::model_capabilities::ModelCapabilities;
use crate::spanned_json::SpannedJson;

/// Blocks that the server issued itself and must therefore accept.
#[derive(Default, Debug)]
pub(crate) struct IssuedBlocks {
    /// Block types that the rules do not know but a script sent.
    pub(crate) odd_types: HashSet<String>,
    /// Canonical last blocks of replies that paused; a history may end with one.
    pub(crate) paused_tails: HashSet<String>,
}

/// Inputs of the rules.
pub(crate) struct RuleContext<'a> {
    pub(crate) text: &'a str,
    pub(crate) root: &'a SpannedJson,
    pub(crate) profile: &'a ModelCapabilities,
    pub(crate) betas: &'a [String],
    /// The value of `anthropic-version`.
    pub(crate) version: &'a str,
    pub(crate) issued: &'a IssuedBlocks,
    /// True if tokens are only counted.
    pub(crate) count_only: bool,
}

type RuleResult = Result<(), ApiError>;

impl RuleContext<'_> {
    fn has_beta(&self, beta: &str) -> bool {
        self.betas.iter().any(|value| value == beta)
    }

    /// The newer API version removed some parameters.
    fn is_new_version(&self) -> bool {
        self.version == "2026-10-21"
    }

    fn items(&self, name: &str) -> &[SpannedJson] {
        self.root.get(name).map(SpannedJson::items).unwrap_or_default()
    }

    fn has(&self, name: &str) -> bool {
        self.root.get(name).is_some_and(|node| !node.is_null())
    }
}

/// Checks everything about one body that does not depend on the conversation's past.
pub(crate) fn check(rules: &RuleContext<'_>) -> RuleResult {
    fields::check(rules)?;
    model_parameters::check(rules)?;
    tool_list::check(rules)?;
    content_blocks::check(rules)?;
    message_order::check(rules)?;
    cache_markers::check(rules)
}

#[cfg(test)]
mod tests;
