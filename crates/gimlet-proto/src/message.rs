//! A message: a role and its blocks.

use std::borrow::Cow;

use serde::Serialize;

use crate::{Block, BlockKind, ToolUseParts};

/// Author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    User,
    Assistant,
}

impl Role {
    pub fn as_str(self) -> &'static str {
        match self {
            Role::User => "user",
            Role::Assistant => "assistant",
        }
    }
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub role: Role,
    pub blocks: Vec<Block>,
}

impl Message {
    pub fn user(blocks: Vec<Block>) -> Self {
        Self { role: Role::User, blocks }
    }

    pub fn assistant(blocks: Vec<Block>) -> Self {
        Self { role: Role::Assistant, blocks }
    }

    /// Returns the client tool calls of this message, in order.
    pub fn tool_uses(&self) -> impl Iterator<Item = ToolUseParts<'_>> {
        self.blocks.iter().filter_map(Block::as_tool_use)
    }

    pub fn has_tool_use(&self) -> bool {
        self.blocks.iter().any(|block| block.kind() == BlockKind::ToolUse)
    }

    /// Returns all text of this message, blocks joined by a line break.
    pub fn text(&self) -> String {
        let texts: Vec<Cow<'_, str>> = self.blocks.iter().filter_map(Block::as_text).collect();
        texts.join("\n")
    }
}
