//! Definition of a subagent type, in the form shared by programs, flags and files.

use std::fmt;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::PermissionMode;

/// User-defined subagent type. Unknown members are ignored.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentSpec {
    /// When to use it; the model reads this.
    pub description: String,
    /// Its system prompt.
    pub prompt: String,
    /// The tools it may use; `None` for all of its parent's.
    #[serde(default, deserialize_with = "optional_names")]
    pub tools: Option<Vec<String>>,
    /// Tools that it never has.
    #[serde(default, deserialize_with = "names")]
    pub disallowed_tools: Vec<String>,
    /// An id, an alias, or `inherit`.
    #[serde(default)]
    pub model: Option<String>,
    /// Model round trips for one task.
    #[serde(default)]
    pub max_turns: Option<u32>,
    /// Default for running in the background when the call does not specify it.
    #[serde(default)]
    pub background: Option<bool>,
    #[serde(default, deserialize_with = "level")]
    pub effort: Option<String>,
    #[serde(default)]
    pub permission_mode: Option<PermissionMode>,
    /// The first prompt when the main conversation runs as this agent.
    #[serde(default)]
    pub initial_prompt: Option<String>,
    /// Skills that it begins with.
    #[serde(default, deserialize_with = "names")]
    pub skills: Vec<String>,
    /// Names of servers, or their definitions.
    #[serde(default)]
    pub mcp_servers: Option<Box<RawValue>>,
    /// Scope of its memory: `user`, `project` or `local`.
    #[serde(default)]
    pub memory: Option<String>,
    /// Isolation of its working directory, when it differs from the sender's: `worktree`.
    #[serde(default)]
    pub isolation: Option<String>,
    /// Colour by which front ends mark it.
    #[serde(default)]
    pub color: Option<String>,
}

/// Subagent type as described to the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AgentSummary {
    pub name: String,
    pub description: String,
    /// The model that its definition names.
    pub model: Option<String>,
}

fn optional_names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<String>>, D::Error> {
    deserializer.deserialize_any(NameListVisitor)
}

fn names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    optional_names(deserializer).map(Option::unwrap_or_default)
}

/// A list of names, or one text with commas between them.
struct NameListVisitor;

impl<'de> Visitor<'de> for NameListVisitor {
    type Value = Option<Vec<String>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of names")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        let mut depth = 0_usize;
        // Commas in parentheses belong to one entry: `Agent(a, b)`.
        let names = text.split(|char| {
            match char {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            char == ',' && depth == 0
        });
        Ok(Some(names.map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        Vec::<String>::deserialize(SeqAccessDeserializer::new(list)).map(Some)
    }
}

/// Parses an effort given by name or as a number.
fn level<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum EffortValue {
        Name(String),
        Number(u64),
    }
    Ok(Option::<EffortValue>::deserialize(deserializer)?.map(|level| match level {
        EffortValue::Name(name) => name,
        EffortValue::Number(number) => number.to_string(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_read_in_the_public_spelling() {
        let spec: AgentSpec = serde_json::from_str(
            r#"{"description":"Reads","prompt":"You read.","tools":["Read","Grep"],"disallowedTools":"Bash, Write",
                "model":"haiku","maxTurns":3,"background":false,"effort":2,"permissionMode":"plan","color":"red",
                "mcpServers":["db",{"x":{"command":"y"}}],"omitClaudeMd":true}"#,
        )
        .unwrap();
        assert_eq!(spec.tools.as_deref(), Some(&["Read".to_owned(), "Grep".to_owned()][..]));
        assert_eq!(spec.disallowed_tools, ["Bash", "Write"]);
        assert_eq!((spec.max_turns, spec.background, spec.effort.as_deref()), (Some(3), Some(false), Some("2")));
        assert_eq!(spec.permission_mode, Some(PermissionMode::Plan));
        assert!(spec.mcp_servers.is_some_and(|servers| servers.get().contains("command")));

        let least: AgentSpec = serde_json::from_str(r#"{"description":"d","prompt":"p","tools":null}"#).unwrap();
        assert!(least.tools.is_none() && least.effort.is_none() && least.skills.is_empty());
        assert!(serde_json::from_str::<AgentSpec>(r#"{"prompt":"p"}"#).is_err(), "a description is required");
    }
}
