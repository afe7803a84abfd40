//! Calls of the tool with real commands.

mod background;
mod contract;
mod output;
mod session;

use gimlet_core::tool::ToolError;
use serde_json::json;

use super::Bash;
use super::harness::{Bench, Given};

/// Runs a command as a call without further wishes.
async fn run(bench: &mut Bench, command: &str) -> Result<Given, ToolError> {
    bench.call(Bash, json!({ "command": command })).await
}

/// What the model reads of a command that succeeds.
async fn say(bench: &mut Bench, command: &str) -> String {
    run(bench, command).await.unwrap().text
}

/// What the model reads of a command that fails.
async fn fail(bench: &mut Bench, command: &str) -> String {
    run(bench, command).await.unwrap_err().model_text
}
