//! Ceilings of a session.

use std::time::Duration;

use gimlet_proto::{StopCause, TurnEnd};

/// Ceilings of a session with all its agents and side requests, over one run of gimlet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpendingLimits {
    pub max_budget_usd: Option<f64>,
    /// Tokens of all requests, those read from a cache included, and of their replies.
    pub max_total_tokens: Option<u64>,
    /// Time that turns may take together; time between them does not count.
    pub max_time: Option<Duration>,
}

/// Ceiling that the next request would pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ReachedLimit {
    Budget(f64),
    Tokens(u64),
    Time(Duration),
}

impl ReachedLimit {
    /// Returns what happened, as a part of a sentence.
    pub(crate) fn describe(self) -> String {
        match self {
            ReachedLimit::Budget(max) => format!("the session reached its budget of ${max}"),
            ReachedLimit::Tokens(max) => format!("the session reached its limit of {max} tokens"),
            ReachedLimit::Time(max) => format!("the session reached its time limit of {}", describe_time(max)),
        }
    }

    /// Returns the end of a turn that stops here.
    pub(crate) fn to_turn_end(self) -> TurnEnd {
        let because = match self {
            ReachedLimit::Budget(max) => return TurnEnd::Budget(max),
            ReachedLimit::Tokens(_) => StopCause::TokenLimit,
            ReachedLimit::Time(_) => StopCause::TimeLimit,
        };
        TurnEnd::Stopped { reason: format!("{}; it can be resumed", self.describe()), because }
    }
}

/// Returns a time in the largest unit that leaves no rest, such as `90 s` or `2 h`.
pub(super) fn describe_time(time: Duration) -> String {
    match time.as_secs() {
        0 => format!("{} ms", time.as_millis()),
        seconds if seconds % 3_600 == 0 => format!("{} h", seconds / 3_600),
        seconds if seconds % 60 == 0 => format!("{} min", seconds / 60),
        seconds => format!("{seconds} s"),
    }
}
