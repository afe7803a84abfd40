//! One file of settings, after everything that it may not say was taken out.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use crate::json::{JsonText, Node};
use crate::scope::Scope;

/// Who wrote a file, as far as can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Author {
    /// The person, or the administrator of the machine.
    Person,
    /// Probably the person: a local file that git does not track. An archive can hold such a file too, and a repository
    /// around it, so it waits for trust like the project's; unlike those, it may grant whatever a person may grant.
    Unknown,
    /// Whoever can put a file into the project.
    Project,
}

/// One file of settings.
#[derive(Clone, Debug)]
pub struct Layer {
    pub scope: Scope,
    /// The file; `--settings` for settings that were given in the argument itself.
    pub file: PathBuf,
    pub author: Author,
    /// The directory that a leading `/` in a path rule of this file stands for.
    pub anchor: PathBuf,
    pub(crate) text: Arc<JsonText>,
    pub(crate) root: Node,
    /// Whether the file is broken and this is only what could be made out of what it forbids.
    pub(crate) salvaged: bool,
    /// Whether a value did not fit, so that this is only what the rest forbids.
    pub(crate) rejected: bool,
    /// Whether the file is broken and this is what it said before.
    pub(crate) held: bool,
}

impl Layer {
    /// What the file says and may say, unknown keys included.
    pub fn value(&self) -> Value {
        self.root.to_value()
    }

    /// The line that a key's value stands on.
    pub fn line_of(&self, key: &str) -> Option<usize> {
        self.root.find(key.split('.')).map(|node| self.line(node))
    }

    /// Whether something in here waits for trust.
    pub(crate) fn is_gated(&self) -> bool {
        self.author != Author::Person
    }

    pub(crate) fn line(&self, node: &Node) -> usize {
        self.text.line(node.span.start)
    }

    /// The rules of one of its lists, such as `deny`.
    pub(crate) fn rules(&self, list: &str) -> &[Node] {
        self.root.find(["permissions", list]).map(Node::elements).unwrap_or_default()
    }
}
