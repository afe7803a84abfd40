//! gimlet's side of a connection: what a server may ask, and what it reports on its own. The protocol layer refuses all
//! other requests.

// The protocol's next version leaves roots and logging out; today's servers use them.
#![allow(deprecated)]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use gimlet_core::UserAsker;
use gimlet_proto::{ElicitationAsk, ElicitationRequest};
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability,
    FormElicitationCapability, Implementation, ListRootsResult, LoggingMessageNotificationParam,
    ProgressNotificationParam, ProtocolVersion, ResourceUpdatedNotificationParam, Root, RootsCapabilities,
    UrlElicitationCapability,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ClientHandler, ErrorData, RoleClient};
use serde_json::{Map, Value, json};

use crate::server_signals::ServerSignals;
use crate::server_text::sanitize_label;

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

/// Folders that the session works in, shared by the connections of a session.
#[derive(Clone, Default)]
pub(crate) struct SharedRoots(Arc<Mutex<Arc<[PathBuf]>>>);

impl SharedRoots {
    /// Sets the folders. Returns false if they are the same as before.
    pub(crate) fn set(&self, folders: &[PathBuf]) -> bool {
        let mut roots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = **roots != *folders;
        if is_new {
            *roots = folders.into();
        }
        is_new
    }

    fn get(&self) -> Arc<[PathBuf]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The client side of gimlet as seen by one server.
pub(crate) struct ServerClient {
    asker: SharedAsker,
    server: String,
    signals: Arc<ServerSignals>,
    /// Folders that the session works in; `None` for a server that need not know, inside the driving program.
    roots: Option<SharedRoots>,
    /// Called once the server is initialised.
    greeted: Option<Box<dyn Fn() + Send + Sync>>,
}

impl ServerClient {
    pub(crate) fn new(
        asker: SharedAsker,
        server: &str,
        signals: Arc<ServerSignals>,
        roots: Option<SharedRoots>,
    ) -> Self {
        Self { asker, server: server.to_owned(), signals, roots, greeted: None }
    }

    pub(crate) fn with_greeting(mut self, greeted: impl Fn() + Send + Sync + 'static) -> Self {
        self.greeted = Some(Box::new(greeted));
        self
    }

    pub(crate) fn note_greeting(&self) {
        self.greeted.iter().for_each(|greeted| greeted());
    }
}

impl ClientHandler for ServerClient {
    fn get_info(&self) -> ClientConfig {
        let mut abilities = ClientCapabilities::default();
        let mut version = ProtocolVersion::V_2025_06_18;
        // The older version has only one kind of question, so there are no kinds to name.
        let mut elicitation = ElicitationCapability::new();
        if self.roots.is_some() {
            version = ProtocolVersion::V_2025_11_25;
            elicitation = elicitation
                .with_form(FormElicitationCapability::default())
                .with_url(UrlElicitationCapability::default());
            let mut roots = RootsCapabilities::default();
            roots.list_changed = Some(true);
            abilities.roots = Some(roots);
        }
        abilities.elicitation = Some(elicitation);
        let mut info = ClientConfig::new(abilities, Implementation::new("gimlet", gimlet_proto::VERSION));
        info.protocol_version = version;
        info
    }

    async fn list_roots(&self, _context: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        let folders = self.roots.as_ref().map(SharedRoots::get).unwrap_or_default();
        let roots = folders.iter().map(|folder| Root::new(file_url(folder))).collect();
        Ok(ListRootsResult::new(roots))
    }

    async fn on_progress(&self, told: ProgressNotificationParam, _context: NotificationContext<RoleClient>) {
        let line = progress_line(told.progress, told.total, told.message.as_deref());
        self.signals.report_progress(&told.progress_token, line);
    }

    async fn on_resource_updated(
        &self,
        told: ResourceUpdatedNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.signals.mark_resource_updated(&told.uri);
    }

    async fn on_logging_message(
        &self,
        told: LoggingMessageNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        let text = match &told.data {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let level = json!(told.level);
        self.signals.add_log_line(format!("says ({}): {}", level.as_str().unwrap_or("log"), sanitize_label(&text)));
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
            Some(content) => {
                let defaults = form_defaults(&request).into_iter();
                let mut filled = content;
                for (name, value) in defaults {
                    filled.entry(name).or_insert(value);
                }
                result.with_content(Value::Object(filled))
            }
            None => result,
        })
    }
}

/// Returns the values that a form has for what the user leaves out.
fn form_defaults(request: &ElicitRequestParams) -> Map<String, Value> {
    let asked = serde_json::to_value(request).unwrap_or_default();
    let properties = asked["requestedSchema"]["properties"].as_object().into_iter().flatten();
    properties.filter_map(|(name, schema)| Some((name.clone(), schema.get("default")?.clone()))).collect()
}

/// Returns a `file` URL with everything but plain characters escaped.
fn file_url(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    let mut url = "file://".to_owned();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => url.push(char::from(*byte)),
            _ => url.push_str(&format!("%{byte:02X}")),
        }
    }
    url
}

fn progress_line(progress: f64, total: Option<f64>, message: Option<&str>) -> String {
    let share = match total {
        Some(total) if total > 0.0 => format!("{:.0} %", (progress / total * 100.0).clamp(0.0, 100.0)),
        _ => format!("{progress}"),
    };
    match message.map(sanitize_label).filter(|message| !message.trim().is_empty()) {
        Some(message) => format!("{message} ({share})"),
        None => share,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_one_short_line() {
        assert_eq!(progress_line(1.0, Some(4.0), None), "25 %");
        assert_eq!(progress_line(3.0, None, Some("rows\n\u{1b}[2J")), "rows  (3)");
        assert_eq!(progress_line(9.0, Some(4.0), Some(" ")), "100 %");
    }

    #[test]
    fn folders_become_urls() {
        assert_eq!(file_url(Path::new("/a b/ü#1")), "file:///a%20b/%C3%BC%231");
    }
}
