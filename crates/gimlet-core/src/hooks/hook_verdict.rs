//! The verdict of a model in a hook, and what it means at each event.

use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::HookEvent;

/// Answer of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct HookVerdict {
    pub(super) ok: bool,
    pub(super) reason: Option<String>,
    /// True if what was asked for cannot be reached, so that an agent may end all the same.
    impossible: Option<bool>,
}

impl HookVerdict {
    /// Reads the verdict in a text: its last JSON object that is one.
    pub(super) fn from_text(text: &str) -> Option<Self> {
        let starts: Vec<usize> = text.match_indices('{').map(|(at, _)| at).collect();
        let read = |at: &usize| {
            let mut values = serde_json::Deserializer::from_str(text.get(*at..)?).into_iter::<Self>();
            values.next()?.ok()
        };
        starts.iter().rev().take(100).find_map(read)
    }

    /// Returns the answer of the hook in the public form. `goes_on` is true if a refused call becomes an error for the
    /// model instead of ending the turn.
    pub(super) fn to_answer(&self, event: HookEvent, goes_on: bool) -> Option<Box<RawValue>> {
        to_raw_value(&self.to_json(event, goes_on)).ok()
    }

    fn to_json(&self, event: HookEvent, goes_on: bool) -> Value {
        if self.ok {
            return json!({});
        }
        let reason = self.reason.clone().unwrap_or_else(|| "a hook does not agree".to_owned());
        let block = json!({"decision": "block", "reason": reason});
        let end = json!({"continue": false, "stopReason": reason});
        match event {
            HookEvent::Stop | HookEvent::SubagentStop if self.impossible == Some(true) => json!({}),
            HookEvent::PreToolUse => {
                let mut answer = json!({"hookSpecificOutput": {"hookEventName": event.name(),
                    "permissionDecision": "deny", "permissionDecisionReason": reason}});
                if !goes_on {
                    answer["continue"] = json!(false);
                    answer["stopReason"] = json!(reason);
                }
                answer
            }
            HookEvent::Stop
            | HookEvent::SubagentStop
            | HookEvent::PostToolUseFailure
            | HookEvent::TaskCreated
            | HookEvent::TaskCompleted => block,
            HookEvent::PostToolUse | HookEvent::TeammateIdle if goes_on => block,
            HookEvent::UserPromptSubmit | HookEvent::UserPromptExpansion => {
                let mut answer = block;
                answer["continue"] = json!(false);
                answer["stopReason"] = json!(reason);
                answer
            }
            HookEvent::PostToolUse | HookEvent::PostToolBatch | HookEvent::TeammateIdle => end,
            // Nothing of these can be changed by a verdict.
            _ => json!({}),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_found_in_a_text_around_it() {
        for (text, wanted) in [
            (r#"{"ok":true}"#, Some(true)),
            ("I looked at {x}.\n```json\n{\"ok\": false, \"reason\": \"no tests\"}\n```", Some(false)),
            (r#"{"ok":true} but then {"ok":false,"reason":"r"}"#, Some(false)),
            ("ok: true", None),
            (r#"{"ok":"yes"}"#, None),
        ] {
            assert_eq!(HookVerdict::from_text(text).map(|verdict| verdict.ok), wanted, "{text}");
        }
    }

    #[test]
    fn a_no_means_what_the_event_makes_of_it() {
        let no = HookVerdict { ok: false, reason: Some("r".to_owned()), impossible: None };
        let block = json!({"decision": "block", "reason": "r"});
        let end = json!({"continue": false, "stopReason": "r"});
        for (event, goes_on, wanted) in [
            (HookEvent::Stop, false, &block),
            (HookEvent::SubagentStop, false, &block),
            (HookEvent::PostToolUse, false, &end),
            (HookEvent::PostToolUse, true, &block),
            (HookEvent::PostToolBatch, true, &end),
            (HookEvent::PermissionRequest, true, &json!({})),
        ] {
            assert_eq!(&no.to_json(event, goes_on), wanted, "{event:?}");
        }
        let denied = no.to_json(HookEvent::PreToolUse, false);
        assert_eq!(
            (&denied["hookSpecificOutput"]["permissionDecision"], &denied["continue"]),
            (&json!("deny"), &json!(false))
        );
        assert_eq!(no.to_json(HookEvent::PreToolUse, true)["continue"], Value::Null);
        let impossible = HookVerdict { impossible: Some(true), ..no };
        assert_eq!(impossible.to_json(HookEvent::Stop, false), json!({}));
    }
}
