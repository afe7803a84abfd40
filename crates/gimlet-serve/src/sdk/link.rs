//! The loop between a host and its session: what comes from one is passed to the other, in order.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use gimlet_proto::{
    Answer, AskId, AskView, Body, BoxFuture, DriverHook, EntryId, Event, Op, Opened, Reader, Reply, SessionHandle, SessionId,
    TaskState, TaskView,
};
use serde_json::{Value, json};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use super::frames::{self, HostAnswer};
use super::initialize::{self, Welcome};
use super::lines::{HostLine, LineError};
use super::permission::{self, Question};
use super::prompts::{self, Local, Prompt, Said};
use super::requests::{self, Backstage, Routed};
use super::state::{State, States};
use super::{Host, MirrorFeed, SdkEnd, SdkJob, fit};
use crate::wire::{self, Lines, Wire};
use crate::writer::Output;

/// How the loop ended, with the outputs to be finished.
pub(super) struct Ended {
    pub(super) end: SdkEnd,
    pub(super) out: Output,
    pub(super) notes: Output,
    /// What was wrong with the host's lines.
    pub(super) remark: Option<String>,
}

/// Work that the loop waits for on the side.
enum Done {
    /// The answer to a request of the host's.
    Answer { id: Value, outcome: Result<Value, String> },
    /// Everything that was sent to the session before has been taken up.
    Settled,
}

/// Where the session is.
enum Phase {
    Live,
    /// Ending, to make room for a new one.
    Closing(Said),
    Opening(Said, BoxFuture<'static, Result<SessionHandle, String>>),
}

struct Link {
    session: SessionHandle,
    events: Reader,
    phase: Phase,
    wire: Wire,
    out: Output,
    states: States,
    host: Host,
    backstage: Arc<dyn Backstage>,
    welcome: Welcome,
    attended: bool,
    replay_prompts: bool,
    mirror: Option<MirrorFeed>,
    patience: Option<Duration>,
    /// What the host has been asked, by request.
    questions: HashMap<String, Question>,
    replies: JoinSet<Done>,
    /// The requests of the host that are being answered.
    under_way: HashMap<String, AbortHandle>,
    /// Prompts behind one that gimlet answers by itself.
    waiting: VecDeque<Prompt>,
    /// Lines that came while one session gave way to another.
    held: VecDeque<HostLine>,
    seen: HashSet<EntryId>,
    /// Subagents at work: the session is not at rest before they are done.
    agents: HashSet<String>,
    /// The configuration of the last turn.
    opened: Option<Arc<Opened>>,
    /// Hooks that came later than the session.
    hooks: Option<Vec<DriverHook>>,
    /// The hooks of the first greeting are the session's already.
    greeted: bool,
    busy: bool,
    /// The host has said its last line.
    ended: bool,
    deadline: Option<Instant>,
    closing: bool,
    interrupted: bool,
    failed: bool,
    remark: Option<String>,
}

/// Runs the loop until the session is over.
pub(super) async fn drive(session: SessionHandle, job: SdkJob) -> Ended {
    let (mut lines, mut requests, mut interrupts, first, notes) =
        (job.lines, job.requests, job.interrupts, job.first, job.notes);
    let wanted = Lines { partial: job.partial, replay_prompts: job.replay_prompts, hook_events: job.hook_events };
    let mut link = Link {
        events: session.subscribe(),
        session,
        phase: Phase::Live,
        wire: Wire::new(wanted, job.face),
        out: job.out,
        states: States::new(job.states),
        host: job.host,
        backstage: job.backstage,
        welcome: job.welcome,
        attended: job.attended,
        replay_prompts: job.replay_prompts,
        mirror: job.mirror,
        patience: job.patience,
        questions: HashMap::new(),
        replies: JoinSet::new(),
        under_way: HashMap::new(),
        waiting: VecDeque::new(),
        held: VecDeque::new(),
        seen: HashSet::new(),
        agents: HashSet::new(),
        opened: None,
        hooks: None,
        greeted: job.greeted,
        busy: false,
        ended: false,
        deadline: None,
        closing: false,
        interrupted: false,
        failed: false,
        remark: None,
    };
    link.line(first).await;
    let mut gone = false;
    loop {
        tokio::select! {
            biased;
            Some(()) = interrupts.recv() => link.stop(),
            () = link.out.gone(), if !gone => {
                gone = true;
                link.session.send(Op::interrupt());
                link.close();
            }
            line = lines.next(), if !link.ended => link.line(line).await,
            // What the session said before it asked is written before the question.
            event = link.events.next(), if !matches!(link.phase, Phase::Opening(..)) => match event {
                Some(event) => link.event(&event).await,
                None if link.session_is_over() => break,
                None => {}
            },
            opened = next_session(&mut link.phase) => link.go_on_in(opened).await,
            Some(done) = link.replies.join_next() => {
                if let Ok(done) = done {
                    link.done(done).await;
                }
            }
            Some(line) = requests.lines.recv() => link.write(fit::fit(line)).await,
            () = mirrored(&mut link.mirror) => link.flush_mirror().await,
            () = passed(link.deadline) => link.close(),
        }
        if matches!(link.phase, Phase::Opening(..)) && link.closing {
            break;
        }
    }
    link.flush_mirror().await;
    let end = match (link.remark.is_some() || link.failed, link.interrupted) {
        (_, true) => SdkEnd::Interrupted,
        (true, false) => SdkEnd::Failure,
        (false, false) => SdkEnd::Success,
    };
    Ended { end, out: link.out, notes, remark: link.remark }
}

async fn next_session(phase: &mut Phase) -> Result<SessionHandle, String> {
    match phase {
        Phase::Opening(_, opening) => opening.await,
        Phase::Live | Phase::Closing(_) => std::future::pending().await,
    }
}

async fn mirrored(mirror: &mut Option<MirrorFeed>) {
    match mirror {
        Some(mirror) => mirror.ready().await,
        None => std::future::pending().await,
    }
}

async fn passed(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// What the host says.
impl Link {
    async fn line(&mut self, line: Option<Result<HostLine, LineError>>) {
        match line {
            Some(Ok(line)) => self.host_line(line).await,
            Some(Err(error)) => {
                // Whatever follows could mean anything.
                self.remark = Some(error.to_string());
                self.end_of_lines();
                self.session.send(Op::interrupt());
                self.close();
            }
            None => {
                self.end_of_lines();
                self.settle();
            }
        }
    }

    /// Nothing that is asked now will be answered; what was accepted is finished all the same.
    fn end_of_lines(&mut self) {
        self.ended = true;
        self.host.close();
        for (_, question) in self.questions.drain() {
            refuse(&self.session, question.ask);
        }
    }

    async fn host_line(&mut self, line: HostLine) {
        let kind = line.kind();
        if kind.as_deref() == Some("control_response") {
            if let Some(answer) = frames::read_answer(&line) {
                self.answered(answer).await;
            }
            return;
        }
        if !matches!(self.phase, Phase::Live) {
            self.held.push_back(line);
            return;
        }
        match kind.as_deref() {
            Some("user") => self.prompt(&line),
            Some("control_request") => self.request(&line).await,
            Some("control_cancel_request") => {
                if let Some(work) = line.text("request_id").and_then(|id| self.under_way.remove(&id)) {
                    work.abort();
                }
            }
            // A sign of life, or a line that another version of us understands.
            Some(_) | None => {}
        }
    }

    async fn answered(&mut self, HostAnswer { id, outcome }: HostAnswer) {
        let Some(question) = self.questions.remove(&id) else {
            // Nobody's: it crossed our withdrawal, or was never asked.
            self.host.answer(&id, outcome.map_err(gimlet_proto::DriverError::Failed));
            return;
        };
        let answer = question.read(outcome);
        self.session.send(Op::Answer { ask: question.ask, answer });
        self.tell_state().await;
    }

    fn prompt(&mut self, line: &HostLine) {
        let prompt = prompts::read_prompt(line, self.attended);
        if let Some(id) = prompt.id()
            && !self.seen.insert(id.clone())
        {
            return;
        }
        match prompt {
            Prompt::Say(say) if self.waiting.is_empty() => self.session.send(Op::Say(say)),
            prompt => {
                self.waiting.push_back(prompt);
                self.settle();
            }
        }
    }

    async fn request(&mut self, line: &HostLine) {
        let id: Value = line.get("request_id").unwrap_or(Value::Null);
        let request = requests::members(line);
        let subtype = request.as_ref().and_then(|request| request.text("subtype"));
        let (Some(request), Some(subtype)) = (request, subtype) else {
            let problem = Err("a control request without a subtype".to_owned());
            return self.write(frames::answer(&id, problem)).await;
        };
        let routed = match subtype.as_str() {
            "initialize" => return self.greet(&id, &request).await,
            "interrupt" => {
                let cancel_queued = request.flag("cancel_queued");
                let held = self.waiting.iter().filter_map(Prompt::id).cloned().collect();
                if cancel_queued {
                    self.waiting.clear();
                }
                requests::interrupt(&self.session, cancel_queued, held)
            }
            "list_models" => Routed::Now(Ok(json!({"models": self.welcome.models}))),
            _ => requests::route(&subtype, &request, &self.session, &self.backstage),
        };
        match routed {
            Routed::Now(outcome) => self.write(frames::answer(&id, outcome)).await,
            Routed::Later(answer) => {
                let key = id.as_str().unwrap_or_default().to_owned();
                let work = self.replies.spawn(async move { Done::Answer { id, outcome: answer.await } });
                self.under_way.insert(key, work);
            }
        }
    }

    /// The first greeting has been heeded when the session was opened.
    async fn greet(&mut self, id: &Value, request: &HostLine) {
        let again = !std::mem::take(&mut self.greeted);
        let hooks = initialize::Initialize::read(request).hooks;
        let response = self.welcome.response(hooks.is_some().then_some(true));
        if let Some(hooks) = hooks.filter(|_| again) {
            self.hooks = Some(hooks.clone());
            self.session.send(Op::SetHooks { hooks, reply: Reply::nobody() });
        }
        let open = self.questions.values().map(|question| question.line.as_str());
        self.write(initialize::welcome_line(id, &response, open)).await;
    }
}

/// What the session says.
impl Link {
    async fn event(&mut self, event: &Event) {
        match &event.body {
            Body::Opened(opened) => {
                self.busy = true;
                self.deadline = None;
                self.opened = Some(opened.clone());
                self.tell_state().await;
            }
            Body::Ask(view) => self.asked(view).await,
            Body::AskClosed(ask) => self.ask_closed(*ask).await,
            Body::Task(task) => self.note_task(task),
            Body::TurnEnded(_) => self.flush_mirror().await,
            _ => {}
        }
        if let Some(line) = self.wire.line(event) {
            self.write(fit::fit(line)).await;
        }
        if matches!(event.body, Body::TurnEnded(_)) {
            self.busy = false;
            self.failed = self.wire.ended_badly();
            if self.interrupted {
                self.close();
            }
            self.settle();
        }
    }

    async fn asked(&mut self, view: &AskView) {
        let id = frames::new_id();
        let question = permission::question(&id, view).filter(|_| self.attended && !self.ended);
        let Some(question) = question else {
            refuse(&self.session, view.id);
            return;
        };
        let line = question.line.clone();
        self.questions.insert(id, question);
        self.tell_state().await;
        self.write(line).await;
    }

    /// A question that the host had not answered is withdrawn.
    async fn ask_closed(&mut self, ask: AskId) {
        let open = self.questions.iter().find(|(_, question)| question.ask == ask).map(|(id, _)| id.clone());
        if let Some(id) = open {
            self.questions.remove(&id);
            self.write(frames::cancel(&id)).await;
            self.tell_state().await;
        }
    }

    fn note_task(&mut self, task: &TaskView) {
        if !["local_agent", "local_workflow"].contains(&task.kind) {
            return;
        }
        if task.state == TaskState::Running {
            self.agents.insert(task.id.clone());
        } else if self.agents.remove(&task.id) {
            self.settle();
        }
    }

    /// The session has published its last event. Says whether that is the end of everything.
    fn session_is_over(&mut self) -> bool {
        match std::mem::replace(&mut self.phase, Phase::Live) {
            Phase::Closing(said) if !self.closing => {
                self.phase = Phase::Opening(said, self.backstage.reopen());
                false
            }
            Phase::Closing(_) | Phase::Opening(..) | Phase::Live => true,
        }
    }
}

/// Coming to rest, and what is done then.
impl Link {
    /// Finds out whether the session still has something to do: an operation that changes nothing is answered after
    /// everything before it was taken up.
    fn settle(&mut self) {
        let (reply, answer) = Reply::channel();
        self.session.send(Op::Withdraw { prompt: EntryId::new(""), reply });
        self.replies.spawn(async move {
            // A session that is over has taken up all it ever will.
            drop(answer.await);
            Done::Settled
        });
    }

    async fn done(&mut self, done: Done) {
        match done {
            Done::Answer { id, outcome } => {
                self.under_way.remove(id.as_str().unwrap_or_default());
                self.write(frames::answer(&id, outcome)).await;
            }
            Done::Settled if self.is_at_rest() => self.rest().await,
            Done::Settled => {}
        }
    }

    /// No turn runs or begins. Events that were published before a settling answer have been read by then.
    fn is_at_rest(&self) -> bool {
        !self.busy && !self.session.snapshot().busy && matches!(self.phase, Phase::Live)
    }

    async fn rest(&mut self) {
        match self.waiting.pop_front() {
            Some(Prompt::Say(say)) => {
                self.session.send(Op::Say(say));
                self.settle();
            }
            Some(Prompt::Local(said, Local::Nothing)) => self.local_turn(&said, Ok("")).await,
            Some(Prompt::Local(said, Local::Bad(problem))) => self.local_turn(&said, Err(problem)).await,
            Some(Prompt::Local(said, Local::Clear)) => self.clear(said).await,
            None if !self.agents.is_empty() => {
                if self.ended && self.deadline.is_none() {
                    self.deadline = self.patience.map(|patience| Instant::now() + patience);
                }
            }
            None => {
                if let Some(line) = self.states.rest(&self.session.id) {
                    self.write(line).await;
                }
                if self.ended {
                    self.close();
                }
            }
        }
    }

    /// A turn without the model.
    async fn local_turn(&mut self, said: &Said, outcome: Result<&str, String>) {
        self.begin_local(said).await;
        self.end_local(said, outcome).await;
    }

    async fn begin_local(&mut self, said: &Said) {
        self.wire.begin_afresh();
        if let Some(line) = self.states.change(State::Running, &self.session.id) {
            self.write(line).await;
        }
        let snapshot = self.session.snapshot();
        let opened = self.opened.as_deref().cloned().unwrap_or_default();
        let now = Opened { cwd: snapshot.cwd.clone(), model: snapshot.model.clone(), mode: snapshot.mode, ..opened };
        self.write(self.wire.init(&self.session.id, &now)).await;
        if let Some(message) = said.message.as_ref().filter(|_| self.replay_prompts) {
            let line = json!({"type": "user", "message": message, "parent_tool_use_id": null,
                "session_id": self.session.id, "uuid": said.uuid, "isReplay": true});
            self.write(fit::fit(line.to_string())).await;
        }
    }

    async fn end_local(&mut self, said: &Said, outcome: Result<&str, String>) {
        self.flush_mirror().await;
        self.failed = outcome.is_err();
        let origin = said.origin.as_ref();
        let used = &self.session.snapshot().by_model;
        let line = wire::local_result(&self.session.id, outcome, origin, used);
        self.write(line).await;
        self.settle();
    }

    /// Ends the conversation; a new one follows.
    async fn clear(&mut self, said: Said) {
        self.begin_local(&said).await;
        self.phase = Phase::Closing(said);
        // What runs in the background belongs to what is being forgotten.
        self.session.send(Op::interrupt());
        self.session.send(Op::Close);
    }

    /// The new conversation is there, or cannot be had.
    async fn go_on_in(&mut self, opened: Result<SessionHandle, String>) {
        let Phase::Opening(said, _) = std::mem::replace(&mut self.phase, Phase::Live) else { return };
        let new = match opened {
            Ok(new) => new,
            Err(problem) => {
                self.end_local(&said, Err(problem)).await;
                self.ended = true;
                self.closing = true;
                self.phase = Phase::Opening(said, Box::pin(std::future::pending()));
                return;
            }
        };
        // Before anything can happen in it.
        self.events = new.subscribe();
        let old = std::mem::replace(&mut self.session, new);
        let was = old.snapshot();
        self.session.send(Op::SetMode { mode: was.mode, reply: Reply::nobody() });
        self.session.send(Op::SetModel { model: Some(was.model.clone()), reply: Reply::nobody() });
        if let Some(hooks) = self.hooks.clone() {
            self.session.send(Op::SetHooks { hooks, reply: Reply::nobody() });
        }
        self.agents.clear();
        self.write(reset_line(&old.id, &self.session.id)).await;
        self.end_local(&said, Ok("")).await;
        for line in std::mem::take(&mut self.held) {
            // Boxed, because a held line may be what leads here again.
            Box::pin(self.host_line(line)).await;
        }
    }
}

/// Telling and ending.
impl Link {
    async fn tell_state(&mut self) {
        let state = match (self.questions.is_empty(), self.busy) {
            (false, _) => State::RequiresAction,
            (true, true) => State::Running,
            (true, false) => return,
        };
        if let Some(line) = self.states.change(state, &self.session.id) {
            self.write(line).await;
        }
    }

    async fn flush_mirror(&mut self) {
        while let Some(frame) = self.mirror.as_mut().and_then(MirrorFeed::frame) {
            self.write(frame).await;
        }
    }

    async fn write(&self, mut line: String) {
        line.push('\n');
        // A host that went away is noticed by `gone`.
        self.out.line(line.into_bytes()).await;
    }

    /// The person wants all of it to end: the turn first, then gimlet.
    fn stop(&mut self) {
        self.interrupted = true;
        self.end_of_lines();
        self.session.send(Op::interrupt());
        if !self.busy {
            self.close();
        }
    }

    fn close(&mut self) {
        if !std::mem::replace(&mut self.closing, true) {
            self.deadline = None;
            // Nobody is left for whom background commands could go on.
            self.session.send(Op::interrupt());
            self.session.send(Op::Close);
        }
    }
}

/// Answers a question for a host that cannot.
fn refuse(session: &SessionHandle, ask: AskId) {
    let answer = Answer::No { message: "Stream closed".to_owned(), interrupt: false };
    session.send(Op::Answer { ask, answer });
}

fn reset_line(old: &SessionId, new: &SessionId) -> String {
    json!({"type": "conversation_reset", "new_conversation_id": new, "trigger": "clear",
        "uuid": frames::new_id(), "session_id": old})
    .to_string()
}
