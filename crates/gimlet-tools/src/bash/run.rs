//! One command from start to end, to the background, or to its kill.

use std::error::Error;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gimlet_core::tool::{ToolContext, ToolError, ToolResult};
use gimlet_core::{BackgroundingGuard, CommandGuard, GuardedCommandEnd};
use gimlet_exec::{
    CaptureLimits, CommandExit, FinishedCommand, ForegroundCommand, OutputProgress, ShellCommand, ShellError, ShellRun,
};
use gimlet_policy::shell::{ShellAnalysis, Word};
use gimlet_proto::{EventBody, Notice, NoticeLevel};
use tokio::time::Instant;

use super::cwd::StartDir;
use super::limits::BashLimits;
use super::output::BashOutput;
use super::script_caps::ScriptCallCounts;
use super::{BashInput, background, command_result, self_kill};

/// Time to wait for output in flight when a command is moved to the background.
const LAST_WORDS: Duration = Duration::from_millis(20);
/// Delay before the first progress report; later ones come every [`PROGRESS_EVERY`].
const FIRST_PROGRESS: Duration = Duration::from_secs(2);
const PROGRESS_EVERY: Duration = Duration::from_secs(1);
/// Lines of output in a progress text.
const PROGRESS_LINES: usize = 5;
/// Time to end after a timeout.
const TIMEOUT_GRACE: Duration = Duration::from_secs(2);
/// Additional time that the start of a command gets after an interrupt.
const START_GRACE: Duration = Duration::from_millis(250);
/// Time to end after an interrupt; the runtime abandons the whole call after two seconds.
const INTERRUPT_GRACE: Duration = Duration::from_millis(1_500);

/// A call whose command has started.
pub(super) struct BashCall<'a> {
    pub(super) input: &'a BashInput,
    pub(super) cx: &'a ToolContext,
    pub(super) analysis: Arc<ShellAnalysis>,
    pub(super) limits: BashLimits,
    pub(super) started_in: StartDir,
    /// File for output that is too long or belongs to a background command. Not created yet.
    pub(super) output_file: PathBuf,
    /// Guard of a sandboxed command, until it is taken.
    watch: Mutex<Option<CommandGuard>>,
}

enum WaitOutcome {
    Ended(Box<FinishedCommand>),
    TimedOut,
    /// The user moved it to the background.
    Moved,
    Interrupted,
}

/// Runs the command of a call.
pub(super) async fn run(input: &BashInput, cx: &ToolContext) -> Result<ToolResult<BashOutput>, ToolError> {
    if input.wants_background() {
        let (call, command) = start(input, cx).await?;
        return Ok(background::started_result(&call, background::move_to_background(&call, command)));
    }
    // A request to move it counts from here: the first command of a session may take a while to start.
    let moving = cx.allow_backgrounding();
    let (call, mut command) = start(input, cx).await?;
    match wait(&call, &mut command, &moving).await {
        WaitOutcome::Ended(finished) => command_result::report_ended(&call, *finished).await,
        WaitOutcome::Moved => {
            let so_far = command.progress(background::LINES_SO_FAR);
            Ok(background::moved_result(&call, background::move_to_background(&call, command), so_far))
        }
        WaitOutcome::TimedOut if call.may_outlive_its_timeout() => {
            let so_far = command.progress(background::LINES_SO_FAR);
            Ok(background::timed_out_result(&call, background::move_to_background(&call, command), so_far))
        }
        WaitOutcome::TimedOut => Err(command_result::report_timed_out(&call, command.kill(TIMEOUT_GRACE).await).await),
        WaitOutcome::Interrupted => {
            Err(command_result::report_interrupted(&call, command.kill(INTERRUPT_GRACE).await).await)
        }
    }
}

async fn start<'a>(input: &'a BashInput, cx: &'a ToolContext) -> Result<(BashCall<'a>, ForegroundCommand), ToolError> {
    cx.state::<ScriptCallCounts>().count(&input.command, &cx.paths.env)?;
    let analysis = input.analysis(&cx.paths).clone();
    let (exec, shell) = cx.services.processes()?;
    self_kill::refuse_self_kill(&analysis, exec, shell).await?;
    let command = ShellCommand { text: &input.command, cwd: &cx.paths.cwd, env: Vec::new() };
    let (run, watch) = match (cx.sandbox(), cx.confinement()) {
        (None, None) => (start_or_interrupt(shell.start(exec, command), cx).await?, None),
        (None, Some(confinement)) => {
            (start_or_interrupt(shell.start_confined(exec, command, confinement), cx).await?, None)
        }
        (Some(walls), _) => {
            let watch = walls.guard_command(&cx.services).await?;
            (start_or_interrupt(shell.start_sandboxed(exec, command, watch.sandbox()), cx).await?, Some(watch))
        }
    };
    if let Some(text) = shell.take_snapshot_error() {
        cx.services.publish(&cx.agent, EventBody::Notice(Notice { level: NoticeLevel::Debug, text }));
    }
    let limits = BashLimits::new(&cx.paths.env, input.timeout);
    let output_file = unused_output_path(cx);
    let capture = CaptureLimits::for_foreground(limits.inline_bytes(), output_file.clone());
    let started_in = StartDir { dir: run.cwd, missing_dir: run.vanished_cwd };
    let watch = Mutex::new(watch);
    let call = BashCall { input, cx, analysis, limits, started_in, output_file, watch };
    Ok((call, ForegroundCommand::new(run.running, capture)))
}

/// Waits for the start. The first command of a session may wait for the user's start-up file, so an interrupt already
/// counts here; but a command that is just being started is waited for, so that its end can be reported correctly.
async fn start_or_interrupt(
    start: impl Future<Output = Result<ShellRun, ShellError>>,
    cx: &ToolContext,
) -> Result<ShellRun, ToolError> {
    if cx.cancel.is_cancelled() {
        return Err(ToolError::interrupted("Interrupted before the command was started."));
    }
    tokio::pin!(start);
    let started = tokio::select! {
        biased;
        started = &mut start => started,
        () = cx.cancel.cancelled() => match tokio::time::timeout(START_GRACE, start).await {
            Ok(started) => started,
            Err(_) => {
                let text = "Interrupted while the command was being started; if it had begun, it was killed.";
                return Err(ToolError::interrupted(text));
            }
        },
    };
    started.map_err(|error| start_error(&error))
}

fn start_error(error: &ShellError) -> ToolError {
    let mut text = format!("The command was not started: {error}");
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(&format!(": {inner}"));
        cause = inner.source();
    }
    ToolError::failed(text)
}

/// Returns an unused output file name, based on the call's id, which not every provider keeps unique.
fn unused_output_path(cx: &ToolContext) -> PathBuf {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let stem: String = cx.call.as_str().chars().take(100).map(|c| if is_plain(c) { c } else { '-' }).collect();
    let first = cx.services.results_dir().join(format!("{stem}.output"));
    let mut others = (2..).map(|number| cx.services.results_dir().join(format!("{stem}-{number}.output")));
    if first.symlink_metadata().is_err() {
        first
    } else {
        others.find(|name| name.symlink_metadata().is_err()).unwrap_or(first)
    }
}

/// Collects the output so far of a command that moves to the background, to be reported with the move.
async fn drain_before_move(command: &mut ForegroundCommand) -> WaitOutcome {
    tokio::select! {
        finished = command.finish() => WaitOutcome::Ended(Box::new(finished)),
        () = tokio::time::sleep(LAST_WORDS) => WaitOutcome::Moved,
    }
}

async fn wait(call: &BashCall<'_>, command: &mut ForegroundCommand, moving: &BackgroundingGuard) -> WaitOutcome {
    let begun = Instant::now();
    let deadline = begun + call.limits.timeout;
    let mut progress_at = begun + FIRST_PROGRESS;
    loop {
        tokio::select! {
            // Output comes last, so that a command that prints without pause does not starve the other events.
            biased;
            () = call.cx.cancel.cancelled() => return WaitOutcome::Interrupted,
            () = moving.wait_for_request() => return drain_before_move(command).await,
            () = tokio::time::sleep_until(progress_at.min(deadline)) => {}
            finished = command.finish() => return WaitOutcome::Ended(Box::new(finished)),
        }
        if Instant::now() >= deadline {
            return WaitOutcome::TimedOut;
        }
        call.cx.report_progress(progress_text(&command.progress(PROGRESS_LINES), begun.elapsed(), call.limits.timeout));
        progress_at += PROGRESS_EVERY;
    }
}

fn progress_text(progress: &OutputProgress, elapsed: Duration, timeout: Duration) -> String {
    let (lines, bytes) = (progress.total_lines, progress.total_bytes);
    let head = format!("{} s of {} s, {lines} lines, {bytes} bytes", elapsed.as_secs(), timeout.as_secs());
    std::iter::once(head.as_str()).chain(progress.last_lines.iter().map(String::as_str)).collect::<Vec<_>>().join("\n")
}

impl BashCall<'_> {
    /// Returns a description of what the sandbox refused the command, if anything.
    pub(super) async fn refusals(&self, exit: Option<CommandExit>, output: &str) -> Option<String> {
        let (command, cwd) = (self.input.command.as_str(), self.started_in.dir.as_path());
        self.take_watch()?.finish(GuardedCommandEnd { command, cwd, exit, output }).await
    }

    /// Takes the guard; the caller becomes responsible for the command.
    pub(super) fn take_watch(&self) -> Option<CommandGuard> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Returns the reason why a command must end at its timeout; `None` if it may continue in the background.
    pub(super) fn kill_reason(&self) -> Option<&'static str> {
        let first = self.analysis.commands.first().and_then(|words| words.first()).and_then(Word::value);
        if !self.limits.background {
            Some("background commands are switched off")
        } else if first == Some("sleep") {
            Some("a command that begins with sleep does not go on in the background")
        } else if self.analysis.runs_git {
            Some("a git command could hold the repository's locks")
        } else if !self.analysis.fully_parsed {
            Some("it could not be analysed fully")
        } else {
            None
        }
    }

    fn may_outlive_its_timeout(&self) -> bool {
        self.kill_reason().is_none()
    }
}
