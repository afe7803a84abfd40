//! Rules about one kind of agent or one skill. A rule that forbids ignores case and arguments; one that allows is
//! exact.

use serde_json::{Map, Value};

use super::{MatchCertainty, matches_wildcard};

/// The kind of agent that starts when a call names none.
const DEFAULT_AGENT: &str = "general-purpose";

type RuleInput<'a> = Option<&'a Map<String, Value>>;

/// `Agent(kind)`; `*` stands for any run of characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AgentPattern(String);

impl AgentPattern {
    pub(super) fn new(kind: &str) -> Self {
        Self(kind.to_owned())
    }

    pub(crate) fn forbids(&self, input: RuleInput<'_>) -> MatchCertainty {
        let Some(input) = input else { return MatchCertainty::Perhaps };
        let kind = agent_kind(input).to_ascii_lowercase();
        if matches_wildcard(&self.0.to_ascii_lowercase(), &kind) { MatchCertainty::Yes } else { MatchCertainty::No }
    }

    pub(crate) fn allows(&self, input: RuleInput<'_>) -> bool {
        input.is_some_and(|input| matches_wildcard(&self.0, agent_kind(input)))
    }

    /// Returns true if the kind itself is forbidden, so that it need not be offered.
    pub(crate) fn matches_kind(&self, kind: &str) -> bool {
        matches_wildcard(&self.0.to_ascii_lowercase(), &kind.to_ascii_lowercase())
    }
}

fn agent_kind(input: &Map<String, Value>) -> &str {
    input.get("subagent_type").and_then(Value::as_str).unwrap_or(DEFAULT_AGENT)
}

/// `Skill(name)` and `Skill(name *)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SkillPattern {
    name: String,
    /// True if any arguments match.
    any_arguments: bool,
}

impl SkillPattern {
    /// Parses the pattern; `None` for one without a name.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (name, open) = match text.strip_suffix(" *").or_else(|| text.strip_suffix(":*")) {
            Some(name) => (name.trim_end(), true),
            None => (text, false),
        };
        let name = name.strip_prefix('/').unwrap_or(name);
        (!name.is_empty()).then(|| Self { name: name.to_owned(), any_arguments: open })
    }

    pub(crate) fn forbids(&self, input: RuleInput<'_>) -> MatchCertainty {
        let Some(input) = input else { return MatchCertainty::Perhaps };
        let Some((skill, _)) = skill_and_arguments(input) else { return MatchCertainty::No };
        if self.forbids_name(skill) { MatchCertainty::Yes } else { MatchCertainty::No }
    }

    /// Returns true if a rule that forbids means this skill.
    pub(crate) fn forbids_name(&self, skill: &str) -> bool {
        let (name, skill) = (self.name.to_ascii_lowercase(), skill.to_ascii_lowercase());
        // `plugin:*` may be meant for one skill or for all of a plugin; forbidding both is safe.
        let of_plugin = self.any_arguments && skill.strip_prefix(&name).is_some_and(|rest| rest.starts_with(':'));
        matches_wildcard(&name, &skill) || of_plugin
    }

    pub(crate) fn allows(&self, input: RuleInput<'_>) -> bool {
        let Some((skill, arguments)) = input.and_then(skill_and_arguments) else { return false };
        let full = if arguments.is_empty() { skill.to_owned() } else { format!("{skill} {arguments}") };
        full == self.name
            || (self.any_arguments && (skill == self.name || full.starts_with(&format!("{} ", self.name))))
    }
}

fn skill_and_arguments(input: &Map<String, Value>) -> Option<(&str, &str)> {
    let name = input.get("skill").and_then(Value::as_str)?.trim();
    let arguments = input.get("args").and_then(Value::as_str).unwrap_or("").trim();
    Some((name.strip_prefix('/').unwrap_or(name), arguments))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_agent_rule_speaks_of_one_kind() {
        let explore = json!({"subagent_type": "Explore", "prompt": "x"});
        let unnamed = json!({"prompt": "x"});
        let rule = AgentPattern::new("Explore");
        assert_eq!(rule.forbids(explore.as_object()), MatchCertainty::Yes);
        assert_eq!(AgentPattern::new("explore").forbids(explore.as_object()), MatchCertainty::Yes);
        assert!(rule.allows(explore.as_object()) && !AgentPattern::new("explore").allows(explore.as_object()));
        assert_eq!(rule.forbids(unnamed.as_object()), MatchCertainty::No);
        assert_eq!(AgentPattern::new("general-purpose").forbids(unnamed.as_object()), MatchCertainty::Yes);
        assert_eq!(rule.forbids(None), MatchCertainty::Perhaps);
        assert!(!rule.allows(None));
    }

    #[test]
    fn a_skill_rule_that_allows_is_exact_unless_it_ends_open() {
        let call = |text: &str, args: &str| json!({"skill": text, "args": args});
        let allows = |rule: &str, skill: &str, args: &str| {
            SkillPattern::parse(rule).unwrap().allows(call(skill, args).as_object())
        };
        assert!(allows("commit", "commit", "") && allows("commit", "/commit", ""));
        assert!(!allows("commit", "commit", "--amend"));
        assert!(allows("commit *", "commit", "") && allows("commit *", "commit", "--amend"));
        assert!(allows("commit:*", "commit", "--amend"));
        assert!(allows("deploy staging", "deploy", "staging") && !allows("deploy staging", "deploy", "production"));
        assert!(!allows("commit *", "committee", ""));
    }

    #[test]
    fn a_skill_rule_that_forbids_does_not_care_for_arguments() {
        let forbids = |rule: &str, skill: &str| {
            let input = json!({"skill": skill, "args": "x"});
            SkillPattern::parse(rule).unwrap().forbids(input.as_object())
        };
        for (rule, skill) in [("deploy", "deploy"), ("deploy *", "Deploy"), ("ops:*", "ops:deploy"), ("ops:*", "ops")] {
            assert_eq!(forbids(rule, skill), MatchCertainty::Yes, "{rule}");
        }
        assert_eq!(forbids("deploy", "deploy2"), MatchCertainty::No);
    }
}
