//! Result of a foreground command: its output, the meaning of its exit code, and its changes.

use std::borrow::Cow;

use gimlet_core::tool::{ErrorClass, ToolError, ToolResult};
use gimlet_exec::{CapturedOutput, CommandEnd, CommandExit, FinishedCommand};
use gimlet_policy::shell::Word;
use gimlet_proto::AgentPath;

use super::cwd::{self, CwdUpdate};
use super::file_effects::{self, FileEffects};
use super::output::BashOutput;
use super::output_window::{self, OutputWindow};
use super::run::BashCall;
use super::{confinement_denial, exit_code, git_operation, image};
use crate::text_file::read_state::GLIMPSE;

/// Beginning of the failure of a command that exited.
pub(super) const EXIT_CODE: &str = "Exit code ";

const RATE_LIMIT_HINT: &str = "GitHub's rate limit is reached: wait before the next gh command instead of trying again \
                               (`gh api rate_limit` shows when it ends).";

/// Builds the result of a command that ended without being stopped by the call.
pub(super) async fn report_ended(
    call: &BashCall<'_>,
    finished: FinishedCommand,
) -> Result<ToolResult<BashOutput>, ToolError> {
    let landing = cwd::cwd_after_command(&call.started_in, finished.cwd(), call.cx);
    match finished.end {
        CommandEnd::Exited(exit) => report_exit(call, exit, finished.output, landing).await,
        CommandEnd::OutputLimit { limit_bytes } => {
            let head = format!("Killed: the command printed more than {limit_bytes} bytes.");
            Err(report_failure(call, ErrorClass::ExecFailed, head, &finished.output, CwdUpdate::default(), None).await)
        }
        CommandEnd::KeeperDied(error) => {
            let head = format!("The command ended because gimlet lost hold of it ({error}).");
            Err(report_failure(call, ErrorClass::ExecFailed, head, &finished.output, CwdUpdate::default(), None).await)
        }
        // Only the call itself kills a foreground command.
        CommandEnd::Killed(_) => Err(interrupted_error(call, &finished.output).await),
    }
}

/// Builds the error of a command that was killed at its timeout.
pub(super) async fn report_timed_out(call: &BashCall<'_>, finished: FinishedCommand) -> ToolError {
    let reason = call.kill_reason().unwrap_or("it cannot go on");
    let head = format!(
        "Timed out after {} s: the command and everything it started were killed ({reason}).",
        seconds(call.limits.timeout.as_millis())
    );
    let mut error =
        report_failure(call, ErrorClass::TimedOut, head, &finished.output, CwdUpdate::default(), None).await;
    if let Some(fields) = error.output.as_mut().and_then(|output| output.as_object_mut()) {
        fields.insert("timedOutAfterMs".to_owned(), millis(call).into());
    }
    error
}

/// Builds the error of a command that was killed because the turn was interrupted.
pub(super) async fn report_interrupted(call: &BashCall<'_>, finished: FinishedCommand) -> ToolError {
    interrupted_error(call, &finished.output).await
}

async fn interrupted_error(call: &BashCall<'_>, output: &CapturedOutput) -> ToolError {
    // A subagent may have been stopped by its parent agent instead of the user.
    let by = if call.cx.agent == AgentPath::default() { " by the user" } else { "" };
    let head = format!(
        "Interrupted{by}: the command and everything it started were killed after {} s. What it had done by \
         then stays done. {}",
        seconds(u128::from(call.cx.elapsed_ms())),
        if output.total_bytes == 0 { "It had printed nothing." } else { "Its output until then:" }
    );
    report_failure(call, ErrorClass::Interrupted, head, output, CwdUpdate::default(), None).await
}

async fn report_exit(
    call: &BashCall<'_>,
    exit: CommandExit,
    mut captured: CapturedOutput,
    mut landing: CwdUpdate,
) -> Result<ToolResult<BashOutput>, ToolError> {
    let code = exit.shell_code();
    output_window::save_long_output(&mut captured, call.limits.output_chars, &call.output_file).await;
    let captured = &captured;
    let shown = output_window::window_of_success(captured, call.limits.output_chars);
    let refused = call.refusals(Some(exit), &shown.text).await;
    // An exit code has no certain meaning for a command that the sandbox restricted.
    let meaning = match refused {
        Some(_) => None,
        None => exit_code::interpret_exit_code(&call.input.command, &call.analysis, code, &shown.text),
    };
    landing.notices.extend(refused);
    let held_back = confinement_denial::find_confinement_denial(call, exit, &shown.text);
    let seen = file_effects::find_file_effects(call, captured, exit.is_success()).await;
    if !exit.is_success() && (meaning.is_none() || held_back.is_some()) {
        let head = format!("{EXIT_CODE}{code}");
        let error = report_failure(call, ErrorClass::ExecFailed, head, captured, landing, Some((exit, seen))).await;
        return Err(error.with_confinement_denial(held_back));
    }
    let image = image::printed_image_uri(captured, call.cx.image_side()).await;
    let mut output = BashOutput {
        is_image: image.is_some(),
        return_code_interpretation: meaning.map(Cow::Borrowed),
        no_output_expected: exit_code::expects_no_output(&call.analysis),
        exit_code: Some(code),
        ..output_of_ended(call, shown, &landing, &seen)
    };
    if let Some(uri) = image {
        output.stdout = uri;
    }
    let mut result = ToolResult::new(output);
    if let Some(dir) = landing.new_dir {
        result = result.with_change(move |state| state.cwd = dir);
    }
    if let Some(view) = seen.view {
        // Lines that were shown on purpose are enough to edit by; which ones they were is not known.
        let part = (!view.whole).then_some(GLIMPSE);
        result = result.with_change(move |state| state.files.record_read(view.path, view.stamp, view.whole, part));
    }
    Ok(result)
}

/// Builds the error of a failed command: one line with the reason, then the output.
async fn report_failure(
    call: &BashCall<'_>,
    class: ErrorClass,
    head: String,
    captured: &CapturedOutput,
    mut landing: CwdUpdate,
    exited: Option<(CommandExit, FileEffects)>,
) -> ToolError {
    let shown = output_window::window_of_failure(captured, &call.output_file).await;
    // A killed command may have left changes too, and the guard is dropped after this.
    landing.notices.extend(call.refusals(None, &shown.text).await);
    let (exit, seen) = exited.unzip();
    let mut output = output_of_ended(call, shown, &landing, &seen.unwrap_or_default());
    if let Some(remark) = exit.and_then(exit_code::signal_remark) {
        push_line(&mut output.stderr, &remark);
    }
    output.interrupted = class == ErrorClass::Interrupted;
    output.exit_code = exit.map(CommandExit::shell_code);
    let mut text = head;
    push_line(&mut text, &output.for_model().to_text());
    let error = ToolError::new(class, text).with_output(output);
    match landing.new_dir {
        Some(dir) => error.with_change(move |state| state.cwd = dir),
        None => error,
    }
}

/// Builds the output members common to all ended commands.
fn output_of_ended(call: &BashCall<'_>, shown: OutputWindow, landing: &CwdUpdate, seen: &FileEffects) -> BashOutput {
    let (file, size) = shown.saved.unzip();
    let runs = |program: &str| {
        call.analysis
            .commands
            .iter()
            .any(|words| words.first().and_then(Word::value).is_some_and(|name| name == program))
    };
    let limited = runs("gh") && shown.text.to_ascii_lowercase().contains("rate limit");
    let git = (call.analysis.runs_git || runs("gh"))
        .then(|| git_operation::recognise_operations(&call.analysis, &shown.text))
        .flatten();
    BashOutput {
        stdout: shown.text,
        stderr: landing.notices.join("\n"),
        dangerously_disable_sandbox: call.input.dangerously_disable_sandbox.filter(|wanted| *wanted),
        persisted_output_path: file.map(|path| path.display().to_string()),
        persisted_output_size: size,
        stale_read_file_state_hint: seen.stale.clone(),
        gh_rate_limit_hint: limited.then_some(Cow::Borrowed(RATE_LIMIT_HINT)),
        git_operation: git,
        ..BashOutput::default()
    }
}

fn push_line(text: &mut String, line: &str) {
    if !text.is_empty() && !line.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
}

pub(super) fn millis(call: &BashCall<'_>) -> u64 {
    u64::try_from(call.limits.timeout.as_millis()).unwrap_or(u64::MAX)
}

/// Formats milliseconds as seconds, without decimals where the value is whole.
pub(super) fn seconds(millis: u128) -> String {
    match millis % 1_000 {
        0 => (millis / 1_000).to_string(),
        _ => format!("{:.1}", millis as f64 / 1_000.0),
    }
}
