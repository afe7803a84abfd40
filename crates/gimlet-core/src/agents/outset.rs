//! The beginning of a subagent: from what was settled about it to a conversation that is ready to speak.

use std::sync::Arc;

use gimlet_proto::{AgentPath, Body, Level, Message, Notice, Say, ToolUseId};
use gimlet_store::{AgentMeta, ToolOutputs, Transcript};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::identity::{AgentIdentity, Meter, WantedMode};
use super::roster::AgentKind;
use super::running::{Errand, Running};
use crate::call::CallScope;
use crate::conversation::Conversation;
use crate::dials::Dials;
use crate::past::PastCalls;
use crate::record::Record;
use crate::steering::Steering;
use crate::tasks::{AgentTask, NewTask, Stop};
use crate::tool::{PromptContext, ToolContext, ToolSet};
use crate::turn::{Turn, TurnOptions};

/// What is settled about a subagent before anything of it exists.
pub(super) struct Outset<'a> {
    pub(super) id: String,
    pub(super) kind: &'a AgentKind,
    pub(super) description: String,
    /// What it is told first.
    pub(super) said: Say,
    /// The same in plain words, for people.
    pub(super) prompt: String,
    pub(super) name: Option<String>,
    /// The calls that lead to it; the last one sent it.
    pub(super) path: AgentPath,
    /// The conversation that it goes on with; `None` for a new agent.
    pub(super) past: Option<Past>,
    pub(super) depth: u32,
    /// Nobody waits for it.
    pub(super) background: bool,
    pub(super) sender: Option<Arc<AgentIdentity>>,
    pub(super) tools: ToolSet,
    pub(super) dials: Dials,
    /// Its place among those that run.
    pub(super) slot: OwnedSemaphorePermit,
}

/// A conversation that ended and goes on.
pub(super) struct Past {
    pub(super) transcript: Transcript,
    pub(super) history: Vec<Arc<Message>>,
    /// What the calls in it gave back.
    pub(super) outputs: ToolOutputs,
}

/// A subagent that is about to go.
pub(super) struct Prepared {
    pub(super) identity: Arc<AgentIdentity>,
    /// The model's id.
    pub(super) model: String,
    pub(super) errand: Errand,
    pub(super) running: Running,
}

impl Outset<'_> {
    /// Makes everything that the agent works with, and enters it among the session's tasks.
    pub(super) fn prepare(mut self, sender: &CallScope, cx: &ToolContext) -> Prepared {
        let (past, said) = (self.past.take(), std::mem::take(&mut self.said));
        let identity = Arc::new(self.identity());
        // Not a child of the call's: somebody may want it to go on after that. Whoever waits passes an interrupt on.
        let cancel = CancellationToken::new();
        let known = past.as_ref().map(|past| PastCalls::new(past.history.clone(), past.outputs.clone()));
        let scope = Arc::new(self.scope(sender, cx, identity.clone(), cancel, known.unwrap_or_default()));
        tell_missing(&scope, self.kind);
        let model = scope.host.model.facts(&scope.model()).id;
        let conversation = self.conversation(&scope, &model, past);
        let turn = self.turn(&scope);
        let errand = Errand { conversation, turn, said };
        let running = self.enlist(cx, &errand.turn);
        Prepared { identity, model, errand, running }
    }

    fn identity(&self) -> AgentIdentity {
        AgentIdentity {
            id: self.id.clone(),
            kind: self.kind.name.clone(),
            depth: self.depth,
            alone: self.background.into(),
            mode: WantedMode { mode: self.kind.spec.permission_mode, source: self.kind.source },
            sender: self.sender.clone(),
            meter: Meter::default(),
        }
    }

    /// What its calls come into.
    fn scope(
        &self,
        sender: &CallScope,
        cx: &ToolContext,
        identity: Arc<AgentIdentity>,
        cancel: CancellationToken,
        past: PastCalls,
    ) -> CallScope {
        let results_dir = sender.host.result_files.of_agent(&self.id).dir().to_owned();
        CallScope {
            services: Arc::new(cx.services.for_agent(results_dir).with_past(past)),
            tools: self.tools.clone(),
            gate: sender.gate.clone(),
            cancel,
            agent: self.path.clone(),
            subagent: Some(identity),
            dials: self.dials.clone(),
            host: sender.host.clone(),
        }
    }

    /// Its conversation: a new one with a record of its own, or one that goes on.
    fn conversation(&self, scope: &CallScope, model: &str, past: Option<Past>) -> Conversation {
        let host = &scope.host;
        let (transcript, history) = match past {
            Some(past) => (past.transcript, past.history),
            None => (self.begin_record(scope, model), Vec::new()),
        };
        let system = [self.kind.spec.prompt.clone(), surroundings(scope, model)];
        let system: Vec<String> = system.into_iter().filter(|text| !text.trim().is_empty()).collect();
        let tools = crate::context::tool_defs(&self.tools, &self.prompt_context(scope));
        Conversation::new(Record::new(transcript), system.into(), tools, history, host.cache_ttl)
            .with_ledger(host.ledger.sharing())
    }

    fn begin_record(&self, scope: &CallScope, model: &str) -> Transcript {
        let meta = AgentMeta {
            agent_type: self.kind.name.clone(),
            description: self.description.clone(),
            tool_use_id: self.call().to_owned(),
            spawn_depth: self.depth,
            parent_agent_id: self.sender.as_ref().map(|who| who.id.clone()),
            model: Some(model.to_owned()),
            name: self.name.clone(),
            ..AgentMeta::default()
        };
        let (transcript, described) = scope.host.transcripts.create(&self.id, &meta);
        if let Err(error) = described {
            warn(scope, format!("the description of agent {} could not be written: {error}", self.id));
        }
        transcript
    }

    /// The id of the call that sent it.
    fn call(&self) -> &str {
        self.path.parent_tool_use().map_or("", ToolUseId::as_str)
    }

    fn prompt_context(&self, scope: &CallScope) -> PromptContext {
        let env = scope.services.env.clone();
        PromptContext {
            tools: self.tools.offered().map(|tool| tool.name().to_owned()).collect(),
            background: !self.background && !env.flag("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS"),
            sandbox: scope.services.walls().now().map(|sandboxing| sandboxing.may_leave),
            agents: scope.gate.offers(&scope.host.roster),
            env,
        }
    }

    fn turn(&self, scope: &Arc<CallScope>) -> Turn {
        let host = &scope.host;
        let max_turns = self.kind.spec.max_turns;
        Turn {
            model: host.model.clone(),
            dials: self.dials.clone(),
            scope: scope.clone(),
            options: TurnOptions { max_turns, wire_events: false, ..host.options.clone() },
            steering: Steering::default(),
            items: host.items.clone(),
            result_files: host.result_files.of_agent(&self.id),
            output: None,
        }
    }

    /// Enters it among the session's tasks; from here on it is said to have begun.
    fn enlist(self, cx: &ToolContext, turn: &Turn) -> Running {
        let ended = CancellationToken::new();
        let task = cx.services.tasks.add(NewTask {
            kind: "local_agent",
            description: self.description,
            command: None,
            call: self.path.parent_tool_use().cloned(),
            owner: cx.agent.clone(),
            output_file: turn.scope.host.result_files.report_path(&self.id),
            id: Some(self.id),
            agent: Some(AgentTask {
                subagent_type: self.kind.name.clone(),
                prompt: self.prompt,
                depth: self.depth,
                name: self.name,
                path: self.path.clone(),
            }),
            backgrounded: self.background,
            stop: stop(turn.scope.cancel.clone(), ended.clone()),
        });
        Running::begin(task, cx.services.lasting(), self.path, &turn.steering, ended, self.slot)
    }
}

fn stop(cancel: CancellationToken, ended: CancellationToken) -> Stop {
    Box::new(move || {
        cancel.cancel();
        let ended = ended.clone();
        Box::pin(async move { ended.cancelled().await })
    })
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
