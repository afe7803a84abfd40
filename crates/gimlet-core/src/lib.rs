//! Core of gimlet: the session actor, the turn loop, the scheduler, the gate and the tool contract.
//!
//! It has no knowledge of a terminal, HTTP, a wire protocol, or any tool by name. Front ends use it through
//! `gimlet_proto::SessionHandle`; tools use it through [`tool::ToolContext`].

mod agents;
mod aside;
mod backgrounding;
mod call;
mod call_result;
mod checkpoints;
pub mod commands;
mod compaction;
mod confinement;
mod context;
mod context_usage;
mod conversation;
pub mod files;
mod gate;
mod history;
mod hooks;
mod image_fitting;
mod mentions;
mod model_selection;
mod panics;
mod past_calls;
mod plan_mode;
pub mod prompt_tags;
mod record;
mod redact;
mod repeated_failures;
mod reply;
mod sandbox;
mod schedule;
mod segment_context;
mod services;
mod session;
mod skills;
mod spending;
mod steering;
mod structured_output;
pub mod tasks;
pub mod text_diff;
pub mod tool;
mod turn;
mod usage_ledger;
mod write_barrier;

pub use agents::{
    AgentKind, AgentLaunch, AgentMemoryFolders, AgentMessage, AgentReport, AgentRoster, AgentSource, LaunchOutcome,
    LiveAgentRoster, MainAgent, MessageDelivery, render_agent_list, tool_entries,
};
pub use backgrounding::BackgroundingGuard;
pub use compaction::CompactionPolicy;
pub use confinement::SessionConfinement;
pub use context::{
    BUILT_IN_STYLES, BuiltInStyle, DEFAULT_STYLE, LiveOutputStyle, PromptStyle, SystemPrompt, compacted_tool_defs,
    offered_schema, system_blocks, tool_defs, tools_from_json, tools_to_json, with_compacted_tools,
};
pub use conversation::PromptSegment;
pub use gate::{
    ChangedSettings, DiskFileView, EffectivePermissions, HostPermit, PermissionConfig, Permit, PolicyCall, PolicyInput,
    ReviewConfig, ReviewRules, SandboxUpdate, SettingsOrigin, SettingsSource, UserAsker,
};
pub use gimlet_git::git_branch;
pub use gimlet_store::{ContextPartKind, ContextPartSource, SegmentContextPart};
pub use history::read_history;
pub use hooks::{
    HandlerAnswer, HandlerCall, HandlerError, HandlerReport, HookEntry, HookEvent, HookFailurePolicy, HookHandler,
    HookMatcher, HookMatcherError, HookOwner, HookRegistry, HookSession, HookTrial, HookTrialRun, ModelHook,
    ServerToolHook, SetupTrigger, StartSource, check_driver_hooks, try_hooks,
};
pub use image_fitting::{FittedImagePart, ImageFitter};
pub use panics::note_panic;
pub use past_calls::PastCalls;
pub use plan_mode::PlanConfig;
pub use record::ConversationRecord;
pub use redact::{Redactor, mask_tokens};
pub use sandbox::{CallSandbox, CommandGuard, CommandGuardState, GuardedCommandEnd, SessionSandbox, SettingsFiles};
pub use schedule::concurrency_limit;
pub use segment_context::{
    DeliveredContext, SegmentAgent, SegmentContextRequest, SegmentContextSource, SegmentContextUpdate,
};
pub use services::{ProcessAccess, SessionServices, SessionShared};
pub use session::{
    AgentConfig, DriverConfig, FileConfig, HistoryConfig, ModelConfig, SessionConfig, SessionState, ToolConfig,
    TurnConfig, open,
};
pub use skills::{LiveSkillSet, SessionSkill, SkillCommand, SkillLoad, SkillSet, SkillSource};
pub use spending::SpendingLimits;
pub use structured_output::{OutputSchema, OutputSchemaError};
pub use turn::{TurnOptions, max_turns};
pub use write_barrier::{DurableBarrier, DurableSignal, NotDurableError};
