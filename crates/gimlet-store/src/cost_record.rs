//! Record of a session's usage, so that a resumed session continues its totals.

use gimlet_proto::{ModelUsage, TokenUsage};
use serde::{Deserialize, Serialize};

/// Usage of one model.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CostRecord {
    model: String,
    usage: TokenUsage,
    cost_usd: Option<f64>,
    context_window: u64,
    max_output_tokens: u64,
}

impl From<&ModelUsage> for CostRecord {
    fn from(usage: &ModelUsage) -> Self {
        Self {
            model: usage.model.clone(),
            usage: usage.usage,
            cost_usd: usage.cost_usd,
            context_window: usage.context_window,
            max_output_tokens: usage.max_output_tokens,
        }
    }
}

impl From<CostRecord> for ModelUsage {
    fn from(record: CostRecord) -> Self {
        Self {
            model: record.model,
            usage: record.usage,
            cost_usd: record.cost_usd,
            context_window: record.context_window,
            max_output_tokens: record.max_output_tokens,
        }
    }
}
