//! One answered request, as it is counted.

use std::time::Duration;

use gimlet_proto::{CacheBreak, ModelFacts, TokenUsage};
use gimlet_store::{CacheMiss, CostLine, CostRates, RequestPurpose};

/// An answered request with everything that its cost depends on.
pub(crate) struct BilledRequest<'a> {
    pub(crate) facts: &'a ModelFacts,
    pub(crate) usage: TokenUsage,
    /// Tokens of the prompt: those of one request, if the provider made several for the answer.
    pub(crate) prompt_tokens: u64,
    pub(crate) took: Duration,
    pub(crate) purpose: RequestPurpose,
    pub(crate) request_id: Option<&'a str>,
    /// Set if the provider's cache missed the conversation.
    pub(crate) cache_break: Option<&'a CacheBreak>,
}

impl<'a> BilledRequest<'a> {
    pub(crate) fn new(facts: &'a ModelFacts, usage: TokenUsage, purpose: RequestPurpose) -> Self {
        let prompt_tokens = usage.prompt_tokens();
        Self { facts, usage, prompt_tokens, took: Duration::ZERO, purpose, request_id: None, cache_break: None }
    }

    /// Sets the time that the answer took.
    pub(crate) fn with_time(self, took: Duration) -> Self {
        Self { took, ..self }
    }

    /// Returns the cost; `None` if the model's price is not known.
    pub(super) fn cost_usd(&self) -> Option<f64> {
        self.facts.price.map(|price| price.cost_usd_with_prompt(&self.usage, self.prompt_tokens))
    }

    /// Returns the line for the ledger.
    pub(super) fn to_cost_line(&self, agent: Option<&str>) -> CostLine {
        let usage = &self.usage;
        let long = usage.cache_creation_1h.min(usage.cache_creation_input_tokens);
        CostLine {
            at: gimlet_store::current_timestamp(),
            agent: agent.map(str::to_owned),
            purpose: self.purpose,
            model: self.facts.id.clone(),
            request: self.request_id.map(str::to_owned),
            input: usage.input_tokens,
            cache_read: usage.cache_read_input_tokens,
            cache_write_5m: usage.cache_creation_input_tokens - long,
            cache_write_1h: long,
            output: usage.output_tokens,
            rates: self.facts.price.map(|price| {
                let [input, output, cache_write_5m, cache_write_1h, cache_read] = price.rates(self.prompt_tokens);
                CostRates { input, output, cache_write_5m, cache_write_1h, cache_read }
            }),
            cost_usd: self.cost_usd(),
            duration_ms: u64::try_from(self.took.as_millis()).unwrap_or(u64::MAX),
            miss: self.cache_break.map(|broken| CacheMiss { changed: broken.changed.clone(), idle_ms: broken.idle_ms }),
        }
    }
}
