//! What comes out of a call.

use gimlet_proto::{ResultContent, View};
use serde_json::value::RawValue;

use crate::session::SessionState;

/// A change of session state that later calls see. Applied by the scheduler, in the order of the calls.
pub type StateChange = Box<dyn FnOnce(&mut SessionState) + Send>;

/// A tool's typed result.
pub struct ToolResult<O> {
    pub data: O,
    /// Text that enters the conversation right after this call's result.
    pub new_messages: Vec<String>,
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
}

/// Why a call did not give a result. The code is stable; the words may change.
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
    /// Stopped while it ran; something may have happened.
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

    /// Whether the call was refused before anything of it was looked at by hooks or the gate.
    pub fn is_input_failure(self) -> bool {
        matches!(self, ErrorClass::SchemaInvalid | ErrorClass::UnknownTool | ErrorClass::InputInvalid)
    }
}

/// A failed call. The text is read by the model: say what failed and what to do next.
pub struct ToolError {
    pub class: ErrorClass,
    pub model_text: String,
    /// What people see, when it differs.
    pub user_text: Option<String>,
    /// Structured output kept for programs, when the tool got far enough to have some.
    pub output: Option<Box<serde_json::Value>>,
    /// State changes that hold although the call failed (a shell's working directory).
    pub changes: Vec<StateChange>,
    /// A person wants the turn to stop here.
    pub stop_turn: bool,
    /// What the confinement of the call kept it from, if it failed for that. Then the call may be asked about and run
    /// again without it.
    pub confinement_denial: Option<String>,
}

impl ToolError {
    /// The call came with leave for another tool.
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

    /// Says that the call failed because it was confined.
    pub fn with_confinement_denial(mut self, from: Option<String>) -> Self {
        self.confinement_denial = from;
        self
    }

    /// The tool ran and could not do what was asked.
    pub fn failed(model_text: impl Into<String>) -> Self {
        Self::new(ErrorClass::ExecFailed, model_text)
    }

    /// The input does not make sense to the tool.
    pub fn input(model_text: impl Into<String>) -> Self {
        Self::new(ErrorClass::InputInvalid, model_text)
    }

    /// The call was stopped while it ran.
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

/// A call's result with its type erased.
pub struct ToolOutcome {
    /// The structured output as JSON.
    pub output: Box<RawValue>,
    pub content: ResultContent,
    pub view: View,
    pub new_messages: Vec<String>,
    pub changes: Vec<StateChange>,
}
