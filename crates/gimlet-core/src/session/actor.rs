//! The actor that owns one session. Nothing else changes the session; everything else sends operations and reads
//! events.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use gimlet_proto::{
    AgentPath, AskAnswer, AskBody, EventBody, ExitSignal, Model, Notice, NoticeLevel, Op, SessionSnapshot,
    SubmittedPrompt, ToolDef, TurnReport, TurnSetup,
};
use gimlet_store::ResultFiles;
use gimlet_text::enclose_in_tag;
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

/// The running session. Opened in `open.rs`.
pub(super) struct SessionActor {
    pub(super) desk: OpHandler,
    pub(super) inbox: mpsc::UnboundedReceiver<Op>,
    pub(super) asked: mpsc::UnboundedReceiver<AskRequest>,
    pub(super) conversation: Conversation,
    pub(super) model: Arc<dyn Model>,
    pub(super) api_key_source: String,
    /// Tools offered in this turn.
    pub(super) tools: ToolSet,
    /// Tools that are always offered.
    pub(super) own_tools: (ToolSet, Arc<[ToolDef]>),
    pub(super) host: Arc<AgentRuntime>,
    pub(super) options: TurnOptions,
    pub(super) items: Arc<AtomicU64>,
    pub(super) result_files: ResultFiles,
    pub(super) output: Option<Arc<OutputSchema>>,
    pub(super) snapshot: watch::Sender<Arc<SessionSnapshot>>,
    pub(super) wakes: bool,
    /// Warnings about the configuration that the session was opened with.
    pub(super) remarks: Vec<String>,
    pub(super) closing: bool,
    /// True if the last turn was interrupted, or a shutdown was requested after it.
    pub(super) interrupted: bool,
    pub(super) leaving: ExitSignal,
}

impl SessionActor {
    pub(super) async fn run(mut self) {
        let mut leaving = self.leaving.clone();
        let left = tokio::select! {
            biased;
            // The turn is kept: it must stop listening to its commands before they are killed.
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

    /// Runs turn after turn until the session closes.
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

    /// Asks first whether the files of this folder are trusted. Until the answer is yes, nothing that they name is
    /// used.
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
                    // An interrupt is not an approval.
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

    /// Returns true if this prompt may begin a turn. In an unattended session the requested answer comes last: a
    /// notice waits for the next prompt instead of beginning a turn of its own after it.
    fn may_begin_turn(&self, said: &SubmittedPrompt) -> bool {
        self.wakes || !said.synthetic
    }

    /// Adds a note to the conversation without a turn.
    fn accept_note(&mut self, said: SubmittedPrompt) {
        let turn = self.build_turn(CancellationToken::new());
        turn::accept_note(&mut self.conversation, &turn, said);
    }

    /// Handles one event while idle. Returns the prompt if the event was one, and `None` otherwise.
    async fn wait_for_prompt(&mut self) -> Option<SubmittedPrompt> {
        let Self { desk, inbox, asked, .. } = self;
        let model_changed = desk.switches.made.clone();
        let op = tokio::select! {
            biased;
            // Before anything that its reply leads to.
            () = model_changed.notified() => {
                self.publish_snapshot(false);
                return None;
            }
            op = inbox.recv() => op,
            // Agents in the background ask questions too.
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
            // Nothing runs except in the background, and a session that is closed next does not wait for that.
            Some(TurnSignal::Interrupt) => {
                self.desk.asks.close_all(&self.desk.services);
                self.interrupted = true;
            }
            Some(TurnSignal::Close) => self.closing = true,
            None => self.publish_snapshot(false),
        }
        None
    }

    /// Runs one turn, handling operations meanwhile.
    async fn run_turn(&mut self, said: SubmittedPrompt) {
        let cancel = CancellationToken::new();
        // The session is busy from here on, even while it waits for something first.
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
                    // Stopped work has no questions any more; agents in the background may still have some.
                    _ = desk.asks.wait_abandoned() => desk.asks.close_abandoned(&desk.services),
                    op = inbox.recv() => *closing |= desk.handle_op_during_turn(op, &cancel),
                }
                if cancel.is_cancelled() {
                    // A command's question about a host does not know of the turn, and its answer is not awaited any
                    // more.
                    desk.asks.close_main(&desk.services);
                }
            }
        };
        desk.asks.close_abandoned(&desk.services);
        self.interrupted = cancel.is_cancelled();
        self.finish_turn(report);
    }

    /// Refreshes the list of external tools. An interrupt ends the wait, and the turn that follows does not wait
    /// either.
    async fn refresh_external_tools(&mut self, cancel: &CancellationToken) {
        let Some(source) = self.desk.guests.clone() else { return };
        let mut looking = source.tools();
        let Self { desk, inbox, asked, closing, .. } = self;
        let guests = loop {
            tokio::select! {
                guests = &mut looking => break guests,
                () = cancel.cancelled() => return,
                // Agents in the background continue meanwhile.
                Some(ask) = asked.recv() => desk.asks.open(ask, &desk.services),
                _ = desk.asks.wait_abandoned() => desk.asks.close_abandoned(&desk.services),
                op = inbox.recv() => *closing |= desk.handle_op_during_turn(op, cancel),
            }
        };
        let (own, defs) = &self.own_tools;
        // Two servers may use one name: the tools that are sent and those that can be called must be one list.
        let guests = own.joinable_tools(guests.into_iter().filter(|guest| !self.desk.gate.denies_tool(&**guest)));
        self.tools = own.with_external_tools(&guests).with_absent(source.absent_tools());
        self.conversation.set_tools(crate::context::with_external_tools(defs, &guests));
        // Instructions of a server without tools are left out.
        let is_here = |server: &str| guests.iter().any(|guest| guest.server().is_some_and(|of| of.name == server));
        for (server, said) in source.instructions().into_iter().filter(|(server, _)| is_here(server)) {
            let text = format!("The server '{server}' says this about using its tools:\n{said}");
            self.conversation.add_opening_once(enclose_in_tag(SERVER_INSTRUCTIONS, &text));
        }
    }

    /// Publishes notices about external tools and servers, and revokes session rules for tools that changed.
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

    /// Returns the setup of a turn that begins now.
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
            tasks: self.desk.services.tasks().all().iter().map(|task| task.view()).collect(),
            turn_setup: self.opened_event(),
        }));
    }
}
