//! Requests to the host: sent, awaited, withdrawn. The host is the session's driver.
//!
//! Nothing here writes: lines go to the loop that owns the output, so that they keep their order.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gimlet_proto::{BoxFuture, Driver, DriverError, HookCall, ToolUseId};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};

use super::{control_frames, truncate};

type DriverResult = Result<Box<RawValue>, DriverError>;

/// The host as seen by the session. Clones refer to one host.
#[derive(Clone)]
pub struct HostDriver {
    shared: Arc<HostShared>,
}

struct HostShared {
    table: Mutex<RequestTable>,
    lines: mpsc::UnboundedSender<String>,
}

#[derive(Default)]
struct RequestTable {
    open: HashMap<String, oneshot::Sender<DriverResult>>,
    /// True once the host will answer nothing more.
    closed: bool,
}

/// Queue of the lines that a [`HostDriver`] wants written.
pub struct HostRequests {
    pub(super) lines: mpsc::UnboundedReceiver<String>,
}

impl HostDriver {
    pub fn new() -> (Self, HostRequests) {
        let (lines, receiver) = mpsc::unbounded_channel();
        (Self { shared: Arc::new(HostShared { table: Mutex::default(), lines }) }, HostRequests { lines: receiver })
    }

    /// Delivers an answer. Returns false if no request here is waiting for it.
    pub(super) fn deliver_answer(&self, id: &str, answer: DriverResult) -> bool {
        match self.shared.lock_table().take_waiter(id) {
            // A caller that stopped waiting has already withdrawn the request.
            Some(waiting) => {
                drop(waiting.send(answer));
                true
            }
            None => false,
        }
    }

    /// Closes the driver: pending and later requests fail at once.
    pub(super) fn close(&self) {
        let mut table = self.shared.lock_table();
        table.closed = true;
        table.open.clear();
    }

    fn send_request(&self, request: &impl Serialize) -> BoxFuture<'static, DriverResult> {
        let id = control_frames::new_id();
        let (sender, answer) = oneshot::channel();
        {
            let mut table = self.shared.lock_table();
            if table.closed {
                return Box::pin(std::future::ready(Err(DriverError::Closed)));
            }
            table.open.insert(id.clone(), sender);
        }
        self.shared.queue_line(control_frames::request_line(&id, request));
        let withdrawal = RequestGuard { shared: self.shared.clone(), id };
        Box::pin(async move {
            let answer = answer.await.unwrap_or(Err(DriverError::Closed));
            drop(withdrawal);
            answer
        })
    }
}

impl RequestTable {
    fn take_waiter(&mut self, id: &str) -> Option<oneshot::Sender<DriverResult>> {
        self.open.remove(id)
    }
}

impl HostShared {
    fn lock_table(&self) -> MutexGuard<'_, RequestTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue_line(&self, line: String) {
        // Without the loop there is no host either.
        drop(self.lines.send(line));
    }
}

/// Guard that cancels a request at the host when its caller stops waiting for the answer.
struct RequestGuard {
    shared: Arc<HostShared>,
    id: String,
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let open = self.shared.lock_table().take_waiter(&self.id).is_some();
        if open {
            self.shared.queue_line(control_frames::cancel_line(&self.id));
        }
    }
}

impl Driver for HostDriver {
    fn run_hook(&self, call: HookCall) -> BoxFuture<'static, DriverResult> {
        #[derive(Serialize)]
        struct HookRequest<'a> {
            subtype: &'static str,
            callback_id: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            tool_use_id: Option<&'a str>,
            input: &'a RawValue,
        }
        // A hook that guards calls and prompts must see the whole of them.
        if call.input.get().len() > truncate::MAX_INPUT
            && let Some(answer) = answer_truncated_hook(&call)
        {
            return Box::pin(std::future::ready(answer));
        }
        self.send_request(&HookRequest {
            subtype: "hook_callback",
            callback_id: &call.callback,
            tool_use_id: call.tool_use.as_ref().map(ToolUseId::as_str),
            input: &call.input,
        })
    }

    fn send_mcp_message(&self, server: &str, message: Box<RawValue>) -> BoxFuture<'static, DriverResult> {
        #[derive(Serialize)]
        struct McpMessageRequest<'a> {
            subtype: &'static str,
            server_name: &'a str,
            message: &'a RawValue,
        }
        // Never truncated: the server would act on a different request.
        if message.get().len() + server.len() >= truncate::MAX_INPUT {
            let text = format!("the message to the server {server} is longer than its host can take");
            return Box::pin(std::future::ready(Err(DriverError::Failed(text))));
        }
        let answer =
            self.send_request(&McpMessageRequest { subtype: "mcp_message", server_name: server, message: &message });
        Box::pin(async move { parse_mcp_response(&answer.await?) })
    }
}

/// Returns the answer in place of a hook that could be shown only a part: neither a call nor a prompt is let through on
/// that. `None` for hooks that guard nothing: they receive what fits.
fn answer_truncated_hook(call: &HookCall) -> Option<DriverResult> {
    #[derive(serde::Deserialize)]
    struct HookInputHead {
        hook_event_name: String,
    }
    let named = super::host_lines::parse_lossy::<HookInputHead>(&call.input);
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

/// Extracts the server's own answer from the host's.
fn parse_mcp_response(answer: &RawValue) -> DriverResult {
    #[derive(serde::Deserialize)]
    struct McpResponse {
        mcp_response: Box<RawValue>,
    }
    match serde_json::from_str::<McpResponse>(answer.get()) {
        Ok(wrapped) => Ok(wrapped.mcp_response),
        Err(_) => Err(DriverError::Failed("the answer has no mcp_response".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn raw_json(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    fn next_request(requests: &mut HostRequests) -> Value {
        serde_json::from_str(&requests.lines.try_recv().unwrap()).unwrap()
    }

    #[tokio::test]
    async fn answers_find_their_question_in_any_order() {
        let (host, mut requests) = HostDriver::new();
        let hook = HookCall { callback: "hook_0".into(), input: raw_json("{}").into(), tool_use: None };
        let first = host.run_hook(hook);
        let second = host.send_mcp_message("calc", raw_json(r#"{"id":1}"#));
        let (one, two) = (next_request(&mut requests), next_request(&mut requests));
        assert_eq!(one["request"], json!({"subtype": "hook_callback", "callback_id": "hook_0", "input": {}}));
        assert_eq!(two["request"]["message"], json!({"id": 1}));
        assert!(host.deliver_answer(two["request_id"].as_str().unwrap(), Ok(raw_json(r#"{"mcp_response":{"id":1}}"#))));
        assert!(host.deliver_answer(one["request_id"].as_str().unwrap(), Err(DriverError::Failed("no".into()))));
        assert!(!host.deliver_answer("someone-else", Ok(raw_json("{}"))));
        assert_eq!(second.await.unwrap().get(), r#"{"id":1}"#);
        assert_eq!(first.await.unwrap_err(), DriverError::Failed("no".into()));
        assert!(requests.lines.try_recv().is_err(), "what was answered is not withdrawn");
    }

    #[tokio::test]
    async fn a_hook_that_could_see_only_a_part_of_a_call_does_not_let_it_through() {
        let (host, mut requests) = HostDriver::new();
        let long = "x".repeat(truncate::MAX_INPUT);
        for (event, decision) in [("PreToolUse", json!("deny")), ("PostToolUse", Value::Null)] {
            let input =
                raw_json(&json!({"hook_event_name": event, "tool_input": {"content": long}}).to_string()).into();
            let call = HookCall { callback: "hook_0".into(), input, tool_use: Some(ToolUseId::new("t1")) };
            let output: Value = serde_json::from_str(host.run_hook(call).await.unwrap().get()).unwrap();
            assert_eq!(output["hookSpecificOutput"]["permissionDecision"], decision, "{event}");
        }
        assert!(requests.lines.try_recv().is_err(), "nothing was sent");
    }

    #[tokio::test]
    async fn a_message_to_a_server_goes_out_whole_or_not_at_all() {
        let (host, mut requests) = HostDriver::new();
        let message =
            |length: usize| raw_json(&json!({"params": {"arguments": {"text": "x".repeat(length)}}}).to_string());
        let largest = truncate::MAX_INPUT - message(0).get().len() - "calc".len() - 1;
        let sent = host.send_mcp_message("calc", message(largest));
        let line = requests.lines.try_recv().unwrap();
        assert_eq!(truncate::truncate_line(line.clone()), line, "nothing of it is left out");
        drop(sent);
        next_request(&mut requests);
        for length in [largest + 1, truncate::MAX_LINE - 100, 2 * truncate::MAX_LINE] {
            assert!(
                matches!(host.send_mcp_message("calc", message(length)).await, Err(DriverError::Failed(_))),
                "{length}"
            );
        }
        assert!(requests.lines.try_recv().is_err());
    }

    #[tokio::test]
    async fn a_question_that_nobody_waits_for_is_withdrawn() {
        let (host, mut requests) = HostDriver::new();
        drop(host.send_mcp_message("calc", raw_json("{}")));
        let asked = next_request(&mut requests);
        let cancelled = next_request(&mut requests);
        assert_eq!(cancelled, json!({"type": "control_cancel_request", "request_id": asked["request_id"]}));
        assert!(
            !host.deliver_answer(asked["request_id"].as_str().unwrap(), Ok(raw_json("{}"))),
            "a late answer is nobody's"
        );
    }

    #[tokio::test]
    async fn after_the_end_everything_fails_at_once() {
        let (host, mut requests) = HostDriver::new();
        let waiting = host.send_mcp_message("calc", raw_json("{}"));
        host.close();
        assert_eq!(waiting.await.unwrap_err().to_string(), "Stream closed");
        next_request(&mut requests);
        assert_eq!(host.send_mcp_message("calc", raw_json("{}")).await.unwrap_err(), DriverError::Closed);
        assert!(requests.lines.try_recv().is_err(), "nothing is asked of a host that is gone");
    }
}
