//! The session's front desk: takes operations, at any time, and keeps what waits. It never touches the conversation, so
//! that it is open while a turn runs.

use std::sync::Arc;

use gimlet_proto::{
    AgentPath, Block, Body, EntryId, Interrupted, Model, Op, PermissionMode, PromptFate, Reply, Say, model_for_phase,
};
use gimlet_store::AgentTranscripts;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::inquiries;
use crate::agents::AgentHost;
use crate::call::CallScope;
use crate::checkpoints;
use crate::context_usage::Gauge;
use crate::dials::Dials;
use crate::gate::{Asks, Gate};
use crate::hooks::{HookEvent, ModelSwitch, Occasion, Permission};
use crate::services::Services;
use crate::steering::Steering;
use crate::tasks::Task;
use crate::tool::ToolSource;

/// What the desk cannot settle by itself.
pub(super) enum Call {
    Said(Say),
    /// Whatever runs is to stop.
    Interrupt,
    Close,
}

/// Everything that operations change.
pub(super) struct Desk {
    pub(super) services: Arc<Services>,
    pub(super) gate: Arc<Gate>,
    pub(super) asks: Asks,
    pub(super) steering: Steering,
    pub(super) dials: Dials,
    pub(super) gauge: Gauge,
    pub(super) model: Arc<dyn Model>,
    /// What subagents are sent by.
    pub(super) host: Arc<AgentHost>,
    /// Where tools come from that others run.
    pub(super) guests: Option<Arc<dyn ToolSource>>,
    /// Where the records of subagents are.
    pub(super) agents: AgentTranscripts,
    pub(super) switches: Switches,
    /// The session ends because the person wants an empty conversation.
    pub(super) cleared: bool,
}

/// Changes of the model that wait for hooks.
#[derive(Default)]
pub(super) struct Switches {
    /// Cancelled when the last one that was asked for is over.
    last: Option<CancellationToken>,
    /// Told of each that is over, so that the session can show what it runs on now.
    pub(super) made: Arc<Notify>,
}

impl Switches {
    /// The one that another has to wait for.
    fn pending(&self) -> Option<CancellationToken> {
        self.last.clone().filter(|last| !last.is_cancelled())
    }
}

/// A wish for another model, with what is needed to fulfil it later.
struct Wish {
    scope: CallScope,
    gauge: Gauge,
    model: Arc<dyn Model>,
    requested: Option<String>,
    /// Hooks are asked for leave.
    asks: bool,
}

impl Wish {
    async fn fulfil(self) -> Result<(), String> {
        let dials = &self.scope.dials;
        let (from, to) = (dials.now().model, dials.meant(self.requested.clone())?);
        let planning = self.scope.gate.mode() == PermissionMode::Plan;
        let id = |model: &str| self.model.facts(model_for_phase(model, planning)).id;
        if !self.asks || id(&from) == id(&to) {
            return dials.set_model(self.requested);
        }
        let (from, to) = (id(&from), id(&to));
        let context_tokens = self.gauge.read(self.model.facts(&from)).total_tokens;
        let ttl = self.scope.host.cache_ttl;
        let price = self.model.facts(&to).price;
        let switch = ModelSwitch {
            cache_warm: ttl.is_some_and(|ttl| self.gauge.is_warm(&from, ttl.life())),
            cache_write_usd: ttl.zip(price).map(|(ttl, price)| price.write_usd(context_tokens, ttl)),
            cache_ttl: ttl,
            from,
            to,
            requested: self.requested,
            context_tokens,
        };
        switch_with_leave(&self.scope, &switch).await
    }
}

/// Changes the model unless a hook objects; hooks hear of it, and the model of what they say to it.
async fn switch_with_leave(scope: &CallScope, switch: &ModelSwitch) -> Result<(), String> {
    let hooks = scope.services.hooks();
    let asked = hooks.fire(scope, &Occasion::PreModelSwitch(switch)).await;
    let objection = match asked.permission {
        // Nobody is there who could be asked about this.
        Some((Permission::Allow, _)) | None => asked.stop,
        Some((_, reason)) => Some(reason.unwrap_or_default()),
    };
    if let Some(reason) = objection {
        return Err(format!("a hook did not let the model change: {reason}").trim_end_matches([' ', ':']).to_owned());
    }
    scope.dials.set_model(switch.requested.clone())?;
    let told = hooks.fire(scope, &Occasion::PostModelSwitch(switch)).await;
    for text in told.contexts {
        let said = Say { blocks: vec![Block::text(&text)], synthetic: true, silent: true, ..Say::default() };
        scope.services.tell(&AgentPath::default(), said);
    }
    Ok(())
}

/// Stops a task because a person wants it so, and keeps for later runs that they stopped an agent.
async fn stop(task: &Task, transcripts: AgentTranscripts) {
    task.stop_for_user().await;
    if task.agent.is_some() {
        let id = task.id.clone();
        // Where nothing can be written, this run still knows.
        drop(tokio::task::spawn_blocking(move || transcripts.note_stopped(&id)).await);
    }
}

impl Desk {
    /// The model of the moment.
    pub(super) fn model_name(&self) -> String {
        self.dials.model(self.gate.mode())
    }

    fn scope(&self) -> CallScope {
        CallScope::of_no_turn(&self.services, &self.gate, &self.dials, &self.host)
    }

    /// Changes the model, with leave of the hooks that want to be asked. Whoever waits for no answer only passes on what
    /// was decided in the session before. One wish waits for the one before it, so that the last counts, whichever hook is
    /// quicker.
    fn switch_model(&mut self, requested: Option<String>, reply: Reply<()>) {
        let hooks = self.services.hooks();
        let listens = hooks.listens(HookEvent::PreModelSwitch) || hooks.listens(HookEvent::PostModelSwitch);
        let (asks, before) = (listens && reply.is_awaited(), self.switches.pending());
        if !asks && before.is_none() {
            return reply.send(self.dials.set_model(requested));
        }
        let wish = Wish { scope: self.scope(), gauge: self.gauge.clone(), model: self.model.clone(), requested, asks };
        let over = CancellationToken::new();
        self.switches.last = Some(over.clone());
        let (over, made) = (over.drop_guard(), self.switches.made.clone());
        self.services.spawn(async move {
            if let Some(before) = before {
                before.cancelled().await;
            }
            let outcome = wish.fulfil().await;
            drop(over);
            // First: whoever has the answer sees the new model.
            made.notify_one();
            reply.send(outcome);
        });
    }

    /// Settles an operation, or says what is left to do; `None` in place of an operation is the end of them.
    pub(super) fn take(&mut self, op: Option<Op>) -> Option<Call> {
        match op {
            Some(Op::Say(said)) => return Some(Call::Said(said)),
            Some(Op::Close) | None => return Some(Call::Close),
            Some(Op::Clear) => {
                self.cleared = true;
                return Some(Call::Close);
            }
            Some(Op::Interrupt { cancel_queued, stop_agents, reply }) => {
                if stop_agents {
                    self.stop_lone_agents();
                }
                let cancelled = if cancel_queued { self.withdraw_all() } else { Vec::new() };
                reply.send(Ok(Interrupted { still_queued: self.steering.ids(), cancelled }));
                return Some(Call::Interrupt);
            }
            Some(Op::Answer { ask, answer }) => self.asks.answer(ask, answer, &self.services),
            Some(Op::SetMode { mode, reply }) => reply.send(self.set_mode(mode)),
            Some(Op::TakeUpSettings { reply }) => {
                self.gate.take_up_callers(&self.services);
                reply.send(Ok(()));
            }
            Some(Op::SetModel { model, reply }) => self.switch_model(model, reply),
            Some(Op::SetEffort { effort, reply }) => {
                self.dials.set_effort(effort);
                reply.send(Ok(()));
            }
            Some(Op::SetThinking { thinking, reply }) => {
                self.dials.set_thinking(thinking);
                reply.send(Ok(()));
            }
            Some(Op::SetThinkingDisplay { display, reply }) => {
                self.dials.set_display(display);
                reply.send(Ok(()));
            }
            Some(Op::Rewind { prompt, dry_run, reply }) => {
                let services = self.services.clone();
                self.services.spawn(async move { reply.send(checkpoints::rewind(services, prompt, dry_run).await) });
            }
            Some(Op::SeedRead { path, mtime_ms, reply }) => {
                let services = self.services.clone();
                self.services.spawn(async move { reply.send(checkpoints::seed_read(services, path, mtime_ms).await) });
            }
            Some(Op::ContextUsage { reply }) => {
                reply.send(Ok(self.gauge.read(self.model.facts(&self.model_name()))));
            }
            Some(Op::Inquire(inquiry)) => inquiries::answer(inquiry, &self.scope(), self.guests.as_ref()),
            Some(Op::SetHooks { hooks, reply }) => reply.send(self.services.hooks().set_driver_hooks(&hooks)),
            Some(Op::Withdraw { prompt, reply }) => {
                let waited = self.steering.withdraw(&prompt);
                if waited {
                    self.tell_withdrawn(&prompt);
                }
                reply.send(Ok(waited));
            }
            Some(Op::Background { reply, .. }) if self.services.env.flag("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS") => {
                reply.send(Err("nothing runs in the background of this session".to_owned()));
            }
            Some(Op::Background { call, reply }) => reply.send(Ok(self.services.move_to_background(call.as_ref()))),
            Some(Op::StopTask { task, reply }) => {
                let (task, transcripts) = (self.services.tasks.find(&task), self.agents.clone());
                self.services.spawn(async move {
                    if let Some(task) = task {
                        stop(&task, transcripts).await;
                    }
                    reply.send(Ok(()));
                });
            }
        }
        None
    }

    /// Stops the agents that nobody waits for; those that somebody does end with the turn.
    fn stop_lone_agents(&self) {
        for task in self.services.tasks.running() {
            if task.agent.is_some() && task.is_backgrounded() {
                let transcripts = self.agents.clone();
                self.services.spawn(async move { stop(&task, transcripts).await });
            }
        }
    }

    /// Settles an operation that comes while a turn runs or is about to; says whether the session is to close.
    pub(super) fn take_during(&mut self, op: Option<Op>, turn: &CancellationToken) -> bool {
        match self.take(op) {
            Some(Call::Said(said)) => self.steering.push(said),
            Some(Call::Interrupt) => turn.cancel(),
            Some(Call::Close) => {
                turn.cancel();
                return true;
            }
            None => {}
        }
        false
    }

    /// Forgets what waits, tells whoever said it, and gives the ids.
    pub(super) fn withdraw_all(&self) -> Vec<EntryId> {
        let withdrawn = self.steering.withdraw_all();
        withdrawn.iter().for_each(|prompt| self.tell_withdrawn(prompt));
        withdrawn
    }

    fn tell_withdrawn(&self, prompt: &EntryId) {
        let body = Body::PromptFate { prompt: prompt.clone(), fate: PromptFate::Withdrawn };
        self.services.publish(&AgentPath::default(), body);
    }

    /// Changes the mode, or says why not.
    fn set_mode(&self, mode: PermissionMode) -> Result<(), String> {
        let before = self.gate.mode();
        if !self.gate.set_mode(mode) {
            return Err(format!("the mode {mode} cannot be chosen in this session; the mode stays {before}"));
        }
        if mode != before {
            self.services.publish(&AgentPath::default(), Body::ModeChanged(mode));
        }
        Ok(())
    }
}
