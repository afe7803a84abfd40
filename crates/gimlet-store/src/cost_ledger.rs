//! Cost ledger: one line beside the transcript for every request that was answered, with its tokens, its price and, if
//! the provider's cache missed it, what had changed.
//!
//! It is append-only. A line that cannot be written costs a figure later, never a request now.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use gimlet_proto::TokenUsage;
use serde::{Deserialize, Serialize};

use crate::layout::SessionFiles;
use crate::ledger_file::{LedgerFile, read_ledger};

/// Reason for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RequestPurpose {
    /// A step of a conversation.
    Reply,
    /// The summary of a compaction.
    Summary,
    /// A review of a call in auto mode.
    Review,
    /// A hook that asks a model.
    Hook,
    /// A question of the user's beside the conversation.
    Aside,
    /// An attempt of a model that declined; another model answered.
    Declined,
}

/// One answered request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CostLine {
    pub at: String,
    /// Call that launched the subagent whose request it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    pub purpose: RequestPurpose,
    pub model: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// Tokens of the prompt that the cache had nothing to do with.
    pub input: u64,
    pub cache_read: u64,
    pub cache_write_5m: u64,
    pub cache_write_1h: u64,
    pub output: u64,
    /// `None` if the price of the model is not known; so is the cost then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rates: Option<CostRates>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    pub duration_ms: u64,
    /// Set if the cache missed the beginning of a conversation that it once held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub miss: Option<CacheMiss>,
}

/// Prices of a request in USD per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CostRates {
    pub input: f64,
    pub output: f64,
    pub cache_write_5m: f64,
    pub cache_write_1h: f64,
    pub cache_read: f64,
}

/// Difference between a request that the cache missed and the one before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheMiss {
    /// Parts that differed, in the order in which the cache compares them; empty if none did, so that the entry had
    /// expired.
    pub changed: Vec<String>,
    /// Time since the request before it.
    pub idle_ms: u64,
}

impl CacheMiss {
    /// Says in a few words why the cache missed the request.
    pub fn describe(&self) -> String {
        match self.changed.split_first() {
            Some((first, [])) => format!("{first} changed"),
            Some((first, more)) => format!("{first} changed, and {} more", more.len()),
            None => format!("nothing changed; the last request was {} s before", self.idle_ms / 1_000),
        }
    }
}

impl CostLine {
    /// Returns the tokens of the request.
    pub fn usage(&self) -> TokenUsage {
        TokenUsage {
            input_tokens: self.input,
            output_tokens: self.output,
            cache_creation_input_tokens: self.cache_write_5m + self.cache_write_1h,
            cache_read_input_tokens: self.cache_read,
            cache_creation_5m: self.cache_write_5m,
            cache_creation_1h: self.cache_write_1h,
            ..TokenUsage::default()
        }
    }

    /// Returns what the reads from the cache saved, compared with a prompt without a cache; `None` if the price is not
    /// known.
    pub fn saved_usd(&self) -> Option<f64> {
        let rates = self.rates?;
        Some(self.cache_read as f64 * (rates.input - rates.cache_read) / 1e6)
    }
}

/// Sum of requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CostTotals {
    pub requests: u64,
    pub usage: TokenUsage,
    /// Cost of the requests whose price is known.
    pub known_usd: f64,
    /// What reading from the cache saved, as far as prices are known.
    pub saved_usd: f64,
    /// Models of the requests whose price is not known.
    pub unpriced: BTreeSet<String>,
    /// Number of requests that the cache missed.
    pub misses: u64,
}

impl CostTotals {
    pub fn add(&mut self, line: &CostLine) {
        self.requests += 1;
        self.usage.add(&line.usage());
        self.known_usd += line.cost_usd.unwrap_or(0.0);
        self.saved_usd += line.saved_usd().unwrap_or(0.0);
        self.misses += u64::from(line.miss.is_some());
        if line.cost_usd.is_none() {
            self.unpriced.insert(line.model.clone());
        }
    }

    /// Returns the share of all prompts that was read from the cache; `None` without any prompt.
    pub fn hit_rate(&self) -> Option<f64> {
        let prompts = self.usage.prompt_tokens();
        (prompts > 0).then(|| self.usage.cache_read_input_tokens as f64 / prompts as f64)
    }
}

impl<'a> FromIterator<&'a CostLine> for CostTotals {
    fn from_iter<I: IntoIterator<Item = &'a CostLine>>(lines: I) -> Self {
        let mut totals = Self::default();
        lines.into_iter().for_each(|line| totals.add(line));
        totals
    }
}

/// Ledger of one session, open for appending.
pub struct CostLedger(LedgerFile);

impl CostLedger {
    /// Creates the ledger. Nothing is written before the first line.
    pub fn new(files: &SessionFiles) -> Self {
        Self(LedgerFile::new(files.costs()))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Adds a line, with one write.
    pub fn append(&mut self, line: &CostLine) -> io::Result<()> {
        self.0.append(line)
    }
}

/// Reads the requests of a session in order; also returns the number of lines that could not be parsed.
pub fn read_costs(files: &SessionFiles) -> io::Result<(Vec<CostLine>, usize)> {
    read_ledger(&files.costs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{StoreLocations, new_session_id};

    #[test]
    fn a_request_is_read_back_as_it_was_written() {
        let home = tempfile::tempdir().unwrap();
        let files = StoreLocations::new(home.path()).project(home.path()).session_files(&new_session_id());
        assert_eq!(read_costs(&files).unwrap(), (vec![], 0));
        let rates = CostRates { input: 2.0, output: 10.0, cache_write_5m: 2.5, cache_write_1h: 4.0, cache_read: 0.1 };
        let whole = CostLine {
            at: crate::current_timestamp(),
            agent: Some("toolu_1".to_owned()),
            purpose: RequestPurpose::Reply,
            model: "m".to_owned(),
            request: Some("req_1".to_owned()),
            input: 10,
            cache_read: 1_000_000,
            cache_write_5m: 7,
            cache_write_1h: 0,
            output: 5,
            rates: Some(rates),
            cost_usd: Some(0.1),
            duration_ms: 12,
            miss: Some(CacheMiss { changed: vec!["tools (Edit)".to_owned()], idle_ms: 3 }),
        };
        let plain = CostLine { agent: None, request: None, rates: None, cost_usd: None, miss: None, ..whole.clone() };
        let mut ledger = CostLedger::new(&files);
        ledger.append(&whole).unwrap();
        ledger.append(&plain).unwrap();
        assert_eq!(read_costs(&files).unwrap(), (vec![whole.clone(), plain.clone()], 0));
        let totals: CostTotals = [&whole, &plain].into_iter().collect();
        assert_eq!((totals.requests, totals.known_usd, totals.misses), (2, 0.1, 1));
        assert!(totals.unpriced.contains("m") && totals.hit_rate() > Some(0.99));
        assert_eq!((whole.saved_usd(), plain.saved_usd()), (Some(1.9), None));
        assert_eq!((whole.usage().prompt_tokens(), whole.usage().cache_creation_5m), (1_000_017, 7));
    }
}
