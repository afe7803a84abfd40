//! The `hooks` block: which handlers run at which event.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What carries a hook out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HookKind {
    Command,
    Http,
    McpTool,
    Prompt,
    Agent,
}

/// Consequence of a hook that fails or does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FailureChoice {
    Continue,
    Block,
}

/// Handlers that share a matcher.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HookGroup {
    /// What the event must be about; without one, everything.
    pub matcher: Option<String>,
    pub hooks: Vec<HookHandlerSettings>,
}

/// One handler. Which fields count depends on its kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HookHandlerSettings {
    #[serde(rename = "type")]
    pub kind: HookKind,
    /// A permission rule that a tool call must match.
    #[serde(rename = "if")]
    pub condition: Option<String>,
    /// In seconds.
    pub timeout: Option<f64>,
    pub status_message: Option<String>,
    /// What follows if the hook fails or does not answer in time: work goes on, or what it guards is blocked.
    pub on_failure: Option<FailureChoice>,
    pub once: Option<bool>,
    /// A shell command, or a program when there are `args`.
    pub command: Option<String>,
    pub args: Option<Vec<String>>,
    #[serde(rename = "async")]
    pub in_background: Option<bool>,
    pub async_rewake: Option<bool>,
    pub shell: Option<super::ShellChoice>,
    pub url: Option<String>,
    pub headers: Option<BTreeMap<String, String>>,
    pub allowed_env_vars: Option<Vec<String>>,
    pub server: Option<String>,
    pub tool: Option<String>,
    pub input: Option<Value>,
    pub prompt: Option<String>,
    pub model: Option<String>,
    pub continue_on_block: Option<bool>,
}
