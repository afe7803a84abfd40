//! Source of a rule: for users, who want to find and change it, and for path patterns, whose leading `/` stands for a
//! folder of the source. It holds no policy.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::paths::lossy;

/// The kind of place that a rule came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RuleScope {
    Managed,
    CommandLine,
    Local,
    Project,
    User,
    Session,
    Hook,
    Skill,
}

impl RuleScope {
    /// Every kind, for tests that must hold for all of them.
    pub const ALL: [RuleScope; 8] = [
        RuleScope::Managed,
        RuleScope::CommandLine,
        RuleScope::Local,
        RuleScope::Project,
        RuleScope::User,
        RuleScope::Session,
        RuleScope::Hook,
        RuleScope::Skill,
    ];
}

impl fmt::Display for RuleScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RuleScope::Managed => "the managed settings",
            RuleScope::CommandLine => "the command line",
            RuleScope::Local => "the local settings",
            RuleScope::Project => "the project settings",
            RuleScope::User => "the user settings",
            RuleScope::Session => "this session",
            RuleScope::Hook => "a hook",
            RuleScope::Skill => "a skill",
        })
    }
}

/// Source of one rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleSource {
    pub scope: RuleScope,
    /// Label for users: `the project settings`, `--disallowedTools`.
    pub label: String,
    #[serde(default, with = "lossy::option", skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The directory that a path pattern's leading `/` stands for.
    #[serde(with = "lossy")]
    pub anchor: PathBuf,
}

impl RuleSource {
    /// Creates a source that is labelled by its scope.
    pub fn new(scope: RuleScope, anchor: impl Into<PathBuf>) -> Self {
        Self { scope, label: scope.to_string(), file: None, line: None, anchor: anchor.into() }
    }

    /// Returns the source under another name, such as that of a flag.
    pub fn with_label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Returns the source with this file and line.
    pub fn in_file(mut self, file: impl Into<PathBuf>, line: Option<u32>) -> Self {
        self.file = Some(file.into());
        self.line = line;
        self
    }
}

impl fmt::Display for RuleSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label)?;
        match (&self.file, self.line) {
            (Some(file), Some(line)) => write!(f, " ({}:{line})", file.display()),
            (Some(file), None) => write!(f, " ({})", file.display()),
            (None, _) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_told_file_and_line() {
        let source = RuleSource::new(RuleScope::Project, "/repo");
        assert_eq!(source.to_string(), "the project settings");
        let source = source.in_file("/repo/.claude/settings.json", Some(7));
        assert_eq!(source.to_string(), "the project settings (/repo/.claude/settings.json:7)");
        assert_eq!(source.with_label("--settings").to_string(), "--settings (/repo/.claude/settings.json:7)");
    }

    #[test]
    fn sources_have_one_written_form() {
        let source = RuleSource::new(RuleScope::CommandLine, "/repo").with_label("--allowedTools");
        let json = serde_json::to_string(&source).unwrap();
        assert_eq!(json, r#"{"scope":"commandLine","label":"--allowedTools","anchor":"/repo"}"#);
        assert_eq!(serde_json::from_str::<RuleSource>(&json).unwrap(), source);
    }
}
