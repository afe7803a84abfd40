//! Print mode: one prompt (or a stream of them) in, the answer out, an exit code at the end.

mod activity;
mod flags;

use std::time::Duration;

use gimlet_proto::{Body, Event, Level, Notice, Op, Reader, Say, SessionHandle, TurnEnd, TurnReport, enclosed};
use tokio::sync::mpsc;

use crate::sanitise;
use crate::stdin::PipedInput;
use crate::wire::{self, Face, Lines, Listener, Wire};
use crate::writer::{Output, OutputEnd};

/// How long the reader of remarks may take for the rest of them. The answer itself waits for its reader, as it does in
/// every program that writes to a pipe: someone may be reading it page by page.
pub(crate) const DRAIN: Duration = Duration::from_secs(30);

/// How the answer is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The final text.
    Text,
    /// One result object.
    Json,
    /// One object a line, as it happens.
    StreamJson,
}

/// What print mode runs with.
pub struct PrintJob {
    pub format: Format,
    pub verbose: bool,
    pub partial: bool,
    /// Show what subagents say, besides what they do.
    pub subagent_text: bool,
    /// The session can be gone on with later.
    pub saved: bool,
    /// What programs are told about the session.
    pub face: Face,
    /// The first prompt, complete.
    pub prompt: Say,
    /// More may come from here.
    pub input: Option<PipedInput>,
    /// For the answer.
    pub out: Output,
    /// For remarks.
    pub notes: Output,
    /// One message per request to stop the turn.
    pub interrupts: mpsc::UnboundedReceiver<()>,
}

/// How it went; the binary turns this into an exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrintEnd {
    Success,
    Failure,
    Interrupted,
    /// Nobody reads the output any more.
    OutputClosed,
}

/// Runs a session in print mode to its end.
pub async fn run(handle: SessionHandle, job: PrintJob) -> PrintEnd {
    let events = handle.subscribe();
    let PrintJob { format, verbose, partial, subagent_text, saved, face, prompt, input, out, notes, interrupts } = job;
    let mut printer = Printer {
        format,
        verbose,
        wire: Wire::new(
            Lines { partial, replay_prompts: false, hook_events: false, subagent_text },
            Listener::Reads,
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
    handle.send(Op::Say(prompt));
    let mut end = drive(&handle, events, input, interrupts, &mut printer).await;
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
    if printer.format == Format::Text && printer.unfinished && printer.has_begun && printer.saved {
        let way = format!("gimlet: go on with: gimlet -p --resume {} \"…\"\n", handle.id);
        printer.notes.line(way.into_bytes()).await;
    }
    printer.notes.finish(Some(DRAIN)).await;
    end
}

fn say(handle: &SessionHandle, text: &str) {
    handle.send(Op::Say(Say::text(text)));
}

async fn drive(
    handle: &SessionHandle,
    mut events: Reader,
    mut input: Option<PipedInput>,
    mut interrupts: mpsc::UnboundedReceiver<()>,
    printer: &mut Printer,
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
            event = events.next() => {
                let Some(event) = event else { break };
                busy = match &event.body {
                    Body::TurnEnded(_) => false,
                    Body::Opened(_) => true,
                    _ => busy,
                };
                printer.show(&event).await;
                if matches!(&event.body, Body::TurnEnded(report) if takes_no_more(&report.end)) {
                    // Reading on would swallow lines that nobody will see.
                    input = None;
                }
                if matches!(event.body, Body::TurnEnded(_)) && input.as_mut().is_none_or(PipedInput::is_over) {
                    close(handle);
                }
            }
            batch = next_batch(&mut input), if !busy => {
                match batch {
                    Some(text) => {
                        busy = true;
                        // Piped lines are data, in every batch: the person's words are in the first prompt.
                        say(handle, &enclosed("stdin", text.trim_end()));
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

/// Whether whatever comes next would be refused as well.
fn takes_no_more(end: &TurnEnd) -> bool {
    matches!(end, TurnEnd::PromptUnusable { .. } | TurnEnd::Budget(_))
}

async fn next_batch(input: &mut Option<PipedInput>) -> Option<String> {
    match input {
        Some(input) => input.batch().await,
        None => std::future::pending().await,
    }
}

struct Printer {
    format: Format,
    verbose: bool,
    wire: Wire,
    out: Output,
    notes: Output,
    /// Every line so far, for the verbose JSON array.
    collected: Vec<String>,
    /// Words of the model that may turn out to be the answer itself, which is printed anyway.
    held_note: Option<String>,
    /// The person was told how to stop retries.
    retried: bool,
    /// There will be something to resume.
    saved: bool,
    /// The model has said or the person has stopped something: more than the prompt would be lost.
    has_begun: bool,
    /// The last turn did not reach its end.
    unfinished: bool,
    failed: bool,
    interrupted: bool,
}

impl Printer {
    async fn show(&mut self, event: &Event) {
        match self.format {
            Format::StreamJson => {
                for line in self.wire.lines(event) {
                    self.write(line).await;
                }
            }
            Format::Json if self.verbose => self.collected.extend(self.wire.lines(event)),
            Format::Json | Format::Text => {}
        }
        // What subagents say is said to whoever sent them.
        let is_remark = !matches!(event.body, Body::Block(_)) || event.agent.parent_tool_use().is_none();
        // What may not follow the last result must still be said somewhere.
        let is_pressing = |notice: &Notice| matches!(notice.level, Level::Warning | Level::Error);
        let is_dropped = || self.wire.is_silent() && matches!(&event.body, Body::Notice(notice) if is_pressing(notice));
        if (self.format != Format::StreamJson || is_dropped())
            && is_remark
            && let Some(note) = activity::note(&event.body, self.verbose)
        {
            let stop = matches!(event.body, Body::Retry(_)) && !std::mem::replace(&mut self.retried, true);
            let note = if stop { note + "; Ctrl-C stops" } else { note };
            let held = match &event.body {
                Body::Block(_) => self.held_note.replace(note),
                _ => {
                    let held = self.held_note.take();
                    held.into_iter().chain([note]).reduce(|held, note| format!("{held}\n{note}"))
                }
            };
            if let Some(text) = held {
                // Remarks are a courtesy; nobody reading them is no reason to stop.
                self.notes.line(format!("{}\n", sanitise(&text)).into_bytes()).await;
            }
        }
        match &event.body {
            Body::TurnEnded(report) => {
                self.held_note = None;
                self.finish_turn(event, report).await;
            }
            Body::Block(block) => self.has_begun |= block.error.is_none(),
            // The answer is printed all the same, but a script must learn that not all is well.
            Body::Notice(notice) if notice.level == Level::Error => {
                self.failed = true;
                // The one error that is no turn's: the record cannot be written.
                self.saved = false;
            }
            _ => {}
        }
    }

    async fn finish_turn(&mut self, event: &Event, report: &TurnReport) {
        let result = wire::result(event, report);
        self.failed |= result.is_error;
        self.unfinished = result.is_error;
        match self.format {
            Format::StreamJson => {}
            Format::Json if self.verbose => {
                let all = std::mem::take(&mut self.collected);
                self.write(format!("[{}]", all.join(","))).await;
            }
            Format::Json => self.write(result.render()).await,
            Format::Text if matches!(report.end, TurnEnd::Aborted { .. }) => {
                self.has_begun = true;
                self.notes.line(b"gimlet: interrupted\n".to_vec()).await;
            }
            Format::Text => {
                let text = closing_words(report);
                self.write(sanitise(&text).into_owned()).await;
            }
        }
    }

    async fn write(&self, mut line: String) {
        line.push('\n');
        // A consumer that went away is noticed by `gone`.
        self.out.line(line.into_bytes()).await;
    }
}

/// What text output says at the end of a turn.
fn closing_words(report: &TurnReport) -> String {
    match &report.end {
        TurnEnd::Completed
        | TurnEnd::Refused { .. }
        | TurnEnd::HookStopped
        | TurnEnd::StopHookPrevented
        | TurnEnd::Deferred { .. } => report.text.trim_end().to_owned(),
        TurnEnd::DeferredUnavailable { tool } => format!("Error: {}", wire::unavailable(tool)),
        TurnEnd::PromptBlocked { reason } => reason.trim_end().to_owned(),
        TurnEnd::PromptUnusable { reason, .. } | TurnEnd::Stopped { reason, .. } => format!("Error: {reason}"),
        TurnEnd::Failed(error) => error.in_place_of_answer(),
        TurnEnd::MaxTurns(max) => format!("Error: reached the limit of {max} turns (--max-turns)"),
        TurnEnd::Budget(max) => format!("Error: reached the limit of ${max} (--max-budget-usd)"),
        TurnEnd::StructuredOutputRetries(max) => {
            format!("Error: no answer in the form of --json-schema after {max} attempts")
        }
        TurnEnd::Aborted { .. } => String::new(),
    }
}
