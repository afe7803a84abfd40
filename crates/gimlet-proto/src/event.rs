//! The one stream of events that every front end reads.
//!
//! No variant is named after a tool, and nothing here derives serde: what goes to disk and what goes over a public wire
//! are shapes of their own, each converted in one place.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::value::RawValue;

use crate::{
    AskId, AskView, Block, BlockKind, CompactionView, EntryId, ItemId, ModelError, ModelUsage, PermissionMode,
    PromptOrigin, RateLimit, ServerView, SessionId, StopReason, SuggestedChange, TokenUsage, ToolUseId, View,
};

/// Path of the agent within the session: empty for the main conversation, else the tool call that spawned each level.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct AgentPath(pub Vec<ToolUseId>);

impl AgentPath {
    /// Returns the call that spawned this agent; `None` in the main conversation.
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

/// Content of an event.
#[derive(Clone, Debug)]
pub enum EventBody {
    /// A turn is about to start in this configuration.
    TurnStarting(Arc<TurnSetup>),
    /// A prompt was accepted and is on disk.
    Prompt(AcceptedPrompt),
    /// Outcome of a prompt that was submitted with its own id.
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
    /// Everything shown of the current reply is void; the request will be retried.
    ReplyDiscarded,
    /// The provider's own event (only on request).
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
    /// The account's rate limits as the provider reported them; for diagnosis.
    RateLimits(Vec<RateLimit>),
    /// The provider's cache no longer contains what was sent before; for diagnosis.
    CacheBreak(Box<CacheBreak>),
    /// Harmless anomalies of the model's reply.
    ReplyAnomalies(String),
    Notice(Notice),
    /// A hook began or ended.
    Hook(Box<HookView>),
    /// A compaction began, succeeded or failed.
    Compaction(Box<CompactionView>),
    /// A command answered without a request.
    CommandReply(CommandReply),
    /// A prompt has the form of a command that does not exist; it is sent as it is.
    UnknownCommand {
        name: String,
        /// Similar names, the closest first.
        nearest: Vec<String>,
    },
    /// Decisions are taken in another mode from now on.
    ModeChanged(PermissionMode),
    /// The turn is over; everything of it is on disk.
    TurnEnded(Box<TurnReport>),
    /// The session is over; nothing follows.
    Closed,
}

impl EventBody {
    /// Returns true if the event carries a timestamp; streamed pieces are too frequent to read the clock for each.
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
    /// Names and aliases of the slash commands.
    pub slash_commands: Vec<String>,
    /// Names of the skills, without commands.
    pub skills: Vec<String>,
    pub api_key_source: String,
}

/// A request whose prefix the provider had to process again although it was sent before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheBreak {
    /// Differences from the previous request; empty when the entry expired or was evicted.
    pub changed: Vec<String>,
    /// Time since that request.
    pub idle_ms: u64,
}

/// An accepted prompt.
#[derive(Clone, Debug)]
pub struct AcceptedPrompt {
    pub uuid: EntryId,
    pub blocks: Vec<Block>,
    /// The prompt was given as one string (and is stored as one).
    pub plain: bool,
    /// Written by gimlet, not by the user.
    pub synthetic: bool,
    /// Origin of the prompt, if known.
    pub origin: Option<PromptOrigin>,
}

/// Outcome of a prompt that was sent to a session.
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

/// A tool call as displayed to the user.
#[derive(Clone, Debug)]
pub struct ToolCallView {
    pub call: ToolUseId,
    /// The tool's display name.
    pub name: String,
    /// One line about this call.
    pub summary: String,
    pub phase: ToolCallPhase,
}

#[derive(Clone, Debug)]
pub enum ToolCallPhase {
    Running,
    /// Current activity.
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
        view: View,
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
    /// Message that the model received.
    pub message: String,
    /// One-line summary of the call, for display.
    pub summary: String,
    /// Reason, in a few words.
    pub reason: String,
    /// The changes that together would have allowed it, if there are suitable ones.
    pub remedies: Vec<SuggestedChange>,
    /// The call as displayed to the user.
    pub view: View,
}

/// State of a background task.
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
    /// Call of the subagent that started it; `None` for the main conversation.
    pub parent: Option<ToolUseId>,
    pub state: TaskState,
    pub output_file: PathBuf,
    pub exit_code: Option<i32>,
    /// True if no caller waits for it.
    pub backgrounded: bool,
    /// For subagents: the type, the task, and the nesting depth below the main conversation, itself counted.
    pub subagent_type: Option<String>,
    pub prompt: Option<String>,
    pub depth: u32,
    pub progress: Option<TaskProgress>,
    /// One line about how it ended.
    pub summary: Option<String>,
}

/// Progress of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskProgress {
    pub total_tokens: u64,
    pub tool_uses: u64,
    pub duration_ms: u64,
    pub last_tool: Option<String>,
    /// Current activity.
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
    /// Status information.
    Status,
    Warning,
    Error,
}

/// A notice for the user.
#[derive(Clone, Debug)]
pub struct Notice {
    pub level: NoticeLevel,
    pub text: String,
}

/// Output of a command that sent no request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandReply {
    /// Name of the command, without the slash.
    pub name: String,
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
        /// The output, or the reason why there is none.
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

/// Outcome of a turn.
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
    /// The model did not answer in the requested form, this many times.
    StructuredOutputRetries(u32),
    /// A hook did not let the turn go on.
    HookStopped,
    /// A stop hook ended the turn here.
    StopHookPrevented,
    /// A hook left this call for later; it has no result yet.
    Deferred {
        call: ToolUseId,
        tool: String,
        input: Arc<RawValue>,
    },
    /// A deferred call cannot run any more: the tool no longer exists.
    DeferredUnavailable {
        tool: String,
    },
    /// The prompt could not be sent with the conversation so far; nothing of it is kept.
    PromptUnusable {
        reason: String,
        because: PromptDefect,
    },
    /// A hook did not let the prompt in; nothing of it is kept.
    PromptBlocked {
        reason: String,
    },
    /// A command answered in place of the model, or failed with this message.
    Command {
        error: Option<String>,
    },
    /// gimlet itself ended the turn.
    Stopped {
        reason: String,
        because: StopCause,
    },
}

/// Reason why gimlet itself ends a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopCause {
    /// The model repeated one call without effect.
    RepeatedCalls,
    /// The context window filled again right after each of several compactions.
    RapidRefill,
    /// The session reached its limit of tokens, or of time.
    TokenLimit,
    TimeLimit,
    /// Something panicked.
    InternalError,
}

/// Reason why a prompt could not be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptDefect {
    Images,
    Length,
    /// It has a part that is invalid at this point of the conversation.
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
    /// Origin of the turn's prompt, if known.
    pub origin: Option<PromptOrigin>,
    /// Prompts that wait for their own turn.
    pub queued: usize,
    /// The answer in the requested form; `text` is its JSON then.
    pub structured_output: Option<Arc<RawValue>>,
}
