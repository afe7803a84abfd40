//! What a hook is made of: when it is called, who runs it, how long that may take, and what trouble with it means.

use std::sync::Arc;
use std::time::Duration;

use gimlet_proto::{BoxFuture, ToolUseId};
use serde_json::value::RawValue;

use super::{HookEvent, HookMatcher, HookSubject};

/// Whoever runs a hook. Dropping the future withdraws the call.
pub trait HookHandler: Send + Sync {
    /// Runs it once.
    fn run(&self, call: HandlerCall) -> BoxFuture<'static, Result<HandlerReport, HandlerError>>;

    /// What runs it, in one public word: `callback`, `command`, …
    fn kind(&self) -> &'static str {
        "callback"
    }

    /// What is run, for people who look at their hooks.
    fn text(&self) -> String {
        String::new()
    }

    /// How long that may take unless somebody chose otherwise.
    fn default_timeout(&self, event: HookEvent) -> Duration;
}

/// Why a hook said nothing of use; one line each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandlerError {
    /// It could not be run or answered nonsense.
    Failed(String),
    /// Whoever runs it is gone, so it will never answer.
    Gone(String),
}

/// One call of a handler.
#[derive(Clone, Debug)]
pub struct HandlerCall {
    pub event: HookEvent,
    /// What the hook is told, an object.
    pub input: Arc<RawValue>,
    /// For events about a tool call.
    pub tool_use: Option<ToolUseId>,
}

/// What came of a call.
#[derive(Debug)]
pub struct HandlerReport {
    pub answer: HandlerAnswer,
    /// What it wrote, for handlers that are processes.
    pub stdout: String,
    pub stderr: String,
    pub exit_code: Option<i32>,
}

/// What a hook says.
#[derive(Debug)]
pub enum HandlerAnswer {
    /// The public form of a hook's output, an object.
    Json(Box<RawValue>),
    /// Plain words.
    Text(String),
    /// Block what the hook guards, for this reason.
    Block(String),
}

impl HandlerReport {
    /// An answer without anything around it.
    pub fn from_json(answer: Box<RawValue>) -> Self {
        Self { answer: HandlerAnswer::Json(answer), stdout: String::new(), stderr: String::new(), exit_code: None }
    }
}

/// What trouble with a hook means for what it guards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookFailurePolicy {
    /// It is reported, and work goes on.
    Continue,
    Block,
}

/// A hook in the registry.
#[derive(Clone)]
pub struct HookEntry {
    pub event: HookEvent,
    pub matcher: HookMatcher,
    pub handler: Arc<dyn HookHandler>,
    /// How long it may take, where somebody chose that.
    pub timeout: Option<Duration>,
    pub on_failure: HookFailurePolicy,
    /// What it means that no answer came in time, or can come any more.
    pub on_silence: HookFailurePolicy,
    /// Whose hook it is, in words for people: `the driving program`.
    pub source: Arc<str>,
}

impl HookEntry {
    /// Whether it is to be called for this.
    pub(super) fn matches(&self, event: HookEvent, subject: Option<HookSubject<'_>>) -> bool {
        self.event == event && subject.is_none_or(|subject| subject.is_matched_by(&self.matcher))
    }
}
