//! A program that drives a session, as far as hooks go: what it was called for, and what it answers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use gimlet_proto::{BoxFuture, Driver, DriverError, DriverHook, HookCall};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::{Barrier, Notify};

/// How a callback answers its n-th call (from 0), which has this input.
type Respond = Box<dyn Fn(usize, &Value) -> Reaction + Send + Sync>;

/// What a callback does.
pub(crate) enum Reaction {
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
pub(crate) struct Program {
    callbacks: BTreeMap<String, Respond>,
    calls: Mutex<Vec<(String, Value, bool)>>,
    /// Told when a callback that hangs was called.
    pub(crate) hanging: Arc<Notify>,
    withdrawn: Arc<Mutex<Vec<String>>>,
}

impl Program {
    /// Adds a callback that always answers the same.
    pub(crate) fn says(self, id: &str, answer: Value) -> Self {
        self.answers(id, move |_, _| Reaction::Say(answer.clone()))
    }

    /// Adds a callback.
    pub(crate) fn answers(
        mut self,
        id: &str,
        respond: impl Fn(usize, &Value) -> Reaction + Send + Sync + 'static,
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
    pub(crate) fn called(&self) -> Vec<String> {
        self.calls.lock().unwrap().iter().map(|(id, ..)| id.clone()).collect()
    }

    /// Whether every call of a callback named the tool call that it was about.
    pub(crate) fn named_calls(&self, id: &str) -> bool {
        self.calls.lock().unwrap().iter().filter(|(called, ..)| called == id).all(|(.., named)| *named)
    }

    /// Calls that were taken back before they were answered.
    pub(crate) fn withdrawn(&self) -> Vec<String> {
        self.withdrawn.lock().unwrap().clone()
    }
}

/// Says so when it is dropped before it was disarmed.
struct Withdrawal {
    id: Option<String>,
    list: Arc<Mutex<Vec<String>>>,
}

impl Withdrawal {
    fn answered(&mut self) {
        self.id = None;
    }
}

impl Drop for Withdrawal {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.list.lock().unwrap().push(id);
        }
    }
}

/// So that futures can look at the program again.
pub(crate) struct Shared(pub(crate) Arc<Program>);

impl Driver for Shared {
    fn hook(&self, call: HookCall) -> BoxFuture<'static, Result<Box<RawValue>, DriverError>> {
        let program = self.0.clone();
        let id = call.callback.to_string();
        let input: Value = serde_json::from_str(call.input.get()).unwrap();
        let before = program.inputs(&id).len();
        program.calls.lock().unwrap().push((id.clone(), input.clone(), call.tool_use.is_some()));
        let answer = program.callbacks.get(&id).expect("a callback that was registered")(before, &input);
        let mut withdrawal = Withdrawal { id: Some(id), list: program.withdrawn.clone() };
        Box::pin(async move {
            let answer = match answer {
                Reaction::Say(answer) => Ok(answer),
                Reaction::Fail(why) => Err(DriverError::Failed(why.to_owned())),
                Reaction::Leave => Err(DriverError::Closed),
                Reaction::Hang => {
                    program.hanging.notify_one();
                    std::future::pending().await
                }
                Reaction::Meet(barrier, answer) => {
                    barrier.wait().await;
                    Ok(answer)
                }
            };
            withdrawal.answered();
            answer.map(|answer| RawValue::from_string(answer.to_string()).unwrap())
        })
    }

    fn mcp(&self, _server: &str, _message: Box<RawValue>) -> BoxFuture<'static, Result<Box<RawValue>, DriverError>> {
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
pub(crate) fn decides(decision: &str, reason: &str) -> Value {
    json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": decision,
                                  "permissionDecisionReason": reason}})
}

/// What a hook adds.
pub(crate) fn adds(event: &str, context: &str) -> Value {
    json!({"hookSpecificOutput": {"hookEventName": event, "additionalContext": context}})
}
