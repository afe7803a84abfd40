//! Subagents: further conversations of one session, each with its own prompt, tools, model and transcript.
//!
//! They run through the shared loop and the shared gate. Their only results are a report and a transcript; no change
//! of their working directory or of their knowledge of files reaches the sender.

mod agent_list;
mod agent_memory;
mod agent_run;
mod agent_runtime;
mod hook_agent;
mod identity;
mod launch;
mod mailbox;
mod messages;
mod report;
mod resume;
mod roster;
mod spawn;
mod stall;
mod tool_selection;

pub(crate) use agent_list::AnnouncedAgents;
pub(crate) use agent_list::announce_agent_changes;
pub use agent_list::render_agent_list;
pub use agent_memory::AgentMemoryFolders;
pub(crate) use agent_runtime::{AgentRuntime, AgentRuntimeParts};
pub(crate) use hook_agent::{HOOK_AGENT, run_hook_agent};
pub(crate) use identity::AgentIdentity;
pub use launch::{AgentLaunch, AgentReport, LaunchOutcome};
pub(crate) use mailbox::AgentMailboxes;
pub(crate) use messages::deliver_user_message;
pub use messages::{AgentMessage, MessageDelivery};
pub(crate) use resume::LAUNCHER;
pub use roster::{AgentKind, AgentRoster, AgentSource, LiveAgentRoster, MainAgent};
pub(crate) use stall::ActivityClock;
pub use tool_selection::tool_entries;
