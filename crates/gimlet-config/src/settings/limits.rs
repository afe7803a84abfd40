//! What a session may spend, and what models cost.

use std::num::NonZeroU64;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Ceilings of a session and all its agents.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LimitSettings {
    /// Dollars; above 0.
    pub max_budget_usd: Option<f64>,
    /// Tokens of all requests and replies, cached ones included.
    pub max_total_tokens: Option<NonZeroU64>,
    /// Model requests for one prompt; 0 for no limit.
    pub max_turns: Option<u32>,
    /// Working time: seconds, or a text such as `"90s"`, `"30m"` or `"2h"`.
    pub max_time: Option<WorkTime>,
}

/// A span of working time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum WorkTime {
    Seconds(NonZeroU64),
    Text(String),
}

impl WorkTime {
    /// Parses a number of seconds, or a number with the unit `s`, `m` or `h`.
    pub fn parse(text: &str) -> Result<Duration, String> {
        let text = text.trim();
        let (digits, unit) = match text.char_indices().last() {
            Some((at, 's')) => (&text[..at], 1),
            Some((at, 'm')) => (&text[..at], 60),
            Some((at, 'h')) => (&text[..at], 3_600),
            _ => (text, 1),
        };
        let seconds = digits.parse::<u64>().ok().and_then(|count| count.checked_mul(unit));
        match seconds.filter(|seconds| (1..=u64::from(u32::MAX)).contains(seconds)) {
            Some(seconds) => Ok(Duration::from_secs(seconds)),
            None => Err(format!("'{text}' is no time: give a number of seconds, or a text such as 90s, 30m or 2h")),
        }
    }

    /// Returns the span, or why it is none.
    pub fn duration(&self) -> Result<Duration, String> {
        match self {
            WorkTime::Seconds(seconds) => Self::parse(&seconds.to_string()),
            WorkTime::Text(text) => Self::parse(text),
        }
    }
}

/// Prices of a model in US dollars per million tokens. What is left out follows from the price of the input.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelPriceSettings {
    pub input: f64,
    pub output: f64,
    /// A tenth of `input` unless it is given.
    pub cache_read: Option<f64>,
    /// For five minutes; 1.25 times `input` unless it is given.
    pub cache_write: Option<f64>,
    /// For an hour; twice `input` unless it is given.
    pub cache_write_long: Option<f64>,
}

impl ModelPriceSettings {
    /// Returns every price that is given.
    pub(crate) fn all(&self) -> impl Iterator<Item = f64> {
        let further = [self.cache_read, self.cache_write, self.cache_write_long];
        [self.input, self.output].into_iter().chain(further.into_iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_number_with_a_unit() {
        for (text, seconds) in [("90", 90), (" 90s ", 90), ("30m", 1_800), ("2h", 7_200)] {
            assert_eq!(WorkTime::parse(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for bad in ["", "0", "0m", "-1", "1.5h", "1d", "m", "99999999999999999999h", "4294967296"] {
            assert!(WorkTime::parse(bad).unwrap_err().contains("30m"), "{bad}");
        }
    }
}
