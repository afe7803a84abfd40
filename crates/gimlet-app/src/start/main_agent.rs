//! Subagent types that a caller defines, warnings about them, and the agent of the main conversation.

use std::sync::Arc;

use gimlet_core::tool::{AbsentTools, ServerRequestFacts, ToolRef, ToolSource, ToolSourceNews, nearest_name};
use gimlet_core::{
    AgentKind, AgentMemoryFolders, AgentRoster, AgentSource, HostPermit, MainAgent, UserAsker, tool_entries,
};
use gimlet_policy::{RuleSet, entry_allows, entry_may_disallow};
use gimlet_proto::{AgentSpec, BoxFuture, EFFORTS, PermissionMode, ServerRequest, ServerView};
use serde_json::Value;

use super::known_tools;
use super::session_tools::{NOT_A_FILE, is_file_name};
use crate::launch_error::LaunchError;
use crate::launch_request::LaunchRequest;

/// The tool that starts subagents.
const LAUNCHER: &str = "Agent";

/// Parses the subagent types that `--agents` or the driving program defines.
pub(super) fn parse_agents(request: &LaunchRequest) -> Result<Vec<(String, AgentSpec)>, LaunchError> {
    let Some(given) = &request.agents.kinds else { return Ok(Vec::new()) };
    let wrong = |error: String| {
        if given.is_from_host() {
            return LaunchError::new(format!("the agents of initialize cannot be used: {error}"));
        }
        let report = LaunchError::new(format!("--agents: {error}"));
        if is_file_name(&given.text) {
            return report.with_hint(NOT_A_FILE);
        }
        report.with_hint(
            r#"It is a JSON object: {"name": {"description": "when to use it", "prompt": "what it is told"}}"#,
        )
    };
    let kinds: serde_json::Map<String, Value> =
        serde_json::from_str(&given.text).map_err(|error| wrong(error.to_string()))?;
    let read = |(name, spec): (String, Value)| match serde_json::from_value(spec) {
        Ok(spec) => Ok((name, spec)),
        Err(error) => Err(wrong(format!("'{name}': {error}"))),
    };
    kinds.into_iter().map(read).collect()
}

/// Agent of the main conversation, and the flags with its values applied.
pub(super) struct MainAgentChoice {
    pub(super) request: LaunchRequest,
    agent: Option<Arc<AgentKind>>,
    /// True if it comes from the resumed session (possibly no agent) instead of a choice made now.
    restored: bool,
    pub(super) remark: Option<String>,
}

impl MainAgentChoice {
    /// Chooses the agent that `--agent` names, else that of the resumed session, else that of the settings. A driving
    /// program may define the named agent later, so a missing one only causes a remark there; so does a missing one
    /// from settings, because they apply to all sessions. A missing agent of the resumed session is an error unless a
    /// program drives the session.
    pub(super) fn choose(
        request: &LaunchRequest,
        roster: &AgentRoster,
        rules: &RuleSet,
        named: &AgentNames<'_>,
    ) -> Result<Self, LaunchError> {
        let plain = |remark| Self { request: request.clone(), agent: None, restored: false, remark };
        let before = if request.agents.main.is_none() { named.of_session } else { None };
        if before == Some("") {
            return Ok(Self { restored: true, ..plain(None) });
        }
        let name = request.agents.main.as_deref().or(before).or(named.by_settings).filter(|name| !name.is_empty());
        let Some(name) = name else { return Ok(plain(None)) };
        match roster.definition(name, rules) {
            Ok(kind) => {
                let restored = before.is_some();
                let remark = refused_mode_remark(&kind);
                Ok(Self { request: apply_agent(request, &kind.spec, restored), agent: Some(kind), restored, remark })
            }
            // The agent's tools may have been restricted: the user must confirm that the session runs without its
            // limits.
            Err(problem) if before.is_some() && !request.is_driven() => {
                let report = LaunchError::new(format!("this session ran as the agent '{name}': {problem}"));
                Err(report
                    .with_hint("Define it again with --agents, or go on without its prompt and its limits: --agent ''"))
            }
            Err(problem) if before.is_some() => {
                let without = "it goes on without the agent's prompt and limits";
                Ok(plain(Some(format!("this session ran as the agent '{name}': {problem}; {without}"))))
            }
            Err(problem) if request.agents.main.is_none() => Ok(plain(Some(format!("the setting agent: {problem}")))),
            Err(problem) if request.is_driven() => Ok(plain(Some(format!("--agent: {problem}")))),
            Err(problem) => Err(LaunchError::new(format!("--agent: {problem}"))),
        }
    }

    /// Returns true if the agent may have this tool.
    pub(super) fn has_tool(&self, name: &str, also_named: &[String], aliases: &[&str]) -> bool {
        let Some(kind) = &self.agent else { return true };
        is_tool_granted(&kind.spec, name, also_named, aliases)
    }

    /// Filters external tools by what the agent may have.
    pub(super) fn filter_guests(&self, source: Arc<dyn ToolSource>) -> Arc<dyn ToolSource> {
        match &self.agent {
            Some(kind) => Arc::new(AgentToolSource { source, spec: kind.spec.clone() }),
            None => source,
        }
    }

    /// Returns true if the resumed session ran as this agent, and so already has its own model and mode.
    pub(super) fn is_restored(&self) -> bool {
        self.restored
    }

    pub(super) fn name(&self) -> Option<&str> {
        self.agent.as_ref().map(|kind| kind.name.as_str())
    }

    /// Returns the agent that the session keeps when its conversation is cleared; an empty name for no agent. One from
    /// settings is not kept: settings are read again.
    pub(super) fn agent_after_clear(&self) -> Option<String> {
        let restored = || self.restored.then(|| self.name().unwrap_or_default().to_owned());
        self.request.agents.main.clone().or_else(restored)
    }

    /// Returns the model of the agent's definition.
    pub(super) fn model(&self) -> Option<&str> {
        own_model(&self.agent.as_ref()?.spec)
    }

    /// Returns the mode that the agent asks for and may have, with the agent's name.
    pub(super) fn mode(&self) -> Option<(&str, PermissionMode)> {
        let kind = self.agent.as_ref()?;
        Some((&kind.name, permitted_mode(kind)?))
    }

    /// Describes the memory that the agent keeps, for the system prompt.
    pub(super) fn memory_text(&self, folders: &AgentMemoryFolders) -> Option<String> {
        let kind = self.agent.as_ref()?;
        folders.describe(&kind.name, kind.spec.memory.as_deref())
    }

    /// Returns the only agent types that it may start; `None` for all.
    pub(super) fn launchable_kinds(&self) -> Option<Vec<String>> {
        parse_launchable(&self.agent.as_ref()?.spec)
    }

    /// Returns the main agent, with the hooks that it has in this roster.
    pub(super) fn into_main_agent(self, roster: &AgentRoster) -> Option<MainAgent> {
        let kind = self.agent?;
        let hooks = roster.kinds().find(|known| known.name == kind.name).map(|known| known.hooks.clone());
        Some(MainAgent {
            name: kind.name.clone(),
            initial_prompt: kind.spec.initial_prompt.clone(),
            may_launch: parse_launchable(&kind.spec),
            hooks: hooks.unwrap_or_default(),
        })
    }
}

/// Returns the mode that a definition may set for the session: one of the project's only a narrower one, and one of a
/// plugin none.
fn permitted_mode(kind: &AgentKind) -> Option<PermissionMode> {
    let is_narrow = |mode: &PermissionMode| matches!(mode, PermissionMode::Plan | PermissionMode::DontAsk);
    match kind.source {
        AgentSource::Plugin => None,
        AgentSource::Project => kind.spec.permission_mode.filter(is_narrow),
        AgentSource::BuiltIn | AgentSource::User | AgentSource::Caller | AgentSource::Managed => {
            kind.spec.permission_mode
        }
    }
}

fn refused_mode_remark(kind: &AgentKind) -> Option<String> {
    let wanted = kind.spec.permission_mode.filter(|_| permitted_mode(kind).is_none())?;
    let name = &kind.name;
    Some(format!("the agent type '{name}' is not the user's own, so the mode {wanted} that it asks for is ignored"))
}

/// Sources for the main agent's name besides the flag.
pub(super) struct AgentNames<'a> {
    /// Agent of the resumed session.
    pub(super) of_session: Option<&'a str>,
    pub(super) by_settings: Option<&'a str>,
}

/// Returns the model of an agent's definition, if it has its own.
fn own_model(spec: &AgentSpec) -> Option<&str> {
    spec.model.as_deref().filter(|model| *model != "inherit")
}

/// Returns the flags of a session that runs as this agent. The command line takes precedence, except for an empty
/// system prompt: programs without one pass that. The agent's mode is not set as a flag: it must not grant what a flag
/// would.
fn apply_agent(request: &LaunchRequest, spec: &AgentSpec, restored: bool) -> LaunchRequest {
    let mut request = request.clone();
    let own_prompt = request.system_prompt.replace.as_deref().is_some_and(|text| !text.is_empty());
    if !own_prompt && request.system_prompt.replace_file.is_none() {
        request.system_prompt.replace = Some(spec.prompt.clone());
    }
    // The model of a resumed session may have changed since.
    let model = if restored { None } else { own_model(spec).map(str::to_owned) };
    request.model.name = request.model.name.or(model);
    request.model.effort = request.model.effort.or_else(|| spec.effort.clone());
    request.limits.max_turns = request.limits.max_turns.or(spec.max_turns);
    request
}

/// Returns the types that `Agent(one, other)` in a list of tools names. An entry with the tool alone allows all of
/// them.
fn parse_launchable(spec: &AgentSpec) -> Option<Vec<String>> {
    let mut kinds = Vec::new();
    for entry in spec.tools.iter().flatten().filter(|entry| entry_allows(entry, LAUNCHER, &[])) {
        let (_, named) = entry.trim().strip_suffix(')')?.split_once('(')?;
        let named: Vec<String> =
            named.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
        if named.is_empty() || named.iter().any(|name| name == "*") {
            return None;
        }
        kinds.extend(named);
    }
    (!kinds.is_empty()).then_some(kinds)
}

fn is_tool_granted(spec: &AgentSpec, name: &str, also_named: &[String], aliases: &[&str]) -> bool {
    let gives = |entry: &String| entry_allows(entry, name, also_named) || aliases.contains(&entry.trim());
    let takes = |entry: &String| entry_may_disallow(entry, name, also_named) || aliases.contains(&entry.trim());
    tool_entries(spec).is_none_or(|wanted| wanted.iter().any(gives)) && !spec.disallowed_tools.iter().any(takes)
}

/// External tools that an agent may have.
struct AgentToolSource {
    source: Arc<dyn ToolSource>,
    spec: AgentSpec,
}

impl ToolSource for AgentToolSource {
    fn tools(&self) -> BoxFuture<'_, Vec<ToolRef>> {
        Box::pin(async move {
            let mut tools = self.source.tools().await;
            tools.retain(|tool| is_tool_granted(&self.spec, tool.name(), tool.also_named(), tool.aliases()));
            tools
        })
    }

    fn absent_tools(&self) -> Vec<AbsentTools> {
        self.source.absent_tools()
    }

    fn take_news(&self) -> ToolSourceNews {
        self.source.take_news()
    }

    fn instructions(&self) -> Vec<(String, String)> {
        self.source.instructions()
    }

    fn set_user_asker(&self, asker: UserAsker) {
        self.source.set_user_asker(asker);
    }

    fn servers(&self) -> Vec<ServerView> {
        self.source.servers()
    }

    fn look_up_request<'a>(&'a self, wish: &'a ServerRequest) -> BoxFuture<'a, ServerRequestFacts> {
        self.source.look_up_request(wish)
    }

    fn execute_request(&self, leave: HostPermit) -> BoxFuture<'_, Result<Value, String>> {
        self.source.execute_request(leave)
    }
}

/// Returns warnings about unknown tool names (a mistyped tool would not be removed) and about efforts that no model
/// has, which are not sent. Tools of servers are not known yet.
pub(super) fn agent_remarks(agents: &[(String, AgentSpec)]) -> Vec<String> {
    let mut remarks = Vec::new();
    for (kind, spec) in agents {
        let wanted = spec.tools.iter().flatten().map(|entry| ("tools", entry));
        let unwanted = spec.disallowed_tools.iter().map(|entry| ("disallowedTools", entry));
        for (list, entry) in wanted.chain(unwanted).filter(|(_, entry)| !is_known_tool(entry)) {
            let close = nearest_name(entry, known_tools()).map(|close| format!("; did you mean {close}?"));
            let hint = close.unwrap_or_default();
            remarks.push(format!("the agent type '{kind}' names '{entry}' in {list}, which is no tool{hint}"));
        }
        if let Some(effort) = spec.effort.as_deref().filter(|effort| !EFFORTS.contains(effort)) {
            let can_be = EFFORTS.join(", ");
            remarks
                .push(format!("the agent type '{kind}' has the effort '{effort}', without effect: it can be {can_be}"));
        }
    }
    remarks
}

/// Returns the entries of a definition's lists that are no tools.
pub(super) fn unknown_tools(spec: &AgentSpec) -> Vec<String> {
    let entries = spec.tools.iter().flatten().chain(&spec.disallowed_tools);
    entries.filter(|entry| !is_known_tool(entry)).cloned().collect()
}

fn is_known_tool(entry: &str) -> bool {
    let known = || known_tools().any(|tool| entry_may_disallow(entry, tool, &[]) || tool == entry.trim());
    entry.trim_start().starts_with("mcp__") || known()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_tools_names_the_kinds_that_a_main_agent_may_send() {
        for (tools, kinds) in [
            (r#""Read, Agent(a, b-c), Task(d)""#, Some(vec!["a", "b-c", "d"])),
            (r#"["Agent(a)", "Agent"]"#, None),
            (r#"["Agent()"]"#, None),
            (r#"["Agent(*)"]"#, None),
            (r#"["*"]"#, None),
            (r#"["Read", "Bash(git log, x)"]"#, None),
            ("null", None),
        ] {
            let json = format!(r#"{{"description": "", "prompt": "", "tools": {tools}}}"#);
            let spec: AgentSpec = serde_json::from_str(&json).unwrap();
            assert_eq!(
                parse_launchable(&spec),
                kinds.map(|kinds| kinds.into_iter().map(str::to_owned).collect()),
                "{tools}"
            );
        }
    }

    #[test]
    fn only_names_that_nobody_knows_are_remarked_on() {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let spec = AgentSpec {
            tools: Some(owned(&["Read", "Grepp", "*", "Task", "Bash(git log:*)"])),
            disallowed_tools: owned(&["Bsah", "mcp__gone__*", "Web*", "Zzz*", "KillShell"]),
            effort: Some("max".to_owned()),
            ..AgentSpec::default()
        };
        let said = agent_remarks(&[("x".to_owned(), spec)]);
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(said[0].contains("'Grepp' in tools") && said[0].ends_with("did you mean Grep?"), "{said:?}");
        assert!(said[1].contains("'Bsah' in disallowedTools") && said[2].contains("'Zzz*'"), "{said:?}");
    }

    #[test]
    fn an_effort_that_no_model_has_is_remarked_on() {
        let of = |effort: &str| AgentSpec { effort: Some(effort.to_owned()), ..AgentSpec::default() };
        let said = agent_remarks(&[("x".to_owned(), of("30")), ("y".to_owned(), of("low"))]);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains("'x' has the effort '30', without effect: it can be low, "), "{said:?}");
    }
}
