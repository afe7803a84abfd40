//! The tools that a rule can be about.

use gimlet_core::tool::nearest_name;
use gimlet_policy::{Behavior, Rule, RuleError, RuleSource, split_rules};

use crate::launch_error::LaunchError;
use crate::launch_request::LaunchRequest;

/// Tools of the reference CLI that gimlet does not have yet. Rules about them are harmless: there is nothing to call.
const TOOLS_TO_COME: &[&str] = &[
    "Cd",
    "PowerShell",
    "WebFetch",
    "WebSearch",
    "LSP",
    "ToolSearch",
    "TaskCreate",
    "TaskUpdate",
    "TaskGet",
    "TaskList",
    "EnterWorktree",
    "ExitWorktree",
    "CronCreate",
    "CronDelete",
    "CronList",
    "Monitor",
    "SendMessage",
    "ListMcpResourcesTool",
    "ReadMcpResourceTool",
];

/// Returns the tool names that a rule can have.
pub fn known_tools() -> impl Iterator<Item = &'static str> {
    let built_in =
        gimlet_tools::builtin().into_iter().flat_map(|tool| tool.aliases().iter().copied().chain([tool.name()]));
    built_in.chain(TOOLS_TO_COME.iter().copied()).chain(["StructuredOutput"])
}

/// Returns the tool name in a rule if the tool is unknown, and the closest known name.
pub fn find_unknown_tool(rule: &str) -> Option<(&str, Option<&'static str>)> {
    let name = rule.split('(').next().unwrap_or(rule).trim();
    let known = name.contains('*') || name.starts_with("mcp__") || known_tools().any(|known| known == name);
    (!known).then(|| (name, nearest_name(name, known_tools())))
}

/// Returns warnings about `--allowedTools` rules for unknown tools. None for driven sessions: the rules may be meant
/// for another version, and there is no user to correct them.
pub(super) fn unknown_tool_remarks(request: &LaunchRequest) -> Vec<String> {
    if request.is_driven() {
        return Vec::new();
    }
    let rules = request.permissions.allowed_rules.iter().flat_map(|text| split_rules(text));
    let unknown = rules.filter_map(find_unknown_tool).filter(|(name, _)| !name.contains('_'));
    let close = |close: Option<&str>| close.map_or(String::new(), |close| format!("; did you mean {close}?"));
    unknown.map(|(name, near)| format!("--allowedTools: there is no tool named '{name}'{}", close(near))).collect()
}

/// Returns an error for a rule about an unknown tool: a mistyped deny rule would deny nothing.
pub fn check_tool_name(rule: &str, label: &str) -> Result<(), LaunchError> {
    let Some((name, close)) = find_unknown_tool(rule) else { return Ok(()) };
    let report = LaunchError::new(format!("{label}: there is no tool named '{name}'"));
    Err(match close {
        Some(close) => report.with_hint(format!("Did you mean {close}?")),
        None => report.with_hint("See docs/tools.md for the tools there are"),
    })
}

/// Checks that a newly written rule can be honoured.
pub fn check_rule(rule: &str, behavior: Behavior, source: &RuleSource, label: &str) -> Result<(), LaunchError> {
    check_tool_name(rule, label)?;
    Rule::parse(rule, behavior, source).map(drop).map_err(|error| rule_error(label, &error))
}

pub(super) fn rule_error(label: &str, error: &RuleError) -> LaunchError {
    LaunchError::new(format!("{label}: {error}")).with_hint("Write rules as Tool or Tool(pattern)")
}
