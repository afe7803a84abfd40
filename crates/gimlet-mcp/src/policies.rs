//! What a server's configuration says about its tools one by one: that a tool is never to run, or only when a person
//! says so. It makes things stricter and never laxer, so what cannot be read asks.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

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

/// The policies of a server's tools, by the server's own names for them.
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

    /// Adds what was said elsewhere.
    pub(crate) fn add(&mut self, more: &Self) {
        self.unreadable |= more.unreadable;
        more.named.iter().for_each(|(name, policy)| self.hold(name, *policy));
    }

    /// What holds for the tool of this name.
    pub(crate) fn about(&self, tool: &str) -> Policy {
        let unnamed = if self.unreadable { Policy::Ask } else { Policy::AsUsual };
        self.named.get(tool).copied().unwrap_or(unnamed)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_cannot_be_read_asks() {
        let about = |tools: Value, tool: &str| {
            Policies::of(json!({"tools": tools}).as_object().unwrap()).unwrap_or_default().about(tool)
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
}
