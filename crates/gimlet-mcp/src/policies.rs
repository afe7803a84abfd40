//! What a server's configuration says about its tools one by one: that a tool is never to run, or only when a person
//! says so. It makes things stricter and never laxer, so what cannot be read asks.

use std::collections::BTreeMap;

use gimlet_policy::{server_tool_names, wildcard};
use gimlet_proto::plain_name;
use serde_json::{Map, Value};

use crate::naming::every_name;

/// What holds for a tool before any rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Policy {
    /// Rules and mode decide.
    AsUsual,
    /// A person is asked, whatever rules and mode say.
    Ask,
    /// It is not offered and does not run.
    Deny,
}

/// The policies of a server's tools, by the names that were written for them: the server's own, or one of those that rules
/// use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Policies {
    named: BTreeMap<String, Policy>,
    /// Something was said that cannot be read, and could have been about any tool.
    unreadable: bool,
}

impl Policies {
    /// Those of a server's entry; `None` when it says nothing about tools.
    pub(crate) fn of(entry: &Map<String, Value>) -> Option<Self> {
        let mut policies = Self::default();
        match entry.get("tools")? {
            Value::Null => return None,
            Value::Array(tools) => tools.iter().for_each(|tool| policies.note(tool)),
            _ => policies.unreadable = true,
        }
        Some(policies)
    }

    fn note(&mut self, tool: &Value) {
        // A bare name says that there is such a tool, and no more.
        if tool.is_string() {
            return;
        }
        let Some(name) = tool.get("name").and_then(Value::as_str) else {
            self.unreadable = true;
            return;
        };
        let policy = match tool.get("permission_policy") {
            None | Some(Value::Null) => return,
            Some(policy) => match policy.as_str() {
                Some("always_allow") => Policy::AsUsual,
                Some("always_deny") => Policy::Deny,
                _ => Policy::Ask,
            },
        };
        self.hold(name, policy);
    }

    /// Of several words about a tool the strictest holds.
    fn hold(&mut self, name: &str, policy: Policy) {
        let known = self.named.entry(name.to_owned()).or_insert(policy);
        *known = policy.max(*known);
    }

    /// Adds what was said elsewhere in place of an entry; that says nothing about tools if it is empty.
    pub(crate) fn add_said(&mut self, said: &Value) {
        match said {
            Value::Null => {}
            Value::Object(said) => Self::of(said).iter().for_each(|more| self.add(more)),
            _ => self.unreadable = true,
        }
    }

    /// Adds what was said elsewhere.
    pub(crate) fn add(&mut self, more: &Self) {
        self.unreadable |= more.unreadable;
        more.named.iter().for_each(|(name, policy)| self.hold(name, *policy));
    }

    /// What holds for a tool of a server. Of several names that mean it the strictest holds.
    pub(crate) fn about(&self, server: &str, tool: &str) -> Policy {
        let unnamed = if self.unreadable { Policy::Ask } else { Policy::AsUsual };
        if self.named.is_empty() {
            return unnamed;
        }
        let mut names = server_tool_names(server, tool);
        names.extend(every_name(server, tool));
        names.extend([tool.to_owned(), plain_name(tool)]);
        let means = |written: &str| names.iter().any(|name| name == written || wildcard(written, name));
        let said = self.named.iter().filter(|(written, _)| means(written)).map(|(_, policy)| *policy);
        said.max().unwrap_or(unnamed)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::naming::tool_name;

    #[test]
    fn what_cannot_be_read_asks() {
        let about = |tools: Value, tool: &str| {
            Policies::of(json!({"tools": tools}).as_object().unwrap()).unwrap_or_default().about("my.calc", tool)
        };
        let one = |policy: Value| json!([{"name": "a", "permission_policy": policy}]);
        let twice = |first: &str, second: &str| json!([{"name": "a", "permission_policy": first}, {"name": "a", "permission_policy": second}]);
        for (tools, policy) in [
            (twice("always_deny", "always_allow"), Policy::Deny),
            (twice("always_allow", "always_ask"), Policy::Ask),
            (one(json!("always_deny")), Policy::Deny),
            (one(json!("always_ask")), Policy::Ask),
            (one(json!("always_allow")), Policy::AsUsual),
            (one(json!("sometimes")), Policy::Ask),
            (one(json!(7)), Policy::Ask),
            (one(Value::Null), Policy::AsUsual),
            (json!([{"name": "b", "permission_policy": "always_deny"}]), Policy::AsUsual),
            (json!(["a"]), Policy::AsUsual),
            (json!([{"permission_policy": "always_deny"}]), Policy::Ask),
            (json!("a"), Policy::Ask),
            (Value::Null, Policy::AsUsual),
        ] {
            assert_eq!(about(tools.clone(), "a"), policy, "{tools}");
        }
    }

    #[test]
    fn a_tool_is_meant_by_each_of_its_names() {
        let denied = |written: &str, tool: &str| {
            let entry = json!({"tools": [{"name": written, "permission_policy": "always_deny"}]});
            Policies::of(entry.as_object().unwrap()).unwrap().about("my.calc", tool) == Policy::Deny
        };
        let long = "x".repeat(80);
        for (written, tool) in [
            ("add", "add"),
            ("mcp__my.calc__add", "add"),
            ("mcp__my_calc__add", "add"),
            ("to/add", "to/add"),
            ("to_add", "to/add"),
            ("mcp__my_calc__to_add", "to/add"),
            ("mcp__my.calc__to/add", "to/add"),
            ("mcp__my_calc", "add"),
            ("mcp__my_calc__*", "add"),
            ("a*", "add"),
            ("*", "add"),
            (tool_name("my.calc", &long).as_str(), long.as_str()),
            // What the model sees beside a tool that is really called `to_add`.
            (every_name("my.calc", "to/add").last().unwrap(), "to/add"),
        ] {
            assert!(denied(written, tool), "{written} for {tool}");
        }
        for (written, tool) in [("add", "added"), ("mcp__calc__add", "add"), ("mcp__my_calc__ad", "add"), ("b*", "add")]
        {
            assert!(!denied(written, tool), "{written} for {tool}");
        }
    }

    #[test]
    fn what_is_said_besides_and_cannot_be_read_asks() {
        let about = |said: Value| {
            let mut policies = Policies::default();
            policies.add_said(&said);
            policies.about("calc", "add")
        };
        assert_eq!(about(json!({"tools": [{"name": "add", "permission_policy": "always_deny"}]})), Policy::Deny);
        assert_eq!(about(json!([{"name": "add"}])), Policy::Ask);
        assert_eq!(about(json!({"timeout": 5})), Policy::AsUsual);
        assert_eq!(about(Value::Null), Policy::AsUsual);
    }
}
