//! Shapes of the keys about plugins, skills and MCP servers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A marketplace that plugins can come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Marketplace {
    pub source: Value,
    pub auto_update: Option<bool>,
}

/// Which kinds of customisation only plugins may bring.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum PluginOnlyCustomization {
    /// `true`: all of them.
    All(bool),
    /// Names that are not known are passed over.
    Kinds(Vec<CustomizationKind>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CustomizationKind {
    Skills,
    Agents,
    Hooks,
    Mcp,
    #[serde(other)]
    Unknown,
}

/// How much is told of a skill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SkillVisibility {
    On,
    NameOnly,
    UserInvocableOnly,
    Off,
}

/// One way to name an MCP server in a list of allowed or denied ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct McpServerMatch {
    pub server_name: Option<String>,
    pub server_command: Option<Vec<String>>,
    pub server_url: Option<String>,
}
