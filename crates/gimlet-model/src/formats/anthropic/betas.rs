//! Opt-in features of the API, sent as values of one header. Data: each value and its condition, in one table.
//!
//! A value and the body member that it unlocks are sent together or not at all: one alone would be refused or have no
//! effect.

use super::request::ThinkingField;
use crate::catalogue::ThinkingSupport;

/// Beta feature that gimlet can enable itself.
#[derive(Debug)]
pub(crate) struct BetaFeature {
    /// Value in the header.
    pub(crate) value: &'static str,
    /// Returns true if a request needs it.
    pub(crate) wanted: fn(&BetaConditions) -> bool,
}

impl PartialEq for BetaFeature {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

/// Conditions that decide which betas are sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BetaConditions {
    pub(crate) thinks: ThinkingSupport,
    pub(crate) thinking: Option<ThinkingField>,
    /// True if the user lets models think between calls.
    pub(crate) interleaves: bool,
    pub(crate) has_task_budget: bool,
}

/// Manual thinking between tool calls, on models that do not do so by themselves. Unlocks no member.
pub(crate) static INTERLEAVED_THINKING: BetaFeature = BetaFeature {
    value: "interleaved-thinking-2025-05-14",
    wanted: |now| {
        let by_budget = matches!(now.thinking, Some(ThinkingField::Enabled { .. }));
        by_budget && now.interleaves && now.thinks == ThinkingSupport::Manual { interleaved: true }
    },
};

/// `thinking.block_binding`: the handling of thinking from another conversation.
pub(crate) static THINKING_BINDING: BetaFeature = BetaFeature {
    value: "thinking-binding-controls-2026-08-01",
    wanted: |now| matches!(now.thinking, Some(ThinkingField::Adaptive { drop_unbound: true, .. })),
};

/// `output_config.task_budget`: the token budget of the whole task.
pub(crate) static TASK_BUDGET: BetaFeature =
    BetaFeature { value: "task-budgets-2026-03-13", wanted: |now| now.has_task_budget };

/// All betas, in the order in which they are sent.
pub(crate) static BETAS: [&BetaFeature; 3] = [&INTERLEAVED_THINKING, &THINKING_BINDING, &TASK_BUDGET];

/// Returns the header's value: our betas first, then the user's, without duplicates and `refused` ones. `None` when
/// nothing is left.
pub(crate) fn header_value(own: &[&BetaFeature], extra: &[String], refused: &[String]) -> Option<String> {
    let mut values: Vec<&str> = Vec::new();
    for value in own.iter().map(|beta| beta.value).chain(extra.iter().map(String::as_str)) {
        if !values.contains(&value) && !refused.iter().any(|refused| refused == value) {
            values.push(value);
        }
    }
    (!values.is_empty()).then(|| values.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request_wishes::parse_list;

    #[test]
    fn the_header_has_a_stable_order_and_no_repeats() {
        let extra = parse_list(" b-1, interleaved-thinking-2025-05-14 ,,a-2,b-1");
        let value = header_value(&[&INTERLEAVED_THINKING], &extra, &["a-2".to_owned()]);
        assert_eq!(value.as_deref(), Some("interleaved-thinking-2025-05-14,b-1"));
        assert_eq!(header_value(&[], &[], &[]), None);
        let all = "interleaved-thinking-2025-05-14,thinking-binding-controls-2026-08-01,task-budgets-2026-03-13";
        assert_eq!(header_value(&BETAS, &[], &[]).as_deref(), Some(all));
    }
}
