//! The actor that owns one session. Nothing else changes the session; everything else sends operations and reads
//! events.

use std::sync::Arc;

use gimlet_proto::{
    AgentPath, AskAnswer, AskBody, EventBody, ExitSignal, Notice, NoticeLevel, Op, SessionSnapshot, SubmittedPrompt,
    ToolDef, TurnReport, TurnSetup,
};
use gimlet_text::enclose_in_tag;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::op_handler::{OpHandler, TurnSignal};
use crate::call::CallScope;
use crate::conversation::Conversation;
use crate::gate::AskRequest;
use crate::hooks::watch_files;
use crate::prompt_tags::SERVER_INSTRUCTIONS;
use crate::skills::TurnGrants;
use crate::structured_output::OutputSchema;
use crate::tool::ToolSet;
use crate::turn::{self, Turn};

/// The running session. Opened in `open.rs`.
pub(super) struct SessionActor {
    /// Everything that operations use, and all that they change.
    pub(super) op_handler: OpHandler,
    pub(super) op_inbox: mpsc::UnboundedReceiver<Op>,
    pub(super) ask_inbox: mpsc::UnboundedReceiver<AskRequest>,
    pub(super) conversation: Conversation,
    pub(super) api_key_source: String,
    /// Tools offered in this turn.
    pub(super) tools: ToolSet,
    /// Tools that are always offered.
    pub(super) own_tools: (ToolSet, Arc<[ToolDef]>),
    pub(super) output: Option<Arc<OutputSchema>>,
    pub(super) snapshot: watch::Sender<Arc<SessionSnapshot>>,
    pub(super) background_may_start_turn: bool,
    /// Warnings about the configuration that the session was opened with.
    pub(super) warnings: Vec<String>,
    pub(super) closing: bool,
    /// True if the last turn was interrupted, or a shutdown was requested after it.
    pub(super) interrupted: bool,
    pub(super) exit_signal: ExitSignal,
}

impl SessionActor {
    pub(super) async fn run(mut self) {
        let services = self.op_handler.services();
        services.spawn(watch_files(self.op_handler.scope.clone()));
        let mut exit_signal = self.exit_signal.clone();
        let exit_requested = tokio::select! {
            biased;
            // The turn is kept: it must stop listening to its commands before they are killed.
            () = exit_signal.wait_for_request() => true,
            () = self.run_turns() => false,
        };
        if exit_requested {
            self.op_handler.asks.close_all(&self.op_handler.scope.services);
            self.op_handler.services().abandon().await;
            self.run_session_end_hooks().await;
        } else {
            self.run_session_end_hooks().await;
            self.op_handler.services().close().await;
        }
        self.op_handler.asks.close_all(&self.op_handler.scope.services);
        self.conversation.record.close().await;
        self.report_record_error();
        self.publish(EventBody::Closed);
    }

    /// Runs turn after turn until the session closes.
    async fn run_turns(&mut self) {
        for text in std::mem::take(&mut self.warnings) {
            self.publish(EventBody::Notice(Notice { level: NoticeLevel::Warning, text }));
        }
        self.ask_for_trust().await;
        while !self.closing {
            if let Some(request) = self.op_handler.compactions.pop_front() {
                self.run_requested_compaction(request).await;
                continue;
            }
            let said = match self.next_prompt() {
                Some(said) => Some(said),
                None => self.wait_for_prompt().await,
            };
            match said {
                Some(said) if said.silent => self.accept_note(said),
                Some(said) if self.may_begin_turn(&said) => match self.op_handler.commands.find_local(&said) {
                    Some(command) => self.run_command(said, command).await,
                    None => self.run_turn(said).await,
                },
                Some(notice) => self.op_handler.steering.push(notice),
                None => {}
            }
        }
        self.finish_background_work().await;
    }

    /// Asks first whether the files of this folder are trusted. Until the answer is yes, nothing that they name is
    /// used.
    async fn ask_for_trust(&mut self) {
        let Some(question) = self.op_handler.gate().trust_question() else { return };
        let (reply, mut answer) = oneshot::channel();
        let ask = AskRequest { agent: AgentPath::default(), body: AskBody::Trust(question), reply };
        let Self { op_handler, op_inbox, closing, .. } = self;
        op_handler.asks.open(ask, &op_handler.scope.services);
        loop {
            tokio::select! {
                biased;
                answer = &mut answer => {
                    if matches!(answer, Ok(AskAnswer::Yes(_))) {
                        op_handler.scope.gate.accept_trust(op_handler.services()).await;
                    }
                    return;
                }
                op = op_inbox.recv() => match op_handler.handle_op(op) {
                    Some(TurnSignal::Prompt(said)) => op_handler.steering.push(said),
                    // An interrupt is not an approval.
                    Some(TurnSignal::Interrupt) => op_handler.asks.close_all(&op_handler.scope.services),
                    Some(TurnSignal::Close) => {
                        *closing = true;
                        op_handler.asks.close_all(&op_handler.scope.services);
                    }
                    None => {}
                },
            }
        }
    }

    fn next_prompt(&self) -> Option<SubmittedPrompt> {
        if self.background_may_start_turn {
            self.op_handler.steering.pop()
        } else {
            self.op_handler.steering.pop_user_prompt()
        }
    }

    /// Returns true if this prompt may begin a turn. In an unattended session the requested answer comes last: a
    /// notice waits for the next prompt instead of beginning a turn of its own after it.
    fn may_begin_turn(&self, said: &SubmittedPrompt) -> bool {
        self.background_may_start_turn || !said.synthetic
    }

    /// Adds a note to the conversation without a turn.
    fn accept_note(&mut self, said: SubmittedPrompt) {
        let turn = self.build_turn(CancellationToken::new());
        turn::accept_note(&mut self.conversation, &turn, said);
    }

    /// Handles one event while idle. Returns the prompt if the event was one, and `None` otherwise.
    async fn wait_for_prompt(&mut self) -> Option<SubmittedPrompt> {
        let Self { op_handler, op_inbox, ask_inbox, .. } = self;
        let model_changed = op_handler.model_switches.completed.clone();
        let op = tokio::select! {
            biased;
            // Before anything that its reply leads to.
            () = model_changed.notified() => {
                self.publish_snapshot(false);
                return None;
            }
            op = op_inbox.recv() => op,
            // Agents in the background ask questions too.
            Some(ask) = ask_inbox.recv() => {
                op_handler.asks.open(ask, &op_handler.scope.services);
                return None;
            }
            _ = op_handler.asks.wait_abandoned() => {
                op_handler.asks.close_abandoned(&op_handler.scope.services);
                return None;
            }
        };
        match self.op_handler.handle_op(op) {
            Some(TurnSignal::Prompt(said)) => return Some(said),
            // Nothing runs except in the background, and a session that is closed next does not wait for that.
            Some(TurnSignal::Interrupt) => {
                self.op_handler.asks.close_calls(&self.op_handler.scope.services);
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
        let Self { conversation, op_inbox, ask_inbox, op_handler, closing, .. } = self;
        let report = {
            let mut running = Box::pin(turn::run_turn(conversation, &turn, said));
            loop {
                tokio::select! {
                    report = &mut running => break report,
                    Some(ask) = ask_inbox.recv() => op_handler.asks.open(ask, &op_handler.scope.services),
                    // Stopped work has no questions any more; agents in the background may still have some.
                    _ = op_handler.asks.wait_abandoned() => op_handler.asks.close_abandoned(&op_handler.scope.services),
                    op = op_inbox.recv() => *closing |= op_handler.handle_op_during_turn(op, &cancel),
                }
                if cancel.is_cancelled() {
                    // A command's question about a host does not know of the turn, and its answer is not awaited any
                    // more.
                    op_handler.asks.close_main(&op_handler.scope.services);
                }
            }
        };
        op_handler.asks.close_abandoned(&op_handler.scope.services);
        self.interrupted = cancel.is_cancelled();
        self.finish_turn(report);
    }

    /// Refreshes the list of external tools. An interrupt ends the wait, and the turn that follows does not wait
    /// either.
    async fn refresh_external_tools(&mut self, cancel: &CancellationToken) {
        let Some(source) = self.op_handler.tool_source.clone() else { return };
        source.set_directories(&self.op_handler.services().paths().roots);
        let mut looking = source.tools();
        let Self { op_handler, op_inbox, ask_inbox, closing, .. } = self;
        let offered = loop {
            tokio::select! {
                tools = &mut looking => break tools,
                () = cancel.cancelled() => return,
                // Agents in the background continue meanwhile.
                Some(ask) = ask_inbox.recv() => op_handler.asks.open(ask, &op_handler.scope.services),
                _ = op_handler.asks.wait_abandoned() => op_handler.asks.close_abandoned(&op_handler.scope.services),
                op = op_inbox.recv() => *closing |= op_handler.handle_op_during_turn(op, cancel),
            }
        };
        let (own, defs) = &self.own_tools;
        // Two servers may use one name: the tools that are sent and those that can be called must be one list.
        let external =
            own.joinable_tools(offered.into_iter().filter(|tool| !self.op_handler.gate().denies_tool(&**tool)));
        self.tools = own.with_external_tools(&external).with_absent(source.absent_tools());
        self.conversation.segment.set_tools(crate::context::with_external_tools(defs, &external));
        for (server, instructions) in source.instructions() {
            // Instructions of a server without tools are left out.
            if !external.iter().any(|tool| tool.server().is_some_and(|of| of.name == server)) {
                continue;
            }
            let text = format!("The server '{server}' says this about using its tools:\n{instructions}");
            self.conversation.add_opening_once(enclose_in_tag(SERVER_INSTRUCTIONS, &text));
        }
        let reminders = source.take_reminders().into_iter();
        self.conversation.opening.texts.extend(reminders.map(|text| enclose_in_tag("system-reminder", &text)));
    }

    /// Publishes notices about external tools and servers, and revokes session rules for tools that changed.
    fn report_external_tools(&self) {
        let Some(source) = &self.op_handler.tool_source else { return };
        let news = source.take_news();
        self.op_handler.gate().revoke_session_rules(self.op_handler.services(), &news.changed);
        news.notices.into_iter().for_each(|notice| self.publish(EventBody::Notice(notice)));
    }

    pub(super) fn finish_turn(&mut self, report: TurnReport) {
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
        let scope = &self.op_handler.scope;
        Turn {
            scope: Arc::new(CallScope {
                services: scope.services.clone(),
                tools: self.tools.clone(),
                gate: scope.gate.clone(),
                cancel,
                agent: AgentPath::default(),
                subagent: None,
                model_selection: scope.model_selection.clone(),
                agent_runtime: scope.agent_runtime.clone(),
                grants: TurnGrants::default(),
            }),
            options: scope.agent_runtime.options.clone(),
            steering: self.op_handler.steering.clone(),
            result_files: scope.agent_runtime.result_files.clone(),
            output: self.output.clone(),
            commands: Some(self.op_handler.commands.clone()),
            tool_source: self.op_handler.tool_source.clone(),
        }
    }

    pub(super) fn publish(&self, body: EventBody) {
        self.op_handler.services().publish(&AgentPath::default(), body);
    }

    /// Returns the setup of a turn that begins now.
    pub(super) fn opened_event(&self) -> TurnSetup {
        TurnSetup {
            cwd: self.op_handler.services().paths().cwd,
            model: self.op_handler.scope.model_selection.facts(&self.op_handler.model_name()).id,
            mode: self.op_handler.gate().mode(),
            tools: self.tools.offered().map(|tool| tool.listed_name().to_owned()).collect(),
            servers: self.op_handler.tool_source.as_ref().map(|source| source.servers()).unwrap_or_default(),
            agents: self
                .op_handler
                .gate()
                .offered_agents(&self.op_handler.scope.agent_runtime.roster())
                .into_iter()
                .map(|offer| offer.name)
                .collect(),
            slash_commands: self.op_handler.commands.names(),
            skills: self.op_handler.services().skills().skill_names(),
            api_key_source: self.api_key_source.clone(),
        }
    }

    pub(super) fn publish_snapshot(&self, busy: bool) {
        self.snapshot.send_replace(Arc::new(SessionSnapshot {
            busy,
            mode: self.op_handler.gate().mode(),
            model: self.op_handler.scope.model_selection.current().model,
            effort: self.op_handler.scope.model_selection.current().effort,
            commands: self.op_handler.commands.list(),
            cwd: self.op_handler.services().paths().cwd,
            context_tokens: self.conversation.history().context_tokens,
            by_model: self.conversation.ledger.by_model(),
            tasks: self.op_handler.services().tasks().all().iter().map(|task| task.view()).collect(),
            turn_setup: self.opened_event(),
        }));
    }
}
