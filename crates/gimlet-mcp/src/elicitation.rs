//! Requests that servers may make of gimlet: elicitation, a question to the user. The protocol layer refuses all
//! others.

use std::sync::Arc;

use gimlet_proto::Driver;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability,
    Implementation, ProtocolVersion,
};
use rmcp::service::RequestContext;
use rmcp::{ClientHandler, ErrorData, RoleClient};
use serde::Deserialize;
use serde_json::value::to_raw_value;
use serde_json::{Map, Value, json};

/// The client side of gimlet as seen by one server.
pub(crate) struct ElicitationClient {
    driver: Arc<dyn Driver>,
    server: String,
}

impl ElicitationClient {
    pub(crate) fn new(driver: Arc<dyn Driver>, server: &str) -> Self {
        Self { driver, server: server.to_owned() }
    }
}

impl ClientHandler for ElicitationClient {
    fn get_info(&self) -> ClientConfig {
        let mut abilities = ClientCapabilities::default();
        // The protocol version set below has only one kind of question, so there are no kinds to name.
        abilities.elicitation = Some(ElicitationCapability::new());
        let mut info = ClientConfig::new(abilities, Implementation::new("gimlet", gimlet_proto::VERSION));
        info.protocol_version = ProtocolVersion::V_2025_06_18;
        info
    }

    /// Forwards a question to the program, which asks its user. A program that cannot, or whose answer is invalid,
    /// counts as declined.
    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let declined = ElicitResult::new(ElicitationAction::Decline);
        let Some(question) = build_question(&self.server, &request).and_then(|question| to_raw_value(&question).ok())
        else {
            return Ok(declined);
        };
        // A server that withdraws its question drops the request to the program as well.
        let answer = tokio::select! {
            biased;
            () = context.ct.cancelled() => return Ok(ElicitResult::new(ElicitationAction::Cancel)),
            answer = self.driver.forward_elicitation(question) => answer,
        };
        Ok(answer.ok().and_then(|answer| parse_answer(answer.get())).unwrap_or(declined))
    }
}

/// Builds a server's question in the form that programs know.
fn build_question(server: &str, request: &ElicitRequestParams) -> Option<Map<String, Value>> {
    let asked = serde_json::to_value(request).ok()?;
    let mut question = Map::new();
    question.insert("mcp_server_name".to_owned(), json!(server));
    let names = [
        ("message", "message"),
        ("mode", "mode"),
        ("url", "url"),
        ("elicitationId", "elicitation_id"),
        ("requestedSchema", "requested_schema"),
    ];
    for (name, public) in names {
        if let Some(value) = asked.get(name).filter(|value| !value.is_null()) {
            question.insert(public.to_owned(), value.clone());
        }
    }
    Some(question)
}

fn parse_answer(answer: &str) -> Option<ElicitResult> {
    #[derive(Deserialize)]
    struct ElicitationAnswer {
        action: String,
        content: Option<Map<String, Value>>,
    }
    let answer: ElicitationAnswer = serde_json::from_str(answer).ok()?;
    let action = match answer.action.as_str() {
        "accept" => ElicitationAction::Accept,
        "decline" => ElicitationAction::Decline,
        "cancel" => ElicitationAction::Cancel,
        _ => return None,
    };
    let accepted = action == ElicitationAction::Accept;
    let result = ElicitResult::new(action);
    Some(match answer.content {
        Some(content) if accepted => result.with_content(Value::Object(content)),
        _ => result,
    })
}
