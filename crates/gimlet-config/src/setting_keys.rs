//! All keys that gimlet knows: effect, files that may set it, time at which a change takes effect, and need of trust
//! in a project's files. The values of a key are defined by its type in [`crate::Settings`]; a test keeps the two
//! together.

mod key_table;

use gimlet_text::edit_distance;
use serde::Serialize;

use crate::scope::Scope;

pub use key_table::KEYS;

/// Files that a key is read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySource {
    Any,
    /// Not from the project's shared file.
    NotProject,
    /// The user's own file, `--settings` and managed settings.
    User,
    /// Managed settings alone.
    Managed,
    /// `.claude.json` alone.
    State,
}

/// Time at which a change of a key takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReloadTiming {
    /// In the running session.
    Live,
    /// In the next session.
    Start,
}

/// Trust that a key in a project's file needs before it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrustRequirement {
    /// Nothing: it only forbids or only changes what is shown.
    Free,
    /// Trust in the folder: it allows something, or changes what is sent where.
    Grant,
    /// Trust in exactly this content: it names something that runs, or input to it.
    Executes,
}

/// Effect of a key in this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyEffect {
    Acts,
    /// Nothing: the feature that it belongs to is not there yet.
    NotYet,
    /// Nothing: it belongs to a hosted service that gimlet does not use.
    Hosted,
}

/// Switches of the sandbox, and the value of each that makes it stricter.
pub(crate) const SANDBOX_SWITCHES: [(&str, bool); 4] = [
    ("enabled", true),
    ("failIfUnavailable", true),
    ("autoAllowBashIfSandboxed", false),
    ("allowUnsandboxedCommands", false),
];

/// Description of one key.
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

    /// Returns the files that the key is read from, as text.
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

/// Returns the key that this path names, or the one that contains it.
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

/// Returns true if this path is an object whose members are keys of their own.
pub fn is_group(path: &str) -> bool {
    KEYS.iter().any(|key| key.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')))
}

/// Returns the known key nearest to this unknown name; `None` if there is none.
pub fn suggest_key(path: &str) -> Option<&'static str> {
    // Lists of rules are often written without the object that contains them.
    let inside = format!("permissions.{path}");
    if let Some(key) = KEYS.iter().find(|key| key.path == inside) {
        return Some(key.path);
    }
    let groups = KEYS.iter().flat_map(|key| key.path.match_indices('.').map(|(dot, _)| &key.path[..dot]));
    let names = KEYS.iter().map(|key| key.path).chain(groups);
    let close = names.map(|name| (edit_distance(name, path), name)).min();
    close.filter(|(distance, _)| *distance <= 2).map(|(_, name)| name)
}

/// Returns true if this is most likely a typo of a key that protects something, which then does not apply.
pub fn is_guard_key_typo(path: &str) -> bool {
    let guards = |name: &str| matches!(name.split('.').next(), Some("permissions" | "sandbox"));
    find_key(path).is_none() && !is_group(path) && suggest_key(path).is_some_and(guards)
}

/// Keys with a second spelling, and the one that is used.
pub const OTHER_SPELLINGS: [(&str, &str); 2] =
    [("additionalMarketplaces", "extraKnownMarketplaces"), ("allowedMarketplaces", "strictKnownMarketplaces")];

/// Returns the canonical spelling of an alternative one; `None` if it is not an alternative.
pub(crate) fn canonical_spelling(path: &str) -> Option<&'static str> {
    OTHER_SPELLINGS.iter().find(|(other, _)| *other == path).map(|(_, canonical)| *canonical)
}
