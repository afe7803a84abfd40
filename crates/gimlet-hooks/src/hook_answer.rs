//! What exit codes and output of a hook mean.

use gimlet_core::{HandlerAnswer, HandlerError, HandlerReport, HookEvent};
use gimlet_exec::{CapturedRun, CommandExit};
use serde_json::Value;
use serde_json::value::RawValue;

/// Exit code that blocks the guarded action.
const BLOCKING_CODE: i32 = 2;
/// Maximum length of foreign text quoted in a message.
const MAX_QUOTED: usize = 200;

/// Returns the report of a program that ended, or why its output counts as a failure.
pub(crate) fn command_report(event: HookEvent, run: &CapturedRun) -> Result<HandlerReport, HandlerError> {
    let stdout = String::from_utf8_lossy(&run.stdout.bytes).into_owned();
    let stderr = String::from_utf8_lossy(&run.stderr.bytes).into_owned();
    if run.stdout.is_cut() && stdout.trim_start().starts_with('{') {
        let text =
            format!("it printed {} bytes of JSON, more than the {} that are read", run.stdout.total, stdout.len());
        return if run.exit.code == Some(BLOCKING_CODE) {
            block(event, None, stdout, stderr)
        } else {
            Err(HandlerError::Failed(text))
        };
    }
    match run.exit.code {
        Some(0) => {
            let answer = parse_answer(&stdout).unwrap_or_else(|| Ok(HandlerAnswer::Text(stdout.clone())));
            let answer = answer.map_err(HandlerError::Failed)?;
            Ok(HandlerReport { answer, stdout, stderr, exit_code: Some(0) })
        }
        Some(BLOCKING_CODE) => block(event, run.exit.code, stdout, stderr),
        _ => match parse_answer(&stdout) {
            Some(Ok(answer)) if is_hook_json(&stdout) => {
                Ok(HandlerReport { answer, stdout, stderr, exit_code: run.exit.code })
            }
            _ => Err(HandlerError::Failed(describe_failure(run.exit, &stderr))),
        },
    }
}

/// Returns the report of a program that may wake the model: with the blocking code it does, whatever the event, and
/// any other end has nothing to say.
pub(crate) fn wake_report(run: &CapturedRun) -> Result<HandlerReport, HandlerError> {
    let stdout = String::from_utf8_lossy(&run.stdout.bytes).into_owned();
    let stderr = String::from_utf8_lossy(&run.stderr.bytes).into_owned();
    let answer = match run.exit.code {
        Some(BLOCKING_CODE) => {
            let reason = non_blank(&stderr).or_else(|| non_blank(&stdout));
            HandlerAnswer::Block(reason.unwrap_or_else(|| "it has finished and gave no reason".to_owned()))
        }
        Some(0) => match parse_answer(&stdout) {
            Some(Ok(answer)) => answer,
            Some(Err(why)) => return Err(HandlerError::Failed(why)),
            None => HandlerAnswer::Text(stdout.clone()),
        },
        _ => return Err(HandlerError::Failed(describe_failure(run.exit, &stderr))),
    };
    Ok(HandlerReport { answer, stdout, stderr, exit_code: run.exit.code })
}

/// Returns the report of a program that ended with the blocking code. Where the event cannot block it is a failure.
fn block(
    event: HookEvent,
    exit_code: Option<i32>,
    stdout: String,
    stderr: String,
) -> Result<HandlerReport, HandlerError> {
    let json: Option<Value> = serde_json::from_str(stdout.trim()).ok();
    if event == HookEvent::PermissionRequest {
        // Only a decision object answers a permission prompt; the exit code alone does not.
        let decides = json.as_ref().is_some_and(|json| json["hookSpecificOutput"]["decision"].is_object());
        let answer = if decides { parse_answer(&stdout).and_then(Result::ok) } else { None };
        let answer = answer.unwrap_or_else(|| HandlerAnswer::Text(String::new()));
        return Ok(HandlerReport { answer, stdout, stderr, exit_code });
    }
    if !can_block(event) {
        let line = first_line(&stderr).unwrap_or_else(|| "it ended with exit code 2".to_owned());
        return Err(HandlerError::Failed(line));
    }
    let given = json.as_ref().and_then(block_reason);
    let reason = given.or_else(|| non_blank(&stderr)).or_else(|| non_blank(&stdout));
    let reason = reason.unwrap_or_else(|| "no reason was given".to_owned());
    Ok(HandlerReport { answer: HandlerAnswer::Block(reason), stdout, stderr, exit_code })
}

/// Returns the reason that a JSON answer gives for blocking.
fn block_reason(json: &Value) -> Option<String> {
    let specific = &json["hookSpecificOutput"]["permissionDecisionReason"];
    let reason = json["reason"].as_str().or(specific.as_str()).or(json["stopReason"].as_str())?;
    non_blank(reason)
}

/// Returns a body or an output as an answer if it begins with a brace, which must be valid JSON then; `None` for other
/// text.
pub(crate) fn parse_answer(text: &str) -> Option<Result<HandlerAnswer, String>> {
    let text = text.trim();
    if !text.starts_with('{') {
        return None;
    }
    let json = serde_json::from_str::<Box<RawValue>>(text);
    Some(json.map(HandlerAnswer::Json).map_err(|error| format!("its output is not valid JSON: {error}")))
}

/// Returns true if the text is an object with a member that hooks answer with.
fn is_hook_json(text: &str) -> bool {
    const MEMBERS: [&str; 6] = ["continue", "decision", "hookSpecificOutput", "stopReason", "systemMessage", "reason"];
    let json: Option<Value> = serde_json::from_str(text.trim()).ok();
    json.is_some_and(|json| MEMBERS.iter().any(|member| json.get(member).is_some()))
}

/// Returns true if exit code 2 blocks at this event.
fn can_block(event: HookEvent) -> bool {
    matches!(
        event,
        HookEvent::UserPromptSubmit
            | HookEvent::UserPromptExpansion
            | HookEvent::PreToolUse
            | HookEvent::PostToolUse
            | HookEvent::PostToolUseFailure
            | HookEvent::PostToolBatch
            | HookEvent::SubagentStop
            | HookEvent::TaskCreated
            | HookEvent::TaskCompleted
            | HookEvent::Stop
            | HookEvent::TeammateIdle
            | HookEvent::ConfigChange
            | HookEvent::PreCompact
            | HookEvent::Elicitation
            | HookEvent::ElicitationResult
            | HookEvent::PreModelSwitch
    )
}

fn describe_failure(exit: CommandExit, stderr: &str) -> String {
    let how = match (exit.code, exit.signal) {
        (Some(code), _) => format!("it ended with exit code {code}"),
        (None, Some(signal)) => format!("it was ended by signal {signal}"),
        (None, None) => "it ended without an exit code".to_owned(),
    };
    match first_line(stderr) {
        Some(line) => format!("{how}: {line}"),
        None => how,
    }
}

/// Returns the first line with text, cut where it is long; `None` if there is none.
fn first_line(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(match line.char_indices().nth(MAX_QUOTED) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line.to_owned(),
    })
}

fn non_blank(text: &str) -> Option<String> {
    let text = text.trim();
    if text.is_empty() { None } else { Some(text.to_owned()) }
}

#[cfg(test)]
mod tests {
    use gimlet_exec::CapturedStream;

    use super::*;

    fn run(code: i32, stdout: &str, stderr: &str) -> CapturedRun {
        let stream = |text: &str| CapturedStream { bytes: text.as_bytes().to_vec(), total: text.len() as u64 };
        CapturedRun {
            exit: CommandExit { code: Some(code), signal: None },
            stdout: stream(stdout),
            stderr: stream(stderr),
        }
    }

    fn describe(event: HookEvent, run: &CapturedRun) -> String {
        match command_report(event, run) {
            Ok(report) => match report.answer {
                HandlerAnswer::Json(json) => format!("json {}", json.get()),
                HandlerAnswer::Text(text) => format!("text {text}"),
                HandlerAnswer::Block(reason) => format!("block {reason}"),
            },
            Err(HandlerError::Failed(why) | HandlerError::Gone(why)) => format!("failed {why}"),
        }
    }

    #[test]
    fn exit_codes_and_output_mean_what_the_reference_says() {
        use HookEvent::*;
        let json = r#"{"decision":"block","reason":"no"}"#;
        for (event, run, wanted) in [
            (PreToolUse, run(0, "plain", ""), "text plain"),
            (PreToolUse, run(0, "  {\"continue\":true}\n", ""), "json {\"continue\":true}"),
            (
                PreToolUse,
                run(0, "{broken", ""),
                "failed its output is not valid JSON: key must be a string at line 1 column 2",
            ),
            (PreToolUse, run(2, "", "not here\n"), "block not here"),
            (PreToolUse, run(2, json, "ignored"), "block no"),
            (PreToolUse, run(2, "{broken", "why"), "block why"),
            (PreToolUse, run(2, "only stdout", ""), "block only stdout"),
            (PreToolUse, run(2, "", ""), "block no reason was given"),
            (PermissionRequest, run(2, "", "no"), "text "),
            (SessionStart, run(2, "", "cannot start\nmore"), "failed cannot start"),
            (Stop, run(1, "", "boom\nmore"), "failed it ended with exit code 1: boom"),
            (Stop, run(7, json, ""), &format!("json {json}")),
            (Stop, run(7, "{\"other\":1}", ""), "failed it ended with exit code 7"),
        ] {
            assert_eq!(describe(event, &run), wanted, "{event:?} {run:?}");
        }
    }

    #[test]
    fn json_that_was_cut_is_a_failure_and_still_blocks_with_code_two() {
        let mut cut = run(0, "{\"a\":", "");
        cut.stdout.total = 1 << 30;
        assert!(describe(HookEvent::Stop, &cut).starts_with("failed it printed 1073741824 bytes of JSON"));
        cut.exit.code = Some(2);
        assert!(describe(HookEvent::PreToolUse, &cut).starts_with("block"));
    }
}
