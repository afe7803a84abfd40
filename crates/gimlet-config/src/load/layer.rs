//! One file of settings, after everything that it may not say was taken out.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use crate::json::{JsonNode, JsonText};
use crate::scope::Scope;

/// Who wrote a file, as far as can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileAuthor {
    /// The person, or the administrator of the machine.
    User,
    /// Probably the person: a local file that git does not track. An archive can hold such a file too, and a repository
    /// around it, so it waits for trust like the project's; unlike those, it may grant whatever a person may grant.
    Unknown,
    /// Whoever can put a file into the project.
    Project,
}

/// One file of settings.
#[derive(Clone, Debug)]
pub struct SettingsLayer {
    pub scope: Scope,
    /// The file; `--settings` for settings that were given in the argument itself.
    pub file: PathBuf,
    pub author: FileAuthor,
    /// The directory that a leading `/` in a path rule of this file stands for.
    pub anchor: PathBuf,
    pub(crate) text: Arc<JsonText>,
    pub(crate) root: JsonNode,
    /// Whether the file is broken and this is only what could be made out of what it forbids.
    pub(crate) is_recovered: bool,
    /// Whether a value did not fit, so that this is only what the rest forbids.
    pub(crate) is_rejected: bool,
    /// Whether the file is broken and this is what it said before.
    pub(crate) is_previous_content: bool,
}

impl SettingsLayer {
    /// What the file says and may say, unknown keys included.
    pub fn to_value(&self) -> Value {
        self.root.to_value()
    }

    /// The line that a key's value stands on.
    pub fn line_of_key(&self, key: &str) -> Option<usize> {
        self.root.find(key.split('.')).map(|node| self.line_of_node(node))
    }

    /// Whether something in here waits for trust.
    pub(crate) fn needs_trust(&self) -> bool {
        self.author != FileAuthor::User
    }

    pub(crate) fn line_of_node(&self, node: &JsonNode) -> usize {
        self.text.line_at(node.span.start)
    }

    /// The rules of one of its lists, such as `deny`.
    pub(crate) fn rule_nodes(&self, list: &str) -> &[JsonNode] {
        self.root.find(["permissions", list]).map(JsonNode::elements).unwrap_or_default()
    }
}
