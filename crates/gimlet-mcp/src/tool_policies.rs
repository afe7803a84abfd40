//! Policies for single tools in a server's configuration: never run a tool, or only with the user's approval. They only
//! make permissions stricter, so an unreadable policy asks.

use std::collections::BTreeMap;

use gimlet_policy::{matches_wildcard, server_tool_names};
use gimlet_proto::provider_safe_name;
use serde_json::{Map, Value};

use crate::tool_names::all_tool_names;

/// Policy for a tool that applies before any rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ToolPolicy {
    /// Rules and mode decide.
    ByRules,
    /// The user is asked, regardless of rules and mode.
    Ask,
    /// The tool is not offered and does not run.
    Deny,
}

/// Policies of a server's tools, by the names written for them: the server's own, or one of those that rules use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ToolPolicies {
    named: BTreeMap<String, ToolPolicy>,
    /// True if a policy cannot be parsed and could apply to any tool.
    unreadable: bool,
}

impl ToolPolicies {
    /// Parses the policies of a server's entry; `None` when it has none.
    pub(crate) fn from_entry(entry: &Map<String, Value>) -> Option<Self> {
        let mut policies = Self::default();
        match entry.get("tools")? {
            Value::Null => return None,
            Value::Array(tools) => tools.iter().for_each(|tool| policies.add_entry(tool)),
            _ => policies.unreadable = true,
        }
        Some(policies)
    }

    fn add_entry(&mut self, tool: &Value) {
        // A bare name only states that the tool exists.
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
                Some("always_allow") => ToolPolicy::ByRules,
                Some("always_deny") => ToolPolicy::Deny,
                _ => ToolPolicy::Ask,
            },
        };
        self.add_strictest(name, policy);
    }

    /// Adds a policy for a tool; of several the strictest applies.
    fn add_strictest(&mut self, name: &str, policy: ToolPolicy) {
        let known = self.named.entry(name.to_owned()).or_insert(policy);
        *known = policy.max(*known);
    }

    /// Adds the policies of an additional configuration entry; `null` adds none.
    pub(crate) fn add_override(&mut self, said: &Value) {
        match said {
            Value::Null => {}
            Value::Object(said) => Self::from_entry(said).iter().for_each(|more| self.merge(more)),
            _ => self.unreadable = true,
        }
    }

    /// Adds the policies of another set.
    pub(crate) fn merge(&mut self, more: &Self) {
        self.unreadable |= more.unreadable;
        more.named.iter().for_each(|(name, policy)| self.add_strictest(name, *policy));
    }

    /// Returns the policy for a tool of a server. Of several names that match it the strictest applies.
    pub(crate) fn policy_for(&self, server: &str, tool: &str) -> ToolPolicy {
        let unnamed = if self.unreadable { ToolPolicy::Ask } else { ToolPolicy::ByRules };
        if self.named.is_empty() {
            return unnamed;
        }
        let mut names = server_tool_names(server, tool);
        names.extend(all_tool_names(server, tool));
        names.extend([tool.to_owned(), provider_safe_name(tool)]);
        let means = |written: &str| names.iter().any(|name| name == written || matches_wildcard(written, name));
        let said = self.named.iter().filter(|(written, _)| means(written)).map(|(_, policy)| *policy);
        said.max().unwrap_or(unnamed)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tool_names::tool_name;

    #[test]
    fn unreadable_policies_ask() {
        let about = |tools: Value, tool: &str| {
            ToolPolicies::from_entry(json!({"tools": tools}).as_object().unwrap())
                .unwrap_or_default()
                .policy_for("my.calc", tool)
        };
        let one = |policy: Value| json!([{"name": "a", "permission_policy": policy}]);
        let twice = |first: &str, second: &str| json!([{"name": "a", "permission_policy": first}, {"name": "a", "permission_policy": second}]);
        for (tools, policy) in [
            (twice("always_deny", "always_allow"), ToolPolicy::Deny),
            (twice("always_allow", "always_ask"), ToolPolicy::Ask),
            (one(json!("always_deny")), ToolPolicy::Deny),
            (one(json!("always_ask")), ToolPolicy::Ask),
            (one(json!("always_allow")), ToolPolicy::ByRules),
            (one(json!("sometimes")), ToolPolicy::Ask),
            (one(json!(7)), ToolPolicy::Ask),
            (one(Value::Null), ToolPolicy::ByRules),
            (json!([{"name": "b", "permission_policy": "always_deny"}]), ToolPolicy::ByRules),
            (json!(["a"]), ToolPolicy::ByRules),
            (json!([{"permission_policy": "always_deny"}]), ToolPolicy::Ask),
            (json!("a"), ToolPolicy::Ask),
            (Value::Null, ToolPolicy::ByRules),
        ] {
            assert_eq!(about(tools.clone(), "a"), policy, "{tools}");
        }
    }

    #[test]
    fn a_tool_is_meant_by_each_of_its_names() {
        let denied = |written: &str, tool: &str| {
            let entry = json!({"tools": [{"name": written, "permission_policy": "always_deny"}]});
            ToolPolicies::from_entry(entry.as_object().unwrap()).unwrap().policy_for("my.calc", tool)
                == ToolPolicy::Deny
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
            // The name that the model sees beside a tool whose own name is `to_add`.
            (all_tool_names("my.calc", "to/add").last().unwrap(), "to/add"),
        ] {
            assert!(denied(written, tool), "{written} for {tool}");
        }
        for (written, tool) in [("add", "added"), ("mcp__calc__add", "add"), ("mcp__my_calc__ad", "add"), ("b*", "add")]
        {
            assert!(!denied(written, tool), "{written} for {tool}");
        }
    }

    #[test]
    fn unreadable_overrides_ask() {
        let about = |said: Value| {
            let mut policies = ToolPolicies::default();
            policies.add_override(&said);
            policies.policy_for("calc", "add")
        };
        assert_eq!(about(json!({"tools": [{"name": "add", "permission_policy": "always_deny"}]})), ToolPolicy::Deny);
        assert_eq!(about(json!([{"name": "add"}])), ToolPolicy::Ask);
        assert_eq!(about(json!({"timeout": 5})), ToolPolicy::ByRules);
        assert_eq!(about(Value::Null), ToolPolicy::ByRules);
    }
}
