//! Model providers behind [`gimlet_proto::Model`]: wire formats, streaming, retries, credentials and prices.
//!
//! Formats translate bytes and know no socket; providers own endpoint, credential and timeouts and know no block beyond
//! its kind. Nothing here reads the process environment, prints, or starts a task that outlives its stream.

mod betas;
mod catalogue;
mod downgrade;
mod event_sink;
mod failure;
mod fallback;
mod formats;
mod json;
mod model_choices;
mod providers;
mod rate_limits;
mod retry;
mod size_limits;
mod sse;

pub use catalogue::ModelSummary;
pub use formats::anthropic::{BodyPlan, ReplyProgress, ReplyReader, StreamFault, StreamFlow, build_body};
pub use model_choices::{ModelChoices, UnavailableModelError};
pub use providers::anthropic::{AnthropicConfig, AnthropicProvider, ModelTimeouts, ProviderConfigError};
pub use sse::{SseError, SseEvent, SseLimits, SseParser};
