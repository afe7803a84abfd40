//! The frozen beginning of a conversation segment.

use std::sync::Arc;

use gimlet_proto::{Block, Message, ToolDef};
use gimlet_store::SegmentContextPart;

/// Beginning of every request of a conversation segment, byte for byte.
#[derive(Clone, Debug)]
pub struct PromptSegment {
    pub system: Arc<[String]>,
    pub tools: Arc<[ToolDef]>,
    /// Texts of the message in front of the conversation.
    pub context: Arc<[SegmentContextPart]>,
}

impl PromptSegment {
    /// Renders the message in front of the conversation; `None` if there is nothing to say.
    pub(super) fn context_message(&self) -> Option<Arc<Message>> {
        let texts = self.context.iter().map(|part| part.text.as_str()).filter(|text| !text.trim().is_empty());
        let blocks: Vec<Block> = texts.map(Block::text).collect();
        (!blocks.is_empty()).then(|| Arc::new(Message::user(blocks)))
    }
}
