//! Repair of any history so that it can be sent: every call has one result, right behind it; no empty texts; no user
//! text while a server tool runs.
//!
//! Messages of one role may follow each other: the API reads them as one, and messages that were sent like that stay
//! like that. Pure, and cheap when there is nothing to do: only messages behind the part that was checked before are
//! checked. That part is never changed, because it has been sent and its bytes are bound by caches and signatures.

use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};

use gimlet_proto::{Block, BlockKind, Message, Role, ToolUseId};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::damage::Damage;

/// Result for the model of a call whose own result was lost.
pub const INTERRUPTED_CALL: &str = "This call was interrupted before its result was recorded. It may have run, wholly or in part; check before repeating it.";
/// First text of a conversation whose beginning is lost.
pub const MISSING_START: &str = "(The beginning of this conversation could not be recovered.)";

/// Repairs the messages from `checked` on and returns them with the damage found. A valid history is returned
/// unchanged.
pub fn repair_messages(mut messages: Vec<Message>, checked: usize) -> (Vec<Message>, Vec<Damage>) {
    let checked = checked.min(messages.len());
    if is_sendable(&messages, checked) {
        return (messages, Vec::new());
    }
    let mut damage = Vec::new();
    let new = messages.split_off(checked);
    let new = drop_unusable_blocks(new, &mut damage);
    for message in new {
        gather_results(&mut messages, checked, message, &mut damage);
    }
    let mut messages = pair_results(messages, checked, &mut damage);
    drop_overtaken_calls(&mut messages[checked..], &mut damage);
    if checked == 0 && messages.first().is_some_and(|first| !may_begin_history(first)) {
        damage.push(Damage::MissingStart);
        messages.insert(0, Message::user(vec![Block::text(MISSING_START)]));
    }
    (messages, damage)
}

/// Returns true if the messages from `checked` on can be sent behind the others. Checks those alone.
pub fn is_sendable<M: Borrow<Message>>(messages: &[M], checked: usize) -> bool {
    if checked == 0 && messages.first().is_some_and(|first| !may_begin_history(first.borrow())) {
        return false;
    }
    let mut seen = HashSet::new();
    for (at, message) in messages.iter().map(M::borrow).enumerate().skip(checked) {
        let before = at.checked_sub(1).map(|before| messages[before].borrow());
        if message.blocks.is_empty() || message.blocks.iter().any(is_blank_text) {
            return false;
        }
        match message.role {
            Role::User => {
                let strays = message.blocks.iter().any(|block| block.kind() == BlockKind::ToolUse);
                if strays
                    || !is_exact_answer(before, message)
                    || before.is_some_and(|before| is_overtaking_server_tool(before, message))
                {
                    return false;
                }
            }
            Role::Assistant => {
                let opens = before.is_some_and(|before| before.role == Role::Assistant && before.has_tool_use());
                let unusable = message.blocks.iter().any(|block| match block.kind() {
                    BlockKind::ToolResult => true,
                    BlockKind::ToolUse => !is_valid_call(block),
                    _ => false,
                });
                if opens || unusable || !tool_call_ids(message).all(|call| seen.insert(call)) {
                    return false;
                }
            }
        }
    }
    messages.last().map(M::borrow).is_none_or(|last| last.role == Role::User || !last.has_tool_use())
}

fn tool_call_ids(message: &Message) -> impl Iterator<Item = &str> {
    message.blocks.iter().filter(|block| block.kind() == BlockKind::ToolUse).map(|block| block.id().unwrap_or(""))
}

/// Returns true if a user message begins with exactly the results of the calls before it, in their order, and has no
/// others.
fn is_exact_answer(before: Option<&Message>, message: &Message) -> bool {
    let results = message.blocks.iter().take_while(|block| block.kind() == BlockKind::ToolResult);
    let count = results.clone().count();
    let rest_is_free = message.blocks[count..].iter().all(|block| block.kind() != BlockKind::ToolResult);
    let asked = before.filter(|before| before.role == Role::Assistant).into_iter().flat_map(tool_call_ids);
    rest_is_free && asked.map(Some).eq(results.map(Block::id))
}

/// Returns true if a message has more than results while a server tool of the reply before it is unfinished. No server
/// accepts that where the reply has calls of other tools too.
fn is_overtaking_server_tool(reply: &Message, message: &Message) -> bool {
    let says_more = || message.blocks.iter().any(|block| block.kind() != BlockKind::ToolResult);
    reply.has_tool_use() && unfinished_server_calls(reply).next().is_some() && says_more()
}

/// Returns the calls of server tools whose results are not in the reply.
fn unfinished_server_calls(reply: &Message) -> impl Iterator<Item = &Block> {
    let of = |kind| reply.blocks.iter().filter(move |block| block.kind() == kind);
    of(BlockKind::ServerToolUse)
        .filter(move |call| of(BlockKind::ServerToolResult).all(|result| result.id() != call.id()))
}

/// Drops unfinished calls of server tools that are followed by a user's text. Their results would come with the next
/// reply, which answers the text instead.
fn drop_overtaken_calls(messages: &mut [Message], damage: &mut Vec<Damage>) {
    for at in 1..messages.len() {
        let (reply, message) = (&messages[at - 1], &messages[at]);
        if message.role == Role::User && is_overtaking_server_tool(reply, message) {
            let calls: Vec<String> =
                unfinished_server_calls(reply).map(|call| call.id().unwrap_or("").to_owned()).collect();
            messages[at - 1].blocks.retain(|block| {
                let id = block.id().unwrap_or("");
                block.kind() != BlockKind::ServerToolUse || calls.iter().all(|call| call != id)
            });
            damage.extend(calls.into_iter().map(|call| Damage::OvertakenCall { call }));
        }
    }
}

fn may_begin_history(message: &Message) -> bool {
    message.role == Role::User || message.blocks.first().is_some_and(|block| block.kind() == BlockKind::Compaction)
}

/// Returns true if an API would reject this as an empty text. A text that cannot be decoded (half a surrogate pair) is
/// not empty.
fn is_blank_text(block: &Block) -> bool {
    #[derive(Deserialize)]
    struct TextBlock<'a> {
        #[serde(borrow, default)]
        text: Option<&'a RawValue>,
    }
    if block.kind() != BlockKind::Text {
        return false;
    }
    let Ok(TextBlock { text }) = serde_json::from_str::<TextBlock<'_>>(block.json()) else { return false };
    let Some(text) = text.filter(|text| text.get().starts_with('"')) else { return true };
    serde_json::from_str::<String>(text.get()).is_ok_and(|text| text.trim().is_empty())
}

/// Returns true if a call has all members that an API requires.
fn is_valid_call(block: &Block) -> bool {
    block
        .as_tool_use()
        .is_some_and(|parts| is_valid_id(&parts.id) && !parts.name.is_empty() && parts.input.get().starts_with('{'))
}

fn is_valid_id(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// Drops whitespace-only texts, calls with unusable or repeated ids, results in replies, and messages that become
/// empty.
fn drop_unusable_blocks(messages: Vec<Message>, damage: &mut Vec<Damage>) -> Vec<Message> {
    let mut seen: HashSet<String> = HashSet::new();
    let mut kept: Vec<Message> = Vec::with_capacity(messages.len());
    let mut gone = false;
    for mut message in messages {
        message.blocks.retain(|block| {
            let id = || block.id().unwrap_or("").to_owned();
            match (message.role, block.kind()) {
                (_, BlockKind::Text) if is_blank_text(block) => damage.push(Damage::BlankText),
                (Role::Assistant, BlockKind::ToolUse) if !is_valid_call(block) || !seen.insert(id()) => {
                    damage.push(Damage::BadCall { call: id() });
                }
                (Role::Assistant, BlockKind::ToolResult) => damage.push(Damage::OrphanResult { call: id() }),
                (Role::User, BlockKind::ToolUse) => damage.push(Damage::BadCall { call: id() }),
                _ => return true,
            }
            false
        });
        if message.blocks.is_empty() {
            damage.push(Damage::EmptyMessage);
            gone = true;
        } else {
            push_or_join(&mut kept, message, std::mem::take(&mut gone));
        }
    }
    kept
}

/// Adds a message. Two user messages that become adjacent because the reply between them is gone are joined, as they
/// would be when read from a file without it.
fn push_or_join(messages: &mut Vec<Message>, message: Message, gone: bool) {
    match messages.last_mut() {
        Some(last) if gone && last.role == Role::User && message.role == Role::User => {
            last.blocks.extend(message.blocks);
        }
        _ => messages.push(message),
    }
}

/// Adds a message. Results that are not in the first message behind their calls move there.
fn gather_results(messages: &mut Vec<Message>, checked: usize, message: Message, damage: &mut Vec<Damage>) {
    let joinable = messages.len() > checked;
    let brings_results = message.blocks.iter().any(|block| block.kind() == BlockKind::ToolResult);
    match messages.last_mut() {
        Some(last) if joinable && brings_results && last.role == Role::User && message.role == Role::User => {
            damage.push(Damage::SplitMessage);
            last.blocks.extend(message.blocks);
        }
        _ => messages.push(message),
    }
}

/// Puts behind every reply with calls exactly one result each, and drops all other results.
fn pair_results(messages: Vec<Message>, checked: usize, damage: &mut Vec<Damage>) -> Vec<Message> {
    let mut paired: Vec<Message> = Vec::with_capacity(messages.len());
    for (at, message) in messages.into_iter().enumerate() {
        if at < checked {
            paired.push(message);
            continue;
        }
        let answers = paired.last().filter(|last| last.role == Role::Assistant && last.has_tool_use());
        match (message.role, answers) {
            (Role::Assistant, Some(open)) => {
                let results = build_answer(open, Vec::new(), damage);
                paired.push(Message::user(results));
                paired.push(message);
            }
            (Role::Assistant, None) => paired.push(message),
            (Role::User, Some(open)) => {
                let blocks = build_answer(open, message.blocks, damage);
                paired.push(Message::user(blocks));
            }
            (Role::User, None) => push_without_results(&mut paired, message, damage),
        }
    }
    if let Some(open) = paired.last().filter(|last| last.role == Role::Assistant && last.has_tool_use()) {
        let results = build_answer(open, Vec::new(), damage);
        paired.push(Message::user(results));
    }
    paired
}

/// Adds a user message that follows no calls: results in it are orphans, and without them it may be empty.
fn push_without_results(paired: &mut Vec<Message>, mut message: Message, damage: &mut Vec<Damage>) {
    message.blocks.retain(|block| {
        let orphan = block.kind() == BlockKind::ToolResult;
        if orphan {
            damage.push(Damage::OrphanResult { call: block.id().unwrap_or("").to_owned() });
        }
        !orphan
    });
    if message.blocks.is_empty() {
        damage.push(Damage::EmptyMessage);
    } else {
        paired.push(message);
    }
}

/// Returns the blocks of the message that follows `open`: one result for each call in order, then everything else.
fn build_answer(open: &Message, blocks: Vec<Block>, damage: &mut Vec<Damage>) -> Vec<Block> {
    let asked: Vec<&str> = tool_call_ids(open).collect();
    let place: HashMap<&str, usize> = asked.iter().enumerate().map(|(at, call)| (*call, at)).collect();
    let mut results: HashMap<String, Block> = HashMap::new();
    let mut rest = Vec::new();
    let mut order = Vec::new();
    for block in blocks {
        let id = block.id().unwrap_or("").to_owned();
        if block.kind() != BlockKind::ToolResult {
            rest.push(block);
            continue;
        }
        match place.get(id.as_str()) {
            None => damage.push(Damage::OrphanResult { call: id }),
            Some(_) if results.contains_key(&id) => {
                damage.push(Damage::DuplicateResult { call: ToolUseId::new(id) });
            }
            Some(at) => {
                if !rest.is_empty() {
                    order.push(usize::MAX); // a result behind other content
                }
                order.push(*at);
                results.insert(id, block);
            }
        }
    }
    if !order.is_sorted() {
        damage.push(Damage::ResultOrder);
    }
    let mut answered: Vec<Block> = Vec::with_capacity(asked.len() + rest.len());
    for call in asked {
        answered.push(results.remove(call).unwrap_or_else(|| {
            damage.push(Damage::MissingResult { call: ToolUseId::new(call) });
            Block::tool_result(call, &INTERRUPTED_CALL.into(), true)
        }));
    }
    answered.extend(rest);
    answered
}

/// Puts the results of a message into the order of the calls, before everything else. Adds and drops nothing.
pub(crate) fn order_results(calls_message: &Message, answer: &mut Message) {
    let place: HashMap<&str, usize> = tool_call_ids(calls_message).enumerate().map(|(at, call)| (call, at)).collect();
    answer.blocks.sort_by_key(|block| match (block.kind(), block.id()) {
        (BlockKind::ToolResult, Some(id)) => place.get(id).copied().unwrap_or(usize::MAX - 1),
        (BlockKind::ToolResult, None) => usize::MAX - 1,
        _ => usize::MAX,
    });
}
