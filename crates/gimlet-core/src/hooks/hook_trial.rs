//! Trying hooks out: calls those that match a given input, outside of any session, and says what would follow. Nothing
//! follows.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use gimlet_policy::CallCondition;
use serde_json::Value;
use serde_json::value::to_raw_value;

use super::hook_event::may_stop;
use super::hook_output::HookOutput;
use super::{
    CombinedHookOutput, HandlerAnswer, HandlerCall, HandlerError, HookEntry, HookEvent, HookFailurePolicy,
    HookPermission, HookSubject, PermissionRequestAnswer,
};

/// Outcome of a trial.
pub struct HookTrial {
    /// The hooks that match, by their place in the list, in its order.
    pub runs: Vec<HookTrialRun>,
    /// What a session would do with their answers, one line each; empty if work would just go on.
    pub consequences: Vec<String>,
}

/// One hook that was called.
pub struct HookTrialRun {
    /// Place of the hook in the list.
    pub hook: usize,
    pub elapsed: Duration,
    pub stdout: String,
    pub stderr: String,
    pub exit_code: Option<i32>,
    /// Why it has no usable answer.
    pub failure: Option<String>,
}

/// Calls the hooks that match an event with this input. `aliases` are older names of its tool, and `meets` tells
/// whether its call meets a condition.
pub async fn try_hooks(
    entries: &[HookEntry],
    event: HookEvent,
    input: &Value,
    aliases: &[&str],
    meets: impl Fn(&CallCondition) -> bool,
) -> HookTrial {
    let name = event.row().matcher.and_then(|field| input[field].as_str());
    let subject = name.map(|name| HookSubject { aliases, ..HookSubject::from_name(name) });
    let is_meant = |entry: &HookEntry| {
        let meets_condition = || entry.condition.as_deref().is_none_or(&meets);
        entry.matches(event, subject) && meets_condition()
    };
    let matching = entries.iter().enumerate().filter(|(_, entry)| is_meant(entry));
    let ran = join_all(matching.map(|(hook, entry)| try_hook(hook, entry, event, input))).await;
    let mut combined = CombinedHookOutput::default();
    let mut consequences = Vec::new();
    let mut runs = Vec::new();
    for (mut run, output, entry) in ran {
        let blocks = entry.on_failure == HookFailurePolicy::Block && !entry.runs_in_background;
        let output = match output {
            Ok(output) => output,
            Err(why) if blocks => HookOutput::blocking(event, Some(failed(&mut run, why))),
            Err(why) => {
                failed(&mut run, why);
                HookOutput::default()
            }
        };
        runs.push(run);
        if entry.runs_in_background {
            consequences.extend(background_consequences(output));
            continue;
        }
        if let Some(text) = &output.message {
            consequences.push(format!("you are told: {text}"));
        }
        combined.merge(output);
    }
    if !may_stop(event) {
        combined.stop = None;
    }
    consequences.extend(describe_consequences(event, combined));
    HookTrial { runs, consequences }
}

fn failed(run: &mut HookTrialRun, why: String) -> String {
    let blocked = format!("Blocked: the hook {why}.");
    run.failure = Some(why);
    blocked
}

async fn try_hook<'a>(
    hook: usize,
    entry: &'a HookEntry,
    event: HookEvent,
    input: &Value,
) -> (HookTrialRun, Result<HookOutput, String>, &'a HookEntry) {
    let started = Instant::now();
    let mut run = HookTrialRun {
        hook,
        elapsed: Duration::ZERO,
        stdout: String::new(),
        stderr: String::new(),
        exit_code: None,
        failure: None,
    };
    // A value always has a JSON form.
    let Ok(input) = to_raw_value(input) else { return (run, Ok(HookOutput::default()), entry) };
    let call = HandlerCall { event, input: input.into(), tool_use: None, session: None };
    let patience = entry.timeout.unwrap_or_else(|| entry.handler.default_timeout(event));
    let output = match tokio::time::timeout(patience, entry.handler.run(call)).await {
        Ok(Ok(report)) => {
            (run.stdout, run.stderr, run.exit_code) = (report.stdout, report.stderr, report.exit_code);
            match report.answer {
                HandlerAnswer::Block(reason) if entry.wakes_model => {
                    Ok(HookOutput { block: Some(reason), ..HookOutput::default() })
                }
                answer => HookOutput::from_answer(event, answer).map_err(|why| format!("failed: {why}")),
            }
        }
        Ok(Err(HandlerError::Failed(why))) => Err(format!("failed: {why}")),
        Ok(Err(HandlerError::Gone(why))) => Err(format!("cannot answer any more: {why}")),
        Err(_) => Err(format!("did not answer within {} s", patience.as_secs_f32())),
    };
    run.elapsed = started.elapsed();
    (run, output, entry)
}

/// Returns what follows from a hook that nothing waits for.
fn background_consequences(output: HookOutput) -> Vec<String> {
    let late = output.context.into_iter().chain(output.message);
    let woken = output.block.map(|reason| format!("the model is told at once: {reason}"));
    woken.into_iter().chain(late.map(|text| format!("the model is told with the next prompt: {text}"))).collect()
}

fn describe_consequences(event: HookEvent, combined: CombinedHookOutput) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(reason) = combined.stop {
        lines.push(with_reason("the turn ends here", Some(reason)));
    }
    match combined.permission {
        Some((HookPermission::Deny, why)) if event == HookEvent::PreModelSwitch => {
            lines.push(with_reason("the model stays", why));
        }
        Some((HookPermission::Deny, why)) => lines.push(with_reason("the call is refused", why)),
        Some((HookPermission::Ask, why)) => lines.push(with_reason("a person is asked", why)),
        Some((HookPermission::Defer, why)) => {
            lines.push(with_reason("the call waits, where nobody can be asked and it is alone", why));
        }
        Some((HookPermission::Allow, why)) => {
            let what = "the call needs no question, unless a rule, a protected path or a critical removal wants one";
            lines.push(with_reason(what, why));
        }
        None => {}
    }
    if let Some(reason) = combined.blocked {
        lines.push(with_reason(block_effect(event), Some(reason)));
    }
    match combined.answer {
        Some(PermissionRequestAnswer::Allow { .. }) => lines.push("the permission prompt is answered: yes".to_owned()),
        Some(PermissionRequestAnswer::Deny { message, .. }) => {
            lines.push(with_reason("the permission prompt is answered: no", message));
        }
        None => {}
    }
    let replaced = [
        ("the call's input is replaced by", combined.input),
        ("the call's output is replaced by", combined.result),
        ("a server's output is replaced by", combined.server_result),
    ];
    lines.extend(replaced.into_iter().filter_map(|(what, json)| Some(format!("{what} {}", json?.get()))));
    let told = [
        ("a prompt is said first", combined.first_prompt),
        ("the session is named", combined.title),
        ("the model may try again", combined.retry.then(String::new)),
    ];
    lines.extend(told.into_iter().filter_map(|(what, text)| Some(with_reason(what, Some(text?)))));
    lines.extend(combined.contexts.iter().map(|text| format!("the model is told: {text}")));
    lines.extend(combined.review_contexts.iter().map(|text| format!("the reviewer of auto mode is told: {text}")));
    lines
}

/// Returns what a block means at this event.
fn block_effect(event: HookEvent) -> &'static str {
    match event {
        HookEvent::UserPromptSubmit | HookEvent::UserPromptExpansion => "the prompt is dropped",
        HookEvent::PostToolUse | HookEvent::PostToolUseFailure => "the model is told beside the result",
        HookEvent::Stop | HookEvent::SubagentStop => "the turn goes on",
        HookEvent::PostToolBatch => "the turn ends",
        HookEvent::ConfigChange => "the file's change is not taken up",
        _ => "it is blocked",
    }
}

fn with_reason(what: &str, reason: Option<String>) -> String {
    match reason.filter(|reason| !reason.trim().is_empty()) {
        Some(reason) => format!("{what}: {}", reason.trim()),
        None => what.to_owned(),
    }
}
