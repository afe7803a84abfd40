//! The scripted model: a script defines the model's answers, a loopback server plays it over real HTTP.
//!
//! `gimlet demo`, every end-to-end test and `gimlet dev scripted-model` use it. It is written from the provider's
//! rules and shares no code with the client, so that a mistake in one is not repeated in the other. It never leaves
//! the machine, never prints and holds no credentials.

mod anthropic;
mod api_error;
mod digest_chain;
mod http_connection;
mod model_capabilities;
mod prompt_cache;
mod prompt_usage;
mod received_request;
mod report;
mod request_log;
mod script;
mod script_player;
mod script_responder;
mod script_server;
mod spanned_json;
mod template;
mod wire_plan;

pub use model_capabilities::{ModelSpec, ThinkingBinding};
pub use prompt_usage::PromptUsage;
pub use received_request::{ReceivedRequest, RequestOutcome};
pub use request_log::SeenSecret;
pub use script::{
    BlockSpec, BodyFraming, CacheClock, ChunkMode, CloseKind, ContentEncoding, ErrorSpec, EventNames, ExpectedRequest,
    Fault, FaultPoint, FlushMode, InputPieces, LineEnding, PingMode, ReplyProgram, Script, ScriptError, ScriptStep,
    ScriptedAgent, ScriptedReply, StepRepeat, ToolInput, UsageStyle, WireShape,
};
pub use script_server::{ScriptServer, ScriptSummary, ServerStartError};
