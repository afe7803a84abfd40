//! A program that drives a session, as far as hooks go: what it was called for, and what it answers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use gimlet_proto::{BoxFuture, Driver, DriverError, DriverHook, HookCall};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::{Barrier, Notify};

/// How a callback answers its n-th call (from 0), which has this input.
type CallbackResponder = Box<dyn Fn(usize, &Value) -> CallbackReaction + Send + Sync>;

/// What a callback does.
pub(crate) enum CallbackReaction {
    Say(Value),
    Fail(&'static str),
    /// Is gone by now.
    Leave,
    /// Never answers.
    Hang,
    /// Answers once all the others are there.
    Meet(Arc<Barrier>, Value),
}

/// The program.
#[derive(Default)]
pub(crate) struct HookProgram {
    callbacks: BTreeMap<String, CallbackResponder>,
    calls: Mutex<Vec<(String, Value, bool)>>,
    /// Told when a callback that hangs was called.
    pub(crate) hanging: Arc<Notify>,
    withdrawn: Arc<Mutex<Vec<String>>>,
}

impl HookProgram {
    /// Adds a callback that always answers the same.
    pub(crate) fn with_answer(self, id: &str, answer: Value) -> Self {
        self.with_callback(id, move |_, _| CallbackReaction::Say(answer.clone()))
    }

    /// Adds a callback.
    pub(crate) fn with_callback(
        mut self,
        id: &str,
        respond: impl Fn(usize, &Value) -> CallbackReaction + Send + Sync + 'static,
    ) -> Self {
        self.callbacks.insert(id.to_owned(), Box::new(respond));
        self
    }

    /// The inputs that a callback got.
    pub(crate) fn inputs(&self, id: &str) -> Vec<Value> {
        let calls = self.calls.lock().unwrap();
        calls.iter().filter(|(called, ..)| called == id).map(|(_, input, _)| input.clone()).collect()
    }

    /// The callbacks in the order in which they were called.
    pub(crate) fn called_ids(&self) -> Vec<String> {
        self.calls.lock().unwrap().iter().map(|(id, ..)| id.clone()).collect()
    }

    /// Whether every call of a callback named the tool call that it was about.
    pub(crate) fn named_calls(&self, id: &str) -> bool {
        self.calls.lock().unwrap().iter().filter(|(called, ..)| called == id).all(|(.., named)| *named)
    }

    /// Calls that were taken back before they were answered.
    pub(crate) fn withdrawn_calls(&self) -> Vec<String> {
        self.withdrawn.lock().unwrap().clone()
    }
}

/// Says so when it is dropped before it was disarmed.
struct WithdrawalGuard {
    id: Option<String>,
    list: Arc<Mutex<Vec<String>>>,
}

impl WithdrawalGuard {
    fn disarm(&mut self) {
        self.id = None;
    }
}

impl Drop for WithdrawalGuard {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.list.lock().unwrap().push(id);
        }
    }
}

/// So that futures can look at the program again.
pub(crate) struct SharedProgram(pub(crate) Arc<HookProgram>);

impl Driver for SharedProgram {
    fn run_hook(&self, call: HookCall) -> BoxFuture<'static, Result<Box<RawValue>, DriverError>> {
        let program = self.0.clone();
        let id = call.callback.to_string();
        let input: Value = serde_json::from_str(call.input.get()).unwrap();
        let before = program.inputs(&id).len();
        program.calls.lock().unwrap().push((id.clone(), input.clone(), call.tool_use.is_some()));
        let answer = program.callbacks.get(&id).expect("a callback that was registered")(before, &input);
        let mut withdrawal = WithdrawalGuard { id: Some(id), list: program.withdrawn.clone() };
        Box::pin(async move {
            let answer = match answer {
                CallbackReaction::Say(answer) => Ok(answer),
                CallbackReaction::Fail(why) => Err(DriverError::Failed(why.to_owned())),
                CallbackReaction::Leave => Err(DriverError::Closed),
                CallbackReaction::Hang => {
                    program.hanging.notify_one();
                    std::future::pending().await
                }
                CallbackReaction::Meet(barrier, answer) => {
                    barrier.wait().await;
                    Ok(answer)
                }
            };
            withdrawal.disarm();
            answer.map(|answer| RawValue::from_string(answer.to_string()).unwrap())
        })
    }

    fn send_mcp_message(
        &self,
        _server: &str,
        _message: Box<RawValue>,
    ) -> BoxFuture<'static, Result<Box<RawValue>, DriverError>> {
        Box::pin(async { Err(DriverError::Closed) })
    }
}

/// A hook on everything that an event is about.
pub(crate) fn hook(event: &str, callbacks: &[&str]) -> DriverHook {
    DriverHook {
        event: event.to_owned(),
        matcher: None,
        callbacks: callbacks.iter().map(|id| Arc::from(*id)).collect(),
        timeout: None,
        blocks_on_failure: None,
    }
}

/// What a hook says about a call.
pub(crate) fn permission_output(decision: &str, reason: &str) -> Value {
    json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": decision,
                                  "permissionDecisionReason": reason}})
}

/// What a hook adds.
pub(crate) fn context_output(event: &str, context: &str) -> Value {
    json!({"hookSpecificOutput": {"hookEventName": event, "additionalContext": context}})
}
