//! Hooks at the gate: those that answer in place of the user, those that are notified of refusals and questions, and
//! the record of a call that a hook refused before it was decided.

use gimlet_policy::shell::ParseTrouble;
use gimlet_policy::{Behavior, CallCondition, Decision, HookDecision, SandboxPlacement, Verdict, VerdictReason};
use gimlet_proto::PermissionMode;
use gimlet_store::Decider;
use serde_json::Value;
use serde_json::value::RawValue;

use super::decision_log::FinalDecision;
use super::refusal::DenialDetails;
use super::{AskOutcome, Gate, PolicyCall, Refusal, prepare_edited_call};
use crate::call::{self, CallScope, ToolCall};
use crate::hooks::{CallFacts, CombinedHookOutput, HookEvent, HookPayload, PermissionRequestAnswer};
use crate::panics::catch_panic;
use crate::tool::{PermissionVerdict, PreparedCall, ToolRef};

/// Text added to a refusal that a hook allows to be retried.
pub(super) const RETRY: &str = " A hook has looked at this refusal and lets you try the call again.";

impl Gate {
    /// Returns for each condition of a hook whether the call may be meant by it. If that cannot be found out the hook
    /// runs: it may be there to deny.
    pub(crate) fn match_conditions(
        &self,
        scope: &CallScope,
        call: CallFacts<'_>,
        conditions: &[&CallCondition],
    ) -> Vec<bool> {
        let sought = PolicyCall {
            tool: call.tool.name,
            also_named: call.tool.also_named,
            needs: call.needs,
            input: call.input.as_object(),
            needs_person: false,
            own: &PermissionVerdict::Passthrough,
        };
        let mode = PermissionMode::Default;
        let matched = catch_panic(|| {
            self.with_policy_input_in_mode(mode, &scope.services, SandboxPlacement::None, |input| {
                input.match_conditions(conditions, sought)
            })
        });
        matched.unwrap_or_else(|panicked| {
            panicked.log(scope, "matching the condition of a hook");
            vec![true; conditions.len()]
        })
    }

    /// Refuses a call because of a hook's decision.
    pub(crate) fn refuse_by_hook(
        &self,
        scope: &CallScope,
        incoming: &ToolCall,
        prepared: &PreparedCall,
        reason: String,
    ) -> Refusal {
        let verdict = Verdict { decision: Decision::Deny, reasons: vec![VerdictReason::Hook(reason.clone())] };
        let denied = DenialDetails::by_hook(reason, prepared);
        let refusal = Refusal::ByHook { denied, at_once: true, stop_turn: false };
        let word = FinalDecision::from_refusal(&refusal, &verdict);
        self.ledger.record_call(scope, self.mode_for(scope), &incoming.id, prepared, &verdict, &word);
        refusal
    }

    /// Returns the answer of hooks in place of the user's; `None` when the user is to be asked. A question that a rule
    /// requires goes only to the user.
    pub(super) async fn ask_hooks(
        &self,
        scope: &CallScope,
        incoming: &ToolCall,
        prepared: &PreparedCall,
        verdict: &Verdict,
        hook: Option<&HookDecision>,
    ) -> Option<Result<AskOutcome, Refusal>> {
        let by_rule = |reason: &VerdictReason| matches!(reason, VerdictReason::Rule { behavior: Behavior::Ask, .. });
        let hooks = scope.services.hooks();
        if !hooks.has_listeners(HookEvent::PermissionRequest) || verdict.reasons.iter().any(by_rule) {
            return None;
        }
        let suggestions: Vec<Value> = self
            .suggestions(scope, prepared)
            .iter()
            .filter_map(|change| serde_json::from_str(change.update.get()).ok())
            .collect();
        let tool = scope.tools.find(&prepared.tool);
        let call = call_facts(scope, incoming, prepared);
        let fired = hooks.fire(scope, &HookPayload::PermissionRequest { call, suggestions: &suggestions }).await;
        if scope.cancel.is_cancelled() {
            return Some(Err(Refusal::Cancelled));
        }
        let stops = fired.stop.is_some();
        let answer = match fired.answer {
            Some(PermissionRequestAnswer::Allow { .. }) | None if stops => PermissionRequestAnswer::Deny {
                message: Some("Not executed: a hook stopped the turn before this call".to_owned()),
                interrupt: false,
            },
            answer => answer?,
        };
        match answer {
            PermissionRequestAnswer::Allow { input, changes } => {
                // A hook can provide the answer that a tool wants from the user, but cannot replace the user
                // otherwise.
                let brought = |input: &RawValue| match prepare_edited_call(scope, incoming, input.to_owned()) {
                    Ok(changed) => tool.is_some_and(|tool| has_user_answer(tool, prepared, &changed)),
                    // It fails when it is prepared again, with a message about the problem.
                    Err(_) => true,
                };
                let unanswered = prepared.requires_user_interaction && !input.as_deref().is_some_and(brought);
                if unanswered || verdict.reasons.iter().any(requires_user_answer) {
                    return None;
                }
                if let Err(refusal) = self.refresh_settings_for_call(scope).await {
                    return Some(Err(refusal));
                }
                // If the call is refused by now, nothing that came with the answer applies.
                if self.decide_call(scope, prepared, hook).0.decision == Decision::Deny {
                    return Some(Ok(AskOutcome::Superseded));
                }
                if !changes.is_empty() {
                    self.apply_user_changes(scope, &changes);
                }
                Some(Ok(match input {
                    Some(input) => AskOutcome::Edited { input, by: Decider::Hook },
                    None => AskOutcome::Allowed(FinalDecision::allowed_by(Decider::Hook)),
                }))
            }
            PermissionRequestAnswer::Deny { message, interrupt } => {
                let message = message.unwrap_or_else(|| format!("A hook refused this call of {}.", prepared.tool));
                let denied = DenialDetails::by_hook(message, prepared).ending_turn_if(stops);
                Some(Err(Refusal::ByHook { denied, at_once: false, stop_turn: interrupt }))
            }
        }
    }

    /// Notifies hooks that the reviewer refused a call and returns their output.
    pub(super) async fn report_refusal_to_hooks(
        &self,
        scope: &CallScope,
        incoming: &ToolCall,
        prepared: &PreparedCall,
        why: &str,
    ) -> CombinedHookOutput {
        let call = call_facts(scope, incoming, prepared);
        scope.services.hooks().fire(scope, &HookPayload::PermissionDenied { call, reason: why }).await
    }

    /// Notifies hooks that the user is about to be asked.
    pub(super) fn notify_hooks_of_ask(&self, scope: &CallScope, prepared: &PreparedCall) {
        let hooks = scope.services.hooks();
        if hooks.has_listeners(HookEvent::Notification) {
            let message = format!("gimlet needs your permission to use {}", prepared.user_facing_name);
            hooks.fire_detached(scope, &HookPayload::Notification { kind: "permission_prompt", message: &message });
        }
    }
}

fn call_facts<'a>(scope: &'a CallScope, incoming: &'a ToolCall, prepared: &'a PreparedCall) -> CallFacts<'a> {
    let tool = scope.tools.find(&prepared.tool);
    CallFacts {
        id: &incoming.id,
        tool: call::hook_subject(scope, prepared),
        server: tool.and_then(|tool| tool.server()),
        input: &prepared.input,
        needs: &prepared.needs,
    }
}

/// Returns true for reasons of a question that no hook can approve: rules, protected paths, critical removals, trust
/// and settings, leaving the sandbox, and commands too long to parse.
fn requires_user_answer(reason: &VerdictReason) -> bool {
    matches!(
        reason,
        VerdictReason::Rule { .. }
            | VerdictReason::MayMatchRule { .. }
            | VerdictReason::ProtectedPath(_)
            | VerdictReason::CriticalRemoval(_)
            | VerdictReason::GivesTrust
            | VerdictReason::UnreadSettings
            | VerdictReason::ChangesSettings
            | VerdictReason::LeavesSandbox
            | VerdictReason::NotUnderstood(ParseTrouble::TooLong)
    )
}

/// Returns true if the input from a hook holds the answer that a tool wants from the user. A tool with parameters for
/// the answer checks that itself; for others any difference from the hook's input is the answer. External tools always
/// need the user.
pub(crate) fn has_user_answer(tool: &ToolRef, told: &PreparedCall, given: &PreparedCall) -> bool {
    match tool {
        ToolRef::BuiltIn(tool) if tool.reserved_parameters().is_empty() => given.input != told.input,
        ToolRef::BuiltIn(_) => !given.requires_user_interaction,
        ToolRef::External(_) => false,
    }
}
