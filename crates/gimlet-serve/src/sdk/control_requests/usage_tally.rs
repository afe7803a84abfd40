//! What a session has used so far, counted from what it says.

use std::time::Instant;

use gimlet_proto::{ModelUsage, StoredToolResult, TurnReport};
use serde_json::{Value, json};

use crate::wire;

/// Sums over the turns of one conversation.
pub(in crate::sdk) struct SessionUsageTally {
    began: Instant,
    api_ms: u64,
    lines_added: u64,
    lines_removed: u64,
}

impl SessionUsageTally {
    pub(in crate::sdk) fn new() -> Self {
        Self { began: Instant::now(), api_ms: 0, lines_added: 0, lines_removed: 0 }
    }

    pub(in crate::sdk) fn add_turn(&mut self, report: &TurnReport) {
        self.api_ms += report.api_ms;
    }

    /// Counts the lines that a result says it changed.
    pub(in crate::sdk) fn add_result(&mut self, finished: &StoredToolResult) {
        let (added, removed) = count_changed_lines(finished.output.get());
        self.lines_added += added;
        self.lines_removed += removed;
    }

    /// The answer to `get_usage`. What only subscriptions have is absent by its own word.
    pub(in crate::sdk) fn render(&self, by_model: &[ModelUsage]) -> Value {
        json!({
            "session": {
                "total_cost_usd": wire::total_cost(by_model),
                "total_api_duration_ms": self.api_ms,
                "total_duration_ms": u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX),
                "total_lines_added": self.lines_added,
                "total_lines_removed": self.lines_removed,
                "model_usage": wire::render_model_usage(by_model),
            },
            "subscription_type": null,
            "rate_limits_available": false,
            "rate_limits": null,
            "behaviors": null,
        })
    }
}

/// Lines that came and went, by the patch in a result's structured form.
fn count_changed_lines(output: &str) -> (u64, u64) {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct PatchOutput {
        structured_patch: Vec<PatchHunk>,
        r#type: Option<String>,
        content: Option<String>,
    }
    #[derive(serde::Deserialize)]
    struct PatchHunk {
        lines: Vec<String>,
    }
    // Few results change files; the others are not read.
    if !output.contains("\"structuredPatch\"") {
        return (0, 0);
    }
    let Ok(changed) = serde_json::from_str::<PatchOutput>(output) else { return (0, 0) };
    if changed.r#type.as_deref() == Some("create") {
        return (changed.content.map_or(0, |content| content.lines().count() as u64), 0);
    }
    let count = |sign: char| {
        let lines = changed.structured_patch.iter().flat_map(|hunk| &hunk.lines);
        lines.filter(|line| line.starts_with(sign)).count() as u64
    };
    (count('+'), count('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_from_patches_and_new_files_only() {
        let edit = r#"{"filePath":"/a","structuredPatch":[{"lines":[" x","-a","+b","+c"]}]}"#;
        let new = r#"{"type":"create","content":"a\nb\n","structuredPatch":[]}"#;
        let odd = r#"{"structuredPatch":7}"#;
        let cases = [(edit, (2, 1)), (new, (2, 0)), (odd, (0, 0)), (r#"{"stdout":"+x"}"#, (0, 0))];
        for (output, expected) in cases {
            assert_eq!(count_changed_lines(output), expected, "{output}");
        }
    }
}
