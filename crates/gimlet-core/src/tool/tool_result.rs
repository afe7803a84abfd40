//! Results and errors of a call.

use gimlet_proto::{Block, Notice, ResultContent, View};
use serde_json::value::RawValue;

use crate::session::SessionState;

/// Change of session state that later calls see. Applied by the scheduler, in the order of the calls.
pub type StateChange = Box<dyn FnOnce(&mut SessionState) + Send>;

/// Message that a call adds to the conversation.
#[derive(Clone, Debug)]
pub enum NewMessage {
    /// Text for the model, in the user's role.
    Text(String),
    /// Content for the model, such as images and documents.
    Attachment(Vec<Block>),
    /// A notice for the user, which the model does not get.
    Notice(Notice),
}

/// Typed result of a tool.
pub struct ToolResult<O> {
    pub data: O,
    /// Messages that enter the conversation right after this call's result.
    pub new_messages: Vec<NewMessage>,
    pub changes: Vec<StateChange>,
}

impl<O> ToolResult<O> {
    pub fn new(data: O) -> Self {
        Self { data, new_messages: Vec::new(), changes: Vec::new() }
    }

    /// Adds a change of session state.
    pub fn with_change(mut self, change: impl FnOnce(&mut SessionState) + Send + 'static) -> Self {
        self.changes.push(Box::new(change));
        self
    }

    /// Adds a message that enters the conversation right after the result.
    pub fn with_message(mut self, message: NewMessage) -> Self {
        self.new_messages.push(message);
        self
    }
}

/// Class of a call's error. The code is stable; the text may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    MalformedJson,
    SchemaInvalid,
    UnknownTool,
    InputInvalid,
    HookBlocked,
    PermissionDenied,
    ExecFailed,
    TimedOut,
    /// Stopped while running; there may have been effects.
    Interrupted,
    /// Never started.
    Cancelled,
    Internal,
}

impl ErrorClass {
    pub fn code(self) -> &'static str {
        match self {
            ErrorClass::MalformedJson => "malformed_json",
            ErrorClass::SchemaInvalid => "schema_invalid",
            ErrorClass::UnknownTool => "unknown_tool",
            ErrorClass::InputInvalid => "input_invalid",
            ErrorClass::HookBlocked => "hook_blocked",
            ErrorClass::PermissionDenied => "permission_denied",
            ErrorClass::ExecFailed => "exec_failed",
            ErrorClass::TimedOut => "timed_out",
            ErrorClass::Interrupted => "interrupted",
            ErrorClass::Cancelled => "cancelled",
            ErrorClass::Internal => "internal",
        }
    }

    /// Returns the class with this code.
    pub fn from_code(code: &str) -> Option<Self> {
        const ALL: [ErrorClass; 11] = [
            ErrorClass::MalformedJson,
            ErrorClass::SchemaInvalid,
            ErrorClass::UnknownTool,
            ErrorClass::InputInvalid,
            ErrorClass::HookBlocked,
            ErrorClass::PermissionDenied,
            ErrorClass::ExecFailed,
            ErrorClass::TimedOut,
            ErrorClass::Interrupted,
            ErrorClass::Cancelled,
            ErrorClass::Internal,
        ];
        ALL.into_iter().find(|class| class.code() == code)
    }

    /// Returns true if the call was refused before hooks or the gate processed it.
    pub fn is_input_failure(self) -> bool {
        matches!(self, ErrorClass::SchemaInvalid | ErrorClass::UnknownTool | ErrorClass::InputInvalid)
    }
}

/// Error of a call. The text is for the model: it states what failed and what to do next.
pub struct ToolError {
    pub class: ErrorClass,
    pub model_text: String,
    /// Text for the user, if different.
    pub user_text: Option<String>,
    /// Structured output for programs, if the tool had some before it failed.
    pub output: Option<Box<serde_json::Value>>,
    /// State changes that apply although the call failed (a shell's working directory).
    pub changes: Vec<StateChange>,
    /// Set if the user wants the turn to stop here.
    pub stop_turn: bool,
    /// Access that the confinement denied, if the call failed for that. The user may then be asked to run the call
    /// again without confinement.
    pub confinement_denial: Option<String>,
}

impl ToolError {
    /// Creates the error for a permit that was issued for another tool.
    pub(crate) fn wrong_permit(tool: &str) -> Self {
        Self::new(ErrorClass::Internal, format!("a permit for another tool was presented to {tool}"))
    }

    pub fn new(class: ErrorClass, model_text: impl Into<String>) -> Self {
        Self {
            class,
            model_text: model_text.into(),
            user_text: None,
            output: None,
            changes: Vec::new(),
            stop_turn: false,
            confinement_denial: None,
        }
    }

    /// Sets the access that the confinement denied.
    pub fn with_confinement_denial(mut self, from: Option<String>) -> Self {
        self.confinement_denial = from;
        self
    }

    /// Creates the error of a tool that ran and failed.
    pub fn failed(model_text: impl Into<String>) -> Self {
        Self::new(ErrorClass::ExecFailed, model_text)
    }

    /// Creates the error of an input that the tool rejects.
    pub fn input(model_text: impl Into<String>) -> Self {
        Self::new(ErrorClass::InputInvalid, model_text)
    }

    /// Creates the error of a call that was stopped while it ran.
    pub fn interrupted(model_text: impl Into<String>) -> Self {
        Self::new(ErrorClass::Interrupted, model_text)
    }

    pub fn with_output(mut self, output: impl serde::Serialize) -> Self {
        self.output = serde_json::to_value(output).ok().map(Box::new);
        self
    }

    pub fn with_change(mut self, change: impl FnOnce(&mut SessionState) + Send + 'static) -> Self {
        self.changes.push(Box::new(change));
        self
    }
}

impl std::fmt::Debug for ToolError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.class.code(), self.model_text)
    }
}

impl std::fmt::Display for ToolError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.model_text)
    }
}

impl std::error::Error for ToolError {}

/// Type-erased result of a call.
pub struct ToolOutcome {
    /// Structured output as JSON.
    pub output: Box<RawValue>,
    pub content: ResultContent,
    pub view: View,
    pub new_messages: Vec<NewMessage>,
    pub changes: Vec<StateChange>,
}
