//! The parts of a hook: its trigger, its handler, its timeout, and its failure policy.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gimlet_policy::CallCondition;
use gimlet_proto::{BoxFuture, ToolUseId};
use serde_json::value::RawValue;

use super::{HookEvent, HookMatcher, HookSession, HookSubject};

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

    /// Returns true if the hook asks a model.
    fn asks_model(&self) -> bool {
        false
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
    /// The session; `None` for a trial outside of one.
    pub session: Option<HookSession>,
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

/// What hooks for the main conversation alone have in place of the id of a subagent.
pub(super) const MAIN_CONVERSATION: &str = "";

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
    /// True if a hook in the background that blocks tells the model why.
    pub wakes_model: bool,
    /// Rule that the call of an event must match; events without a call never do.
    pub condition: Option<Arc<CallCondition>>,
    /// Where a hook runs once only: whether it has run.
    pub once: Option<Arc<AtomicBool>>,
    /// Id of the subagent that the hook is for, empty for the main conversation; `None` for every conversation.
    pub only_for: Option<Arc<str>>,
    /// What to tell the user when the hook takes long.
    pub status: Option<Arc<str>>,
    pub on_failure: HookFailurePolicy,
    /// Consequence if no answer came in time, or none can come any more.
    pub on_silence: HookFailurePolicy,
    /// Display name of the hook's source: `the driving program`.
    pub source: Arc<str>,
}

impl HookEntry {
    /// Returns a hook that is awaited, for every conversation, and whose failures hold nothing up.
    pub fn new(event: HookEvent, matcher: HookMatcher, handler: Arc<dyn HookHandler>, source: Arc<str>) -> Self {
        Self {
            event,
            matcher,
            handler,
            timeout: None,
            runs_in_background: false,
            wakes_model: false,
            condition: None,
            once: None,
            only_for: None,
            status: None,
            on_failure: HookFailurePolicy::Continue,
            on_silence: HookFailurePolicy::Continue,
            source,
        }
    }

    /// Returns true if the hook may be called in a conversation: that of a subagent with this id, or the main one.
    pub(super) fn is_for(&self, agent: Option<&str>) -> bool {
        self.only_for.as_deref().is_none_or(|only| only == agent.unwrap_or(MAIN_CONVERSATION))
    }

    /// Returns true if the hook may still run, and notes that it does.
    pub(super) fn claim_run(&self) -> bool {
        self.once.as_ref().is_none_or(|has_run| !has_run.swap(true, Ordering::Relaxed))
    }

    /// Returns true if the hook is to be called for this event and subject.
    pub(super) fn matches(&self, event: HookEvent, subject: Option<HookSubject<'_>>) -> bool {
        self.event == event && subject.is_none_or(|subject| subject.is_matched_by(&self.matcher))
    }
}
