//! Selection of a subagent's tools: those of its sender, as far as its definition lists them and they are suitable.

use gimlet_policy::{entry_allows, entry_may_disallow};
use gimlet_proto::AgentSpec;
use serde_json::Value;

use crate::tool::{AgentAvailability, ToolError, ToolRef, ToolSet};

/// Tools that an agent with a memory of its own has in any case.
const MEMORY_TOOLS: [&str; 3] = ["Read", "Write", "Edit"];

/// Further limits on the selection beside the definition.
#[derive(Clone, Copy)]
pub(super) struct ToolSelectionContext {
    /// True if the agent runs in the background.
    pub(super) background: bool,
    /// True if it may launch agents itself.
    pub(super) may_launch: bool,
}

/// Selects the tools of a subagent from those of its parent.
pub(super) fn select_tools(
    kind: &str,
    spec: &AgentSpec,
    parent: &ToolSet,
    circumstances: ToolSelectionContext,
) -> Result<ToolSet, ToolError> {
    let fit: Vec<&ToolRef> = parent.iter().filter(|tool| is_available_to_agent(tool, circumstances)).collect();
    let kept = fit.iter().filter(|tool| !spec.disallowed_tools.iter().any(|entry| deny_entry_matches(entry, tool)));
    let Some(wanted) = &tool_entries(spec) else {
        return Ok(parent.restricted_to(kept.map(|tool| (*tool).clone())));
    };
    let chosen: Vec<ToolRef> = kept
        .filter(|tool| wanted.iter().any(|entry| allow_entry_matches(entry, tool)))
        .map(|tool| (*tool).clone())
        .collect();
    if chosen.is_empty() && !wanted.is_empty() {
        return Err(no_tools_error(kind, wanted, parent, &fit));
    }
    Ok(parent.restricted_to(chosen))
}

/// Returns the entries of `tools` with those that other fields bring: the tools of named servers, and the file tools by
/// which an agent keeps its memory. `None` for all tools.
pub fn tool_entries(spec: &AgentSpec) -> Option<Vec<String>> {
    let mut wanted = spec.tools.clone()?;
    wanted.extend(named_servers(spec).into_iter().map(|server| format!("mcp__{server}")));
    if spec.memory.is_some() {
        wanted.extend(MEMORY_TOOLS.map(str::to_owned));
    }
    Some(wanted)
}

/// Returns the names in `mcpServers` of servers that the session has.
fn named_servers(spec: &AgentSpec) -> Vec<String> {
    match parse_servers(spec) {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(entries)) => {
            entries.iter().filter_map(|entry| Some(entry.as_str()?.trim().to_owned())).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns true if `mcpServers` defines servers instead of naming those of the session.
pub(super) fn defines_servers(spec: &AgentSpec) -> bool {
    match parse_servers(spec) {
        Some(Value::Array(entries)) => entries.iter().any(Value::is_object),
        Some(Value::Object(servers)) => !servers.is_empty(),
        _ => false,
    }
}

fn parse_servers(spec: &AgentSpec) -> Option<Value> {
    serde_json::from_str(spec.mcp_servers.as_ref()?.get()).ok()
}

fn is_available_to_agent(tool: &ToolRef, circumstances: ToolSelectionContext) -> bool {
    match tool.agent_availability() {
        AgentAvailability::Always => true,
        AgentAvailability::InForeground => !circumstances.background,
        AgentAvailability::ToLaunchOthers => !circumstances.background && circumstances.may_launch,
        AgentAvailability::Never => false,
    }
}

/// Returns true if an entry of `tools` means this tool: by name, by an older name, by server, or by a pattern.
fn allow_entry_matches(entry: &str, tool: &ToolRef) -> bool {
    entry_allows(entry, tool.name(), tool.also_named()) || tool.aliases().contains(&entry.trim())
}

/// Returns true if an entry of `disallowedTools` may mean it.
fn deny_entry_matches(entry: &str, tool: &ToolRef) -> bool {
    entry_may_disallow(entry, tool.name(), tool.also_named()) || tool.aliases().contains(&entry.trim())
}

fn no_tools_error(kind: &str, wanted: &[String], parent: &ToolSet, fit: &[&ToolRef]) -> ToolError {
    let list = |group: Vec<&String>| group.into_iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let known = |entry: &&String| parent.iter().any(|tool| allow_entry_matches(entry, tool));
    let is_fit = |entry: &&String| fit.iter().any(|tool| allow_entry_matches(entry, tool));
    let (here, elsewhere): (Vec<&String>, Vec<&String>) = wanted.iter().partition(known);
    let (taken, unfit): (Vec<&String>, Vec<&String>) = here.into_iter().partition(is_fit);
    let groups = [
        ("not a tool of this session", list(elsewhere)),
        ("not for subagents like this", list(unfit)),
        ("taken away by disallowedTools", list(taken)),
    ];
    let said: Vec<String> = groups
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(why, names)| format!("{why}: {names}"))
        .collect();
    ToolError::failed(format!(
        "The agent type `{kind}` cannot be launched, because no tool is left of those it names ({}). Use another type.",
        said.join("; ")
    ))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gimlet_proto::BoxFuture;
    use serde_json::{Map, Value, json};

    use super::*;
    use crate::tool::{
        ExternalTool, ExternalToolHandler, ExternalToolResult, ExternalToolSpec, ResultCap, ToolContext,
    };

    struct NoopToolHandler;

    impl ExternalToolHandler for NoopToolHandler {
        fn call<'a>(
            &'a self,
            _input: Map<String, Value>,
            _cx: &'a ToolContext,
        ) -> BoxFuture<'a, Result<ExternalToolResult, ToolError>> {
            Box::pin(async { Ok(ExternalToolResult::from_text("")) })
        }
    }

    fn tool(name: &str, own: bool) -> ToolRef {
        let guest = ExternalToolSpec {
            name: name.to_owned(),
            also_named: Arc::default(),
            server: None,
            description: String::new(),
            schema: json!({"type": "object"}),
            says_read_only: false,
            requires_user_interaction: false,
            own,
            main_only: own,
            max_result_chars: ResultCap::Unlimited,
            label: name.to_owned(),
        };
        ToolRef::External(Arc::new(ExternalTool::new(guest, Arc::new(NoopToolHandler))))
    }

    fn chosen(tools: Option<&[&str]>, disallowed: &[&str]) -> Result<Vec<String>, String> {
        let parent = ToolSet::new([
            tool("mcp__db__read", false),
            tool("mcp__db__write", false),
            tool("mcp__web__get", false),
            tool("Own", true),
        ]);
        let owned = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let spec = AgentSpec { tools: tools.map(owned), disallowed_tools: owned(disallowed), ..AgentSpec::default() };
        let set = select_tools("x", &spec, &parent, ToolSelectionContext { background: false, may_launch: true });
        set.map(|set| set.iter().map(|tool| tool.name().to_owned()).collect()).map_err(|error| error.model_text)
    }

    #[test]
    fn entries_mean_tools_servers_or_everything() {
        let all = ["mcp__db__read", "mcp__db__write", "mcp__web__get"];
        assert_eq!(chosen(None, &[]).unwrap(), all);
        assert_eq!(chosen(Some(&["*"]), &[]).unwrap(), all);
        assert_eq!(chosen(Some(&["mcp__db"]), &[]).unwrap(), all[..2]);
        assert_eq!(chosen(Some(&["mcp__db__*", "mcp__web__get"]), &["mcp__db__write"]).unwrap(), [all[0], all[2]]);
        assert_eq!(chosen(None, &["mcp__*"]).unwrap(), Vec::<String>::new());
        assert_eq!(chosen(None, &["mcp__db__w*"]).unwrap(), [all[0], all[2]]);
        assert_eq!(chosen(None, &["mcp__*__write", "mcp__web(x)"]).unwrap(), [all[0]]);
        assert_eq!(chosen(Some(&["mcp__*__get", "*__read"]), &[]).unwrap(), [all[0], all[2]]);
        assert_eq!(chosen(Some(&[]), &[]).unwrap(), Vec::<String>::new(), "none is a choice");
        assert_eq!(chosen(Some(&["mcp__d"]), &[]).err().map(|_| ()), Some(()), "half a server is none");
    }

    #[test]
    fn a_list_that_names_nothing_is_explained_entry_by_entry() {
        let said = chosen(Some(&["Raed", "Own", "mcp__web"]), &["mcp__web"]).unwrap_err();
        for part in ["session: Raed", "subagents like this: Own", "disallowedTools: mcp__web", "`x`"] {
            assert!(said.contains(part), "{said}");
        }
    }
}
