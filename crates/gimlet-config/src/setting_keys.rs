//! Every key that gimlet knows: what it does, which files may set it, when a change takes effect, and whether a project's
//! files need trust for it. What a key may hold is said by its type in [`crate::Settings`]; a test keeps the two together.

mod key_table;

use gimlet_proto::edit_distance;
use serde::Serialize;

use crate::scope::Scope;

pub use key_table::KEYS;

/// The files that a key is read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySource {
    Any,
    /// Not from the project's shared file.
    NotProject,
    /// The person's own file, `--settings` and managed settings.
    User,
    /// Managed settings alone.
    Managed,
    /// `.claude.json` alone.
    State,
}

/// When a change of a key takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReloadTiming {
    /// In the running session.
    Live,
    /// In the next session.
    Start,
}

/// What a key of a project's file needs before it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrustRequirement {
    /// Nothing: it only forbids or only changes what is shown.
    Free,
    /// Trust in the folder: it allows something, or changes what is sent where.
    Grant,
    /// Trust in exactly this content: it names something that runs, or what runs is given.
    Executes,
}

/// What a key does in this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyEffect {
    Acts,
    /// Nothing: the feature that it belongs to is not there yet.
    NotYet,
    /// Nothing: it belongs to a hosted service that gimlet does not use.
    Hosted,
}

/// The switches of the sandbox, and the value of each that makes it stricter.
pub(crate) const SANDBOX_SWITCHES: [(&str, bool); 4] = [
    ("enabled", true),
    ("failIfUnavailable", true),
    ("autoAllowBashIfSandboxed", false),
    ("allowUnsandboxedCommands", false),
];

/// One key.
#[derive(Clone, Copy, Debug)]
pub struct SettingKey {
    /// Its name, with dots between the parts.
    pub path: &'static str,
    pub source: KeySource,
    pub reload: ReloadTiming,
    pub trust: TrustRequirement,
    pub effect: KeyEffect,
}

impl KeySource {
    pub(crate) fn allows_scope(self, scope: Scope) -> bool {
        match self {
            KeySource::Any => true,
            KeySource::NotProject => scope != Scope::Project,
            KeySource::User => !matches!(scope, Scope::Project | Scope::Local),
            KeySource::Managed => scope == Scope::Managed,
            KeySource::State => false,
        }
    }

    /// Where the key is read from, in words.
    pub fn words(self) -> &'static str {
        match self {
            KeySource::Any => "every settings file",
            KeySource::NotProject => "user, local and managed settings",
            KeySource::User => "user and managed settings",
            KeySource::Managed => "managed settings",
            KeySource::State => ".claude.json",
        }
    }
}

/// The key that this path names, or the one that it lies below.
pub fn find_key(path: &str) -> Option<&'static SettingKey> {
    let mut rest = Some(path);
    while let Some(name) = rest {
        if let Some(found) = KEYS.iter().find(|key| key.path == name) {
            return Some(found);
        }
        rest = name.rsplit_once('.').map(|(above, _)| above);
    }
    None
}

/// Whether this path is an object whose members are keys of their own.
pub fn is_group(path: &str) -> bool {
    KEYS.iter().any(|key| key.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')))
}

/// The key that somebody who wrote this name probably meant.
pub fn suggest_key(path: &str) -> Option<&'static str> {
    // Lists of rules are often written without the object that they belong into.
    let inside = format!("permissions.{path}");
    if let Some(key) = KEYS.iter().find(|key| key.path == inside) {
        return Some(key.path);
    }
    let groups = KEYS.iter().flat_map(|key| key.path.match_indices('.').map(|(dot, _)| &key.path[..dot]));
    let names = KEYS.iter().map(|key| key.path).chain(groups);
    let close = names.map(|name| (edit_distance(name, path), name)).min();
    close.filter(|(distance, _)| *distance <= 2).map(|(_, name)| name)
}

/// Whether this is most likely a slip for a key that guards something: whoever wrote it thinks that it holds.
pub fn is_guard_key_typo(path: &str) -> bool {
    let guards = |name: &str| matches!(name.split('.').next(), Some("permissions" | "sandbox"));
    find_key(path).is_none() && !is_group(path) && suggest_key(path).is_some_and(guards)
}

/// Keys with a second spelling, and the one that is used.
pub const OTHER_SPELLINGS: [(&str, &str); 2] =
    [("additionalMarketplaces", "extraKnownMarketplaces"), ("allowedMarketplaces", "strictKnownMarketplaces")];

/// The spelling that is used for one that is another.
pub(crate) fn canonical_spelling(path: &str) -> Option<&'static str> {
    OTHER_SPELLINGS.iter().find(|(other, _)| *other == path).map(|(_, canonical)| *canonical)
}
