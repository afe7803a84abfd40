//! Calls of a resumed conversation, from which tools can rebuild their state.
//!
//! Nothing is read or parsed until a tool requests it, and then only the requested part, so a resumed session without
//! such requests has no cost. The data was written by an earlier run, possibly of another program, and is validated
//! like any input.

use std::sync::Arc;

use gimlet_proto::{Message, ToolUseParts};
use gimlet_store::ToolOutputs;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

/// Calls of the conversation before this run.
#[derive(Default)]
pub struct PastCalls {
    history: Vec<Arc<Message>>,
    outputs: ToolOutputs,
}

/// Members showing that the model did not get the output unchanged.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WithheldOutput {
    error_class: Option<serde::de::IgnoredAny>,
    persisted_output_path: Option<serde::de::IgnoredAny>,
}

impl PastCalls {
    pub fn new(history: Vec<Arc<Message>>, outputs: ToolOutputs) -> Self {
        // Without outputs the history is of no use and need not be kept.
        let history = if outputs.is_empty() { Vec::new() } else { history };
        Self { history, outputs }
    }

    /// Returns every call, the latest first.
    pub fn latest_first(&self) -> impl Iterator<Item = ToolUseParts<'_>> {
        self.history.iter().rev().flat_map(|message| {
            let calls: Vec<_> = message.tool_uses().collect();
            calls.into_iter().rev()
        })
    }

    /// Returns the state of a tool that the last compaction carried over, if it parses as a `T`. Calls after it are
    /// newer.
    pub fn carried<T: DeserializeOwned>(&self, tool: &str) -> Option<T> {
        serde_json::from_str(self.outputs.carried(tool)?.get()).ok()
    }

    /// Returns the output of a successful call, if the model got all of it and it parses as a `T`.
    pub fn output<T: DeserializeOwned>(&self, call: &str) -> Option<T> {
        let output: Box<RawValue> = self.outputs.read(call).ok().flatten()?;
        let withheld: WithheldOutput = serde_json::from_str(output.get()).ok()?;
        if withheld.error_class.is_some() || withheld.persisted_output_path.is_some() {
            return None;
        }
        serde_json::from_str(output.get()).ok()
    }
}
