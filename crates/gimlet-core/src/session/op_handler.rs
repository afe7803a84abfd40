//! Handler of operations, which are accepted at any time, and keeper of what is queued. It never touches the
//! conversation, so that it works while a turn runs.

use std::collections::VecDeque;
use std::sync::Arc;

use gimlet_proto::{
    AgentPath, Block, CompactedSegment, EntryId, EventBody, InterruptOutcome, Op, OpReply, PermissionMode,
    PromptOutcome, PromptTiming, SessionQuery, SubmittedPrompt, model_for_phase,
};
use gimlet_store::AgentTranscripts;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::queries::{self, HistorySource};
use crate::agents::deliver_user_message;
use crate::call::CallScope;
use crate::checkpoints;
use crate::commands::CommandResolver;
use crate::context_usage::ContextGauge;
use crate::gate::{AskRegistry, Gate};
use crate::hooks::{HookEvent, HookPayload, HookPermission, ModelSwitch};
use crate::services::SessionServices;
use crate::steering::SteeringQueue;
use crate::tasks::Task;
use crate::tool::ToolSource;

/// Result of an operation that the handler cannot complete by itself.
pub(super) enum TurnSignal {
    Prompt(SubmittedPrompt),
    /// Everything that runs is to stop.
    Interrupt,
    Close,
}

/// All state that operations change.
pub(super) struct OpHandler {
    /// Scope of what operations do in the main conversation, outside of any turn.
    pub(super) scope: Arc<CallScope>,
    pub(super) asks: AskRegistry,
    pub(super) steering: SteeringQueue,
    pub(super) gauge: ContextGauge,
    /// Source of external tools.
    pub(super) tool_source: Option<Arc<dyn ToolSource>>,
    /// Sources of the conversation's history.
    pub(super) history: HistorySource,
    pub(super) model_switches: ModelSwitchQueue,
    pub(super) commands: CommandResolver,
    /// True if the session ends because the user wants an empty conversation.
    pub(super) cleared: bool,
    /// Compactions that wait for the end of the turn.
    pub(super) compactions: VecDeque<CompactionRequest>,
}

/// A requested compaction.
pub(super) struct CompactionRequest {
    pub(super) focus: Option<String>,
    pub(super) reply: OpReply<CompactedSegment>,
}

/// Model changes that wait for hooks.
#[derive(Default)]
pub(super) struct ModelSwitchQueue {
    /// Cancelled when the most recently requested change is complete.
    last: Option<CancellationToken>,
    /// Notified after each completed change, so that the session can publish its current model.
    pub(super) completed: Arc<Notify>,
}

impl ModelSwitchQueue {
    /// Returns the token of the change that a new one has to wait for, if any.
    fn pending(&self) -> Option<CancellationToken> {
        self.last.clone().filter(|last| !last.is_cancelled())
    }
}

/// A request for another model, with the state needed to apply it later.
struct ModelSwitchRequest {
    scope: Arc<CallScope>,
    gauge: ContextGauge,
    requested: Option<String>,
    /// True if hooks are asked for permission.
    asks: bool,
}

impl ModelSwitchRequest {
    async fn execute(self) -> Result<(), String> {
        let selection = &self.scope.model_selection;
        let (from, to) = (selection.current().model, selection.resolve_model(self.requested.clone())?);
        let planning = self.scope.gate.mode() == PermissionMode::Plan;
        let id = |model: &str| selection.facts(model_for_phase(model, planning)).id;
        if !self.asks || id(&from) == id(&to) {
            return selection.set_model(self.requested);
        }
        let (from, to) = (id(&from), id(&to));
        let context_tokens = self.gauge.tokens(&selection.facts(&from));
        let ttl = self.scope.agent_runtime.cache_ttl;
        let price = selection.facts(&to).price;
        let switch = ModelSwitch {
            cache_warm: ttl.is_some_and(|ttl| self.gauge.is_cache_warm(&from, ttl.duration())),
            cache_write_usd: ttl.zip(price).map(|(ttl, price)| price.cache_write_cost_usd(context_tokens, ttl)),
            cache_ttl: ttl,
            from,
            to,
            requested: self.requested,
            context_tokens,
        };
        switch_model_with_hooks(&self.scope, &switch).await
    }
}

/// Changes the model unless a hook objects. Hooks are notified of the change, and their output goes to the model.
/// Returns the reason as an error if a hook objects.
async fn switch_model_with_hooks(scope: &CallScope, switch: &ModelSwitch) -> Result<(), String> {
    let hooks = scope.services.hooks();
    let asked = hooks.fire(scope, &HookPayload::PreModelSwitch(switch)).await;
    let objection = match asked.permission {
        // There is no user who could be asked about this.
        Some((HookPermission::Allow, _)) | None => asked.stop,
        Some((_, reason)) => Some(reason.unwrap_or_default()),
    };
    if let Some(reason) = objection {
        return Err(format!("a hook did not let the model change: {reason}").trim_end_matches([' ', ':']).to_owned());
    }
    scope.model_selection.set_model(switch.requested.clone())?;
    let notified = hooks.fire(scope, &HookPayload::PostModelSwitch(switch)).await;
    for text in notified.contexts {
        let said = SubmittedPrompt {
            blocks: vec![Block::text(&text)],
            synthetic: true,
            silent: true,
            ..SubmittedPrompt::default()
        };
        scope.services.send_to_agent(&AgentPath::default(), said);
    }
    Ok(())
}

/// Stops a task at the user's request, and records for later runs that an agent was stopped.
async fn stop_task(task: &Task, transcripts: AgentTranscripts) {
    task.stop_for_user().await;
    if task.agent.is_some() {
        let id = task.id.clone();
        // If nothing can be written, only this run knows.
        drop(tokio::task::spawn_blocking(move || transcripts.mark_stopped(&id)).await);
    }
}

impl OpHandler {
    /// Returns the name of the current model.
    pub(super) fn model_name(&self) -> String {
        self.scope.model_selection.model(self.gate().mode())
    }

    pub(super) fn services(&self) -> &Arc<SessionServices> {
        &self.scope.services
    }

    pub(super) fn gate(&self) -> &Gate {
        &self.scope.gate
    }

    /// Changes the model, with permission of the hooks that listen for it. A request without a reply only passes on a
    /// decision that the session made before. Each request waits for the previous one, so that the last one wins, no
    /// matter which hook is faster.
    fn switch_model(&mut self, requested: Option<String>, reply: OpReply<()>) {
        let hooks = self.services().hooks();
        let listens = hooks.has_listeners(HookEvent::PreModelSwitch) || hooks.has_listeners(HookEvent::PostModelSwitch);
        let asks = listens && reply.is_awaited();
        let before = self.model_switches.pending();
        if !asks && before.is_none() {
            return reply.send(self.scope.model_selection.set_model(requested));
        }
        let request = ModelSwitchRequest { scope: self.scope.clone(), gauge: self.gauge.clone(), requested, asks };
        let over = CancellationToken::new();
        self.model_switches.last = Some(over.clone());
        let over = over.drop_guard();
        let completed = self.model_switches.completed.clone();
        self.services().spawn(async move {
            if let Some(before) = before {
                before.cancelled().await;
            }
            let outcome = request.execute().await;
            drop(over);
            // First, so that a client that has the reply sees the new model.
            completed.notify_one();
            reply.send(outcome);
        });
    }

    /// Handles an operation and returns what is left to do, if anything; `None` in place of an operation means that
    /// there will be no more.
    pub(super) fn handle_op(&mut self, op: Option<Op>) -> Option<TurnSignal> {
        match op {
            Some(Op::Submit(said)) => return Some(TurnSignal::Prompt(self.with_own_turn_for_command(said))),
            Some(Op::Close) | None => return Some(TurnSignal::Close),
            Some(Op::Clear) => {
                self.cleared = true;
                return Some(TurnSignal::Close);
            }
            Some(Op::Interrupt { cancel_queued, stop_agents, reply }) => {
                if stop_agents {
                    self.stop_background_agents();
                }
                let cancelled = if cancel_queued { self.withdraw_all_prompts() } else { Vec::new() };
                reply.send(Ok(InterruptOutcome { still_queued: self.steering.waiting_ids(), cancelled }));
                return Some(TurnSignal::Interrupt);
            }
            Some(Op::Answer { ask, answer }) => self.asks.answer(ask, answer, &self.scope.services),
            Some(Op::SetMode { mode, reply }) => reply.send(self.set_mode(mode)),
            Some(Op::ReloadSettings { reply }) => {
                self.gate().reload_caller_settings(self.services());
                reply.send(Ok(()));
            }
            Some(Op::SetModel { model, reply }) => self.switch_model(model, reply),
            Some(Op::SetEffort { effort, reply }) => {
                self.scope.model_selection.set_effort(effort);
                reply.send(Ok(()));
            }
            Some(Op::SetTitle { title, reply }) => reply.send(self.services().set_title(&title)),
            Some(Op::SetThinking { thinking, reply }) => {
                self.scope.model_selection.set_thinking(thinking);
                reply.send(Ok(()));
            }
            Some(Op::SetThinkingDisplay { display, reply }) => {
                self.scope.model_selection.set_display(display);
                reply.send(Ok(()));
            }
            Some(Op::Rewind { prompt, mode, reply }) => {
                let services = self.services().clone();
                self.services()
                    .spawn(async move { reply.send(checkpoints::rewind_files(services, prompt, mode).await) });
            }
            Some(Op::SeedRead { path, mtime_ms, reply }) => {
                let services = self.services().clone();
                self.services().spawn(async move {
                    reply.send(checkpoints::record_external_read(services, path, mtime_ms).await)
                });
            }
            Some(Op::Compact { focus, reply }) => self.compactions.push_back(CompactionRequest { focus, reply }),
            Some(Op::ContextUsage { reply }) => {
                let policy = &self.scope.agent_runtime.options.compaction;
                reply.send(Ok(self.gauge.current_usage(self.scope.model_selection.facts(&self.model_name()), policy)));
            }
            Some(Op::Query(SessionQuery::Commands { reply })) => reply.send(Ok(self.commands.list().to_vec())),
            Some(Op::Query(inquiry)) => {
                queries::answer_query(inquiry, &self.scope, self.tool_source.as_ref(), &self.history)
            }
            Some(Op::SetHooks { hooks, reply }) => reply.send(self.services().hooks().set_driver_hooks(&hooks)),
            Some(Op::WithdrawPrompt { prompt, reply }) => {
                let waited = self.steering.withdraw_prompt(&prompt);
                if waited {
                    self.publish_withdrawn(&prompt);
                }
                reply.send(Ok(waited));
            }
            Some(Op::MessageAgent { agent, text, reply }) => {
                reply.send(deliver_user_message(self.services(), &agent, &text));
            }
            Some(Op::MoveToBackground { reply, .. })
                if self.services().env().flag("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS") =>
            {
                reply.send(Err("nothing runs in the background of this session".to_owned()));
            }
            Some(Op::MoveToBackground { call, reply }) => {
                reply.send(Ok(self.services().move_to_background(call.as_ref())))
            }
            Some(Op::StopTask { task, reply }) => {
                let (task, transcripts) =
                    (self.services().tasks().find(&task), self.scope.agent_runtime.transcripts.clone());
                self.services().spawn(async move {
                    if let Some(task) = task {
                        stop_task(&task, transcripts).await;
                    }
                    reply.send(Ok(()));
                });
            }
        }
        None
    }

    /// Returns the prompt as it is queued: a command never joins a running turn.
    fn with_own_turn_for_command(&self, said: SubmittedPrompt) -> SubmittedPrompt {
        if said.timing == PromptTiming::Next && !said.silent && self.commands.find(&said).is_some() {
            return SubmittedPrompt { timing: PromptTiming::Later, ..said };
        }
        said
    }

    /// Stops the agents that run in the background; the others end with the turn.
    fn stop_background_agents(&self) {
        for task in self.services().tasks().running() {
            if task.agent.is_some() && task.is_backgrounded() {
                let transcripts = self.scope.agent_runtime.transcripts.clone();
                self.services().spawn(async move { stop_task(&task, transcripts).await });
            }
        }
    }

    /// Handles an operation that comes while a turn runs or is about to. Returns true if the session is to close.
    pub(super) fn handle_op_during_turn(&mut self, op: Option<Op>, turn: &CancellationToken) -> bool {
        match self.handle_op(op) {
            Some(TurnSignal::Prompt(said)) => self.steering.push(said),
            Some(TurnSignal::Interrupt) => turn.cancel(),
            Some(TurnSignal::Close) => {
                turn.cancel();
                return true;
            }
            None => {}
        }
        false
    }

    /// Removes all queued prompts, notifies their senders, and returns the ids.
    pub(super) fn withdraw_all_prompts(&self) -> Vec<EntryId> {
        let withdrawn = self.steering.withdraw_all_prompts();
        withdrawn.iter().for_each(|prompt| self.publish_withdrawn(prompt));
        withdrawn
    }

    fn publish_withdrawn(&self, prompt: &EntryId) {
        let body = EventBody::PromptOutcome { prompt: prompt.clone(), outcome: PromptOutcome::Withdrawn };
        self.services().publish(&AgentPath::default(), body);
    }

    /// Changes the mode, or returns the reason why it cannot be changed.
    fn set_mode(&self, mode: PermissionMode) -> Result<(), String> {
        let before = self.gate().mode();
        if !self.gate().set_mode(mode) {
            return Err(format!("the mode {mode} cannot be chosen in this session; the mode stays {before}"));
        }
        if mode != before {
            self.services().publish(&AgentPath::default(), EventBody::ModeChanged(mode));
        }
        Ok(())
    }
}
