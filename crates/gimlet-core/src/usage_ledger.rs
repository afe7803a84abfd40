//! Usage of one conversation's running turn. What it costs counts into the session's spending.

use std::sync::Arc;
use std::time::Duration;

use gimlet_proto::{AgentPath, ModelUsage, TokenUsage};

use crate::spending::{BilledRequest, SessionSpending};

/// Usage of a conversation in its running turn, with the spending of the session that it is a part of.
#[derive(Default)]
pub(crate) struct UsageLedger {
    spending: Arc<SessionSpending>,
    /// Call that launched the subagent whose conversation it is.
    agent: Option<String>,
    turn: TokenUsage,
    /// Usage of the last reply in the turn.
    last: Option<TokenUsage>,
    turn_api: Duration,
    turn_requests: u32,
}

impl UsageLedger {
    /// Creates the ledger of the main conversation.
    pub(crate) fn new(spending: SessionSpending) -> Self {
        Self { spending: Arc::new(spending), ..Self::default() }
    }

    /// Creates the ledger of another conversation of this session, or of requests beside this one.
    pub(crate) fn for_agent(&self, agent: &AgentPath) -> Self {
        let agent = agent.parent_tool_use().map(ToString::to_string);
        Self { spending: self.spending.clone(), agent, ..Self::default() }
    }

    /// Returns what the whole session has spent.
    pub(crate) fn spending(&self) -> &Arc<SessionSpending> {
        &self.spending
    }

    /// Starts counting a new turn.
    pub(crate) fn begin_turn(&mut self) {
        self.turn = TokenUsage::default();
        self.last = None;
        self.turn_api = Duration::ZERO;
        self.turn_requests = 0;
    }

    /// Counts one answered request.
    pub(crate) fn count_reply(&mut self, billed: &BilledRequest<'_>) {
        self.count_attempt(billed);
        self.last = Some(billed.usage);
        self.turn_requests += 1;
    }

    /// Counts a request that is no step of the conversation: a discarded attempt, a summary.
    pub(crate) fn count_attempt(&mut self, billed: &BilledRequest<'_>) {
        self.turn.add(&billed.usage);
        self.count_side_request(billed);
    }

    /// Counts a request beside the conversation: its cost goes to the session, but not to the turn's own tokens.
    pub(crate) fn count_side_request(&mut self, billed: &BilledRequest<'_>) {
        self.turn_api += billed.took;
        self.spending.count(billed, self.agent.as_deref());
    }

    /// Counts the time of a request without an answer.
    pub(crate) fn count_time(&mut self, took: Duration) {
        self.turn_api += took;
    }

    pub(crate) fn by_model(&self) -> Vec<ModelUsage> {
        self.spending.by_model()
    }

    /// Returns the total cost; `None` if any model's price is unknown.
    pub(crate) fn total_cost_usd(&self) -> Option<f64> {
        self.spending.total_cost_usd()
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
