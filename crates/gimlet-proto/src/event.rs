//! The one stream of events that every front end reads.
//!
//! No variant is named after a tool, and nothing here derives serde: what goes to disk and what goes over a public wire
//! are shapes of their own, each converted in one place.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::value::RawValue;

use crate::{
    AskId, AskView, Block, BlockKind, EntryId, ItemId, ModelError, ModelUsage, PermissionMode, PromptOrigin, RateLimit,
    ServerView, SessionId, StopReason, SuggestedChange, TokenUsage, ToolUseId, View,
};

/// Which agent of the session speaks: empty for the main conversation, else the tool call that spawned each level.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct AgentPath(pub Vec<ToolUseId>);

impl AgentPath {
    /// The call that spawned this agent; `None` in the main conversation.
    pub fn parent_tool_use(&self) -> Option<&ToolUseId> {
        self.0.last()
    }
}

/// One event.
#[derive(Clone, Debug)]
pub struct Event {
    /// Total order within a session.
    pub seq: u64,
    pub session: SessionId,
    pub agent: AgentPath,
    /// When it happened, as transcripts and wire show it (ISO 8601, UTC, milliseconds).
    pub at: Arc<str>,
    pub body: EventBody,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum EventBody {
    /// A turn is about to start in this configuration.
    TurnStarting(Arc<TurnSetup>),
    /// A prompt was accepted and is on disk.
    Prompt(AcceptedPrompt),
    /// What became of a prompt that came with an id of its own.
    PromptOutcome {
        /// The id that it came with.
        prompt: EntryId,
        outcome: PromptOutcome,
    },
    /// A request is about to be sent.
    Requesting,
    /// A block of the reply began.
    BlockStarted {
        item: ItemId,
        kind: BlockKind,
        name: Option<String>,
    },
    Delta(BlockDelta),
    /// Everything shown of the current reply is void; it will be asked for again.
    ReplyDiscarded,
    /// The provider's own event (only when asked for).
    Wire(Arc<RawValue>),
    /// A block of the reply is complete and on disk.
    Block(Box<AssistantBlock>),
    /// A tool call changed state.
    Tool(Box<ToolCallView>),
    /// A call's result is on disk.
    ToolFinished(Box<StoredToolResult>),
    /// A call was refused without asking anyone.
    Denied(Denial),
    Ask(Box<AskView>),
    AskClosed(AskId),
    /// A task began, went on or ended.
    Task(Box<TaskView>),
    Retry(RetryNotice),
    /// What the provider said about the account's limits; for diagnosis.
    RateLimits(Vec<RateLimit>),
    /// The provider's cache no longer holds what was sent before; for diagnosis.
    CacheBreak(Box<CacheBreak>),
    /// What was odd about the model's reply and did no harm.
    ReplyAnomalies(String),
    Notice(Notice),
    /// A hook began or ended.
    Hook(Box<HookView>),
    /// Decisions are taken in another mode from now on.
    ModeChanged(PermissionMode),
    /// The turn is over; everything of it is on disk.
    TurnEnded(Box<TurnReport>),
    /// The session is over; nothing follows.
    Closed,
}

impl EventBody {
    /// Whether readers care when it happened; streamed pieces come too often to ask the clock for each.
    pub fn has_timestamp(&self) -> bool {
        !matches!(self, EventBody::Delta(_) | EventBody::Wire(_))
    }
}

/// The configuration a turn runs in.
#[derive(Clone, Debug, Default)]
pub struct TurnSetup {
    pub cwd: PathBuf,
    pub model: String,
    pub mode: PermissionMode,
    pub tools: Vec<String>,
    pub servers: Vec<ServerView>,
    /// The kinds of subagents on offer.
    pub agents: Vec<String>,
    pub api_key_source: String,
}

/// A request whose beginning the provider had to read anew although it was sent before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheBreak {
    /// What is different from the request before; nothing when the entry ran out or was dropped.
    pub changed: Vec<String>,
    /// How long ago that was.
    pub idle_ms: u64,
}

/// An accepted prompt.
#[derive(Clone, Debug)]
pub struct AcceptedPrompt {
    pub uuid: EntryId,
    pub blocks: Vec<Block>,
    /// The prompt was given as one string (and is stored as one).
    pub plain: bool,
    /// Written by gimlet, not by a person.
    pub synthetic: bool,
    /// Who it comes from, when that is said.
    pub origin: Option<PromptOrigin>,
}

/// What becomes of a prompt that was sent to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptOutcome {
    /// It is part of the conversation.
    Accepted,
    /// It waited, and was withdrawn.
    Withdrawn,
    /// It was its turn, and it was not let in.
    Refused,
}

/// Text that belongs to a block under way.
#[derive(Clone, Debug)]
pub struct BlockDelta {
    pub item: ItemId,
    pub kind: DeltaKind,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeltaKind {
    Text,
    Thinking,
    Input,
}

/// A complete block of a reply.
#[derive(Clone, Debug)]
pub struct AssistantBlock {
    pub uuid: EntryId,
    pub message_id: String,
    pub model: String,
    pub request_id: Option<String>,
    pub block: Block,
    pub usage: TokenUsage,
    /// Cut by an interrupt.
    pub aborted: bool,
    /// Set on a message that gimlet wrote in place of a reply that never came.
    pub error: Option<ModelError>,
}

/// A tool call as people see it.
#[derive(Clone, Debug)]
pub struct ToolCallView {
    pub call: ToolUseId,
    /// The tool's name for people.
    pub name: String,
    /// One line about this call.
    pub summary: String,
    pub phase: ToolCallPhase,
}

#[derive(Clone, Debug)]
pub enum ToolCallPhase {
    Running,
    /// What it is doing now.
    Progress {
        text: String,
        elapsed_ms: u64,
    },
    Done {
        view: View,
        elapsed_ms: u64,
    },
    Failed {
        message: String,
        elapsed_ms: u64,
    },
}

/// A result, on disk.
#[derive(Clone, Debug)]
pub struct StoredToolResult {
    pub uuid: EntryId,
    pub call: ToolUseId,
    pub block: Block,
    /// The structured output that programs see.
    pub output: Arc<RawValue>,
}

/// A refused call.
#[derive(Clone, Debug)]
pub struct Denial {
    pub tool: String,
    pub call: ToolUseId,
    pub input: Arc<RawValue>,
    /// `rule`, `mode`, `unattended`, `user`, …
    pub origin: String,
    /// What the model was told.
    pub message: String,
    /// One line about the call, for people.
    pub summary: String,
    /// Why, in a few words.
    pub reason: String,
    /// The changes that together would have allowed it, where there are good ones.
    pub remedies: Vec<SuggestedChange>,
}

/// How a background task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    Running,
    Completed,
    Failed,
    Killed,
}

/// Work that has a life of its own: a command in the background, or a subagent anywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskView {
    pub id: String,
    /// `local_bash`, `local_agent`, …
    pub kind: &'static str,
    pub description: String,
    pub call: Option<ToolUseId>,
    pub state: TaskState,
    pub output_file: PathBuf,
    pub exit_code: Option<i32>,
    /// Nobody waits for it.
    pub backgrounded: bool,
    /// For subagents: what kind it is, what it was asked to do, and how many others stand between it and the main
    /// conversation, itself counted.
    pub subagent_type: Option<String>,
    pub prompt: Option<String>,
    pub depth: u32,
    pub progress: Option<TaskProgress>,
    /// One line about how it ended.
    pub summary: Option<String>,
}

/// How far a task has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskProgress {
    pub total_tokens: u64,
    pub tool_uses: u64,
    pub duration_ms: u64,
    pub last_tool: Option<String>,
    /// What it is doing now.
    pub description: String,
}

/// A request will be sent again.
#[derive(Clone, Debug)]
pub struct RetryNotice {
    pub attempt: u32,
    pub max: u32,
    pub delay_ms: u64,
    pub error: ModelError,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeLevel {
    /// For the debug log alone.
    Debug,
    Info,
    /// How things stand, for whoever would otherwise wonder.
    Status,
    Warning,
    Error,
}

/// A remark for the person.
#[derive(Clone, Debug)]
pub struct Notice {
    pub level: NoticeLevel,
    pub text: String,
}

/// One run of a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookView {
    /// Unique among the runs of a session.
    pub id: String,
    /// The event and what it was about: `PreToolUse:Bash`.
    pub name: String,
    /// The event's public name.
    pub event: String,
    pub phase: HookPhase,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookPhase {
    Started,
    Finished {
        stdout: String,
        stderr: String,
        /// What it answered, or why it did not.
        output: String,
        /// For hooks that are processes.
        exit_code: Option<i32>,
        outcome: HookOutcome,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookOutcome {
    Success,
    Error,
    /// Withdrawn, or out of time.
    Cancelled,
}

/// How a turn ended.
#[derive(Clone, Debug)]
pub enum TurnEnd {
    Completed,
    Failed(ModelError),
    MaxTurns(u32),
    /// The session has cost this many dollars or more.
    Budget(f64),
    /// Interrupted while the model spoke (`false`) or while tools ran or waited (`true`).
    Aborted {
        in_tools: bool,
    },
    Refused {
        explanation: Option<String>,
    },
    /// The model did not give its answer in the form that was asked for, this many times.
    StructuredOutputRetries(u32),
    /// A hook did not let the turn go on.
    HookStopped,
    /// A hook that looks at the end of turns wanted this one to end here.
    StopHookPrevented,
    /// A hook left this call for later; it has no result yet.
    Deferred {
        call: ToolUseId,
        tool: String,
        input: Arc<RawValue>,
    },
    /// A call that was left for later cannot run any more: there is no such tool now.
    DeferredUnavailable {
        tool: String,
    },
    /// The prompt could not be sent with what is there already; nothing of it is kept.
    PromptUnusable {
        reason: String,
        because: PromptDefect,
    },
    /// A hook did not let the prompt in; nothing of it is kept.
    PromptBlocked {
        reason: String,
    },
    /// gimlet itself ended the turn.
    Stopped {
        reason: String,
        because: StopCause,
    },
}

/// Why gimlet itself ends a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopCause {
    /// The model repeated one call without effect.
    RepeatedCalls,
    /// Something panicked.
    InternalError,
}

/// What about a prompt could not be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptDefect {
    Images,
    Length,
    /// It has a part that makes no sense where the conversation is.
    Misplaced,
}

/// The sum of a turn.
#[derive(Clone, Debug)]
pub struct TurnReport {
    pub end: TurnEnd,
    /// The last text the model wrote in this turn.
    pub text: String,
    pub stop_reason: Option<StopReason>,
    pub num_turns: u32,
    pub duration_ms: u64,
    pub api_ms: u64,
    /// Tokens of this turn's requests.
    pub usage: TokenUsage,
    /// That of the last reply alone.
    pub last_usage: Option<TokenUsage>,
    /// Since the process started.
    pub total_cost_usd: Option<f64>,
    pub by_model: Vec<ModelUsage>,
    pub denials: Vec<Denial>,
    /// Who the turn's prompt came from, when that was said.
    pub origin: Option<PromptOrigin>,
    /// Prompts that wait for their own turn.
    pub queued: usize,
    /// The answer in the form that was asked for; `text` is its JSON then.
    pub structured_output: Option<Arc<RawValue>>,
}
