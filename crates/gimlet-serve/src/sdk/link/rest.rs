//! A session that comes to rest, and what is done then: turns without the model, a new conversation, the end.

use gimlet_proto::{EntryId, Inquiry, Op, Reply, SessionHandle, SessionId};
use serde_json::{Value, json};
use tokio::task::JoinError;
use tokio::time::Instant;

use super::{Change, Done, Link, Phase};
use crate::sdk::initialize::Initialize;
use crate::sdk::prompts::{Local, Prompt, Said};
use crate::sdk::requests::{Reopen, Reopened, Tally};
use crate::sdk::state::State;
use crate::sdk::{fit, frames};
use crate::wire;

impl Link {
    /// Finds out whether the session still has something to do: an operation that changes nothing is answered after
    /// everything before it was taken up.
    pub(super) fn settle(&mut self) {
        let (reply, answer) = Reply::channel();
        self.session.send(Op::Withdraw { prompt: EntryId::new(""), reply });
        self.settlings += 1;
        let settling = self.settlings;
        self.replies.spawn(async move {
            // A session that is over has taken up all it ever will.
            drop(answer.await);
            Done::Settled(settling)
        });
    }

    /// Work beside the session has come to its end, or to nothing: whoever waits for it must not do so for ever.
    pub(super) async fn work_ended(&mut self, done: Result<Done, JoinError>) {
        let error = match done {
            Ok(done) => return self.done(done).await,
            Err(error) => error,
        };
        if let Some(at) = self.under_way.iter().position(|(_, work)| work.id() == error.id()) {
            let (id, _) = self.under_way.remove(at);
            self.write(fit::answer(&id, Err(format!("there is no answer: {error}")))).await;
        }
        self.settle_at_end();
    }

    async fn done(&mut self, done: Done) {
        match done {
            Done::Answer { id, outcome } => {
                drop(self.take_under_way(&id));
                self.write(fit::answer(&id, outcome)).await;
                self.settle_at_end();
            }
            Done::Receipt { id, outcome } => {
                self.receipts -= 1;
                self.write(fit::answer(&id, outcome)).await;
                self.settle_at_end();
            }
            Done::Decided { ask, answer } => {
                // One that was withdrawn meanwhile has no answer; its number may belong to another question by now.
                if self.deciding.remove(&ask).is_some() {
                    self.session.send(Op::Answer { ask, answer });
                }
            }
            // Behind an older one, or in another session, prompts may have been sent that nobody has taken up yet.
            Done::Settled(settling) if settling == self.settlings && self.is_at_rest() => self.rest().await,
            Done::Settled(_) => {}
        }
    }

    /// After the host's last line, only its answers may have kept the session from its end.
    fn settle_at_end(&mut self) {
        if self.ended && !self.closing {
            self.settle();
        }
    }

    /// No turn runs or begins. Events that were published before a settling answer have been read by then.
    pub(super) fn is_at_rest(&self) -> bool {
        !self.busy && !self.left && !self.session.snapshot().busy && matches!(self.phase, Phase::Live)
    }

    pub(super) async fn rest(&mut self) {
        match self.waiting.pop_front() {
            Some(Prompt::Say(say)) => {
                self.session.send(Op::Say(say));
                self.settle();
            }
            Some(Prompt::Local(said, Local::Nothing)) => self.local_turn(&said, Ok("")).await,
            Some(Prompt::Local(said, Local::Bad(problem))) => {
                let told = self.lifecycle.refused(&said.uuid, &self.session.id);
                self.write_all(told).await;
                self.local_turn(&said, Err(problem)).await;
            }
            Some(Prompt::Local(said, Local::Clear)) => self.clear(said).await,
            None if !self.agents.is_empty() => self.wait_at_end(),
            None => {
                // Whoever is asked something is not done.
                let rested = if self.eliciting { None } else { self.states.rest(&self.session.id) };
                if let Some(line) = rested {
                    self.write(line).await;
                }
                let is_answering = !self.under_way.is_empty() || self.receipts > 0;
                match (self.ended, is_answering) {
                    (true, true) => self.wait_at_end(),
                    (true, false) => self.close(),
                    (false, _) => {}
                }
            }
        }
    }

    /// Behind the host's last line nothing may go on for ever.
    fn wait_at_end(&mut self) {
        if self.ended && self.deadline.is_none() {
            self.deadline = self.patience.map(|patience| Instant::now() + patience);
        }
    }

    /// A turn without the model.
    pub(super) async fn local_turn(&mut self, said: &Said, outcome: Result<&str, String>) {
        self.begin_local(said).await;
        self.end_local(said, outcome).await;
    }

    pub(super) async fn begin_local(&mut self, said: &Said) {
        self.wire.begin_afresh();
        if let Some(line) = self.states.change(State::Running, &self.session.id) {
            self.write(line).await;
        }
        let snapshot = self.session.snapshot();
        for line in self.wire.opening(&self.session.id, &snapshot.opened) {
            self.write(fit::fit(line)).await;
        }
        let told = self.lifecycle.started(&said.uuid, &self.session.id);
        self.write_all(told).await;
        if let Some(message) = said.message.as_ref().filter(|_| self.replay_prompts) {
            let line = json!({"type": "user", "message": message, "parent_tool_use_id": null,
                "session_id": self.session.id, "uuid": said.uuid, "timestamp": self.backstage.timestamp(),
                "isReplay": true});
            self.write(fit::fit(line.to_string())).await;
        }
    }

    pub(super) async fn end_local(&mut self, said: &Said, outcome: Result<&str, String>) {
        self.tell_local_end(said, outcome).await;
        self.settle();
    }

    async fn tell_local_end(&mut self, said: &Said, outcome: Result<&str, String>) {
        self.flush_mirror().await;
        self.failed = outcome.is_err();
        self.wire.turn_ended(outcome.is_err());
        let told = self.lifecycle.turn_ended(&self.session.id);
        self.write_all(told).await;
        let origin = said.origin.as_ref();
        let used = &self.session.snapshot().by_model;
        let line = wire::local_result(&self.session.id, outcome, origin, used, self.turns_waiting());
        self.write(fit::fit(line)).await;
    }

    /// Ends the conversation; a new one follows.
    pub(super) async fn clear(&mut self, said: Said) {
        self.begin_local(&said).await;
        self.phase = Phase::Closing(Change::Clear(said));
        // What runs in the background belongs to what is being forgotten.
        self.session.send(Op::interrupt());
        self.ask_standing();
        self.session.send(Op::Clear);
    }

    /// Ends a session that nothing was said to; one of another shape follows.
    pub(super) fn change_shape(&mut self, id: &Value, wishes: Initialize) {
        self.phase = Phase::Closing(Change::Greeting { id: id.clone(), wishes: Box::new(wishes) });
        self.ask_standing();
        self.session.send(Op::Close);
    }

    fn ask_standing(&mut self) {
        let (reply, standing) = Reply::channel();
        self.session.send(Op::Inquire(Inquiry::Standing { reply }));
        self.standing = Some(standing);
    }

    /// What the next session is opened for.
    pub(super) fn reopening(&self, change: &Change) -> Reopen {
        let mode = self.session.snapshot().mode;
        match change {
            Change::Clear(_) => Reopen::Cleared { mode },
            Change::Greeting { wishes, .. } => {
                Reopen::Greeted { wishes: wishes.clone(), mode, mode_chosen: mode != self.outset.1 }
            }
        }
    }

    /// The new session is there, or cannot be had.
    pub(super) async fn go_on_in(&mut self, opened: Result<Reopened, String>) {
        let Phase::Opening(change, _) = std::mem::replace(&mut self.phase, Phase::Live) else { return };
        match opened {
            Ok(new) => {
                let old = self.move_into(new, &change);
                match change {
                    Change::Clear(said) => self.begin_anew(&old, &said).await,
                    Change::Greeting { id, wishes } => {
                        self.heed(&wishes);
                        self.tell_welcome(&id, &wishes).await;
                        self.wishes = std::mem::take(&mut self.wishes).then(*wishes);
                    }
                }
            }
            Err(problem) => return self.give_up(change, problem).await,
        }
        for line in std::mem::take(&mut self.held) {
            // Boxed, because a held line may be what leads here again.
            Box::pin(self.host_line(line)).await;
        }
        // Last: a session at rest may be closed, and this one is not before it has taken up what was held.
        self.settle();
    }

    /// Takes up the new session with what was chosen in the old one, which is given back.
    fn move_into(&mut self, new: Reopened, change: &Change) -> SessionHandle {
        // Before anything can happen in it.
        self.events = new.session.subscribe();
        self.leaving = new.session.leaving();
        self.welcome = new.welcome;
        self.wire.set_face(new.face);
        let old = std::mem::replace(&mut self.session, new.session);
        let model = old.snapshot().model.clone();
        // One that nobody chose gives way to what the greeting wants.
        if matches!(change, Change::Clear(_)) || model != self.outset.0 {
            self.session.send(Op::SetModel { model: Some(model), reply: Reply::nobody() });
        }
        // The old session has answered before it ended, or never will.
        if let Some(Ok(standing)) = self.standing.take().and_then(|mut standing| standing.try_recv().ok()) {
            self.session.send(Op::Inquire(Inquiry::Adopt(standing)));
        }
        if let Some(hooks) = self.hooks.clone() {
            self.session.send(Op::SetHooks { hooks, reply: Reply::nobody() });
        }
        old
    }

    async fn begin_anew(&mut self, old: &SessionHandle, said: &Said) {
        self.forget_questions().await;
        self.agents.clear();
        self.tally = Tally::new();
        self.write(reset_line(&old.id, &self.session.id, self.last_event.as_deref())).await;
        if self.replay_prompts {
            self.write(self.output_line("")).await;
        }
        self.tell_local_end(said, Ok("")).await;
    }

    /// What a command printed, as it is echoed.
    fn output_line(&self, text: &str) -> String {
        let content = format!("<local-command-stdout>{text}</local-command-stdout>");
        json!({"type": "user", "message": {"role": "user", "content": content}, "parent_tool_use_id": null,
            "session_id": self.session.id, "uuid": frames::new_id(), "timestamp": self.backstage.timestamp(),
            "isReplay": true})
        .to_string()
    }

    /// There is no session any more: whoever wanted another one is told why.
    async fn give_up(&mut self, change: Change, problem: String) {
        // All of it before the result: the one command that has begun is not done either.
        let told = self.lifecycle.all_discarded(&self.session.id);
        self.write_all(told).await;
        match change {
            Change::Clear(said) => self.end_local(&said, Err(problem)).await,
            Change::Greeting { id, .. } => {
                self.write(fit::answer(&id, Err(problem.clone()))).await;
                let kind = wire::StartupFailure::default();
                self.write(wire::startup_failure(&problem, &kind, self.session.id.as_str())).await;
                self.remark = Some(problem);
            }
        }
        self.phase = Phase::Over(None);
    }
}

impl Link {
    /// Questions of a conversation that is over: the next one counts its own from the start.
    async fn forget_questions(&mut self) {
        for (_, work) in self.deciding.drain() {
            work.abort();
        }
        for (id, _) in std::mem::take(&mut self.questions) {
            self.write(frames::cancel(&id)).await;
        }
    }
}

/// The old conversation ended with the last event of its session.
fn reset_line(old: &SessionId, new: &SessionId, at: Option<&str>) -> String {
    json!({"type": "conversation_reset", "new_conversation_id": new, "trigger": "clear",
        "uuid": frames::new_id(), "session_id": old, "timestamp": at})
    .to_string()
}
