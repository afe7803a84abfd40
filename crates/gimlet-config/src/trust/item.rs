//! One thing in a project that needs trust.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use similar::TextDiff;

/// Longer texts are kept as their digest alone; a change of them is then said, not shown.
const TEXT_MAX_BYTES: usize = 64 * 1024;

/// What sort of thing an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ItemKind {
    Hook,
    Env,
    /// A command that a setting names: a credential helper, the status line.
    Helper,
    McpServer,
    Plugin,
    Skill,
    Agent,
    Command,
    AllowRule,
    Directory,
    /// Any other key that allows something or changes what is sent where.
    Setting,
}

impl ItemKind {
    pub fn label(self) -> &'static str {
        match self {
            ItemKind::Hook => "hook",
            ItemKind::Env => "environment variable",
            ItemKind::Helper => "helper command",
            ItemKind::AllowRule => "allow rule",
            ItemKind::Directory => "further folder",
            ItemKind::Setting => "setting",
            ItemKind::Plugin => "plugin",
            ItemKind::McpServer => "MCP server",
            ItemKind::Skill => "skill",
            ItemKind::Agent => "agent",
            ItemKind::Command => "command",
        }
    }
}

/// One thing in a project that needs trust.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Item {
    pub kind: ItemKind,
    /// What tells it from others of its kind: an event and matcher, a variable, a server, a path.
    pub name: String,
    /// What it would do, for people; secrets are left out.
    pub text: String,
    pub file: PathBuf,
    pub line: Option<usize>,
    /// Whether it runs something, so that the folder's trust alone is not enough.
    pub executes: bool,
    /// SHA-256 of all that decides what it does.
    pub digest: String,
    /// Whether it is probably the person's own, so that for what does not run the folder's trust is enough.
    #[serde(skip)]
    pub(crate) own: bool,
    /// Where it stands in a layer, when it is part of one.
    #[serde(skip)]
    pub(crate) place: Option<Place>,
}

/// A value in a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) layer: usize,
    pub(crate) path: Vec<String>,
}

impl Item {
    /// The setting that it is, or is a part of, for items of settings files.
    pub fn setting(&self) -> Option<String> {
        self.place.as_ref().map(|place| place.path.join("."))
    }

    /// A few words that name it.
    pub fn title(&self) -> String {
        match self.kind {
            ItemKind::Setting | ItemKind::Helper | ItemKind::Plugin => self.name.clone(),
            kind => format!("{} {}", kind.label(), self.name),
        }
    }
}

/// Adds up what an item's digest covers, so that no two different items can have the same.
pub(super) struct Content {
    hasher: Sha256,
}

impl Content {
    pub(super) fn new(kind: ItemKind) -> Self {
        Self { hasher: Sha256::new() }.part(kind.label().as_bytes())
    }

    pub(super) fn part(mut self, bytes: &[u8]) -> Self {
        // Lengths keep the borders between parts.
        self.hasher.update((bytes.len() as u64).to_be_bytes());
        self.hasher.update(bytes);
        self
    }

    pub(super) fn digest(self) -> String {
        self.hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// An item that was accepted, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Accepted {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) digest: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<String>,
}

impl From<&Item> for Accepted {
    fn from(item: &Item) -> Self {
        let text = (item.text.len() <= TEXT_MAX_BYTES).then(|| item.text.clone());
        Self { kind: item.kind.label().into(), name: item.name.clone(), digest: item.digest.clone(), text }
    }
}

/// An item that is not covered, against what was accepted before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub item: Item,
    /// Whether something of the same name was accepted before.
    pub is_new: bool,
    /// What it would do now; for something that changed, the lines that differ.
    pub shown: String,
}

impl Change {
    pub(super) fn of(item: &Item, accepted: &[Accepted]) -> Self {
        let same = |old: &&Accepted| old.kind == item.kind.label() && old.name == item.name;
        // The newest acceptance comes last.
        let earlier = accepted.iter().rev().find(same);
        let shown = match earlier.map(|old| old.text.as_deref()) {
            None => item.text.clone(),
            Some(Some(old)) if old != item.text => {
                let old = format!("{}\n", old.trim_end());
                let new = format!("{}\n", item.text.trim_end());
                TextDiff::from_lines(&old, &new).unified_diff().context_radius(2).to_string()
            }
            Some(_) => format!("{}\n(what it runs or its values changed)", item.text),
        };
        Self { item: item.clone(), is_new: earlier.is_none(), shown }
    }
}
