//! Idle sessions and the actions that wait for idleness: turns without the model, a new conversation, the end.

use gimlet_proto::{
    EntryId, Op, OpReply, OpenedSession, SessionHandle, SessionId, SessionQuery, SessionReplacement, StartupFailure,
};
use serde_json::{Value, json};
use tokio::task::JoinError;
use tokio::time::Instant;

use super::{FinishedWork, SdkSession, SessionPhase, SessionSwitch};
use crate::sdk::control_requests::SessionUsageTally;
use crate::sdk::host_prompt::{HostPrompt, LocalCommand, LocalPrompt};
use crate::sdk::initialize::{InitializeRequest, InitializeResponse};
use crate::sdk::session_state::SdkSessionState;
use crate::sdk::{control_frames, truncate};
use crate::wire;

impl SdkSession {
    /// Checks if the session still has work: an operation that changes nothing is answered after everything sent before
    /// it was processed.
    pub(super) fn check_idle(&mut self) {
        let (reply, answer) = OpReply::channel();
        self.session.send(Op::WithdrawPrompt { prompt: EntryId::new(""), reply });
        self.idle_checks += 1;
        let settling = self.idle_checks;
        self.replies.spawn(async move {
            // A session that is over has processed all it ever will.
            drop(answer.await);
            FinishedWork::Drained(settling)
        });
    }

    /// Handles the end of work beside the session, including failed work, so that no request waits for ever.
    pub(super) async fn handle_work_end(&mut self, done: Result<FinishedWork, JoinError>) {
        let error = match done {
            Ok(done) => return self.handle_finished_work(done).await,
            Err(error) => error,
        };
        if let Some(at) = self.running_requests.iter().position(|(_, work)| work.id() == error.id()) {
            let (id, _) = self.running_requests.remove(at);
            self.write_line(truncate::truncate_answer(&id, Err(format!("there is no answer: {error}")))).await;
        }
        self.check_idle_at_end();
    }

    async fn handle_finished_work(&mut self, done: FinishedWork) {
        match done {
            FinishedWork::Answer { id, outcome } => {
                drop(self.take_running_request(&id));
                self.write_line(truncate::truncate_answer(&id, outcome)).await;
                self.check_idle_at_end();
            }
            FinishedWork::Receipt { id, outcome } => {
                self.open_receipts -= 1;
                self.write_line(truncate::truncate_answer(&id, outcome)).await;
                self.check_idle_at_end();
            }
            FinishedWork::Decision { ask, answer } => {
                // A question that was withdrawn meanwhile needs no answer; its number may belong to another question by
                // now.
                if self.tool_decisions.remove(&ask).is_some() {
                    self.session.send(Op::Answer { ask, answer });
                }
            }
            // After an older check, or in another session, prompts may have been sent that were not processed yet.
            FinishedWork::Drained(settling) if settling == self.idle_checks && self.is_idle() => {
                self.handle_idle().await
            }
            FinishedWork::Drained(_) => {}
        }
    }

    /// Checks for idleness after the host's last line, when only open answers may have kept the session from ending.
    fn check_idle_at_end(&mut self) {
        if self.input_ended && !self.closing {
            self.check_idle();
        }
    }

    /// Returns true if no turn runs or begins. Events published before the answer of an idle check have been read by
    /// then.
    pub(super) fn is_idle(&self) -> bool {
        !self.busy && !self.is_leaving && !self.session.snapshot().busy && matches!(self.phase, SessionPhase::Live)
    }

    pub(super) async fn handle_idle(&mut self) {
        match self.waiting.pop_front() {
            Some(HostPrompt::Say(say)) => {
                self.session.send(Op::Submit(say));
                self.check_idle();
            }
            Some(HostPrompt::Local(said, LocalCommand::Empty)) => self.run_local_turn(&said, Ok("")).await,
            Some(HostPrompt::Local(said, LocalCommand::Invalid(problem))) => {
                let told = self.lifecycle.mark_refused(&said.uuid, &self.session.id);
                self.write_lines(told).await;
                self.run_local_turn(&said, Err(problem)).await;
            }
            Some(HostPrompt::Local(said, LocalCommand::Clear)) => self.begin_clear(said).await,
            None if !self.agents.is_empty() => self.start_exit_deadline(),
            None => {
                // A session that waits for the user is not idle.
                let rested =
                    if self.elicitations.is_empty() { self.states.report_idle(&self.session.id) } else { None };
                if let Some(line) = rested {
                    self.write_line(line).await;
                }
                let is_answering = !self.running_requests.is_empty() || self.open_receipts > 0;
                match (self.input_ended, is_answering) {
                    (true, true) => self.start_exit_deadline(),
                    (true, false) => self.close_session(),
                    (false, _) => {}
                }
            }
        }
    }

    /// Starts the deadline after the host's last line, so that nothing continues for ever.
    fn start_exit_deadline(&mut self) {
        if self.input_ended && self.deadline.is_none() {
            self.deadline = self.agent_timeout.map(|patience| Instant::now() + patience);
        }
    }

    /// Runs a turn without the model.
    pub(super) async fn run_local_turn(&mut self, said: &LocalPrompt, outcome: Result<&str, String>) {
        self.begin_local_turn(said).await;
        self.end_local_turn(said, outcome).await;
    }

    pub(super) async fn begin_local_turn(&mut self, said: &LocalPrompt) {
        self.wire.reset_turn();
        if let Some(line) = self.states.report_change(SdkSessionState::Running, &self.session.id) {
            self.write_line(line).await;
        }
        let snapshot = self.session.snapshot();
        for line in self.wire.opening_lines(&self.session.id, &snapshot.turn_setup) {
            self.write_line(truncate::truncate_line(line)).await;
        }
        let told = self.lifecycle.mark_started(&said.uuid, &self.session.id);
        self.write_lines(told).await;
        if let Some(message) = said.message.as_ref()
            && self.replay_prompts
        {
            let line = json!({"type": "user", "message": message, "parent_tool_use_id": null,
                "session_id": self.session.id, "uuid": said.uuid, "timestamp": (self.clock)(),
                "isReplay": true});
            self.write_line(truncate::truncate_line(line.to_string())).await;
        }
    }

    pub(super) async fn end_local_turn(&mut self, said: &LocalPrompt, outcome: Result<&str, String>) {
        self.write_local_result(said, outcome).await;
        self.check_idle();
    }

    async fn write_local_result(&mut self, said: &LocalPrompt, outcome: Result<&str, String>) {
        self.flush_mirror().await;
        self.failed = outcome.is_err();
        self.wire.set_failed(outcome.is_err());
        let told = self.lifecycle.complete_started(&self.session.id);
        self.write_lines(told).await;
        let origin = said.origin.as_ref();
        let used = &self.session.snapshot().by_model;
        let line = wire::local_result_line(&self.session.id, outcome, origin, used, self.count_waiting_turns());
        self.write_line(truncate::truncate_line(line)).await;
    }

    /// Ends the conversation; a new one follows.
    pub(super) async fn begin_clear(&mut self, said: LocalPrompt) {
        self.begin_local_turn(&said).await;
        self.phase = SessionPhase::Closing(SessionSwitch::Clear(said));
        // Background work belongs to the conversation that is being cleared.
        self.session.send(Op::interrupt());
        self.request_overrides();
        self.session.send(Op::Clear);
    }

    /// Ends a session that received no prompt; one with another configuration follows.
    pub(super) fn begin_reinitialize(&mut self, id: &Value, wishes: InitializeRequest) {
        self.phase = SessionPhase::Closing(SessionSwitch::Initialize { id: id.clone(), wishes: Box::new(wishes) });
        self.request_overrides();
        self.session.send(Op::Close);
    }

    fn request_overrides(&mut self) {
        let (reply, standing) = OpReply::channel();
        self.session.send(Op::Query(SessionQuery::Overrides { reply }));
        self.overrides = Some(standing);
    }

    /// Returns the session that is to follow.
    pub(super) fn replacement(&self, change: &SessionSwitch) -> SessionReplacement {
        let mode = self.session.snapshot().mode;
        match change {
            SessionSwitch::Clear(_) => SessionReplacement::Cleared { mode },
            SessionSwitch::Initialize { wishes, .. } => SessionReplacement::Changed {
                changes: Box::new(wishes.session_changes()),
                mode,
                mode_chosen: mode != self.initial_model_and_mode.1,
            },
        }
    }

    /// Handles the new session, or the failure to open it.
    pub(super) async fn handle_reopened(&mut self, opened: Result<OpenedSession, String>) {
        let SessionPhase::Opening(change, _) = std::mem::replace(&mut self.phase, SessionPhase::Live) else { return };
        match opened {
            Ok(new) => {
                let old = self.switch_session(new, &change);
                match change {
                    SessionSwitch::Clear(said) => self.finish_clear(&old, &said).await,
                    SessionSwitch::Initialize { id, wishes } => {
                        self.apply_initialize(&wishes);
                        self.write_initialize_response(&id, &wishes).await;
                        self.opened_with = std::mem::take(&mut self.opened_with).merge(*wishes);
                    }
                }
            }
            Err(problem) => return self.handle_reopen_failure(change, problem).await,
        }
        for line in std::mem::take(&mut self.held_lines) {
            // Boxed, because handling a held line may lead here again.
            Box::pin(self.handle_host_line(line)).await;
        }
        // Last: an idle session may be closed, and this one is not idle before it has processed the held lines.
        self.check_idle();
    }

    /// Switches to the new session with the choices made in the old one, and returns the old one.
    fn switch_session(&mut self, new: OpenedSession, change: &SessionSwitch) -> SessionHandle {
        // Subscribed before anything can happen in the new session.
        self.events = new.session.subscribe();
        self.leaving = new.session.exit_signal();
        self.initialize_response = InitializeResponse::from_facts(&new.facts);
        self.wire.set_init_facts(crate::sdk::init_facts(&new.facts));
        let old = std::mem::replace(&mut self.session, new.session);
        let model = old.snapshot().model.clone();
        // A model that was not chosen explicitly gives way to the one of the initialize request.
        if matches!(change, SessionSwitch::Clear(_)) || model != self.initial_model_and_mode.0 {
            self.session.send(Op::SetModel { model: Some(model), reply: OpReply::ignored() });
        }
        // The old session has answered before it ended, or never will.
        if let Some(Ok(standing)) = self.overrides.take().and_then(|mut standing| standing.try_recv().ok()) {
            self.session.send(Op::Query(SessionQuery::ApplyOverrides(standing)));
        }
        if let Some(hooks) = self.hooks.clone() {
            self.session.send(Op::SetHooks { hooks, reply: OpReply::ignored() });
        }
        old
    }

    async fn finish_clear(&mut self, old: &SessionHandle, said: &LocalPrompt) {
        self.withdraw_questions().await;
        self.agents.clear();
        self.usage = SessionUsageTally::new();
        self.write_line(conversation_reset_line(&old.id, &self.session.id, self.last_event.as_deref())).await;
        if self.replay_prompts {
            let line = wire::command_echo_line(&self.session.id, "", &(self.clock)());
            self.write_line(line).await;
        }
        self.write_local_result(said, Ok("")).await;
    }

    /// Reports a failed reopening to the command or request that asked for it; there is no session any more.
    async fn handle_reopen_failure(&mut self, change: SessionSwitch, problem: String) {
        // All of it before the result: the command that was started is not completed either.
        let told = self.lifecycle.discard_all(&self.session.id);
        self.write_lines(told).await;
        match change {
            SessionSwitch::Clear(said) => self.end_local_turn(&said, Err(problem)).await,
            SessionSwitch::Initialize { id, .. } => {
                self.write_line(truncate::truncate_answer(&id, Err(problem.clone()))).await;
                let kind = StartupFailure::default();
                self.write_line(wire::startup_failure_line(&problem, &kind, self.session.id.as_str())).await;
                self.remark = Some(problem);
            }
        }
        self.phase = SessionPhase::Over(None);
    }
}

impl SdkSession {
    /// Withdraws the questions of a finished conversation: the next one numbers its own from the start.
    async fn withdraw_questions(&mut self) {
        for (_, work) in self.tool_decisions.drain() {
            work.abort();
        }
        for (id, _) in std::mem::take(&mut self.questions) {
            self.write_line(control_frames::cancel_line(&id)).await;
        }
    }
}

/// Renders the reset line, dated at the last event of the old session.
fn conversation_reset_line(old: &SessionId, new: &SessionId, at: Option<&str>) -> String {
    json!({"type": "conversation_reset", "new_conversation_id": new, "trigger": "clear",
        "uuid": control_frames::new_id(), "session_id": old, "timestamp": at})
    .to_string()
}
