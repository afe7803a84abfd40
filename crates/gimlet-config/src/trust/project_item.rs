//! Item of a project that needs trust.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::escape_invisible::escape_invisible_line;

/// Maximum size of a kept text; longer ones are kept as their digest alone, and a change of them is reported, not
/// shown.
const TEXT_MAX_BYTES: usize = 64 * 1024;
/// Prefix of the digest of an item that depends on more than its content.
pub(super) const UNFOLLOWED: &str = "unfollowed-";
/// Maximum size of all kept scripts of an item together.
const SCRIPTS_MAX_BYTES: usize = 256 * 1024;

/// Name of the item by which a project's sandbox answers permission questions.
pub(super) const SANDBOX_ANSWERS: &str = "sandbox.enabled in place of questions";

/// Kind of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProjectItemKind {
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
    /// An import or a symlink of the project's memory that leads out of the project.
    MemoryImport,
}

impl ProjectItemKind {
    pub fn label(self) -> &'static str {
        match self {
            ProjectItemKind::Hook => "hook",
            ProjectItemKind::Env => "environment variable",
            ProjectItemKind::Helper => "helper command",
            ProjectItemKind::AllowRule => "allow rule",
            ProjectItemKind::Directory => "further folder",
            ProjectItemKind::Setting => "setting",
            ProjectItemKind::Plugin => "plugin",
            ProjectItemKind::McpServer => "MCP server",
            ProjectItemKind::Skill => "skill",
            ProjectItemKind::Agent => "agent",
            ProjectItemKind::Command => "command",
            ProjectItemKind::MemoryImport => "memory import",
        }
    }
}

/// Item of a project that needs trust.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProjectItem {
    pub kind: ProjectItemKind,
    /// Name that identifies it among its kind: an event and matcher, a variable, a server, a path.
    pub name: String,
    /// Effect of the item, for display; secrets are left out.
    pub text: String,
    pub file: PathBuf,
    pub line: Option<usize>,
    /// True if it runs something, so that the folder's trust alone is not enough.
    pub executes: bool,
    /// SHA-256 of everything that decides the item's effect, marked where not all of that could be followed: such an
    /// item is accepted for the session only, never permanently.
    pub digest: String,
    /// Files of the project that it names; they are part of the digest.
    #[serde(skip)]
    pub(crate) scripts: Vec<ReferencedScript>,
    /// True if it is probably the user's own, so that the folder's trust is enough unless it runs something.
    #[serde(skip)]
    pub(crate) own: bool,
    /// Position in a layer, when it is part of one.
    #[serde(skip)]
    pub(crate) place: Option<LayerPath>,
    /// Definition of a server: what the digest is about.
    #[serde(skip)]
    pub(crate) server: Option<ServerDefinition>,
}

/// Definition of a server, whose secrets stay out of debug output.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ServerDefinition(pub(crate) Value);

impl fmt::Debug for ServerDefinition {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", redact_secrets(&self.0))
    }
}

/// Returns a server's entry with names in place of the values that may be secret.
pub(super) fn redact_secrets(server: &Value) -> Value {
    let mut shown = server.clone();
    for field in ["env", "headers"] {
        let Some(values) = shown.get_mut(field).and_then(Value::as_object_mut) else { continue };
        values.values_mut().for_each(|value| *value = Value::String("…".into()));
    }
    shown
}

/// Path of a value in a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LayerPath {
    pub(crate) layer: usize,
    pub(crate) path: Vec<String>,
}

impl ProjectItem {
    /// Returns the setting that the item is, or is a part of; `None` unless it is from a settings file.
    pub fn setting(&self) -> Option<String> {
        self.place.as_ref().map(|place| place.path.join("."))
    }

    /// Returns true if the item is that a sandbox which the project turned on answers permission questions.
    pub fn is_sandbox_auto_allow(&self) -> bool {
        self.kind == ProjectItemKind::Setting && self.name == SANDBOX_ANSWERS
    }

    /// Returns the files of the project that it names.
    pub fn script_files(&self) -> impl Iterator<Item = &PathBuf> {
        self.scripts.iter().map(|script| &script.file)
    }

    /// Returns a short name for it, on one line and without invisible characters.
    pub fn title(&self) -> String {
        let name = escape_invisible_line(&self.name);
        match self.kind {
            ProjectItemKind::Setting | ProjectItemKind::Helper | ProjectItemKind::Plugin => name.into_owned(),
            kind => format!("{} {name}", kind.label()),
        }
    }
}

/// Builder of an item's digest; no two different items can have equal digests.
pub(super) struct DigestBuilder {
    hasher: Sha256,
    is_followed: bool,
}

impl DigestBuilder {
    pub(super) fn new(kind: ProjectItemKind) -> Self {
        Self { hasher: Sha256::new(), is_followed: true }.add_part(kind.label().as_bytes())
    }

    pub(super) fn add_part(mut self, bytes: &[u8]) -> Self {
        // Lengths separate the parts.
        self.hasher.update((bytes.len() as u64).to_be_bytes());
        self.hasher.update(bytes);
        self
    }

    /// Records that the item depends on something that is not in it.
    pub(super) fn mark_incomplete(mut self) -> Self {
        self.is_followed = false;
        self
    }

    pub(super) fn finish(self) -> String {
        let digest = to_hex(self.hasher.finalize());
        if self.is_followed { digest } else { format!("{UNFOLLOWED}{digest}") }
    }
}

fn to_hex(digest: impl AsRef<[u8]>) -> String {
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// File of the project that an item's command names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReferencedScript {
    /// As the command spells it.
    pub(crate) path: String,
    pub(crate) digest: String,
    /// Path of the file.
    #[serde(skip)]
    pub(crate) file: PathBuf,
    /// Its content, where that can be shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<String>,
}

impl ReferencedScript {
    /// Creates a script. `bytes` represent it in digests; they can be shown only if they are its whole content.
    pub(super) fn new(path: &str, file: &Path, bytes: &[u8], is_whole: bool) -> Self {
        let text = std::str::from_utf8(bytes).ok().filter(|text| is_whole && text.len() <= TEXT_MAX_BYTES);
        let (path, file) = (path.to_owned(), file.to_owned());
        Self { path, file, digest: to_hex(Sha256::digest(bytes)), text: text.map(str::to_owned) }
    }
}

/// Accepted item, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AcceptedItem {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) digest: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) scripts: Vec<ReferencedScript>,
}

impl AcceptedItem {
    /// Leaves the texts of scripts out, which are by far the largest part, beyond so many bytes.
    pub(super) fn limit_script_texts(&mut self, mut budget: usize) {
        for script in &mut self.scripts {
            script.text = script.text.take().filter(|text| text.len() <= budget);
            budget -= script.text.as_ref().map_or(0, String::len);
        }
    }
}

impl From<&ProjectItem> for AcceptedItem {
    fn from(item: &ProjectItem) -> Self {
        let text = (item.text.len() <= TEXT_MAX_BYTES).then(|| item.text.clone());
        let (name, digest) = (item.name.clone(), item.digest.clone());
        let mut accepted = Self { kind: item.kind.label().into(), name, digest, text, scripts: item.scripts.clone() };
        accepted.limit_script_texts(SCRIPTS_MAX_BYTES);
        accepted
    }
}
