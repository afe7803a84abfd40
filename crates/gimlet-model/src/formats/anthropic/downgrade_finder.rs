//! Refused requests: the part that the server refuses, and the change that it asks for.
//!
//! The server's field path decides first and its wording last, because wording is not stable.

use crate::downgrade::Downgrade;

/// Finds the downgrade for a refused request (status 400); `None` if there is none. `code` is the server's error code.
pub(super) fn find_downgrade(code: Option<&str>, message: &str) -> Option<Downgrade> {
    let text = message.to_ascii_lowercase();
    let by_code = code.and_then(|code| by_field_name(&code.to_ascii_lowercase()));
    by_code.or_else(|| thinking_history(&text)).or_else(|| by_path(&text)).or_else(|| by_wording(&text))
}

fn thinking_history(text: &str) -> Option<Downgrade> {
    if text.contains("bound to a different conversation") {
        return Some(Downgrade::DropUnboundThinking);
    }
    let about_thinking = text.contains("thinking");
    let unchanged = text.contains("cannot be modified");
    let signature = text.contains("signature") && text.contains("invalid");
    (about_thinking && (unchanged || signature)).then_some(Downgrade::StripThinking)
}

/// Finds the downgrade by the member that the server names before the first colon.
fn by_path(text: &str) -> Option<Downgrade> {
    let (path, rest) = text.split_once(": ")?;
    if path.contains(' ') {
        return None;
    }
    let last = path.rsplit('.').next().unwrap_or(path);
    match last {
        "eager_input_streaming" => Some(Downgrade::NoEagerInput),
        "defer_loading" => Some(Downgrade::NoDeferLoading),
        "cache_control" => Some(Downgrade::NoCacheControl),
        "display" if path.starts_with("thinking") => Some(Downgrade::NoThinkingDisplay),
        "block_binding" => Some(Downgrade::StripThinking),
        "task_budget" => Some(Downgrade::NoTaskBudget),
        _ if path.contains("task_budget.") => Some(Downgrade::NoTaskBudget),
        "effort" | "output_config" if mentions_thinking_off(rest) => Some(Downgrade::EffortUpToHigh),
        "effort" | "output_config" => Some(Downgrade::NoEffort),
        "max_tokens" => max_tokens(rest),
        "thinking" | "type" if path.starts_with("thinking") => thinking_mode(rest).or(Some(Downgrade::NoThinkingField)),
        _ => None,
    }
}

fn by_wording(text: &str) -> Option<Downgrade> {
    if let Some(cure) = thinking_mode(text) {
        return Some(cure);
    }
    if text.contains("max_tokens") {
        return max_tokens(text);
    }
    if let Some(cure) = by_field_name(text) {
        return Some(cure);
    }
    if text.contains("effort") {
        return Some(if mentions_thinking_off(text) { Downgrade::EffortUpToHigh } else { Downgrade::NoEffort });
    }
    if text.contains("cache_control") && (text.contains("not permitted") || text.contains("not supported")) {
        return Some(Downgrade::NoCacheControl);
    }
    text.contains("anthropic-beta").then(|| Downgrade::NoBeta(find_beta_value(text)))
}

/// Finds the downgrade by an optional part that the text names unambiguously.
fn by_field_name(text: &str) -> Option<Downgrade> {
    let switches = [
        ("eager_input_streaming", Downgrade::NoEagerInput),
        ("defer_loading", Downgrade::NoDeferLoading),
        ("thinking.display", Downgrade::NoThinkingDisplay),
        ("block_binding", Downgrade::StripThinking),
        ("task_budget", Downgrade::NoTaskBudget),
    ];
    switches.into_iter().find_map(|(name, cure)| text.contains(name).then_some(cure))
}

fn mentions_thinking_off(text: &str) -> bool {
    text.contains("thinking") && (text.contains("disabled") || text.contains("between_tools") || text.contains(" off"))
}

/// Parses «thinking.type.X is not supported»: the first mode named is the refused one.
fn thinking_mode(text: &str) -> Option<Downgrade> {
    let at = text.find("thinking.type.")?;
    let after = &text[at + "thinking.type.".len()..];
    if !text.contains("not supported") && !text.contains("not allowed") {
        return None;
    }
    match after {
        mode if mode.starts_with("adaptive") => Some(Downgrade::ManualThinking),
        mode if mode.starts_with("enabled") => Some(Downgrade::AdaptiveThinking),
        _ => Some(Downgrade::NoThinkingField),
    }
}

/// Parses «A > B …», where B is the limit, and «A + B > C», where C − A is left.
fn max_tokens(text: &str) -> Option<Downgrade> {
    const LEAST_USEFUL: u64 = 4_000;
    let (asked, limit) = text.split_once('>')?;
    let limit = first_number(limit)?;
    match asked.split_once('+') {
        None => (limit > 0).then_some(Downgrade::MaxTokens(limit)),
        Some((prompt, _)) => {
            let left = limit.checked_sub(last_number(prompt)?)?;
            (left >= LEAST_USEFUL).then_some(Downgrade::MaxTokensThisTime(left))
        }
    }
}

fn first_number(text: &str) -> Option<u64> {
    let start = text.find(|c: char| c.is_ascii_digit())?;
    let digits: String =
        text[start..].chars().take_while(|c| c.is_ascii_digit() || *c == ',').filter(|c| *c != ',').collect();
    digits.parse().ok()
}

fn last_number(text: &str) -> Option<u64> {
    let trimmed = text.trim_end();
    let start = trimmed.rfind(|c: char| !c.is_ascii_digit() && c != ',').map_or(0, |at| at + 1);
    first_number(trimmed.get(start..)?)
}

/// Finds a beta value of the form `some-words-2025-01-31`.
fn find_beta_value(text: &str) -> Option<String> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).find_map(|word| {
        let date = word.get(word.len().checked_sub(11)?..)?;
        let looks_dated =
            date.starts_with('-') && date[1..].split('-').all(|part| part.bytes().all(|b| b.is_ascii_digit()));
        (looks_dated && word != "anthropic-beta").then(|| word.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_has_its_cure() {
        let table = [
            ("tools.0.custom.eager_input_streaming: Extra inputs are not permitted", Some(Downgrade::NoEagerInput)),
            ("tools.3.defer_loading: Extra inputs are not permitted", Some(Downgrade::NoDeferLoading)),
            (
                "messages.2.content.0.text.cache_control: Extra inputs are not permitted",
                Some(Downgrade::NoCacheControl),
            ),
            ("thinking.display: Extra inputs are not permitted", Some(Downgrade::NoThinkingDisplay)),
            ("thinking: Extra inputs are not permitted", Some(Downgrade::NoThinkingField)),
            (
                "\"thinking.type.enabled\" is not supported for this model. Use \"thinking.type.adaptive\"",
                Some(Downgrade::AdaptiveThinking),
            ),
            ("thinking.type.adaptive is not supported by this model", Some(Downgrade::ManualThinking)),
            ("thinking.type.disabled is not supported", Some(Downgrade::NoThinkingField)),
            ("output_config.effort: Extra inputs are not permitted", Some(Downgrade::NoEffort)),
            ("effort 'max' is not supported when thinking is disabled", Some(Downgrade::EffortUpToHigh)),
            ("This model does not support the effort parameter", Some(Downgrade::NoEffort)),
            ("output_config.task_budget: Extra inputs are not permitted", Some(Downgrade::NoTaskBudget)),
            ("output_config.task_budget.total: too small", Some(Downgrade::NoTaskBudget)),
            (
                "messages.1.content.0: this block is bound to a different conversation",
                Some(Downgrade::DropUnboundThinking),
            ),
            ("messages.1.content.0: Invalid `signature` in `thinking` block", Some(Downgrade::StripThinking)),
            ("`thinking` blocks in the latest assistant message cannot be modified", Some(Downgrade::StripThinking)),
            ("thinking.block_binding: Extra inputs are not permitted", Some(Downgrade::StripThinking)),
            ("max_tokens: 64000 > 8192, which is the maximum allowed", Some(Downgrade::MaxTokens(8192))),
            (
                "input length and `max_tokens` exceed context limit: 180000 + 32000 > 200000, decrease",
                Some(Downgrade::MaxTokensThisTime(20_000)),
            ),
            ("input length and `max_tokens` exceed context limit: 199000 + 32000 > 200000, decrease", None),
            (
                "Unexpected value(s) `foo-bar-2026-01-02` for the `anthropic-beta` header",
                Some(Downgrade::NoBeta(Some("foo-bar-2026-01-02".into()))),
            ),
            ("invalid anthropic-beta header", Some(Downgrade::NoBeta(None))),
            ("messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1", None),
            ("messages: text content blocks must be non-empty", None),
            ("", None),
        ];
        for (message, cure) in table {
            assert_eq!(find_downgrade(None, message), cure, "{message}");
        }
    }

    #[test]
    fn the_servers_own_code_decides_before_its_words() {
        let words = "This model does not support the effort parameter";
        assert_eq!(find_downgrade(Some("task_budget_not_supported"), words), Some(Downgrade::NoTaskBudget));
        assert_eq!(find_downgrade(Some("invalid_parameter"), words), Some(Downgrade::NoEffort));
    }
}
