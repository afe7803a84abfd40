//! The Anthropic Messages format: request bodies, streamed replies, error bodies.
//!
//! Pure: bytes and blocks in, bytes and events out. Endpoints, credentials and retries are the provider's business.

mod error_body;
mod markers;
mod oddities;
mod request;
mod slot;
mod stream;
mod usage;

pub(crate) use error_body::{ErrorBody, looks_like_html, one_line};
pub(crate) use request::ThinkingField;
pub use request::{BodyPlan, build_body};
pub use stream::{Flow, Progress, ReplyReader, StreamFault};
