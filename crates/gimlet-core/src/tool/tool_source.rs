//! Where guests come from.

use gimlet_proto::{BoxFuture, Notice, ServerRequest, ServerView};
use serde_json::Value;

use super::{PermissionVerdict, ToolRef};
use crate::gate::HostPermit;

/// A source of tools that come and go while the session lives. The session looks before every turn, so that what the
/// model is offered changes between turns only.
pub trait ToolSource: Send + Sync {
    /// What is there now. Waits for what has to be there, within bounds.
    fn tools(&self) -> BoxFuture<'_, Vec<ToolRef>>;

    /// Whose tools are not there now, and why.
    fn absent_tools(&self) -> Vec<AbsentTools> {
        Vec::new()
    }

    /// What is to be known about that and was not told yet.
    fn take_news(&self) -> ToolSourceNews {
        ToolSourceNews::default()
    }

    /// What servers want the model to know about using them, by name. It is theirs, and clean.
    fn instructions(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// The servers behind the tools.
    fn servers(&self) -> Vec<ServerView>;

    /// What the gate has to know before it decides on a wish of the driving program. Rules come before the question
    /// whether anybody could fulfil it.
    fn look_up_request<'a>(&'a self, wish: &'a ServerRequest) -> BoxFuture<'a, ServerRequestFacts>;

    /// Does what the gate gave leave for; gives the server's own result, an object.
    fn execute_request(&self, leave: HostPermit) -> BoxFuture<'_, Result<Value, String>>;
}

/// What happened among guests.
#[derive(Clone, Debug, Default)]
pub struct ToolSourceNews {
    /// For people and programs.
    pub notices: Vec<Notice>,
    /// Every name of tools that are not what they were: who allowed one of them for the session allowed something else.
    pub changed: Vec<String>,
}

/// Tools that a session would have if their server were there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbsentTools {
    /// How their names begin.
    pub prefix: String,
    /// What to say about them.
    pub why: String,
}

/// What a source knows about a wish.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerRequestFacts {
    /// What else rules may call the tool, whose full name was shortened if it was long.
    pub also_named: Vec<String>,
    /// What its server's configuration says.
    pub verdict: PermissionVerdict,
}
