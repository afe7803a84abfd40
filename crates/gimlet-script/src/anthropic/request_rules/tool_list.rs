//! Rules about the tool list.

use std::collections::HashSet;

use super::fields::allow_only;
use super::{RuleContext, RuleResult};
use crate::api_error::ApiError;
use crate::spanned_json::SpannedJson;

const CUSTOM: &[&str] = &[
    "type",
    "name",
    "description",
    "input_schema",
    "cache_control",
    "strict",
    "defer_loading",
    "eager_input_streaming",
    "input_examples",
    "allowed_callers",
];

/// Tools whose schema the provider knows.
const PROVIDED: &[&str] = &[
    "type",
    "name",
    "cache_control",
    "defer_loading",
    "allowed_callers",
    "max_uses",
    "allowed_domains",
    "blocked_domains",
    "user_location",
    "citations",
    "max_content_tokens",
    "max_characters",
    "strict",
];

const MOST_STRICT_TOOLS: usize = 20;

pub(super) fn check(rules: &RuleContext<'_>) -> RuleResult {
    let tools = rules.items("tools");
    if !tools.is_empty() && !rules.profile.tools {
        return Err(ApiError::at("tools", format!("{} does not support tools", rules.profile.id)));
    }
    let mut names = HashSet::new();
    for (position, tool) in tools.iter().enumerate() {
        let path = format!("tools.{position}");
        check_tool(tool, &path)?;
        let name = tool.str_of("name").unwrap_or("");
        if !names.insert(name) {
            return Err(ApiError::at(&path, format!("tool names must be unique: {name:?} is repeated")));
        }
    }
    let deferred = |tool: &&SpannedJson| tool.get("defer_loading").and_then(SpannedJson::as_bool) == Some(true);
    if !tools.is_empty() && tools.iter().filter(deferred).count() == tools.len() {
        return Err(ApiError::at("tools", "at least one tool must not have defer_loading set"));
    }
    let strict = tools.iter().filter(|tool| tool.get("strict").and_then(SpannedJson::as_bool) == Some(true)).count();
    if strict > MOST_STRICT_TOOLS {
        return Err(ApiError::at("tools", format!("{strict} strict tools; at most {MOST_STRICT_TOOLS} are allowed")));
    }
    Ok(())
}

fn check_tool(tool: &SpannedJson, path: &str) -> RuleResult {
    let name = tool.str_of("name").unwrap_or("");
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if name.is_empty() || name.len() > 64 || !name.chars().all(fits) {
        return Err(ApiError::at(&format!("{path}.name"), "String should match pattern '^[a-zA-Z0-9_-]{1,64}$'"));
    }
    let provided = !matches!(tool.type_tag(), "" | "custom");
    if provided {
        return allow_only(tool, path, PROVIDED);
    }
    allow_only(tool, path, CUSTOM)?;
    let Some(schema) = tool.get("input_schema") else {
        return Err(ApiError::at(&format!("{path}.input_schema"), "Field required"));
    };
    if schema.str_of("type") != Some("object") {
        return Err(ApiError::at(&format!("{path}.input_schema.type"), "Input should be 'object'"));
    }
    properties(schema, path)?;
    let closed = schema.get("additionalProperties").and_then(SpannedJson::as_bool) == Some(false);
    if tool.get("strict").and_then(SpannedJson::as_bool) == Some(true) && !closed {
        let message = "strict tools need additionalProperties: false";
        return Err(ApiError::at(&format!("{path}.input_schema"), message));
    }
    Ok(())
}

/// Checks the alphabet and the length of a tool's parameter names.
fn properties(schema: &SpannedJson, path: &str) -> RuleResult {
    let path = format!("{path}.input_schema.properties");
    let Some(properties) = schema.get("properties") else { return Ok(()) };
    if !properties.is_object() {
        return Err(ApiError::at(&path, "JSON schema is invalid: Input should be an object"));
    }
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    let plain = |name: &str| (1..=64).contains(&name.len()) && name.chars().all(fits);
    if properties.members().iter().all(|member| plain(&member.key)) {
        return Ok(());
    }
    Err(ApiError::at(&path, "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'"))
}
