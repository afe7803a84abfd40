//! A call that a hook left for later and that whoever drives the session answers instead of having it run.

use std::sync::Arc;

use gimlet_proto::{Block, BlockKind, EventBody, StoredToolResult, SubmittedPrompt, TurnEnd};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Turn;
use crate::conversation::Conversation;

/// Takes the result of the call that waits out of a prompt that brings it; says whether it did. A prompt that brings any
/// other, or more than there is room for, is refused as a whole, before anything has happened: the call goes on waiting.
pub(super) fn take_deferred_answer(
    conversation: &mut Conversation,
    turn: &Turn,
    prompt: &mut SubmittedPrompt,
) -> Result<bool, TurnEnd> {
    let Some(at) = prompt.blocks.iter().position(|block| block.kind() == BlockKind::ToolResult) else {
        return Ok(false);
    };
    let waiting = conversation.deferred.as_ref().map(|call| call.id.clone());
    let waiting = waiting.filter(|call| prompt.blocks[at].id() == Some(call.as_str()));
    let overflow = waiting.as_ref().and_then(|_| conversation.prompt_overflow(&prompt.blocks, &turn.model_facts()));
    let answer = waiting.map(|call| (call, prompt.blocks.remove(at)));
    if let Some(end) = overflow.or_else(|| conversation.prompt_rejection(&prompt.blocks, &turn.model_facts())) {
        return Err(end);
    }
    let Some((call, block)) = answer else { return Ok(false) };
    conversation.deferred = None;
    conversation.record.append_resumed(&call);
    let output = result_content(&block);
    // Where nothing else is said, the answer is what its author gave the id to.
    let uuid = prompt.uuid.clone().filter(|_| prompt.blocks.is_empty());
    let uuid = conversation.record.append_answer(uuid, &block, &output);
    turn.publish(EventBody::ToolFinished(Box::new(StoredToolResult { uuid, call, block: block.clone(), output })));
    conversation.push_user(vec![block]);
    Ok(true)
}

/// What a result says, as programs see it.
fn result_content(block: &Block) -> Arc<RawValue> {
    #[derive(Deserialize)]
    struct ResultBlock {
        content: Box<RawValue>,
    }
    let content = serde_json::from_str::<ResultBlock>(block.json()).map(|result| result.content);
    Arc::from(content.unwrap_or_else(|_| RawValue::NULL.to_owned()))
}
