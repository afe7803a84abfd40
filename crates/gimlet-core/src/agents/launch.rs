//! Launching a subagent: checks, choice of kind and model, and waiting for it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use gimlet_proto::{Block, SubmittedPrompt, TokenUsage, effort_from_env};

use super::roster::AgentKind;
use super::spawn::{ReadyAgent, SpawnPlan};
use super::tool_selection::{self, ToolSelectionContext};
use crate::call::CallScope;
use crate::model_selection::{LiveModelSelection, ModelSelection};
use crate::tool::{ToolContext, ToolError};

/// A request to launch an agent.
#[derive(Clone, Debug, Default)]
pub struct AgentLaunch {
    /// Kind of agent; `None` for the general one.
    pub kind: Option<String>,
    /// Short description for the user.
    pub description: String,
    pub prompt: String,
    pub model: Option<String>,
    pub effort: Option<String>,
    /// True for an agent in the background; `None` leaves it to the definition.
    pub background: Option<bool>,
    /// Name by which messages can be sent to it.
    pub name: Option<String>,
}

/// Outcome of a launch.
#[derive(Debug)]
pub enum LaunchOutcome {
    /// The agent has ended.
    Finished(Box<AgentReport>),
    /// The agent continues in the background; its report comes as a notice.
    InBackground {
        id: String,
        model: String,
        output_file: PathBuf,
        /// True if the user moved it to the background.
        moved: bool,
    },
}

/// Report of a subagent.
#[derive(Debug)]
pub struct AgentReport {
    pub id: String,
    pub kind: String,
    /// The model's id.
    pub model: String,
    /// Its last message, truncated and neutralized.
    pub text: String,
    /// Reason why the work is incomplete, if it is.
    pub incomplete: Option<String>,
    /// True if messages can resume it.
    pub resumable: bool,
    pub tool_uses: u64,
    pub duration_ms: u64,
    pub total_tokens: u64,
    pub usage: TokenUsage,
}

impl ToolContext {
    /// Launches a subagent from this call and, unless it runs in the background, waits for its report.
    pub async fn launch_agent(&self, launch: AgentLaunch) -> Result<LaunchOutcome, ToolError> {
        let Some(scope) = &self.scope else {
            return Err(ToolError::failed("No agent can be launched outside a session."));
        };
        plan_spawn(scope, self, launch)?.prepare_agent(scope, self).run_or_detach(self).await
    }
}

impl ReadyAgent {
    /// Starts the agent and, unless it runs in the background, waits for it.
    pub(super) async fn run_or_detach(self, cx: &ToolContext) -> Result<LaunchOutcome, ToolError> {
        let ReadyAgent { identity, model, agent_run, running } = self;
        let (task, cancel) = (running.task().clone(), agent_run.cancel_token().clone());
        let on_its_way = |moved| {
            let (id, output_file) = (task.id.clone(), task.output_file.clone());
            Ok(LaunchOutcome::InBackground { id, model, output_file, moved })
        };
        if identity.is_in_background() {
            cx.services.spawn(async move { agent_run.run(running).await.notify_sender() });
            return on_its_way(false);
        }
        let moving = cx.allow_backgrounding();
        let mut work = Box::pin(agent_run.run(running));
        loop {
            tokio::select! {
                biased;
                over = &mut work => return over.into_result().map(|report| LaunchOutcome::Finished(Box::new(report))),
                () = cx.cancel.cancelled(), if !cancel.is_cancelled() => cancel.cancel(),
                () = moving.wait_for_request() => {
                    identity.in_background.store(true, Ordering::Relaxed);
                    task.move_to_background();
                    cx.services.publish_task_change(&task, None);
                    cx.services.spawn(async move { work.await.notify_sender() });
                    return on_its_way(true);
                }
            }
        }
    }
}

/// Decides everything about an agent before any of it is created. The plan holds its slot among the running agents.
fn plan_spawn(scope: &Arc<CallScope>, cx: &ToolContext, launch: AgentLaunch) -> Result<SpawnPlan, ToolError> {
    let host = &scope.agent_runtime;
    if let Some(name) = launch.name.as_deref() {
        check_agent_name(name)?;
    }
    let roster = host.roster_for(scope.subagent.as_deref());
    let kind = roster.find_kind(launch.kind.as_deref(), &scope.gate.rules()).map_err(ToolError::input)?;
    refuse_isolation(&kind)?;
    let depth = child_depth(scope)?;
    let background = !host.limits.foreground_only
        && scope.subagent.as_ref().is_none_or(|who| !who.is_in_background())
        && launch.background.or(kind.spec.background).unwrap_or(false);
    let slot = host.acquire_slot()?;
    let circumstances = ToolSelectionContext { background, may_launch: depth < host.limits.depth };
    let tools = tool_selection::select_tools(&kind.name, &kind.spec, &scope.tools, circumstances)?;
    let model_selection = select_model(scope, &kind, &launch)?;
    let mut path = cx.agent.clone();
    path.0.push(cx.call.clone());
    let AgentLaunch { description, prompt, name, .. } = launch;
    let sender = scope.subagent.clone();
    Ok(SpawnPlan {
        id: new_agent_id(),
        kind,
        description,
        said: SubmittedPrompt { blocks: vec![Block::text(&prompt)], plain: true, ..SubmittedPrompt::default() },
        prompt,
        name,
        path,
        past: None,
        depth,
        background,
        sender,
        tools,
        model_selection,
        slot,
    })
}

/// Checks that a name cannot be mistaken for another recipient.
fn check_agent_name(name: &str) -> Result<(), ToolError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if name == super::messages::MAIN {
        return Err(ToolError::input("`name` cannot be `main`: that is the main conversation"));
    }
    if name.is_empty() || name.len() > 64 || !name.chars().all(is_plain) {
        return Err(ToolError::input("`name` has 1 to 64 letters, digits, dots, dashes and underscores"));
    }
    Ok(())
}

/// Refuses a definition that asks for isolation, so that its agents do not work on the shared files instead.
pub(super) fn refuse_isolation(kind: &AgentKind) -> Result<(), ToolError> {
    let Some(isolation) = &kind.spec.isolation else { return Ok(()) };
    Err(ToolError::failed(format!(
        "The agent type {} wants `isolation: {isolation}`, which is not available, so it cannot be launched. Use another type.",
        kind.name
    )))
}

/// Returns the depth of an agent launched from here. Fails if that is too deep.
pub(super) fn child_depth(scope: &CallScope) -> Result<u32, ToolError> {
    let depth = scope.subagent.as_ref().map_or(0, |who| who.depth) + 1;
    let deepest = scope.agent_runtime.limits.depth;
    if depth <= deepest {
        return Ok(depth);
    }
    Err(ToolError::failed(format!(
        "Agents may be nested {deepest} deep, and this would be one more. Do not try again: do the work yourself."
    )))
}

/// Returns a token that is unique in a session.
pub(super) fn new_agent_id() -> String {
    let random = uuid::Uuid::new_v4().simple().to_string();
    format!("a{}", &random[..16])
}

/// Selects the model and its effort: from the environment, the call, the definition, or else the sender.
fn select_model(scope: &CallScope, kind: &AgentKind, launch: &AgentLaunch) -> Result<LiveModelSelection, ToolError> {
    let inherited = scope.model_selection.current();
    let named = |model: &&str| !model.trim().is_empty() && *model != "inherit";
    let env = scope.services.env().get("CLAUDE_CODE_SUBAGENT_MODEL").filter(named);
    let wanted = env.or(launch.model.as_deref()).or(kind.spec.model.as_deref()).filter(named);
    let chosen = effort_from_env(scope.services.env()).or(launch.effort.as_deref()).or(kind.spec.effort.as_deref());
    let effort = chosen.map(str::to_owned).or_else(|| inherited.effort.clone());
    let model_selection = scope.model_selection.for_agent(ModelSelection { effort, ..inherited });
    if let Some(model) = wanted {
        model_selection.set_model(Some(model.to_owned())).map_err(ToolError::input)?;
    }
    Ok(model_selection)
}
