//! A command inside the text of a skill. It runs like one that the model calls, with one difference: nobody is asked,
//! so that what is not allowed does not run.

use std::sync::Arc;

use gimlet_proto::ToolUseId;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::to_raw_value;

use crate::call::{self, CallScope, InputAuthor, ToolCall};
use crate::gate::Clearance;

/// Tool that runs the commands.
const SHELL: &str = "Bash";

/// Streams of a command's output.
#[derive(Default, Deserialize)]
struct PrintedOutput {
    #[serde(default)]
    stdout: String,
    #[serde(default)]
    stderr: String,
}

/// Runs a command and returns what it printed, or the reason why it did not run or failed.
pub(super) async fn run_inline_command(scope: &Arc<CallScope>, command: &str) -> Result<String, String> {
    let id = ToolUseId::new(format!("skill_{}", uuid::Uuid::new_v4().simple()));
    let input = to_raw_value(&json!({ "command": command })).map_err(|error| error.to_string())?;
    let incoming = ToolCall {
        id: id.clone(),
        name: SHELL.to_owned(),
        input: Arc::from(input),
        bad_input: None,
        reply: Arc::default(),
    };
    if scope.tools.find(SHELL).is_none() {
        return Err(format!("this session has no {SHELL} tool to run it"));
    }
    let paths = scope.services.paths();
    let (tool, prepared) =
        call::prepare_call(scope, &incoming, InputAuthor::Answer, &paths).map_err(|error| error.model_text)?;
    let pass = Clearance::Undecided(Box::new(prepared));
    let permit = call::clear_unasked(scope, &incoming, &tool, pass).await?;
    let mut settled = call::run_internal_call(scope, &incoming, &tool, permit).await;
    if settled.error.is_some() {
        return Err(settled.content.to_text());
    }
    let printed: PrintedOutput = serde_json::from_str(settled.output.get()).unwrap_or_default();
    if printed.stdout.is_empty() && printed.stderr.is_empty() {
        return Ok(String::new());
    }
    settled.apply_cap(&id, tool.max_result_chars(), &scope.agent_runtime.result_files);
    Ok(settled.content.to_text().trim_end().to_owned())
}
