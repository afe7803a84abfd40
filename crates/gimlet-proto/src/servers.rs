//! Tool servers of a session, as users and programs see them.

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::BoxFuture;

/// Status of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerStatus {
    Connected,
    Failed,
    Pending,
    /// It refused gimlet for lack of credentials.
    NeedsAuth,
    Disabled,
}

impl ServerStatus {
    /// Returns the public word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            ServerStatus::Connected => "connected",
            ServerStatus::Failed => "failed",
            ServerStatus::Pending => "pending",
            ServerStatus::NeedsAuth => "needs-auth",
            ServerStatus::Disabled => "disabled",
        }
    }
}

/// One server.
#[derive(Clone, Debug)]
pub struct ServerView {
    pub name: String,
    pub status: ServerStatus,
    /// Source of the server: `sdk`, `dynamic`, …
    pub source: &'static str,
    /// The server's own name and version.
    pub info: Option<(String, String)>,
    /// Reason of the failure.
    pub error: Option<String>,
    pub config: Box<RawValue>,
    pub tools: Vec<ServerTool>,
}

/// Whose tool one is.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ServerIdentity {
    /// The server's own key, as it was configured.
    pub name: String,
    /// Source of the server: `sdk`, `dynamic`, …
    pub source: &'static str,
}

/// Returns the name of a server or of its tool in the characters that providers accept: everything but letters,
/// digits, `_` and `-` becomes `_`.
pub fn provider_safe_name(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' }).collect()
}

/// A tool under the server's own name.
#[derive(Clone, Debug)]
pub struct ServerTool {
    pub name: String,
    pub description: Option<String>,
    pub read_only: Option<bool>,
    pub destructive: Option<bool>,
    pub open_world: Option<bool>,
}

/// Result of a change to the set of servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerSetChange {
    pub added: Vec<String>,
    pub removed: Vec<String>,
    /// Server and reason.
    pub errors: Vec<(String, String)>,
}

/// Request that the driving program makes of a server directly.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerRequest {
    /// A call of the tool of this full name.
    Call { tool: String, input: Map<String, Value> },
    /// A call of the tool that was configured at startup to answer questions in the user's place.
    Decide { tool: String, input: Map<String, Value> },
    /// A resource.
    Read { server: String, uri: String },
}

/// Reads and changes the servers of a running session. Changes apply from the next turn on. Nothing is called here:
/// that requires the permission check of [`SessionQuery::ServerRequest`](crate::SessionQuery::ServerRequest).
pub trait ServerRegistry: Send + Sync {
    fn list(&self) -> Vec<ServerView>;
    fn reconnect<'a>(&'a self, server: &'a str) -> BoxFuture<'a, Result<(), String>>;
    fn set_enabled<'a>(&'a self, server: &'a str, enabled: bool) -> BoxFuture<'a, Result<(), String>>;
    /// Replaces what earlier calls set and all servers inside the driving program; `servers` is an object of
    /// configurations.
    fn replace<'a>(&'a self, servers: &'a RawValue) -> BoxFuture<'a, Result<ServerSetChange, String>>;
    /// Adds servers inside the driving program, unless they are already known. `said` maps further servers of the
    /// program by name to their options: a limit for calls, and policies of single tools.
    fn admit_driver_servers(&self, names: &[String], said: &Map<String, Value>);
    /// Returns the key of the connected server that has the tool of this full name.
    fn server_for_tool(&self, tool: &str) -> Option<String>;
    /// Delivers a JSON-RPC message that a server inside the driving program sends unsolicited.
    fn deliver_message(&self, server: &str, message: &RawValue) -> Result<(), String>;
}
