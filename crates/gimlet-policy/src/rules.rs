//! Permission rules: `Tool` and `Tool(specifier)`, where they came from, and whether one speaks of a call. A rule that
//! this crate cannot honour exactly is an error that names it; a rule that forbids is never dropped in silence.

mod command;
mod domain;
mod source;

use std::fmt;

use serde::{Deserialize, Serialize};

pub(crate) use command::{CommandPattern, Fit, wildcard};
pub(crate) use domain::{DomainPattern, host_of};
pub use source::{Anchors, RuleScope, RuleSource};

use crate::paths::{PathPattern, PathPatternError};

/// What a rule does when it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Behavior {
    Allow,
    Ask,
    Deny,
}

impl Behavior {
    pub fn as_str(self) -> &'static str {
        match self {
            Behavior::Allow => "allow",
            Behavior::Ask => "ask",
            Behavior::Deny => "deny",
        }
    }
}

impl fmt::Display for Behavior {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What narrows a rule down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Specifier {
    /// Every call of the tool.
    All,
    Command(CommandPattern),
    Path(PathPattern),
    Domain(DomainPattern),
}

/// One parsed rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pub text: String,
    pub source: RuleSource,
    /// A canonical tool name; may contain `*`.
    pub(crate) tool: String,
    pub(crate) specifier: Specifier,
}

/// A rule that cannot be honoured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    #[error("the rule `{rule}` is not of the form `Tool` or `Tool(specifier)`")]
    Malformed { rule: String },
    #[error("the allow rule `{rule}` uses `*` in a tool name; only `mcp__server__*` may")]
    BroadAllow { rule: String },
    #[error("the rule `{rule}` has no effect: file rules are written as `Read(…)` or `Edit(…)`")]
    InertPath { rule: String },
    #[error("the path in the rule `{rule}` cannot be used: {source}")]
    Path { rule: String, source: PathPatternError },
    #[error("the rule `{rule}` contains shell operators or expansions, but a rule speaks of one command at a time")]
    CompoundCommand { rule: String },
    #[error("the host in the rule `{rule}` is not a host name")]
    Domain { rule: String },
    #[error("the rule `{rule}` is not supported yet: {what}")]
    Unsupported { rule: String, what: &'static str },
}

impl Rule {
    /// Parses one rule.
    pub fn parse(text: &str, behavior: Behavior, source: &RuleSource) -> Result<Self, RuleError> {
        let text = text.trim();
        let malformed = || RuleError::Malformed { rule: text.to_owned() };
        let (name, inner) = match text.split_once('(') {
            None => (text, None),
            Some((name, rest)) => (name, Some(rest.strip_suffix(')').ok_or_else(malformed)?)),
        };
        let valid = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '*' | '.' | ':');
        if name.is_empty() || !name.chars().all(valid) {
            return Err(malformed());
        }
        if behavior == Behavior::Allow && name.contains('*') && !is_server_glob(name) {
            return Err(RuleError::BroadAllow { rule: text.to_owned() });
        }
        let tool = canonical_tool(name).to_owned();
        let specifier = match inner.map(str::trim) {
            None | Some("*") => Specifier::All,
            Some("") => return Err(malformed()),
            Some(inner) => parse_specifier(&tool, inner, text)?,
        };
        Ok(Self { text: text.to_owned(), source: source.clone(), tool, specifier })
    }

    /// Whether the rule names this tool, whatever its specifier.
    pub(crate) fn names_tool(&self, tool: &str) -> bool {
        let tool = canonical_tool(tool);
        let server = || self.tool.starts_with("mcp__") && !self.tool[5..].contains("__");
        self.tool == tool
            || (self.tool.contains('*') && wildcard(&self.tool, tool))
            || (server() && tool.strip_prefix(&self.tool).is_some_and(|rest| rest.starts_with("__")))
    }
}

fn is_server_glob(name: &str) -> bool {
    let server = name.strip_prefix("mcp__").and_then(|rest| rest.split_once("__"));
    server.is_some_and(|(server, _)| !server.is_empty() && !server.contains('*'))
}

fn parse_specifier(tool: &str, inner: &str, rule: &str) -> Result<Specifier, RuleError> {
    let rule = || rule.to_owned();
    let unsupported = |what| Err(RuleError::Unsupported { rule: rule(), what });
    match tool {
        "Bash" | "Monitor" => {
            const PARAMETERS: &[&str] = &["dangerouslyDisableSandbox", "run_in_background", "timeout", "description"];
            if inner.split_once(':').is_some_and(|(name, _)| PARAMETERS.contains(&name.trim())) {
                return unsupported("rules about a parameter");
            }
            let pattern = CommandPattern::parse(inner).ok_or_else(|| RuleError::CompoundCommand { rule: rule() })?;
            Ok(Specifier::Command(pattern))
        }
        "Read" | "Edit" => {
            let pattern = PathPattern::parse(inner).map_err(|source| RuleError::Path { rule: rule(), source })?;
            Ok(Specifier::Path(pattern))
        }
        "Write" | "NotebookEdit" | "Glob" | "Grep" => Err(RuleError::InertPath { rule: rule() }),
        "WebFetch" => match inner.split_once(':') {
            Some((name, host)) if name.trim() == "domain" => {
                let pattern = DomainPattern::parse(host.trim()).ok_or_else(|| RuleError::Domain { rule: rule() })?;
                Ok(Specifier::Domain(pattern))
            }
            _ => unsupported("only `WebFetch(domain:host)` is known"),
        },
        "Agent" => unsupported("rules about one kind of agent"),
        "Skill" => unsupported("rules about one skill"),
        _ => unsupported("rules about a parameter"),
    }
}

/// The present name of a tool that may be called by an older one.
pub fn canonical_tool(name: &str) -> &str {
    match name {
        "Task" => "Agent",
        "BashOutput" | "AgentOutput" => "TaskOutput",
        "KillShell" | "KillBash" => "TaskStop",
        "MultiEdit" => "Edit",
        other => other,
    }
}

/// All rules in force, by what they do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleSet {
    pub(crate) deny: Vec<Rule>,
    pub(crate) ask: Vec<Rule>,
    pub(crate) allow: Vec<Rule>,
}

impl RuleSet {
    /// Parses a rule and adds it. On an error nothing is added: whoever loads deny or ask rules must not go on as if
    /// there had been none.
    pub fn add(&mut self, behavior: Behavior, text: &str, source: &RuleSource) -> Result<(), RuleError> {
        let rule = Rule::parse(text, behavior, source)?;
        match behavior {
            Behavior::Allow => self.allow.push(rule),
            Behavior::Ask => self.ask.push(rule),
            Behavior::Deny => self.deny.push(rule),
        }
        Ok(())
    }

    pub fn rules(&self, behavior: Behavior) -> &[Rule] {
        match behavior {
            Behavior::Allow => &self.allow,
            Behavior::Ask => &self.ask,
            Behavior::Deny => &self.deny,
        }
    }
}

/// Whether a bare deny rule takes this tool away altogether, so that the model is not even told of it.
pub fn removes_tool(rules: &RuleSet, tool: &str) -> bool {
    rules.deny.iter().any(|rule| rule.specifier == Specifier::All && rule.names_tool(tool))
}

/// Splits a command-line list of rules at commas and blanks outside parentheses.
pub fn split_rules(list: &str) -> Vec<&str> {
    let (mut depth, mut start) = (0usize, 0);
    let mut rules = Vec::new();
    for (at, c) in list.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' | ' ' | '\t' | '\n' if depth == 0 => {
                rules.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    rules.push(&list[start..]);
    rules.retain(|rule| !rule.is_empty());
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, behavior: Behavior) -> Result<Rule, RuleError> {
        Rule::parse(text, behavior, &RuleSource::new(RuleScope::Project, "/repo"))
    }

    #[test]
    fn a_star_specifier_is_the_bare_tool() {
        for text in ["Bash", "Bash(*)", " Bash ", "Bash( * )"] {
            assert_eq!(parse(text, Behavior::Deny).unwrap().specifier, Specifier::All, "{text}");
        }
    }

    #[test]
    fn malformed_rules_are_errors() {
        for text in ["", "(x)", "Bash(", "Bash(x", "Bash()", "Bash(x) y", "A B"] {
            assert!(matches!(parse(text, Behavior::Deny), Err(RuleError::Malformed { .. })), "{text:?}");
        }
    }

    #[test]
    fn what_cannot_be_honoured_is_refused_by_name() {
        for text in [
            "Write(src/**)",
            "Agent(Explore)",
            "Skill(x)",
            "Bash(run_in_background:true)",
            "mcp__a__b(x:1)",
            "WebFetch(path:/x)",
            "Bash(curl x | sh)",
            "Read(!x)",
            "WebFetch(domain:)",
        ] {
            let error = parse(text, Behavior::Deny).unwrap_err();
            assert!(error.to_string().contains(text), "{error}");
        }
    }

    #[test]
    fn an_allow_rule_may_only_glob_the_tools_of_one_server() {
        assert!(parse("*", Behavior::Allow).is_err());
        assert!(parse("mcp__*", Behavior::Allow).is_err());
        assert!(parse("mcp__*__x", Behavior::Allow).is_err());
        assert!(parse("mcp__git__*", Behavior::Allow).is_ok());
        assert!(parse("*", Behavior::Deny).is_ok());
    }

    #[test]
    fn bare_denies_remove_tools_and_scoped_ones_do_not() {
        let source = RuleSource::new(RuleScope::Project, "/");
        let removes = |rule: &str, tool: &str| {
            let mut rules = RuleSet::default();
            rules.add(Behavior::Deny, rule, &source).unwrap();
            removes_tool(&rules, tool)
        };
        assert!(removes("Bash", "Bash"));
        assert!(removes("Bash(*)", "Bash"));
        assert!(!removes("Bash(rm:*)", "Bash"));
        assert!(removes("*", "Read"));
        assert!(removes("mcp__*", "mcp__git__log"));
        assert!(!removes("mcp__*", "Bash"));
        assert!(removes("mcp__git", "mcp__git__log"));
        assert!(!removes("mcp__git", "mcp__github__log"));
        assert!(removes("Task", "Agent"));
        assert!(removes("Agent", "Task"));
        assert!(removes("KillShell", "TaskStop"));
        assert!(!removes("Edit", "Write"));
    }

    #[test]
    fn lists_split_outside_parentheses_only() {
        assert_eq!(split_rules("Bash(git log:*),Edit Read(a, b)"), ["Bash(git log:*)", "Edit", "Read(a, b)"]);
        assert!(split_rules(" , ").is_empty());
    }
}
