//! The loop between a host and its session: forwards messages in both directions, in order.

mod idle;
mod inbound;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use gimlet_proto::{
    AskAnswer, AskBody, AskId, AskView, BoxFuture, DriverError, DriverHook, ElicitationAsk, EntryId, Event, EventBody,
    EventReader, ExitSignal, Host, Op, OpReply, OpenedSession, PermissionMode, PromptOutcome, ServerRequest,
    SessionHandle, SessionOverrides, SessionQuery, TaskState, TaskView,
};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use super::control_requests::{self, SessionUsageTally};
use super::host_lines::HostLine;
use super::host_prompt::{HostPrompt, LocalPrompt};
use super::initialize::{InitializeRequest, InitializeResponse};
use super::permission_question::{self, PermissionQuestion};
use super::prompt_lifecycle::PromptLifecycle;
use super::session_state::{SdkSessionState, StateReporter};
use super::{
    HostDriver, HostRequests, MirrorFeed, PermissionResponder, SdkEnd, SdkJob, control_frames, elicitation_request,
    truncate,
};
use crate::line_output::LineOutput;
use crate::print::format_unknown_command;
use crate::wire::{WireConsumer, WireEncoder, WireOptions};

/// Result of the loop, with the outputs to be finished.
pub(super) struct LoopEnd {
    pub(super) end: SdkEnd,
    pub(super) out: LineOutput,
    pub(super) notes: LineOutput,
    /// Error in the host's lines.
    pub(super) remark: Option<String>,
}

/// Result of work that runs beside the loop.
enum FinishedWork {
    /// The answer to a request from the host.
    Answer { id: Value, outcome: Result<Value, String> },
    /// The answer to an interrupt, which precedes the result of the turn that it ended.
    Receipt { id: Value, outcome: Result<Value, String> },
    /// A tool's answer to a permission question.
    Decision { ask: AskId, answer: AskAnswer },
    /// Everything sent to the session before has been processed. Carries the number of the idle check.
    Drained(u64),
}

/// Phase of the session.
enum SessionPhase {
    Live,
    /// Ending, to make room for a new one.
    Closing(SessionSwitch),
    Opening(SessionSwitch, BoxFuture<'static, Result<OpenedSession, String>>),
    /// There is no session any more and there will be none; a switch that was requested failed.
    Over(Option<SessionSwitch>),
}

/// Request for another session in place of this one.
enum SessionSwitch {
    /// A command, for an empty conversation.
    Clear(LocalPrompt),
    /// An initialize request that came before any prompt but not first; `id` is the id of the request.
    Initialize { id: Value, wishes: Box<InitializeRequest> },
}

struct SdkSession {
    session: SessionHandle,
    leaving: ExitSignal,
    events: EventReader,
    phase: SessionPhase,
    wire: WireEncoder,
    out: LineOutput,
    states: StateReporter,
    host: HostDriver,
    requests: HostRequests,
    backend: Arc<dyn Host>,
    /// Returns the current time in the format of transcripts.
    clock: fn() -> String,
    initialize_response: InitializeResponse,
    responder: PermissionResponder,
    replay_prompts: bool,
    mirror: Option<MirrorFeed>,
    agent_timeout: Option<Duration>,
    /// Questions that were sent to a permission tool.
    tool_decisions: HashMap<AskId, AbortHandle>,
    /// Questions that were sent to the host, by request id.
    questions: HashMap<String, PermissionQuestion>,
    /// Questions of servers that were sent to the host, by request id.
    elicitations: HashMap<String, AskId>,
    replies: JoinSet<FinishedWork>,
    /// Number of idle checks so far; only the latest answer counts.
    idle_checks: u64,
    /// Requests from the host that are being answered.
    running_requests: Vec<(Value, AbortHandle)>,
    /// Interrupts that the session has not answered yet, as far as known here.
    open_receipts: usize,
    /// Prompts queued behind one that gimlet answers itself.
    waiting: VecDeque<HostPrompt>,
    /// Lines that arrived while one session was replaced by another.
    held_lines: VecDeque<HostLine>,
    seen_prompts: HashSet<EntryId>,
    lifecycle: PromptLifecycle,
    usage: SessionUsageTally,
    /// Running subagents: the session is not idle before they are done.
    agents: HashSet<String>,
    /// Overrides of the session that is ending, for its successor.
    overrides: Option<oneshot::Receiver<Result<SessionOverrides, String>>>,
    /// Time of the session's last event.
    last_event: Option<Arc<str>>,
    /// Hooks that were registered after the session was opened.
    hooks: Option<Vec<DriverHook>>,
    /// True if the hooks of the first initialize request already belong to the session.
    first_initialize_applied: bool,
    /// True once an initialize request was received.
    is_initialized: bool,
    /// The initialize request that the session was opened with.
    opened_with: InitializeRequest,
    /// Model and mode of the session when it was opened.
    initial_model_and_mode: (String, PermissionMode),
    /// True if the host can stop tasks one by one, so that an interrupt does not stop background agents.
    has_task_stop: bool,
    /// True once a prompt was sent to the session.
    has_prompts: bool,
    busy: bool,
    /// True once the host has sent its last line.
    input_ended: bool,
    deadline: Option<Instant>,
    closing: bool,
    /// True while gimlet shuts down: work in progress reaches no result.
    is_leaving: bool,
    /// True if waiting prompts will never be started.
    discards_waiting: bool,
    interrupted: bool,
    failed: bool,
    remark: Option<String>,
}

/// Runs the loop until the session is over.
pub(super) async fn run_session_loop(session: SessionHandle, job: SdkJob) -> LoopEnd {
    let (mut lines, mut interrupts, first, notes) = (job.lines, job.interrupts, job.first, job.notes);
    let wanted = WireOptions {
        partial: job.partial,
        replay_prompts: job.replay_prompts,
        hook_events: job.hook_events,
        subagent_text: job.subagent_text,
    };
    let outset = (session.snapshot().model.clone(), session.snapshot().mode);
    let mut link = SdkSession {
        events: session.subscribe(),
        leaving: session.exit_signal(),
        session,
        phase: SessionPhase::Live,
        wire: WireEncoder::new(wanted, WireConsumer::TracksAgents, super::init_facts(&job.facts)),
        out: job.out,
        states: StateReporter::new(job.state_audience),
        host: job.host,
        requests: job.requests,
        backend: job.backend,
        clock: job.clock,
        initialize_response: InitializeResponse::from_facts(&job.facts),
        responder: job.responder,
        replay_prompts: job.replay_prompts,
        mirror: job.mirror,
        agent_timeout: job.agent_timeout,
        tool_decisions: HashMap::new(),
        questions: HashMap::new(),
        elicitations: HashMap::new(),
        replies: JoinSet::new(),
        idle_checks: 0,
        running_requests: Vec::new(),
        open_receipts: 0,
        waiting: VecDeque::new(),
        held_lines: VecDeque::new(),
        seen_prompts: HashSet::new(),
        lifecycle: PromptLifecycle::default(),
        usage: SessionUsageTally::new(),
        agents: HashSet::new(),
        overrides: None,
        last_event: None,
        hooks: None,
        first_initialize_applied: job.initialize.is_some(),
        is_initialized: false,
        has_task_stop: job.initialize.as_ref().and_then(|wishes| wishes.per_task_stop).unwrap_or(false),
        opened_with: job.initialize.unwrap_or_default(),
        initial_model_and_mode: outset,
        has_prompts: false,
        busy: false,
        input_ended: false,
        deadline: None,
        closing: false,
        is_leaving: false,
        discards_waiting: false,
        interrupted: false,
        failed: false,
        remark: None,
    };
    link.handle_line(first).await;
    let mut gone = false;
    loop {
        tokio::select! {
            biased;
            Some(()) = interrupts.recv() => link.begin_stop().await,
            () = link.leaving.wait_for_request(), if !link.is_leaving => (link.is_leaving, link.closing, link.deadline) = (true, true, None),
            () = link.out.gone(), if !gone => {
                gone = true;
                // A host that cannot be asked does not answer either.
                link.handle_input_end();
                link.session.send(Op::interrupt());
                link.close_session();
            }
            line = lines.next(), if !link.input_ended => link.handle_line(line).await,
            // Events published before a question are written before it.
            event = link.events.next(), if !matches!(link.phase, SessionPhase::Opening(..)) => match event {
                Some(event) => {
                    if let EventBody::UnknownCommand { name, nearest } = &event.body {
                        notes.queue_remarks(&[format_unknown_command(name, nearest)]).await;
                    }
                    link.handle_event(&event).await
                }
                None => link.handle_session_end(),
            },
            opened = await_reopened(&mut link.phase) => {
                if let Ok(new) = &opened {
                    notes.queue_remarks(&new.warnings).await;
                }
                link.handle_reopened(opened).await;
            }
            Some(done) = link.replies.join_next() => link.handle_work_end(done).await,
            Some(line) = link.requests.lines.recv() => link.forward_request(line).await,
            () = await_mirror(&mut link.mirror) => link.flush_mirror().await,
            () = await_deadline(link.deadline) => link.close_session(),
        }
        if matches!(link.phase, SessionPhase::Opening(..)) && link.closing {
            link.handle_session_end();
        }
        if matches!(link.phase, SessionPhase::Over(_)) {
            break;
        }
    }
    link.write_last_answers().await;
    let end = match (link.remark.is_some() || link.failed, link.interrupted) {
        (_, true) => SdkEnd::Interrupted,
        (true, false) => SdkEnd::Failure,
        (false, false) => SdkEnd::Success,
    };
    LoopEnd { end, out: link.out, notes, remark: link.remark }
}

async fn await_reopened(phase: &mut SessionPhase) -> Result<OpenedSession, String> {
    match phase {
        SessionPhase::Opening(_, opening) => opening.await,
        SessionPhase::Live | SessionPhase::Closing(_) | SessionPhase::Over(_) => std::future::pending().await,
    }
}

async fn await_mirror(mirror: &mut Option<MirrorFeed>) {
    match mirror {
        Some(mirror) => mirror.wait_ready().await,
        None => std::future::pending().await,
    }
}

async fn await_deadline(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Events from the session.
impl SdkSession {
    async fn handle_event(&mut self, event: &Event) {
        self.last_event = Some(event.at.clone());
        match &event.body {
            EventBody::TurnStarting(_) => {
                self.busy = true;
                self.deadline = None;
                self.write_state().await;
            }
            EventBody::Ask(view) => self.handle_ask(view).await,
            EventBody::AskClosed(ask) => self.handle_ask_closed(*ask).await,
            EventBody::Task(task) => self.track_agent_task(task),
            EventBody::PromptOutcome { prompt, outcome: fate } => {
                let told = match fate {
                    // The host did not withdraw it: gimlet ends before the prompt is started.
                    PromptOutcome::Withdrawn if self.discards_waiting => {
                        self.lifecycle.mark_discarded(prompt, &self.session.id)
                    }
                    fate => self.lifecycle.apply_outcome(prompt, *fate, &self.session.id),
                };
                self.write_lines(told).await;
            }
            EventBody::ToolFinished(finished) => self.usage.add_result(finished),
            EventBody::TurnEnded(report) => {
                self.usage.add_turn(report);
                self.flush_before_result().await;
                self.flush_mirror().await;
                let mut told = self.lifecycle.complete_started(&self.session.id);
                if self.discards_waiting {
                    // No turn follows this one, and nothing may follow its result.
                    told.extend(self.lifecycle.discard_all(&self.session.id));
                }
                self.write_lines(told).await;
            }
            EventBody::Prompt(_)
            | EventBody::Requesting
            | EventBody::BlockStarted { .. }
            | EventBody::Delta(_)
            | EventBody::ReplyDiscarded
            | EventBody::Wire(_)
            | EventBody::Block(_)
            | EventBody::Tool(_)
            | EventBody::Denied(_)
            | EventBody::Retry(_)
            | EventBody::RateLimits(_)
            | EventBody::CacheBreak(_)
            | EventBody::ReplyAnomalies(_)
            | EventBody::Notice(_)
            | EventBody::Hook(_)
            | EventBody::Compaction(_)
            | EventBody::CommandReply(_)
            | EventBody::UnknownCommand { .. }
            | EventBody::ModeChanged(_)
            | EventBody::Closed => {}
        }
        let recounted = self.with_waiting_count(event);
        for line in self.wire.encode_event(recounted.as_ref().unwrap_or(event)) {
            self.write_line(truncate::truncate_line(line)).await;
        }
        if matches!(event.body, EventBody::TurnEnded(_)) {
            self.busy = false;
            self.failed = self.wire.has_failed();
            if self.interrupted {
                self.close_session();
            }
            self.check_idle();
        }
    }

    /// Returns the end of a turn with the prompts that wait here added to those in the session.
    fn with_waiting_count(&self, event: &Event) -> Option<Event> {
        let EventBody::TurnEnded(report) = &event.body else { return None };
        let here = self.count_waiting_turns();
        if here == 0 {
            return None;
        }
        let mut report = report.clone();
        report.queued += here;
        Some(Event { body: EventBody::TurnEnded(report), ..event.clone() })
    }

    /// Returns the number of prompts that wait here for their turn.
    fn count_waiting_turns(&self) -> usize {
        self.waiting.iter().filter(|prompt| !prompt.is_silent()).count()
    }

    /// Writes lines that must precede a turn's result: the answer to an interrupt, and withdrawn requests.
    async fn flush_before_result(&mut self) {
        // The session has answered already or does so next; the tasks that wait for it only have to be polled.
        while self.open_receipts > 0
            && let Some(done) = self.replies.join_next().await
        {
            self.handle_work_end(done).await;
        }
        while let Some(done) = self.replies.try_join_next() {
            self.handle_work_end(done).await;
        }
        while let Ok(line) = self.requests.lines.try_recv() {
            self.forward_request(line).await;
        }
    }

    /// Forwards a request to the host that is not the loop's own, or its withdrawal.
    async fn forward_request(&mut self, line: String) {
        self.write_line(truncate::truncate_line(line)).await;
    }

    async fn handle_ask(&mut self, view: &AskView) {
        if let AskBody::Elicitation(question) = &view.body {
            return self.forward_elicitation(view.id, question).await;
        }
        // A call that cannot be shown whole must not be approved.
        if permission_question::is_input_too_long(view) {
            let why = "the input is too long to be shown whole; use a smaller one".to_owned();
            self.session.send(Op::Answer { ask: view.id, answer: AskAnswer::NotAsked(why) });
            return;
        }
        let id = control_frames::new_id();
        let question = permission_question::build_question(&id, view);
        let question = match (&self.responder, question) {
            (PermissionResponder::Tool(tool), Some(question)) => {
                let tool = tool.clone();
                return self.ask_permission_tool(tool, view.id, question);
            }
            (PermissionResponder::Host, Some(question)) if !self.input_ended && !self.interrupted => question,
            _ => {
                let answer = AskAnswer::NotAsked(DriverError::Closed.to_string());
                self.session.send(Op::Answer { ask: view.id, answer });
                return;
            }
        };
        let line = question.line.clone();
        self.questions.insert(id, question);
        self.write_state().await;
        self.write_line(line).await;
    }

    /// Passes a server's question on to the host.
    async fn forward_elicitation(&mut self, ask: AskId, question: &ElicitationAsk) {
        let id = control_frames::new_id();
        let line = if self.input_ended { None } else { elicitation_request::build_request(&id, question) };
        let Some(line) = line else {
            let answer = AskAnswer::NotAsked(DriverError::Closed.to_string());
            return self.session.send(Op::Answer { ask, answer });
        };
        self.elicitations.insert(id, ask);
        self.write_state().await;
        self.write_line(line).await;
    }

    /// Asks a tool to decide. Any failure of the tool counts as a denial.
    fn ask_permission_tool(&mut self, tool: String, ask: AskId, question: PermissionQuestion) {
        let (reply, answer) = OpReply::channel();
        let wish = ServerRequest::Decide { tool: tool.clone(), input: question.to_tool_input() };
        self.session.send(Op::Query(SessionQuery::ServerRequest { wish, reply }));
        let work = self.replies.spawn(async move {
            let said = control_requests::await_reply(answer)
                .await
                .and_then(|result| permission_question::parse_tool_decision(&result));
            let said = said.map_err(|why| format!("--permission-prompt-tool {tool}: {why}"));
            FinishedWork::Decision { ask, answer: question.parse_answer(said) }
        });
        self.tool_decisions.insert(ask, work);
    }

    /// Withdraws a question that was closed without an answer.
    async fn handle_ask_closed(&mut self, ask: AskId) {
        if let Some(work) = self.tool_decisions.remove(&ask) {
            work.abort();
        }
        let mut open = self.questions.iter().map(|(id, question)| (id, question.ask));
        let mut of_servers = self.elicitations.iter().map(|(id, ask)| (id, *ask));
        let is_this = |(_, open): &(&String, AskId)| *open == ask;
        let open = open.find(is_this).or_else(|| of_servers.find(is_this)).map(|(id, _)| id.clone());
        if let Some(id) = open {
            self.questions.remove(&id);
            self.elicitations.remove(&id);
            self.write_line(control_frames::cancel_line(&id)).await;
            self.write_state().await;
        }
    }

    fn track_agent_task(&mut self, task: &TaskView) {
        if task.kind != "local_agent" {
            return;
        }
        if task.state == TaskState::Running {
            self.agents.insert(task.id.clone());
        } else if self.agents.remove(&task.id) {
            self.check_idle();
        }
    }

    /// Handles the session's last event: a new session follows, or none.
    fn handle_session_end(&mut self) {
        self.phase = match std::mem::replace(&mut self.phase, SessionPhase::Over(None)) {
            SessionPhase::Closing(change) if !self.closing => {
                let opening = self.backend.replace_session(self.replacement(&change));
                SessionPhase::Opening(change, opening)
            }
            SessionPhase::Closing(change) | SessionPhase::Opening(change, _) => SessionPhase::Over(Some(change)),
            SessionPhase::Live => SessionPhase::Over(None),
            over @ SessionPhase::Over(_) => over,
        };
    }
}

/// Output and shutdown.
impl SdkSession {
    async fn write_state(&mut self) {
        let is_asking = !self.elicitations.is_empty() || !self.questions.is_empty();
        let state = match (is_asking, self.busy) {
            (true, _) => SdkSessionState::RequiresAction,
            (false, true) => SdkSessionState::Running,
            // The question came from a background subagent.
            (false, false) if !self.agents.is_empty() => SdkSessionState::Running,
            (false, false) => return self.check_idle(),
        };
        if let Some(line) = self.states.report_change(state, &self.session.id) {
            self.write_line(line).await;
        }
    }

    async fn flush_mirror(&mut self) {
        while let Some(frame) = self.mirror.as_mut().and_then(MirrorFeed::next_frame) {
            self.write_line(frame).await;
        }
    }

    async fn write_lines(&self, lines: Vec<String>) {
        for line in lines {
            self.write_line(line).await;
        }
    }

    async fn write_line(&self, mut line: String) {
        line.push('\n');
        // A host that went away is detected by `gone`.
        self.out.line(line.into_bytes()).await;
    }

    /// Begins the shutdown that the user requested: first the turn ends, then gimlet. The host is still there for the
    /// hooks of the session's end.
    async fn begin_stop(&mut self) {
        self.interrupted = true;
        self.deny_open_asks();
        self.interrupt_and_discard().await;
        if !self.busy {
            self.close_session();
        }
    }

    /// Writes the remaining answers at the very end.
    async fn write_last_answers(&mut self) {
        let told = self.lifecycle.discard_all(&self.session.id);
        self.write_lines(told).await;
        for (id, work) in std::mem::take(&mut self.running_requests) {
            work.abort();
            self.write_line(control_frames::answer_line(&id, Err("gimlet ended before it had the answer".to_owned())))
                .await;
        }
        match std::mem::replace(&mut self.phase, SessionPhase::Over(None)) {
            SessionPhase::Over(Some(SessionSwitch::Clear(said))) if !self.is_leaving => {
                let problem = "gimlet was stopped before the new conversation began".to_owned();
                self.end_local_turn(&said, Err(problem)).await;
            }
            SessionPhase::Over(Some(SessionSwitch::Initialize { id, .. })) => {
                let problem = "gimlet was stopped before the session began".to_owned();
                self.write_line(control_frames::answer_line(&id, Err(problem))).await;
            }
            _ => self.flush_mirror().await,
        }
    }

    fn close_session(&mut self) {
        if !std::mem::replace(&mut self.closing, true) {
            self.deadline = None;
            // No host is left for whom background commands could continue.
            self.session.send(Op::interrupt());
            self.session.send(Op::Close);
        }
    }
}

/// Denies a question on behalf of a host that can no longer answer it.
fn deny_ask(session: &SessionHandle, ask: AskId) {
    let answer = AskAnswer::No { message: DriverError::Closed.to_string(), interrupt: false };
    session.send(Op::Answer { ask, answer });
}
