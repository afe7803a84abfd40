//! What stands in the parentheses of a rule, tool by tool. A text that could be read in two ways is read in the one that
//! its tool has a grammar for; only what is plainly the name of a parameter is a rule about one.

use super::named::{AgentPattern, SkillPattern};
use super::parameter::ParameterPattern;
use super::{Behavior, CommandPattern, DomainPattern, RuleError};
use crate::paths::PathPattern;

/// What narrows a rule down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Specifier {
    /// Every call of the tool.
    All,
    Command(CommandPattern),
    Path(PathPattern),
    Domain(DomainPattern),
    Parameter(ParameterPattern),
    Agent(AgentPattern),
    Skill(SkillPattern),
    /// Accepted for the sake of files that other programs read, too; speaks of no call.
    Inert(Inert),
}

/// Why a rule has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Inert {
    /// File rules are written as `Read(…)` or `Edit(…)`.
    FileTool,
    /// The parameter has a rule form of its own.
    PrimaryField(String),
    /// The tool does not exist on this system.
    OtherSystem,
    /// Where the person may take the session; gimlet stays where it is.
    Directory,
}

/// Parameters that a tool's own rule form is about.
const PRIMARY: &[&str] = &["command", "file_path", "path", "notebook_path", "url"];

pub(super) fn parse(written: &str, inner: &str, behavior: Behavior, rule: &str) -> Result<Specifier, RuleError> {
    let form = Form::of(written);
    if let Some((name, value)) = inner.split_once(':').map(|(name, value)| (name.trim(), value.trim()))
        && form.is_parameter(name, value)
    {
        return parameter(form, name, value, behavior, rule);
    }
    let unsupported = |what| Err(RuleError::Unsupported { rule: rule.to_owned(), what });
    let path = || PathPattern::parse(inner).map_err(|source| RuleError::Path { rule: rule.to_owned(), source });
    match form {
        Form::Command => match CommandPattern::parse(inner) {
            Some(pattern) => Ok(Specifier::Command(pattern)),
            None => Err(RuleError::CompoundCommand { rule: rule.to_owned() }),
        },
        Form::File => Ok(Specifier::Path(path()?)),
        // A pattern that cannot be read is a mistake, whoever the rule is for.
        Form::Directory => path().map(|_| Specifier::Inert(Inert::Directory)),
        Form::InertFile => Ok(Specifier::Inert(Inert::FileTool)),
        Form::OtherSystem => Ok(Specifier::Inert(Inert::OtherSystem)),
        Form::Fetch => match inner.split_once(':') {
            Some((name, host)) if name.trim() == "domain" => match DomainPattern::parse(host.trim()) {
                Some(pattern) => Ok(Specifier::Domain(pattern)),
                None => Err(RuleError::Domain { rule: rule.to_owned() }),
            },
            _ => unsupported("addresses are written as `WebFetch(domain:host)`"),
        },
        Form::Agent => Ok(Specifier::Agent(AgentPattern::new(inner))),
        Form::Skill => SkillPattern::parse(inner)
            .map(Specifier::Skill)
            .ok_or_else(|| RuleError::Malformed { rule: rule.to_owned() }),
        Form::Other => unsupported("only a `parameter:value` can stand in the parentheses of this tool"),
    }
}

fn parameter(form: Form, name: &str, value: &str, behavior: Behavior, rule: &str) -> Result<Specifier, RuleError> {
    if form.has_primary_fields() && PRIMARY.contains(&name) {
        return Ok(Specifier::Inert(Inert::PrimaryField(name.to_owned())));
    }
    if behavior == Behavior::Allow {
        return Err(RuleError::ParameterAllow { rule: rule.to_owned() });
    }
    match ParameterPattern::new(name, value) {
        Some(pattern) => Ok(Specifier::Parameter(pattern)),
        None => Err(RuleError::Malformed { rule: rule.to_owned() }),
    }
}

/// The grammars that tools have for their rules.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
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

impl Form {
    /// By the name as it is written: an older name may have another grammar than the tool that it stands for.
    fn of(written: &str) -> Self {
        match written {
            "Bash" | "Monitor" => Form::Command,
            "Read" | "Edit" => Form::File,
            "Write" | "NotebookEdit" | "MultiEdit" | "Glob" | "Grep" | "LSP" => Form::InertFile,
            "WebFetch" => Form::Fetch,
            "Agent" | "Task" => Form::Agent,
            "Skill" => Form::Skill,
            "Cd" => Form::Directory,
            "PowerShell" => Form::OtherSystem,
            _ => Form::Other,
        }
    }

    /// Whether `name:value` speaks of a parameter. A tool that has a grammar of its own has only these parameters; of any
    /// other tool every word may be one.
    fn is_parameter(self, name: &str, value: &str) -> bool {
        let word = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
        let known: &[&str] = match self {
            // `timeout:*` is every command that begins with the program of that name.
            Form::Command if name == "timeout" && value == "*" => return false,
            Form::Command => &["dangerouslyDisableSandbox", "run_in_background", "timeout", "description"],
            Form::File => &["offset", "limit", "pages", "old_string", "new_string", "replace_all"],
            Form::Fetch => &["prompt"],
            Form::Agent => &[
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
            Form::Skill => &["skill", "args"],
            Form::Directory | Form::OtherSystem => return false,
            Form::InertFile | Form::Other => return word(name),
        };
        known.contains(&name) || (self.has_primary_fields() && PRIMARY.contains(&name))
    }

    fn has_primary_fields(self) -> bool {
        matches!(self, Form::Command | Form::File | Form::InertFile | Form::Fetch)
    }
}
