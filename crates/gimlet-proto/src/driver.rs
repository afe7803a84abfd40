//! The program that drives a session, if there is one: the calls it can receive beyond answering questions, and what
//! it provides. Core and the MCP crate call it; the front end for its protocol implements it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;

use crate::{BoxFuture, ToolUseId};

/// Calls into the driving program. Dropping a future withdraws the call.
pub trait Driver: Send + Sync {
    /// Runs one of its hooks and returns the hook's output, an object.
    fn run_hook(&self, call: HookCall) -> BoxFuture<'static, Result<Box<RawValue>, DriverError>>;

    /// Passes a JSON-RPC message to an MCP server inside it and returns the server's answer (for a notification,
    /// anything).
    fn send_mcp_message(
        &self,
        server: &str,
        message: Box<RawValue>,
    ) -> BoxFuture<'static, Result<Box<RawValue>, DriverError>>;
}

/// One call of a hook.
#[derive(Clone, Debug)]
pub struct HookCall {
    pub callback: Arc<str>,
    pub input: Arc<RawValue>,
    /// For hooks about a tool call.
    pub tool_use: Option<ToolUseId>,
}

/// Reason why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriverError {
    /// The program is gone, or will not answer any more.
    Closed,
    /// The driver reported the failure itself.
    Failed(String),
}

impl std::fmt::Display for DriverError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DriverError::Closed => f.write_str("Stream closed"),
            DriverError::Failed(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for DriverError {}

/// Hooks that the program wants called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverHook {
    /// The event's public name. A hook for an unknown event never fires.
    pub event: String,
    /// `None` for every subject.
    pub matcher: Option<String>,
    pub callbacks: Vec<Arc<str>>,
    pub timeout: Option<Duration>,
    /// True if a failing hook blocks the guarded action. If unset, a failure is reported and work goes on, but a hook
    /// that times out blocks the call or prompt that waits for it.
    pub blocks_on_failure: Option<bool>,
}
