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

/// File of a part, and why it was loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextPartSource {
    /// Path as spelled.
    pub path: String,
    /// Path without symlinks, if that is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub real_path: Option<String>,
    /// Whose file it is: `Managed`, `User`, `Project`, `Local` and so on.
    pub scope: String,
    /// Why it was loaded: `session_start`, `nested_traversal` and so on.
    pub reason: String,
    /// Patterns of a rule that is about certain files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub globs: Vec<String>,
    /// File whose reading loaded it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<String>,
    /// File that imports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Digest of the file's text as it was loaded, to notice changes; `None` for a file of which only the place is
    /// given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

impl ContextPartSource {
    /// Returns the path without symlinks.
    pub fn real_path(&self) -> &str {
        self.real_path.as_deref().unwrap_or(&self.path)
    }
}

/// What a transcript says about a message that is a part which joined the conversation after its beginning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ContextPartLabel {
    pub(crate) kind: ContextPartKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) source: Option<ContextPartSource>,
}
