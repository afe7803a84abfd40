//! Fields by location: known ones, required ones, and those that need a beta header.

use super::{RuleContext, RuleResult};
use crate::api_error::ApiError;
use crate::spanned_json::{SpannedJson, SpannedJsonKind};

const TOP: &[&str] = &[
    "model",
    "max_tokens",
    "messages",
    "system",
    "tools",
    "tool_choice",
    "stream",
    "thinking",
    "output_config",
    "cache_control",
    "context_management",
    "compaction",
    "metadata",
    "stop_sequences",
    "service_tier",
    "speed",
    "inference_geo",
    "fallbacks",
    "diagnostics",
    "container",
    "temperature",
    "top_p",
    "top_k",
    "mcp_servers",
];

/// Fields that the counting endpoint does not accept.
const NOT_WHEN_COUNTING: &[&str] = &["max_tokens", "stream", "metadata", "stop_sequences", "service_tier", "container"];

/// Fields that need a beta value: top-level field, the values of which one must be there.
const PAIRED: &[(&str, &[&str])] = &[
    ("context_management", &["context-management-2025-06-27", "compact-2026-01-12"]),
    ("compaction", &["compact-2026-09-04"]),
    ("diagnostics", &["cache-diagnosis-2026-04-07"]),
    ("fallbacks", &["server-side-fallback-2026-07-01"]),
];

pub(super) fn check(rules: &RuleContext<'_>) -> RuleResult {
    let root = rules.root;
    if !root.is_object() {
        return Err(ApiError::invalid("the body must be a JSON object"));
    }
    allow_only(root, "", TOP)?;
    if rules.count_only
        && let Some(field) = NOT_WHEN_COUNTING.iter().find(|field| rules.has(field))
    {
        return Err(extra_field_error(field));
    }
    require(rules, "model", |node| node.as_str().is_some_and(|model| !model.is_empty()), "a model id")?;
    if !rules.count_only {
        require(rules, "max_tokens", |node| node.as_u64(rules.text).is_some(), "a whole number")?;
    }
    require(rules, "messages", SpannedJson::is_array, "a list")?;
    if rules.items("messages").is_empty() {
        return Err(ApiError::at("messages", "at least one message is required"));
    }
    objects(rules)?;
    fields_with_betas(rules)
}

/// Refuses members that are not in `allowed`, and repeated ones.
pub(super) fn allow_only(node: &SpannedJson, path: &str, allowed: &[&str]) -> RuleResult {
    let members = node.members();
    for (position, member) in members.iter().enumerate() {
        let place = if path.is_empty() { member.key.clone() } else { format!("{path}.{}", member.key) };
        if !allowed.contains(&member.key.as_str()) {
            return Err(extra_field_error(&place));
        }
        if members[..position].iter().any(|earlier| earlier.key == member.key) {
            return Err(ApiError::at(&place, "the key is repeated"));
        }
    }
    Ok(())
}

pub(super) fn extra_field_error(path: &str) -> ApiError {
    ApiError::at(path, "Extra inputs are not permitted")
}

fn require(rules: &RuleContext<'_>, name: &str, fits: impl Fn(&SpannedJson) -> bool, what: &str) -> RuleResult {
    match rules.root.get(name) {
        None => Err(ApiError::at(name, "Field required")),
        Some(node) if !fits(node) => Err(ApiError::at(name, format!("Input should be {what}"))),
        Some(_) => Ok(()),
    }
}

/// Checks the small objects beside messages and tools.
fn objects(rules: &RuleContext<'_>) -> RuleResult {
    const OBJECTS: &[(&str, &[&str])] = &[
        ("tool_choice", &["type", "name", "disable_parallel_tool_use"]),
        ("thinking", &["type", "budget_tokens", "display", "block_binding"]),
        ("output_config", &["effort", "format", "task_budget"]),
        ("metadata", &["user_id"]),
        ("context_management", &["edits"]),
        ("compaction", &["type", "instructions"]),
        ("diagnostics", &["previous_message_id"]),
    ];
    for (name, allowed) in OBJECTS {
        if let Some(node) = rules.root.get(name).filter(|node| !node.is_null()) {
            if !node.is_object() {
                return Err(ApiError::at(name, "Input should be an object"));
            }
            allow_only(node, name, allowed)?;
        }
    }
    let nested = |outer: &str, inner: &str| rules.root.get(outer).and_then(|node| node.get(inner));
    if let Some(binding) = nested("thinking", "block_binding") {
        allow_only(binding, "thinking.block_binding", &["prefix_mismatch_behavior"])?;
        if !matches!(binding.str_of("prefix_mismatch_behavior"), Some("error" | "drop_block")) {
            let path = "thinking.block_binding.prefix_mismatch_behavior";
            return Err(ApiError::at(path, "Input should be 'error' or 'drop_block'"));
        }
    }
    if let Some(format) = nested("output_config", "format") {
        allow_only(format, "output_config.format", &["type", "schema", "name"])?;
    }
    if let Some(budget) = nested("output_config", "task_budget") {
        allow_only(budget, "output_config.task_budget", &["type", "total", "remaining"])?;
    }
    if rules.root.get("stream").is_some_and(|node| node.as_bool().is_none()) {
        return Err(ApiError::at("stream", "Input should be a valid boolean"));
    }
    user_id(rules)
}

fn user_id(rules: &RuleContext<'_>) -> RuleResult {
    let Some(id) = rules.root.get("metadata").and_then(|node| node.get("user_id")) else { return Ok(()) };
    match &id.kind {
        SpannedJsonKind::Null => Ok(()),
        SpannedJsonKind::String(text) if text.len() > 256 => {
            Err(ApiError::at("metadata.user_id", "at most 256 characters"))
        }
        SpannedJsonKind::String(text) if text.contains('@') => {
            Err(ApiError::at("metadata.user_id", "must be opaque, not a mail address"))
        }
        SpannedJsonKind::String(_) => Ok(()),
        _ => Err(ApiError::at("metadata.user_id", "Input should be a string")),
    }
}

/// Checks that body fields come with their beta values.
fn fields_with_betas(rules: &RuleContext<'_>) -> RuleResult {
    let needs = |path: &str, any_of: &[&str]| {
        if any_of.iter().any(|beta| rules.has_beta(beta)) {
            return Ok(());
        }
        let message = format!("Extra inputs are not permitted (needs anthropic-beta: {})", any_of.join(" or "));
        Err(ApiError::at(path, message))
    };
    for (field, any_of) in PAIRED {
        if rules.has(field) {
            needs(field, any_of)?;
        }
    }
    for (position, edit) in edits(rules).iter().enumerate() {
        let beta = if edit.type_tag().starts_with("compact_") {
            "compact-2026-01-12"
        } else {
            "context-management-2025-06-27"
        };
        needs(&format!("context_management.edits.{position}"), &[beta])?;
    }
    let nested = |outer: &str, inner: &str| rules.root.get(outer).and_then(|node| node.get(inner));
    if nested("thinking", "block_binding").is_some() {
        needs("thinking.block_binding", &["thinking-binding-controls-2026-08-01"])?;
    }
    if nested("thinking", "display").and_then(SpannedJson::as_str) == Some("updates") {
        needs("thinking.display", &["thinking-display-updates-2026-08-18"])?;
    }
    if nested("output_config", "task_budget").is_some() {
        needs("output_config.task_budget", &["task-budgets-2026-03-13"])?;
    }
    if rules.root.str_of("speed") == Some("fast") {
        needs("speed", &["fast-mode-2026-02-01"])?;
    }
    if rules.has("compaction") && rules.has("context_management") {
        return Err(ApiError::at("compaction", "cannot be combined with context_management"));
    }
    Ok(())
}

fn edits<'a>(rules: &'a RuleContext<'_>) -> &'a [SpannedJson] {
    rules.root.get("context_management").and_then(|node| node.get("edits")).map(SpannedJson::items).unwrap_or_default()
}
