//! Subagents: other conversations of the same session, each with its own prompt, tools, model and transcript.
//!
//! They run through the one loop and the one gate. What they leave behind is their report and their transcript; nothing
//! that they did to their working directory or know of files reaches whoever sent them.

mod agent_run;
mod agent_runtime;
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

pub(crate) use agent_runtime::{AgentRuntime, AgentRuntimeParts};
pub(crate) use identity::AgentIdentity;
pub use launch::{AgentLaunch, AgentReport, LaunchOutcome};
pub(crate) use mailbox::AgentMailboxes;
pub use messages::{AgentMessage, MessageDelivery};
pub(crate) use resume::LAUNCHER;
pub use roster::{AgentRoster, AgentSource, MainAgent};
pub(crate) use stall::ActivityClock;
