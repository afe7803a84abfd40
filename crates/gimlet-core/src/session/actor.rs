//! The actor that owns one session. Nobody else changes it; everyone else sends operations and reads events.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use gimlet_proto::{
    AgentPath, AskAnswer, AskBody, EventBody, ExitSignal, Model, Notice, NoticeLevel, Op, SessionSnapshot,
    SubmittedPrompt, ToolDef, TurnReport, TurnSetup, enclose_in_tag,
};
use gimlet_store::ResultFiles;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::op_handler::{OpHandler, TurnSignal};
use crate::agents::AgentRuntime;
use crate::call::CallScope;
use crate::conversation::Conversation;
use crate::gate::AskRequest;
use crate::prompt_tags::SERVER_INSTRUCTIONS;
use crate::structured_output::OutputSchema;
use crate::tool::ToolSet;
use crate::turn::{self, Turn, TurnOptions};

/// A session's life. Opened next door.
pub(super) struct SessionActor {
    pub(super) desk: OpHandler,
    pub(super) inbox: mpsc::UnboundedReceiver<Op>,
    pub(super) asked: mpsc::UnboundedReceiver<AskRequest>,
    pub(super) conversation: Conversation,
    pub(super) model: Arc<dyn Model>,
    pub(super) api_key_source: String,
    /// What is offered in this turn.
    pub(super) tools: ToolSet,
    /// What is always offered.
    pub(super) own_tools: (ToolSet, Arc<[ToolDef]>),
    pub(super) host: Arc<AgentRuntime>,
    pub(super) options: TurnOptions,
    pub(super) items: Arc<AtomicU64>,
    pub(super) result_files: ResultFiles,
    pub(super) output: Option<Arc<OutputSchema>>,
    pub(super) snapshot: watch::Sender<Arc<SessionSnapshot>>,
    pub(super) wakes: bool,
    /// What is wrong with what the session was opened with.
    pub(super) remarks: Vec<String>,
    pub(super) closing: bool,
    /// The last turn was stopped before its end, or somebody wanted to go after it.
    pub(super) interrupted: bool,
    pub(super) leaving: ExitSignal,
}

impl SessionActor {
    pub(super) async fn run(mut self) {
        let mut leaving = self.leaving.clone();
        let left = tokio::select! {
            biased;
            // The turn stays where it is: before its commands are killed it must stop listening to them.
            () = leaving.wait_for_request() => true,
            () = self.run_turns() => false,
        };
        if left {
            self.desk.asks.close_all(&self.desk.services);
            self.desk.services.abandon().await;
            self.run_session_end_hooks().await;
        } else {
            self.run_session_end_hooks().await;
            self.desk.services.close().await;
        }
        self.conversation.record.close().await;
        self.report_record_error();
        self.publish(EventBody::Closed);
    }

    /// Turn after turn, until nobody wants another.
    async fn run_turns(&mut self) {
        for text in std::mem::take(&mut self.remarks) {
            self.publish(EventBody::Notice(Notice { level: NoticeLevel::Warning, text }));
        }
        self.ask_for_trust().await;
        while !self.closing {
            let said = match self.next_prompt() {
                Some(said) => Some(said),
                None => self.wait_for_prompt().await,
            };
            match said {
                Some(said) if said.silent => self.accept_note(said),
                Some(said) if self.may_begin_turn(&said) => self.run_turn(said).await,
                Some(notice) => self.desk.steering.push(notice),
                None => {}
            }
        }
        self.finish_background_work().await;
    }

    /// Before anything else: may what this folder's files name be used? Until the answer is yes, nothing of it is.
    async fn ask_for_trust(&mut self) {
        let Some(question) = self.desk.gate.trust_question() else { return };
        let (reply, mut answer) = oneshot::channel();
        let asked = AskRequest { agent: AgentPath::default(), body: AskBody::Trust(question), reply };
        let Self { desk, inbox, closing, .. } = self;
        desk.asks.open(asked, &desk.services);
        loop {
            tokio::select! {
                biased;
                answer = &mut answer => {
                    if matches!(answer, Ok(AskAnswer::Yes(_))) {
                        desk.gate.accept_trust(&desk.services).await;
                    }
                    return;
                }
                op = inbox.recv() => match desk.handle_op(op) {
                    Some(TurnSignal::Prompt(said)) => desk.steering.push(said),
                    // Whoever does not want to answer has not said yes.
                    Some(TurnSignal::Interrupt) => desk.asks.close_all(&desk.services),
                    Some(TurnSignal::Close) => {
                        *closing = true;
                        desk.asks.close_all(&desk.services);
                    }
                    None => {}
                },
            }
        }
    }

    fn next_prompt(&self) -> Option<SubmittedPrompt> {
        if self.wakes { self.desk.steering.pop() } else { self.desk.steering.pop_user_prompt() }
    }

    /// With nobody there, the answer that was asked for is the last word: a notice waits for the next prompt instead of
    /// beginning a turn of its own behind it.
    fn may_begin_turn(&self, said: &SubmittedPrompt) -> bool {
        self.wakes || !said.synthetic
    }

    /// Something to be known, without a turn.
    fn accept_note(&mut self, said: SubmittedPrompt) {
        let turn = self.build_turn(CancellationToken::new());
        turn::accept_note(&mut self.conversation, &turn, said);
    }

    /// Idle: handles operations until something is said.
    async fn wait_for_prompt(&mut self) -> Option<SubmittedPrompt> {
        let Self { desk, inbox, asked, .. } = self;
        let model_changed = desk.switches.made.clone();
        let op = tokio::select! {
            biased;
            // Before whatever its answer leads to.
            () = model_changed.notified() => {
                self.publish_snapshot(false);
                return None;
            }
            op = inbox.recv() => op,
            // Agents in the background have questions too.
            Some(ask) = asked.recv() => {
                desk.asks.open(ask, &desk.services);
                return None;
            }
            _ = desk.asks.wait_abandoned() => {
                desk.asks.close_abandoned(&desk.services);
                return None;
            }
        };
        match self.desk.handle_op(op) {
            Some(TurnSignal::Prompt(said)) => return Some(said),
            // Nothing runs, unless in the background: whoever closes the session next does not want to wait for that.
            Some(TurnSignal::Interrupt) => {
                self.desk.asks.close_all(&self.desk.services);
                self.interrupted = true;
            }
            Some(TurnSignal::Close) => self.closing = true,
            None => self.publish_snapshot(false),
        }
        None
    }

    /// One turn, with the inbox open all along.
    async fn run_turn(&mut self, said: SubmittedPrompt) {
        let cancel = CancellationToken::new();
        // From here on the session is at work, whatever it waits for first.
        self.publish_snapshot(true);
        self.refresh_external_tools(&cancel).await;
        self.publish(EventBody::TurnStarting(Arc::new(self.opened_event())));
        self.report_external_tools();
        let turn = self.build_turn(cancel.clone());
        let Self { conversation, inbox, asked, desk, closing, .. } = self;
        let report = {
            let mut running = Box::pin(turn::run_turn(conversation, &turn, said));
            loop {
                tokio::select! {
                    report = &mut running => break report,
                    Some(ask) = asked.recv() => desk.asks.open(ask, &desk.services),
                    // Whatever was stopped has no questions any more; agents in the background may still have some.
                    _ = desk.asks.wait_abandoned() => desk.asks.close_abandoned(&desk.services),
                    op = inbox.recv() => *closing |= desk.handle_op_during_turn(op, &cancel),
                }
                if cancel.is_cancelled() {
                    // A command's question about a host does not know of the turn; nobody will wait for its answer.
                    desk.asks.close_main(&desk.services);
                }
            }
        };
        desk.asks.close_abandoned(&desk.services);
        self.interrupted = cancel.is_cancelled();
        self.finish_turn(report);
    }

    /// Finds out which guests there are. Whoever interrupts does not wait for them, nor does the turn that follows.
    async fn refresh_external_tools(&mut self, cancel: &CancellationToken) {
        let Some(source) = self.desk.guests.clone() else { return };
        let mut looking = source.tools();
        let Self { desk, inbox, asked, closing, .. } = self;
        let guests = loop {
            tokio::select! {
                guests = &mut looking => break guests,
                () = cancel.cancelled() => return,
                // Agents in the background go on meanwhile.
                Some(ask) = asked.recv() => desk.asks.open(ask, &desk.services),
                _ = desk.asks.wait_abandoned() => desk.asks.close_abandoned(&desk.services),
                op = inbox.recv() => *closing |= desk.handle_op_during_turn(op, cancel),
            }
        };
        let (own, defs) = &self.own_tools;
        // Two servers may come to one name: what is sent and what can be called must be the same list.
        let guests = own.joinable_tools(guests.into_iter().filter(|guest| !self.desk.gate.denies_tool(&**guest)));
        self.tools = own.with_external_tools(&guests).with_absent(source.absent_tools());
        self.conversation.set_tools(crate::context::with_external_tools(defs, &guests));
        // Who has nothing to offer has nothing to say.
        let is_here = |server: &str| guests.iter().any(|guest| guest.server().is_some_and(|of| of.name == server));
        for (server, said) in source.instructions().into_iter().filter(|(server, _)| is_here(server)) {
            let text = format!("The server '{server}' says this about using its tools:\n{said}");
            self.conversation.add_opening_once(enclose_in_tag(SERVER_INSTRUCTIONS, &text));
        }
    }

    /// What there is to say about guests, and about those that did not come.
    fn report_external_tools(&self) {
        let Some(source) = &self.desk.guests else { return };
        let news = source.take_news();
        self.desk.gate.revoke_session_rules(&self.desk.services, &news.changed);
        news.notices.into_iter().for_each(|notice| self.publish(EventBody::Notice(notice)));
    }

    fn finish_turn(&mut self, report: TurnReport) {
        self.report_record_error();
        self.publish(EventBody::TurnEnded(Box::new(report)));
        self.publish_snapshot(false);
    }

    fn report_record_error(&mut self) {
        if let Some(text) = self.conversation.record.take_warning() {
            self.publish(EventBody::Notice(Notice { level: NoticeLevel::Error, text }));
        }
    }

    pub(super) fn build_turn(&self, cancel: CancellationToken) -> Turn {
        Turn {
            model: self.model.clone(),
            model_selection: self.desk.dials.clone(),
            scope: Arc::new(CallScope {
                services: self.desk.services.clone(),
                tools: self.tools.clone(),
                gate: self.desk.gate.clone(),
                cancel,
                agent: AgentPath::default(),
                subagent: None,
                model_selection: self.desk.dials.clone(),
                agent_runtime: self.host.clone(),
            }),
            options: self.options.clone(),
            steering: self.desk.steering.clone(),
            items: self.items.clone(),
            result_files: self.result_files.clone(),
            output: self.output.clone(),
        }
    }

    pub(super) fn publish(&self, body: EventBody) {
        self.desk.services.publish(&AgentPath::default(), body);
    }

    /// What a turn that begins now runs in.
    fn opened_event(&self) -> TurnSetup {
        TurnSetup {
            cwd: self.desk.services.paths().cwd,
            model: self.model.facts(&self.desk.model_name()).id,
            mode: self.desk.gate.mode(),
            tools: self.tools.offered().map(|tool| tool.listed_name().to_owned()).collect(),
            servers: self.desk.guests.as_ref().map(|guests| guests.servers()).unwrap_or_default(),
            agents: self.desk.gate.offered_agents(self.host.roster()).into_iter().map(|offer| offer.name).collect(),
            api_key_source: self.api_key_source.clone(),
        }
    }

    pub(super) fn publish_snapshot(&self, busy: bool) {
        self.snapshot.send_replace(Arc::new(SessionSnapshot {
            busy,
            mode: self.desk.gate.mode(),
            model: self.desk.dials.current().model,
            cwd: self.desk.services.paths().cwd,
            context_tokens: self.conversation.context_tokens,
            by_model: self.conversation.ledger.by_model(),
            tasks: self.desk.services.tasks.all().iter().map(|task| task.view()).collect(),
            turn_setup: self.opened_event(),
        }));
    }
}
