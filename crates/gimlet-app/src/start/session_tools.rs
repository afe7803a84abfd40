//! The tools of a session, its answer schema, and the subagent types that its flags define.

use std::sync::Arc;

use gimlet_core::tool::{AnyTool, PromptContext, ToolSet, nearest_name};
use gimlet_core::{AgentRoster, OutputSchema};
use gimlet_policy::{RuleSet, is_tool_removed};
use gimlet_proto::{AgentSpec, AgentSummary, Env};

use super::LaunchOptions;
use super::main_agent::{self, MainAgentChoice};
use super::session_agents::DefinedAgents;
use crate::launch_error::LaunchError;
use crate::launch_request::{CustomizationLevel, LaunchRequest};

/// Tools of a bare session that names none.
const BARE_TOOLS: [&str; 3] = ["Bash", "Read", "Edit"];

/// Tools of a session.
pub(super) struct SessionTools {
    pub(super) tools: ToolSet,
    /// Schema of the answer.
    pub(super) output: Option<Arc<OutputSchema>>,
    /// Subagent types that the caller defines.
    pub(super) agents: Vec<(String, AgentSpec)>,
    /// All subagent types, without their hooks.
    roster: AgentRoster,
    /// The only types that the main conversation may start; `None` for all.
    may_launch: Option<Vec<String>>,
}

impl SessionTools {
    pub(super) fn build(
        role: &MainAgentChoice,
        manner: &LaunchOptions,
        agents: DefinedAgents,
        env: &Env,
        rules: &RuleSet,
    ) -> Result<Self, LaunchError> {
        let DefinedAgents { caller, roster } = agents;
        let request = &role.request;
        let tools = select_tools(role, env, rules)?;
        let tools = if manner.attended { tools } else { tools.for_unattended() };
        let tools = tools.with_substitutes(request.tools.aliases.clone());
        let output = parse_output_schema(request, env)?;
        let tools = output.iter().fold(tools, |tools, output| tools.with(output.tool()));
        Ok(Self { tools, output, agents: caller, roster, may_launch: role.launchable_kinds() })
    }

    /// Returns the subagent types that no rule denies.
    pub(super) fn offered_agents(&self, rules: &RuleSet) -> Vec<AgentSummary> {
        self.roster.offered_kinds(rules)
    }

    /// Returns the context that tool descriptions depend on. `may_leave` is about the sandbox, where there is one.
    pub(super) fn prompt_context(&self, env: &Env, rules: &RuleSet, may_leave: Option<bool>) -> PromptContext {
        PromptContext {
            env: env.clone(),
            tools: self.tools.offered().map(|tool| tool.name().to_owned()).collect(),
            agents: self.roster.clone().restricted_to(self.may_launch.as_deref()).offered_kinds(rules),
            background: !env.flag("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS"),
            sandbox: may_leave,
        }
    }
}

/// Checks the answer schema and the subagent types that flags define.
pub fn check_schema_and_agents(request: &LaunchRequest, env: &Env) -> Result<(), LaunchError> {
    parse_output_schema(request, env)?;
    main_agent::parse_agents(request).map(drop)
}

pub(super) const NOT_A_FILE: &str = "Give the JSON itself, not a file";

/// Returns true if a file name was given where JSON is expected.
pub(super) fn is_file_name(given: &str) -> bool {
    !given.trim_start().starts_with(['{', '[', '"'])
}

/// Parses the schema of the answer.
fn parse_output_schema(request: &LaunchRequest, env: &Env) -> Result<Option<Arc<OutputSchema>>, LaunchError> {
    let Some(schema) = &request.output.schema else { return Ok(None) };
    OutputSchema::parse(&schema.text, env).map(Some).map_err(|error| {
        if schema.is_from_host() {
            return LaunchError::new(format!("the jsonSchema of initialize cannot be used: {error}"));
        }
        let report = LaunchError::new(format!("--json-schema: {error}"));
        if is_file_name(&schema.text) { report.with_hint(NOT_A_FILE) } else { report }
    })
}

fn select_tools(role: &MainAgentChoice, env: &Env, rules: &RuleSet) -> Result<ToolSet, LaunchError> {
    let all: Vec<&'static dyn AnyTool> =
        gimlet_tools::builtin().into_iter().filter(|tool| tool.is_enabled(env)).collect();
    let wanted = parse_tools_flag(&role.request, &all)?;
    let kept = all.into_iter().filter(|tool| {
        wanted.as_ref().is_none_or(|wanted| wanted.iter().any(|name| name == tool.name()))
            && !is_tool_removed(rules, tool.name(), &[])
            && role.has_tool(tool.name(), &[], tool.aliases())
    });
    Ok(ToolSet::new(kept))
}

/// Parses the tools named by `--tools`; `None` for all.
fn parse_tools_flag(request: &LaunchRequest, all: &[&'static dyn AnyTool]) -> Result<Option<Vec<String>>, LaunchError> {
    let Some(lists) = &request.tools.offered else {
        let is_bare = request.settings.customization == CustomizationLevel::Bare;
        return Ok(is_bare.then(|| BARE_TOOLS.map(str::to_owned).to_vec()));
    };
    let names = lists.iter().flat_map(|list| list.split([',', ' '])).filter(|name| !name.is_empty());
    let mut wanted = Vec::new();
    for name in names {
        if name == "default" {
            return Ok(None);
        }
        let Some(tool) = all.iter().find(|tool| tool.name() == name || tool.aliases().contains(&name)) else {
            if request.is_driven() {
                continue;
            }
            let report = LaunchError::new(format!("--tools: there is no tool named '{name}'"));
            return Err(match nearest_name(name, all.iter().map(|tool| tool.name())) {
                Some(close) => report.with_hint(format!("Did you mean {close}?")),
                None => {
                    let names: Vec<&str> = all.iter().map(|tool| tool.name()).collect();
                    report.with_hint(format!("Available: {}", names.join(", ")))
                }
            });
        };
        wanted.push(tool.name().to_owned());
    }
    Ok(Some(wanted))
}
