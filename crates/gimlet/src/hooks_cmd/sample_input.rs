//! Invented inputs of events, for trying hooks out. What the user gives takes precedence over what is invented.

use std::path::Path;

use gimlet_core::HookEvent;
use serde_json::{Map, Value, json};

/// Returns an input for this event: what every event has, an example of its own members, and then what was given.
pub(super) fn build_input(
    event: HookEvent,
    tool: Option<&str>,
    given: Map<String, Value>,
    cwd: &Path,
) -> Result<Value, String> {
    let is_about_calls = event.row().matcher == Some("tool_name");
    if tool.is_some() && !is_about_calls {
        return Err(format!("--tool: {} is not about a tool call", event.name()));
    }
    let mut input = json!({
        "session_id": "00000000-0000-4000-8000-000000000000", "transcript_path": "", "cwd": cwd,
        "permission_mode": "default", "hook_event_name": event.name(),
    });
    let named = given.get("tool_name").and_then(Value::as_str);
    let own = if is_about_calls {
        call_members(event, tool.or(named).unwrap_or("Bash"), cwd)
    } else {
        event_members(event, cwd)
    };
    for (name, value) in
        own.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), value.clone())).chain(given)
    {
        input[name] = value;
    }
    if let Some(tool) = tool {
        input["tool_name"] = json!(tool);
    }
    input["hook_event_name"] = json!(event.name());
    Ok(input)
}

fn call_members(event: HookEvent, tool: &str, cwd: &Path) -> Value {
    let file = cwd.join("example.txt");
    let tool_input = match tool {
        "Bash" => json!({"command": "true"}),
        "Write" => json!({"file_path": file, "content": "example\n"}),
        "Edit" => json!({"file_path": file, "old_string": "a", "new_string": "b"}),
        "Read" => json!({"file_path": file}),
        "Glob" | "Grep" => json!({"pattern": "example"}),
        "WebFetch" => json!({"url": "https://example.org/", "prompt": "Summarise"}),
        "Agent" | "Task" => json!({"description": "example", "prompt": "example", "subagent_type": "general-purpose"}),
        _ => json!({}),
    };
    let mut members = json!({"tool_name": tool, "tool_input": tool_input});
    if event != HookEvent::PermissionRequest {
        members["tool_use_id"] = json!("toolu_example");
    }
    match event {
        HookEvent::PostToolUse => {
            members["tool_response"] =
                json!({"stdout": "example", "stderr": "", "interrupted": false, "isImage": false});
            members["duration_ms"] = json!(1);
        }
        HookEvent::PostToolUseFailure => members["error"] = json!("Exit code 1"),
        HookEvent::PermissionDenied => members["reason"] = json!("example"),
        _ => {}
    }
    members
}

fn event_members(event: HookEvent, cwd: &Path) -> Value {
    let file = cwd.join("example.txt");
    match event {
        HookEvent::SessionStart => json!({"source": "startup", "model": "claude-sonnet-4-5"}),
        HookEvent::Setup => json!({"trigger": "init"}),
        HookEvent::InstructionsLoaded => {
            json!({"file_path": cwd.join("CLAUDE.md"), "memory_type": "Project", "load_reason": "session_start"})
        }
        HookEvent::UserPromptSubmit => json!({"prompt": "example"}),
        HookEvent::UserPromptExpansion => json!({"expansion_type": "slash_command", "command_name": "example",
            "command_args": "", "command_source": "project", "prompt": "/example"}),
        HookEvent::MessageDisplay => {
            json!({"turn_id": "t", "message_id": "m", "index": 0, "final": true, "delta": "example"})
        }
        HookEvent::PostToolBatch => json!({"tool_calls": []}),
        HookEvent::Notification => json!({"message": "example", "notification_type": "permission_prompt"}),
        HookEvent::SubagentStart => json!({"agent_id": "a", "agent_type": "general-purpose"}),
        HookEvent::SubagentStop => json!({"agent_id": "a", "agent_type": "general-purpose", "stop_hook_active": false,
            "agent_transcript_path": "", "last_assistant_message": "example", "background_tasks": [],
            "session_crons": []}),
        HookEvent::Stop => json!({"stop_hook_active": false, "last_assistant_message": "example",
            "background_tasks": [], "session_crons": []}),
        HookEvent::StopFailure => json!({"error": "unknown", "error_details": "example"}),
        HookEvent::TaskCreated | HookEvent::TaskCompleted => json!({"task_id": "1", "task_subject": "example"}),
        HookEvent::TeammateIdle => json!({"teammate_name": "example", "team_name": "example"}),
        HookEvent::ConfigChange => {
            json!({"source": "project_settings", "file_path": cwd.join(".claude/settings.json")})
        }
        HookEvent::CwdChanged => json!({"old_cwd": cwd, "new_cwd": cwd}),
        HookEvent::DirectoryAdded => json!({"directory": cwd, "source": "slash_command"}),
        HookEvent::FileChanged => json!({"file_path": file, "event": "change"}),
        HookEvent::WorktreeCreate => json!({"name": "example"}),
        HookEvent::WorktreeRemove => json!({"worktree_path": cwd}),
        HookEvent::PreCompact => json!({"trigger": "manual", "custom_instructions": ""}),
        HookEvent::PostCompact => json!({"trigger": "manual", "compact_summary": "example"}),
        HookEvent::Elicitation => json!({"mcp_server_name": "example", "message": "example", "mode": "form"}),
        HookEvent::ElicitationResult => json!({"mcp_server_name": "example", "action": "accept"}),
        HookEvent::PreModelSwitch | HookEvent::PostModelSwitch => {
            json!({"from_model": "claude-sonnet-4-5", "to_model": "claude-opus-4-5", "source": "sdk"})
        }
        HookEvent::SessionEnd => json!({"reason": "other"}),
        HookEvent::PreToolUse
        | HookEvent::PermissionRequest
        | HookEvent::PermissionDenied
        | HookEvent::PostToolUse
        | HookEvent::PostToolUseFailure => json!({}),
    }
}
