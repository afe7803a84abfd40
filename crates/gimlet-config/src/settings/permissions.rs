//! The `permissions` block and the prose rules of the mode `auto`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The mode to start in, as settings spell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum DefaultMode {
    #[serde(alias = "manual")]
    Default,
    AcceptEdits,
    Plan,
    Auto,
    DontAsk,
    BypassPermissions,
}

impl DefaultMode {
    pub fn as_str(self) -> &'static str {
        match self {
            DefaultMode::Default => "default",
            DefaultMode::AcceptEdits => "acceptEdits",
            DefaultMode::Plan => "plan",
            DefaultMode::Auto => "auto",
            DefaultMode::DontAsk => "dontAsk",
            DefaultMode::BypassPermissions => "bypassPermissions",
        }
    }
}

/// The one value of a switch that can only forbid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DisableSwitch {
    Disable,
}

/// Rules, folders and the mode.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PermissionSettings {
    /// Rules of calls that need no question.
    pub allow: Option<Vec<String>>,
    /// Rules of calls that always ask.
    pub ask: Option<Vec<String>>,
    /// Rules of calls that are refused.
    pub deny: Option<Vec<String>>,
    /// Folders to work in beside the one that gimlet was started in.
    pub additional_directories: Option<Vec<String>>,
    /// The mode to start in.
    pub default_mode: Option<DefaultMode>,
    /// `"disable"` forbids the mode `bypassPermissions`.
    pub disable_bypass_permissions_mode: Option<DisableSwitch>,
    /// `"disable"` removes the mode `auto`.
    pub disable_auto_mode: Option<DisableSwitch>,
}

/// What the classifier of the mode `auto` is told. `"$defaults"` in a list stands for the built-in entries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AutoModeSettings {
    pub environment: Option<Vec<String>>,
    pub allow: Option<Vec<String>>,
    pub soft_deny: Option<Vec<String>>,
    pub hard_deny: Option<Vec<String>>,
    #[serde(rename = "classifyAllShell")]
    pub classify_all_shell: Option<bool>,
}
