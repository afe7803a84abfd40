//! Tokens and cost of a session, shared by all its conversations.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gimlet_proto::ModelUsage;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::spending_limits::describe_time;
use super::{BilledRequest, CostLog, ReachedLimit, RequestEstimate, SpendingLimits};
use crate::commands::{format_dollars, grouped};

/// Smallest reply that is worth a request.
const LEAST_OUTPUT: u64 = 1_024;
/// Share of a ceiling in percent at which the user is warned.
const WARNED_AT_PERCENT: f64 = 80.0;
/// Amounts that are equal but for rounding.
const ROUNDING_USD: f64 = 1e-9;

/// What a session has spent, and what its requests in flight may still spend.
#[derive(Default)]
pub(crate) struct SessionSpending {
    limits: SpendingLimits,
    state: Mutex<SpendingState>,
    log: CostLog,
    /// Notified whenever a request ends.
    settled: Notify,
}

#[derive(Default)]
struct SpendingState {
    by_model: Vec<ModelUsage>,
    total_tokens: u64,
    /// Longest reply so far.
    longest_reply: u64,
    reserved_usd: f64,
    reserved_tokens: u64,
    in_flight: u32,
    /// Time of the turns that have ended, and the start of the one that runs.
    worked: Duration,
    working_since: Option<Instant>,
    /// Why the ledger cannot be written, if that was not published yet.
    unwritten: Option<String>,
    warned: WarnedLimits,
    /// True if the user was warned about models with an unknown price.
    told_unpriced: bool,
}

/// Ceilings that the user was warned about.
#[derive(Default)]
struct WarnedLimits {
    budget: bool,
    tokens: bool,
    time: bool,
}

/// Answer to a wish to send a request.
pub(crate) enum ReservationOutcome {
    Granted(SpendingReservation),
    Reached(ReachedLimit),
    /// The wait for other requests was given up.
    Cancelled,
}

/// Amount set aside for a request until it is dropped, after the request was counted.
pub(crate) struct SpendingReservation {
    /// `None` if there is no ceiling.
    _held: Option<HeldAmount>,
    /// Limit on the tokens of the reply, if less than usual is left.
    pub(crate) max_output: Option<u64>,
}

struct HeldAmount {
    spending: Arc<SessionSpending>,
    usd: f64,
    tokens: u64,
}

impl Drop for HeldAmount {
    fn drop(&mut self) {
        let mut state = self.spending.lock();
        state.reserved_usd = if state.in_flight <= 1 { 0.0 } else { state.reserved_usd - self.usd };
        state.reserved_tokens = state.reserved_tokens.saturating_sub(self.tokens);
        state.in_flight = state.in_flight.saturating_sub(1);
        drop(state);
        self.spending.settled.notify_waiters();
    }
}

/// Room that a ceiling leaves for a reply.
struct ReplyRoom {
    /// `None` if the prompt alone is too much.
    tokens: Option<u64>,
    limit: ReachedLimit,
}

impl SpendingState {
    fn known_cost_usd(&self) -> f64 {
        self.by_model.iter().filter_map(|entry| entry.cost_usd).fold(0.0, |total, cost| total + cost)
    }

    fn worked(&self) -> Duration {
        self.worked + self.working_since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

impl SessionSpending {
    pub(crate) fn new(limits: SpendingLimits, log: CostLog) -> Self {
        Self { limits, log, ..Self::default() }
    }

    /// Counts an answered request of an agent, or of the main conversation, and writes it to the ledger.
    pub(crate) fn count(&self, billed: &BilledRequest<'_>, agent: Option<&str>) {
        let unwritten = self.log.write(|| billed.to_cost_line(agent));
        let mut state = self.lock();
        state.unwritten = unwritten.or(state.unwritten.take());
        state.total_tokens += billed.usage.prompt_tokens() + billed.usage.output_tokens;
        state.longest_reply = state.longest_reply.max(billed.usage.output_tokens);
        let facts = billed.facts;
        let position = state.by_model.iter().position(|entry| entry.model == facts.id).unwrap_or_else(|| {
            state.by_model.push(ModelUsage {
                model: facts.id.clone(),
                cost_usd: Some(0.0),
                context_window: facts.context_window,
                max_output_tokens: facts.max_output_tokens,
                ..ModelUsage::default()
            });
            state.by_model.len() - 1
        });
        let entry = &mut state.by_model[position];
        entry.usage.add(&billed.usage);
        entry.cost_usd = entry.cost_usd.zip(billed.cost_usd()).map(|(so_far, cost)| so_far + cost);
    }

    /// Reserves what a request may cost. Where other requests in flight hold too much, it waits for them; a request
    /// that is alone gets a shorter reply, down to the longest so far.
    pub(crate) async fn reserve(
        self: &Arc<Self>,
        estimate: &RequestEstimate,
        cancel: &CancellationToken,
    ) -> ReservationOutcome {
        if self.limits == SpendingLimits::default() {
            return ReservationOutcome::Granted(SpendingReservation { _held: None, max_output: None });
        }
        loop {
            let settled = self.settled.notified();
            tokio::pin!(settled);
            // Registered before the look at the state, so that no end of a request is missed.
            settled.as_mut().enable();
            if let Some(answer) = self.try_reserve(estimate) {
                return answer;
            }
            tokio::select! {
                biased;
                () = cancel.cancelled() => return ReservationOutcome::Cancelled,
                () = settled => {}
            }
        }
    }

    /// Reserves an amount, or refuses it; `None` if that depends on requests that are in flight.
    fn try_reserve(self: &Arc<Self>, estimate: &RequestEstimate) -> Option<ReservationOutcome> {
        let mut state = self.lock();
        if let Some(limit) = self.reached(&state) {
            return Some(ReservationOutcome::Reached(limit));
        }
        let worthwhile = state.longest_reply.max(LEAST_OUTPUT).min(estimate.output);
        let output = match self.room_for_reply(&state, estimate) {
            None => estimate.output,
            Some(ReplyRoom { tokens: Some(room), .. }) if room >= estimate.output => estimate.output,
            // Requests in flight mostly cost less than what they reserve.
            Some(_) if state.in_flight > 0 => return None,
            Some(ReplyRoom { tokens: Some(room), .. }) if room >= worthwhile => room,
            Some(ReplyRoom { limit, .. }) => return Some(ReservationOutcome::Reached(limit)),
        };
        let usd = estimate.prompt_usd() + output as f64 * estimate.output_usd();
        let tokens = estimate.prompt.prompt_tokens() + output;
        state.reserved_usd += usd;
        state.reserved_tokens += tokens;
        state.in_flight += 1;
        drop(state);
        let _held = Some(HeldAmount { spending: self.clone(), usd, tokens });
        let max_output = if output < estimate.output { Some(output) } else { None };
        Some(ReservationOutcome::Granted(SpendingReservation { _held, max_output }))
    }

    /// Returns how long the reply may become beside everything that is spent and reserved, by the ceiling that leaves
    /// the least; `None` if there is no such ceiling.
    fn room_for_reply(&self, state: &SpendingState, estimate: &RequestEstimate) -> Option<ReplyRoom> {
        let by_budget = self.limits.max_budget_usd.map(|max| {
            let left = max - state.known_cost_usd() - state.reserved_usd - estimate.prompt_usd() + ROUNDING_USD;
            let tokens = match estimate.output_usd() {
                _ if left < 0.0 => None,
                free if free <= 0.0 => Some(u64::MAX),
                price => Some((left / price) as u64),
            };
            ReplyRoom { tokens, limit: ReachedLimit::Budget(max) }
        });
        let by_tokens = self.limits.max_total_tokens.map(|max| {
            let taken = state.total_tokens + state.reserved_tokens + estimate.prompt.prompt_tokens();
            ReplyRoom { tokens: max.checked_sub(taken), limit: ReachedLimit::Tokens(max) }
        });
        by_budget.into_iter().chain(by_tokens).min_by_key(|room| room.tokens)
    }

    /// Returns the ceiling that is reached, whatever the next request costs.
    fn reached(&self, state: &SpendingState) -> Option<ReachedLimit> {
        let limits = &self.limits;
        let budget = limits.max_budget_usd.filter(|max| state.known_cost_usd() >= *max).map(ReachedLimit::Budget);
        let tokens = || limits.max_total_tokens.filter(|max| state.total_tokens >= *max).map(ReachedLimit::Tokens);
        let time = || limits.max_time.filter(|max| state.worked() >= *max).map(ReachedLimit::Time);
        budget.or_else(tokens).or_else(time)
    }

    /// Returns the ceiling that is reached, if any.
    pub(crate) fn reached_limit(&self) -> Option<ReachedLimit> {
        self.reached(&self.lock())
    }

    /// Begins to count the time of a turn. Returns what is left of it.
    pub(crate) fn begin_work(&self) -> Option<Duration> {
        let mut state = self.lock();
        state.working_since = Some(Instant::now());
        self.limits.max_time.map(|max| max.saturating_sub(state.worked))
    }

    /// Ends the count of a turn's time.
    pub(crate) fn end_work(&self) {
        let mut state = self.lock();
        state.worked = state.worked();
        state.working_since = None;
    }

    /// Returns why the ledger cannot be written, once. It is for the log: the transcript is in the same place.
    pub(crate) fn take_ledger_problem(&self) -> Option<String> {
        self.lock().unwritten.take()
    }

    /// Returns the warnings since the last call: ceilings that are near, and models without a price.
    pub(crate) fn take_warnings(&self) -> Vec<String> {
        let mut state = self.lock();
        let mut warnings = Vec::new();
        let is_near = |part: f64, whole: f64| part >= whole * WARNED_AT_PERCENT / 100.0;
        if let Some(max) = self.limits.max_budget_usd {
            let spent = state.known_cost_usd();
            if is_near(spent, max) && !std::mem::replace(&mut state.warned.budget, true) {
                warnings.push(format!(
                    "the session has cost {} of its budget of {}",
                    format_dollars(spent),
                    format_dollars(max)
                ));
            }
            let names: Vec<String> = state
                .by_model
                .iter()
                .filter(|entry| entry.cost_usd.is_none())
                .map(|entry| entry.model.clone())
                .collect();
            if !names.is_empty() && !std::mem::replace(&mut state.told_unpriced, true) {
                let names = names.join(", ");
                warnings.push(format!("no price is known for {names}: the budget cannot count what it costs"));
            }
        }
        if let Some(max) = self.limits.max_total_tokens
            && is_near(state.total_tokens as f64, max as f64)
            && !std::mem::replace(&mut state.warned.tokens, true)
        {
            let (taken, max) = (grouped(state.total_tokens), grouped(max));
            warnings.push(format!("the session has taken {taken} of its {max} tokens"));
        }
        if let Some(max) = self.limits.max_time
            && is_near(state.worked().as_secs_f64(), max.as_secs_f64())
            && !std::mem::replace(&mut state.warned.time, true)
        {
            let worked = describe_time(Duration::from_secs(state.worked().as_secs()));
            warnings.push(format!("the session has worked {worked} of its {}", describe_time(max)));
        }
        warnings
    }

    pub(crate) fn by_model(&self) -> Vec<ModelUsage> {
        self.lock().by_model.clone()
    }

    /// Returns the total cost; `None` if any model's price is unknown.
    pub(crate) fn total_cost_usd(&self) -> Option<f64> {
        // Not `sum`, which returns -0.0 for an empty list.
        self.lock().by_model.iter().try_fold(0.0, |total, entry| Some(total + entry.cost_usd?))
    }

    fn lock(&self) -> MutexGuard<'_, SpendingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
