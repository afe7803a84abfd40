//! The border to every model provider: one request in, one stream of events out.
//!
//! Wire formats, retries, credentials and prices live behind this trait. Dropping the stream cancels the request.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_core::Stream;
use gimlet_text::SendableImage;
use serde_json::value::RawValue;

use crate::{Block, BlockKind, Env, Message, StopReason, TokenUsage};

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
pub type ModelStream = Pin<Box<dyn Stream<Item = ModelEvent> + Send>>;

/// A provider with its credentials.
pub trait Model: Send + Sync {
    /// Returns the facts about a model id or alias. Never fails: unknown ids get conservative facts.
    fn facts(&self, model: &str) -> ModelFacts;

    /// Returns the models that can be chosen by a short name. Others can be chosen by their id.
    fn choices(&self) -> Vec<ModelChoice> {
        Vec::new()
    }

    /// Checks that a model may be chosen; returns the reason otherwise.
    fn check_choice(&self, model: &str) -> Result<(), String> {
        check_model_name(model)
    }

    /// Returns the number of tokens that the reply to a request may take.
    fn max_reply_tokens(&self, request: &ModelRequest) -> u64 {
        request.max_tokens.unwrap_or_else(|| self.facts(&request.model).max_output_tokens)
    }

    /// Sends one request. The stream ends after exactly one [`ModelEvent::Done`] or [`ModelEvent::Failed`].
    fn stream(&self, request: ModelRequest) -> ModelStream;
}

/// Rejects names that no server can accept. Only the server can decide which ids it knows.
pub fn check_model_name(model: &str) -> Result<(), String> {
    let plausible = !model.is_empty()
        && model.len() <= 200
        && !model.starts_with('-')
        && model.chars().all(|char| !char.is_whitespace() && !char.is_control());
    if plausible { Ok(()) } else { Err(format!("'{model}' cannot be the name of a model")) }
}

/// Effort levels that a model can be set to.
pub const EFFORTS: [&str; 5] = ["low", "medium", "high", "xhigh", "max"];

/// Returns the effort that the environment sets, if any; it overrides every other setting.
pub fn effort_from_env(env: &Env) -> Option<&str> {
    env.get("CLAUDE_CODE_EFFORT_LEVEL").filter(|level| EFFORTS.contains(level))
}

/// The alias that means one model for plans and another for carrying them out.
const BY_MODE: &str = "opusplan";

/// Resolves such a name for the planning phase or the other one; any other name is returned unchanged.
pub fn model_for_phase(model: &str, planning: bool) -> &str {
    let name = model.trim();
    let is_alias = name.get(..BY_MODE.len()).is_some_and(|start| start.eq_ignore_ascii_case(BY_MODE));
    match name.get(BY_MODE.len()..) {
        Some(rest) if is_alias && (rest.is_empty() || rest.eq_ignore_ascii_case("[1m]")) => {
            if planning {
                "opus"
            } else {
                "sonnet"
            }
        }
        _ => model,
    }
}

/// Model that can be chosen by a short name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelChoice {
    pub alias: &'static str,
    /// The id that the name stands for.
    pub id: String,
    /// Effort levels that the model accepts.
    pub efforts: &'static [&'static str],
}

/// Facts about one model.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelFacts {
    /// The id that is sent, with aliases resolved.
    pub id: String,
    pub context_window: u64,
    pub max_output_tokens: u64,
    /// `None` when the price is not known.
    pub price: Option<ModelPrice>,
    /// True if the model may change a file that it has not read, where the user leaves that to the model.
    pub edits_unread: bool,
    /// Longest side of an image in pixels that the model makes use of.
    pub image_side: u32,
    /// Approximate number of bytes of text per token.
    pub bytes_per_token: f64,
    /// A prompt of fewer tokens is not cached.
    pub min_cache_tokens: u64,
    pub known: bool,
}

/// USD per million tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ModelPrice {
    pub input: f64,
    pub output: f64,
    pub write_5m: f64,
    pub write_1h: f64,
    pub read: f64,
    /// Prices of the whole request once its prompt is longer than this many tokens.
    pub above: Option<(u64, [f64; 5])>,
}

impl ModelPrice {
    /// Creates prices of which those of the cache follow from that of the input in the usual ratio.
    pub fn from_input_and_output(input: f64, output: f64) -> Self {
        Self { input, output, write_5m: input * 1.25, write_1h: input * 2.0, read: input * 0.1, above: None }
    }

    /// Returns the cost of one request's usage.
    pub fn cost_usd(&self, usage: &TokenUsage) -> f64 {
        self.cost_usd_with_prompt(usage, usage.prompt_tokens())
    }

    /// Returns the cost of a usage that may be the sum of several requests, whose prompts have this many tokens each.
    pub fn cost_usd_with_prompt(&self, usage: &TokenUsage, prompt_tokens: u64) -> f64 {
        let [input, output, write_5m, write_1h, read] = self.rates(prompt_tokens);
        // A provider that does not split its cache writes by life wrote them with the short one.
        let long = usage.cache_creation_1h.min(usage.cache_creation_input_tokens);
        let short = usage.cache_creation_input_tokens - long;
        (usage.input_tokens as f64 * input
            + usage.output_tokens as f64 * output
            + short as f64 * write_5m
            + long as f64 * write_1h
            + usage.cache_read_input_tokens as f64 * read)
            / 1e6
    }

    /// Returns the prices of a request with a prompt of this many tokens: of input, output, cache writes for five
    /// minutes and for an hour, and cache reads.
    pub fn rates(&self, prompt_tokens: u64) -> [f64; 5] {
        match self.above {
            Some((limit, dearer)) if prompt_tokens > limit => dearer,
            Some(_) | None => [self.input, self.output, self.write_5m, self.write_1h, self.read],
        }
    }

    /// Returns the cost of writing a prompt of this many tokens into the cache.
    pub fn cache_write_cost_usd(&self, tokens: u64, ttl: CacheTtl) -> f64 {
        let long = if ttl == CacheTtl::OneHour { tokens } else { 0 };
        self.cost_usd(&TokenUsage {
            cache_creation_input_tokens: tokens,
            cache_creation_1h: long,
            ..TokenUsage::default()
        })
    }
}

/// One request. System and tools are frozen for a conversation segment; messages only grow.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    pub model: String,
    /// `None`: the provider's default for the model.
    pub max_tokens: Option<u64>,
    /// Text blocks of the system prompt.
    pub system: Arc<[String]>,
    pub tools: Arc<[ToolDef]>,
    pub tool_choice: ToolChoice,
    pub messages: Vec<Arc<Message>>,
    /// These messages with no more images than every model accepts; `None` if they do not exceed that limit. It is
    /// not known beforehand which model answers in the end.
    pub few_images: Option<Vec<Arc<Message>>>,
    pub cache: CachePlan,
    pub thinking: ThinkingMode,
    /// `None`: as the provider was configured at its start.
    pub display: Option<ThinkingDisplay>,
    pub effort: Option<String>,
    /// Also pass raw events through ([`ModelEvent::Wire`]).
    pub want_wire_events: bool,
}

impl ModelRequest {
    /// Returns the messages for a model that accepts this many images.
    pub fn messages_for(&self, most_images: usize) -> &[Arc<Message>] {
        match &self.few_images {
            Some(messages) if most_images < SendableImage::MOST => messages,
            _ => &self.messages,
        }
    }
}

/// One tool as the model sees it, rendered once.
#[derive(Clone, Debug)]
pub struct ToolDef {
    pub name: String,
    pub description: String,
    /// JSON Schema of the input.
    pub input_schema: Box<RawValue>,
    /// Ask for unbuffered input streaming.
    pub eager_input: bool,
    pub defer_loading: bool,
}

impl PartialEq for ToolDef {
    fn eq(&self, other: &Self) -> bool {
        let parts = |tool: &Self| (tool.eager_input, tool.defer_loading);
        self.name == other.name
            && self.description == other.description
            && self.input_schema.get() == other.input_schema.get()
            && parts(self) == parts(other)
    }
}

/// Restricts which tools the model may call. The main loop uses `Auto` only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolChoice {
    Auto { parallel: bool },
    Any { parallel: bool },
    Tool { name: String, parallel: bool },
    None,
}

/// Thinking mode of the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThinkingMode {
    /// The catalogue's default for the model.
    #[default]
    ModelDefault,
    Off,
    Budget(u64),
}

/// Visibility of the model's thinking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThinkingDisplay {
    Summarized,
    Omitted,
}

impl ThinkingDisplay {
    pub fn as_str(self) -> &'static str {
        match self {
            ThinkingDisplay::Summarized => "summarized",
            ThinkingDisplay::Omitted => "omitted",
        }
    }
}

/// Lifetime of cache entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheTtl {
    FiveMinutes,
    OneHour,
}

impl CacheTtl {
    pub fn duration(self) -> Duration {
        match self {
            CacheTtl::FiveMinutes => Duration::from_secs(300),
            CacheTtl::OneHour => Duration::from_secs(3_600),
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            CacheTtl::FiveMinutes => "5m",
            CacheTtl::OneHour => "1h",
        }
    }
}

/// Positions of the cache breakpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachePlan {
    /// `None` turns prompt caching off.
    pub ttl: Option<CacheTtl>,
    /// The last block of the project's context, if there is one: the index of its message and its index there.
    pub context: Option<(usize, usize)>,
    /// Number of messages in the previous request of this conversation.
    pub previous_len: Option<usize>,
}

/// Event of a running request.
#[derive(Clone, Debug)]
pub enum ModelEvent {
    /// The request failed in a way that is worth another try; it is sent again after the delay.
    Retrying {
        attempt: u32,
        max: u32,
        delay_ms: u64,
        error: ModelError,
    },
    /// No data was received for a while; the request goes on.
    Waiting {
        silent_ms: u64,
    },
    /// The account's rate limits as the response reported them.
    RateLimits(Vec<RateLimit>),
    /// One notice for the user (a capability switched off, a repaired request).
    Notice(String),
    /// Harmless anomalies of a reply, in one line for a log. Precedes the end of the reply.
    ReplyAnomalies(String),
    /// A reply begins.
    Started(ReplyStart),
    /// A block begins. `name` is a tool call's tool.
    BlockStarted {
        index: usize,
        kind: BlockKind,
        id: Option<String>,
        name: Option<String>,
    },
    TextDelta {
        index: usize,
        text: String,
    },
    ThinkingDelta {
        index: usize,
        text: String,
    },
    InputDelta {
        index: usize,
        text: String,
    },
    /// A block is complete. For a tool call whose input was not a JSON object, history carries `{}` in its place and
    /// `bad_input` what the model really wrote.
    BlockDone {
        index: usize,
        block: Block,
        bad_input: Option<String>,
    },
    /// Everything since `Started` is void; any work begun because of it must be undone.
    ReplyDiscarded,
    /// Cost of a discarded attempt, which is billed nonetheless; another model answers in its place.
    Spent {
        model: String,
        usage: TokenUsage,
    },
    /// Raw event of the reply in the shape of Anthropic's Messages API: the server's own, unmodified, where it speaks
    /// that; otherwise rendered by the format from what the server sent.
    Wire(Arc<RawValue>),
    Done(ReplyEnd),
    Failed(ModelError),
}

/// One limit of the account and how much of it is left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RateLimit {
    pub name: String,
    pub limit: Option<u64>,
    pub remaining: Option<u64>,
    /// When it is full again, as the server writes it.
    pub reset: Option<String>,
}

impl std::fmt::Display for RateLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.remaining, self.limit) {
            (Some(left), Some(limit)) => write!(f, "{}: {left} of {limit} left", self.name)?,
            (Some(left), None) => write!(f, "{}: {left} left", self.name)?,
            (None, Some(limit)) => write!(f, "{}: limit {limit}", self.name)?,
            (None, None) => write!(f, "{}: unknown", self.name)?,
        }
        match &self.reset {
            Some(reset) => write!(f, " until {reset}"),
            None => Ok(()),
        }
    }
}

/// The head of a reply.
#[derive(Clone, Debug, Default)]
pub struct ReplyStart {
    pub message_id: String,
    /// The model that answers, as the provider names it.
    pub model: String,
    pub request_id: Option<String>,
    pub usage: TokenUsage,
    /// Options sent besides system, tools and messages that are part of the provider's cache key.
    pub options: Vec<SentOption>,
}

/// One such option by its name, and how it was sent.
pub type SentOption = (&'static str, String);

/// The end of a reply.
#[derive(Clone, Debug)]
pub struct ReplyEnd {
    /// `None` when the stream broke after usable blocks.
    pub stop_reason: Option<StopReason>,
    pub stop_sequence: Option<String>,
    /// Billed usage: the sum, if the provider needed several requests of its own for the reply.
    pub usage: TokenUsage,
    /// Usage of the last of them, which shows how full the context is.
    pub context: TokenUsage,
    /// Set when the reply was cut but its complete blocks are to be used.
    pub interrupted: Option<ReplyInterruption>,
    /// A refusal's explanation, for display.
    pub explanation: Option<String>,
    /// The reply was cut by `max_tokens` inside a tool call, which was dropped.
    pub cut_tool_call: Option<TruncatedCall>,
}

/// A tool call that did not fit into its reply, and the token limit for a retry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TruncatedCall {
    /// The `max_tokens` of the reply that was cut.
    pub max_tokens: u64,
    /// A larger limit that the model and the user allow.
    pub more: Option<u64>,
    /// Advice for a user whose own settings allow no more.
    pub advice: Option<String>,
}

/// Interruption of a reply that is still usable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplyInterruption {
    pub message: String,
}

/// The class of a failure; front ends and exit codes go by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ModelErrorKind {
    /// There is no credential to send.
    NotLoggedIn,
    Authentication,
    Permission,
    Billing,
    RateLimit,
    Overloaded,
    InvalidRequest,
    ModelNotFound,
    PromptTooLong,
    RequestTooLarge,
    Server,
    Timeout,
    Network,
    Tls,
    /// The server's answer was invalid.
    Protocol,
}

impl ModelErrorKind {
    /// Returns the word that stream-json uses for this class.
    pub fn wire_code(self) -> &'static str {
        match self {
            ModelErrorKind::NotLoggedIn | ModelErrorKind::Authentication | ModelErrorKind::Permission => {
                "authentication_failed"
            }
            ModelErrorKind::Billing => "billing_error",
            ModelErrorKind::RateLimit => "rate_limit",
            ModelErrorKind::Overloaded => "overloaded",
            ModelErrorKind::InvalidRequest | ModelErrorKind::PromptTooLong | ModelErrorKind::RequestTooLarge => {
                "invalid_request"
            }
            ModelErrorKind::ModelNotFound => "model_not_found",
            ModelErrorKind::Server | ModelErrorKind::Timeout => "server_error",
            ModelErrorKind::Network | ModelErrorKind::Tls | ModelErrorKind::Protocol => "unknown",
        }
    }
}

/// A request that failed for good (or, inside [`ModelEvent::Retrying`], for now).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelError {
    pub kind: ModelErrorKind,
    pub status: Option<u16>,
    /// One-line description of the error.
    pub message: String,
    /// Advice for the user, if known.
    pub hint: Option<String>,
    pub request_id: Option<String>,
}

impl ModelError {
    /// Text that programs search for to detect that their user has to log in.
    pub const NOT_LOGGED_IN: &str = "Not logged in · Please run /login";

    /// Returns the text that replaces an answer in the conversation.
    pub fn to_reply_text(&self) -> String {
        match self.kind {
            ModelErrorKind::NotLoggedIn => self.message.clone(),
            _ => format!("API Error: {self}"),
        }
    }
}

impl std::fmt::Display for ModelError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(status) = self.status {
            write!(f, "{status} ")?;
        }
        f.write_str(&self.message)?;
        if let Some(id) = &self.request_id {
            write!(f, " (request {id})")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, ". {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ModelError {}
