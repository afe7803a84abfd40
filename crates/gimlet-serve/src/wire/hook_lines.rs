//! Lines about hook runs. They only report; nothing is decided by them.

use gimlet_proto::{Event, HookOutcome, HookPhase, HookView};
use serde_json::json;

use super::{WireOptions, system_event_line};

/// Events whose hooks are never announced: they only observe, or run when the consumer is gone.
const SILENT_HOOKS: [&str; 4] = ["Notification", "SessionEnd", "PreCompact", "PostCompact"];

/// Renders the start or end of a hook run, for programs that request it.
pub(super) fn hook_line(event: &Event, hook: &HookView, lines: WireOptions) -> Option<String> {
    let always = matches!(hook.event.as_str(), "SessionStart" | "Setup");
    if !(always || lines.hook_events) {
        return None;
    }
    let mut members = json!({"hook_id": hook.id, "hook_name": hook.name, "hook_event": hook.event});
    let subtype = match &hook.phase {
        HookPhase::Started if SILENT_HOOKS.contains(&hook.event.as_str()) => return None,
        HookPhase::Started => "hook_started",
        HookPhase::Finished { stdout, stderr, output, exit_code, outcome } => {
            let outcome = match outcome {
                HookOutcome::Success => "success",
                HookOutcome::Error => "error",
                HookOutcome::Cancelled => "cancelled",
            };
            members["output"] = json!(output);
            members["stdout"] = json!(stdout);
            members["stderr"] = json!(stderr);
            if let Some(code) = exit_code {
                members["exit_code"] = json!(code);
            }
            members["outcome"] = json!(outcome);
            "hook_response"
        }
    };
    Some(system_event_line(event, subtype, members))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gimlet_proto::{AgentPath, EventBody, SessionId};
    use serde_json::Value;

    use super::*;

    fn render_hook(event: &str, phase: HookPhase, hook_events: bool) -> Option<Value> {
        let view = HookView { id: "h1".into(), name: format!("{event}:x"), event: event.into(), phase };
        let event = Event {
            seq: 1,
            session: SessionId::new("s"),
            agent: AgentPath::default(),
            at: Arc::from(""),
            body: EventBody::Hook(Box::new(view.clone())),
        };
        let lines = WireOptions { hook_events, ..WireOptions::default() };
        hook_line(&event, &view, lines).map(|line| serde_json::from_str(&line).unwrap())
    }

    fn finished_phase() -> HookPhase {
        let (stdout, stderr, output) = (String::new(), "e".to_owned(), "{}".to_owned());
        HookPhase::Finished { stdout, stderr, output, exit_code: Some(0), outcome: HookOutcome::Success }
    }

    #[test]
    fn hooks_are_shown_to_those_who_asked_and_those_that_open_a_session_to_everyone() {
        for (event, asked, started, ended) in [
            ("PreToolUse", true, true, true),
            ("PreToolUse", false, false, false),
            ("SessionStart", false, true, true),
            ("Setup", false, true, true),
            ("Notification", true, false, true),
            ("SessionEnd", true, false, true),
        ] {
            assert_eq!(render_hook(event, HookPhase::Started, asked).is_some(), started, "{event} {asked}");
            assert_eq!(render_hook(event, finished_phase(), asked).is_some(), ended, "{event} {asked}");
        }
    }

    #[test]
    fn a_finished_hook_says_what_came_of_it() {
        let line = render_hook("PreToolUse", finished_phase(), true).unwrap();
        assert_eq!((&line["subtype"], &line["hook_id"]), (&json!("hook_response"), &json!("h1")));
        assert_eq!((&line["hook_name"], &line["hook_event"]), (&json!("PreToolUse:x"), &json!("PreToolUse")));
        assert_eq!((&line["output"], &line["stderr"]), (&json!("{}"), &json!("e")));
        assert_eq!((&line["exit_code"], &line["outcome"]), (&json!(0), &json!("success")));
    }
}
