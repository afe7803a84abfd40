//! Sources of external tools.

use std::path::PathBuf;

use gimlet_proto::{BoxFuture, Notice, ServerRequest, ServerView};
use serde_json::Value;

use super::{PermissionVerdict, ToolRef};
use crate::gate::{HostPermit, UserAsker};

/// Source of tools that come and go during the session. The session queries it before every turn, so that the offered
/// tools change between turns only.
pub trait ToolSource: Send + Sync {
    /// Returns the current tools. Waits for required ones, up to a timeout.
    fn tools(&self) -> BoxFuture<'_, Vec<ToolRef>>;

    /// Returns the tools that are absent now, with the reason.
    fn absent_tools(&self) -> Vec<AbsentTools> {
        Vec::new()
    }

    /// Takes the news not reported yet.
    fn take_news(&self) -> ToolSourceNews {
        ToolSourceNews::default()
    }

    /// Returns the servers' instructions for the model, by server name. They come from the servers and are sanitized.
    fn instructions(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Takes the texts that tell the model, before the next prompt, what has changed behind the tools. They are sanitized.
    fn take_reminders(&self) -> Vec<String> {
        Vec::new()
    }

    /// Sets the folders that the session works in.
    fn set_directories(&self, _directories: &[PathBuf]) {}

    /// Sets the way for servers to ask the session's user. Without it, their questions count as declined.
    fn set_user_asker(&self, _asker: UserAsker) {}

    /// Returns the servers behind the tools.
    fn servers(&self) -> Vec<ServerView>;

    /// Returns the facts that the gate needs to decide on a request of the client program. Rules apply before it
    /// matters if a server could handle the request.
    fn look_up_request<'a>(&'a self, wish: &'a ServerRequest) -> BoxFuture<'a, ServerRequestFacts>;

    /// Executes a request that the gate permitted. Returns the server's own result, an object.
    fn execute_request(&self, leave: HostPermit) -> BoxFuture<'_, Result<Value, String>>;
}

/// News about external tools.
#[derive(Clone, Debug, Default)]
pub struct ToolSourceNews {
    /// Notices for users and programs.
    pub notices: Vec<Notice>,
    /// All names of tools whose definition changed: a session approval of the old tool does not cover the new one.
    pub changed: Vec<String>,
}

/// Tools that the session would have if their server were available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbsentTools {
    /// Prefix of their names.
    pub prefix: String,
    /// Explanation of their absence.
    pub why: String,
}

/// Facts that a source knows about a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerRequestFacts {
    /// Other names of the tool in rules, as a long full name was shortened.
    pub also_named: Vec<String>,
    /// Verdict of the server's configuration.
    pub verdict: PermissionVerdict,
}
