//! The handshake: the host's initialize request and the response to it.

use std::collections::BTreeMap;
use std::time::Duration;

use gimlet_proto::{AgentSummary, CommandInfo, CommandKind, DriverHook, ModelInfo, SessionChanges, SessionFacts};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::host_lines::{HostLine, parse_lossy};
use super::truncate;

/// Marker between the static and the dynamic part in a list of prompt blocks; gimlet separates the two itself.
const DYNAMIC_BOUNDARY: &str = "__SYSTEM_PROMPT_DYNAMIC_BOUNDARY__";

/// Contents of an initialize request. Everything here takes precedence over the flags.
#[derive(Clone, Debug, Default)]
pub struct InitializeRequest {
    /// Hooks to register; `None` when the request does not mention hooks.
    pub hooks: Option<Vec<DriverHook>>,
    /// Error in the hooks. A hook that is silently left out is a guard that is off.
    pub hooks_problem: Option<String>,
    /// Agent definitions by name.
    pub agents: Option<Box<RawValue>>,
    pub system_prompt: Option<String>,
    pub append_system_prompt: Option<String>,
    pub json_schema: Option<Box<RawValue>>,
    /// Names of the only skills to be offered.
    pub skills: Option<Vec<String>>,
    /// MCP servers inside the host.
    pub sdk_mcp_servers: Vec<String>,
    /// Additional configuration of those servers, by name.
    pub sdk_mcp_server_configs: Map<String, Value>,
    pub forward_subagent_text: Option<bool>,
    pub title: Option<String>,
    /// Additional instructions for the model when plan mode begins.
    pub plan_mode_instructions: Option<String>,
    /// Tools that are called instead of others, by the other's name.
    pub tool_aliases: Option<BTreeMap<String, String>>,
    /// True if a resumed session keeps the system prompt that it began with.
    pub system_prompt_snapshot: Option<bool>,
    /// True if the host lets its user stop single tasks.
    pub per_task_stop: Option<bool>,
    /// Plugins beside those of flags.
    pub plugins: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HostHookMatcher {
    matcher: Option<String>,
    #[serde(default)]
    hook_callback_ids: Vec<String>,
    /// Timeout in seconds.
    timeout: Option<f64>,
    on_failure: Option<String>,
}

impl InitializeRequest {
    /// Parses a line; `None` if it is not an `initialize` request.
    pub fn from_line(line: &HostLine) -> Option<Self> {
        if line.kind()? != "control_request" {
            return None;
        }
        let request = super::control_requests::parse_request(line)?;
        (request.text("subtype")? == "initialize").then(|| Self::from_request(&request))
    }

    /// Parses the request. A member of the wrong type counts as absent, except for hooks.
    pub(super) fn from_request(request: &HostLine) -> Self {
        let not_null = |name: &str| request.raw(name).filter(|raw| raw.get() != "null").map(ToOwned::to_owned);
        let (hooks, hooks_problem) = match not_null("hooks").map(|hooks| parse_hooks(&parse_value(&hooks))) {
            None => (None, None),
            Some(Ok(hooks)) => (Some(hooks), None),
            Some(Err(problem)) => (None, Some(problem)),
        };
        Self {
            hooks,
            hooks_problem,
            agents: not_null("agents"),
            system_prompt: request.raw("systemPrompt").and_then(parse_prompt_text),
            append_system_prompt: request.text("appendSystemPrompt"),
            json_schema: not_null("jsonSchema"),
            skills: request.get("skills"),
            sdk_mcp_servers: request.get("sdkMcpServers").unwrap_or_default(),
            sdk_mcp_server_configs: request.get("sdkMcpServerConfigs").unwrap_or_default(),
            forward_subagent_text: request.get("forwardSubagentText"),
            title: request.text("title").filter(|title| !title.trim().is_empty()),
            plan_mode_instructions: request.text("planModeInstructions").filter(|text| !text.trim().is_empty()),
            tool_aliases: request.get("toolAliases"),
            system_prompt_snapshot: request.get("systemPromptSnapshot"),
            per_task_stop: request.get("perTaskStopAffordance"),
            plugins: request.get("plugins").unwrap_or_default(),
        }
    }

    /// Checks the hooks; an error for those that cannot be parsed, or that `check` refuses.
    pub fn check_hooks(&self, check: impl FnOnce(&[DriverHook]) -> Result<(), String>) -> Result<(), String> {
        match &self.hooks_problem {
            Some(problem) => Err(problem.clone()),
            None => check(self.hooks.as_deref().unwrap_or_default()),
        }
    }

    /// Returns what the request changes of the session.
    pub fn session_changes(&self) -> SessionChanges {
        SessionChanges {
            system_prompt: self.system_prompt.clone(),
            append_system_prompt: self.append_system_prompt.clone(),
            keeps_system_prompt: self.system_prompt_snapshot,
            plan_instructions: self.plan_mode_instructions.clone(),
            tool_aliases: self.tool_aliases.clone(),
            title: self.title.clone(),
            output_schema: self.json_schema.as_ref().map(|schema| schema.get().to_owned()),
            agents: self.agents.as_ref().map(|agents| agents.get().to_owned()),
            plugins: self.plugins.clone(),
        }
    }

    /// Returns the requested members that a session has from its start and that differ from what it was opened with.
    /// Once a prompt was sent, empty members ask for nothing; before that, one can replace a default or a flag.
    pub(super) fn fixed_members(&self, opened_with: &Self, begun: bool) -> Vec<&'static str> {
        let members = |wishes: &Self| {
            [
                ("systemPrompt", wishes.system_prompt.clone().map(Value::from)),
                ("appendSystemPrompt", wishes.append_system_prompt.clone().map(Value::from)),
                ("jsonSchema", wishes.json_schema.as_deref().map(parse_value)),
                ("planModeInstructions", wishes.plan_mode_instructions.clone().map(Value::from)),
                ("toolAliases", wishes.tool_aliases.as_ref().map(|aliases| json!(aliases))),
                ("systemPromptSnapshot", wishes.system_prompt_snapshot.map(Value::from)),
                ("plugins", Some(&wishes.plugins).filter(|list| !list.is_empty()).map(|list| json!(list))),
            ]
        };
        let agents = self.has_new_agents(opened_with).then_some("agents");
        let pairs = members(self).into_iter().zip(members(opened_with));
        let asks_for_nothing = |now: &Value, then: &Option<Value>| begun && then.is_none() && is_empty_value(now);
        let differs = |now: &Value, then: &Option<Value>| then.as_ref() != Some(now) && !asks_for_nothing(now, then);
        let others = pairs.filter_map(|((name, now), (_, then))| differs(&now?, &then).then_some(name));
        agents.into_iter().chain(others).collect()
    }

    /// Returns true if the request defines an agent that the session does not have or has with another definition.
    fn has_new_agents(&self, opened_with: &Self) -> bool {
        let defined = |wishes: &Self| wishes.agents.as_deref().map(parse_value);
        match (defined(self), defined(opened_with)) {
            (Some(Value::Object(now)), Some(Value::Object(then))) => {
                now.iter().any(|(name, agent)| then.get(name) != Some(agent))
            }
            (Some(Value::Object(now)), None) => !now.is_empty(),
            (now, then) => now.is_some() && now != then,
        }
    }

    /// Merges two requests; the later one takes precedence, member by member and agent by agent.
    pub(super) fn merge(self, later: Self) -> Self {
        let mut sdk_mcp_servers = self.sdk_mcp_servers;
        sdk_mcp_servers.extend(later.sdk_mcp_servers);
        let mut sdk_mcp_server_configs = self.sdk_mcp_server_configs;
        sdk_mcp_server_configs.extend(later.sdk_mcp_server_configs);
        Self {
            hooks: later.hooks.or(self.hooks),
            hooks_problem: later.hooks_problem.or(self.hooks_problem),
            agents: merge_objects(self.agents, later.agents),
            system_prompt: later.system_prompt.or(self.system_prompt),
            append_system_prompt: later.append_system_prompt.or(self.append_system_prompt),
            json_schema: later.json_schema.or(self.json_schema),
            skills: later.skills.or(self.skills),
            sdk_mcp_servers,
            sdk_mcp_server_configs,
            forward_subagent_text: later.forward_subagent_text.or(self.forward_subagent_text),
            title: later.title.or(self.title),
            plan_mode_instructions: later.plan_mode_instructions.or(self.plan_mode_instructions),
            tool_aliases: later.tool_aliases.or(self.tool_aliases),
            system_prompt_snapshot: later.system_prompt_snapshot.or(self.system_prompt_snapshot),
            per_task_stop: later.per_task_stop.or(self.per_task_stop),
            plugins: if later.plugins.is_empty() { self.plugins } else { later.plugins },
        }
    }
}

fn parse_value(raw: &RawValue) -> Value {
    parse_lossy(raw).unwrap_or_default()
}

fn is_empty_value(value: &Value) -> bool {
    value.as_str().is_some_and(str::is_empty) || value.as_object().is_some_and(Map::is_empty)
}

/// Merges two objects. A value that is not an object replaces the other, so that its parser reports the error.
fn merge_objects(first: Option<Box<RawValue>>, second: Option<Box<RawValue>>) -> Option<Box<RawValue>> {
    match (first.as_deref().map(parse_value), second.as_deref().map(parse_value)) {
        (Some(Value::Object(mut all)), Some(Value::Object(more))) => {
            all.extend(more);
            serde_json::value::to_raw_value(&all).ok()
        }
        _ => second.or(first),
    }
}

fn parse_prompt_text(raw: &RawValue) -> Option<String> {
    let blocks = parse_lossy::<Vec<String>>(raw).or_else(|| parse_lossy::<String>(raw).map(|text| vec![text]))?;
    let blocks: Vec<&str> = blocks.iter().map(String::as_str).filter(|block| *block != DYNAMIC_BOUNDARY).collect();
    Some(blocks.join("\n\n"))
}

/// Parses the hooks of a request; returns the problem if they are invalid.
fn parse_hooks(hooks: &Value) -> Result<Vec<DriverHook>, String> {
    let mut all = Vec::new();
    for (event, matchers) in hooks.as_object().ok_or("hooks: this is no object of events")? {
        for matcher in matchers.as_array().ok_or_else(|| format!("hooks.{event}: this is not a list of matchers"))? {
            let matcher = HostHookMatcher::deserialize(matcher).map_err(|error| format!("hooks.{event}: {error}"))?;
            all.push(DriverHook {
                event: event.clone(),
                matcher: matcher.matcher.filter(|text| !text.is_empty()),
                callbacks: matcher.hook_callback_ids.iter().map(|id| id.as_str().into()).collect(),
                timeout: matcher.timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
                // An unknown value counts as blocking, which is the safer choice.
                blocks_on_failure: matcher.on_failure.map(|way| way != "continue"),
            });
        }
    }
    Ok(all)
}

/// Model that the host may choose.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ModelCard {
    /// Value to request: an alias or an id.
    pub value: String,
    pub display_name: String,
    pub description: String,
    pub resolved_model: String,
    pub supports_effort: bool,
    pub supported_effort_levels: Vec<String>,
    pub supports_adaptive_thinking: bool,
}

/// Subagent that the model may call.
#[derive(Clone, Debug, Serialize)]
pub(super) struct AgentCard {
    pub name: String,
    pub description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

fn agent_card(offer: &AgentSummary) -> AgentCard {
    AgentCard { name: offer.name.clone(), description: offer.description.clone(), model: offer.model.clone() }
}

fn model_card(offer: &ModelInfo) -> ModelCard {
    ModelCard {
        value: offer.alias.clone(),
        display_name: offer.id.clone(),
        description: format!("The model that '{}' stands for", offer.alias),
        resolved_model: offer.id.clone(),
        supports_effort: !offer.efforts.is_empty(),
        supported_effort_levels: offer.efforts.clone(),
        supports_adaptive_thinking: offer.adaptive,
    }
}

/// Facts about the session in the response to the host.
#[derive(Clone, Debug, Default)]
pub(super) struct InitializeResponse {
    pub agents: Vec<AgentCard>,
    pub output_style: String,
    pub output_styles: Vec<String>,
    pub models: Vec<ModelCard>,
}

impl InitializeResponse {
    pub(super) fn from_facts(facts: &SessionFacts) -> Self {
        Self {
            agents: facts.agents.iter().map(agent_card).collect(),
            output_style: facts.output_style.clone(),
            output_styles: facts.output_styles.clone(),
            models: facts.models.iter().map(model_card).collect(),
        }
    }

    /// Renders the answer to `initialize`.
    pub(super) fn to_json(&self, wishes: &InitializeRequest, commands: &[CommandInfo]) -> Value {
        let mut response = json!({
            "commands": render_commands(commands),
            "agents": self.agents,
            "output_style": self.output_style,
            "available_output_styles": self.output_styles,
            "models": self.models,
            "account": {},
            "hook_on_failure_supported": true,
            "claude_code_version": gimlet_proto::COMPAT_VERSION,
        });
        if wishes.hooks.is_some() {
            response["hooks_applied"] = json!(true);
        }
        if !wishes.plugins.is_empty() {
            response["plugins_applied"] = json!(true);
        }
        response
    }
}

/// Renders the commands that can be typed.
pub(super) fn render_commands(commands: &[CommandInfo]) -> Value {
    let render = |command: &CommandInfo| {
        json!({
            "name": command.name,
            "description": command.description,
            "argumentHint": command.argument_hint,
            "aliases": command.aliases,
            "builtin": command.kind != CommandKind::Prompt,
        })
    };
    commands.iter().map(render).collect()
}

/// Renders the whole line: the answer and the open questions. Questions that do not fit into it follow as separate
/// requests.
pub(super) fn initialize_lines<'a>(
    id: &Value,
    response: &Value,
    open: impl Iterator<Item = &'a str>,
) -> (String, Vec<String>) {
    let mut pending: Vec<Value> = open.filter_map(|line| serde_json::from_str(line).ok()).collect();
    let mut left = Vec::new();
    loop {
        let line = json!({"type": "control_response", "response": {
            "subtype": "success", "request_id": id, "response": response,
            "pending_permission_requests": pending, "pending_user_dialog_requests": []}})
        .to_string();
        // A question is shown whole or not at all.
        if line.len() < truncate::MAX_LINE {
            return (line, left);
        }
        match pending.pop() {
            Some(question) => left.push(question.to_string()),
            None => return (truncate::truncate_line(line), left),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_initialize(request: Value) -> InitializeRequest {
        let line = json!({"type": "control_request", "request_id": "r", "request": request});
        InitializeRequest::from_line(&HostLine::from_members(serde_json::from_value(line).unwrap())).unwrap()
    }

    #[test]
    fn hooks_keep_what_was_said_about_them() {
        let hooks = parse_initialize(json!({"subtype": "initialize", "hooks": {
            "PreToolUse": [
                {"matcher": "Bash", "hookCallbackIds": ["hook_0", "hook_1"], "timeout": 1.5, "onFailure": "block"},
                {"matcher": null, "hookCallbackIds": ["hook_2"], "onFailure": "continue"}],
            "Unheard": [{"hookCallbackIds": ["hook_3"]}]}}))
        .hooks
        .unwrap();
        let find =
            |callback: &str| hooks.iter().find(|hook| hook.callbacks.iter().any(|id| &**id == callback)).unwrap();
        assert_eq!(find("hook_1").matcher.as_deref(), Some("Bash"));
        assert_eq!(find("hook_1").timeout, Some(Duration::from_millis(1500)));
        let blocks = ["hook_1", "hook_2", "hook_3"].map(|id| find(id).blocks_on_failure);
        assert_eq!(blocks, [Some(true), Some(false), None]);
        assert_eq!((find("hook_2").matcher.as_deref(), find("hook_3").event.as_str()), (None, "Unheard"));
        assert_eq!(parse_initialize(json!({"subtype": "initialize", "hooks": null})).hooks, None);
    }

    #[test]
    fn hooks_that_cannot_be_read_are_a_problem() {
        let problem = |hooks: Value| parse_initialize(json!({"subtype": "initialize", "hooks": hooks})).hooks_problem;
        for (hooks, part) in [
            (
                json!({"PreToolUse": [{"matcher": "Bash", "hookCallbackIds": ["h"], "timeout": "5"}]}),
                "hooks.PreToolUse: ",
            ),
            (json!({"PreToolUse": [{"hookCallbackIds": "h"}]}), "hooks.PreToolUse: "),
            (json!({"Stop": {"hookCallbackIds": ["h"]}}), "hooks.Stop: this is not a list"),
            (json!(["h"]), "this is no object"),
        ] {
            assert!(problem(hooks.clone()).unwrap().contains(part), "{hooks}");
        }
        assert_eq!((problem(Value::Null), problem(json!({})), problem(json!({"Unheard": []}))), (None, None, None));
    }

    #[test]
    fn members_are_optional_and_invalid_ones_count_as_absent() {
        let few =
            parse_initialize(json!({"subtype": "initialize", "agents": null, "title": 7, "skills": "all", "x": 1}));
        assert!(few.agents.is_none() && few.title.is_none() && few.skills.is_none());
        let many = parse_initialize(json!({"subtype": "initialize", "systemPrompt": ["a", DYNAMIC_BOUNDARY, "b"],
            "appendSystemPrompt": "c", "jsonSchema": {"type": "object"}, "sdkMcpServers": ["calc"],
            "forwardSubagentText": true}));
        assert_eq!(many.system_prompt.as_deref(), Some("a\n\nb"));
        assert_eq!(many.append_system_prompt.as_deref(), Some("c"));
        assert_eq!(many.json_schema.unwrap().get(), r#"{"type":"object"}"#);
        assert_eq!((many.sdk_mcp_servers, many.forward_subagent_text), (vec!["calc".to_owned()], Some(true)));
    }

    #[test]
    fn questions_that_do_not_fit_into_the_greeting_follow_it() {
        let question =
            |n: usize| json!({"request_id": n.to_string(), "input": "x".repeat(truncate::MAX_INPUT)}).to_string();
        let open = [question(0), question(1), json!({"request_id": "2"}).to_string()];
        let (line, left) = initialize_lines(&json!("r"), &json!({}), open.iter().map(String::as_str));
        let line: Value = serde_json::from_str(&line).unwrap();
        let inside = line["response"]["pending_permission_requests"].as_array().unwrap().len();
        assert_eq!((inside, left.len()), (1, 2));
        assert!(left.iter().all(|line| line.len() < truncate::MAX_LINE));
    }

    #[test]
    fn other_lines_are_no_handshake() {
        for line in [
            json!({"type": "user"}),
            json!({"type": "control_request", "request": {"subtype": "interrupt"}}),
            json!({"type": "control_request"}),
            json!({}),
        ] {
            assert!(
                InitializeRequest::from_line(&HostLine::from_members(serde_json::from_value(line).unwrap())).is_none()
            );
        }
    }
}
