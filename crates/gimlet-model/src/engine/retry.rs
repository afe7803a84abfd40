//! Decisions about retries and their delays. Pure bookkeeping; the caller sleeps.

use std::time::{Duration, SystemTime};

use gimlet_proto::{ModelError, ModelErrorKind};

use super::fallback;
use crate::downgrade::Downgrade;
use crate::failure::{RequestFailure, RetryAdvice};
use crate::provider_config::RetryLimits;

/// Delay before the first retry, when neither the server nor the user sets one.
pub(crate) const FIRST_DELAY: Duration = Duration::from_millis(500);
const LONGEST_DELAY: Duration = Duration::from_secs(32);
/// Maximum delay of our own while a limit or an overload is waited out.
const LONGEST_UNATTENDED: Duration = Duration::from_secs(300);
/// Number of consecutive server failures after which a fallback model is tried, if there is one.
const MOST_BEFORE_ANOTHER: u32 = 3;

/// Small source of randomness for jitter; not for secrets.
#[derive(Debug)]
pub(super) struct RetryJitter(u64);

impl RetryJitter {
    pub(super) fn seeded() -> Self {
        let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
        Self(nanos ^ (u64::from(std::process::id()) << 32) | 1)
    }

    /// Returns a number in 0.75 ..= 1.
    fn factor(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        0.75 + 0.25 * ((self.0 >> 11) as f64 / (1u64 << 53) as f64)
    }
}

/// Returns the delay before the `n`-th retry (from 0) when the server sets none.
fn backoff(first: Duration, longest: Duration, n: u32, jitter: &mut RetryJitter) -> Duration {
    let doubled = first.saturating_mul(1u32.checked_shl(n.min(16)).unwrap_or(u32::MAX));
    doubled.min(longest).mul_f64(jitter.factor())
}

/// Parses the delay in a response's headers. Zero, negative and invalid values count as absent.
pub(super) fn parse_retry_after(after_ms: Option<&str>, after: Option<&str>, now: SystemTime) -> Option<Duration> {
    let positive = |seconds: f64| Duration::try_from_secs_f64(seconds).ok().filter(|wait| !wait.is_zero());
    let by_ms = after_ms.and_then(|text| positive(text.trim().parse::<f64>().ok()? / 1000.0));
    by_ms.or_else(|| {
        let text = after?.trim();
        match text.parse::<f64>() {
            Ok(seconds) => positive(seconds),
            Err(_) => httpdate::parse_http_date(text).ok()?.duration_since(now).ok().filter(|wait| !wait.is_zero()),
        }
    })
}

/// Decision after a failed attempt.
#[derive(Debug, PartialEq)]
pub(super) enum RetryDecision {
    Retry { attempt: u32, max: u32, delay: Duration, error: ModelError },
    Downgrade(Downgrade),
    GiveUp(ModelError),
}

/// Retries of one request.
#[derive(Debug)]
pub(super) struct RetryTracker {
    limits: RetryLimits,
    /// True if another model would be tried after this one.
    has_fallback: bool,
    used: u32,
    limited: u32,
    renewed: bool,
    tried_downgrades: Vec<std::mem::Discriminant<Downgrade>>,
    jitter: RetryJitter,
}

impl RetryTracker {
    pub(super) fn new(limits: RetryLimits) -> Self {
        Self {
            limits,
            has_fallback: false,
            used: 0,
            limited: 0,
            renewed: false,
            tried_downgrades: Vec::new(),
            jitter: RetryJitter::seeded(),
        }
    }

    /// Gives up sooner on a failing server, because there is a fallback model.
    pub(super) fn with_fallback(mut self, replaceable: bool) -> Self {
        self.has_fallback = replaceable;
        self
    }

    /// Returns true if a refused key may be replaced by a fresh one: once, and apart from the budget.
    pub(super) fn may_renew(&mut self) -> bool {
        !std::mem::replace(&mut self.renewed, true)
    }

    /// Decides about a failure. Each kind of downgrade is tried once.
    pub(super) fn decide(&mut self, failure: RequestFailure) -> RetryDecision {
        if let Some(cure) = failure.downgrade {
            let kind = std::mem::discriminant(&cure);
            if !self.tried_downgrades.contains(&kind) {
                self.tried_downgrades.push(kind);
                return RetryDecision::Downgrade(cure);
            }
        }
        let allowed = match failure.retry_advice {
            RetryAdvice::Never => false,
            RetryAdvice::Budget => true,
            RetryAdvice::AtMost(times) => {
                self.limited += 1;
                self.limited <= times
            }
        };
        let mut error = *failure.error;
        let for_another =
            self.has_fallback && fallback::may_fall_back(&error) && self.used.saturating_add(1) >= MOST_BEFORE_ANOTHER;
        if for_another {
            return RetryDecision::GiveUp(error);
        }
        let passes =
            self.limits.unattended && matches!(error.kind, ModelErrorKind::RateLimit | ModelErrorKind::Overloaded);
        if !allowed || (self.used >= self.limits.max_retries && !passes) {
            return RetryDecision::GiveUp(error);
        }
        if let Some(wait) = failure.wait.filter(|wait| *wait > self.limits.max_wait && !passes) {
            error.message = format!("{} (the server asks to wait {} s)", error.message, wait.as_secs());
            return RetryDecision::GiveUp(error);
        }
        let longest = if passes { LONGEST_UNATTENDED } else { LONGEST_DELAY };
        let delay =
            failure.wait.unwrap_or_else(|| backoff(self.limits.first_delay, longest, self.used, &mut self.jitter));
        self.used = self.used.saturating_add(1);
        // The reported number is the number of attempts that will really be made.
        let most = match failure.retry_advice {
            RetryAdvice::AtMost(times) => self.limits.max_retries.min(self.used + times.saturating_sub(self.limited)),
            RetryAdvice::Never | RetryAdvice::Budget => self.limits.max_retries,
        };
        RetryDecision::Retry { attempt: self.used, max: most.max(self.used), delay, error }
    }
}

#[cfg(test)]
#[path = "retry_tests.rs"]
mod tests;
