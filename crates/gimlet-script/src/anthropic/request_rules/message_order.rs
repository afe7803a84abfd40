//! Rules about the order of messages: alternation of roles, and that every call is answered at once.

use std::collections::HashSet;

use super::{RuleContext, RuleResult};
use crate::anthropic::thinking_signature::{canonical_block, is_thinking};
use crate::api_error::ApiError;
use crate::spanned_json::SpannedJson;

pub(super) fn check(rules: &RuleContext<'_>) -> RuleResult {
    let messages = rules.items("messages");
    first(messages)?;
    ids(messages)?;
    for position in 0..messages.len() {
        calls_are_answered(rules, messages, position)?;
        results_have_calls(messages, position)?;
    }
    system_placement(rules, messages)?;
    thinking_leads(rules, messages)?;
    last(rules, messages)
}

fn blocks(message: &SpannedJson) -> &[SpannedJson] {
    message.get("content").map(SpannedJson::items).unwrap_or_default()
}

fn role(message: &SpannedJson) -> &str {
    message.str_of("role").unwrap_or("")
}

fn of_kind<'a>(message: &'a SpannedJson, kind: &str) -> Vec<&'a SpannedJson> {
    blocks(message).iter().filter(|block| block.type_tag() == kind).collect()
}

fn first(messages: &[SpannedJson]) -> RuleResult {
    let Some(first) = messages.first() else { return Ok(()) };
    let compacted = blocks(first).first().is_some_and(|block| block.type_tag() == "compaction");
    match role(first) {
        "user" => Ok(()),
        "assistant" if compacted => Ok(()),
        _ => Err(ApiError::at("messages", "first message must use the \"user\" role")),
    }
}

/// Checks that ids use their alphabet, and that no two calls share an id.
fn ids(messages: &[SpannedJson]) -> RuleResult {
    let mut seen = HashSet::new();
    for (m, message) in messages.iter().enumerate() {
        for (b, block) in blocks(message).iter().enumerate() {
            let path = format!("messages.{m}.content.{b}");
            let (field, is_call) = match block.type_tag() {
                "tool_use" => ("id", true),
                "tool_result" => ("tool_use_id", false),
                _ => continue,
            };
            let id = block.str_of(field).unwrap_or("");
            if id.is_empty() || !id.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')) {
                let message = format!("{id:?} should match pattern '^[a-zA-Z0-9_-]+$'");
                return Err(ApiError::at(&format!("{path}.{field}"), message));
            }
            if is_call && !seen.insert(id) {
                return Err(ApiError::at(&path, format!("`tool_use` ids must be unique: {id} is repeated")));
            }
        }
    }
    Ok(())
}

/// Checks that the message after a call begins with all of its results.
fn calls_are_answered(rules: &RuleContext<'_>, messages: &[SpannedJson], position: usize) -> RuleResult {
    let message = &messages[position];
    let calls: Vec<&str> = of_kind(message, "tool_use").iter().filter_map(|block| block.str_of("id")).collect();
    if calls.is_empty() {
        return Ok(());
    }
    let next = messages.get(position + 1).filter(|next| role(next) == "user");
    let leading: Vec<&str> = next.map(blocks).unwrap_or_default().iter().map_while(result_id).collect();
    let open: Vec<&str> = calls.into_iter().filter(|id| !leading.contains(id)).collect();
    if !open.is_empty() {
        let message = format!(
            "`tool_use` ids were found without `tool_result` blocks immediately after: {}. Each `tool_use` block must \
             have a corresponding `tool_result` block in the next message, before any other content",
            open.join(", ")
        );
        return Err(ApiError::at(&format!("messages.{position}"), message));
    }
    let extra = next.map(blocks).unwrap_or_default().iter().any(|block| block.type_tag() != "tool_result");
    match open_server_tool(messages, position) {
        Some((id, name)) => beside_open_server_tool(rules, position, id, name, extra),
        None => Ok(()),
    }
}

fn result_id(block: &SpannedJson) -> Option<&str> {
    if block.type_tag() == "tool_result" { block.str_of("tool_use_id") } else { None }
}

/// Returns a server tool call of this message whose result had not arrived when the message ended.
fn open_server_tool(messages: &[SpannedJson], position: usize) -> Option<(&str, &str)> {
    let content = blocks(&messages[position]);
    let answered = |id: &str| {
        content
            .iter()
            .any(|block| block.type_tag().ends_with("_tool_result") && block.str_of("tool_use_id") == Some(id))
    };
    let open = content.iter().filter(|block| block.type_tag() == "server_tool_use");
    let mut open = open.filter_map(|block| Some((block.str_of("id")?, block.str_of("name")?)));
    open.find(|(id, _)| !answered(id))
}

fn beside_open_server_tool(rules: &RuleContext<'_>, position: usize, id: &str, name: &str, extra: bool) -> RuleResult {
    let path = format!("messages.{}", position + 1);
    if extra {
        let message = format!("only `tool_result` blocks are allowed while server tool {name} ({id}) is open");
        return Err(ApiError::at(&path, message));
    }
    if !rules.items("tools").iter().any(|tool| tool.str_of("name") == Some(name)) {
        return Err(ApiError::at("tools", format!("server tool {name} is open and must still be defined")));
    }
    Ok(())
}

/// Checks that every result answers a call of the message before it, once.
fn results_have_calls(messages: &[SpannedJson], position: usize) -> RuleResult {
    let calls: Vec<&str> = match position.checked_sub(1) {
        Some(before) => of_kind(&messages[before], "tool_use").iter().filter_map(|block| block.str_of("id")).collect(),
        None => Vec::new(),
    };
    let mut seen = HashSet::new();
    for (b, block) in blocks(&messages[position]).iter().enumerate() {
        let Some(id) = result_id(block) else { continue };
        let path = format!("messages.{position}.content.{b}");
        if !calls.contains(&id) {
            let message = format!(
                "unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` block must have a \
                 corresponding `tool_use` block in the previous message"
            );
            return Err(ApiError::at(&path, message));
        }
        if !seen.insert(id) {
            return Err(ApiError::at(&path, format!("multiple `tool_result` blocks with id {id}")));
        }
    }
    Ok(())
}

/// Checks that a system message follows a user message, or a server tool's result, and precedes an assistant message
/// or nothing.
fn system_placement(rules: &RuleContext<'_>, messages: &[SpannedJson]) -> RuleResult {
    for (position, message) in messages.iter().enumerate() {
        if role(message) != "system" {
            continue;
        }
        let path = format!("messages.{position}");
        if !rules.profile.system_messages {
            let message = format!("role 'system' is not supported for {}", rules.profile.id);
            return Err(ApiError::at(&path, message));
        }
        let before = position.checked_sub(1).map(|before| &messages[before]);
        let after_result = |message: &SpannedJson| {
            role(message) == "assistant"
                && blocks(message).last().is_some_and(|block| block.type_tag().ends_with("_tool_result"))
        };
        let good_before = before.is_some_and(|message| role(message) == "user" || after_result(message));
        let good_after = messages.get(position + 1).is_none_or(|next| role(next) == "assistant");
        if !(good_before && good_after) {
            return Err(ApiError::at(&path, "wrong placement of a message with role 'system'"));
        }
    }
    Ok(())
}

/// Checks that, with a manual budget, the assistant turn whose tools are being answered begins with its thinking.
fn thinking_leads(rules: &RuleContext<'_>, messages: &[SpannedJson]) -> RuleResult {
    if rules.root.get("thinking").map(SpannedJson::type_tag) != Some("enabled") {
        return Ok(());
    }
    let answering = messages.last().is_some_and(|last| !of_kind(last, "tool_result").is_empty());
    if !answering {
        return Ok(());
    }
    let Some(turn) = messages.len().checked_sub(2) else { return Ok(()) };
    let Some(block) = blocks(&messages[turn]).first().filter(|block| !is_thinking(block)) else { return Ok(()) };
    let message = format!("Expected `thinking` or `redacted_thinking`, but found `{}`", block.type_tag());
    Err(ApiError::at(&format!("messages.{turn}.content.0.type"), message))
}

fn last(rules: &RuleContext<'_>, messages: &[SpannedJson]) -> RuleResult {
    let Some(last) = messages.last().filter(|last| role(last) == "assistant") else { return Ok(()) };
    let tail = blocks(last).last();
    let paused = tail.is_some_and(|block| rules.issued.paused_tails.contains(&canonical_block(block, rules.text)));
    let only_compacted =
        messages.len() == 1 && blocks(last).first().is_some_and(|block| block.type_tag() == "compaction");
    if rules.profile.prefill || paused || only_compacted {
        return Ok(());
    }
    Err(ApiError::invalid(
        "This model does not support assistant message prefill. The conversation must end with a user message.",
    ))
}
