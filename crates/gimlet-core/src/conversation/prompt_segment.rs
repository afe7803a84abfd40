//! The frozen beginning of a conversation segment.

use std::sync::Arc;

use gimlet_proto::ToolDef;

/// Beginning of every request of a conversation segment, byte for byte.
#[derive(Clone, Debug)]
pub struct PromptSegment {
    pub system: Arc<[String]>,
    pub tools: Arc<[ToolDef]>,
}
