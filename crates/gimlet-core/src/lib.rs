//! The brain: the session actor, the turn loop, the scheduler, the gate and the tool contract.
//!
//! It knows no terminal, no HTTP and no wire protocol, and no tool by name. Front ends see it through
//! `gimlet_proto::SessionHandle`; tools see it through [`tool::ToolContext`].

mod agents;
mod call;
mod checkpoints;
mod confining;
mod context;
mod context_usage;
mod conversation;
mod dials;
pub mod files;
mod gate;
mod hooks;
mod ledger;
pub mod marks;
mod mentions;
mod movable;
mod panics;
mod past;
mod plans;
mod record;
mod recorded;
mod redact;
mod repeats;
mod reply;
mod results;
mod sandboxing;
mod schedule;
mod services;
mod session;
mod steering;
mod structured;
pub mod tasks;
pub mod tool;
mod turn;

pub use agents::{AgentReport, AgentSource, Launch, Launched, Letter, MainAgent, Roster, Sent};
pub use confining::Confining;
pub use context::{SystemPrompt, git_branch, offered_schema, system_blocks, tool_defs, tools_from_json, tools_to_json};
pub use gate::{
    ChangedSettings, Judged, Judging, Leave, LiveSettings, OnDisk, Permissions, Permit, Review, ReviewRules,
    SandboxNow, SettingsNow, SettingsSource,
};
pub use hooks::{
    HandlerAnswer, HandlerCall, HandlerError, HandlerReport, HookEntry, HookEvent, HookHandler, Hooks, Matcher,
    MatcherError, OnTrouble, StartSource, check_driver_hooks,
};
pub use movable::Moving;
pub use panics::note_panic;
pub use past::PastCalls;
pub use plans::Plans;
pub use record::Record;
pub use recorded::{NotRecorded, Recorded, Recording};
pub use redact::{Redactor, mask_tokens};
pub use sandboxing::{Behind, Sandboxing, SettingsFiles, Watch, WatchState, WatchedEnd};
pub use schedule::concurrency;
pub use services::{Processes, Services};
pub use session::{SessionConfig, SessionState, open};
pub use structured::{OutputSchema, OutputSchemaError};
pub use turn::TurnOptions;
