//! Assembly of entries into messages: joins the blocks of one reply and puts results behind the reply with their
//! calls. Messages that were sent separately stay separate.

use std::collections::HashSet;

use gimlet_proto::{BlockKind, Message, Role};

use crate::full_entry::FullEntry;
use crate::history_repair::order_results;
use crate::transcript_index::{EntryKey, EntryKind};

/// Drops fanned-out results whose call has a result already: the chain's own result is the valid one.
pub(crate) fn drop_duplicate_results(lives: &mut Vec<FullEntry>) {
    let on_chain = lives.iter().filter(|live| !live.link.fanned_out);
    let mut answered: HashSet<String> = on_chain.flat_map(FullEntry::tool_result_ids).map(str::to_owned).collect();
    lives.retain(|live| {
        if !live.link.fanned_out || live.kind != EntryKind::User {
            return true;
        }
        let calls: Vec<String> = live.tool_result_ids().map(str::to_owned).collect();
        let fresh = calls.iter().any(|call| !answered.contains(call));
        answered.extend(calls);
        fresh
    });
}

/// Builds the messages of a conversation.
pub(crate) fn assemble_messages(lives: Vec<FullEntry>) -> Vec<Message> {
    let mut messages: Vec<Message> = Vec::new();
    // The reply that the last assistant message holds, and where that is.
    let mut reply = (EntryKey::NONE, 0);
    for live in lives {
        if live.blocks.is_empty() {
            continue;
        }
        if live.kind == EntryKind::Assistant {
            let goes_on =
                live.message != EntryKey::NONE && reply.0 == live.message && has_only_results(&messages[reply.1 + 1..]);
            if goes_on {
                messages[reply.1].blocks.extend(live.blocks);
            } else {
                reply = (live.message, messages.len());
                messages.push(Message::assistant(live.blocks));
            }
        } else {
            match messages.last_mut() {
                Some(last) if last.role == Role::User && !live.starts_message => last.blocks.extend(live.blocks),
                _ => messages.push(Message::user(live.blocks)),
            }
        }
    }
    for at in 1..messages.len() {
        let (before, rest) = messages.split_at_mut(at);
        if rest[0].role == Role::User
            && let Some(calls) = before.last().filter(|message| message.role == Role::Assistant)
        {
            order_results(calls, &mut rest[0]);
        }
    }
    messages
}

/// Returns true if only tool results followed, so that another block of that reply may still join it.
fn has_only_results(after: &[Message]) -> bool {
    after.iter().flat_map(|message| &message.blocks).all(|block| block.kind() == BlockKind::ToolResult)
}
