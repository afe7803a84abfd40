//! Calls of the tool with real commands.

mod background_commands;
mod command_output;
mod contract;
mod session_changes;

use gimlet_core::tool::ToolError;
use serde_json::json;

use super::Bash;
use super::command_harness::{CommandBench, CommandCallResult};

/// Runs a command without further parameters.
async fn run(bench: &mut CommandBench, command: &str) -> Result<CommandCallResult, ToolError> {
    bench.call(Bash, json!({ "command": command })).await
}

/// Runs a command that succeeds and returns the text for the model.
async fn run_for_text(bench: &mut CommandBench, command: &str) -> String {
    run(bench, command).await.unwrap().text
}

/// Runs a command that fails and returns the text for the model.
async fn run_for_error(bench: &mut CommandBench, command: &str) -> String {
    run(bench, command).await.unwrap_err().model_text
}
