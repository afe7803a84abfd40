//! The frozen beginning of a conversation segment.

use std::sync::Arc;

use gimlet_proto::{Block, Message, ToolDef};
use gimlet_store::{FrozenPrefix, SegmentContextPart};

/// Beginning of every request of a conversation segment, byte for byte.
#[derive(Clone, Debug)]
pub struct PromptSegment {
    pub system: Arc<[String]>,
    pub tools: Arc<[ToolDef]>,
    /// Texts of the message in front of the conversation; `None` until the segment opens and its sources are asked.
    pub context: Option<Arc<[SegmentContextPart]>>,
}

impl PromptSegment {
    /// Returns the recorded prompt of a segment; `None` if its tools cannot be read.
    pub(crate) fn from_frozen(frozen: &FrozenPrefix) -> Option<Self> {
        Some(Self {
            system: frozen.system.clone().into(),
            tools: crate::context::tools_from_json(&frozen.tools_json)?,
            context: Some(frozen.context.clone().into()),
        })
    }

    /// Returns the recorded prompt of a segment; `None` if its tools are no longer those of `fresh`: one with an equal
    /// name may differ by an answer schema, a list of agents, a sandbox that is off now.
    pub fn restore(frozen: &FrozenPrefix, fresh: &PromptSegment) -> Option<Self> {
        Self::from_frozen(frozen).filter(|prompt| prompt.tools == fresh.tools)
    }

    /// Returns the parts in front of the conversation; none while the segment is not open.
    pub(crate) fn context_parts(&self) -> &[SegmentContextPart] {
        self.context.as_deref().unwrap_or_default()
    }

    /// Renders the message in front of the conversation; `None` if there is nothing to say.
    pub(super) fn context_message(&self) -> Option<Arc<Message>> {
        let texts = self.context_parts().iter().map(|part| part.text.as_str()).filter(|text| !text.trim().is_empty());
        let blocks: Vec<Block> = texts.map(Block::text).collect();
        (!blocks.is_empty()).then(|| Arc::new(Message::user(blocks)))
    }
}
