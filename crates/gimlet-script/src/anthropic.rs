//! The Anthropic Messages dialect: what a request means, which rules it must keep, how an answer is rendered.
//!
//! Everything here is pure: bytes in, bytes or an error out. Sockets, clocks and the script's order are elsewhere. Other
//! dialects get a module of their own beside this one.

mod events;
mod images;
mod message;
mod prompt;
mod strict;
mod thinking;

pub(crate) use events::{Event, Mark as EventMark, ping, render};
pub(crate) use message::{Ids, Message, build, canonical_tail, to_json};
pub(crate) use prompt::{Layer, Prompt, Ttl, finished_thinking, marks};
pub(crate) use strict::{Issued, Rules, check};
pub(crate) use thinking::{Binder, verify};

/// The path that a reply comes from.
pub(crate) const MESSAGES: &str = "/v1/messages";
pub(crate) const COUNT_TOKENS: &str = "/v1/messages/count_tokens";
pub(crate) const MODELS: &str = "/v1/models";
