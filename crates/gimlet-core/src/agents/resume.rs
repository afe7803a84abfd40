//! Resuming an agent that has ended: it keeps its conversation, tools, mode and model.
//!
//! Everything comes from its transcript and the description beside it, so that it does not matter which run launched
//! it.

use std::sync::Arc;

use gimlet_policy::{Decision, DecisionContext, NeedFacts, ProposedCall};
use gimlet_proto::{AccessNeed, AgentPath, SubmittedPrompt, ToolUseId, effort_from_env};
use gimlet_store::{AgentMeta, KnownAgent, LoadOptions, MAX_HISTORY, keep_newest_images};
use gimlet_text::SendableImage;
use serde_json::{Map, Value};

use super::identity::{AgentIdentity, AgentUsageMeter, RequestedMode};
use super::launch::{self, LaunchOutcome};
use super::messages::{self, MessageDelivery, MessageRecipient};
use super::roster::AgentKind;
use super::spawn::{PriorConversation, SpawnPlan};
use super::tool_selection::{self, ToolSelectionContext};
use crate::call::CallScope;
use crate::model_selection::{LiveModelSelection, ModelSelection};
use crate::tool::{AgentAvailability, ToolContext, ToolError, ToolSet};

/// Name in rules of the tool that launches agents.
pub(crate) const LAUNCHER: &str = "Agent";

/// Resumes an agent with a message. Of several messages one resumes it; the others are delivered to the running agent.
pub(super) async fn resume_agent(
    scope: &Arc<CallScope>,
    cx: &ToolContext,
    to: &str,
    said: SubmittedPrompt,
    text: String,
) -> Result<MessageDelivery, ToolError> {
    let one_at_a_time = scope.agent_runtime.resuming.lock().await;
    let receiver = messages::find_recipient(scope, to).await?;
    if let Some(task) = &receiver.task {
        if let Some((id, path)) = messages::agent_address(task)
            && let Some(sent) = messages::post_message(scope, id, path, &said)
        {
            return sent;
        }
        task.wait_gone().await;
    }
    let agent = check_resumable(scope, to, &receiver)?;
    let lineage = AgentLineage::for_agent(scope, agent, &receiver.known)?;
    check_relaunch_allowed(scope, &lineage.kind)?;
    let outset = plan_resume(scope, agent, lineage, said, text).await?;
    let prepared = outset.prepare_agent(scope, cx);
    // From here on the agent is found running.
    drop(one_at_a_time);
    prepared.run_or_detach(cx).await.map(|launched| match launched {
        LaunchOutcome::Finished(report) => MessageDelivery::Answered(report),
        LaunchOutcome::InBackground { id, output_file, .. } => MessageDelivery::Resumed { id, output_file },
    })
}

/// Checks that this agent may be resumed by this sender.
fn check_resumable<'a>(
    scope: &CallScope,
    to: &str,
    receiver: &'a MessageRecipient,
) -> Result<&'a KnownAgent, ToolError> {
    let stopped = receiver.task.as_ref().is_some_and(|task| task.was_stopped_by_user());
    let Some(agent) = &receiver.kept else {
        return Err(ToolError::failed(format!(
            "Agent `{to}` has ended, and its conversation was not kept. Launch a new one and tell it what it needs to know."
        )));
    };
    messages::refuse_reassigned_name(scope, to, &agent.id, Some(&agent.meta.description))?;
    if stopped || agent.meta.stopped_by_user {
        return Err(ToolError::failed(format!(
            "The user stopped agent {} and does not want it to go on. Do not launch another one for the same task \
             unless the user asks for it.",
            agent.id
        )));
    }
    if agent.meta.agent_type.is_empty() || agent.meta.worktree_path.is_some() {
        return Err(ToolError::failed(format!(
            "Agent {} cannot go on: it worked in a tree of its own, or nothing is known of its type. Launch a new one.",
            agent.id
        )));
    }
    if scope.agent_runtime.roster().is_one_shot(&agent.meta.agent_type) {
        return Err(ToolError::failed(format!(
            "Agents of the type {} work once, and {} has ended. Launch a new one.",
            agent.meta.agent_type, agent.id
        )));
    }
    if let Some(who) = &scope.subagent {
        let own = ancestors(agent, &receiver.known).any(|above| above.id == who.id);
        if who.is_in_background() || !own {
            return Err(ToolError::failed(format!(
                "Agent {} has ended, and only whoever sent it can set it going again. Write to main if that is needed.",
                agent.id
            )));
        }
    }
    Ok(agent)
}

/// Refuses to resume an agent of a kind whose launch needs a question. A message cannot ask that question, but the
/// call that launches a new agent can. Nor does a message resume a kind that its sender may not launch.
fn check_relaunch_allowed(scope: &CallScope, kind: &AgentKind) -> Result<(), ToolError> {
    let rules = scope.gate.rules();
    let roster = scope.agent_runtime.roster_for(scope.subagent.as_deref());
    roster.find_kind(Some(&kind.name), &rules).map_err(ToolError::input)?;
    let launcher = scope.tools.iter().find(|tool| tool.agent_availability() == AgentAvailability::ToLaunchOthers);
    let input = Map::from_iter([("subagent_type".to_owned(), Value::from(kind.name.as_str()))]);
    let call = ProposedCall {
        // Rules also apply to a sender that cannot call the tool.
        tool: launcher.map_or(LAUNCHER, |tool| tool.name()),
        also_named: launcher.map_or(&[], |tool| tool.also_named()),
        input: Some(&input),
        needs: &[NeedFacts::new(AccessNeed::Session, None)],
        needs_person: false,
    };
    let world = DecisionContext { mode: scope.gate.mode_for(scope), ..DecisionContext::default() };
    match gimlet_policy::decide(&call, &rules, &world).decision {
        Decision::Allow => Ok(()),
        _ => {
            let instead = launcher.map(|tool| format!(" Launch a new one with {}.", tool.name())).unwrap_or_default();
            Err(ToolError::failed(format!(
                "Agents of the type {} are not sent without asking, and a message cannot ask.{instead}",
                kind.name
            )))
        }
    }
}

/// Returns the ancestors of an agent, the nearest first.
fn ancestors<'a>(agent: &'a KnownAgent, known: &'a [KnownAgent]) -> impl Iterator<Item = &'a KnownAgent> {
    let above = |agent: &&'a KnownAgent| {
        let parent = agent.meta.parent_agent_id.as_deref()?;
        known.iter().find(|other| other.id == parent)
    };
    // Descriptions are files that any program can write: a cycle in them must not cause an endless loop.
    std::iter::successors(Some(agent), above).skip(1).take(known.len())
}

/// All agents from the main conversation down to one agent, with the limits that each adds.
struct AgentLineage {
    kind: Arc<AgentKind>,
    path: AgentPath,
    sender: Option<Arc<AgentIdentity>>,
    /// Tools that are left for the agent's sender.
    tools: ToolSet,
}

impl AgentLineage {
    fn for_agent(scope: &CallScope, agent: &KnownAgent, known: &[KnownAgent]) -> Result<Self, ToolError> {
        let above: Vec<&KnownAgent> = ancestors(agent, known).collect();
        let top = above.last().copied().unwrap_or(agent);
        if top.meta.parent_agent_id.is_some() {
            let id = &agent.id;
            return Err(ToolError::failed(format!(
                "Agent {id} cannot go on: nothing is known any more of who sent it. Launch a new one."
            )));
        }
        let rules = scope.gate.rules();
        let roster = scope.agent_runtime.roster();
        let kind_of = |meta: &AgentMeta| roster.find_kind(Some(&meta.agent_type), &rules);
        let (mut path, mut sender, mut tools) = (AgentPath::default(), None, scope.tools.clone());
        for one in above.into_iter().rev() {
            let kind = kind_of(&one.meta).map_err(ToolError::input)?;
            // Tools that the sender of this call already lacks stay unavailable; the others are removed here.
            let circumstances = ToolSelectionContext { background: false, may_launch: true };
            tools = tool_selection::select_tools(&kind.name, &kind.spec, &tools, circumstances)?;
            path.0.push(ToolUseId::new(one.meta.tool_use_id.as_str()));
            sender = Some(Arc::new(AgentIdentity {
                id: one.id.clone(),
                kind: kind.name.clone(),
                depth: one.meta.spawn_depth,
                in_background: false.into(),
                mode: RequestedMode { mode: kind.spec.permission_mode, source: kind.source },
                loads_memory: kind.loads_memory(),
                sender,
                meter: AgentUsageMeter::default(),
            }));
        }
        path.0.push(ToolUseId::new(agent.meta.tool_use_id.as_str()));
        let kind = kind_of(&agent.meta).map_err(ToolError::input)?;
        launch::refuse_isolation(&kind)?;
        Ok(Self { kind, path, sender, tools })
    }
}

/// Decides everything about the agent before it continues.
async fn plan_resume(
    scope: &CallScope,
    agent: &KnownAgent,
    lineage: AgentLineage,
    said: SubmittedPrompt,
    text: String,
) -> Result<SpawnPlan, ToolError> {
    let host = &scope.agent_runtime;
    let AgentLineage { kind, path, sender, tools } = lineage;
    let slot = host.acquire_slot()?;
    let background = !host.limits.foreground_only;
    let circumstances = ToolSelectionContext { background, may_launch: agent.meta.spawn_depth < host.limits.depth };
    let tools = tool_selection::select_tools(&kind.name, &kind.spec, &tools, circumstances)?;
    let model_selection = resumed_model_selection(scope, &kind, agent.meta.model.clone())?;
    let window = model_selection.facts(&model_selection.model(scope.gate.mode())).context_window;
    let past = load_prior_conversation(scope, &agent.id, window).await?;
    Ok(SpawnPlan {
        id: agent.id.clone(),
        kind,
        description: agent.meta.description.clone(),
        said,
        prompt: text,
        name: agent.meta.name.clone(),
        path,
        past: Some(past),
        depth: agent.meta.spawn_depth,
        background,
        sender,
        tools,
        model_selection,
        slot,
    })
}

/// Returns the model selection that the agent had.
fn resumed_model_selection(
    scope: &CallScope,
    kind: &AgentKind,
    model: Option<String>,
) -> Result<LiveModelSelection, ToolError> {
    let now = scope.model_selection.current();
    let model_selection = scope.model_selection.for_agent(ModelSelection {
        model: now.model,
        thinking: now.thinking,
        display: now.display,
        effort: effort_from_env(scope.services.env()).or(kind.spec.effort.as_deref()).map(str::to_owned).or(now.effort),
    });
    if let Some(model) = model {
        model_selection.set_model(Some(model)).map_err(ToolError::failed)?;
    }
    Ok(model_selection)
}

async fn load_prior_conversation(scope: &CallScope, id: &str, window: u64) -> Result<PriorConversation, ToolError> {
    let (transcripts, owned) = (scope.agent_runtime.transcripts.clone(), id.to_owned());
    let options = LoadOptions { max_bytes: Some(MAX_HISTORY), ..LoadOptions::default() };
    let loaded = tokio::task::spawn_blocking(move || transcripts.resume(&owned, &options)).await;
    let unreadable = |why: &dyn std::fmt::Display| {
        ToolError::failed(format!("The conversation of agent {id} cannot be taken up again: {why}. Launch a new one."))
    };
    match loaded {
        Ok(Ok(Some((transcript, mut loaded)))) => {
            keep_newest_images(&mut loaded.messages, SendableImage::max_count_for_window(window));
            Ok(PriorConversation {
                transcript,
                history: loaded.messages.into_iter().map(Arc::new).collect(),
                outputs: loaded.outputs,
                frozen: loaded.frozen,
                context_parts: loaded.context_parts,
                user_words: loaded.user_words,
            })
        }
        Ok(Ok(None)) => Err(unreadable(&"nothing of this session is kept")),
        Ok(Err(error)) => Err(unreadable(&error)),
        Err(error) => Err(unreadable(&error)),
    }
}
