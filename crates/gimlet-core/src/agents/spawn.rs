//! Start of a subagent: from its plan to a conversation that is ready to run.

use std::sync::Arc;

use gimlet_proto::{AgentPath, EventBody, Message, Notice, NoticeLevel, SubmittedPrompt, ToolUseId};
use gimlet_store::{AgentMeta, FrozenPrefix, SegmentContextPart, ToolOutputs, Transcript};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::agent_run::{AgentRun, AgentTaskGuard};
use super::identity::{AgentIdentity, AgentUsageMeter, RequestedMode};
use super::roster::AgentKind;
use super::tool_selection;
use crate::call::CallScope;
use crate::context_usage::ContextGauge;
use crate::conversation::{Conversation, ConversationSegment, PromptSegment};
use crate::model_selection::LiveModelSelection;
use crate::past_calls::PastCalls;
use crate::record::ConversationRecord;
use crate::skills::TurnGrants;
use crate::steering::SteeringQueue;
use crate::tasks::{AgentTask, NewTask, TaskStopFn};
use crate::tool::{PromptContext, ToolContext, ToolSet};
use crate::turn::{Turn, TurnOptions};

/// Decisions about a subagent before any of it exists.
pub(super) struct SpawnPlan {
    pub(super) id: String,
    pub(super) kind: Arc<AgentKind>,
    pub(super) description: String,
    /// First prompt of the agent.
    pub(super) said: SubmittedPrompt,
    /// Plain text of the prompt, for display.
    pub(super) prompt: String,
    pub(super) name: Option<String>,
    /// The calls that lead to it; the last one launched it.
    pub(super) path: AgentPath,
    /// Conversation that it continues; `None` for a new agent.
    pub(super) past: Option<PriorConversation>,
    pub(super) depth: u32,
    /// True if it runs in the background.
    pub(super) background: bool,
    pub(super) sender: Option<Arc<AgentIdentity>>,
    pub(super) tools: ToolSet,
    pub(super) model_selection: LiveModelSelection,
    /// Its slot among the running agents.
    pub(super) slot: OwnedSemaphorePermit,
}

/// An ended conversation that is continued.
pub(super) struct PriorConversation {
    pub(super) transcript: Transcript,
    pub(super) history: Vec<Arc<Message>>,
    /// Outputs of the calls in it.
    pub(super) outputs: ToolOutputs,
    /// Beginning of its requests, if it was recorded.
    pub(super) frozen: Option<FrozenPrefix>,
    /// Parts of the context that are among the messages.
    pub(super) context_parts: Vec<SegmentContextPart>,
    /// What it was told in its own words so far.
    pub(super) user_words: Vec<String>,
}

/// A subagent that is ready to run.
pub(super) struct ReadyAgent {
    pub(super) identity: Arc<AgentIdentity>,
    /// The model's id.
    pub(super) model: String,
    pub(super) agent_run: AgentRun,
    pub(super) running: AgentTaskGuard,
}

impl SpawnPlan {
    /// Creates everything that the agent works with, and registers it among the session's tasks.
    pub(super) fn prepare_agent(mut self, sender: &CallScope, cx: &ToolContext) -> ReadyAgent {
        let (past, said) = (self.past.take(), std::mem::take(&mut self.said));
        let identity = Arc::new(self.build_identity());
        // Not a child of the call's token: the agent may have to outlive the call. A caller that waits passes an
        // interrupt on.
        let cancel = CancellationToken::new();
        let known = past.as_ref().map(|past| PastCalls::new(past.history.clone(), past.outputs.clone()));
        let scope = Arc::new(self.build_scope(sender, cx, identity.clone(), cancel, known.unwrap_or_default()));
        warn_unsupported_fields(&scope, &self.kind);
        if !self.kind.hooks.is_empty() {
            scope.services.hooks().add_agent_hooks(&self.id, self.kind.hooks.clone());
        }
        let model = scope.model_facts().id;
        let conversation = self.build_conversation(&scope, &model, past);
        let turn = self.build_turn(&scope);
        let agent_run = AgentRun { conversation, turn, said };
        let running = self.register_task(cx, &agent_run.turn);
        ReadyAgent { identity, model, agent_run, running }
    }

    fn build_identity(&self) -> AgentIdentity {
        AgentIdentity {
            id: self.id.clone(),
            kind: self.kind.name.clone(),
            depth: self.depth,
            in_background: self.background.into(),
            mode: RequestedMode { mode: self.kind.spec.permission_mode, source: self.kind.source },
            loads_memory: self.kind.loads_memory(),
            sender: self.sender.clone(),
            meter: AgentUsageMeter::default(),
        }
    }

    /// Builds the scope of its calls.
    fn build_scope(
        &self,
        sender: &CallScope,
        cx: &ToolContext,
        identity: Arc<AgentIdentity>,
        cancel: CancellationToken,
        past: PastCalls,
    ) -> CallScope {
        let results_dir = sender.agent_runtime.result_files.for_agent(&self.id).dir().to_owned();
        CallScope {
            services: Arc::new(cx.services.for_agent(results_dir, past)),
            tools: self.tools.clone(),
            gate: sender.gate.clone(),
            cancel,
            agent: self.path.clone(),
            subagent: Some(identity),
            model_selection: self.model_selection.clone(),
            agent_runtime: sender.agent_runtime.clone(),
            grants: TurnGrants::default(),
        }
    }

    /// Builds its conversation: a new one with its own transcript, or a continued one.
    fn build_conversation(&self, scope: &CallScope, model: &str, past: Option<PriorConversation>) -> Conversation {
        let host = &scope.agent_runtime;
        let (transcript, segment, user_words) = match past {
            None => {
                let prompt = self.render_prompt(scope, model);
                let segment = ConversationSegment::new(prompt, Vec::new(), ContextGauge::default());
                (self.begin_record(scope, model), segment, Vec::new())
            }
            Some(past) => {
                // Every byte is kept. A tool that it cannot have any more is refused when it is called.
                let prompt = past.frozen.and_then(|frozen| PromptSegment::from_frozen(&frozen));
                let prompt = prompt.unwrap_or_else(|| self.render_prompt(scope, model));
                let mut segment = ConversationSegment::new(prompt, past.history, ContextGauge::default());
                past.context_parts.into_iter().for_each(|part| segment.note_delivered(part));
                (past.transcript, segment, past.user_words)
            }
        };
        let record = ConversationRecord::new(transcript);
        let conversation = Conversation::new(record, segment, host.ledger.for_agent(&self.path), host.cache_ttl);
        Conversation { user_words, ..conversation }
    }

    /// Renders the beginning of its requests.
    fn render_prompt(&self, scope: &CallScope, model: &str) -> PromptSegment {
        let host = &scope.agent_runtime;
        let spec = &self.kind.spec;
        let memory = host.memory.describe(&self.kind.name, spec.memory.as_deref());
        let texts =
            [Some(spec.prompt.clone()), Some(agent_environment(scope, model)), memory, host.append_system.clone()];
        let system: Vec<String> = texts.into_iter().flatten().filter(|text| !text.trim().is_empty()).collect();
        let tools = crate::context::tool_defs(&self.tools, &self.prompt_context(scope));
        PromptSegment { system: system.into(), tools, context: None }
    }

    fn begin_record(&self, scope: &CallScope, model: &str) -> Transcript {
        let meta = AgentMeta {
            agent_type: self.kind.name.clone(),
            description: self.description.clone(),
            tool_use_id: self.call_id().to_owned(),
            spawn_depth: self.depth,
            parent_agent_id: self.sender.as_ref().map(|who| who.id.clone()),
            model: Some(model.to_owned()),
            name: self.name.clone(),
            ..AgentMeta::default()
        };
        let (transcript, described) = scope.agent_runtime.transcripts.create(&self.id, &meta);
        if let Err(error) = described {
            warn(scope, format!("the description of agent {} could not be written: {error}", self.id));
        }
        transcript
    }

    /// Returns the id of the call that launched it.
    fn call_id(&self) -> &str {
        self.path.parent_tool_use().map_or("", ToolUseId::as_str)
    }

    fn prompt_context(&self, scope: &CallScope) -> PromptContext {
        let env = scope.services.env().clone();
        PromptContext {
            tools: self.tools.offered().map(|tool| tool.name().to_owned()).collect(),
            background: !self.background && !env.flag("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS"),
            sandbox: scope.services.active_sandbox().current().map(|sandboxing| sandboxing.may_run_unsandboxed),
            agents: scope.gate.offered_agents(&scope.agent_runtime.roster()),
            env,
        }
    }

    fn build_turn(&self, scope: &Arc<CallScope>) -> Turn {
        let host = &scope.agent_runtime;
        let max_turns = self.kind.spec.max_turns.or_else(|| host.options.agent_max_turns());
        Turn {
            scope: scope.clone(),
            options: TurnOptions { max_turns, wire_events: false, ..host.options.clone() },
            steering: SteeringQueue::default(),
            result_files: host.result_files.for_agent(&self.id),
            output: None,
            commands: None,
            tool_source: None,
        }
    }

    /// Registers it among the session's tasks; its start is reported here.
    fn register_task(self, cx: &ToolContext, turn: &Turn) -> AgentTaskGuard {
        let ended = CancellationToken::new();
        let task = cx.services.tasks().add(NewTask {
            kind: "local_agent",
            description: self.description,
            command: None,
            call: self.path.parent_tool_use().cloned(),
            owner: cx.agent.clone(),
            output_file: turn.scope.agent_runtime.result_files.report_path(&self.id),
            id: Some(self.id),
            agent: Some(AgentTask {
                subagent_type: self.kind.name.clone(),
                prompt: self.prompt,
                depth: self.depth,
                name: self.name,
                path: self.path.clone(),
            }),
            backgrounded: self.background,
            stop: task_stop_fn(turn.scope.cancel.clone(), ended.clone()),
        });
        AgentTaskGuard::begin(task, cx.services.session_lifetime(), self.path, &turn.steering, ended, self.slot)
    }
}

fn task_stop_fn(cancel: CancellationToken, ended: CancellationToken) -> TaskStopFn {
    Box::new(move || {
        cancel.cancel();
        let ended = ended.clone();
        Box::pin(async move { ended.cancelled().await })
    })
}

/// Returns the description of the environment, with the differences for an agent.
fn agent_environment(scope: &CallScope, model: &str) -> String {
    let facts = crate::context::environment_block(scope, model);
    format!(
        "{facts}\n\nYou work for another agent, who sees nothing but your last message. Every command starts in the \
         working directory above, wherever the one before it went: use absolute paths."
    )
}

/// Warns about fields of a definition that gimlet does not support yet.
fn warn_unsupported_fields(scope: &CallScope, kind: &AgentKind) {
    let spec = &kind.spec;
    let missing: Vec<&str> = [
        ("skills", !spec.skills.is_empty()),
        ("servers of its own (mcpServers)", tool_selection::defines_servers(spec)),
    ]
    .into_iter()
    .filter_map(|(member, given)| given.then_some(member))
    .collect();
    if !missing.is_empty() {
        warn(scope, format!("the agent type {} asks for {}, which is not available", kind.name, missing.join(", ")));
    }
}

fn warn(scope: &CallScope, text: String) {
    scope.services.publish(&AgentPath::default(), EventBody::Notice(Notice { level: NoticeLevel::Warning, text }));
}
