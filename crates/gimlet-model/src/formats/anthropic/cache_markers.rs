//! Placement of the cache breakpoints of a request.
//!
//! Four at most: the static prefix, the project's context, the previous request's tail, and the newest tail. A marker
//! is spliced in before the closing brace of a block, so that the rest of the block keeps its bytes.

use gimlet_proto::{Block, BlockKind, CachePlan, CacheTtl, Message};
use std::sync::Arc;

/// Returns the JSON member that marks a breakpoint.
pub(super) fn marker(ttl: CacheTtl) -> &'static str {
    match ttl {
        CacheTtl::FiveMinutes => r#""cache_control":{"type":"ephemeral"}"#,
        CacheTtl::OneHour => r#""cache_control":{"type":"ephemeral","ttl":"1h"}"#,
    }
}

/// Appends the object `json` with a further member.
pub(super) fn push_marked(out: &mut String, json: &str, marker: &str) {
    let Some(open) = json.strip_suffix('}') else {
        out.push_str(json);
        return;
    };
    out.push_str(open);
    if !open.ends_with('{') {
        out.push(',');
    }
    out.push_str(marker);
    out.push('}');
}

/// Returns the blocks (message, block) that carry a marker, at most three: the fourth belongs to the static prefix.
pub(super) fn marked_blocks(messages: &[Arc<Message>], plan: &CachePlan) -> Vec<(usize, usize)> {
    let mut places = Vec::with_capacity(3);
    let is_there = |(message, block): &(usize, usize)| {
        messages.get(*message).and_then(|message| message.blocks.get(*block)).is_some_and(is_cacheable)
    };
    let previous = plan.previous_len.filter(|len| *len <= messages.len());
    places.extend(plan.context.filter(is_there));
    // Exactly at the previous request's newest marker, so that a hit does not depend on how much was added.
    places.extend(previous.and_then(|len| last_cacheable_block(&messages[..len])));
    places.extend(last_cacheable_block(messages));
    places.sort_unstable();
    places.dedup();
    places
}

fn last_cacheable_block(messages: &[Arc<Message>]) -> Option<(usize, usize)> {
    messages.iter().enumerate().rev().find_map(|(at, message)| Some((at, last_cacheable(message)?)))
}

fn last_cacheable(message: &Message) -> Option<usize> {
    message.blocks.iter().rposition(is_cacheable)
}

fn is_cacheable(block: &Block) -> bool {
    let kind_takes_one = !matches!(
        block.kind(),
        BlockKind::Thinking | BlockKind::RedactedThinking | BlockKind::Compaction | BlockKind::Fallback
    );
    // Inside strings the quotes would be escaped, so this finds real members only; a marker must not occur twice.
    kind_takes_one && !block.is_blank_text() && !block.json().contains(r#""cache_control":"#)
}
