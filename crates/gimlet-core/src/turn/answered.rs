//! A call that a hook left for later and that whoever drives the session answers instead of having it run.

use std::sync::Arc;

use gimlet_proto::{Block, BlockKind, Body, Say, ToolFinished};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Turn;
use crate::conversation::Conversation;

/// Takes the result of the call that waits out of a prompt that brings it; says whether it did. Any other result is left
/// in the prompt, which cannot be taken up with it.
pub(super) fn take_answer(conversation: &mut Conversation, turn: &Turn, prompt: &mut Say) -> bool {
    let Some(call) = conversation.deferred.as_ref().map(|call| call.id.clone()) else { return false };
    let answers = |block: &Block| block.kind() == BlockKind::ToolResult && block.id() == Some(call.as_str());
    let Some(at) = prompt.blocks.iter().position(answers) else { return false };
    if conversation.room().takes(&prompt.blocks[at..=at]).is_err() {
        return false;
    }
    let block = prompt.blocks.remove(at);
    conversation.deferred = None;
    conversation.record.resumed(&call);
    let output = content(&block);
    let uuid = conversation.record.tool_result(&call, &block, &output);
    turn.publish(Body::ToolFinished(Box::new(ToolFinished { uuid, call, block: block.clone(), output })));
    conversation.push_user(vec![block]);
    true
}

/// What a result says, as programs see it.
fn content(block: &Block) -> Arc<RawValue> {
    #[derive(Deserialize)]
    struct Result {
        content: Box<RawValue>,
    }
    let content = serde_json::from_str::<Result>(block.json()).map(|result| result.content);
    Arc::from(content.unwrap_or_else(|_| RawValue::NULL.to_owned()))
}
