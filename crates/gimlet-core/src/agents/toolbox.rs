//! Which tools a subagent gets: those of whoever sends it, as far as its definition wants them and they are fit for it.

use gimlet_policy::{gives_in_list, takes_in_list};
use gimlet_proto::AgentSpec;

use crate::tool::{ForAgents, ToolError, ToolRef, ToolSet};

/// What narrows the choice beside the definition.
#[derive(Clone, Copy)]
pub(super) struct Circumstances {
    /// Nobody waits for the agent.
    pub(super) background: bool,
    /// It may launch others itself.
    pub(super) may_launch: bool,
}

/// The tools of a subagent, out of those its parent has.
pub(super) fn choose(
    kind: &str,
    spec: &AgentSpec,
    parent: &ToolSet,
    circumstances: Circumstances,
) -> Result<ToolSet, ToolError> {
    let fit: Vec<&ToolRef> = parent.iter().filter(|tool| is_fit(tool, circumstances)).collect();
    let kept = fit.iter().filter(|tool| !spec.disallowed_tools.iter().any(|entry| takes(entry, tool)));
    let Some(wanted) = &spec.tools else { return Ok(parent.only(kept.map(|tool| (*tool).clone()))) };
    let chosen: Vec<ToolRef> =
        kept.filter(|tool| wanted.iter().any(|entry| gives(entry, tool))).map(|tool| (*tool).clone()).collect();
    if chosen.is_empty() && !wanted.is_empty() {
        return Err(nothing_left(kind, wanted, parent, &fit));
    }
    Ok(parent.only(chosen))
}

fn is_fit(tool: &ToolRef, circumstances: Circumstances) -> bool {
    match tool.for_agents() {
        ForAgents::Always => true,
        ForAgents::InForeground => !circumstances.background,
        ForAgents::ToLaunchOthers => !circumstances.background && circumstances.may_launch,
        ForAgents::Never => false,
    }
}

/// Whether an entry of `tools` means this tool: by name, by an older name, by server, or by a pattern.
fn gives(entry: &str, tool: &ToolRef) -> bool {
    gives_in_list(entry, tool.name(), tool.also_named()) || tool.aliases().contains(&entry.trim())
}

/// Whether an entry of `disallowedTools` may mean it.
fn takes(entry: &str, tool: &ToolRef) -> bool {
    takes_in_list(entry, tool.name(), tool.also_named()) || tool.aliases().contains(&entry.trim())
}

fn nothing_left(kind: &str, wanted: &[String], parent: &ToolSet, fit: &[&ToolRef]) -> ToolError {
    let list = |group: Vec<&String>| group.into_iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let known = |entry: &&String| parent.iter().any(|tool| gives(entry, tool));
    let is_fit = |entry: &&String| fit.iter().any(|tool| gives(entry, tool));
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
    use crate::tool::{Guest, GuestCall, GuestResult, GuestTool, ResultCap, ToolContext};

    struct Nobody;

    impl GuestCall for Nobody {
        fn call<'a>(
            &'a self,
            _input: Map<String, Value>,
            _cx: &'a ToolContext,
        ) -> BoxFuture<'a, Result<GuestResult, ToolError>> {
            Box::pin(async { Ok(GuestResult::text("")) })
        }
    }

    fn tool(name: &str, own: bool) -> ToolRef {
        let guest = Guest {
            name: name.to_owned(),
            also_named: Arc::default(),
            server: None,
            description: String::new(),
            schema: json!({"type": "object"}),
            says_read_only: false,
            requires_user_interaction: false,
            own,
            max_result_chars: ResultCap::Unlimited,
            label: name.to_owned(),
        };
        ToolRef::Guest(Arc::new(GuestTool::new(guest, Arc::new(Nobody))))
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
        let set = choose("x", &spec, &parent, Circumstances { background: false, may_launch: true });
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
