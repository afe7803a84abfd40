//! Specifiers in the parentheses of a rule, tool by tool. An ambiguous text is parsed by the grammar of its tool; only
//! an unambiguous parameter name makes a rule about a parameter.

use super::agent_skill_pattern::{AgentPattern, SkillPattern};
use super::parameter_pattern::ParameterPattern;
use super::{Behavior, CommandPattern, DomainPattern, RuleError};
use crate::paths::PathPattern;

/// Restriction of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RuleSpecifier {
    /// Every call of the tool.
    All,
    Command(CommandPattern),
    Path(PathPattern),
    Domain(DomainPattern),
    Parameter(ParameterPattern),
    Agent(AgentPattern),
    Skill(SkillPattern),
    /// Accepted for compatibility with files that other programs read, too; matches no call.
    Inert(InertReason),
}

/// Reason why a rule has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InertReason {
    /// File rules are written as `Read(…)` or `Edit(…)`.
    FileTool,
    /// The parameter has a rule form of its own.
    PrimaryField(String),
    /// The tool does not exist on this system.
    OtherSystem,
    /// A directory that the user may move the session to; gimlet stays in its directory.
    Directory,
}

/// Parameters that a tool's own rule form is about.
const PRIMARY: &[&str] = &["command", "file_path", "path", "notebook_path", "url"];

pub(super) fn parse_specifier(
    written: &str,
    inner: &str,
    behavior: Behavior,
    rule: &str,
) -> Result<RuleSpecifier, RuleError> {
    let form = RuleGrammar::for_tool(written);
    if let Some((name, value)) = inner.split_once(':').map(|(name, value)| (name.trim(), value.trim()))
        && form.is_parameter(name, value)
    {
        return parse_parameter(form, name, value, behavior, rule);
    }
    let unsupported = |what| Err(RuleError::Unsupported { rule: rule.to_owned(), what });
    let path = || PathPattern::parse(inner).map_err(|source| RuleError::Path { rule: rule.to_owned(), source });
    match form {
        RuleGrammar::Command => match CommandPattern::parse(inner) {
            Some(pattern) => Ok(RuleSpecifier::Command(pattern)),
            None => Err(RuleError::CompoundCommand { rule: rule.to_owned() }),
        },
        RuleGrammar::File => Ok(RuleSpecifier::Path(path()?)),
        // A pattern that cannot be parsed is an error for any kind of rule.
        RuleGrammar::Directory => path().map(|_| RuleSpecifier::Inert(InertReason::Directory)),
        RuleGrammar::InertFile => Ok(RuleSpecifier::Inert(InertReason::FileTool)),
        RuleGrammar::OtherSystem => Ok(RuleSpecifier::Inert(InertReason::OtherSystem)),
        RuleGrammar::Fetch => match inner.split_once(':') {
            Some((name, host)) if name.trim() == "domain" => match DomainPattern::parse(host.trim()) {
                Some(pattern) => Ok(RuleSpecifier::Domain(pattern)),
                None => Err(RuleError::Domain { rule: rule.to_owned() }),
            },
            _ => unsupported("addresses are written as `WebFetch(domain:host)`"),
        },
        RuleGrammar::Agent => Ok(RuleSpecifier::Agent(AgentPattern::new(inner))),
        RuleGrammar::Skill => SkillPattern::parse(inner)
            .map(RuleSpecifier::Skill)
            .ok_or_else(|| RuleError::Malformed { rule: rule.to_owned() }),
        RuleGrammar::Other => unsupported("only a `parameter:value` can stand in the parentheses of this tool"),
    }
}

fn parse_parameter(
    form: RuleGrammar,
    name: &str,
    value: &str,
    behavior: Behavior,
    rule: &str,
) -> Result<RuleSpecifier, RuleError> {
    if form.has_primary_fields() && PRIMARY.contains(&name) {
        return Ok(RuleSpecifier::Inert(InertReason::PrimaryField(name.to_owned())));
    }
    if behavior == Behavior::Allow {
        return Err(RuleError::ParameterAllow { rule: rule.to_owned() });
    }
    match ParameterPattern::new(name, value) {
        Some(pattern) => Ok(RuleSpecifier::Parameter(pattern)),
        None => Err(RuleError::Malformed { rule: rule.to_owned() }),
    }
}

/// The grammars that tools have for their rules.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RuleGrammar {
    Command,
    File,
    /// A file tool whose paths are governed by the rules of another.
    InertFile,
    Fetch,
    Agent,
    Skill,
    Directory,
    OtherSystem,
    Other,
}

impl RuleGrammar {
    /// Returns the grammar for a tool's written name: an older name may have another grammar than the current one.
    fn for_tool(written: &str) -> Self {
        match written {
            "Bash" | "Monitor" => RuleGrammar::Command,
            "Read" | "Edit" => RuleGrammar::File,
            "Write" | "NotebookEdit" | "MultiEdit" | "Glob" | "Grep" | "LSP" => RuleGrammar::InertFile,
            "WebFetch" => RuleGrammar::Fetch,
            "Agent" | "Task" => RuleGrammar::Agent,
            "Skill" => RuleGrammar::Skill,
            "Cd" => RuleGrammar::Directory,
            "PowerShell" => RuleGrammar::OtherSystem,
            _ => RuleGrammar::Other,
        }
    }

    /// Returns true if `name:value` is about a parameter. A tool that has a grammar of its own has only these
    /// parameters; for any other tool every word may be one.
    fn is_parameter(self, name: &str, value: &str) -> bool {
        let word = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
        let known: &[&str] = match self {
            // `timeout:*` is every command that begins with the program of that name.
            RuleGrammar::Command if name == "timeout" && value == "*" => return false,
            RuleGrammar::Command => &["dangerouslyDisableSandbox", "run_in_background", "timeout", "description"],
            RuleGrammar::File => &["offset", "limit", "pages", "old_string", "new_string", "replace_all"],
            RuleGrammar::Fetch => &["prompt"],
            RuleGrammar::Agent => &[
                "subagent_type",
                "description",
                "prompt",
                "model",
                "name",
                "team_name",
                "mode",
                "isolation",
                "resume",
                "max_turns",
                "run_in_background",
            ],
            RuleGrammar::Skill => &["skill", "args"],
            RuleGrammar::Directory | RuleGrammar::OtherSystem => return false,
            RuleGrammar::InertFile | RuleGrammar::Other => return word(name),
        };
        known.contains(&name) || (self.has_primary_fields() && PRIMARY.contains(&name))
    }

    fn has_primary_fields(self) -> bool {
        matches!(self, RuleGrammar::Command | RuleGrammar::File | RuleGrammar::InertFile | RuleGrammar::Fetch)
    }
}
