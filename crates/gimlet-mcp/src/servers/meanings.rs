//! What the names of servers and their tools mean. Whoever allowed something by a name for the session allowed what it
//! meant then.

use std::collections::HashMap;
use std::sync::Arc;

use rmcp::model::Tool;

/// How many names are remembered that mean nothing at the moment.
const MOST_ABSENT: usize = 10_000;

/// What a name means.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Meaning {
    /// All tools of the server that is really called so.
    Server(String),
    Tool {
        server: String,
        tool: Arc<Tool>,
    },
}

/// What every name meant when it last meant something.
#[derive(Default)]
pub(super) struct Meanings(HashMap<String, Meaning>);

impl Meanings {
    /// Takes over what names mean now; gives those that meant something else before. What is forgotten counts as such.
    pub(super) fn take(&mut self, now: impl IntoIterator<Item = (String, Meaning)>) -> Vec<String> {
        let now: HashMap<String, Meaning> = now.into_iter().collect();
        let is_other =
            |(name, meaning): &(&String, &Meaning)| self.0.get(*name).is_some_and(|before| before != *meaning);
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

    fn tool(server: &str, description: &str) -> Meaning {
        let tool = json!({"name": "t", "description": description, "inputSchema": {}});
        Meaning::Tool { server: server.to_owned(), tool: Arc::new(serde_json::from_value(tool).unwrap()) }
    }

    #[test]
    fn a_name_that_comes_back_is_what_it_was_or_something_else() {
        let mut meanings = Meanings::default();
        let mut take = |now: &[(&str, Meaning)]| {
            meanings.take(now.iter().map(|(name, meaning)| ((*name).to_owned(), meaning.clone())))
        };
        let nothing: [String; 0] = [];
        assert_eq!(take(&[("n", tool("a", "One.")), ("s", Meaning::Server("a".into()))]), nothing);
        assert_eq!(take(&[]), nothing, "nobody can call it");
        assert_eq!(take(&[("n", tool("a", "One."))]), nothing);
        assert_eq!(take(&[("n", tool("a", "Another."))]), ["n"]);
        assert_eq!(take(&[("n", tool("b", "Another."))]), ["n"]);
        assert_eq!(take(&[("s", Meaning::Server("a.".into()))]), ["s"]);
        let many: Vec<(String, Meaning)> = (0..=MOST_ABSENT).map(|at| (at.to_string(), tool("a", ""))).collect();
        assert_eq!(meanings.take(many.clone()), nothing);
        assert_eq!(meanings.take([("n".to_owned(), tool("b", "Another."))]).len(), many.len() + 1, "one is not new");
        assert_eq!(meanings.take(many), nothing);
    }
}
