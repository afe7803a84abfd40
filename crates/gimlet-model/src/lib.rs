//! Model providers behind [`gimlet_proto::Model`]: wire formats, streaming, retries, credentials and prices.
//!
//! Formats translate bytes and know no socket; providers own endpoint, credential and patience and know no block
//! beyond its kind. Nothing here reads the process environment, prints, or starts a task that outlives its stream.

mod betas;
mod bounds;
mod catalogue;
mod choice;
mod cure;
mod failure;
mod fallback;
mod formats;
mod json;
mod limits;
mod outlet;
mod providers;
mod retry;
mod sse;
mod transport;

pub use catalogue::ModelOffer;
pub use choice::{ModelChoices, ModelNotAvailable};
pub use formats::anthropic::{BodyPlan, Flow, Progress, ReplyReader, StreamFault, build_body};
pub use providers::anthropic::{Anthropic, AnthropicConfig, ConfigError, Patience};
pub use sse::{SseError, SseEvent, SseLimits, SseParser};
pub use transport::Network;
