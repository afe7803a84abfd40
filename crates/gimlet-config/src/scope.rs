//! Scopes of settings and their precedence.

use std::fmt;

use serde::Serialize;

/// Scope that settings come from, lowest precedence first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// `settings.json` in the config home: the user's own, for every project.
    User,
    /// `.claude/settings.json` of the project: shared with all its users.
    Project,
    /// `.claude/settings.local.json`: one user's, for one project.
    Local,
    /// `--settings`: for one run.
    Flag,
    /// Settings of the machine's administrator.
    Managed,
}

impl Scope {
    pub const ALL: [Scope; 5] = [Scope::User, Scope::Project, Scope::Local, Scope::Flag, Scope::Managed];

    pub fn as_str(self) -> &'static str {
        match self {
            Scope::User => "user",
            Scope::Project => "project",
            Scope::Local => "local",
            Scope::Flag => "flag",
            Scope::Managed => "managed",
        }
    }

    /// Returns the name of the scope for messages.
    pub fn label(self) -> &'static str {
        match self {
            Scope::User => "the user settings",
            Scope::Project => "the project settings",
            Scope::Local => "the local settings",
            Scope::Flag => "--settings",
            Scope::Managed => "the managed settings",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// User and project files that are read; managed settings and `--settings` always are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettingSources {
    pub user: bool,
    pub project: bool,
    pub local: bool,
}

impl Default for SettingSources {
    fn default() -> Self {
        Self { user: true, project: true, local: true }
    }
}

/// Unknown name in `--setting-sources`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a source of settings; choose from user, project, local")]
pub struct UnknownSource(pub String);

impl std::str::FromStr for SettingSources {
    type Err = UnknownSource;

    /// Parses the value of `--setting-sources`: names with commas between them; no name at all reads no file.
    fn from_str(text: &str) -> Result<Self, UnknownSource> {
        let mut sources = Self { user: false, project: false, local: false };
        for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            match name {
                "user" => sources.user = true,
                "project" => sources.project = true,
                "local" => sources.local = true,
                other => return Err(UnknownSource(other.to_owned())),
            }
        }
        Ok(sources)
    }
}
