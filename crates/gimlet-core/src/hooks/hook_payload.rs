//! The payload of an event and the hook input built from it. Borrowed: nothing is built unless a hook listens.

use std::path::Path;

use gimlet_proto::{
    AccessNeed, CacheTtl, CompactionTrigger, ElicitationAction, ElicitationAsk, ServerIdentity, TaskState, ToolUseId,
};
use gimlet_store::{ContextPartSource, preview_text};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::{HookEvent, HookMatcher, SetupTrigger, StartSource};
use crate::services::SessionServices;
use crate::tool::ToolRef;

/// Limit on the bytes of an error in hook input.
const MAX_ERROR: usize = 10_000;
/// Limit on the characters of a background task's description.
const MAX_DESCRIPTION: usize = 1_000;

/// Subject that matchers are compared with.
#[derive(Clone, Copy)]
pub(crate) struct HookSubject<'a> {
    /// Name used in hook input.
    pub(crate) name: &'a str,
    /// Older names of a tool, which matchers may still use.
    pub(crate) aliases: &'a [&'a str],
    /// Other names that rules may use for it.
    pub(crate) also_named: &'a [String],
}

impl<'a> HookSubject<'a> {
    /// Returns a subject with only this name.
    pub(crate) fn from_name(name: &'a str) -> Self {
        Self { name, aliases: &[], also_named: &[] }
    }

    /// Returns the subject for a tool, with all of its names.
    pub(crate) fn for_tool(tool: &'a ToolRef) -> Self {
        Self { name: tool.name(), aliases: tool.aliases(), also_named: tool.also_named() }
    }

    /// Returns true if the matcher matches one of the names. A name that would deny the tool in a rule also matches it
    /// here: servers choose the names of their tools, but must not choose which hooks guard them.
    pub(super) fn is_matched_by(self, matcher: &HookMatcher) -> bool {
        self.aliases.iter().any(|name| matcher.matches(name))
            || gimlet_policy::matches_tool_name(self.name, self.also_named, |name| matcher.matches(name))
    }
}

/// A tool call as hooks see it.
#[derive(Clone, Copy)]
pub(crate) struct CallFacts<'a> {
    pub(crate) id: &'a ToolUseId,
    pub(crate) tool: HookSubject<'a>,
    /// Server of the tool, if it belongs to one.
    pub(crate) server: Option<&'a ServerIdentity>,
    /// With paths expanded.
    pub(crate) input: &'a Value,
    pub(crate) needs: &'a [AccessNeed],
}

/// A call of a batch with its result as the model receives it.
pub(crate) struct BatchCall {
    pub(crate) id: ToolUseId,
    pub(crate) tool: String,
    /// Input as it was called; the model's text if no call was made.
    pub(crate) input: Value,
    pub(crate) response: Value,
}

/// A command in a prompt that stands for a text.
#[derive(Clone, Copy)]
pub(crate) struct PromptExpansion<'a> {
    /// `slash_command` or `mcp_prompt`.
    pub(crate) kind: &'static str,
    /// Name without the slash.
    pub(crate) command: &'a str,
    pub(crate) args: &'a str,
    /// Origin of the command, if it is a skill.
    pub(crate) source: Option<&'static str>,
}

/// Payload of an event.
pub(crate) enum HookPayload<'a> {
    SessionStart {
        source: StartSource,
        model: &'a str,
        title: Option<&'a str>,
    },
    Setup {
        trigger: SetupTrigger,
    },
    InstructionsLoaded {
        source: &'a ContextPartSource,
    },
    UserPromptSubmit {
        prompt: &'a str,
        title: Option<&'a str>,
    },
    UserPromptExpansion {
        expansion: PromptExpansion<'a>,
        prompt: &'a str,
    },
    PreToolUse(CallFacts<'a>),
    PermissionRequest {
        call: CallFacts<'a>,
        suggestions: &'a [Value],
    },
    PermissionDenied {
        call: CallFacts<'a>,
        reason: &'a str,
    },
    PostToolUse {
        call: CallFacts<'a>,
        response: &'a RawValue,
        elapsed_ms: u64,
    },
    PostToolUseFailure {
        call: CallFacts<'a>,
        error: &'a str,
        elapsed_ms: u64,
    },
    PostToolBatch {
        calls: &'a [BatchCall],
    },
    Notification {
        kind: &'static str,
        message: &'a str,
    },
    SubagentStart,
    SubagentStop {
        last_text: &'a str,
        again: bool,
        transcript: Option<&'a Path>,
    },
    Stop {
        last_text: &'a str,
        again: bool,
    },
    StopFailure {
        error: &'static str,
        details: &'a str,
        last_text: &'a str,
    },
    ConfigChange {
        source: &'static str,
        file: &'a Path,
    },
    CwdChanged {
        old: &'a Path,
        new: &'a Path,
    },
    DirectoryAdded {
        directory: &'a Path,
        source: &'static str,
    },
    FileChanged {
        file: &'a Path,
        change: &'static str,
    },
    PreCompact {
        trigger: CompactionTrigger,
        focus: Option<&'a str>,
    },
    PostCompact {
        trigger: CompactionTrigger,
        summary: &'a str,
    },
    Elicitation {
        question: &'a ElicitationAsk,
    },
    ElicitationResult {
        question: &'a ElicitationAsk,
        action: ElicitationAction,
        content: Option<&'a Map<String, Value>>,
    },
    PreModelSwitch(&'a ModelSwitch),
    PostModelSwitch(&'a ModelSwitch),
    SessionEnd {
        reason: &'static str,
    },
}

/// A requested change of the model.
pub(crate) struct ModelSwitch {
    pub(crate) from: String,
    pub(crate) to: String,
    /// Model as it was named; `None` for the initial one.
    pub(crate) requested: Option<String>,
    /// Tokens that the new model has to read again.
    pub(crate) context_tokens: u64,
    /// True if the provider's cache still holds the conversation for the old model.
    pub(crate) cache_warm: bool,
    /// Cache lifetime; `None` if nothing is cached.
    pub(crate) cache_ttl: Option<CacheTtl>,
    /// Cost of filling the new model's cache; `None` if nothing is cached, or no price is known.
    pub(crate) cache_write_usd: Option<f64>,
}

impl<'a> HookPayload<'a> {
    pub(super) fn event(&self) -> HookEvent {
        match self {
            HookPayload::SessionStart { .. } => HookEvent::SessionStart,
            HookPayload::Setup { .. } => HookEvent::Setup,
            HookPayload::InstructionsLoaded { .. } => HookEvent::InstructionsLoaded,
            HookPayload::UserPromptSubmit { .. } => HookEvent::UserPromptSubmit,
            HookPayload::UserPromptExpansion { .. } => HookEvent::UserPromptExpansion,
            HookPayload::PreToolUse(_) => HookEvent::PreToolUse,
            HookPayload::PermissionRequest { .. } => HookEvent::PermissionRequest,
            HookPayload::PermissionDenied { .. } => HookEvent::PermissionDenied,
            HookPayload::PostToolUse { .. } => HookEvent::PostToolUse,
            HookPayload::PostToolUseFailure { .. } => HookEvent::PostToolUseFailure,
            HookPayload::PostToolBatch { .. } => HookEvent::PostToolBatch,
            HookPayload::Notification { .. } => HookEvent::Notification,
            HookPayload::SubagentStart => HookEvent::SubagentStart,
            HookPayload::SubagentStop { .. } => HookEvent::SubagentStop,
            HookPayload::Stop { .. } => HookEvent::Stop,
            HookPayload::StopFailure { .. } => HookEvent::StopFailure,
            HookPayload::ConfigChange { .. } => HookEvent::ConfigChange,
            HookPayload::CwdChanged { .. } => HookEvent::CwdChanged,
            HookPayload::DirectoryAdded { .. } => HookEvent::DirectoryAdded,
            HookPayload::FileChanged { .. } => HookEvent::FileChanged,
            HookPayload::PreCompact { .. } => HookEvent::PreCompact,
            HookPayload::PostCompact { .. } => HookEvent::PostCompact,
            HookPayload::Elicitation { .. } => HookEvent::Elicitation,
            HookPayload::ElicitationResult { .. } => HookEvent::ElicitationResult,
            HookPayload::PreModelSwitch(_) => HookEvent::PreModelSwitch,
            HookPayload::PostModelSwitch(_) => HookEvent::PostModelSwitch,
            HookPayload::SessionEnd { .. } => HookEvent::SessionEnd,
        }
    }

    /// Returns the call that the event is about, if any.
    pub(super) fn call(&self) -> Option<CallFacts<'a>> {
        match self {
            HookPayload::PreToolUse(call)
            | HookPayload::PermissionRequest { call, .. }
            | HookPayload::PermissionDenied { call, .. }
            | HookPayload::PostToolUse { call, .. }
            | HookPayload::PostToolUseFailure { call, .. } => Some(*call),
            _ => None,
        }
    }

    /// Returns the id of the call that the event is about, if any.
    pub(super) fn tool_use(&self) -> Option<&'a ToolUseId> {
        self.call().map(|call| call.id)
    }

    /// Returns the subject that matchers are compared with; an agent is matched by its kind.
    pub(super) fn subject(&self, agent_type: Option<&'a str>) -> Option<HookSubject<'a>> {
        let name = match self {
            HookPayload::SessionStart { source, .. } => source.as_str(),
            HookPayload::UserPromptExpansion { expansion, .. } => expansion.command,
            HookPayload::Notification { kind, .. } => kind,
            HookPayload::StopFailure { error, .. } => error,
            HookPayload::ConfigChange { source, .. } => source,
            HookPayload::DirectoryAdded { source, .. } => source,
            HookPayload::SessionEnd { reason } => reason,
            HookPayload::Setup { trigger } => trigger.as_str(),
            HookPayload::InstructionsLoaded { source } => &source.reason,
            HookPayload::PreCompact { trigger, .. } | HookPayload::PostCompact { trigger, .. } => trigger.as_str(),
            HookPayload::Elicitation { question } | HookPayload::ElicitationResult { question, .. } => &question.server,
            // A matcher names files, not the folders that they are in.
            HookPayload::FileChanged { file, .. } => file.file_name()?.to_str()?,
            HookPayload::SubagentStart | HookPayload::SubagentStop { .. } => agent_type?,
            // Events about no call have no subject that a matcher could name.
            _ => return self.call().map(|call| call.tool),
        };
        Some(HookSubject::from_name(name))
    }

    /// Returns true if the permission mode is part of the hook input.
    pub(super) fn includes_mode(&self) -> bool {
        !matches!(
            self,
            HookPayload::SessionStart { .. }
                | HookPayload::Setup { .. }
                | HookPayload::InstructionsLoaded { .. }
                | HookPayload::FileChanged { .. }
                | HookPayload::Notification { .. }
                | HookPayload::SubagentStart
                | HookPayload::StopFailure { .. }
                | HookPayload::ConfigChange { .. }
                | HookPayload::CwdChanged { .. }
                | HookPayload::DirectoryAdded { .. }
                | HookPayload::PreCompact { .. }
                | HookPayload::PostCompact { .. }
                | HookPayload::PreModelSwitch(_)
                | HookPayload::PostModelSwitch(_)
                | HookPayload::SessionEnd { .. }
        )
    }

    /// Adds the fields of this event to those that every event has.
    pub(super) fn write_fields(&self, fields: &mut Map<String, Value>, services: &SessionServices) {
        let mut set = |name: &str, value: Value| {
            fields.insert(name.to_owned(), value);
        };
        if let Some(call) = self.call() {
            set("tool_name", json!(call.tool.name));
            set("tool_input", call.input.clone());
            if let Some(server) = call.server {
                set("mcp_server", json!(server));
            }
            if !matches!(self, HookPayload::PermissionRequest { .. }) {
                set("tool_use_id", json!(call.id));
            }
        }
        match self {
            HookPayload::SessionStart { source, model, title } => {
                set("source", json!(source.as_str()));
                set("model", json!(model));
                title.iter().for_each(|title| set("session_title", json!(title)));
            }
            HookPayload::Setup { trigger } => set("trigger", json!(trigger.as_str())),
            HookPayload::InstructionsLoaded { source } => {
                set("file_path", json!(source.path));
                set("memory_type", json!(source.scope));
                set("load_reason", json!(source.reason));
                if !source.globs.is_empty() {
                    set("globs", json!(source.globs));
                }
                source.trigger.iter().for_each(|file| set("trigger_file_path", json!(file)));
                source.parent.iter().for_each(|file| set("parent_file_path", json!(file)));
            }
            HookPayload::UserPromptSubmit { prompt, title } => {
                set("prompt", json!(prompt));
                title.iter().for_each(|title| set("session_title", json!(title)));
            }
            HookPayload::UserPromptExpansion { expansion, prompt } => {
                set("expansion_type", json!(expansion.kind));
                set("command_name", json!(expansion.command));
                set("command_args", json!(expansion.args));
                expansion.source.iter().for_each(|source| set("command_source", json!(source)));
                set("prompt", json!(prompt));
            }
            HookPayload::PreToolUse(_) | HookPayload::SubagentStart => {}
            HookPayload::PermissionRequest { suggestions: [], .. } => {}
            HookPayload::PermissionRequest { suggestions, .. } => set("permission_suggestions", json!(suggestions)),
            HookPayload::PermissionDenied { reason, .. } => set("reason", json!(reason)),
            HookPayload::PostToolUse { response, elapsed_ms, .. } => {
                set("tool_response", parse_json(response));
                set("duration_ms", json!(elapsed_ms));
            }
            HookPayload::PostToolUseFailure { error, elapsed_ms, .. } => {
                set("error", json!(preview_text(error, MAX_ERROR)));
                set("is_interrupt", json!(false));
                set("duration_ms", json!(elapsed_ms));
            }
            HookPayload::PostToolBatch { calls } => set("tool_calls", calls.iter().map(BatchCall::to_json).collect()),
            HookPayload::Notification { kind, message } => {
                set("message", json!(message));
                set("notification_type", json!(kind));
            }
            HookPayload::SubagentStop { last_text, again, transcript } => {
                set("stop_hook_active", json!(again));
                set("agent_transcript_path", json!(transcript.map(Path::to_string_lossy).unwrap_or_default()));
                set("last_assistant_message", json!(last_text));
                set("background_tasks", background_tasks(services));
                set("session_crons", json!([]));
            }
            HookPayload::Stop { last_text, again } => {
                set("stop_hook_active", json!(again));
                set("last_assistant_message", json!(last_text));
                set("background_tasks", background_tasks(services));
                set("session_crons", json!([]));
            }
            HookPayload::StopFailure { error, details, last_text } => {
                set("error", json!(error));
                set("error_details", json!(details));
                set("last_assistant_message", json!(last_text));
            }
            HookPayload::ConfigChange { source, file } => {
                set("source", json!(source));
                set("file_path", json!(file.to_string_lossy()));
            }
            HookPayload::CwdChanged { old, new } => {
                set("old_cwd", json!(old.to_string_lossy()));
                set("new_cwd", json!(new.to_string_lossy()));
            }
            HookPayload::DirectoryAdded { directory, source } => {
                set("directory", json!(directory.to_string_lossy()));
                set("source", json!(source));
            }
            HookPayload::FileChanged { file, change } => {
                set("file_path", json!(file.to_string_lossy()));
                set("event", json!(change));
            }
            HookPayload::PreCompact { trigger, focus } => {
                set("trigger", json!(trigger.as_str()));
                set("custom_instructions", json!(focus));
            }
            HookPayload::PostCompact { trigger, summary } => {
                set("trigger", json!(trigger.as_str()));
                set("compact_summary", json!(summary));
            }
            HookPayload::Elicitation { question } => {
                question.raw.iter().for_each(|(name, value)| set(name, value.clone()));
            }
            HookPayload::ElicitationResult { question, action, content } => {
                for name in ["mcp_server_name", "mode", "elicitation_id"] {
                    question.raw.get(name).iter().for_each(|value| set(name, (*value).clone()));
                }
                set("action", json!(action.as_str()));
                content.iter().for_each(|content| set("content", json!(content)));
            }
            HookPayload::PreModelSwitch(switch) | HookPayload::PostModelSwitch(switch) => {
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
                    // All prices come from the model catalog.
                    set("pricing", json!("catalog"));
                }
            }
            HookPayload::SessionEnd { reason } => set("reason", json!(reason)),
        }
    }
}

impl BatchCall {
    fn to_json(&self) -> Value {
        json!({"tool_name": self.tool, "tool_input": self.input, "tool_use_id": self.id,
               "tool_response": self.response})
    }
}

fn parse_json(json: &RawValue) -> Value {
    serde_json::from_str(json.get()).unwrap_or(Value::Null)
}

fn background_tasks(services: &SessionServices) -> Value {
    let tasks = services.tasks().running();
    // A task in the foreground is not a background task, least of all the agent that is about to end.
    let backgrounded = tasks.iter().filter(|task| task.is_backgrounded()).map(|task| {
        let status = match task.state().0 {
            TaskState::Running => "running",
            TaskState::Completed => "completed",
            TaskState::Failed => "failed",
            TaskState::Killed => "killed",
        };
        let mut fields = json!({"id": task.id, "type": task.kind, "status": status,
                              "description": truncate_with_note(&task.description)});
        if let Some(command) = &task.command {
            fields["command"] = json!(truncate_with_note(command));
        }
        if let Some(agent) = &task.agent {
            fields["agent_type"] = json!(agent.subagent_type);
            agent.name.iter().for_each(|name| fields["name"] = json!(name));
        }
        fields
    });
    backgrounded.collect()
}

/// Truncates a text and appends how much was left out.
fn truncate_with_note(text: &str) -> String {
    let more = text.chars().count().saturating_sub(MAX_DESCRIPTION);
    if more == 0 {
        return text.to_owned();
    }
    let beginning: String = text.chars().take(MAX_DESCRIPTION).collect();
    format!("{beginning}… [+{more} chars]")
}
