//! Usage of a conversation's context window, in figures that every front end can draw.

use crate::TokenUsage;

/// The context window by what fills it.
///
/// Figures are estimates from sizes in bytes, scaled so that they add up to what the provider counted at the last
/// request. Before the first request they are rough.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContextUsage {
    /// The model of the moment, by its id.
    pub model: String,
    /// The window in force: the model's, or a smaller one that was asked for.
    pub max_tokens: u64,
    /// The model's whole window.
    pub model_window: u64,
    /// Number of tokens at which the conversation is compacted by itself; `None` if it is not.
    pub compaction_limit: Option<u64>,
    /// Number of tokens used.
    pub total_tokens: u64,
    /// Contents of the window by category, what is free last. Used categories add up to `total_tokens`.
    pub categories: Vec<ContextCategory>,
    /// Each tool's part of the category of tools, in the order of the list.
    pub tools: Vec<ContextTool>,
    /// Memory files in front of the conversation, in order, which are the category of memory.
    pub memory_files: Vec<ContextFile>,
    /// The parts of the category of messages.
    pub messages: ContextMessages,
    /// Usage that the provider counted for the last request; `None` before the first.
    pub last_request: Option<TokenUsage>,
}

/// One thing in the window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextCategory {
    /// Display name: `System prompt`, `System tools`, `MCP tools`, `Custom agents`, `Memory files`, `Skills`,
    /// `Messages`, `Free space`, `Compaction buffer`.
    pub name: &'static str,
    pub kind: ContextKind,
    pub tokens: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextKind {
    Used,
    Free,
    /// Kept free: the conversation is compacted before it reaches this part.
    Buffer,
}

/// Tokens taken by one tool's definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextTool {
    pub name: String,
    pub tokens: u64,
}

/// Tokens taken by one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextFile {
    pub path: String,
    /// Whose file it is, for display.
    pub scope: String,
    pub tokens: u64,
}

/// Tokens taken by each kind of message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContextMessages {
    pub user: u64,
    pub assistant: u64,
    pub tool_calls: u64,
    pub tool_results: u64,
}
