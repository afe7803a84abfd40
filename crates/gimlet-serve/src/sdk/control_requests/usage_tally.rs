//! Usage of a session so far, counted from its events.

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

    /// Counts the changed lines that a result reports.
    pub(in crate::sdk) fn add_result(&mut self, finished: &StoredToolResult) {
        let (added, removed) = count_changed_lines(finished.output.get());
        self.lines_added += added;
        self.lines_removed += removed;
    }

    /// Renders the answer to `get_usage`. Members that only subscriptions have are explicitly absent.
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

/// Returns the lines added and removed by the patch in a result's structured form.
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
    // Few results change files; the others are not parsed.
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
