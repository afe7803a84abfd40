//! What all hooks of one firing say together. The strictest word wins; what several say in addition is kept in the order
//! in which the hooks were registered.

use serde_json::value::RawValue;

use super::hook_output::{HookOutput, HookPermission, PermissionRequestAnswer};

/// The sum of a firing. Empty when nobody listened, nobody had an opinion, or the hooks were withdrawn.
#[derive(Debug, Default)]
pub(crate) struct CombinedHookOutput {
    /// The turn is to end, and what people are told about it.
    pub(crate) stop: Option<String>,
    /// What the event guards is not to happen, and why.
    pub(crate) blocked: Option<String>,
    /// What is said about a call; the reason is that of the first who said it.
    pub(crate) permission: Option<(HookPermission, Option<String>)>,
    /// The call's input is to be this.
    pub(crate) input: Option<Box<RawValue>>,
    /// The call's output is to be this.
    pub(crate) result: Option<Box<RawValue>>,
    /// The same, if the tool is a server's.
    pub(crate) server_result: Option<Box<RawValue>>,
    /// For the model, ready to be told.
    pub(crate) contexts: Vec<String>,
    /// For whoever reviews calls in a person's place.
    pub(crate) review_contexts: Vec<String>,
    /// An answer in place of a person.
    pub(crate) answer: Option<PermissionRequestAnswer>,
    /// The model may try a refused call again.
    pub(crate) retry: bool,
    /// A name for the session.
    pub(crate) title: Option<String>,
    /// Said to the model before the first prompt, as if a person had.
    pub(crate) first_prompt: Option<String>,
    /// A blocked prompt is not to be repeated to people.
    pub(crate) hides_prompt: bool,
}

impl CombinedHookOutput {
    /// Takes in what one more hook said.
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
