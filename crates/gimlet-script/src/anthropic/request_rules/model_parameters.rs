//! Parameters that depend on the model: output size, thinking, effort, tool choice, sampling.

use super::{RuleContext, RuleResult};
use crate::api_error::ApiError;
use crate::spanned_json::SpannedJson;

pub(super) fn check(rules: &RuleContext<'_>) -> RuleResult {
    output_size(rules)?;
    thinking(rules)?;
    effort(rules)?;
    tool_choice(rules)?;
    sampling(rules)
}

fn max_tokens(rules: &RuleContext<'_>) -> Option<u64> {
    rules.root.get("max_tokens").and_then(|node| node.as_u64(rules.text))
}

fn thinking_type<'a>(rules: &'a RuleContext<'_>) -> Option<&'a str> {
    rules.root.get("thinking").filter(|node| !node.is_null()).map(SpannedJson::type_tag)
}

fn output_size(rules: &RuleContext<'_>) -> RuleResult {
    let Some(asked) = max_tokens(rules) else { return Ok(()) };
    let most = rules.profile.max_output;
    if asked > most {
        let model = &rules.profile.id;
        let message = format!("{asked} > {most}, which is the maximum allowed number of output tokens for {model}");
        return Err(ApiError::at("max_tokens", message));
    }
    // Zero only warms the cache, and then no field that shapes an answer is allowed.
    if asked == 0 && rules.root.get("stream").and_then(SpannedJson::as_bool) == Some(true) {
        return Err(ApiError::at("max_tokens", "0 cannot be combined with stream"));
    }
    Ok(())
}

fn thinking(rules: &RuleContext<'_>) -> RuleResult {
    let Some(kind) = thinking_type(rules) else { return Ok(()) };
    if !rules.profile.thinking.iter().any(|allowed| allowed == kind) {
        let message = format!("`thinking.type.{kind}` is not supported for {}", rules.profile.id);
        return Err(ApiError::at("thinking.type", message));
    }
    let field = |name: &str| rules.root.get("thinking").and_then(|node| node.get(name));
    if let Some(display) = field("display") {
        if !matches!(display.as_str(), Some("summarized" | "omitted" | "updates")) {
            return Err(ApiError::at("thinking.display", "Input should be 'summarized', 'omitted' or 'updates'"));
        }
        if matches!(kind, "disabled" | "between_tools") {
            return Err(ApiError::at("thinking.display", format!("not allowed with thinking.type {kind}")));
        }
    }
    if kind == "between_tools" && field("block_binding").is_some() {
        return Err(ApiError::at("thinking.block_binding", "not allowed with thinking.type between_tools"));
    }
    budget(rules, kind, field("budget_tokens"))
}

fn budget(rules: &RuleContext<'_>, kind: &str, budget: Option<&SpannedJson>) -> RuleResult {
    let path = "thinking.budget_tokens";
    match (kind, budget.map(|node| node.as_u64(rules.text))) {
        ("enabled", None) => Err(ApiError::at(path, "Field required")),
        ("enabled", Some(None)) => Err(ApiError::at(path, "Input should be a whole number")),
        ("enabled", Some(Some(tokens))) if tokens < 1024 => {
            Err(ApiError::at(path, "Input should be greater than or equal to 1024"))
        }
        ("enabled", Some(Some(tokens))) => {
            let interleaved = rules.has_beta("interleaved-thinking-2025-05-14");
            let too_large = max_tokens(rules).is_some_and(|most| tokens >= most) && !interleaved;
            if too_large {
                Err(ApiError::invalid("`max_tokens` must be greater than `thinking.budget_tokens`"))
            } else {
                Ok(())
            }
        }
        (_, Some(_)) => Err(ApiError::at(path, format!("not allowed with thinking.type {kind}"))),
        (_, None) => Ok(()),
    }
}

fn effort(rules: &RuleContext<'_>) -> RuleResult {
    let Some(effort) = rules.root.get("output_config").and_then(|node| node.get("effort")) else { return Ok(()) };
    let level = effort.as_str().unwrap_or("");
    if !rules.profile.effort.iter().any(|allowed| allowed == level) {
        let message = format!("effort {level:?} is not supported for {}", rules.profile.id);
        return Err(ApiError::at("output_config.effort", message));
    }
    let off = matches!(thinking_type(rules), Some("disabled" | "between_tools"));
    if off && rules.profile.effort_capped_when_off && matches!(level, "xhigh" | "max") {
        return Err(ApiError::at("output_config.effort", format!("{level} is not supported with thinking off")));
    }
    Ok(())
}

fn tool_choice(rules: &RuleContext<'_>) -> RuleResult {
    let Some(choice) = rules.root.get("tool_choice").filter(|node| !node.is_null()) else { return Ok(()) };
    let kind = choice.type_tag();
    if !matches!(kind, "auto" | "any" | "tool" | "none") {
        return Err(ApiError::at("tool_choice.type", "Input should be 'auto', 'any', 'tool' or 'none'"));
    }
    if kind != "none" && rules.items("tools").is_empty() {
        return Err(ApiError::at("tool_choice", "may only be specified while providing tools"));
    }
    if kind == "tool" {
        let name = choice.str_of("name").unwrap_or("");
        if !rules.items("tools").iter().any(|tool| tool.str_of("name") == Some(name)) {
            return Err(ApiError::at("tool_choice.name", format!("tool {name:?} is not among the tools")));
        }
    }
    if !matches!(kind, "any" | "tool") {
        return Ok(());
    }
    if !rules.profile.forced_tool_choice {
        return Err(ApiError::at("tool_choice.type", format!("{kind} is not supported for {}", rules.profile.id)));
    }
    if thinking_type(rules) == Some("enabled") {
        return Err(ApiError::at("tool_choice.type", "thinking may not be enabled when tool use is forced"));
    }
    Ok(())
}

fn sampling(rules: &RuleContext<'_>) -> RuleResult {
    for field in ["temperature", "top_p", "top_k"] {
        if !rules.has(field) {
            continue;
        }
        if rules.is_new_version() {
            return Err(ApiError::at(field, "not supported under anthropic-version 2026-10-21"));
        }
        if !rules.profile.sampling {
            return Err(ApiError::at(field, format!("not supported for {}", rules.profile.id)));
        }
    }
    Ok(())
}
