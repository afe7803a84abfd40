//! The Anthropic Messages format: request bodies, streamed replies, error bodies.
//!
//! Pure: bytes and blocks in, bytes and events out. Endpoints, credentials and retries are the provider's business.

mod anomalies;
mod block_builder;
mod cache_markers;
mod error_body;
mod reply_reader;
mod request;
mod usage;

pub(crate) use error_body::{ErrorBody, looks_like_html, one_line};
pub use reply_reader::{ReplyProgress, ReplyReader, StreamFault, StreamFlow};
pub(crate) use request::ThinkingField;
pub use request::{BodyPlan, build_body};
