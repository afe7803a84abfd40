//! Requests to the host: sent, waited for, withdrawn. The host is the session's driver.
//!
//! Nothing here writes: lines go to the loop that owns the output, so that they keep their place among the others.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gimlet_proto::{BoxFuture, Driver, DriverError, HookCall, ToolUseId};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};

use super::{fit, frames};

type Answer = Result<Box<RawValue>, DriverError>;

/// The host, as the session calls it. Clones are the same host.
#[derive(Clone)]
pub struct Host {
    shared: Arc<Shared>,
}

struct Shared {
    table: Mutex<Table>,
    lines: mpsc::UnboundedSender<String>,
}

#[derive(Default)]
struct Table {
    open: HashMap<String, oneshot::Sender<Answer>>,
    /// Those of them that a person has to answer.
    elicitations: HashSet<String>,
    /// The host will answer nothing any more.
    closed: bool,
}

/// The lines that a [`Host`] wants written.
pub struct HostRequests {
    pub(super) lines: mpsc::UnboundedReceiver<String>,
}

impl Host {
    pub fn new() -> (Self, HostRequests) {
        let (lines, receiver) = mpsc::unbounded_channel();
        (Self { shared: Arc::new(Shared { table: Mutex::default(), lines }) }, HostRequests { lines: receiver })
    }

    /// Passes an answer on. `false` when nobody (any more) waits for it here.
    pub(super) fn answer(&self, id: &str, answer: Answer) -> bool {
        match self.shared.table().remove(id) {
            // Whoever stopped waiting has withdrawn the request already.
            Some(waiting) => {
                drop(waiting.send(answer));
                true
            }
            None => false,
        }
    }

    /// Nothing will be answered any more: whoever waits or asks later learns that at once.
    pub(super) fn close(&self) {
        let mut table = self.shared.table();
        table.closed = true;
        table.open.clear();
        table.elicitations.clear();
    }

    /// Whether a person is being asked something by way of the host.
    pub(super) fn is_eliciting(&self) -> bool {
        !self.shared.table().elicitations.is_empty()
    }

    fn request(&self, request: &impl Serialize) -> BoxFuture<'static, Answer> {
        self.request_of(Asks::Program, request)
    }

    fn request_of(&self, whom: Asks, request: &impl Serialize) -> BoxFuture<'static, Answer> {
        let id = frames::new_id();
        let (sender, answer) = oneshot::channel();
        {
            let mut table = self.shared.table();
            if table.closed {
                return Box::pin(std::future::ready(Err(DriverError::Closed)));
            }
            table.open.insert(id.clone(), sender);
            if whom == Asks::Person {
                table.elicitations.insert(id.clone());
            }
        }
        self.shared.write(frames::request(&id, request));
        let withdrawal = Withdrawal { shared: self.shared.clone(), id };
        Box::pin(async move {
            let answer = answer.await.unwrap_or(Err(DriverError::Closed));
            drop(withdrawal);
            answer
        })
    }
}

/// Who has to answer a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asks {
    Program,
    Person,
}

impl Table {
    fn remove(&mut self, id: &str) -> Option<oneshot::Sender<Answer>> {
        self.elicitations.remove(id);
        self.open.remove(id)
    }
}

impl Shared {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, line: String) {
        // Without the loop there is no host either.
        drop(self.lines.send(line));
    }
}

/// Tells the host when nobody waits any more for an answer that has not come.
struct Withdrawal {
    shared: Arc<Shared>,
    id: String,
}

impl Drop for Withdrawal {
    fn drop(&mut self) {
        let open = self.shared.table().remove(&self.id).is_some();
        if open {
            self.shared.write(frames::cancel(&self.id));
        }
    }
}

impl Driver for Host {
    fn hook(&self, call: HookCall) -> BoxFuture<'static, Answer> {
        #[derive(Serialize)]
        struct Request<'a> {
            subtype: &'static str,
            callback_id: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            tool_use_id: Option<&'a str>,
            input: &'a RawValue,
        }
        // Whoever guards calls and prompts must see the whole of them.
        if call.input.get().len() > fit::MAX_INPUT
            && let Some(answer) = unseen(&call)
        {
            return Box::pin(std::future::ready(answer));
        }
        self.request(&Request {
            subtype: "hook_callback",
            callback_id: &call.callback,
            tool_use_id: call.tool_use.as_ref().map(ToolUseId::as_str),
            input: &call.input,
        })
    }

    fn mcp(&self, server: &str, message: Box<RawValue>) -> BoxFuture<'static, Answer> {
        #[derive(Serialize)]
        struct Request<'a> {
            subtype: &'static str,
            server_name: &'a str,
            message: &'a RawValue,
        }
        // Never in part: the server would do something else than it was asked.
        if message.get().len() + server.len() >= fit::MAX_INPUT {
            let text = format!("the message to the server {server} is longer than its host can take");
            return Box::pin(std::future::ready(Err(DriverError::Failed(text))));
        }
        let answer = self.request(&Request { subtype: "mcp_message", server_name: server, message: &message });
        Box::pin(async move { mcp_response(&answer.await?) })
    }

    fn elicit(&self, question: Box<RawValue>) -> BoxFuture<'static, Answer> {
        #[derive(Serialize)]
        struct Request<'a> {
            subtype: &'static str,
            #[serde(flatten)]
            question: &'a serde_json::Map<String, serde_json::Value>,
        }
        let whole = super::lines::read(&question).filter(|_| question.get().len() < fit::MAX_INPUT);
        let Some(question) = whole else {
            let text = "the question of the server cannot be shown whole".to_owned();
            return Box::pin(std::future::ready(Err(DriverError::Failed(text))));
        };
        self.request_of(Asks::Person, &Request { subtype: "elicitation", question: &question })
    }
}

/// The answer in place of a hook that could only be shown a part: neither a call nor a prompt is let through on that.
/// `None` for hooks that guard nothing: they are told what fits.
fn unseen(call: &HookCall) -> Option<Answer> {
    #[derive(serde::Deserialize)]
    struct Named {
        hook_event_name: String,
    }
    let named = super::lines::read::<Named>(&call.input);
    let output = match (named.as_ref().map(|named| named.hook_event_name.as_str()), &call.tool_use) {
        (Some("PreToolUse"), _) => serde_json::json!({"hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason":
                "The input is too long to be shown whole to the program that guards calls. Use a smaller one.",
        }}),
        (Some("UserPromptSubmit"), _) => serde_json::json!({
            "decision": "block",
            "reason": "The prompt is too long to be shown whole to the program that guards prompts. Put what is long \
                       into a file.",
            "hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "suppressOriginalPrompt": true},
        }),
        (_, Some(_)) => serde_json::json!({}),
        (_, None) => return None,
    };
    Some(serde_json::value::to_raw_value(&output).map_err(|error| DriverError::Failed(error.to_string())))
}

/// The server's own answer, out of the host's.
fn mcp_response(answer: &RawValue) -> Answer {
    #[derive(serde::Deserialize)]
    struct Wrapped {
        mcp_response: Box<RawValue>,
    }
    match serde_json::from_str::<Wrapped>(answer.get()) {
        Ok(wrapped) => Ok(wrapped.mcp_response),
        Err(_) => Err(DriverError::Failed("the answer has no mcp_response".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    fn next(requests: &mut HostRequests) -> Value {
        serde_json::from_str(&requests.lines.try_recv().unwrap()).unwrap()
    }

    #[tokio::test]
    async fn answers_find_their_question_in_any_order() {
        let (host, mut requests) = Host::new();
        let hook = HookCall { callback: "hook_0".into(), input: raw("{}").into(), tool_use: None };
        let first = host.hook(hook);
        let second = host.mcp("calc", raw(r#"{"id":1}"#));
        let (one, two) = (next(&mut requests), next(&mut requests));
        assert_eq!(one["request"], json!({"subtype": "hook_callback", "callback_id": "hook_0", "input": {}}));
        assert_eq!(two["request"]["message"], json!({"id": 1}));
        assert!(host.answer(two["request_id"].as_str().unwrap(), Ok(raw(r#"{"mcp_response":{"id":1}}"#))));
        assert!(host.answer(one["request_id"].as_str().unwrap(), Err(DriverError::Failed("no".into()))));
        assert!(!host.answer("someone-else", Ok(raw("{}"))));
        assert_eq!(second.await.unwrap().get(), r#"{"id":1}"#);
        assert_eq!(first.await.unwrap_err(), DriverError::Failed("no".into()));
        assert!(requests.lines.try_recv().is_err(), "what was answered is not withdrawn");
    }

    #[tokio::test]
    async fn a_hook_that_could_see_only_a_part_of_a_call_does_not_let_it_through() {
        let (host, mut requests) = Host::new();
        let long = "x".repeat(fit::MAX_INPUT);
        for (event, decision) in [("PreToolUse", json!("deny")), ("PostToolUse", Value::Null)] {
            let input = raw(&json!({"hook_event_name": event, "tool_input": {"content": long}}).to_string()).into();
            let call = HookCall { callback: "hook_0".into(), input, tool_use: Some(ToolUseId::new("t1")) };
            let output: Value = serde_json::from_str(host.hook(call).await.unwrap().get()).unwrap();
            assert_eq!(output["hookSpecificOutput"]["permissionDecision"], decision, "{event}");
        }
        assert!(requests.lines.try_recv().is_err(), "nothing was sent");
    }

    #[tokio::test]
    async fn a_message_to_a_server_goes_out_whole_or_not_at_all() {
        let (host, mut requests) = Host::new();
        let message = |length: usize| raw(&json!({"params": {"arguments": {"text": "x".repeat(length)}}}).to_string());
        let largest = fit::MAX_INPUT - message(0).get().len() - "calc".len() - 1;
        let sent = host.mcp("calc", message(largest));
        let line = requests.lines.try_recv().unwrap();
        assert_eq!(fit::fit(line.clone()), line, "nothing of it is left out");
        drop(sent);
        next(&mut requests);
        for length in [largest + 1, fit::MAX_LINE - 100, 2 * fit::MAX_LINE] {
            assert!(matches!(host.mcp("calc", message(length)).await, Err(DriverError::Failed(_))), "{length}");
        }
        assert!(requests.lines.try_recv().is_err());
    }

    #[tokio::test]
    async fn a_question_that_nobody_waits_for_is_withdrawn() {
        let (host, mut requests) = Host::new();
        drop(host.mcp("calc", raw("{}")));
        let asked = next(&mut requests);
        let cancelled = next(&mut requests);
        assert_eq!(cancelled, json!({"type": "control_cancel_request", "request_id": asked["request_id"]}));
        assert!(!host.answer(asked["request_id"].as_str().unwrap(), Ok(raw("{}"))), "a late answer is nobody's");
    }

    #[tokio::test]
    async fn a_person_is_asked_until_the_question_is_answered_withdrawn_or_void() {
        let (host, mut requests) = Host::new();
        drop(host.mcp("calc", raw("{}")));
        assert!(!host.is_eliciting());
        let (first, second) = (host.elicit(raw("{}")), host.elicit(raw("{}")));
        next(&mut requests);
        next(&mut requests);
        let asked = next(&mut requests);
        assert!(host.answer(asked["request_id"].as_str().unwrap(), Ok(raw("{}"))) && host.is_eliciting());
        drop((first, second));
        assert!(!host.is_eliciting());
        let _third = host.elicit(raw("{}"));
        assert!(host.is_eliciting());
        host.close();
        assert!(!host.is_eliciting());
    }

    #[tokio::test]
    async fn after_the_end_everything_fails_at_once() {
        let (host, mut requests) = Host::new();
        let waiting = host.mcp("calc", raw("{}"));
        host.close();
        assert_eq!(waiting.await.unwrap_err().to_string(), "Stream closed");
        next(&mut requests);
        assert_eq!(host.mcp("calc", raw("{}")).await.unwrap_err(), DriverError::Closed);
        assert!(requests.lines.try_recv().is_err(), "nothing is asked of a host that is gone");
    }
}
