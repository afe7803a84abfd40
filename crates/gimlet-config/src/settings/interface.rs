//! Shapes of the keys about the screen.

use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The only kind of line that there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CommandKind {
    Command,
}

/// A command whose output is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DisplayCommand {
    #[serde(rename = "type")]
    pub kind: CommandKind,
    pub command: String,
}

/// The status line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusLine {
    #[serde(rename = "type")]
    pub kind: CommandKind,
    pub command: String,
    pub padding: Option<u32>,
    /// In seconds.
    pub refresh_interval: Option<NonZeroU32>,
    pub hide_vim_mode_indicator: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EditorMode {
    Normal,
    Vim,
}

/// What Ctrl+W removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum KeybindingFlavor {
    Classic,
    Readline,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ScreenRenderer {
    Default,
    Fullscreen,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ViewMode {
    Default,
    Verbose,
    Focus,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ShellChoice {
    Bash,
    Powershell,
}

/// How long a question waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum QuestionTimeout {
    #[serde(rename = "60s")]
    OneMinute,
    #[serde(rename = "5m")]
    FiveMinutes,
    #[serde(rename = "10m")]
    TenMinutes,
    #[serde(rename = "never")]
    Never,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpinnerTips {
    pub tips: Vec<String>,
    pub exclude_default: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SpinnerVerbMode {
    Append,
    Replace,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SpinnerVerbs {
    pub mode: SpinnerVerbMode,
    pub verbs: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FooterLinkKind {
    Regex,
}

/// A link in the footer for text that matches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FooterLink {
    #[serde(rename = "type")]
    pub kind: FooterLinkKind,
    pub pattern: String,
    pub url: String,
    pub label: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SpellcheckSettings {
    pub enabled: Option<bool>,
    pub checker: Option<String>,
    pub language: Option<String>,
    pub color: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NotifyChannel {
    Auto,
    TerminalBell,
    Iterm2,
    Iterm2WithBell,
    Kitty,
    Ghostty,
    NotificationsDisabled,
}
