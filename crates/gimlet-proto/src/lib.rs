//! The shared vocabulary of gimlet's crates: plain data and a few small traits.
//!
//! Nothing here reads a file, opens a socket, starts a process or knows a tool by name. Every other crate may use
//! this one, so it stays small and stable: a change here rebuilds the whole workspace.

mod access_need;
mod agent;
mod ask;
mod block;
mod command;
mod compaction;
mod context_usage;
mod credential_source;
mod driver;
mod env;
mod event;
mod event_hub;
mod history;
mod hook_event;
mod host;
mod ids;
mod message;
mod model;
mod op;
mod permission_mode;
mod prompt_history;
mod protected_names;
mod result_content;
mod sandbox;
mod secret;
mod servers;
mod session_handle;
mod session_query;
mod startup_failure;
mod stop_reason;
mod usage;
mod view;

pub use access_need::AccessNeed;
pub use agent::{AgentSpec, AgentSummary};
pub use ask::{
    Approval, AskAnswer, AskBody, AskView, CallQuestion, ElicitationAction, ElicitationAsk, ElicitationRequest,
    PermissionAsk, QuestionAnswers, QuestionChoice, SuggestedChange, TrustItem, TrustQuestion, UserQuestion, UserReply,
};
pub use block::{Block, BlockError, BlockKind, ToolResultParts, ToolUseParts};
pub use command::{CommandInfo, CommandKind, CommandMatch, find_command, unknown_command_text};
pub use compaction::{CompactedSegment, CompactionTrigger, CompactionView};
pub use context_usage::{ContextCategory, ContextFile, ContextKind, ContextMessages, ContextTool, ContextUsage};
pub use credential_source::{CredentialError, CredentialSource};
pub use driver::{Driver, DriverError, DriverHook, HookCall};
pub use env::Env;
pub use event::{
    AcceptedPrompt, AgentPath, AssistantBlock, BlockDelta, CacheBreak, CommandReply, DeltaKind, Denial, Event,
    EventBody, HookOutcome, HookPhase, HookView, Notice, NoticeLevel, PromptDefect, PromptOutcome, RetryNotice,
    StopCause, StoredToolResult, TaskProgress, TaskState, TaskView, ToolCallPhase, ToolCallView, TurnEnd, TurnReport,
    TurnSetup,
};
pub use event_hub::{EventHub, EventReader};
pub use history::{HistoryBody, HistoryCall, HistoryItem, HistoryResult};
pub use hook_event::{HOOK_EVENTS, HookEvent, HookEventRow};
pub use host::{
    FolderTrust, Host, ModelInfo, OpenedSession, PluginFailure, PluginSummary, SavedSetting, SessionChanges,
    SessionFacts, SessionInfo, SessionMatch, SessionReplacement, SessionScope, SessionSearch, SettingsLayerView,
    SettingsProblemView, SettingsView,
};
pub use ids::{AskId, EntryId, ItemId, SessionId, ToolUseId};
pub use message::{Message, Role};
pub use model::{
    BoxFuture, CachePlan, CacheTtl, EFFORTS, Model, ModelChoice, ModelError, ModelErrorKind, ModelEvent, ModelFacts,
    ModelPrice, ModelRequest, ModelStream, RateLimit, ReplyEnd, ReplyInterruption, ReplyStart, SentOption,
    ThinkingDisplay, ThinkingMode, ToolChoice, ToolDef, TruncatedCall, check_model_name, effort_from_env,
    model_for_phase,
};
pub use op::{
    InterruptOutcome, MentionScope, Op, OpReply, PromptOrigin, PromptTiming, RewindMode, RewindOutcome, RewoundFile,
    SubmittedPrompt,
};
pub use permission_mode::PermissionMode;
pub use prompt_history::PromptHistoryEntry;
pub use protected_names::{PROTECTED_NAMES, ProtectedName};
pub use result_content::{ContentPart, MediaSource, ResultContent};
pub use sandbox::{NetworkAccess, SandboxSpec, SandboxViolation};
pub use secret::Secret;
pub use servers::{
    ServerIdentity, ServerRegistry, ServerRequest, ServerSetChange, ServerStatus, ServerTool, ServerView,
    provider_safe_name,
};
pub use session_handle::{ExitSignal, SessionHandle, SessionSnapshot};
pub use session_query::{
    AsideRequest, DirectoryRequester, FilePrefix, HookListing, PermissionRuleView, PermissionsView, SessionOverrides,
    SessionQuery, TaskOutputTail,
};
pub use startup_failure::StartupFailure;
pub use stop_reason::StopReason;
pub use usage::{ModelUsage, TokenUsage};
pub use view::{DiffHunk, TodoItem, TodoStatus, View};

/// The version string that programs written for the reference CLI test against.
pub const COMPAT_VERSION: &str = "2.1.325";
/// gimlet's own version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
