//! Permission rules: `Tool` and `Tool(specifier)`, their sources, and matching them with a call. A rule that this
//! crate cannot honour exactly is an error that names it; a rule that forbids is never dropped silently.

mod agent_skill_pattern;
mod auto_mode;
mod command_pattern;
mod domain_pattern;
mod parameter_pattern;
mod permission_update;
mod rule_remarks;
mod rule_source;
mod rule_specifier;
mod suggestable_prefixes;
mod tool_names;

use std::fmt;

use serde::{Deserialize, Serialize};

pub(crate) use auto_mode::{is_interpreter, is_suspended};
pub use command_pattern::matches_wildcard;
pub(crate) use command_pattern::{CommandPattern, MatchCertainty};
pub(crate) use domain_pattern::{DomainPattern, parse_host};
pub use permission_update::{
    PermissionUpdate, PermissionUpdateError, RuleValue, SessionPermissions, UpdateDestination,
};
pub use rule_remarks::{RuleOddity, RuleProblem, RuleRemark};
pub use rule_source::{RuleScope, RuleSource};
pub(crate) use rule_specifier::{InertReason, RuleSpecifier};
pub(crate) use suggestable_prefixes::{may_run_other_program, open_prefix_length};
pub use tool_names::{entry_allows, entry_may_disallow, matches_tool_name, server_tool_names, tool_name_spellings};

use crate::paths::PathPatternError;
use crate::verdict::VerdictReason;

/// Effect of a rule that matches.
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

/// One parsed rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pub text: String,
    pub source: RuleSource,
    /// A canonical tool name; may contain `*`.
    pub(crate) tool: String,
    pub(crate) specifier: RuleSpecifier,
}

/// A rule that cannot be honoured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    #[error("the rule `{rule}` is not of the form `Tool` or `Tool(specifier)`")]
    Malformed { rule: String },
    #[error("the allow rule `{rule}` uses `*` in a tool name; only `mcp__server__*` may")]
    BroadAllow { rule: String },
    #[error("the allow rule `{rule}` speaks of a parameter; only deny and ask rules may")]
    ParameterAllow { rule: String },
    #[error("the path in the rule `{rule}` cannot be used: {source}")]
    Path { rule: String, source: PathPatternError },
    #[error("the rule `{rule}` contains shell operators or expansions, but a rule speaks of one command at a time")]
    CompoundCommand { rule: String },
    #[error("the host in the rule `{rule}` is not a host name")]
    Domain { rule: String },
    #[error("the rule `{rule}` is not supported: {what}")]
    Unsupported { rule: String, what: &'static str },
}

impl RuleError {
    /// Returns the rule as it was written.
    pub fn rule(&self) -> &str {
        match self {
            RuleError::Malformed { rule }
            | RuleError::BroadAllow { rule }
            | RuleError::ParameterAllow { rule }
            | RuleError::Path { rule, .. }
            | RuleError::CompoundCommand { rule }
            | RuleError::Domain { rule }
            | RuleError::Unsupported { rule, .. } => rule,
        }
    }
}

impl Rule {
    /// Parses one rule.
    pub fn parse(text: &str, behavior: Behavior, source: &RuleSource) -> Result<Self, RuleError> {
        let text = text.trim();
        let malformed = || RuleError::Malformed { rule: text.to_owned() };
        // No intended command or path has these; such a rule would seem right and never match.
        if text.chars().any(|c| c.is_control() && !matches!(c, '\t' | '\n')) {
            return Err(malformed());
        }
        let (name, inner) = match text.split_once('(') {
            None => (text, None),
            Some((name, rest)) => (name, Some(rest.strip_suffix(')').ok_or_else(malformed)?)),
        };
        // The names of servers are arbitrary.
        let of_server = name.starts_with(tool_names::SERVERS);
        let valid = |c: char| of_server || c.is_alphanumeric() || matches!(c, '_' | '-' | '*' | '.' | ':');
        if name.is_empty() || !name.chars().all(valid) {
            return Err(malformed());
        }
        if behavior == Behavior::Allow && name.contains('*') && !tool_names::is_server_glob(name) {
            return Err(RuleError::BroadAllow { rule: text.to_owned() });
        }
        let tool = canonical_tool_name(name).to_owned();
        let specifier = match inner {
            // Empty parentheses mean what no parentheses mean; a deny rule must not be lost because of them.
            None | Some("") => RuleSpecifier::All,
            Some(inner) => match inner.trim() {
                "*" => RuleSpecifier::All,
                "" => return Err(malformed()),
                inner => rule_specifier::parse_specifier(name, inner, behavior, text)?,
            },
        };
        Ok(Self { text: text.to_owned(), source: source.clone(), tool, specifier })
    }

    /// Returns the rule as a reason of a verdict.
    pub(crate) fn to_reason(&self, behavior: Behavior) -> VerdictReason {
        VerdictReason::Rule { behavior, text: self.text.clone(), source: self.source.clone() }
    }

    /// Returns true if an allow rule names this tool, with any specifier; a bare `Edit` names every tool that edits
    /// files. `also` are further names of a server's tool, and those of its server; where they are known, tool and
    /// server are only named by one of them.
    pub(crate) fn names_tool(&self, tool: &str, also: &[String]) -> bool {
        (self.is_bare_edit() && EDITING_TOOLS.contains(&tool)) || tool_names::names_tool(&self.tool, tool, also)
    }

    /// Returns true for `Edit` without a restriction. `MultiEdit` means the one tool, although it is an older name of it.
    fn is_bare_edit(&self) -> bool {
        self.specifier == RuleSpecifier::All && self.tool == "Edit" && self.text.starts_with("Edit")
    }

    /// Returns true if a rule that forbids may mean this tool. An ambiguous name is taken in both meanings.
    pub(crate) fn may_name_tool(&self, tool: &str, also: &[String]) -> bool {
        let plain = tool_names::sendable_name(&self.tool);
        self.names_tool(tool, also)
            || [self.tool.as_str(), &plain]
                .iter()
                .any(|rule| tool_names::candidate_names(tool, also).any(|name| matches_wildcard(rule, &name)))
            || (plain.starts_with(tool_names::SERVERS) && tool_names::is_tool_of_server(&plain, tool))
    }
}

/// Tools that a bare `Edit` rule covers.
const EDITING_TOOLS: [&str; 4] = ["Edit", "Write", "MultiEdit", "NotebookEdit"];

/// Returns the current name of a tool that may be called by an older one.
pub fn canonical_tool_name(name: &str) -> &str {
    match name {
        "Task" => "Agent",
        "BashOutput" | "AgentOutput" => "TaskOutput",
        "KillShell" | "KillBash" => "TaskStop",
        "MultiEdit" => "Edit",
        other => other,
    }
}

/// All rules in force, by behavior.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleSet {
    pub(crate) deny: Vec<Rule>,
    pub(crate) ask: Vec<Rule>,
    pub(crate) allow: Vec<Rule>,
    /// True if only managed settings may allow.
    pub(crate) managed_allows_only: bool,
    /// True if further rules are in settings that could not be read.
    pub(crate) has_unread_settings: bool,
}

impl RuleSet {
    /// Parses a rule and adds it. On an error nothing is added: a caller that loads deny or ask rules must not
    /// continue as if there had been none.
    pub fn add(&mut self, behavior: Behavior, text: &str, source: &RuleSource) -> Result<(), RuleError> {
        let rule = Rule::parse(text, behavior, source)?;
        self.list_mut(behavior).push(rule);
        Ok(())
    }

    fn list_mut(&mut self, behavior: Behavior) -> &mut Vec<Rule> {
        match behavior {
            Behavior::Allow => &mut self.allow,
            Behavior::Ask => &mut self.ask,
            Behavior::Deny => &mut self.deny,
        }
    }

    /// Removes all allow rules but managed ones, now and in later changes; rules that forbid stay, from any source.
    pub fn with_managed_allows_only(mut self) -> Self {
        self.allow.retain(|rule| rule.source.scope == RuleScope::Managed);
        self.managed_allows_only = true;
        self
    }

    /// Marks the set as incomplete: rules that forbid could not be read, so nothing is allowed merely because no rule
    /// forbids it.
    pub fn with_unread_settings(mut self) -> Self {
        self.has_unread_settings = true;
        self
    }

    /// Returns the set with these rules added for a while. Where only managed rules allow something, those that allow are
    /// left out.
    #[must_use]
    pub fn with_further_rules(&self, rules: &[(Behavior, Rule)]) -> RuleSet {
        let mut all = self.clone();
        for (behavior, rule) in rules {
            if *behavior != Behavior::Allow || !self.managed_allows_only {
                all.list_mut(*behavior).push(rule.clone());
            }
        }
        all
    }

    pub fn rules(&self, behavior: Behavior) -> &[Rule] {
        match behavior {
            Behavior::Allow => &self.allow,
            Behavior::Ask => &self.ask,
            Behavior::Deny => &self.deny,
        }
    }
}

/// Returns true if a bare deny rule removes this tool altogether, so that the model is not offered it.
pub fn is_tool_removed(rules: &RuleSet, tool: &str, also_named: &[String]) -> bool {
    rules.deny.iter().any(|rule| rule.specifier == RuleSpecifier::All && rule.may_name_tool(tool, also_named))
}

/// Returns true if a deny rule removes this kind of agent, so that the model is not offered it.
pub fn is_agent_removed(rules: &RuleSet, kind: &str) -> bool {
    rules.deny.iter().any(|rule| match &rule.specifier {
        RuleSpecifier::All => rule.may_name_tool("Agent", &[]),
        RuleSpecifier::Agent(pattern) => pattern.matches_kind(kind),
        _ => false,
    })
}

/// Returns true if a deny rule removes this skill, so that the model is not told of it.
pub fn is_skill_removed(rules: &RuleSet, skill: &str) -> bool {
    rules.deny.iter().any(|rule| match &rule.specifier {
        RuleSpecifier::All => rule.may_name_tool("Skill", &[]),
        RuleSpecifier::Skill(pattern) => pattern.forbids_name(skill),
        _ => false,
    })
}

/// Splits a command-line list of rules at commas and whitespace outside parentheses.
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
            assert_eq!(parse(text, Behavior::Deny).unwrap().specifier, RuleSpecifier::All, "{text}");
        }
    }

    #[test]
    fn empty_brackets_mean_the_whole_tool() {
        let source = RuleSource::new(RuleScope::User, "/");
        for behavior in [Behavior::Allow, Behavior::Ask, Behavior::Deny] {
            for text in ["Bash()", "mcp__calc__add()", "Agent()"] {
                let rule = Rule::parse(text, behavior, &source).unwrap();
                assert_eq!(rule.specifier, RuleSpecifier::All, "{text}");
            }
        }
        let mut rules = RuleSet::default();
        assert!(rules.load(Behavior::Deny, [("Bash()", source)]).is_empty());
        assert!(is_tool_removed(&rules, "Bash", &[]));
    }

    #[test]
    fn malformed_rules_are_errors() {
        for text in ["Bash(\0rm)", "Bash\u{1b}(x)", "", "(x)", "Bash(", "Bash(x", "Bash( )", "Bash(x) y", "A B"] {
            assert!(matches!(parse(text, Behavior::Deny), Err(RuleError::Malformed { .. })), "{text:?}");
        }
    }

    #[test]
    fn unsupported_rules_are_refused_by_name() {
        for text in [
            "mcp__a__b(x)",
            "WebSearch(cats)",
            "WebFetch(host:x)",
            "Bash(curl x | sh)",
            "Read(!x)",
            "WebFetch(domain:)",
        ] {
            let error = parse(text, Behavior::Deny).unwrap_err();
            assert!(error.to_string().contains(text), "{error}");
        }
    }

    #[test]
    fn parameters_can_be_forbidden_and_not_allowed() {
        for text in [
            "Bash(run_in_background:true)",
            "Bash(dangerouslyDisableSandbox : true)",
            "Agent(model:opus*)",
            "mcp__a__b(path:/x)",
            "Write(content:*secret*)",
            "TodoWrite(x:1)",
        ] {
            let deny = parse(text, Behavior::Deny).unwrap();
            assert!(matches!(deny.specifier, RuleSpecifier::Parameter(_)), "{text}");
            assert!(matches!(parse(text, Behavior::Allow), Err(RuleError::ParameterAllow { .. })), "{text}");
        }
        for text in ["Bash(timeout:*)", "Bash(git:* push)", "Bash(http://x)"] {
            assert!(matches!(parse(text, Behavior::Allow).unwrap().specifier, RuleSpecifier::Command(_)), "{text}");
        }
        assert!(matches!(parse("Read(a:b)", Behavior::Deny).unwrap().specifier, RuleSpecifier::Path(_)));
        assert!(matches!(parse("Agent(plugin:kind)", Behavior::Deny).unwrap().specifier, RuleSpecifier::Agent(_)));
    }

    #[test]
    fn rules_without_effect_are_kept_for_what_they_are() {
        for text in
            ["Write(src/**)", "MultiEdit(a)", "Glob(a)", "NotebookEdit(a)", "Bash(command:rm *)", "PowerShell(x)"]
        {
            for behavior in [Behavior::Allow, Behavior::Ask, Behavior::Deny] {
                assert!(matches!(parse(text, behavior).unwrap().specifier, RuleSpecifier::Inert(_)), "{text}");
            }
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
            is_tool_removed(&rules, tool, &[])
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
        assert!(removes("Edit", "MultiEdit") && entry_may_disallow("Edit", "MultiEdit", &[]));
        assert!(entry_may_disallow("MultiEdit", "MultiEdit", &[]) && !entry_may_disallow("Write", "MultiEdit", &[]));
        assert!(removes("KillShell", "TaskStop"));
        for tool in EDITING_TOOLS {
            assert!(removes("Edit", tool) && removes("Edit(*)", tool) && !removes("Edit(src/**)", tool), "{tool}");
        }
        assert!(!removes("Edit", "Read") && !removes("Write", "Edit") && !removes("MultiEdit", "Write"));
    }

    #[test]
    fn servers_and_their_tools_are_named_by_what_they_call_themselves_and_by_what_is_sent() {
        // The names of the tool `x` of a server, as it is sent and as a session knows it besides.
        let tool = |wire: &str, server: &str| (format!("mcp__{wire}__x"), server_aliases(server));
        let (dotted, doubled, plain) = (tool("my_server", "my.server"), tool("a__b", "a__b"), tool("a", "a"));
        let cases = [
            ("mcp__my.server", &dotted, true),
            ("mcp__my.server__x", &dotted, true),
            ("mcp__my_server", &dotted, true),
            ("mcp__my_server__x", &dotted, true),
            ("mcp__my.server__*", &dotted, true),
            ("mcp__my_server__*", &dotted, true),
            ("mcp__my.server__y", &dotted, false),
            ("mcp__my", &dotted, false),
            ("mcp__a__b", &doubled, true),
            ("mcp__a__b__x", &doubled, true),
            ("mcp__a__b__*", &doubled, true),
            ("mcp__a", &plain, true),
            ("mcp__a__*", &plain, true),
            ("mcp__a__b", &plain, false),
        ];
        for (rule, (name, also), named) in cases {
            let rule = parse(rule, Behavior::Allow).unwrap();
            assert_eq!(
                (rule.names_tool(name, also), rule.may_name_tool(name, also)),
                (named, named),
                "{} {name}",
                rule.text
            );
        }
        // A rule about the server `a` forbids what it may mean, but does not allow it.
        let (name, also) = &doubled;
        for text in ["mcp__a", "mcp__a__*"] {
            let rule = parse(text, Behavior::Allow).unwrap();
            assert!(!rule.names_tool(name, also) && rule.may_name_tool(name, also), "{text}");
        }
        // One tool is allowed, and not those that its server names after it.
        let one = parse("mcp__a__get", Behavior::Allow).unwrap();
        assert!(!one.names_tool("mcp__a__get__all", &tool_aliases("a", "get__all")));
        assert!(parse("mcp__my server__x", Behavior::Deny).unwrap().may_name_tool("mcp__my_server__x", &[]));
    }

    #[test]
    fn names_with_the_same_sendable_form_share_deny_rules_but_not_allow_rules() {
        // Each is sent by a name of its own, and known by the spellings that are not the other's.
        let dotted = ("mcp__s__get_user__1a2b3c4d", tool_name_spellings(&["s"], &["get.user"]));
        let plain = ("mcp__s__get_user", tool_name_spellings(&["s"], &["get_user"]));
        for (rule, means_dotted, means_plain) in [
            ("mcp__s__get.user", true, false),
            ("mcp__s__get_user", false, true),
            ("mcp__s__get_user__1a2b3c4d", true, false),
            ("mcp__s__get_user*", true, true),
            ("mcp__s__get.*", true, false),
            ("mcp__s", true, true),
            ("mcp__s__*", true, true),
        ] {
            let allow = parse(rule, Behavior::Allow).unwrap();
            assert_eq!(
                (allow.names_tool(dotted.0, &dotted.1), allow.names_tool(plain.0, &plain.1)),
                (means_dotted, means_plain)
            );
            if rule != "mcp__s__get_user__1a2b3c4d" {
                let deny = parse(rule, Behavior::Deny).unwrap();
                assert!(deny.may_name_tool(dotted.0, &dotted.1) && deny.may_name_tool(plain.0, &plain.1), "{rule}");
                assert!(
                    entry_may_disallow(rule, dotted.0, &dotted.1) && entry_may_disallow(rule, plain.0, &plain.1),
                    "{rule}"
                );
            }
        }
        // A list grants what a rule allows; an entry about the tools of all servers applies to all of them.
        for (entry, means_dotted, means_plain) in [
            ("mcp__s__get.user", true, false),
            ("mcp__s__get_user", false, true),
            ("mcp__s", true, true),
            ("mcp__s__*", true, true),
            ("mcp__s__get.*", true, false),
            ("mcp__*", true, true),
            ("*", true, true),
            ("mcp__t", false, false),
        ] {
            let given = [entry_allows(entry, dotted.0, &dotted.1), entry_allows(entry, plain.0, &plain.1)];
            assert_eq!(given, [means_dotted, means_plain], "{entry}");
        }
        for pattern in ["mcp__s__g*_user", "mcp__*_user"] {
            assert!(parse(pattern, Behavior::Deny).unwrap().may_name_tool(dotted.0, &dotted.1), "{pattern}");
        }
        // Two servers whose sanitized names are equal.
        let (odd, even) = (tool_name_spellings(&["my.srv"], &["t"]), tool_name_spellings(&["my_srv"], &["t"]));
        for rule in ["mcp__my_srv", "mcp__my_srv__t", "mcp__my_srv__*"] {
            let allow = parse(rule, Behavior::Allow).unwrap();
            assert!(
                allow.names_tool("mcp__my_srv__t", &even) && !allow.names_tool("mcp__my_srv__t__0a0b0c0d", &odd),
                "{rule}"
            );
            assert!(allow.may_name_tool("mcp__my_srv__t__0a0b0c0d", &odd), "{rule}");
        }
        for rule in ["mcp__my.srv", "mcp__my.srv__t", "mcp__my.srv__*"] {
            let allow = parse(rule, Behavior::Allow).unwrap();
            assert!(
                !allow.names_tool("mcp__my_srv__t", &even) && allow.names_tool("mcp__my_srv__t__0a0b0c0d", &odd),
                "{rule}"
            );
        }
    }

    fn server_aliases(server: &str) -> Vec<String> {
        tool_aliases(server, "x")
    }

    fn tool_aliases(server: &str, tool: &str) -> Vec<String> {
        server_tool_names(server, tool)
    }

    #[test]
    fn an_agent_goes_with_its_deny_rule() {
        let mut rules = RuleSet::default();
        rules.add(Behavior::Deny, "Task(Explore)", &RuleSource::new(RuleScope::User, "/")).unwrap();
        assert!(is_agent_removed(&rules, "Explore") && !is_agent_removed(&rules, "Plan"));
    }

    #[test]
    fn managed_settings_can_be_the_only_source_of_allow_rules() {
        let mut rules = RuleSet::default();
        rules.add(Behavior::Deny, "Bash(rm *)", &RuleSource::new(RuleScope::User, "/")).unwrap();
        rules.add(Behavior::Allow, "Bash(x)", &RuleSource::new(RuleScope::User, "/")).unwrap();
        rules.add(Behavior::Allow, "Bash(y)", &RuleSource::new(RuleScope::Managed, "/")).unwrap();
        let managed = rules.with_managed_allows_only();
        assert_eq!(managed.rules(Behavior::Deny).len(), 1);
        assert_eq!(managed.rules(Behavior::Allow)[0].text, "Bash(y)");
    }

    #[test]
    fn lists_split_outside_parentheses_only() {
        assert_eq!(split_rules("Bash(git log:*),Edit Read(a, b)"), ["Bash(git log:*)", "Edit", "Read(a, b)"]);
        assert!(split_rules(" , ").is_empty());
    }
}
