//! Deferred calls that the client answers itself instead of having them run.

use std::sync::Arc;

use gimlet_proto::{Block, BlockKind, EventBody, StoredToolResult, SubmittedPrompt, TurnEnd};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Turn;
use crate::conversation::Conversation;

/// Takes the result of the deferred call out of a prompt that contains it. Returns true if it did. A prompt with any
/// other result, or with more than fits, is refused as a whole, before any effect: the call stays deferred.
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
    let overflow =
        waiting.as_ref().and_then(|_| conversation.history().prompt_overflow(&prompt.blocks, &turn.model_facts()));
    let answer = waiting.map(|call| (call, prompt.blocks.remove(at)));
    if let Some(end) = overflow.or_else(|| conversation.history().prompt_rejection(&prompt.blocks, &turn.model_facts()))
    {
        return Err(end);
    }
    let Some((call, block)) = answer else { return Ok(false) };
    conversation.deferred = None;
    conversation.record.append_resumed(&call);
    let output = result_content(&block);
    // If the prompt contains nothing else, its id belongs to the answer.
    let uuid = prompt.uuid.clone().filter(|_| prompt.blocks.is_empty());
    let uuid = conversation.record.append_answer(uuid, &block, &output);
    turn.publish(EventBody::ToolFinished(Box::new(StoredToolResult { uuid, call, block: block.clone(), output })));
    conversation.history_mut().push_user(vec![block]);
    Ok(true)
}

/// Returns the content of a result, as programs see it.
fn result_content(block: &Block) -> Arc<RawValue> {
    #[derive(Deserialize)]
    struct ResultBlock {
        content: Box<RawValue>,
    }
    let content = serde_json::from_str::<ResultBlock>(block.json()).map(|result| result.content);
    Arc::from(content.unwrap_or_else(|_| RawValue::NULL.to_owned()))
}
