//! The calls of a resumed conversation, for tools that rebuild what they knew from what they did.
//!
//! Nothing is read or parsed until a tool asks, and then only what it asks for: a resumed session that never looks back
//! pays nothing. What comes back was written by an earlier run, maybe of another program, and is checked like any input.

use std::sync::Arc;

use gimlet_proto::{Message, ToolUseParts};
use gimlet_store::ToolOutputs;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

/// What the conversation did before this run.
#[derive(Default)]
pub struct PastCalls {
    history: Vec<Arc<Message>>,
    outputs: ToolOutputs,
}

/// Members that say that the model did not get the output as it stands.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WithheldOutput {
    error_class: Option<serde::de::IgnoredAny>,
    persisted_output_path: Option<serde::de::IgnoredAny>,
}

impl PastCalls {
    pub fn new(history: Vec<Arc<Message>>, outputs: ToolOutputs) -> Self {
        // Without outputs there is nothing to tell, and nothing to hold on to.
        let history = if outputs.is_empty() { Vec::new() } else { history };
        Self { history, outputs }
    }

    /// Every call, the latest first.
    pub fn latest_first(&self) -> impl Iterator<Item = ToolUseParts<'_>> {
        self.history.iter().rev().flat_map(|message| {
            let calls: Vec<_> = message.tool_uses().collect();
            calls.into_iter().rev()
        })
    }

    /// What a call that succeeded gave back, as far as the model got all of it and it has the form of a `T`.
    pub fn output<T: DeserializeOwned>(&self, call: &str) -> Option<T> {
        let output: Box<RawValue> = self.outputs.read(call).ok().flatten()?;
        let withheld: WithheldOutput = serde_json::from_str(output.get()).ok()?;
        if withheld.error_class.is_some() || withheld.persisted_output_path.is_some() {
            return None;
        }
        serde_json::from_str(output.get()).ok()
    }
}
