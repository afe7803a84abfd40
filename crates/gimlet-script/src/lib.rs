//! The scripted model: a script says what the model answers, a loopback server plays it over real HTTP.
//!
//! `gimlet demo`, every end-to-end test and `gimlet dev scripted-model` use it. It is written from the provider's rules
//! and shares no code with the client, so that a mistake in one is not repeated in the other. It never leaves the
//! machine, never prints and holds no credentials.

mod anthropic;
mod api_error;
mod cache;
mod desk;
mod hash;
mod http1;
mod json;
mod ledger;
mod player;
mod profile;
mod report;
mod request;
mod script;
mod server;
mod template;
mod usage;
mod wire;

pub use ledger::SecretSeen;
pub use profile::{Binding, ModelSpec};
pub use request::{Outcome, Request};
pub use script::{
    Agent, At, BlockSpec, Chunk, Clock, Close, Encoding, ErrorSpec, EventNames, Expect, Fault, Flush, Framing,
    InputPieces, Newline, Pings, Program, Repeat, Reply, Script, ScriptError, Step, ToolInput, UsageStyle, Wire,
};
pub use server::{Server, StartError, Summary};
pub use usage::PromptUsage;
