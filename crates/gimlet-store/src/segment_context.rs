//! What stands in front of the messages of a segment: memory, and lists of what the model can use.

use serde::{Deserialize, Serialize};

/// One text in the message that stands in front of a segment's conversation. It is sent as it is, in every request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentContextPart {
    pub kind: ContextPartKind,
    pub text: String,
    /// File that the text is from, if it is from one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<ContextPartSource>,
}

impl SegmentContextPart {
    /// Returns a part that is from no file.
    pub fn new(kind: ContextPartKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into(), source: None }
    }

    /// Sets the file that the text is from.
    pub fn with_source(mut self, source: ContextPartSource) -> Self {
        self.source = Some(source);
        self
    }
}

/// Kind of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ContextPartKind {
    /// A memory file, or words about all of them.
    Memory,
    /// The list of skills.
    Skills,
    /// The list of agents.
    Agents,
    /// A kind that a newer version writes.
    #[serde(other)]
    Other,
}

/// File of a part, for display.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextPartSource {
    pub path: String,
    /// Whose file it is: `Managed`, `User`, `Project`, `Local` and so on.
    pub scope: String,
    /// Why it was loaded.
    pub reason: String,
}
