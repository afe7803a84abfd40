//! Model providers behind [`gimlet_proto::Model`]: wire formats, streaming, retries, credentials and prices.
//!
//! One engine sends every request. Formats translate bytes and know no socket; rows of providers say where requests go,
//! how they authenticate and what to advise their users. Nothing here reads the process environment, prints, or starts a
//! task that outlives its stream.

mod auth;
mod catalogue;
mod downgrade;
mod engine;
mod error_body;
mod failure;
mod formats;
#[cfg(test)]
#[path = "../tests/guide/guide.rs"]
mod guide;
mod json;
mod model_choices;
mod model_directory;
mod provider_config;
mod providers;
mod request_wishes;
mod server_quirks;
mod size_limits;
mod sse;

pub use catalogue::ModelSummary;
pub use engine::ModelEngine;
pub use formats::anthropic::{BodyPlan, ReplyReader, build_body};
pub use formats::reply_state::{ReplyProgress, StreamFault, StreamFlow};
pub use model_choices::{ModelChoices, UnavailableModelError};
pub use model_directory::UnknownProviderError;
pub use provider_config::{ModelTimeouts, ProviderConfig, RetryLimits, TimeoutChoices};
pub use providers::{ProviderAdvice, ProviderConfigError, ProviderRow, secret_variables};
pub use request_wishes::RequestWishes;
pub use sse::{SseError, SseEvent, SseLimits, SseParser};
