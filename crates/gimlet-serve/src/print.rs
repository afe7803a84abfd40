//! Print mode: one prompt (or a stream of them) in, the answer out, an exit code at the end.

mod permission_flags;
mod permission_tool;
mod progress_notes;

pub(crate) use progress_notes::format_unknown_command;

use std::time::Duration;

use gimlet_proto::{
    Event, EventBody, EventReader, Notice, NoticeLevel, Op, SessionHandle, StopCause, SubmittedPrompt, TurnEnd,
    TurnReport,
};
use gimlet_text::enclose_in_tag;
use permission_tool::PermissionTool;
use tokio::sync::mpsc;

use crate::line_output::{LineOutput, OutputEnd};
use crate::piped_input::PipedInput;
use crate::sanitise;
use crate::wire::{self, InitFacts, WireConsumer, WireEncoder, WireOptions};

/// Timeout for draining the remarks. The answer itself waits for its reader, as in every program that writes to a pipe:
/// it may be read page by page.
pub(crate) const DRAIN: Duration = Duration::from_secs(30);

/// Output format of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrintFormat {
    /// The final text.
    Text,
    /// One result object.
    Json,
    /// One JSON object per line, as events happen.
    StreamJson,
}

/// Inputs of print mode.
pub struct PrintJob {
    pub format: PrintFormat,
    pub verbose: bool,
    pub partial: bool,
    /// Shows the text of subagents besides their actions.
    pub subagent_text: bool,
    /// Shows every hook that runs.
    pub hook_events: bool,
    /// True if the session can be resumed later.
    pub is_saved: bool,
    /// Facts about the session that programs receive.
    pub init_facts: InitFacts,
    /// Tool of a server that answers permission questions.
    pub permission_tool: Option<String>,
    /// The first prompt, complete.
    pub prompt: SubmittedPrompt,
    /// Source of further input.
    pub input: Option<PipedInput>,
    /// Output for the answer.
    pub out: LineOutput,
    /// Output for remarks.
    pub notes: LineOutput,
    /// One message per request to stop the turn.
    pub interrupts: mpsc::UnboundedReceiver<()>,
}

/// Outcome of print mode; the binary turns it into an exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrintEnd {
    Success,
    Failure,
    Interrupted,
    /// The reader of the output has gone away.
    OutputClosed,
}

/// Runs a session in print mode to its end.
pub async fn run(handle: SessionHandle, job: PrintJob) -> PrintEnd {
    let events = handle.subscribe();
    let PrintJob {
        format,
        verbose,
        partial,
        subagent_text,
        hook_events,
        is_saved: saved,
        init_facts: face,
        permission_tool,
        prompt,
        input,
        out,
        notes,
        interrupts,
    } = job;
    let mut printer = EventPrinter {
        format,
        verbose,
        wire: WireEncoder::new(
            WireOptions { partial, replay_prompts: false, hook_events, subagent_text },
            WireConsumer::ReadsOutput,
            face,
        ),
        out,
        notes,
        collected: Vec::new(),
        held_note: None,
        retried: false,
        saved,
        has_begun: false,
        unfinished: false,
        failed: false,
        interrupted: false,
    };
    handle.send(Op::Submit(prompt));
    let mut end =
        run_event_loop(&handle, events, input, interrupts, PermissionTool::new(permission_tool), &mut printer).await;
    if printer.interrupted && end == PrintEnd::Failure {
        end = PrintEnd::Interrupted;
    }
    let written = printer.out.finish(None).await;
    let (end, remark) = match written {
        OutputEnd::Complete => (end, None),
        OutputEnd::Closed => (PrintEnd::OutputClosed, None),
        OutputEnd::Failed(error) => (PrintEnd::Failure, Some(format!("the answer could not be written: {error}"))),
        OutputEnd::Late => (PrintEnd::Failure, Some("the answer could not be written".to_owned())),
    };
    if let Some(remark) = remark {
        printer.notes.line(format!("gimlet: {remark}\n").into_bytes()).await;
    }
    if printer.format == PrintFormat::Text && printer.unfinished && printer.has_begun && printer.saved {
        let way = format!("gimlet: to continue: gimlet -p --resume {} \"…\"\n", handle.id);
        printer.notes.line(way.into_bytes()).await;
    }
    printer.notes.finish(Some(DRAIN)).await;
    end
}

fn send_prompt(handle: &SessionHandle, text: &str) {
    handle.send(Op::Submit(SubmittedPrompt::from_text(text)));
}

async fn run_event_loop(
    handle: &SessionHandle,
    mut events: EventReader,
    mut input: Option<PipedInput>,
    mut interrupts: mpsc::UnboundedReceiver<()>,
    mut permission_tool: PermissionTool,
    printer: &mut EventPrinter,
) -> PrintEnd {
    let mut busy = true;
    let mut closing = false;
    let mut close = |handle: &SessionHandle| {
        if !std::mem::replace(&mut closing, true) {
            handle.send(Op::Close);
        }
    };
    loop {
        tokio::select! {
            biased;
            Some(()) = interrupts.recv() => {
                printer.interrupted = true;
                input = None;
                handle.send(Op::interrupt());
                if !busy {
                    close(handle);
                }
            }
            () = printer.out.gone() => {
                handle.send(Op::interrupt());
                close(handle);
                while events.next().await.is_some() {}
                break;
            }
            (ask, answer) = permission_tool.next_decision() => handle.send(Op::Answer { ask, answer }),
            event = events.next() => {
                let Some(event) = event else { break };
                match &event.body {
                    EventBody::Ask(view) => permission_tool.ask(handle, view),
                    EventBody::AskClosed(ask) => permission_tool.withdraw(*ask),
                    _ => {}
                }
                busy = match &event.body {
                    EventBody::TurnEnded(_) => false,
                    EventBody::TurnStarting(_) => true,
                    EventBody::Prompt(_)
                    | EventBody::PromptOutcome { .. }
                    | EventBody::Requesting
                    | EventBody::BlockStarted { .. }
                    | EventBody::Delta(_)
                    | EventBody::ReplyDiscarded
                    | EventBody::Wire(_)
                    | EventBody::Block(_)
                    | EventBody::Tool(_)
                    | EventBody::ToolFinished(_)
                    | EventBody::Denied(_)
                    | EventBody::Ask(_)
                    | EventBody::AskClosed(_)
                    | EventBody::Task(_)
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
                    | EventBody::Closed => busy,
                };
                printer.print_event(&event).await;
                if matches!(&event.body, EventBody::TurnEnded(report) if is_session_exhausted(&report.end)) {
                    // Reading on would consume lines that no turn will see.
                    input = None;
                }
                if matches!(event.body, EventBody::TurnEnded(_)) && input.as_mut().is_none_or(PipedInput::is_finished) {
                    if input.as_ref().is_some_and(PipedInput::is_silent) {
                        printer.note_silent_input().await;
                    }
                    close(handle);
                }
            }
            batch = next_input_batch(&mut input), if !busy => {
                match batch {
                    Some(text) => {
                        busy = true;
                        // Piped lines are data in every batch: the user's own words are in the first prompt.
                        send_prompt(handle, &enclose_in_tag("stdin", text.trim_end()));
                    }
                    None => {
                        input = None;
                        close(handle);
                    }
                }
            }
        }
    }
    if printer.failed { PrintEnd::Failure } else { PrintEnd::Success }
}

/// Returns true if every further prompt would be refused as well.
fn is_session_exhausted(end: &TurnEnd) -> bool {
    let is_limit = |because: &StopCause| matches!(because, StopCause::TokenLimit | StopCause::TimeLimit);
    match end {
        TurnEnd::PromptUnusable { .. } | TurnEnd::Budget(_) => true,
        TurnEnd::Stopped { because, .. } => is_limit(because),
        _ => false,
    }
}

async fn next_input_batch(input: &mut Option<PipedInput>) -> Option<String> {
    match input {
        Some(input) => input.next_batch().await,
        None => std::future::pending().await,
    }
}

struct EventPrinter {
    format: PrintFormat,
    verbose: bool,
    wire: WireEncoder,
    out: LineOutput,
    notes: LineOutput,
    /// All lines so far, for the verbose JSON array.
    collected: Vec<String>,
    /// Model text that may turn out to be the answer itself, which is printed anyway.
    held_note: Option<String>,
    /// True once the user was informed how to stop retries.
    retried: bool,
    /// True if there will be a session to resume.
    saved: bool,
    /// True once the model has replied or the user has stopped something: more than the prompt would be lost.
    has_begun: bool,
    /// True if the last turn did not complete.
    unfinished: bool,
    failed: bool,
    interrupted: bool,
}

impl EventPrinter {
    /// Tells the user that a pipe which said nothing is not waited for.
    async fn note_silent_input(&mut self) {
        let note = "gimlet: nothing came on standard input, and it is not waited for; --follow waits for a quiet pipe, \
                    < /dev/null gives none\n";
        self.notes.line(note.as_bytes().to_vec()).await;
    }

    async fn print_event(&mut self, event: &Event) {
        match self.format {
            PrintFormat::StreamJson => {
                for line in self.wire.encode_event(event) {
                    self.write_line(line).await;
                }
            }
            PrintFormat::Json if self.verbose => self.collected.extend(self.wire.encode_event(event)),
            PrintFormat::Json | PrintFormat::Text => {}
        }
        // The text of subagents is addressed to the agent that started them.
        let is_remark = !matches!(event.body, EventBody::Block(_)) || event.agent.parent_tool_use().is_none();
        // Important notices that may not follow the last result must still be reported.
        let is_pressing = |notice: &Notice| matches!(notice.level, NoticeLevel::Warning | NoticeLevel::Error);
        let is_dropped =
            || self.wire.is_muted() && matches!(&event.body, EventBody::Notice(notice) if is_pressing(notice));
        // Programs read it there, too: no line of the wire format says it.
        let is_for_stderr = matches!(event.body, EventBody::UnknownCommand { .. });
        if (self.format != PrintFormat::StreamJson || is_dropped() || is_for_stderr)
            && is_remark
            && let Some(note) = progress_notes::format_note(&event.body, self.verbose)
        {
            let stop = matches!(event.body, EventBody::Retry(_)) && !std::mem::replace(&mut self.retried, true);
            let note = if stop { note + "; Ctrl-C stops" } else { note };
            let held = match &event.body {
                EventBody::Block(_) => self.held_note.replace(note),
                EventBody::TurnStarting(_)
                | EventBody::Prompt(_)
                | EventBody::PromptOutcome { .. }
                | EventBody::Requesting
                | EventBody::BlockStarted { .. }
                | EventBody::Delta(_)
                | EventBody::ReplyDiscarded
                | EventBody::Wire(_)
                | EventBody::Tool(_)
                | EventBody::ToolFinished(_)
                | EventBody::Denied(_)
                | EventBody::Ask(_)
                | EventBody::AskClosed(_)
                | EventBody::Task(_)
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
                | EventBody::TurnEnded(_)
                | EventBody::Closed => {
                    let held = self.held_note.take();
                    held.into_iter().chain([note]).reduce(|held, note| format!("{held}\n{note}"))
                }
            };
            if let Some(text) = held {
                // Remarks are optional; a missing reader is no reason to stop.
                self.notes.line(format!("{}\n", sanitise(&text)).into_bytes()).await;
            }
        }
        match &event.body {
            EventBody::TurnEnded(report) => {
                self.held_note = None;
                self.finish_turn(event, report).await;
            }
            EventBody::Block(block) => self.has_begun |= block.error.is_none(),
            // The answer is still printed, but a script must learn about the error.
            EventBody::Notice(notice) if notice.level == NoticeLevel::Error => {
                self.failed = true;
                // The only error that belongs to no turn: the transcript cannot be written.
                self.saved = false;
            }
            EventBody::TurnStarting(_)
            | EventBody::Prompt(_)
            | EventBody::PromptOutcome { .. }
            | EventBody::Requesting
            | EventBody::BlockStarted { .. }
            | EventBody::Delta(_)
            | EventBody::ReplyDiscarded
            | EventBody::Wire(_)
            | EventBody::Tool(_)
            | EventBody::ToolFinished(_)
            | EventBody::Denied(_)
            | EventBody::Ask(_)
            | EventBody::AskClosed(_)
            | EventBody::Task(_)
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
    }

    async fn finish_turn(&mut self, event: &Event, report: &TurnReport) {
        let result = wire::turn_result(event, report);
        self.failed |= result.is_error;
        self.unfinished = result.is_error;
        match self.format {
            PrintFormat::StreamJson => {}
            PrintFormat::Json if self.verbose => {
                let all = std::mem::take(&mut self.collected);
                self.write_line(format!("[{}]", all.join(","))).await;
            }
            PrintFormat::Json => self.write_line(result.to_line()).await,
            PrintFormat::Text if matches!(report.end, TurnEnd::Aborted { .. }) => {
                self.has_begun = true;
                self.notes.line(b"gimlet: interrupted\n".to_vec()).await;
            }
            // What the command did is said on standard error.
            PrintFormat::Text if matches!(report.end, TurnEnd::Command { error: None }) && report.text.is_empty() => {}
            PrintFormat::Text => {
                let text = final_text(report);
                self.write_line(sanitise(&text).into_owned()).await;
            }
        }
    }

    async fn write_line(&self, mut line: String) {
        line.push('\n');
        // A consumer that went away is detected by `gone`.
        self.out.line(line.into_bytes()).await;
    }
}

/// Returns the text output at the end of a turn.
fn final_text(report: &TurnReport) -> String {
    match &report.end {
        TurnEnd::Completed
        | TurnEnd::Command { error: None }
        | TurnEnd::Refused { .. }
        | TurnEnd::HookStopped
        | TurnEnd::StopHookPrevented
        | TurnEnd::Deferred { .. } => report.text.trim_end().to_owned(),
        TurnEnd::DeferredUnavailable { tool } => format!("Error: {}", wire::unavailable_call_message(tool)),
        TurnEnd::PromptBlocked { reason } => reason.trim_end().to_owned(),
        TurnEnd::PromptUnusable { reason, .. } | TurnEnd::Stopped { reason, .. } => format!("Error: {reason}"),
        TurnEnd::Command { error: Some(problem) } => format!("Error: {problem}"),
        TurnEnd::Failed(error) => error.to_reply_text(),
        TurnEnd::MaxTurns(max) => format!("Error: reached the limit of {max} turns (--max-turns)"),
        TurnEnd::Budget(max) => format!("Error: reached the limit of ${max} (--max-budget-usd)"),
        TurnEnd::StructuredOutputRetries(max) => {
            format!("Error: no answer in the form of --json-schema after {max} attempts")
        }
        TurnEnd::Aborted { .. } => String::new(),
    }
}
