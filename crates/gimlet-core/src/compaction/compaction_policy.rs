//! When a conversation is compacted by itself.

use gimlet_proto::ModelFacts;

/// Share of the window in percent at which the conversation is compacted.
const DUE_PERCENT: u64 = 95;
/// Number of tokens that the summary may take.
const SUMMARY_ROOM: u64 = 13_000;
/// Smallest window that a server's report can correct a model's to.
pub(crate) const SMALLEST_WINDOW: u64 = 1_000;

/// The user's choices on compaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionPolicy {
    /// False if nothing is ever compacted, not even on request.
    pub enabled: bool,
    /// True if a conversation is compacted before it fills the window.
    pub automatic: bool,
    /// Window in place of the model's, if it is smaller.
    pub window: Option<u64>,
    /// Share of the window in percent, if it is smaller than the default.
    pub percent: Option<u64>,
}

impl Default for CompactionPolicy {
    fn default() -> Self {
        Self { enabled: true, automatic: true, window: None, percent: None }
    }
}

impl CompactionPolicy {
    /// Returns true if a full window is compacted without a request.
    pub(crate) fn is_automatic(&self) -> bool {
        self.enabled && self.automatic
    }

    /// Returns the window in force.
    pub(crate) fn window(&self, facts: &ModelFacts) -> u64 {
        self.window.map_or(facts.context_window, |window| window.min(facts.context_window))
    }

    /// Returns the number of tokens at which a window is full: there must still be room for the summary.
    fn limit_of(&self, window: u64) -> u64 {
        let percent = self.percent.unwrap_or(DUE_PERCENT).clamp(1, DUE_PERCENT);
        (window / 100 * percent + window % 100 * percent / 100).min(window - summary_room(window))
    }

    /// Returns the number of tokens at which the window in force is full.
    pub(crate) fn limit(&self, facts: &ModelFacts) -> u64 {
        self.limit_of(self.window(facts))
    }

    /// Returns true if the conversation has to be compacted before the next request. A window that the user chose is
    /// compared with what the last reply reported, the model's own with the estimate of all that is there.
    pub(crate) fn is_due(&self, facts: &ModelFacts, estimated: u64, reported: u64) -> bool {
        let chosen = self.window.filter(|window| *window < facts.context_window);
        estimated >= self.limit_of(facts.context_window)
            || chosen.is_some_and(|window| reported >= self.limit_of(window))
    }
}

/// Returns the number of tokens that a summary may take in this window.
pub(crate) fn summary_room(window: u64) -> u64 {
    SUMMARY_ROOM.min(window / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(context_window: u64) -> ModelFacts {
        ModelFacts {
            id: "m".into(),
            context_window,
            max_output_tokens: 1,
            price: None,
            edits_unread: false,
            image_side: 1568,
            bytes_per_token: 4.0,
            min_cache_tokens: 1_024,
            known: true,
        }
    }

    #[test]
    fn a_window_is_full_while_there_is_room_for_the_summary() {
        let usual = CompactionPolicy::default();
        for (window, limit) in [(1_000_000, 950_000), (200_000, 187_000), (20_000, 15_000), (2_000, 1_500), (3, 2)] {
            assert_eq!(usual.limit(&facts(window)), limit, "{window}");
            assert!(usual.is_due(&facts(window), limit, 0) && !usual.is_due(&facts(window), limit - 1, u64::MAX));
        }
        let lower = CompactionPolicy { percent: Some(50), ..CompactionPolicy::default() };
        assert_eq!(lower.limit(&facts(200_000)), 100_000);
        let higher = CompactionPolicy { percent: Some(100), ..CompactionPolicy::default() };
        assert_eq!(higher.limit(&facts(200_000)), 187_000, "it can only be lowered");
    }

    #[test]
    fn a_chosen_window_is_compared_with_what_was_reported() {
        let chosen = CompactionPolicy { window: Some(100_000), ..CompactionPolicy::default() };
        assert_eq!((chosen.window(&facts(200_000)), chosen.window(&facts(50_000))), (100_000, 50_000));
        assert!(chosen.is_due(&facts(200_000), 0, 87_000) && !chosen.is_due(&facts(200_000), 150_000, 86_999));
        assert!(chosen.is_due(&facts(200_000), 187_000, 0), "the model's own window still counts");
        assert!(!chosen.is_due(&facts(50_000), 0, 90_000), "a larger window than the model's is none");
    }
}
