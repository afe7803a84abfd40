//! The lines about hooks that run. They only tell; nothing in them decides.

use gimlet_proto::{Event, HookOutcome, HookPhase, HookView};
use serde_json::json;

use super::{Lines, system};

/// Events whose hooks are never announced: they only look, or run when nobody reads any more.
const SILENT_HOOKS: [&str; 4] = ["Notification", "SessionEnd", "PreCompact", "PostCompact"];

/// A run of a hook that begins or ends, for programs that want to see them.
pub(super) fn line(event: &Event, hook: &HookView, lines: Lines) -> Option<String> {
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
    Some(system(event, subtype, members))
}
