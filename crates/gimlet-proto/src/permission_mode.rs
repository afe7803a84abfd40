//! Permission modes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Treatment of calls that no rule decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PermissionMode {
    /// Ask for every call that is not harmless.
    #[default]
    #[serde(rename = "default", alias = "manual")]
    Default,
    /// File edits inside the working directories need no question.
    #[serde(rename = "acceptEdits")]
    AcceptEdits,
    /// Allow reading only.
    #[serde(rename = "plan")]
    Plan,
    /// A classifier answers most of what would ask.
    #[serde(rename = "auto")]
    Auto,
    /// Deny every call that would ask.
    #[serde(rename = "dontAsk")]
    DontAsk,
    /// Everything that no deny rule forbids.
    #[serde(rename = "bypassPermissions")]
    BypassPermissions,
}

impl PermissionMode {
    pub const ALL: [PermissionMode; 6] = [
        PermissionMode::Default,
        PermissionMode::AcceptEdits,
        PermissionMode::Plan,
        PermissionMode::Auto,
        PermissionMode::DontAsk,
        PermissionMode::BypassPermissions,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            PermissionMode::Default => "default",
            PermissionMode::AcceptEdits => "acceptEdits",
            PermissionMode::Plan => "plan",
            PermissionMode::Auto => "auto",
            PermissionMode::DontAsk => "dontAsk",
            PermissionMode::BypassPermissions => "bypassPermissions",
        }
    }
}

impl fmt::Display for PermissionMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for PermissionMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // `manual` is the reference's newer word for the default mode.
        if text == "manual" {
            return Ok(PermissionMode::Default);
        }
        Self::ALL.into_iter().find(|mode| mode.as_str() == text).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|mode| mode.as_str()).collect();
            format!("'{text}' is not a permission mode; choose one of {}", names.join(", "))
        })
    }
}
