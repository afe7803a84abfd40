//! Complete validation of a history against all requirements of a server.
//!
//! The check before every request is [`is_sendable`], which covers new messages and repairable faults only. This is
//! the complete check, for builds with assertions, and tests.

use std::borrow::Borrow;

use gimlet_proto::{Message, Role};

use crate::history_repair::is_sendable;
use crate::sendable_blocks::{self, BlockCheck};

/// Fault that no server accepts, with its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidHistory {
    /// Calls, results, empty texts or the first or last message are out of order, or a user's text does not wait for a
    /// server tool that still runs.
    Order,
    /// An image is invalid, of an unsupported or mislabelled type; or a result or another block has an invalid shape,
    /// or a cache mark of its own beside those that every request sets.
    Block { message: usize, block: usize },
}

/// Returns the first fault that no server would accept; `None` when the messages can be sent.
pub fn find_invalid<M: Borrow<Message>>(messages: &[M]) -> Option<InvalidHistory> {
    if !is_sendable(messages, 0) {
        return Some(InvalidHistory::Order);
    }
    for (at, message) in messages.iter().map(M::borrow).enumerate() {
        if let Some(block) = message.blocks.iter().position(|block| !is_sendable_block(message.role, block)) {
            return Some(InvalidHistory::Block { message: at, block });
        }
    }
    None
}

fn is_sendable_block(role: Role, block: &gimlet_proto::Block) -> bool {
    matches!(sendable_blocks::check_block(role, block), BlockCheck::Fine)
}

#[cfg(test)]
mod tests {
    use gimlet_proto::Block;
    use serde_json::{Value, json};

    use super::*;

    const PIXEL: &str =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

    fn build_history(messages: &[(Role, &[Value])]) -> Vec<Message> {
        let block = |value: &Value| Block::from_json(&value.to_string()).unwrap();
        let message =
            |(role, blocks): &(Role, &[Value])| Message { role: *role, blocks: blocks.iter().map(block).collect() };
        messages.iter().map(message).collect()
    }

    #[test]
    fn every_rule_has_a_history_that_breaks_it() {
        let (user, model) = (Role::User, Role::Assistant);
        let said = json!({"type": "text", "text": "go"});
        let marked = json!({"type": "text", "text": "go", "cache_control": {"type": "ephemeral"}});
        let call = json!({"type": "tool_use", "id": "t1", "name": "Read", "input": {}});
        let result = json!({"type": "tool_result", "tool_use_id": "t1", "content": "x"});
        let of = |content: Value| json!({"type": "tool_result", "tool_use_id": "t1", "content": content});
        let search = json!({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}});
        let found = json!({"type": "web_search_tool_result", "tool_use_id": "s1", "content": []});
        let picture = |kind: &str, data: &str| json!({"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}});
        let answered = |blocks: &[Value]| {
            build_history(&[(user, std::slice::from_ref(&said)), (model, std::slice::from_ref(&call)), (user, blocks)])
        };
        let searched = |reply: &[Value], answer: &[Value]| {
            build_history(&[(user, std::slice::from_ref(&said)), (model, reply), (user, answer)])
        };
        let one = |block: Value| build_history(&[(user, &[block])]);
        let block = |message, block| Some(InvalidHistory::Block { message, block });
        for (name, messages, expected) in [
            ("a good one", answered(&[result.clone(), said.clone()]), None),
            (
                "the model speaks first",
                build_history(&[(model, std::slice::from_ref(&said))]),
                Some(InvalidHistory::Order),
            ),
            (
                "a call is last",
                build_history(&[(user, std::slice::from_ref(&said)), (model, std::slice::from_ref(&call))]),
                Some(InvalidHistory::Order),
            ),
            ("a call has no result", answered(std::slice::from_ref(&said)), Some(InvalidHistory::Order)),
            ("a result stands behind words", answered(&[said.clone(), result.clone()]), Some(InvalidHistory::Order)),
            ("a result twice", answered(&[result.clone(), result.clone()]), Some(InvalidHistory::Order)),
            ("a result without a call", one(result.clone()), Some(InvalidHistory::Order)),
            (
                "an id that no server takes",
                searched(
                    &[json!({"type": "tool_use", "id": "t 1", "name": "Read", "input": {}})],
                    &[json!({"type": "tool_result", "tool_use_id": "t 1"})],
                ),
                Some(InvalidHistory::Order),
            ),
            ("an empty text", one(json!({"type": "text", "text": " "})), Some(InvalidHistory::Order)),
            ("an empty message", build_history(&[(user, &[])]), Some(InvalidHistory::Order)),
            (
                "words while a search runs",
                searched(&[search.clone(), call.clone()], &[result.clone(), said.clone()]),
                Some(InvalidHistory::Order),
            ),
            (
                "results while a search runs",
                searched(&[search.clone(), call.clone()], std::slice::from_ref(&result)),
                None,
            ),
            ("words behind a search", searched(&[search, found, call.clone()], &[result.clone(), said.clone()]), None),
            ("an image", one(picture("image/png", PIXEL)), None),
            ("an image of another kind than it says", one(picture("image/jpeg", PIXEL)), block(0, 0)),
            ("an image that is none", one(picture("image/png", "bm90aGluZw==")), block(0, 0)),
            ("a bad image in a result", answered(&[of(json!([picture("image/gif", PIXEL)]))]), block(2, 0)),
            ("a result without content", answered(&[json!({"type": "tool_result", "tool_use_id": "t1"})]), None),
            ("a result of a strange part", answered(&[of(json!([{"type": "video"}]))]), block(2, 0)),
            ("a result that is a number", answered(&[of(json!(3))]), block(2, 0)),
            ("a mark of its own", one(marked), block(0, 0)),
        ] {
            assert_eq!(find_invalid(&messages), expected, "{name}");
        }
    }
}
