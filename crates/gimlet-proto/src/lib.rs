//! The words that every room of gimlet speaks: plain data and a few small traits.
//!
//! Nothing here reads a file, opens a socket, starts a process or knows a tool by name. Every other crate may use this
//! one, so it stays small and calm: a change here rebuilds the house.

mod agent;
mod ask;
mod block;
mod compact_json;
mod content;
mod context;
mod credentials;
mod driver;
mod env;
mod event;
mod halves;
mod hub;
mod ids;
mod inquiry;
mod mark;
mod message;
mod model;
mod need;
mod op;
mod permission;
mod picture;
mod protected;
mod sandbox;
mod sanitise;
mod secret;
mod servers;
mod session;
mod shell_word;
mod slip;
mod stop;
mod unseen;
mod usage;
mod view;

pub use agent::{AgentOffer, AgentSpec};
pub use ask::{Answer, Approval, AskBody, AskView, SuggestedChange, TrustItem, TrustQuestion};
pub use block::{Block, BlockError, BlockKind, ToolResultParts, ToolUseParts};
pub use compact_json::{MAX_JSON_DEPTH, compact, is_json_object, is_too_deep};
pub use content::{ContentPart, ImageSource, ResultContent};
pub use context::{ContextCategory, ContextKind, ContextMessages, ContextTool, ContextUsage};
pub use credentials::{CredentialError, Credentials};
pub use driver::{Driver, DriverError, DriverHook, HookCall};
pub use env::Env;
pub use event::{
    AgentPath, AssistantBlock, Body, CacheBreak, Delta, DeltaKind, Denial, Event, HookOutcome, HookPhase, HookView,
    Level, Notice, Opened, Prompt, PromptFate, RetryNotice, StopCause, TaskProgress, TaskState, TaskView, ToolFinished,
    ToolPhase, ToolView, TurnEnd, TurnReport, Unusable,
};
pub use halves::whole_characters;
pub use hub::{Hub, Reader};
pub use ids::{AskId, EntryId, ItemId, SessionId, ToolUseId};
pub use inquiry::{FilePart, HookListing, Inquiry, PermissionsView, RuleView, Standing, TaskTail};
pub use mark::{break_tags, enclosed};
pub use message::{Message, Role};
pub use model::{
    BoxFuture, CachePlan, CacheTtl, CutCall, EFFORTS, ErrorKind, Interruption, Model, ModelError, ModelEvent,
    ModelFacts, ModelRequest, ModelStream, Price, RateLimit, ReplyEnd, ReplyStart, SentOption, Thinking,
    ThinkingDisplay, ToolChoice, ToolDef, check_model_name, effort_of, model_for_phase,
};
pub use need::Need;
pub use op::{Interrupted, Mentions, Op, Origin, Reply, Rewound, Say, When};
pub use permission::PermissionMode;
pub use picture::{Picture, is_base64};
pub use protected::{PROTECTED_NAMES, ProtectedName};
pub use sandbox::{SandboxNetwork, SandboxSpec, Violation};
pub use sanitise::sanitise;
pub use secret::Secret;
pub use servers::{ServerName, ServerStatus, ServerTool, ServerView, ServerWish, Servers, ServersChanged, plain_name};
pub use session::{Leaving, SessionHandle, Snapshot};
pub use shell_word::shell_word;
pub use slip::edit_distance;
pub use stop::StopReason;
pub use unseen::Unseen;
pub use usage::{ModelUsage, Usage};
pub use view::{DiffHunk, TodoItem, TodoStatus, View};

/// The version string that programs written for the reference CLI test against.
pub const COMPAT_VERSION: &str = "2.1.325";
/// gimlet's own version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
