//! One settings file, after the values that it may not set were removed.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use crate::json::{JsonNode, JsonText};
use crate::scope::Scope;

/// Author of a file, as far as known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileAuthor {
    /// The user, or the administrator of the machine.
    User,
    /// Probably the user: a local file that git does not track. An archive can hold such a file too, and a repository
    /// around it, so it waits for trust like the project's; unlike those, it may grant all that a user may grant.
    Unknown,
    /// Any author who can put a file into the project.
    Project,
}

/// One settings file.
#[derive(Clone, Debug)]
pub struct SettingsLayer {
    pub scope: Scope,
    /// Path of the file; `--settings` for settings in the argument itself.
    pub file: PathBuf,
    pub author: FileAuthor,
    /// Directory that a leading `/` in a path rule of this file refers to.
    pub anchor: PathBuf,
    pub(crate) text: Arc<JsonText>,
    pub(crate) root: JsonNode,
    /// True if the file is broken and this holds only the restrictions recovered from it.
    pub(crate) is_recovered: bool,
    /// True if a value was invalid, so that this holds only the restrictions of the rest.
    pub(crate) is_rejected: bool,
    /// True if the file is broken and this is its previous content.
    pub(crate) is_previous_content: bool,
}

impl SettingsLayer {
    /// Returns the file's permitted settings, unknown keys included.
    pub fn to_value(&self) -> Value {
        self.root.to_value()
    }

    /// Returns the line of a key's value.
    pub fn line_of_key(&self, key: &str) -> Option<usize> {
        self.root.find(key.split('.')).map(|node| self.line_of_node(node))
    }

    /// Returns true if something in here waits for trust.
    pub(crate) fn needs_trust(&self) -> bool {
        self.author != FileAuthor::User
    }

    pub(crate) fn line_of_node(&self, node: &JsonNode) -> usize {
        self.text.line_at(node.span.start)
    }

    /// Returns the rules of one of its lists, such as `deny`.
    pub(crate) fn rule_nodes(&self, list: &str) -> &[JsonNode] {
        self.root.find(["permissions", list]).map(JsonNode::elements).unwrap_or_default()
    }
}
