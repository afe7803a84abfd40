//! Compaction of a conversation, as front ends see it.

use crate::{Block, EntryId};

/// Cause of a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactionTrigger {
    /// The user asked for it.
    Manual,
    /// The context window was nearly full.
    Auto,
}

impl CompactionTrigger {
    pub fn as_str(self) -> &'static str {
        match self {
            CompactionTrigger::Manual => "manual",
            CompactionTrigger::Auto => "auto",
        }
    }
}

/// State of a compaction.
#[derive(Clone, Debug)]
pub enum CompactionView {
    Started(CompactionTrigger),
    /// The conversation continues from the summary.
    Finished(CompactedSegment),
    /// The conversation is unchanged.
    Failed(String),
}

/// The segment that a compaction began.
#[derive(Clone, Debug)]
pub struct CompactedSegment {
    pub trigger: CompactionTrigger,
    /// Entry of the boundary, and of the message with the summary after it.
    pub boundary: EntryId,
    pub summary: EntryId,
    /// Content of that message.
    pub blocks: Vec<Block>,
    pub pre_tokens: u64,
    pub post_tokens: u64,
    pub duration_ms: u64,
}
