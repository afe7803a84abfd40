//! Lines about tasks: start, progress, end, and the list of background tasks.
//!
//! Programs count subagents as in flight from their first line to their last, and keep their side open that long. So
//! every announced task is also ended here, exactly once.

use gimlet_proto::{Event, SessionId, TaskProgress, TaskState, TaskView, ToolUseId};
use serde_json::{Map, Value, json};

use super::{system_event_line, system_line};

/// Running tasks that were announced to one consumer, oldest first.
#[derive(Default)]
pub(super) struct TaskLines {
    running: Vec<AnnouncedTask>,
    /// Lines about ended tasks, and calls in them, that could not be written yet.
    held: Vec<String>,
    /// True if the background tasks have changed since they were reported.
    is_stale: bool,
}

struct AnnouncedTask {
    id: String,
    kind: &'static str,
    description: String,
    backgrounded: bool,
    call: Option<ToolUseId>,
}

impl TaskLines {
    /// Renders the lines for a change of a task.
    pub(super) fn render_task(&mut self, event: &Event, task: &TaskView) -> Vec<String> {
        match (task.state, self.running.iter().position(|told| told.id == task.id)) {
            (TaskState::Running, None) => {
                self.running.push(AnnouncedTask {
                    id: task.id.clone(),
                    kind: task.kind,
                    description: task.description.clone(),
                    backgrounded: task.backgrounded,
                    call: task.call.clone(),
                });
                let mut lines = vec![started_line(event, task)];
                lines.extend(task.backgrounded.then(|| self.background_tasks_line(&event.session)));
                lines
            }
            (TaskState::Running, Some(at)) => {
                let mut lines: Vec<String> =
                    task.progress.iter().map(|progress| progress_line(event, task, progress)).collect();
                if !std::mem::replace(&mut self.running[at].backgrounded, task.backgrounded) && task.backgrounded {
                    lines.push(self.background_tasks_line(&event.session));
                }
                lines
            }
            (_, Some(at)) => {
                let told = self.running.remove(at);
                let mut lines = vec![updated_line(event, task), notification_line(event, task)];
                lines.extend(told.backgrounded.then(|| self.background_tasks_line(&event.session)));
                lines
            }
            // It was never announced, or its end was already reported.
            (_, None) => Vec::new(),
        }
    }

    /// Renders the end of a task after a result that nothing may follow. Only subagents are reported, to programs that
    /// count them; the rest waits for the next turn.
    pub(super) fn end_after_result(&mut self, event: &Event, task: &TaskView, counted: bool) -> Vec<String> {
        if task.state == TaskState::Running {
            return Vec::new();
        }
        let Some(at) = self.running.iter().position(|told| told.id == task.id) else { return Vec::new() };
        self.is_stale |= self.running.remove(at).backgrounded;
        let lines = vec![updated_line(event, task), notification_line(event, task)];
        if counted && task.kind == "local_agent" {
            return lines;
        }
        self.held.extend(lines);
        Vec::new()
    }

    /// Holds a line until the next turn.
    pub(super) fn hold_line(&mut self, line: String) {
        self.held.push(line);
    }

    /// Returns the lines that were held.
    pub(super) fn take_held_lines(&mut self, session: &SessionId) -> Vec<String> {
        let mut lines = std::mem::take(&mut self.held);
        lines.extend(std::mem::take(&mut self.is_stale).then(|| self.background_tasks_line(session)));
        lines
    }

    /// Returns the id of the running subagent that a call started.
    pub(super) fn agent_for_call(&self, call: &ToolUseId) -> Option<&str> {
        self.running.iter().find(|told| told.call.as_ref() == Some(call)).map(|told| told.id.as_str())
    }

    /// Renders the list of running background tasks.
    pub(super) fn background_tasks_line(&self, session: &SessionId) -> String {
        let tasks: Vec<Value> = self
            .running
            .iter()
            .filter(|told| told.backgrounded)
            .map(|told| json!({"task_id": told.id, "task_type": told.kind, "description": told.description}))
            .collect();
        system_line(session, "background_tasks_changed", json!({"tasks": tasks}))
    }
}

fn started_line(event: &Event, task: &TaskView) -> String {
    let mut members = Map::new();
    members.insert("task_id".into(), json!(task.id));
    if let Some(call) = &task.call {
        members.insert("tool_use_id".into(), json!(call));
    }
    members.insert("description".into(), json!(task.description));
    members.insert("task_type".into(), json!(task.kind));
    if let Some(kind) = &task.subagent_type {
        members.insert("subagent_type".into(), json!(kind));
    }
    members.insert("is_backgrounded".into(), json!(task.backgrounded));
    if task.depth > 0 {
        members.insert("spawn_depth".into(), json!(task.depth));
    }
    if let Some(prompt) = &task.prompt {
        members.insert("prompt".into(), json!(prompt));
    }
    system_event_line(event, "task_started", Value::Object(members))
}

fn progress_line(event: &Event, task: &TaskView, progress: &TaskProgress) -> String {
    let mut members = Map::new();
    members.insert("task_id".into(), json!(task.id));
    if let Some(call) = &task.call {
        members.insert("tool_use_id".into(), json!(call));
    }
    members.insert("description".into(), json!(progress.description));
    members.insert("usage".into(), render_progress(progress));
    if let Some(tool) = &progress.last_tool {
        members.insert("last_tool_name".into(), json!(tool));
    }
    system_event_line(event, "task_progress", Value::Object(members))
}

fn render_progress(progress: &TaskProgress) -> Value {
    let TaskProgress { total_tokens, tool_uses, duration_ms, .. } = progress;
    json!({"total_tokens": total_tokens, "tool_uses": tool_uses, "duration_ms": duration_ms})
}

fn updated_line(event: &Event, task: &TaskView) -> String {
    let status = match task.state {
        TaskState::Running => "running",
        TaskState::Completed => "completed",
        TaskState::Failed => "failed",
        TaskState::Killed => "killed",
    };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let end_time = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
    system_event_line(
        event,
        "task_updated",
        json!({"task_id": task.id, "patch": {"status": status, "end_time": end_time}}),
    )
}

fn notification_line(event: &Event, task: &TaskView) -> String {
    let status = match task.state {
        TaskState::Running => "running",
        TaskState::Completed => "completed",
        TaskState::Failed => "failed",
        TaskState::Killed => "stopped",
    };
    let summary = match (&task.summary, task.exit_code) {
        (Some(summary), _) => summary.clone(),
        (None, Some(code)) => format!("{} ({status}, exit code {code})", task.description),
        (None, None) => format!("{} ({status})", task.description),
    };
    let mut members = Map::new();
    members.insert("task_id".into(), json!(task.id));
    if let Some(call) = &task.call {
        members.insert("tool_use_id".into(), json!(call));
    }
    members.insert("status".into(), json!(status));
    members.insert("output_file".into(), json!(task.output_file.to_string_lossy()));
    members.insert("summary".into(), json!(summary));
    if let Some(progress) = &task.progress {
        members.insert("usage".into(), render_progress(progress));
    }
    system_event_line(event, "task_notification", Value::Object(members))
}
