//! Tokens and cost: of the whole session by model, and of the running turn of one conversation.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gimlet_proto::{ModelFacts, ModelUsage, TokenUsage};

/// Usage of a process run so far. The cost belongs to the session: all its conversations share one total.
#[derive(Debug, Default)]
pub(crate) struct UsageLedger {
    by_model: Arc<Mutex<Vec<ModelUsage>>>,
    /// Set if the user was warned about models with an unknown price.
    told_uncounted: Arc<AtomicBool>,
    turn: TokenUsage,
    /// Usage of the last reply in the turn.
    last: Option<TokenUsage>,
    turn_api: Duration,
    turn_requests: u32,
}

impl UsageLedger {
    /// Creates the ledger of another conversation of this session.
    pub(crate) fn for_subagent(&self) -> Self {
        Self { by_model: self.by_model.clone(), told_uncounted: self.told_uncounted.clone(), ..Self::default() }
    }

    /// Starts counting a new turn.
    pub(crate) fn begin_turn(&mut self) {
        self.turn = TokenUsage::default();
        self.last = None;
        self.turn_api = Duration::ZERO;
        self.turn_requests = 0;
    }

    /// Counts one answered request.
    pub(crate) fn count_request(&mut self, facts: &ModelFacts, usage: &TokenUsage, took: Duration) {
        self.count_with_prompt(facts, usage, usage.prompt_tokens(), took);
    }

    /// Counts one answer that may have taken the provider several requests; their price depends on the prompt of one.
    pub(crate) fn count_with_prompt(
        &mut self,
        facts: &ModelFacts,
        usage: &TokenUsage,
        prompt_tokens: u64,
        took: Duration,
    ) {
        self.turn.add(usage);
        self.last = Some(*usage);
        self.turn_api += took;
        self.turn_requests += 1;
        let mut by_model = self.lock();
        let position = by_model.iter().position(|entry| entry.model == facts.id).unwrap_or_else(|| {
            by_model.push(ModelUsage {
                model: facts.id.clone(),
                cost_usd: Some(0.0),
                context_window: facts.context_window,
                max_output_tokens: facts.max_output_tokens,
                ..ModelUsage::default()
            });
            by_model.len() - 1
        });
        let entry = &mut by_model[position];
        entry.usage.add(usage);
        entry.cost_usd = match (entry.cost_usd, facts.price) {
            (Some(so_far), Some(price)) => Some(so_far + price.cost_usd_with_prompt(usage, prompt_tokens)),
            (None, _) | (_, None) => None,
        };
    }

    /// Counts a discarded attempt: paid for, but not a step of the conversation.
    pub(crate) fn count_attempt(&mut self, facts: &ModelFacts, usage: &TokenUsage, took: Duration) {
        let last = self.last;
        self.count_request(facts, usage, took);
        self.last = last;
        self.turn_requests -= 1;
    }

    /// Counts a request beside the conversation: its cost goes to the session, but not to the turn's own tokens.
    pub(crate) fn count_side_request(&mut self, facts: &ModelFacts, usage: &TokenUsage, took: Duration) {
        let turn = self.turn;
        self.count_attempt(facts, usage, took);
        self.turn = turn;
    }

    /// Counts the time of a request without an answer.
    pub(crate) fn count_time(&mut self, took: Duration) {
        self.turn_api += took;
    }

    pub(crate) fn by_model(&self) -> Vec<ModelUsage> {
        self.lock().clone()
    }

    /// Returns the total cost; `None` if any model's price is unknown.
    pub(crate) fn total_cost_usd(&self) -> Option<f64> {
        // Not `sum`, which returns -0.0 for an empty list.
        self.lock().iter().try_fold(0.0, |total, entry| Some(total + entry.cost_usd?))
    }

    /// Returns the known cost: models without a price count nothing.
    pub(crate) fn known_cost_usd(&self) -> f64 {
        self.lock().iter().filter_map(|entry| entry.cost_usd).fold(0.0, |total, cost| total + cost)
    }

    /// Returns the models with an unknown price, the first time that there are any.
    pub(crate) fn take_unpriced_models(&self) -> Option<String> {
        let names: Vec<String> =
            self.lock().iter().filter(|entry| entry.cost_usd.is_none()).map(|entry| entry.model.clone()).collect();
        let is_news = !names.is_empty() && !self.told_uncounted.swap(true, Ordering::Relaxed);
        is_news.then(|| names.join(", "))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<ModelUsage>> {
        self.by_model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn turn_usage(&self) -> TokenUsage {
        self.turn
    }

    pub(crate) fn last_usage(&self) -> Option<TokenUsage> {
        self.last
    }

    pub(crate) fn turn_api_time(&self) -> Duration {
        self.turn_api
    }

    pub(crate) fn turn_requests(&self) -> u32 {
        self.turn_requests
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gimlet_proto::ModelPrice;

    const PRICE: ModelPrice =
        ModelPrice { input: 1.0, output: 1.0, write_5m: 1.0, write_1h: 1.0, read: 1.0, above: None };

    #[test]
    fn a_model_without_a_price_does_not_hide_what_the_others_cost() {
        let facts = |id: &str, price| ModelFacts {
            id: id.into(),
            context_window: 1,
            max_output_tokens: 1,
            price,
            edits_unread: false,
            image_side: 1568,
            bytes_per_token: 4.0,
            min_cache_tokens: 1_024,
            known: true,
        };
        let usage = TokenUsage { input_tokens: 1_000_000, ..TokenUsage::default() };
        let mut ledger = UsageLedger::default();
        ledger.count_request(&facts("priced", Some(PRICE)), &usage, Duration::ZERO);
        let priced = ledger.known_cost_usd();
        assert!(priced > 0.0 && ledger.take_unpriced_models().is_none());
        let mut other = ledger.for_subagent();
        other.count_request(&facts("free", None), &usage, Duration::ZERO);
        assert_eq!((ledger.known_cost_usd(), ledger.total_cost_usd()), (priced, None));
        assert_eq!(ledger.take_unpriced_models().as_deref(), Some("free"));
        assert!(other.take_unpriced_models().is_none(), "once for all conversations");
    }
}
