//! The envelopes of the control protocol.

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// Returns a fresh id for a request or a line.
pub(super) fn new_id() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// Renders a request to the host. Raw JSON is copied byte for byte.
pub(super) fn request_line(id: &str, request: &impl Serialize) -> String {
    #[derive(Serialize)]
    struct ControlRequestFrame<'a, T> {
        r#type: &'static str,
        request_id: &'a str,
        request: &'a T,
    }
    // Strings and JSON values cannot fail to render.
    serde_json::to_string(&ControlRequestFrame { r#type: "control_request", request_id: id, request })
        .unwrap_or_default()
}

/// Renders the cancellation of a request to the host.
pub(super) fn cancel_line(id: &str) -> String {
    json!({"type": "control_cancel_request", "request_id": id}).to_string()
}

/// Renders the answer to a request from the host.
pub(super) fn answer_line(id: &Value, outcome: Result<Value, String>) -> String {
    let response = match outcome {
        Ok(response) => json!({"subtype": "success", "request_id": id, "response": response}),
        Err(error) => json!({"subtype": "error", "request_id": id, "error": error}),
    };
    json!({"type": "control_response", "response": response}).to_string()
}

/// Answer from the host to one of our requests.
pub(super) struct ControlAnswer {
    pub(super) id: String,
    pub(super) outcome: Result<Box<RawValue>, String>,
}

/// Parses a `control_response`. Some hosts put the id beside the response instead of into it. A response counts as a
/// success only if it states so or states no outcome.
pub(super) fn parse_answer(line: &super::host_lines::HostLine) -> Option<ControlAnswer> {
    #[derive(serde::Deserialize)]
    struct ControlResponseFrame {
        request_id: Option<String>,
        subtype: Option<Value>,
        response: Option<Box<RawValue>>,
        error: Option<Value>,
    }
    let response: ControlResponseFrame = line.get("response")?;
    let id = response.request_id.or_else(|| line.text("request_id"))?;
    let subtype = response.subtype.as_ref().map(|subtype| subtype.as_str().unwrap_or_default());
    let outcome = match (subtype, response.response) {
        (None | Some("success"), Some(response)) => Ok(response),
        (None | Some("success"), None) => Ok(RawValue::from_string("{}".to_owned()).unwrap_or_default()),
        (Some(_), _) => Err(match (response.error, response.subtype) {
            (Some(Value::String(text)), _) => text,
            (Some(other), _) => other.to_string(),
            (None, Some(other)) if other != "error" => format!("an answer of the kind {other}"),
            (None, _) => "Unknown error".to_owned(),
        }),
    };
    Some(ControlAnswer { id, outcome })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sdk::host_lines::HostLine;

    #[test]
    fn only_explicit_or_absent_success_is_no_error() {
        let yes = r#""response":{"behavior":"allow"}"#;
        for (subtype, error) in [
            ("", None),
            (r#""subtype":null,"#, None),
            (r#""subtype":"success","#, None),
            (r#""subtype":"error","error":"no","#, Some("no")),
            (r#""subtype":"error","#, Some("Unknown error")),
            (r#""subtype":"cancelled","#, Some(r#"an answer of the kind "cancelled""#)),
            (r#""subtype":"Success","#, Some(r#"an answer of the kind "Success""#)),
            (r#""subtype":5,"#, Some("an answer of the kind 5")),
        ] {
            let line = format!(r#"{{"type":"control_response","response":{{{subtype}"request_id":"r1",{yes}}}}}"#);
            let answer = parse_answer(&HostLine::from_members(serde_json::from_str(&line).unwrap())).unwrap();
            assert_eq!((answer.id.as_str(), answer.outcome.err().as_deref()), ("r1", error), "{subtype}");
        }
    }
}
