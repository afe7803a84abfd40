//! What a request will cost at most, before it is sent.

use gimlet_proto::{CacheTtl, ModelFacts, ModelPrice, TokenUsage};

use crate::context_usage::ContextGauge;

/// Expected tokens of a request and their price.
#[derive(Clone, Debug)]
pub(crate) struct RequestEstimate {
    pub(super) price: Option<ModelPrice>,
    pub(super) prompt: TokenUsage,
    /// Tokens that the reply may take.
    pub(super) output: u64,
}

impl RequestEstimate {
    /// Estimates the next request of a conversation. What its last request wrote to the cache is read from there while
    /// the entry lives; everything else is written.
    pub(crate) fn for_conversation(
        gauge: &ContextGauge,
        facts: &ModelFacts,
        ttl: Option<CacheTtl>,
        output: u64,
    ) -> Self {
        let total = gauge.tokens(facts);
        let prompt = match ttl {
            None => TokenUsage { input_tokens: total, ..TokenUsage::default() },
            Some(ttl) => {
                let cached = gauge.cached_tokens(&facts.id, ttl.duration()).min(total);
                let written = total - cached;
                let long = if ttl == CacheTtl::OneHour { written } else { 0 };
                TokenUsage {
                    cache_read_input_tokens: cached,
                    cache_creation_input_tokens: written,
                    cache_creation_5m: written - long,
                    cache_creation_1h: long,
                    ..TokenUsage::default()
                }
            }
        };
        Self { price: facts.price, prompt, output: output.min(facts.max_output_tokens) }
    }

    /// Estimates a request of its own, with a prompt of this many bytes.
    pub(crate) fn for_side_request(facts: &ModelFacts, bytes: usize, output: u64) -> Self {
        let input_tokens = (bytes as f64 / facts.bytes_per_token) as u64;
        Self { price: facts.price, prompt: TokenUsage { input_tokens, ..TokenUsage::default() }, output }
    }

    /// Returns the cost of the prompt; nothing is known without a price.
    pub(super) fn prompt_usd(&self) -> f64 {
        self.price.map_or(0.0, |price| price.cost_usd(&self.prompt))
    }

    /// Returns the cost of one token of the reply.
    pub(super) fn output_usd(&self) -> f64 {
        self.price.map_or(0.0, |price| price.rates(self.prompt.prompt_tokens())[1] / 1e6)
    }
}
