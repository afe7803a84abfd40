//! Token counts and what they cost.

use serde::{Deserialize, Serialize};

/// Tokens of one request, or a sum of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenUsage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cache_creation_input_tokens: u64,
    pub cache_read_input_tokens: u64,
    /// Of the cache writes, those with a life of five minutes and of one hour.
    pub cache_creation_5m: u64,
    pub cache_creation_1h: u64,
    pub thinking_tokens: u64,
    pub web_search_requests: u64,
    pub web_fetch_requests: u64,
}

impl TokenUsage {
    /// Returns the total of prompt tokens: new, written to the cache, read from it.
    pub fn prompt_tokens(&self) -> u64 {
        self.input_tokens + self.cache_creation_input_tokens + self.cache_read_input_tokens
    }

    pub fn add(&mut self, other: &TokenUsage) {
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
        self.cache_creation_input_tokens += other.cache_creation_input_tokens;
        self.cache_read_input_tokens += other.cache_read_input_tokens;
        self.cache_creation_5m += other.cache_creation_5m;
        self.cache_creation_1h += other.cache_creation_1h;
        self.thinking_tokens += other.thinking_tokens;
        self.web_search_requests += other.web_search_requests;
        self.web_fetch_requests += other.web_fetch_requests;
    }
}

/// Usage of one model, over a process run or a whole session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelUsage {
    pub model: String,
    pub usage: TokenUsage,
    /// `None` once any response came from a model whose price is not known.
    pub cost_usd: Option<f64>,
    pub context_window: u64,
    pub max_output_tokens: u64,
}

impl ModelUsage {
    /// Merges two lists, adding up the entries of each model. An unknown price makes the sum unknown.
    pub fn sum_by_model(first: &[ModelUsage], second: &[ModelUsage]) -> Vec<ModelUsage> {
        let mut all = first.to_vec();
        for entry in second {
            match all.iter_mut().find(|known| known.model == entry.model) {
                Some(known) => {
                    known.usage.add(&entry.usage);
                    known.cost_usd = known.cost_usd.zip(entry.cost_usd).map(|(one, other)| one + other);
                }
                None => all.push(entry.clone()),
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_added_up_by_model() {
        let entry = |model: &str, output_tokens, cost_usd| ModelUsage {
            model: model.into(),
            usage: TokenUsage { output_tokens, ..TokenUsage::default() },
            cost_usd,
            ..ModelUsage::default()
        };
        let sum =
            ModelUsage::sum_by_model(&[entry("a", 1, Some(1.0)), entry("b", 2, None)], &[entry("a", 3, Some(0.5))]);
        assert_eq!(sum, [entry("a", 4, Some(1.5)), entry("b", 2, None)]);
    }
}
