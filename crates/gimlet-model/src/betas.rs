//! Opt-in features of the API that travel as values of one header. Data: when a value is sent is decided where its
//! paired body field is written.

/// A beta that gimlet can use by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beta {
    /// Manual thinking between tool calls, on models that do not do so by themselves.
    InterleavedThinking,
    /// `thinking.block_binding`: what happens to thinking of another conversation.
    ThinkingBinding,
    /// `output_config.task_budget`: how much the whole task may take.
    TaskBudget,
}

impl Beta {
    pub(crate) fn value(self) -> &'static str {
        match self {
            Beta::InterleavedThinking => "interleaved-thinking-2025-05-14",
            Beta::ThinkingBinding => "thinking-binding-controls-2026-08-01",
            Beta::TaskBudget => "task-budgets-2026-03-13",
        }
    }
}

/// The header's value: ours first, then the person's, none twice, without `refused` ones. `None` when nothing is left.
pub(crate) fn header(own: &[Beta], extra: &[String], refused: &[String]) -> Option<String> {
    let mut values: Vec<&str> = Vec::new();
    for value in own.iter().map(|beta| beta.value()).chain(extra.iter().map(String::as_str)) {
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
        let value = header(&[Beta::InterleavedThinking], &extra, &["a-2".to_owned()]);
        assert_eq!(value.as_deref(), Some("interleaved-thinking-2025-05-14,b-1"));
        assert_eq!(header(&[], &[], &[]), None);
    }
}
