//! Token counts on the wire: cumulative, incomplete, sometimes split into iterations.

use gimlet_proto::TokenUsage;
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Debug, Default, Deserialize)]
struct UsageCounts {
    /// Kind of inner request of an iteration.
    #[serde(default, rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    input_tokens: Option<u64>,
    #[serde(default)]
    output_tokens: Option<u64>,
    #[serde(default)]
    cache_creation_input_tokens: Option<u64>,
    #[serde(default)]
    cache_read_input_tokens: Option<u64>,
    #[serde(default)]
    cache_creation: Option<CacheCreationCounts>,
    #[serde(default)]
    output_tokens_details: Option<OutputTokenCounts>,
    #[serde(default)]
    server_tool_use: Option<ServerToolCounts>,
    #[serde(default)]
    iterations: Option<Vec<UsageCounts>>,
}

#[derive(Debug, Deserialize)]
struct CacheCreationCounts {
    #[serde(default)]
    ephemeral_5m_input_tokens: Option<u64>,
    #[serde(default)]
    ephemeral_1h_input_tokens: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct OutputTokenCounts {
    #[serde(default)]
    thinking_tokens: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct ServerToolCounts {
    #[serde(default)]
    web_search_requests: Option<u64>,
    #[serde(default)]
    web_fetch_requests: Option<u64>,
}

/// Token counts of one reply during streaming.
#[derive(Debug, Default)]
pub(super) struct UsageTally {
    top: TokenUsage,
    /// Billed counts when the server lists every inner request; they cover more than the top-level numbers.
    iterations: Option<TokenUsage>,
    /// The last of those inner requests that carried the conversation itself.
    context: Option<TokenUsage>,
}

impl UsageTally {
    /// Merges one `usage` object. Values are cumulative, so they overwrite; absent or null ones stay unchanged. An
    /// invalid object changes nothing.
    pub(super) fn merge(&mut self, raw: &RawValue) {
        let Ok(counts) = serde_json::from_str::<UsageCounts>(raw.get()) else { return };
        if let Some(entries) = counts.iterations.as_ref().filter(|entries| !entries.is_empty()) {
            let mut sum = TokenUsage::default();
            for entry in entries {
                let mut one = TokenUsage::default();
                overwrite(&mut one, entry);
                sum.add(&one);
                // A compaction request carried the conversation before it was shortened.
                if entry.kind.as_deref() != Some("compaction") {
                    self.context = Some(one);
                }
            }
            self.iterations = Some(sum);
        }
        overwrite(&mut self.top, &counts);
    }

    /// Returns the context usage: the counts of one request, however many there were.
    pub(super) fn context(&self) -> TokenUsage {
        self.context.unwrap_or(self.top)
    }

    /// Returns the usage of the reply for billing.
    pub(super) fn total(&self) -> TokenUsage {
        match self.iterations {
            None => self.top,
            // Tools are counted once for the whole reply, and entries need not split their cache writes.
            Some(sum) => TokenUsage {
                web_search_requests: self.top.web_search_requests,
                web_fetch_requests: self.top.web_fetch_requests,
                thinking_tokens: sum.thinking_tokens.max(self.top.thinking_tokens),
                cache_creation_5m: sum.cache_creation_5m.max(self.top.cache_creation_5m),
                cache_creation_1h: sum.cache_creation_1h.max(self.top.cache_creation_1h),
                ..sum
            },
        }
    }
}

fn overwrite(usage: &mut TokenUsage, counts: &UsageCounts) {
    let set = |field: &mut u64, value: Option<u64>| {
        if let Some(value) = value {
            *field = value;
        }
    };
    set(&mut usage.input_tokens, counts.input_tokens);
    set(&mut usage.output_tokens, counts.output_tokens);
    set(&mut usage.cache_creation_input_tokens, counts.cache_creation_input_tokens);
    set(&mut usage.cache_read_input_tokens, counts.cache_read_input_tokens);
    if let Some(split) = &counts.cache_creation {
        set(&mut usage.cache_creation_5m, split.ephemeral_5m_input_tokens);
        set(&mut usage.cache_creation_1h, split.ephemeral_1h_input_tokens);
    }
    if let Some(details) = &counts.output_tokens_details {
        set(&mut usage.thinking_tokens, details.thinking_tokens);
    }
    if let Some(tools) = &counts.server_tool_use {
        set(&mut usage.web_search_requests, tools.web_search_requests);
        set(&mut usage.web_fetch_requests, tools.web_fetch_requests);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(objects: &[&str]) -> TokenUsage {
        let mut tally = UsageTally::default();
        for object in objects {
            tally.merge(serde_json::from_str(object).unwrap());
        }
        tally.total()
    }

    #[test]
    fn deltas_overwrite_and_holes_keep_the_earlier_value() {
        let usage = tally(&[
            r#"{"input_tokens":11,"output_tokens":1,"cache_creation_input_tokens":7,"cache_read_input_tokens":5,
                "cache_creation":{"ephemeral_5m_input_tokens":3,"ephemeral_1h_input_tokens":4}}"#,
            r#"{"output_tokens":20,"input_tokens":null,"server_tool_use":{"web_search_requests":2}}"#,
            r#"{"output_tokens":24,"output_tokens_details":{"thinking_tokens":9},"cache_creation":null}"#,
            r#"{"output_tokens":"odd"}"#,
        ]);
        assert_eq!(
            usage,
            TokenUsage {
                input_tokens: 11,
                output_tokens: 24,
                cache_creation_input_tokens: 7,
                cache_read_input_tokens: 5,
                cache_creation_5m: 3,
                cache_creation_1h: 4,
                thinking_tokens: 9,
                web_search_requests: 2,
                web_fetch_requests: 0,
            }
        );
    }

    #[test]
    fn iterations_are_billed_as_their_sum() {
        let usage = tally(&[
            r#"{"input_tokens":10,"output_tokens":5,"iterations":[{"type":"compaction","input_tokens":100,"output_tokens":8},
                {"type":"message","input_tokens":10,"output_tokens":5}],"server_tool_use":{"web_fetch_requests":1}}"#,
        ]);
        assert_eq!((usage.input_tokens, usage.output_tokens, usage.web_fetch_requests), (110, 13, 1));
    }

    #[test]
    fn the_context_is_what_the_last_message_had() {
        let mut tally = UsageTally::default();
        let raw = r#"{"input_tokens":7,"output_tokens":5,"iterations":[{"type":"message","input_tokens":90,"output_tokens":1},
            {"type":"message","input_tokens":10,"cache_read_input_tokens":80,"output_tokens":5},
            {"type":"compaction","input_tokens":100,"output_tokens":8}]}"#;
        tally.merge(serde_json::from_str(raw).unwrap());
        assert_eq!((tally.context().prompt_tokens(), tally.context().output_tokens), (90, 5));
        let mut plain = UsageTally::default();
        plain.merge(serde_json::from_str(r#"{"input_tokens":7,"output_tokens":5}"#).unwrap());
        assert_eq!(plain.context(), plain.total());
    }
}
