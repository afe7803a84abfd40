//! The envelopes of the control protocol.

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// A fresh id for a request or a line.
pub(super) fn new_id() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// A request to the host. What is already JSON goes out in its own bytes.
pub(super) fn request(id: &str, request: &impl Serialize) -> String {
    #[derive(Serialize)]
    struct Frame<'a, T> {
        r#type: &'static str,
        request_id: &'a str,
        request: &'a T,
    }
    // Texts and JSON values cannot fail to render.
    serde_json::to_string(&Frame { r#type: "control_request", request_id: id, request }).unwrap_or_default()
}

/// Takes a request to the host back.
pub(super) fn cancel(id: &str) -> String {
    json!({"type": "control_cancel_request", "request_id": id}).to_string()
}

/// The answer to a request of the host's.
pub(super) fn answer(id: &Value, outcome: Result<Value, String>) -> String {
    let response = match outcome {
        Ok(response) => json!({"subtype": "success", "request_id": id, "response": response}),
        Err(error) => json!({"subtype": "error", "request_id": id, "error": error}),
    };
    json!({"type": "control_response", "response": response}).to_string()
}

/// An answer of the host's to one of our requests.
pub(super) struct HostAnswer {
    pub(super) id: String,
    pub(super) outcome: Result<Box<RawValue>, String>,
}

/// Reads a `control_response`. Some hosts put the id beside the response instead of into it.
pub(super) fn read_answer(line: &super::lines::HostLine) -> Option<HostAnswer> {
    #[derive(serde::Deserialize)]
    struct Response {
        request_id: Option<String>,
        subtype: Option<String>,
        response: Option<Box<RawValue>>,
        error: Option<Value>,
    }
    let response: Response = line.get("response")?;
    let id = response.request_id.or_else(|| line.text("request_id"))?;
    let outcome = match (response.subtype.as_deref(), response.response) {
        (Some("error"), _) => Err(match response.error {
            Some(Value::String(text)) => text,
            Some(other) => other.to_string(),
            None => "Unknown error".to_owned(),
        }),
        (_, Some(response)) => Ok(response),
        (_, None) => Ok(RawValue::from_string("{}".to_owned()).unwrap_or_default()),
    };
    Some(HostAnswer { id, outcome })
}
