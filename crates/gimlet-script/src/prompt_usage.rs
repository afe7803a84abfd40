//! Cost of a prompt in simulated tokens.

/// The prompt's tokens by where they came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PromptUsage {
    /// Neither read from nor written to the cache.
    pub input_tokens: u64,
    pub cache_read_tokens: u64,
    pub cache_write_5m_tokens: u64,
    pub cache_write_1h_tokens: u64,
}

impl PromptUsage {
    pub fn cache_write_tokens(&self) -> u64 {
        self.cache_write_5m_tokens + self.cache_write_1h_tokens
    }

    /// Returns the tokens of the whole prompt.
    pub fn total(&self) -> u64 {
        self.input_tokens + self.cache_read_tokens + self.cache_write_tokens()
    }

    /// Returns the share of the prompt that came from the cache, 0 to 1.
    pub fn hit_rate(&self) -> f64 {
        if self.total() == 0 { 0.0 } else { self.cache_read_tokens as f64 / self.total() as f64 }
    }
}
