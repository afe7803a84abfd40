//! Combined output of all hooks of one event. The strictest decision wins; additions are kept in the order in which
//! the hooks were registered.

use gimlet_proto::ElicitationAction;
use serde_json::value::RawValue;

use super::hook_output::{ElicitationAnswer, HookOutput, HookPermission, PermissionRequestAnswer};

/// Combined output. Empty if no hook listened, none had an opinion, or the hooks were cancelled.
#[derive(Debug, Default)]
pub(crate) struct CombinedHookOutput {
    /// Message for the user if the turn is to end.
    pub(crate) stop: Option<String>,
    /// Reason if the guarded action is blocked.
    pub(crate) blocked: Option<String>,
    /// Decision on a call; the reason is that of the first hook that made it.
    pub(crate) permission: Option<(HookPermission, Option<String>)>,
    /// New input of the call.
    pub(crate) input: Option<Box<RawValue>>,
    /// New output of the call.
    pub(crate) result: Option<Box<RawValue>>,
    /// New output of the call, if the tool belongs to a server.
    pub(crate) server_result: Option<Box<RawValue>>,
    /// Context for the model, already formatted.
    pub(crate) contexts: Vec<String>,
    /// Context for the reviewer of auto mode.
    pub(crate) review_contexts: Vec<String>,
    /// Answer in place of the user.
    pub(crate) answer: Option<PermissionRequestAnswer>,
    /// Answer to a server's question.
    pub(crate) elicitation: Option<ElicitationAnswer>,
    /// True if the model may retry a refused call.
    pub(crate) retry: bool,
    /// Name for the session.
    pub(crate) title: Option<String>,
    /// Message added before the first prompt, as if the user had sent it.
    pub(crate) first_prompt: Option<String>,
    /// True if a blocked prompt must not be shown again.
    pub(crate) hides_prompt: bool,
}

impl CombinedHookOutput {
    /// Merges the output of one more hook.
    pub(super) fn merge(&mut self, output: HookOutput) {
        if let Some(reason) = output.stop {
            self.stop.get_or_insert(reason);
        }
        if let Some(reason) = output.block {
            match &mut self.blocked {
                Some(reasons) => *reasons = [reasons.as_str(), reason.as_str()].join("\n"),
                None => self.blocked = Some(reason),
            }
        }
        if let Some(said) = output.permission
            && self.permission.as_ref().is_none_or(|(strictest, _)| said.0 > *strictest)
        {
            self.permission = Some(said);
        }
        self.input = output.input.or(self.input.take());
        self.result = output.result.or(self.result.take());
        self.server_result = output.server_result.or(self.server_result.take());
        self.contexts.extend(output.context);
        self.review_contexts.extend(output.review_context);
        let denied = matches!(self.answer, Some(PermissionRequestAnswer::Deny { .. }));
        if let Some(answer) = output.answer.filter(|answer| match answer {
            PermissionRequestAnswer::Allow { .. } => self.answer.is_none(),
            PermissionRequestAnswer::Deny { .. } => !denied,
        }) {
            self.answer = Some(answer);
        }
        // The first answer that is no approval counts.
        if self.elicitation.as_ref().is_none_or(|(action, _)| *action == ElicitationAction::Accept)
            && let Some(answer) = output.elicitation
            && (self.elicitation.is_none() || answer.0 != ElicitationAction::Accept)
        {
            self.elicitation = Some(answer);
        }
        self.retry |= output.retry;
        self.title = output.title.or(self.title.take());
        self.first_prompt = output.first_prompt.or(self.first_prompt.take());
        self.hides_prompt |= output.hides_prompt;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{HandlerAnswer, HookEvent};
    use super::*;
    use serde_json::json;

    fn fired(event: HookEvent, answers: &[serde_json::Value]) -> CombinedHookOutput {
        let mut fired = CombinedHookOutput::default();
        for answer in answers {
            let json = RawValue::from_string(answer.to_string()).unwrap();
            fired.merge(HookOutput::from_answer(event, HandlerAnswer::Json(json)).unwrap());
        }
        fired
    }

    fn say(decision: &str, reason: &str) -> serde_json::Value {
        json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": decision,
                                      "permissionDecisionReason": reason, "additionalContext": reason}})
    }

    #[test]
    fn the_strictest_word_wins_whatever_the_order_and_contexts_keep_theirs() {
        let words = ["allow", "ask", "defer", "deny"];
        for (strict, word) in words.iter().enumerate() {
            for weaker in &words[..strict] {
                for order in [[word, weaker], [weaker, word]] {
                    let fired = fired(HookEvent::PreToolUse, &order.map(|word| say(word, word)));
                    assert_eq!(fired.permission.unwrap().1.as_deref(), Some(*word));
                    assert_eq!(fired.contexts, order.map(|word| *word));
                }
            }
        }
    }

    #[test]
    fn the_older_form_of_a_decision_still_decides() {
        let denied = fired(HookEvent::PreToolUse, &[json!({"decision": "block", "reason": "no"})]);
        assert_eq!(denied.permission, Some((HookPermission::Deny, Some("no".to_owned()))));
        let allowed = fired(HookEvent::PreToolUse, &[json!({"decision": "approve"})]);
        assert_eq!(allowed.permission, Some((HookPermission::Allow, None)));
    }

    #[test]
    fn a_denial_on_behalf_of_the_user_beats_an_approval() {
        let yes =
            json!({"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}});
        let no = json!({"hookSpecificOutput": {"hookEventName": "PermissionRequest",
                                               "decision": {"behavior": "deny", "message": "m", "interrupt": true}}});
        for order in [[yes.clone(), no.clone()], [no, yes]] {
            let fired = fired(HookEvent::PermissionRequest, &order);
            assert!(matches!(fired.answer, Some(PermissionRequestAnswer::Deny { interrupt: true, .. })), "{fired:?}");
        }
    }

    #[test]
    fn unknown_members_pass_and_unknown_decisions_do_not() {
        let read = |json: &str| {
            let json = RawValue::from_string(json.to_owned()).unwrap();
            HookOutput::from_answer(HookEvent::PreToolUse, HandlerAnswer::Json(json))
        };
        assert!(read(r#"{"unknown":1,"hookSpecificOutput":{"more":2}}"#).is_ok());
        for bad in [
            r#"{"hookSpecificOutput":{"permissionDecision":"maybe"}}"#,
            r#"{"hookSpecificOutput":{"hookEventName":"Stop"}}"#,
            r#"{"hookSpecificOutput":{"updatedInput":[]}}"#,
            r#"{"decision":"perhaps"}"#,
            r#"{"continue":"no"}"#,
            "[]",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
