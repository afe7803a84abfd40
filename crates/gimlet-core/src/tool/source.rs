//! Where guests come from.

use gimlet_proto::{BoxFuture, ServerView};

use super::ToolRef;

/// A source of tools that come and go while the session lives. The session looks before every turn, so that what the
/// model is offered changes between turns only.
pub trait ToolSource: Send + Sync {
    /// What is there now. Waits for what has to be there, within bounds.
    fn tools(&self) -> BoxFuture<'_, Vec<ToolRef>>;

    /// The servers behind the tools.
    fn servers(&self) -> Vec<ServerView>;
}
