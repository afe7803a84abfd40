//! Meanings of server and tool names. A permission granted by name for the session covers only what the name meant
//! then.

use std::collections::HashMap;
use std::sync::Arc;

use rmcp::model::Tool;

/// Maximum number of remembered names that mean nothing at the moment.
const MOST_ABSENT: usize = 10_000;

/// Meaning of a name.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ToolIdentity {
    /// All tools of the server with exactly this name.
    Server(String),
    Tool {
        server: String,
        tool: Arc<Tool>,
    },
}

/// Last known meaning of every name.
#[derive(Default)]
pub(super) struct IdentityRegistry(HashMap<String, ToolIdentity>);

impl IdentityRegistry {
    /// Records the current meanings; returns the names whose meaning has changed. Forgotten names count as changed.
    pub(super) fn update(&mut self, now: impl IntoIterator<Item = (String, ToolIdentity)>) -> Vec<String> {
        let now: HashMap<String, ToolIdentity> = now.into_iter().collect();
        let is_other =
            |(name, meaning): &(&String, &ToolIdentity)| self.0.get(*name).is_some_and(|before| before != *meaning);
        let mut changed: Vec<String> = now.iter().filter(is_other).map(|(name, _)| name.clone()).collect();
        let absent = self.0.keys().filter(|name| !now.contains_key(*name)).count();
        if absent > MOST_ABSENT {
            changed.extend(std::mem::take(&mut self.0).into_keys().filter(|name| !now.contains_key(name)));
        }
        self.0.extend(now);
        changed
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool_identity(server: &str, description: &str) -> ToolIdentity {
        let tool = json!({"name": "t", "description": description, "inputSchema": {}});
        ToolIdentity::Tool { server: server.to_owned(), tool: Arc::new(serde_json::from_value(tool).unwrap()) }
    }

    #[test]
    fn a_name_that_comes_back_is_what_it_was_or_something_else() {
        let mut meanings = IdentityRegistry::default();
        let mut take = |now: &[(&str, ToolIdentity)]| {
            meanings.update(now.iter().map(|(name, meaning)| ((*name).to_owned(), meaning.clone())))
        };
        let nothing: [String; 0] = [];
        assert_eq!(take(&[("n", tool_identity("a", "One.")), ("s", ToolIdentity::Server("a".into()))]), nothing);
        assert_eq!(take(&[]), nothing, "nobody can call it");
        assert_eq!(take(&[("n", tool_identity("a", "One."))]), nothing);
        assert_eq!(take(&[("n", tool_identity("a", "Another."))]), ["n"]);
        assert_eq!(take(&[("n", tool_identity("b", "Another."))]), ["n"]);
        assert_eq!(take(&[("s", ToolIdentity::Server("a.".into()))]), ["s"]);
        let many: Vec<(String, ToolIdentity)> =
            (0..=MOST_ABSENT).map(|at| (at.to_string(), tool_identity("a", ""))).collect();
        assert_eq!(meanings.update(many.clone()), nothing);
        assert_eq!(
            meanings.update([("n".to_owned(), tool_identity("b", "Another."))]).len(),
            many.len() + 1,
            "one is not new"
        );
        assert_eq!(meanings.update(many), nothing);
    }
}
