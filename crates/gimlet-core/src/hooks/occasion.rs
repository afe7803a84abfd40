//! What a firing is about, and what hooks are told of it. Borrowed: nothing is built before somebody listens.

use std::path::Path;

use gimlet_proto::{CacheTtl, ServerName, TaskState, ToolUseId};
use gimlet_store::preview;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::{HookEvent, Matcher, StartSource};
use crate::services::Services;
use crate::tool::ToolRef;

/// The longest error that hooks are told, in bytes.
const MAX_ERROR: usize = 10_000;
/// The longest description of a background task, in characters.
const MAX_DESCRIPTION: usize = 1_000;

/// What matchers are held against.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'a> {
    /// The name that hooks are told.
    pub(crate) name: &'a str,
    /// Older names of a tool, which matchers may still use.
    pub(crate) aliases: &'a [&'a str],
    /// What rules may call it besides.
    pub(crate) also_named: &'a [String],
}

impl<'a> Subject<'a> {
    /// Something that goes by one name.
    pub(crate) fn of(name: &'a str) -> Self {
        Self { name, aliases: &[], also_named: &[] }
    }

    /// A tool by every name that it has.
    pub(crate) fn of_tool(tool: &'a ToolRef) -> Self {
        Self { name: tool.name(), aliases: tool.aliases(), also_named: tool.also_named() }
    }

    /// Whether somebody who watches these watches it. Whoever would be heeded if they forbade it by a name watches it by
    /// that name as well: servers choose what their tools are called, and not who guards them.
    pub(super) fn is_watched_by(self, matcher: &Matcher) -> bool {
        self.aliases.iter().any(|name| matcher.matches(name))
            || gimlet_policy::is_watched(self.name, self.also_named, |name| matcher.matches(name))
    }
}

/// A tool call as hooks see it.
#[derive(Clone, Copy)]
pub(crate) struct CallFacts<'a> {
    pub(crate) id: &'a ToolUseId,
    pub(crate) tool: Subject<'a>,
    /// Whose tool it is, if it is a server's.
    pub(crate) server: Option<&'a ServerName>,
    /// With paths expanded.
    pub(crate) input: &'a Value,
}

/// A call of a batch with its result as the model gets it.
pub(crate) struct BatchCall {
    pub(crate) id: ToolUseId,
    pub(crate) tool: String,
    /// As it was called; what the model wrote if it came to no call.
    pub(crate) input: Value,
    pub(crate) response: Value,
}

/// Something that happens.
pub(crate) enum Occasion<'a> {
    SessionStart { source: StartSource, model: &'a str, title: Option<&'a str> },
    UserPromptSubmit { prompt: &'a str, title: Option<&'a str> },
    PreToolUse(CallFacts<'a>),
    PermissionRequest { call: CallFacts<'a>, suggestions: &'a [Value] },
    PermissionDenied { call: CallFacts<'a>, reason: &'a str },
    PostToolUse { call: CallFacts<'a>, response: &'a RawValue, elapsed_ms: u64 },
    PostToolUseFailure { call: CallFacts<'a>, error: &'a str, elapsed_ms: u64 },
    PostToolBatch { calls: &'a [BatchCall] },
    Notification { kind: &'static str, message: &'a str },
    SubagentStart,
    SubagentStop { last_text: &'a str, again: bool, transcript: Option<&'a Path> },
    Stop { last_text: &'a str, again: bool },
    StopFailure { error: &'static str, details: &'a str, last_text: &'a str },
    ConfigChange { source: &'static str, file: &'a Path },
    CwdChanged { old: &'a Path, new: &'a Path },
    DirectoryAdded { directory: &'a Path, source: &'static str },
    PreModelSwitch(&'a ModelSwitch),
    PostModelSwitch(&'a ModelSwitch),
    SessionEnd { reason: &'static str },
}

/// A change of the model that somebody asked for.
pub(crate) struct ModelSwitch {
    pub(crate) from: String,
    pub(crate) to: String,
    /// As it was named; `None` for the one of the start.
    pub(crate) requested: Option<String>,
    /// What the new model has to read anew.
    pub(crate) context_tokens: u64,
    /// Whether the old model would find the conversation in the provider's cache.
    pub(crate) cache_warm: bool,
    /// `None` where nothing is cached.
    pub(crate) cache_ttl: Option<CacheTtl>,
    /// What the new model's cache costs to fill; `None` where nothing is cached, or no price known.
    pub(crate) cache_write_usd: Option<f64>,
}

impl<'a> Occasion<'a> {
    pub(super) fn event(&self) -> HookEvent {
        match self {
            Occasion::SessionStart { .. } => HookEvent::SessionStart,
            Occasion::UserPromptSubmit { .. } => HookEvent::UserPromptSubmit,
            Occasion::PreToolUse(_) => HookEvent::PreToolUse,
            Occasion::PermissionRequest { .. } => HookEvent::PermissionRequest,
            Occasion::PermissionDenied { .. } => HookEvent::PermissionDenied,
            Occasion::PostToolUse { .. } => HookEvent::PostToolUse,
            Occasion::PostToolUseFailure { .. } => HookEvent::PostToolUseFailure,
            Occasion::PostToolBatch { .. } => HookEvent::PostToolBatch,
            Occasion::Notification { .. } => HookEvent::Notification,
            Occasion::SubagentStart => HookEvent::SubagentStart,
            Occasion::SubagentStop { .. } => HookEvent::SubagentStop,
            Occasion::Stop { .. } => HookEvent::Stop,
            Occasion::StopFailure { .. } => HookEvent::StopFailure,
            Occasion::ConfigChange { .. } => HookEvent::ConfigChange,
            Occasion::CwdChanged { .. } => HookEvent::CwdChanged,
            Occasion::DirectoryAdded { .. } => HookEvent::DirectoryAdded,
            Occasion::PreModelSwitch(_) => HookEvent::PreModelSwitch,
            Occasion::PostModelSwitch(_) => HookEvent::PostModelSwitch,
            Occasion::SessionEnd { .. } => HookEvent::SessionEnd,
        }
    }

    fn call(&self) -> Option<CallFacts<'a>> {
        match self {
            Occasion::PreToolUse(call)
            | Occasion::PermissionRequest { call, .. }
            | Occasion::PermissionDenied { call, .. }
            | Occasion::PostToolUse { call, .. }
            | Occasion::PostToolUseFailure { call, .. } => Some(*call),
            _ => None,
        }
    }

    /// The call that it is about, for whoever runs the hook.
    pub(super) fn tool_use(&self) -> Option<&'a ToolUseId> {
        self.call().map(|call| call.id)
    }

    /// What matchers are held against; an agent is matched by its kind.
    pub(super) fn subject(&self, agent_type: Option<&'a str>) -> Option<Subject<'a>> {
        let name = match self {
            Occasion::SessionStart { source, .. } => source.as_str(),
            Occasion::Notification { kind, .. } => kind,
            Occasion::StopFailure { error, .. } => error,
            Occasion::ConfigChange { source, .. } => source,
            Occasion::DirectoryAdded { source, .. } => source,
            Occasion::SessionEnd { reason } => reason,
            Occasion::SubagentStart | Occasion::SubagentStop { .. } => agent_type?,
            // Those that are about no call are about nothing that a matcher could name.
            _ => return self.call().map(|call| call.tool),
        };
        Some(Subject::of(name))
    }

    /// Whether the mode of permissions is part of what hooks are told.
    pub(super) fn tells_mode(&self) -> bool {
        !matches!(
            self,
            Occasion::SessionStart { .. }
                | Occasion::Notification { .. }
                | Occasion::SubagentStart
                | Occasion::StopFailure { .. }
                | Occasion::ConfigChange { .. }
                | Occasion::CwdChanged { .. }
                | Occasion::DirectoryAdded { .. }
                | Occasion::PreModelSwitch(_)
                | Occasion::PostModelSwitch(_)
                | Occasion::SessionEnd { .. }
        )
    }

    /// Adds what this event tells beyond what every event does.
    pub(super) fn tell(&self, told: &mut Map<String, Value>, services: &Services) {
        let mut set = |name: &str, value: Value| {
            told.insert(name.to_owned(), value);
        };
        if let Some(call) = self.call() {
            set("tool_name", json!(call.tool.name));
            set("tool_input", call.input.clone());
            if let Some(server) = call.server {
                set("mcp_server", json!(server));
            }
            if !matches!(self, Occasion::PermissionRequest { .. }) {
                set("tool_use_id", json!(call.id));
            }
        }
        match self {
            Occasion::SessionStart { source, model, title } => {
                set("source", json!(source.as_str()));
                set("model", json!(model));
                title.iter().for_each(|title| set("session_title", json!(title)));
            }
            Occasion::UserPromptSubmit { prompt, title } => {
                set("prompt", json!(prompt));
                title.iter().for_each(|title| set("session_title", json!(title)));
            }
            Occasion::PreToolUse(_) | Occasion::SubagentStart => {}
            Occasion::PermissionRequest { suggestions: [], .. } => {}
            Occasion::PermissionRequest { suggestions, .. } => set("permission_suggestions", json!(suggestions)),
            Occasion::PermissionDenied { reason, .. } => set("reason", json!(reason)),
            Occasion::PostToolUse { response, elapsed_ms, .. } => {
                set("tool_response", parsed(response));
                set("duration_ms", json!(elapsed_ms));
            }
            Occasion::PostToolUseFailure { error, elapsed_ms, .. } => {
                set("error", json!(preview(error, MAX_ERROR)));
                set("is_interrupt", json!(false));
                set("duration_ms", json!(elapsed_ms));
            }
            Occasion::PostToolBatch { calls } => set("tool_calls", calls.iter().map(BatchCall::told).collect()),
            Occasion::Notification { kind, message } => {
                set("message", json!(message));
                set("notification_type", json!(kind));
            }
            Occasion::SubagentStop { last_text, again, transcript } => {
                set("stop_hook_active", json!(again));
                set("agent_transcript_path", json!(transcript.map(Path::to_string_lossy).unwrap_or_default()));
                set("last_assistant_message", json!(last_text));
                set("background_tasks", background_tasks(services));
                set("session_crons", json!([]));
            }
            Occasion::Stop { last_text, again } => {
                set("stop_hook_active", json!(again));
                set("last_assistant_message", json!(last_text));
                set("background_tasks", background_tasks(services));
                set("session_crons", json!([]));
            }
            Occasion::StopFailure { error, details, last_text } => {
                set("error", json!(error));
                set("error_details", json!(details));
                set("last_assistant_message", json!(last_text));
            }
            Occasion::ConfigChange { source, file } => {
                set("source", json!(source));
                set("file_path", json!(file.to_string_lossy()));
            }
            Occasion::CwdChanged { old, new } => {
                set("old_cwd", json!(old.to_string_lossy()));
                set("new_cwd", json!(new.to_string_lossy()));
            }
            Occasion::DirectoryAdded { directory, source } => {
                set("directory", json!(directory.to_string_lossy()));
                set("source", json!(source));
            }
            Occasion::PreModelSwitch(switch) | Occasion::PostModelSwitch(switch) => {
                set("from_model", json!(switch.from));
                set("to_model", json!(switch.to));
                set("requested_model", json!(switch.requested));
                set("source", json!("sdk"));
                set("context_tokens", json!(switch.context_tokens));
                set("prompt_cache_warm", json!(switch.cache_warm));
                if let Some(ttl) = switch.cache_ttl {
                    set("cache_ttl", json!(ttl.as_str()));
                }
                if let Some(usd) = switch.cache_write_usd {
                    set("estimated_cache_write_usd", json!(usd));
                    // All prices are those of the table of models.
                    set("pricing", json!("catalog"));
                }
            }
            Occasion::SessionEnd { reason } => set("reason", json!(reason)),
        }
    }
}

impl BatchCall {
    fn told(&self) -> Value {
        json!({"tool_name": self.tool, "tool_input": self.input, "tool_use_id": self.id,
               "tool_response": self.response})
    }
}

fn parsed(json: &RawValue) -> Value {
    serde_json::from_str(json.get()).unwrap_or(Value::Null)
}

fn background_tasks(services: &Services) -> Value {
    let tasks = services.tasks.running();
    // What somebody waits for is no background task, least of all the agent that is about to end.
    let told = tasks.iter().filter(|task| task.is_backgrounded()).map(|task| {
        let status = match task.state().0 {
            TaskState::Running => "running",
            TaskState::Completed => "completed",
            TaskState::Failed => "failed",
            TaskState::Killed => "killed",
        };
        let mut told = json!({"id": task.id, "type": task.kind, "status": status,
                              "description": capped(&task.description)});
        if let Some(command) = &task.command {
            told["command"] = json!(capped(command));
        }
        if let Some(agent) = &task.agent {
            told["agent_type"] = json!(agent.subagent_type);
            agent.name.iter().for_each(|name| told["name"] = json!(name));
        }
        told
    });
    told.collect()
}

/// The beginning of a text, and how much more there is.
fn capped(text: &str) -> String {
    let more = text.chars().count().saturating_sub(MAX_DESCRIPTION);
    if more == 0 {
        return text.to_owned();
    }
    let beginning: String = text.chars().take(MAX_DESCRIPTION).collect();
    format!("{beginning}… [+{more} chars]")
}
