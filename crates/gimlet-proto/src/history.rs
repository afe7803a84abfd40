//! A conversation as it was so far, for a front end that opens late or resumes a session. Calls come as views, so that
//! no front end reads a tool's input or output.

use crate::{Block, EntryId, Role, ToolUseId, View};

/// One item of a conversation, in order.
#[derive(Clone, Debug)]
pub struct HistoryItem {
    /// The transcript entry that it comes from.
    pub entry: EntryId,
    pub role: Role,
    /// When it was written (ISO 8601), if known.
    pub at: Option<String>,
    pub body: HistoryBody,
}

/// Content of an item.
#[derive(Clone, Debug)]
pub enum HistoryBody {
    /// A prompt of the user's.
    Prompt(Vec<Block>),
    /// Text that the program added, not shown to the user by itself.
    Injected(Vec<Block>),
    /// Text, thinking and other content of a reply; its calls follow as items of their own.
    Reply(Vec<Block>),
    Call(Box<HistoryCall>),
    /// A report of a failed request.
    Failure(Vec<Block>),
    /// The conversation was compacted here.
    Compacted,
    /// The summary of the conversation before a compaction.
    Summary(Vec<Block>),
    /// A note of the program's own.
    Note(Vec<Block>),
}

/// A past call with its result.
#[derive(Clone, Debug)]
pub struct HistoryCall {
    pub call: ToolUseId,
    /// The tool's display name.
    pub name: String,
    /// One line about the call.
    pub summary: String,
    /// `None` if the call has no result.
    pub result: Option<HistoryResult>,
}

/// The result of a past call.
#[derive(Clone, Debug)]
pub struct HistoryResult {
    pub entry: EntryId,
    /// True if the call failed or was refused.
    pub failed: bool,
    pub view: View,
}
