//! Questions of servers: the request to the host and the interpretation of its answer.

use gimlet_proto::{AskAnswer, ElicitationAction, ElicitationAsk};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::{control_frames, host_lines, truncate};

/// Builds the request for the host. `None` for a question that does not fit into a line.
pub(super) fn build_request(id: &str, question: &ElicitationAsk) -> Option<String> {
    #[derive(Serialize)]
    struct ElicitationLine<'a> {
        subtype: &'static str,
        #[serde(flatten)]
        question: &'a Map<String, Value>,
    }
    if serde_json::to_string(&question.raw).ok()?.len() >= truncate::MAX_INPUT {
        return None;
    }
    let request = ElicitationLine { subtype: "elicitation", question: &question.raw };
    Some(control_frames::request_line(id, &request))
}

/// Interprets the host's answer. Anything but a clear one counts as no answer.
pub(super) fn parse_answer(outcome: Result<Box<RawValue>, String>) -> AskAnswer {
    #[derive(Deserialize)]
    struct ElicitationReply {
        action: String,
        content: Option<Map<String, Value>>,
    }
    let reply = match outcome {
        Ok(raw) => host_lines::parse_lossy::<ElicitationReply>(&raw),
        Err(error) => return AskAnswer::Failed(error),
    };
    let Some(ElicitationReply { action, content }) = reply else {
        return AskAnswer::Failed("its answer could not be understood".to_owned());
    };
    match ElicitationAction::from_word(&action) {
        Some(action) => AskAnswer::Elicited { action, content },
        None => AskAnswer::Failed(format!("its answer could not be understood: {action}")),
    }
}
