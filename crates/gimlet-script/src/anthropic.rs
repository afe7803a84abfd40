//! The Anthropic Messages dialect: parsing of a request, the rules it must keep, rendering of an answer.
//!
//! Everything here is pure: bytes in, bytes or an error out. Sockets, clocks and the script's order are elsewhere.
//! Other dialects get a module of their own beside this one.

mod events;
mod image_header;
mod message;
mod prompt;
mod request_rules;
mod thinking_signature;

pub(crate) use events::{EventMark, ScriptedEvent, ping, render};
pub(crate) use message::{IdSource, ReplyMessage, build_message, canonical_tail, to_json};
pub(crate) use prompt::{MarkerTtl, PromptLayer, RequestPrompt, find_cache_markers, finished_turn_thinking};
pub(crate) use request_rules::{IssuedBlocks, RuleContext, check};
pub(crate) use thinking_signature::{ThinkingSigner, verify_thinking};

/// The path that a reply comes from.
pub(crate) const MESSAGES: &str = "/v1/messages";
pub(crate) const COUNT_TOKENS: &str = "/v1/messages/count_tokens";
pub(crate) const MODELS: &str = "/v1/models";
