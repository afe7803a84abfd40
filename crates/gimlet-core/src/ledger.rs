//! Tokens and money: of the whole session by model, and of the running turn of one conversation.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gimlet_proto::{ModelFacts, ModelUsage, Usage};

/// What a process run has used so far. Money is the session's: all its conversations count into one purse.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    by_model: Arc<Mutex<Vec<ModelUsage>>>,
    turn: Usage,
    turn_api: Duration,
    turn_requests: u32,
}

impl Ledger {
    /// That of another conversation of the same session.
    pub(crate) fn sharing(&self) -> Self {
        Self { by_model: self.by_model.clone(), ..Self::default() }
    }

    /// Starts counting a new turn.
    pub(crate) fn begin_turn(&mut self) {
        self.turn = Usage::default();
        self.turn_api = Duration::ZERO;
        self.turn_requests = 0;
    }

    /// Counts one answered request.
    pub(crate) fn count(&mut self, facts: &ModelFacts, usage: &Usage, took: Duration) {
        self.turn.add(usage);
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
            (Some(so_far), Some(price)) => Some(so_far + price.cost_usd(usage)),
            (None, _) | (_, None) => None,
        };
    }

    /// Counts a request that was no step of the conversation itself.
    pub(crate) fn count_aside(&mut self, facts: &ModelFacts, usage: &Usage, took: Duration) {
        self.count(facts, usage, took);
        self.turn_requests -= 1;
    }

    /// Counts time spent on a request that gave nothing.
    pub(crate) fn count_time(&mut self, took: Duration) {
        self.turn_api += took;
    }

    pub(crate) fn by_model(&self) -> Vec<ModelUsage> {
        self.lock().clone()
    }

    /// `None` when any model's price is not known.
    pub(crate) fn total_cost_usd(&self) -> Option<f64> {
        // Not `sum`, which says -0.0 of nothing.
        self.lock().iter().try_fold(0.0, |total, entry| Some(total + entry.cost_usd?))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<ModelUsage>> {
        self.by_model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn turn_usage(&self) -> Usage {
        self.turn
    }

    pub(crate) fn turn_api(&self) -> Duration {
        self.turn_api
    }

    pub(crate) fn turn_requests(&self) -> u32 {
        self.turn_requests
    }
}
