//! Hooks around one call: before anybody decides on it, and after it ran. What they say before can only end the call,
//! change its input or become an argument for the gate; what they say after is told to the model beside the result.

use std::path::PathBuf;
use std::sync::Arc;

use gimlet_policy::HookSay;
use gimlet_proto::{Body, Level, Need, Notice, TurnEnd, enclosed};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{CallScope, Incoming};
use crate::files::Stamp;
use crate::gate::{Pass, Permit, Refusal, brings_answer, edited};
use crate::hooks::{CallFacts, Fired, HookEvent, Occasion, Permission, Subject};
use crate::results::{Settled, cancelled, without_blanks};
use crate::tool::{ErrorClass, Prepared, ToolError, ToolRef};

/// A call that hooks let go on.
pub(super) struct Cleared {
    pub(super) pass: Pass,
    /// What hooks said about its permission.
    pub(super) say: Option<HookSay>,
    /// For the model, beside the result.
    pub(super) contexts: Vec<String>,
}

/// Whether hooks want to look at a call before it is decided on.
pub(crate) fn is_awaited(scope: &CallScope, prepared: &Prepared) -> bool {
    let hooks = scope.services.hooks();
    hooks.listens(HookEvent::PreToolUse) && hooks.is_awaited(HookEvent::PreToolUse, subject(scope, prepared))
}

/// The tool of a call as matchers know it.
pub(crate) fn subject<'a>(scope: &'a CallScope, prepared: &'a Prepared) -> Subject<'a> {
    let aliases = scope.tools.find(&prepared.tool).map_or(&[][..], |tool| tool.aliases());
    Subject { name: &prepared.tool, aliases, also_named: &prepared.also_named }
}

/// Lets hooks look at a call first.
pub(super) async fn before(
    scope: &CallScope,
    incoming: &Incoming,
    tool: &ToolRef,
    pass: Pass,
    alone: bool,
) -> Result<Cleared, Box<Settled>> {
    let hooks = scope.services.hooks();
    let prepared = match pass {
        Pass::Undecided(prepared) if hooks.listens(HookEvent::PreToolUse) => prepared,
        pass => return Ok(Cleared { pass, say: None, contexts: Vec::new() }),
    };
    let call = facts(incoming, tool, &prepared.input);
    let mut fired = hooks.fire(scope, &Occasion::PreToolUse(call)).await;
    let contexts = std::mem::take(&mut fired.contexts);
    match clear(scope, incoming, tool, prepared, fired, alone) {
        Ok((prepared, say)) => Ok(Cleared { pass: Pass::Undecided(prepared), say, contexts }),
        Err(mut settled) => {
            settled.new_messages.splice(0..0, contexts);
            Err(settled)
        }
    }
}

/// Acts on what hooks said about a call.
fn clear(
    scope: &CallScope,
    incoming: &Incoming,
    tool: &ToolRef,
    prepared: Box<Prepared>,
    fired: Fired,
    alone: bool,
) -> Result<(Box<Prepared>, Option<HookSay>), Box<Settled>> {
    if scope.cancel.is_cancelled() {
        return Err(Box::new(cancelled("the turn was stopped while a hook looked at this call")));
    }
    let stop = fired.stop.is_some();
    if let Some((Permission::Deny, reason)) = fired.permission {
        let reason = reason.unwrap_or_else(|| format!("A hook blocked this call of {}.", tool.name()));
        let refusal = scope.gate.refuse_by_hook(scope, incoming, &prepared, reason);
        let mut settled = refusal.into_settled(scope, incoming);
        settled.ends_turn = stop.then_some(TurnEnd::HookStopped);
        return Err(Box::new(settled));
    }
    if stop {
        let error = ToolError::new(ErrorClass::HookBlocked, "Not executed: a hook stopped the turn before this call");
        let mut settled = Settled::failed(error);
        settled.ends_turn = Some(TurnEnd::HookStopped);
        return Err(Box::new(settled));
    }
    let say = match fired.permission {
        Some((Permission::Defer, _)) if alone && scope.subagent.is_none() && !scope.gate.is_attended() => {
            return Err(deferred(incoming));
        }
        Some((Permission::Defer, _)) => {
            let text = "a hook wanted to leave a call for later, which is only possible for a call that is alone in its \
                        reply and when nobody can be asked; it is decided on as usual";
            scope.services.publish(&scope.agent, Body::Notice(Notice { level: Level::Warning, text: text.to_owned() }));
            None
        }
        Some((Permission::Ask, reason)) => Some(HookSay::Ask(reason.unwrap_or_else(|| "a hook asks".to_owned()))),
        Some((Permission::Allow, reason)) => {
            Some(HookSay::Allow(reason.unwrap_or_else(|| "a hook allows it".to_owned())))
        }
        Some((Permission::Deny, _)) | None => None,
    };
    let Some(input) = fired.input else { return Ok((prepared, say)) };
    let mut changed = edited(scope, incoming, input).map_err(|refusal| invalid(refusal, scope, incoming))?;
    if matches!(say, Some(HookSay::Allow(_))) && brings_answer(tool, &prepared, &changed) {
        changed.requires_user_interaction = false;
    }
    Ok((changed, say))
}

fn invalid(refusal: Refusal, scope: &CallScope, incoming: &Incoming) -> Box<Settled> {
    Box::new(refusal.into_settled(scope, incoming))
}

/// The turn ends, and the call waits without a result.
fn deferred(incoming: &Incoming) -> Box<Settled> {
    let mut settled = cancelled("a hook left this call for later");
    settled.ends_turn = Some(TurnEnd::Deferred {
        call: incoming.id.clone(),
        tool: incoming.name.clone(),
        input: incoming.input.clone(),
    });
    Box::new(settled)
}

/// What hooks are told of a call after it ran, taken before it does.
pub(super) struct Told {
    input: Value,
    /// The files that it may write, links followed.
    written: Vec<PathBuf>,
}

impl Told {
    /// `None` when nobody waits for the end of such a call.
    pub(super) fn of(scope: &CallScope, tool: &ToolRef, permit: &Permit) -> Option<Self> {
        let hooks = scope.services.hooks();
        let awaited = |event| hooks.is_awaited(event, Subject::of_tool(tool));
        if !(awaited(HookEvent::PostToolUse) || awaited(HookEvent::PostToolUseFailure)) {
            return None;
        }
        let really = |path: &PathBuf| {
            permit.resolved().iter().find(|(spelled, _)| spelled == path).map_or(path, |(_, real)| real).clone()
        };
        let written = permit.needs().iter().filter_map(|need| match need {
            Need::Write(path) => Some(really(path)),
            _ => None,
        });
        Some(Self { input: permit.input().clone(), written: written.collect() })
    }

    /// Tells hooks how the call went and takes in what they say.
    pub(super) async fn after(
        self,
        scope: &CallScope,
        incoming: &Incoming,
        tool: &ToolRef,
        settled: &mut Settled,
        elapsed_ms: u64,
    ) {
        let call = facts(incoming, tool, &self.input);
        let hooks = scope.services.hooks();
        let output = settled.output.clone();
        let fired = match settled.error {
            None => hooks.fire(scope, &Occasion::PostToolUse { call, response: &output, elapsed_ms }).await,
            // Whoever stopped the call knows that it failed.
            Some(ErrorClass::Interrupted | ErrorClass::Cancelled) => return,
            Some(_) => {
                let error = settled.content.to_text();
                hooks.fire(scope, &Occasion::PostToolUseFailure { call, error: &error, elapsed_ms }).await
            }
        };
        let result = fired.result.or(fired.server_result.filter(|_| tool.server().is_some()));
        if let Some(result) = result.filter(|_| settled.error.is_none()) {
            replace_output(scope, tool, settled, result);
        }
        if let Some(reason) = fired.blocked {
            let name = tool.name();
            let text = format!("A hook that looked at the result of {name} objects: {reason}");
            settled.new_messages.push(enclosed("system-reminder", &text));
        }
        settled.new_messages.extend(fired.contexts);
        fired.review_contexts.iter().for_each(|text| scope.gate.note_hook(text));
        if fired.stop.is_some() {
            settled.ends_turn = Some(TurnEnd::HookStopped);
        }
        settled.redact(&scope.services.redactor);
        self.refresh_files(settled).await;
    }

    /// A hook may have rewritten what the call wrote, as formatters do. That is no change behind the model's back.
    async fn refresh_files(self, settled: &mut Settled) {
        let written = self.written;
        if written.is_empty() || settled.error.is_some() {
            return;
        }
        let look = move || written.into_iter().filter_map(|path| Some((stamp(&path)?, path))).collect::<Vec<_>>();
        // A thread that could not be had leaves everything as the call itself noted it.
        let Ok(stamps) = tokio::task::spawn_blocking(look).await else { return };
        settled.changes.push(Box::new(move |state| {
            for (stamp, path) in stamps {
                state.files.refresh(path, stamp);
            }
        }));
    }
}

fn stamp(path: &std::path::Path) -> Option<Stamp> {
    let metadata = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    Some(Stamp::of(&std::fs::read(path).ok()?, &metadata))
}

/// Puts a hook's output in place of the tool's, if it has the tool's form.
fn replace_output(scope: &CallScope, tool: &ToolRef, settled: &mut Settled, output: Box<RawValue>) {
    match tool.content_of(&output) {
        Some(content) => {
            settled.content = without_blanks(tool.name(), content);
            settled.output = Arc::from(output);
        }
        None => {
            let name = tool.name();
            let text = format!("a hook's output for {name} is ignored: {name} takes none, or not in this form");
            scope.services.publish(&scope.agent, Body::Notice(Notice { level: Level::Warning, text }));
        }
    }
}

fn facts<'a>(incoming: &'a Incoming, tool: &'a ToolRef, input: &'a Value) -> CallFacts<'a> {
    CallFacts { id: &incoming.id, tool: Subject::of_tool(tool), server: tool.server(), input }
}
