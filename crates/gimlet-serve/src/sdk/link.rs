//! The loop between a host and its session: what comes from one is passed to the other, in order.

mod hears;
mod rest;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use gimlet_proto::{
    Answer, AskId, AskView, Body, BoxFuture, DriverError, DriverHook, EntryId, Event, Inquiry, Leaving, Op,
    PermissionMode, PromptFate, Reader, Reply, ServerWish, SessionHandle, Standing, TaskState, TaskView,
};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use super::initialize::{Initialize, Welcome};
use super::lifecycle::Lifecycle;
use super::lines::HostLine;
use super::permission::{self, Question};
use super::prompts::{Prompt, Said};
use super::requests::{self, Backstage, Reopened, Tally};
use super::state::{State, States};
use super::{Answers, Host, HostRequests, MirrorFeed, SdkEnd, SdkJob, fit, frames};
use crate::wire::{Lines, Listener, Wire};
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
    /// The answer to an interrupt, which stands before the result of the turn that it ended.
    Receipt { id: Value, outcome: Result<Value, String> },
    /// A tool's answer to a question.
    Decided { ask: AskId, answer: Answer },
    /// Everything that was sent to the session before has been taken up. With the number of the question.
    Settled(u64),
}

/// Where the session is.
enum Phase {
    Live,
    /// Ending, to make room for a new one.
    Closing(Change),
    Opening(Change, BoxFuture<'static, Result<Reopened, String>>),
    /// There is none any more, and will be none; what somebody wanted with it came to nothing.
    Over(Option<Change>),
}

/// Who wants another session in place of this one.
enum Change {
    /// A command, for an empty conversation.
    Clear(Said),
    /// A greeting that came before any prompt but not first; this is the id of its request.
    Greeting { id: Value, wishes: Box<Initialize> },
}

struct Link {
    session: SessionHandle,
    leaving: Leaving,
    events: Reader,
    phase: Phase,
    wire: Wire,
    out: Output,
    states: States,
    host: Host,
    requests: HostRequests,
    backstage: Arc<dyn Backstage>,
    welcome: Welcome,
    answers: Answers,
    replay_prompts: bool,
    mirror: Option<MirrorFeed>,
    patience: Option<Duration>,
    /// Questions that a tool has been asked.
    deciding: HashMap<AskId, AbortHandle>,
    /// What the host has been asked, by request.
    questions: HashMap<String, Question>,
    /// A server asks the person something by way of the host.
    eliciting: bool,
    replies: JoinSet<Done>,
    /// How often it was asked whether the session has settled; only the last answer counts.
    settlings: u64,
    /// The requests of the host that are being answered.
    under_way: Vec<(Value, AbortHandle)>,
    /// Interrupts that the session has not answered yet, as far as we know.
    receipts: usize,
    /// Prompts behind one that gimlet answers by itself.
    waiting: VecDeque<Prompt>,
    /// Lines that came while one session gave way to another.
    held: VecDeque<HostLine>,
    seen: HashSet<EntryId>,
    lifecycle: Lifecycle,
    tally: Tally,
    /// Subagents at work: the session is not at rest before they are done.
    agents: HashSet<String>,
    /// What was said to the session that is ending; its successor has to know.
    standing: Option<oneshot::Receiver<Result<Standing, String>>>,
    /// When the session last said something.
    last_event: Option<Arc<str>>,
    /// Hooks that came later than the session.
    hooks: Option<Vec<DriverHook>>,
    /// The hooks of the first greeting are the session's already.
    greeted: bool,
    /// There was a greeting.
    welcomed: bool,
    /// What the session was opened with.
    wishes: Initialize,
    /// Its model and mode then.
    outset: (String, PermissionMode),
    /// The host can stop tasks one by one, so an interrupt leaves agents in the background alone.
    stops_tasks: bool,
    /// Something was said to it.
    begun: bool,
    busy: bool,
    /// The host has said its last line.
    ended: bool,
    deadline: Option<Instant>,
    closing: bool,
    /// gimlet has to go: nothing that was begun comes to a result.
    left: bool,
    /// What waits will never have its turn.
    forgets: bool,
    interrupted: bool,
    failed: bool,
    remark: Option<String>,
}

/// Runs the loop until the session is over.
pub(super) async fn drive(session: SessionHandle, job: SdkJob) -> Ended {
    let (mut lines, mut interrupts, first, notes) = (job.lines, job.interrupts, job.first, job.notes);
    let wanted = Lines {
        partial: job.partial,
        replay_prompts: job.replay_prompts,
        hook_events: job.hook_events,
        subagent_text: job.subagent_text,
    };
    let outset = (session.snapshot().model.clone(), session.snapshot().mode);
    let mut link = Link {
        events: session.subscribe(),
        leaving: session.leaving(),
        session,
        phase: Phase::Live,
        wire: Wire::new(wanted, Listener::Counts, job.face),
        out: job.out,
        states: States::new(job.states),
        host: job.host,
        requests: job.requests,
        backstage: job.backstage,
        welcome: job.welcome,
        answers: job.answers,
        replay_prompts: job.replay_prompts,
        mirror: job.mirror,
        patience: job.patience,
        deciding: HashMap::new(),
        questions: HashMap::new(),
        eliciting: false,
        replies: JoinSet::new(),
        settlings: 0,
        under_way: Vec::new(),
        receipts: 0,
        waiting: VecDeque::new(),
        held: VecDeque::new(),
        seen: HashSet::new(),
        lifecycle: Lifecycle::default(),
        tally: Tally::new(),
        agents: HashSet::new(),
        standing: None,
        last_event: None,
        hooks: None,
        greeted: job.wishes.is_some(),
        welcomed: false,
        stops_tasks: job.wishes.as_ref().and_then(|wishes| wishes.per_task_stop).unwrap_or(false),
        wishes: job.wishes.unwrap_or_default(),
        outset,
        begun: false,
        busy: false,
        ended: false,
        deadline: None,
        closing: false,
        left: false,
        forgets: false,
        interrupted: false,
        failed: false,
        remark: None,
    };
    link.line(first).await;
    let mut gone = false;
    loop {
        tokio::select! {
            biased;
            Some(()) = interrupts.recv() => link.stop().await,
            () = link.leaving.wanted(), if !link.left => (link.left, link.closing, link.deadline) = (true, true, None),
            () = link.out.gone(), if !gone => {
                gone = true;
                // Whoever cannot be asked does not answer either.
                link.end_of_lines();
                link.session.send(Op::interrupt());
                link.close();
            }
            line = lines.next(), if !link.ended => link.line(line).await,
            // What the session said before it asked is written before the question.
            event = link.events.next(), if !matches!(link.phase, Phase::Opening(..)) => match event {
                Some(event) => link.event(&event).await,
                None => link.session_is_over(),
            },
            opened = next_session(&mut link.phase) => {
                if let Ok(new) = &opened {
                    notes.remarks(&new.warnings).await;
                }
                link.go_on_in(opened).await;
            }
            Some(done) = link.replies.join_next() => link.work_ended(done).await,
            Some(line) = link.requests.lines.recv() => link.host_request(line).await,
            () = mirrored(&mut link.mirror) => link.flush_mirror().await,
            () = passed(link.deadline) => link.close(),
        }
        if matches!(link.phase, Phase::Opening(..)) && link.closing {
            link.session_is_over();
        }
        if matches!(link.phase, Phase::Over(_)) {
            break;
        }
    }
    link.leave().await;
    let end = match (link.remark.is_some() || link.failed, link.interrupted) {
        (_, true) => SdkEnd::Interrupted,
        (true, false) => SdkEnd::Failure,
        (false, false) => SdkEnd::Success,
    };
    Ended { end, out: link.out, notes, remark: link.remark }
}

async fn next_session(phase: &mut Phase) -> Result<Reopened, String> {
    match phase {
        Phase::Opening(_, opening) => opening.await,
        Phase::Live | Phase::Closing(_) | Phase::Over(_) => std::future::pending().await,
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

/// What the session says.
impl Link {
    async fn event(&mut self, event: &Event) {
        self.last_event = Some(event.at.clone());
        match &event.body {
            Body::Opened(_) => {
                self.busy = true;
                self.deadline = None;
                self.tell_state().await;
            }
            Body::Ask(view) => self.asked(view).await,
            Body::AskClosed(ask) => self.ask_closed(*ask).await,
            Body::Task(task) => self.note_task(task),
            Body::PromptFate { prompt, fate } => {
                let told = match fate {
                    // Nobody withdrew it: gimlet ends before its turn.
                    PromptFate::Withdrawn if self.forgets => self.lifecycle.discarded(prompt, &self.session.id),
                    fate => self.lifecycle.fate(prompt, *fate, &self.session.id),
                };
                self.write_all(told).await;
            }
            Body::ToolFinished(finished) => self.tally.result(finished),
            Body::TurnEnded(report) => {
                self.tally.turn(report);
                self.finish_before_result().await;
                self.flush_mirror().await;
                let mut told = self.lifecycle.turn_ended(&self.session.id);
                if self.forgets {
                    // No turn follows this one, and nothing may follow its result.
                    told.extend(self.lifecycle.all_discarded(&self.session.id));
                }
                self.write_all(told).await;
            }
            _ => {}
        }
        let recounted = self.with_all_waiting(event);
        for line in self.wire.lines(recounted.as_ref().unwrap_or(event)) {
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

    /// The end of a turn that counts the prompts that wait here, besides those in the session.
    fn with_all_waiting(&self, event: &Event) -> Option<Event> {
        let Body::TurnEnded(report) = &event.body else { return None };
        let here = Some(self.turns_waiting()).filter(|here| *here > 0)?;
        let mut report = report.clone();
        report.queued += here;
        Some(Event { body: Body::TurnEnded(report), ..event.clone() })
    }

    /// How many prompts wait here for their turn.
    fn turns_waiting(&self) -> usize {
        self.waiting.iter().filter(|prompt| !prompt.is_silent()).count()
    }

    /// What the turn's end has settled is told before its result: the receipt of an interrupt, and what was withdrawn.
    async fn finish_before_result(&mut self) {
        // The session has answered already, or does so next; whoever waits for that only has to get their turn.
        while self.receipts > 0
            && let Some(done) = self.replies.join_next().await
        {
            self.work_ended(done).await;
        }
        while let Some(done) = self.replies.try_join_next() {
            self.work_ended(done).await;
        }
        while let Ok(line) = self.requests.lines.try_recv() {
            self.host_request(line).await;
        }
    }

    /// A request to the host that is not the loop's own, or its withdrawal.
    async fn host_request(&mut self, line: String) {
        self.note_eliciting().await;
        self.write(fit::fit(line)).await;
    }

    /// Whether the session waits for a person may have changed.
    async fn note_eliciting(&mut self) {
        let eliciting = self.host.is_eliciting();
        if std::mem::replace(&mut self.eliciting, eliciting) != eliciting {
            self.tell_state().await;
        }
    }

    async fn asked(&mut self, view: &AskView) {
        // Nobody can say yes to what they cannot see whole.
        if permission::is_too_long(view) {
            let why = "the input is too long to be shown whole; use a smaller one".to_owned();
            self.session.send(Op::Answer { ask: view.id, answer: Answer::Unasked(why) });
            return;
        }
        let id = frames::new_id();
        let question = permission::question(&id, view);
        let question = match (&self.answers, question) {
            (Answers::Tool(tool), Some(question)) => {
                let tool = tool.clone();
                return self.ask_tool(tool, view.id, question);
            }
            (Answers::Host, Some(question)) if !self.ended && !self.interrupted => question,
            _ => {
                let answer = Answer::Unasked(DriverError::Closed.to_string());
                self.session.send(Op::Answer { ask: view.id, answer });
                return;
            }
        };
        let line = question.line.clone();
        self.questions.insert(id, question);
        self.tell_state().await;
        self.write(line).await;
    }

    /// Lets a tool decide. Whatever keeps it from answering is no yes.
    fn ask_tool(&mut self, tool: String, ask: AskId, question: Question) {
        let (reply, answer) = Reply::channel();
        let wish = ServerWish::Decide { tool: tool.clone(), input: question.for_tool() };
        self.session.send(Op::Inquire(Inquiry::OfServer { wish, reply }));
        let work = self.replies.spawn(async move {
            let said = requests::answered(answer).await.and_then(|result| permission::tool_says(&result));
            let said = said.map_err(|why| format!("--permission-prompt-tool {tool}: {why}"));
            Done::Decided { ask, answer: question.read(said) }
        });
        self.deciding.insert(ask, work);
    }

    /// A question that was not answered is withdrawn.
    async fn ask_closed(&mut self, ask: AskId) {
        if let Some(work) = self.deciding.remove(&ask) {
            work.abort();
        }
        let open = self.questions.iter().find(|(_, question)| question.ask == ask).map(|(id, _)| id.clone());
        if let Some(id) = open {
            self.questions.remove(&id);
            self.write(frames::cancel(&id)).await;
            self.tell_state().await;
        }
    }

    fn note_task(&mut self, task: &TaskView) {
        if task.kind != "local_agent" {
            return;
        }
        if task.state == TaskState::Running {
            self.agents.insert(task.id.clone());
        } else if self.agents.remove(&task.id) {
            self.settle();
        }
    }

    /// The session has published its last event: a new one follows, or nothing does.
    fn session_is_over(&mut self) {
        self.phase = match std::mem::replace(&mut self.phase, Phase::Over(None)) {
            Phase::Closing(change) if !self.closing => {
                let opening = self.backstage.reopen(self.reopening(&change));
                Phase::Opening(change, opening)
            }
            Phase::Closing(change) | Phase::Opening(change, _) => Phase::Over(Some(change)),
            Phase::Live => Phase::Over(None),
            over @ Phase::Over(_) => over,
        };
    }
}

/// Telling and ending.
impl Link {
    async fn tell_state(&mut self) {
        let is_asking = self.eliciting || !self.questions.is_empty();
        let state = match (is_asking, self.busy) {
            (true, _) => State::RequiresAction,
            (false, true) => State::Running,
            // It was a subagent in the background that had asked.
            (false, false) if !self.agents.is_empty() => State::Running,
            (false, false) => return self.settle(),
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

    async fn write_all(&self, lines: Vec<String>) {
        for line in lines {
            self.write(line).await;
        }
    }

    async fn write(&self, mut line: String) {
        line.push('\n');
        // A host that went away is noticed by `gone`.
        self.out.line(line.into_bytes()).await;
    }

    /// The person wants all of it to end: the turn first, then gimlet. The host is still there for the hooks of the end.
    async fn stop(&mut self) {
        self.interrupted = true;
        self.refuse_open();
        self.forget_waiting().await;
        if !self.busy {
            self.close();
        }
    }

    /// What is left to be told at the very end.
    async fn leave(&mut self) {
        let told = self.lifecycle.all_discarded(&self.session.id);
        self.write_all(told).await;
        for (id, work) in std::mem::take(&mut self.under_way) {
            work.abort();
            self.write(frames::answer(&id, Err("gimlet ended before it had the answer".to_owned()))).await;
        }
        match std::mem::replace(&mut self.phase, Phase::Over(None)) {
            Phase::Over(Some(Change::Clear(said))) if !self.left => {
                let problem = "gimlet was stopped before the new conversation began".to_owned();
                self.end_local(&said, Err(problem)).await;
            }
            Phase::Over(Some(Change::Greeting { id, .. })) => {
                let problem = "gimlet was stopped before the session began".to_owned();
                self.write(frames::answer(&id, Err(problem))).await;
            }
            _ => self.flush_mirror().await,
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

/// Answers a question for a host that was asked and cannot answer any more.
fn refuse(session: &SessionHandle, ask: AskId) {
    let answer = Answer::No { message: DriverError::Closed.to_string(), interrupt: false };
    session.send(Op::Answer { ask, answer });
}
