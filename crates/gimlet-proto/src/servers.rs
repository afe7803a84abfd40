//! Tool servers of a session, as people and programs see them.

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::BoxFuture;

/// How a server stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerStatus {
    Connected,
    Failed,
    Pending,
    Disabled,
}

impl ServerStatus {
    /// The public word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            ServerStatus::Connected => "connected",
            ServerStatus::Failed => "failed",
            ServerStatus::Pending => "pending",
            ServerStatus::Disabled => "disabled",
        }
    }
}

/// One server.
#[derive(Clone, Debug)]
pub struct ServerView {
    pub name: String,
    pub status: ServerStatus,
    /// Where it comes from: `sdk`, `dynamic`, …
    pub source: &'static str,
    /// What it calls itself, and its version.
    pub info: Option<(String, String)>,
    /// Why it failed.
    pub error: Option<String>,
    pub config: Box<RawValue>,
    pub tools: Vec<ServerTool>,
}

/// Whose tool one is.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ServerIdentity {
    /// The server's own key, as it was configured.
    pub name: String,
    /// Where the server comes from: `sdk`, `dynamic`, …
    pub source: &'static str,
}

/// The name of a server or of its tool in the characters that providers accept: everything but letters, digits, `_` and
/// `-` becomes `_`.
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

/// What a change of the set of servers came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerSetChange {
    pub added: Vec<String>,
    pub removed: Vec<String>,
    /// Server and reason.
    pub errors: Vec<(String, String)>,
}

/// What the driving program wants of a server by itself.
#[derive(Clone, Debug, PartialEq)]
pub enum ServerRequest {
    /// A call of the tool of this full name.
    Call { tool: String, input: Map<String, Value> },
    /// A call of the tool that was named at the start to answer questions in a person's place.
    Decide { tool: String, input: Map<String, Value> },
    /// A resource.
    Read { server: String, uri: String },
}

/// Looking at and changing the servers of a running session. Changes hold from the next turn on. Nothing is called
/// here: that takes the gate's leave ([`SessionQuery::OfServer`](crate::Inquiry::OfServer)).
pub trait ServerRegistry: Send + Sync {
    fn list(&self) -> Vec<ServerView>;
    fn reconnect<'a>(&'a self, server: &'a str) -> BoxFuture<'a, Result<(), String>>;
    fn set_enabled<'a>(&'a self, server: &'a str, enabled: bool) -> BoxFuture<'a, Result<(), String>>;
    /// Replaces what earlier calls set and all servers inside the driving program; `servers` is an object of configurations.
    fn replace<'a>(&'a self, servers: &'a RawValue) -> BoxFuture<'a, Result<ServerSetChange, String>>;
    /// Takes in servers inside the driving program, as far as they are not known yet. `said` is what it says about
    /// servers of its own besides, by name: a limit for calls, and policies of single tools.
    fn admit_driver_servers(&self, names: &[String], said: &Map<String, Value>);
    /// The own key of the connected server that has the tool of this full name.
    fn server_for_tool(&self, tool: &str) -> Option<String>;
    /// Takes a JSON-RPC message that a server inside the driving program sends by itself.
    fn deliver_message(&self, server: &str, message: &RawValue) -> Result<(), String>;
}
