//! Hooks around one call: before it is decided on, and after it ran. Output from before the call can only end the
//! call, change its input or become an argument for the gate; output from after the call is added for the model beside
//! the result.

use std::path::PathBuf;
use std::sync::Arc;

use gimlet_policy::HookDecision;
use gimlet_proto::{AccessNeed, EventBody, Notice, NoticeLevel, TurnEnd};
use gimlet_text::enclose_in_tag;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{CallScope, ToolCall};
use crate::call_result::{CallResult, cancelled_result, replace_blank_text};
use crate::files::FileStamp;
use crate::gate::{Clearance, Permit, Refusal, has_user_answer, prepare_edited_call};
use crate::hooks::{CallFacts, CombinedHookOutput, HookEvent, HookPayload, HookPermission, HookSubject};
use crate::tool::{ErrorClass, NewMessage, PreparedCall, ToolError, ToolRef};

/// A call that hooks let continue.
pub(super) struct HookClearedCall {
    pub(super) pass: Clearance,
    /// Decision of hooks on its permission.
    pub(super) say: Option<HookDecision>,
    /// Context for the model, added beside the result.
    pub(super) contexts: Vec<String>,
}

/// Returns true if a hook matches this call before it is decided on.
pub(crate) fn has_pre_call_hooks(scope: &CallScope, prepared: &PreparedCall) -> bool {
    let hooks = scope.services.hooks();
    hooks.has_listeners(HookEvent::PreToolUse)
        && hooks.has_matching_hook(HookEvent::PreToolUse, hook_subject(scope, prepared))
}

/// Returns the tool of a call as matchers see it.
pub(crate) fn hook_subject<'a>(scope: &'a CallScope, prepared: &'a PreparedCall) -> HookSubject<'a> {
    let aliases = scope.tools.find(&prepared.tool).map_or(&[][..], |tool| tool.aliases());
    HookSubject { name: &prepared.tool, aliases, also_named: &prepared.also_named }
}

/// Runs the hooks that come before a call.
pub(super) async fn run_pre_call_hooks(
    scope: &CallScope,
    incoming: &ToolCall,
    tool: &ToolRef,
    pass: Clearance,
    alone: bool,
) -> Result<HookClearedCall, Box<CallResult>> {
    let hooks = scope.services.hooks();
    let prepared = match pass {
        Clearance::Undecided(prepared) if hooks.has_listeners(HookEvent::PreToolUse) => prepared,
        pass => return Ok(HookClearedCall { pass, say: None, contexts: Vec::new() }),
    };
    let call = call_facts(incoming, tool, &prepared.input, &prepared.needs);
    let mut fired = hooks.fire(scope, &HookPayload::PreToolUse(call)).await;
    let contexts = std::mem::take(&mut fired.contexts);
    match apply_pre_call_hooks(scope, incoming, tool, prepared, fired, alone) {
        Ok((prepared, say)) => Ok(HookClearedCall { pass: Clearance::Undecided(prepared), say, contexts }),
        Err(mut settled) => {
            settled.new_messages.splice(0..0, contexts.into_iter().map(NewMessage::Text));
            Err(settled)
        }
    }
}

/// Applies the output of pre-call hooks to a call.
fn apply_pre_call_hooks(
    scope: &CallScope,
    incoming: &ToolCall,
    tool: &ToolRef,
    prepared: Box<PreparedCall>,
    fired: CombinedHookOutput,
    alone: bool,
) -> Result<(Box<PreparedCall>, Option<HookDecision>), Box<CallResult>> {
    if scope.cancel.is_cancelled() {
        return Err(Box::new(cancelled_result("the turn was stopped while a hook looked at this call")));
    }
    let stop = fired.stop.is_some();
    if let Some((HookPermission::Deny, reason)) = fired.permission {
        let reason = reason.unwrap_or_else(|| format!("A hook blocked this call of {}.", tool.name()));
        let refusal = scope.gate.refuse_by_hook(scope, incoming, &prepared, reason);
        let mut settled = refusal.into_call_result(scope, incoming);
        settled.ends_turn = stop.then_some(TurnEnd::HookStopped);
        return Err(Box::new(settled));
    }
    if stop {
        let error = ToolError::new(ErrorClass::HookBlocked, "Not executed: a hook stopped the turn before this call");
        let mut settled = CallResult::from_error(error);
        settled.ends_turn = Some(TurnEnd::HookStopped);
        return Err(Box::new(settled));
    }
    let say = match fired.permission {
        Some((HookPermission::Defer, _)) if alone && scope.subagent.is_none() && !scope.gate.is_attended() => {
            return Err(deferred_result(incoming));
        }
        Some((HookPermission::Defer, _)) => {
            let text = "a hook wanted to leave a call for later, which is only possible for a call that is alone in its \
                        reply and when nobody can be asked; it is decided on as usual";
            scope.services.publish(
                &scope.agent,
                EventBody::Notice(Notice { level: NoticeLevel::Warning, text: text.to_owned() }),
            );
            None
        }
        Some((HookPermission::Ask, reason)) => {
            Some(HookDecision::Ask(reason.unwrap_or_else(|| "a hook asks".to_owned())))
        }
        Some((HookPermission::Allow, reason)) => {
            Some(HookDecision::Allow(reason.unwrap_or_else(|| "a hook allows it".to_owned())))
        }
        Some((HookPermission::Deny, _)) | None => None,
    };
    let Some(input) = fired.input else { return Ok((prepared, say)) };
    let mut changed = prepare_edited_call(scope, incoming, input)
        .map_err(|refusal| invalid_input_result(refusal, scope, incoming))?;
    if matches!(say, Some(HookDecision::Allow(_))) && has_user_answer(tool, &prepared, &changed) {
        changed.requires_user_interaction = false;
    }
    Ok((changed, say))
}

fn invalid_input_result(refusal: Refusal, scope: &CallScope, incoming: &ToolCall) -> Box<CallResult> {
    Box::new(refusal.into_call_result(scope, incoming))
}

/// Returns the result for a deferred call: the turn ends, and the call waits without a result.
fn deferred_result(incoming: &ToolCall) -> Box<CallResult> {
    let mut settled = cancelled_result("a hook left this call for later");
    settled.ends_turn = Some(TurnEnd::Deferred {
        call: incoming.id.clone(),
        tool: incoming.name.clone(),
        input: incoming.input.clone(),
    });
    Box::new(settled)
}

/// Facts for post-call hooks, collected before the call runs.
pub(super) struct PostCallFacts {
    input: Value,
    needs: Vec<AccessNeed>,
    /// Files that the call may write, symlinks resolved.
    written: Vec<PathBuf>,
}

impl PostCallFacts {
    /// Returns the facts, or `None` if no hook listens for the end of such a call.
    pub(super) fn for_call(scope: &CallScope, tool: &ToolRef, permit: &Permit) -> Option<Self> {
        let hooks = scope.services.hooks();
        let awaited = |event| hooks.has_matching_hook(event, HookSubject::for_tool(tool));
        if !(awaited(HookEvent::PostToolUse) || awaited(HookEvent::PostToolUseFailure)) {
            return None;
        }
        let really = |path: &PathBuf| {
            permit.resolved().iter().find(|(spelled, _)| spelled == path).map_or(path, |(_, real)| real).clone()
        };
        let written = permit.needs().iter().filter_map(|need| match need {
            AccessNeed::Write(path) => Some(really(path)),
            _ => None,
        });
        Some(Self { input: permit.input().clone(), needs: permit.needs().to_vec(), written: written.collect() })
    }

    /// Runs the hooks that come after a call and adds their output to the result.
    pub(super) async fn run_post_call_hooks(
        self,
        scope: &CallScope,
        incoming: &ToolCall,
        tool: &ToolRef,
        settled: &mut CallResult,
        elapsed_ms: u64,
    ) {
        let call = call_facts(incoming, tool, &self.input, &self.needs);
        let hooks = scope.services.hooks();
        let output = settled.output.clone();
        let fired = match settled.error {
            None => hooks.fire(scope, &HookPayload::PostToolUse { call, response: &output, elapsed_ms }).await,
            // The party that stopped the call knows that it failed.
            Some(ErrorClass::Interrupted | ErrorClass::Cancelled) => return,
            Some(_) => {
                let error = settled.content.to_text();
                hooks.fire(scope, &HookPayload::PostToolUseFailure { call, error: &error, elapsed_ms }).await
            }
        };
        let server_result = if tool.server().is_some() { fired.server_result } else { None };
        if settled.error.is_none()
            && let Some(result) = fired.result.or(server_result)
        {
            replace_output(scope, tool, settled, result);
        }
        if let Some(reason) = fired.blocked {
            let name = tool.name();
            let text = format!("A hook that looked at the result of {name} objects: {reason}");
            settled.new_messages.push(NewMessage::Text(enclose_in_tag("system-reminder", &text)));
        }
        settled.new_messages.extend(fired.contexts.into_iter().map(NewMessage::Text));
        fired.review_contexts.iter().for_each(|text| scope.gate.note_hook_context(text));
        if fired.stop.is_some() {
            settled.ends_turn = Some(TurnEnd::HookStopped);
        }
        settled.redact(scope.services.redactor());
        self.refresh_files(settled).await;
    }

    /// Records the current state of files that the call wrote: a hook may have rewritten them, as formatters do, and
    /// that is not an external change that the model must be warned of.
    async fn refresh_files(self, settled: &mut CallResult) {
        let written = self.written;
        if written.is_empty() || settled.error.is_some() {
            return;
        }
        let look = move || written.into_iter().filter_map(|path| Some((stamp_file(&path)?, path))).collect::<Vec<_>>();
        // If no thread is available, the stamps stay as the call itself recorded them.
        let Ok(stamps) = tokio::task::spawn_blocking(look).await else { return };
        settled.changes.push(Box::new(move |state| {
            for (stamp, path) in stamps {
                state.files.update_stamp(path, stamp);
            }
        }));
    }
}

fn stamp_file(path: &std::path::Path) -> Option<FileStamp> {
    let metadata = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    Some(FileStamp::from_bytes(&std::fs::read(path).ok()?, &metadata))
}

/// Replaces the tool's output with a hook's, if that has the tool's format.
fn replace_output(scope: &CallScope, tool: &ToolRef, settled: &mut CallResult, output: Box<RawValue>) {
    match tool.content_from_output(&output) {
        Some(content) => {
            settled.content = replace_blank_text(tool.name(), content);
            settled.output = Arc::from(output);
        }
        None => {
            let name = tool.name();
            let text = format!("a hook's output for {name} is ignored: {name} takes none, or not in this form");
            scope.services.publish(&scope.agent, EventBody::Notice(Notice { level: NoticeLevel::Warning, text }));
        }
    }
}

fn call_facts<'a>(
    incoming: &'a ToolCall,
    tool: &'a ToolRef,
    input: &'a Value,
    needs: &'a [AccessNeed],
) -> CallFacts<'a> {
    CallFacts { id: &incoming.id, tool: HookSubject::for_tool(tool), server: tool.server(), input, needs }
}
