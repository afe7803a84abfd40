//! The parts of a hook: its trigger, its handler, its timeout, and its failure policy.

use std::sync::Arc;
use std::time::Duration;

use gimlet_proto::{BoxFuture, ToolUseId};
use serde_json::value::RawValue;

use super::{HookEvent, HookMatcher, HookSubject};

/// Handler that runs a hook. Dropping the future cancels the call.
pub trait HookHandler: Send + Sync {
    /// Runs the hook once.
    fn run(&self, call: HandlerCall) -> BoxFuture<'static, Result<HandlerReport, HandlerError>>;

    /// Returns the kind of the handler, as one public word: `callback`, `command`, …
    fn kind(&self) -> &'static str {
        "callback"
    }

    /// Returns the text of the hook for lists of hooks.
    fn text(&self) -> String {
        String::new()
    }

    /// Returns the timeout for hooks without a configured one.
    fn default_timeout(&self, event: HookEvent) -> Duration;
}

/// Reason why a hook had no usable answer; one line each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandlerError {
    /// It could not be run, or its answer was invalid.
    Failed(String),
    /// Its runner is gone, so it will never answer.
    Gone(String),
}

/// One call of a handler.
#[derive(Clone, Debug)]
pub struct HandlerCall {
    pub event: HookEvent,
    /// Input of the hook, an object.
    pub input: Arc<RawValue>,
    /// Tool call that the event is about, if any.
    pub tool_use: Option<ToolUseId>,
}

/// Result of a handler call.
#[derive(Debug)]
pub struct HandlerReport {
    pub answer: HandlerAnswer,
    /// Output of the process, for handlers that are processes.
    pub stdout: String,
    pub stderr: String,
    pub exit_code: Option<i32>,
}

/// Answer of a hook.
#[derive(Debug)]
pub enum HandlerAnswer {
    /// The public format of a hook's output, an object.
    Json(Box<RawValue>),
    /// Plain text.
    Text(String),
    /// Block the guarded action, for this reason.
    Block(String),
}

impl HandlerReport {
    /// Returns a report with this answer and nothing else.
    pub fn from_json(answer: Box<RawValue>) -> Self {
        Self { answer: HandlerAnswer::Json(answer), stdout: String::new(), stderr: String::new(), exit_code: None }
    }
}

/// Consequence of a failed hook for the action that it guards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookFailurePolicy {
    /// The failure is reported, and work continues.
    Continue,
    Block,
}

/// A hook in the registry.
#[derive(Clone)]
pub struct HookEntry {
    pub event: HookEvent,
    pub matcher: HookMatcher,
    pub handler: Arc<dyn HookHandler>,
    /// Configured timeout, if any.
    pub timeout: Option<Duration>,
    /// True if nothing waits for the hook: its answer decides nothing.
    pub runs_in_background: bool,
    pub on_failure: HookFailurePolicy,
    /// Consequence if no answer came in time, or none can come any more.
    pub on_silence: HookFailurePolicy,
    /// Display name of the hook's source: `the driving program`.
    pub source: Arc<str>,
}

impl HookEntry {
    /// Returns true if the hook is to be called for this event and subject.
    pub(super) fn matches(&self, event: HookEvent, subject: Option<HookSubject<'_>>) -> bool {
        self.event == event && subject.is_none_or(|subject| subject.is_matched_by(&self.matcher))
    }
}
