//! Opt-in features of the API that travel as values of one header. Data: a value and when it is sent, in one table.
//!
//! A value and the member of the body that it unlocks travel together or not at all: half of it would be refused, or
//! would do nothing.

use crate::catalogue::ThinkingSupport;
use crate::formats::anthropic::ThinkingField;

/// A beta that gimlet can use by itself.
#[derive(Debug)]
pub(crate) struct BetaFeature {
    /// As the header has it.
    pub(crate) value: &'static str,
    /// Whether a request needs it.
    pub(crate) wanted: fn(&BetaConditions) -> bool,
}

impl PartialEq for BetaFeature {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

/// What decides about betas.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BetaConditions {
    pub(crate) thinks: ThinkingSupport,
    pub(crate) thinking: Option<ThinkingField>,
    /// The person lets models think between calls.
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

/// `thinking.block_binding`: what happens to thinking of another conversation.
pub(crate) static THINKING_BINDING: BetaFeature = BetaFeature {
    value: "thinking-binding-controls-2026-08-01",
    wanted: |now| matches!(now.thinking, Some(ThinkingField::Adaptive { drop_unbound: true, .. })),
};

/// `output_config.task_budget`: how much the whole task may take.
pub(crate) static TASK_BUDGET: BetaFeature =
    BetaFeature { value: "task-budgets-2026-03-13", wanted: |now| now.has_task_budget };

/// All of them, in the order in which they are sent.
pub(crate) static BETAS: [&BetaFeature; 3] = [&INTERLEAVED_THINKING, &THINKING_BINDING, &TASK_BUDGET];

/// The header's value: ours first, then the person's, none twice, without `refused` ones. `None` when nothing is left.
pub(crate) fn header_value(own: &[&BetaFeature], extra: &[String], refused: &[String]) -> Option<String> {
    let mut values: Vec<&str> = Vec::new();
    for value in own.iter().map(|beta| beta.value).chain(extra.iter().map(String::as_str)) {
        if !values.contains(&value) && !refused.iter().any(|refused| refused == value) {
            values.push(value);
        }
    }
    (!values.is_empty()).then(|| values.join(","))
}

/// The values of a comma list as people write it.
pub(crate) fn parse_list(text: &str) -> Vec<String> {
    text.split([',', '\n']).map(str::trim).filter(|value| !value.is_empty()).map(ToOwned::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
