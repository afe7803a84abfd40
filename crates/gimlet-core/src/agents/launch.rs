//! Sending a subagent: whether it may go, what it takes along, and who waits for it.

use std::path::PathBuf;
use std::sync::Arc;

use gimlet_proto::{AgentPath, Body, Level, Notice, Say, Usage};
use gimlet_store::AgentMeta;
use tokio_util::sync::CancellationToken;

use super::identity::{AgentIdentity, Meter, WantedMode};
use super::roster::AgentKind;
use super::running::{Errand, Running};
use super::toolbox::{self, Circumstances};
use crate::call::CallScope;
use crate::conversation::Conversation;
use crate::dials::{Choice, Dials};
use crate::record::Record;
use crate::steering::Steering;
use crate::tasks::{AgentTask, NewTask, Stop};
use crate::tool::{PromptContext, ToolContext, ToolError, ToolSet};
use crate::turn::{Turn, TurnOptions};

/// What somebody wants done.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// Which kind of agent; `None` for the general one.
    pub kind: Option<String>,
    /// A few words for people.
    pub description: String,
    pub prompt: String,
    pub model: Option<String>,
    pub effort: Option<String>,
    /// Whether anybody waits; `None` leaves it to the definition.
    pub background: Option<bool>,
    /// A name for its record.
    pub name: Option<String>,
}

/// A subagent that was sent.
#[derive(Debug)]
pub enum Launched {
    /// It is back.
    Finished(Box<AgentReport>),
    /// It goes on by itself; its report comes as a notice.
    GoesOn { id: String, model: String, output_file: PathBuf },
}

/// What a subagent brought back.
#[derive(Debug)]
pub struct AgentReport {
    pub id: String,
    pub kind: String,
    /// The model's id.
    pub model: String,
    /// Its last words, cut to size and made harmless.
    pub text: String,
    /// Why they are not the end of its work, if they are not.
    pub incomplete: Option<String>,
    pub tool_uses: u64,
    pub duration_ms: u64,
    pub total_tokens: u64,
    pub usage: Usage,
}

impl ToolContext {
    /// Sends a subagent from this call and, unless it goes to the background, waits for its report.
    pub async fn launch(&self, launch: Launch) -> Result<Launched, ToolError> {
        let Some(scope) = &self.scope else {
            return Err(ToolError::failed("No agent can be launched outside a session."));
        };
        let prepared = prepare(scope, self, launch)?;
        if prepared.identity.background {
            let launched = Launched::GoesOn {
                id: prepared.identity.id.clone(),
                model: prepared.model.clone(),
                output_file: prepared.running.task().output_file.clone(),
            };
            self.services.spawn(prepared.errand.run_alone(prepared.running));
            return Ok(launched);
        }
        prepared.errand.run(prepared.running).await.map(|report| Launched::Finished(Box::new(report)))
    }
}

/// A subagent that is about to go.
struct Prepared {
    identity: Arc<AgentIdentity>,
    model: String,
    errand: Errand,
    running: Running,
}

fn prepare(scope: &Arc<CallScope>, cx: &ToolContext, launch: Launch) -> Result<Prepared, ToolError> {
    let host = &scope.host;
    let rules = scope.gate.rules();
    let kind = host.roster.find(launch.kind.as_deref(), &rules).map_err(ToolError::input)?;
    let depth = scope.subagent.as_ref().map_or(0, |who| who.depth) + 1;
    if depth > host.limits.depth {
        return Err(ToolError::failed(format!(
            "Agents may be nested {} deep, and this would be one more. Do not try again: do the work yourself.",
            host.limits.depth
        )));
    }
    let background = !host.limits.foreground_only
        && scope.subagent.as_ref().is_none_or(|who| !who.background)
        && launch.background.or(kind.spec.background).unwrap_or(false);
    let slot = host.slot()?;
    let may_launch = depth < host.limits.depth;
    let tools = toolbox::choose(&kind.name, &kind.spec, &scope.tools, Circumstances { background, may_launch })?;
    let dials = dials(scope, kind, &launch)?;
    let facts = host.model.facts(&dials.model());

    let id = new_id();
    let mut agent = cx.agent.clone();
    agent.0.push(cx.call.clone());
    let files = host.result_files.of_agent(&id);
    let services = Arc::new(cx.services.for_agent(files.dir().to_owned()));
    let identity = Arc::new(AgentIdentity {
        id: id.clone(),
        kind: kind.name.clone(),
        depth,
        background,
        mode: WantedMode { mode: kind.spec.permission_mode, source: kind.source },
        sender: scope.subagent.clone(),
        meter: Meter::default(),
    });
    let cancel = if background { CancellationToken::new() } else { cx.cancel.child_token() };
    let child = Arc::new(CallScope {
        services,
        tools: tools.clone(),
        gate: scope.gate.clone(),
        cancel: cancel.clone(),
        agent: agent.clone(),
        subagent: Some(identity.clone()),
        dials: dials.clone(),
        host: host.clone(),
    });
    tell_missing(&child, kind);

    let parent_agent_id = scope.subagent.as_ref().map(|who| who.id.clone());
    let meta = AgentMeta {
        agent_type: kind.name.clone(),
        description: launch.description.clone(),
        tool_use_id: cx.call.to_string(),
        spawn_depth: depth,
        parent_agent_id,
        model: Some(facts.id.clone()),
        name: launch.name.clone(),
        worktree_path: None,
    };
    let (transcript, described) = host.transcripts.create(&id, &meta);
    if let Err(error) = described {
        warn(&child, format!("the description of agent {id} could not be written: {error}"));
    }
    let system = [kind.spec.prompt.clone(), surroundings(&child, &facts.id)];
    let system: Vec<String> = system.into_iter().filter(|text| !text.trim().is_empty()).collect();
    let conversation = Conversation::new(
        Record::new(transcript),
        system.into(),
        crate::context::tool_defs(&tools, &prompt_context(&child, &tools, background)),
        Vec::new(),
        host.cache_ttl,
    )
    .with_ledger(host.ledger.sharing());
    let steering = Steering::default();
    let turn = Turn {
        model: host.model.clone(),
        dials,
        scope: child.clone(),
        options: TurnOptions { max_turns: kind.spec.max_turns, wire_events: false, ..host.options.clone() },
        steering: steering.clone(),
        items: host.items.clone(),
        result_files: files,
        output: None,
    };

    let ended = CancellationToken::new();
    let task = cx.services.tasks.add(NewTask {
        id: Some(id.clone()),
        kind: "local_agent",
        description: launch.description.clone(),
        command: None,
        call: Some(cx.call.clone()),
        owner: cx.agent.clone(),
        output_file: host.result_files.report_path(&id),
        agent: Some(AgentTask {
            subagent_type: kind.name.clone(),
            prompt: launch.prompt.clone(),
            depth,
            backgrounded: background,
        }),
        stop: stop(cancel, ended.clone()),
    });
    let running = Running::begin(task, cx.services.lasting(), agent, &steering, ended, slot);
    let said = Say { blocks: vec![gimlet_proto::Block::text(&launch.prompt)], plain: true, ..Say::default() };
    let errand = Errand { conversation, turn, said };
    Ok(Prepared { identity, model: facts.id, errand, running })
}

/// A token that is not met twice in a session.
fn new_id() -> String {
    let random = uuid::Uuid::new_v4().simple().to_string();
    format!("a{}", &random[..16])
}

fn stop(cancel: CancellationToken, ended: CancellationToken) -> Stop {
    Box::new(move || {
        cancel.cancel();
        let ended = ended.clone();
        Box::pin(async move { ended.cancelled().await })
    })
}

/// Which model it is to be: the environment, the call, the definition, and else that of whoever sends it.
fn dials(scope: &CallScope, kind: &AgentKind, launch: &Launch) -> Result<Dials, ToolError> {
    let inherited = scope.dials.now();
    let named = |model: &&str| !model.trim().is_empty() && *model != "inherit";
    let env = scope.services.env.get("CLAUDE_CODE_SUBAGENT_MODEL").filter(named);
    let wanted = env.or(launch.model.as_deref()).or(kind.spec.model.as_deref()).filter(named);
    let effort = launch.effort.clone().or_else(|| kind.spec.effort.clone()).or(inherited.effort);
    let dials = Dials::new(Choice { model: inherited.model, thinking: inherited.thinking, effort });
    if let Some(model) = wanted {
        dials.set_model(Some(model.to_owned())).map_err(ToolError::input)?;
    }
    Ok(dials)
}

fn prompt_context(scope: &CallScope, tools: &ToolSet, background: bool) -> PromptContext {
    let env = scope.services.env.clone();
    PromptContext {
        tools: tools.offered().map(|tool| tool.name().to_owned()).collect(),
        background: !background && !env.flag("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS"),
        sandbox: scope.services.walls().now().map(|sandboxing| sandboxing.may_leave),
        agents: scope.gate.offers(&scope.host.roster),
        env,
    }
}

/// The facts of this place, and what is different for an agent.
fn surroundings(scope: &CallScope, model: &str) -> String {
    let facts = crate::context::environment(scope, model);
    format!(
        "{facts}\n\nYou work for another agent, who sees nothing but your last message. Every command starts in the \
         working directory above, wherever the one before it went: use absolute paths."
    )
}

/// A definition that asks for what gimlet does not have yet must not look as if it got it.
fn tell_missing(scope: &CallScope, kind: &AgentKind) {
    let spec = &kind.spec;
    let missing: Vec<&str> = [
        ("skills", !spec.skills.is_empty()),
        ("mcpServers", spec.mcp_servers.is_some()),
        ("memory", spec.memory.is_some()),
    ]
    .into_iter()
    .filter_map(|(member, given)| given.then_some(member))
    .collect();
    if !missing.is_empty() {
        warn(scope, format!("the agent type {} asks for {}, which is not available", kind.name, missing.join(", ")));
    }
}

fn warn(scope: &CallScope, text: String) {
    scope.services.publish(&AgentPath::default(), Body::Notice(Notice { level: Level::Warning, text }));
}
