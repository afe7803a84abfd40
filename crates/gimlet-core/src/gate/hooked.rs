//! Hooks at the gate: those that answer in a person's place, those that hear of refusals and questions, and what is
//! written down when a hook refuses a call before anything was decided.

use gimlet_policy::shell::Trouble;
use gimlet_policy::{Behavior, Decision, HookSay, Reason, Verdict};
use gimlet_store::Decider;
use serde_json::Value;
use serde_json::value::RawValue;

use super::ledger::Word;
use super::refusal::Denied;
use super::{Answered, Gate, Refusal, edited};
use crate::call::{self, CallScope, Incoming};
use crate::hooks::{CallFacts, Fired, HookEvent, Occasion, RequestAnswer};
use crate::tool::{Prepared, ToolRef};

/// Added to a refusal that a hook does not want to be the last word.
pub(super) const RETRY: &str = " A hook has looked at this refusal and lets you try the call again.";

impl Gate {
    /// Refuses a call because a hook said so.
    pub(crate) fn refuse_by_hook(
        &self,
        scope: &CallScope,
        incoming: &Incoming,
        prepared: &Prepared,
        reason: String,
    ) -> Refusal {
        let verdict = Verdict { decision: Decision::Deny, reasons: vec![Reason::Hook(reason.clone())] };
        let denied = Denied::by_hook(reason, prepared);
        let refusal = Refusal::ByHook { denied, at_once: true, stop_turn: false };
        let word = Word::of_refusal(&refusal, &verdict);
        self.ledger.note(scope, self.mode_of(scope), &incoming.id, prepared, &verdict, &word);
        refusal
    }

    /// What hooks answer in a person's place; `None` when the person is to be asked. A question that a rule asks for is
    /// the person's alone.
    pub(super) async fn ask_hooks(
        &self,
        scope: &CallScope,
        incoming: &Incoming,
        prepared: &Prepared,
        verdict: &Verdict,
        hook: Option<&HookSay>,
    ) -> Option<Result<Answered, Refusal>> {
        let by_rule = |reason: &Reason| matches!(reason, Reason::Rule { behavior: Behavior::Ask, .. });
        let hooks = scope.services.hooks();
        if !hooks.listens(HookEvent::PermissionRequest) || verdict.reasons.iter().any(by_rule) {
            return None;
        }
        let suggestions: Vec<Value> = self
            .suggestions(scope, prepared)
            .iter()
            .filter_map(|change| serde_json::from_str(change.update.get()).ok())
            .collect();
        let tool = scope.tools.find(&prepared.tool);
        let call = facts(scope, incoming, prepared);
        let fired = hooks.fire(scope, &Occasion::PermissionRequest { call, suggestions: &suggestions }).await;
        if scope.cancel.is_cancelled() {
            return Some(Err(Refusal::Cancelled));
        }
        let stops = fired.stop.is_some();
        let answer = match fired.answer {
            Some(RequestAnswer::Allow { .. }) | None if stops => RequestAnswer::Deny {
                message: Some("Not executed: a hook stopped the turn before this call".to_owned()),
                interrupt: false,
            },
            answer => answer?,
        };
        match answer {
            RequestAnswer::Allow { input, changes } => {
                // A hook can bring the answer that a tool wants from a person, but not stand in for the person.
                let brought = |input: &RawValue| match edited(scope, incoming, input.to_owned()) {
                    Ok(changed) => tool.is_some_and(|tool| brings_answer(tool, prepared, &changed)),
                    // It fails when it is taken up, with words about what is wrong with it.
                    Err(_) => true,
                };
                let unanswered = prepared.requires_user_interaction && !input.as_deref().is_some_and(brought);
                if unanswered || verdict.reasons.iter().any(is_for_a_person) {
                    return None;
                }
                if let Err(refusal) = self.look_again(scope).await {
                    return Some(Err(refusal));
                }
                // What refuses the call by now refuses it with everything that was to come with it.
                if self.decide(scope, prepared, hook).0.decision == Decision::Deny {
                    return Some(Ok(Answered::Overtaken));
                }
                if !changes.is_empty() {
                    self.change(scope, &changes);
                }
                Some(Ok(match input {
                    Some(input) => Answered::Edited { input, by: Decider::Hook },
                    None => Answered::Go(Word::allowed_by(Decider::Hook)),
                }))
            }
            RequestAnswer::Deny { message, interrupt } => {
                let message = message.unwrap_or_else(|| format!("A hook refused this call of {}.", prepared.tool));
                let denied = Denied::by_hook(message, prepared).ending_turn_if(stops);
                Some(Err(Refusal::ByHook { denied, at_once: false, stop_turn: interrupt }))
            }
        }
    }

    /// Tells hooks that the reviewer refused a call; gives what they say about that.
    pub(super) async fn after_refusal(
        &self,
        scope: &CallScope,
        incoming: &Incoming,
        prepared: &Prepared,
        why: &str,
    ) -> Fired {
        let call = facts(scope, incoming, prepared);
        scope.services.hooks().fire(scope, &Occasion::PermissionDenied { call, reason: why }).await
    }

    /// Tells hooks that a person is about to be asked.
    pub(super) fn notify(&self, scope: &CallScope, prepared: &Prepared) {
        let hooks = scope.services.hooks();
        if hooks.listens(HookEvent::Notification) {
            let message = format!("gimlet needs your permission to use {}", prepared.user_facing_name);
            hooks.tell(scope, &Occasion::Notification { kind: "permission_prompt", message: &message });
        }
    }
}

fn facts<'a>(scope: &'a CallScope, incoming: &'a Incoming, prepared: &'a Prepared) -> CallFacts<'a> {
    let tool = scope.tools.find(&prepared.tool);
    CallFacts {
        id: &incoming.id,
        tool: call::subject(scope, prepared),
        server: tool.and_then(|tool| tool.server()),
        input: &prepared.input,
    }
}

/// Grounds of a question that no hook's yes settles: what a rule may be about, what must not be lost or rewritten, and
/// the way out of the sandbox.
fn is_for_a_person(reason: &Reason) -> bool {
    matches!(
        reason,
        Reason::Rule { .. }
            | Reason::MayMatchRule { .. }
            | Reason::ProtectedPath(_)
            | Reason::CriticalRemoval(_)
            | Reason::GivesTrust
            | Reason::UnreadSettings
            | Reason::ChangesSettings
            | Reason::LeavesSandbox
            | Reason::NotUnderstood(Trouble::TooLong)
    )
}

/// Whether the input that a hook gave holds the answer that a tool wants from a person. A tool with parameters for the
/// answer says so itself; for others whatever differs from what the hook was told is the answer. Tools that are not
/// gimlet's own always get the person.
pub(crate) fn brings_answer(tool: &ToolRef, told: &Prepared, given: &Prepared) -> bool {
    match tool {
        ToolRef::BuiltIn(tool) if tool.reserved_parameters().is_empty() => given.input != told.input,
        ToolRef::BuiltIn(_) => !given.requires_user_interaction,
        ToolRef::Guest(_) => false,
    }
}
