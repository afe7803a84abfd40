//! Requests that servers may make of gimlet: elicitation, a question to the user. The protocol layer refuses all
//! others.

use std::sync::{Arc, Mutex, PoisonError};

use gimlet_core::UserAsker;
use gimlet_proto::{ElicitationAsk, ElicitationRequest};
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability,
    Implementation, ProtocolVersion,
};
use rmcp::service::RequestContext;
use rmcp::{ClientHandler, ErrorData, RoleClient};
use serde_json::{Map, Value, json};

/// Way to ask the user, shared by the connections of a session. Empty until the session is open, and where no front end
/// can answer.
#[derive(Clone, Default)]
pub(crate) struct SharedAsker(Arc<Mutex<Option<UserAsker>>>);

impl SharedAsker {
    pub(crate) fn set(&self, asker: UserAsker) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(asker);
    }

    fn get(&self) -> Option<UserAsker> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The client side of gimlet as seen by one server.
pub(crate) struct ElicitationClient {
    asker: SharedAsker,
    server: String,
}

impl ElicitationClient {
    pub(crate) fn new(asker: SharedAsker, server: &str) -> Self {
        Self { asker, server: server.to_owned() }
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

    /// Passes a question on to the session, whose front end asks the user. Where none can, and for an answer that is
    /// invalid, it counts as declined.
    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let declined = ElicitResult::new(ElicitationAction::Decline);
        let Some((asker, question)) = self.asker.get().zip(build_question(&self.server, &request)) else {
            return Ok(declined);
        };
        // A server that withdraws its question withdraws it from the front end as well.
        let answer = tokio::select! {
            biased;
            () = context.ct.cancelled() => return Ok(ElicitResult::new(ElicitationAction::Cancel)),
            answer = asker.elicit(question) => answer,
        };
        let Some((action, content)) = answer else { return Ok(declined) };
        let (action, content) = match action {
            gimlet_proto::ElicitationAction::Accept => (ElicitationAction::Accept, content),
            gimlet_proto::ElicitationAction::Decline => (ElicitationAction::Decline, None),
            gimlet_proto::ElicitationAction::Cancel => (ElicitationAction::Cancel, None),
        };
        let result = ElicitResult::new(action);
        Ok(match content {
            Some(content) => result.with_content(Value::Object(content)),
            None => result,
        })
    }
}

/// Builds a server's question, also in the form that hooks and programs know.
fn build_question(server: &str, request: &ElicitRequestParams) -> Option<ElicitationAsk> {
    let asked = serde_json::to_value(request).ok()?;
    let mut raw = Map::new();
    raw.insert("mcp_server_name".to_owned(), json!(server));
    let names = [
        ("message", "message"),
        ("mode", "mode"),
        ("url", "url"),
        ("elicitationId", "elicitation_id"),
        ("requestedSchema", "requested_schema"),
    ];
    for (name, public) in names {
        if let Some(value) = asked.get(name).filter(|value| !value.is_null()) {
            raw.insert(public.to_owned(), value.clone());
        }
    }
    let request = match raw.get("url").and_then(Value::as_str) {
        Some(url) => ElicitationRequest::Url { url: url.to_owned() },
        None => ElicitationRequest::Form { schema: raw.get("requested_schema").cloned().unwrap_or_default() },
    };
    let message = raw.get("message").and_then(Value::as_str).unwrap_or_default().to_owned();
    Some(ElicitationAsk { server: server.to_owned(), message, request, raw })
}
