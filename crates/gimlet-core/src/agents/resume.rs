//! An agent that has ended and is spoken to again: the same agent, with its own conversation, tools, mode and model.
//!
//! Everything comes from its transcript and the description beside it, so that it does not matter which run sent it.

use std::sync::Arc;

use gimlet_policy::{Call, Decision, NeedFacts, World};
use gimlet_proto::{AgentPath, Need, Picture, Say, ToolUseId, effort_of};
use gimlet_store::{AgentMeta, KnownAgent, LoadOptions, MAX_HISTORY, keep_newest_pictures};
use serde_json::{Map, Value};

use super::identity::{AgentIdentity, Meter, WantedMode};
use super::launch::{self, Launched};
use super::letters::{self, Receiver, Sent};
use super::outset::{Outset, Past};
use super::roster::AgentKind;
use super::toolbox::{self, Circumstances};
use crate::call::CallScope;
use crate::dials::{Choice, Dials};
use crate::tool::{ForAgents, ToolContext, ToolError, ToolSet};

/// What rules call the tool that sends agents.
pub(crate) const LAUNCHER: &str = "Agent";

/// Sets an agent going again with what is said to it. One of several letters does; the others find it at work.
pub(super) async fn resume(
    scope: &Arc<CallScope>,
    cx: &ToolContext,
    to: &str,
    said: Say,
    text: String,
) -> Result<Sent, ToolError> {
    let one_at_a_time = scope.host.resuming.lock().await;
    let receiver = letters::find(scope, to).await?;
    if let Some(task) = &receiver.task {
        if let Some((id, path)) = letters::address(task)
            && let Some(sent) = letters::post(scope, id, path, &said)
        {
            return sent;
        }
        task.over().await;
    }
    let agent = may_go_on(scope, to, &receiver)?;
    let lineage = Lineage::of(scope, agent, &receiver.known)?;
    may_be_sent_again(scope, lineage.kind)?;
    let outset = decide(scope, agent, lineage, said, text).await?;
    let prepared = outset.prepare(scope, cx);
    // From here on it is found at work.
    drop(one_at_a_time);
    prepared.go(cx).await.map(|launched| match launched {
        Launched::Finished(report) => Sent::Answered(report),
        Launched::GoesOn { id, output_file, .. } => Sent::Resumed { id, output_file },
    })
}

/// Whether this agent may be set going again, and by whoever asks.
fn may_go_on<'a>(scope: &CallScope, to: &str, receiver: &'a Receiver) -> Result<&'a KnownAgent, ToolError> {
    let stopped = receiver.task.as_ref().is_some_and(|task| task.was_stopped_by_user());
    let Some(agent) = &receiver.kept else {
        return Err(ToolError::failed(format!(
            "Agent `{to}` has ended, and its conversation was not kept. Launch a new one and tell it what it needs to know."
        )));
    };
    letters::refuse_another(scope, to, &agent.id, Some(&agent.meta.description))?;
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
    if scope.host.roster.is_one_shot(&agent.meta.agent_type) {
        return Err(ToolError::failed(format!(
            "Agents of the type {} work once, and {} has ended. Launch a new one.",
            agent.meta.agent_type, agent.id
        )));
    }
    if let Some(who) = &scope.subagent {
        let own = ancestors(agent, &receiver.known).any(|above| above.id == who.id);
        if who.is_alone() || !own {
            return Err(ToolError::failed(format!(
                "Agent {} has ended, and only whoever sent it can set it going again. Write to main if that is needed.",
                agent.id
            )));
        }
    }
    Ok(agent)
}

/// Whoever wants to be asked before an agent of this kind is sent must not find it at work unasked. A letter cannot ask
/// that question, but the call that sends a new one can. Nor does a letter send a kind that its writer may not choose.
fn may_be_sent_again(scope: &CallScope, kind: &AgentKind) -> Result<(), ToolError> {
    let rules = scope.gate.rules();
    let roster = scope.host.roster_of(scope.subagent.as_deref());
    roster.find(Some(&kind.name), &rules).map_err(ToolError::input)?;
    let launcher = scope.tools.iter().find(|tool| tool.for_agents() == ForAgents::ToLaunchOthers);
    let input = Map::from_iter([("subagent_type".to_owned(), Value::from(kind.name.as_str()))]);
    let call = Call {
        // Rules hold for whoever cannot call the tool as well.
        tool: launcher.map_or(LAUNCHER, |tool| tool.name()),
        also_named: launcher.map_or(&[], |tool| tool.also_named()),
        input: Some(&input),
        needs: &[NeedFacts::new(Need::Session, None)],
        needs_person: false,
    };
    let world = World { mode: scope.gate.mode_of(scope), ..World::default() };
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

/// The agents above one, the nearest first.
fn ancestors<'a>(agent: &'a KnownAgent, known: &'a [KnownAgent]) -> impl Iterator<Item = &'a KnownAgent> {
    let above = |agent: &&'a KnownAgent| {
        let parent = agent.meta.parent_agent_id.as_deref()?;
        known.iter().find(|other| other.id == parent)
    };
    // Descriptions are files that anybody can write: a circle in them must not be followed for ever.
    std::iter::successors(Some(agent), above).skip(1).take(known.len())
}

/// Everyone from the main conversation down to an agent, and what each of them makes of what comes from above.
struct Lineage<'a> {
    kind: &'a AgentKind,
    path: AgentPath,
    sender: Option<Arc<AgentIdentity>>,
    /// What is left of the tools for whoever sends the agent.
    tools: ToolSet,
}

impl<'a> Lineage<'a> {
    fn of(scope: &'a CallScope, agent: &KnownAgent, known: &[KnownAgent]) -> Result<Self, ToolError> {
        let above: Vec<&KnownAgent> = ancestors(agent, known).collect();
        let top = above.last().copied().unwrap_or(agent);
        if top.meta.parent_agent_id.is_some() {
            let id = &agent.id;
            return Err(ToolError::failed(format!(
                "Agent {id} cannot go on: nothing is known any more of who sent it. Launch a new one."
            )));
        }
        let rules = scope.gate.rules();
        let kind_of = |meta: &AgentMeta| scope.host.roster.find(Some(&meta.agent_type), &rules);
        let (mut path, mut sender, mut tools) = (AgentPath::default(), None, scope.tools.clone());
        for one in above.into_iter().rev() {
            let kind = kind_of(&one.meta).map_err(ToolError::input)?;
            // Tools that the sender of this call has already lost stay lost; the others are taken away here.
            let circumstances = Circumstances { background: false, may_launch: true };
            tools = toolbox::choose(&kind.name, &kind.spec, &tools, circumstances)?;
            path.0.push(ToolUseId::new(one.meta.tool_use_id.as_str()));
            sender = Some(Arc::new(AgentIdentity {
                id: one.id.clone(),
                kind: kind.name.clone(),
                depth: one.meta.spawn_depth,
                alone: false.into(),
                mode: WantedMode { mode: kind.spec.permission_mode, source: kind.source },
                sender,
                meter: Meter::default(),
            }));
        }
        path.0.push(ToolUseId::new(agent.meta.tool_use_id.as_str()));
        let kind = kind_of(&agent.meta).map_err(ToolError::input)?;
        launch::refuse_isolation(kind)?;
        Ok(Self { kind, path, sender, tools })
    }
}

/// What is settled about the agent before it goes on.
async fn decide<'a>(
    scope: &'a CallScope,
    agent: &KnownAgent,
    lineage: Lineage<'a>,
    said: Say,
    text: String,
) -> Result<Outset<'a>, ToolError> {
    let host = &scope.host;
    let Lineage { kind, path, sender, tools } = lineage;
    let slot = host.slot()?;
    let background = !host.limits.foreground_only;
    let circumstances = Circumstances { background, may_launch: agent.meta.spawn_depth < host.limits.depth };
    let tools = toolbox::choose(&kind.name, &kind.spec, &tools, circumstances)?;
    let dials = dials(scope, kind, agent.meta.model.clone())?;
    let window = host.facts(&dials.model(scope.gate.mode())).context_window;
    let past = load(scope, &agent.id, window).await?;
    Ok(Outset {
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
        dials,
        slot,
    })
}

/// It goes on with the model that it had.
fn dials(scope: &CallScope, kind: &AgentKind, model: Option<String>) -> Result<Dials, ToolError> {
    let now = scope.dials.now();
    let dials = Dials::new(Choice {
        model: now.model,
        thinking: now.thinking,
        display: now.display,
        effort: effort_of(&scope.services.env).or(kind.spec.effort.as_deref()).map(str::to_owned).or(now.effort),
    });
    if let Some(model) = model {
        dials.set_model(Some(model)).map_err(ToolError::failed)?;
    }
    Ok(dials)
}

async fn load(scope: &CallScope, id: &str, window: u64) -> Result<Past, ToolError> {
    let (transcripts, owned) = (scope.host.transcripts.clone(), id.to_owned());
    let options = LoadOptions { max_bytes: Some(MAX_HISTORY), ..LoadOptions::default() };
    let loaded = tokio::task::spawn_blocking(move || transcripts.resume(&owned, &options)).await;
    let unreadable = |why: &dyn std::fmt::Display| {
        ToolError::failed(format!("The conversation of agent {id} cannot be taken up again: {why}. Launch a new one."))
    };
    match loaded {
        Ok(Ok(Some((transcript, mut loaded)))) => {
            keep_newest_pictures(&mut loaded.messages, Picture::most_in(window));
            let history = loaded.messages.into_iter().map(Arc::new).collect();
            Ok(Past { transcript, history, outputs: loaded.outputs })
        }
        Ok(Ok(None)) => Err(unreadable(&"nothing of this session is kept")),
        Ok(Err(error)) => Err(unreadable(&error)),
        Err(error) => Err(unreadable(&error)),
    }
}
