//! Subagents: other conversations of the same session, each with its own prompt, tools, model and transcript.
//!
//! They run through the one loop and the one gate. What they leave behind is their report and their transcript; nothing
//! that they did to their working directory or know of files reaches whoever sent them.

mod host;
mod identity;
mod launch;
mod letters;
mod mailbox;
mod outset;
mod pulse;
mod report;
mod resume;
mod roster;
mod running;
mod toolbox;

pub(crate) use host::{AgentHost, HostParts};
pub(crate) use identity::AgentIdentity;
pub use launch::{AgentReport, Launch, Launched};
pub use letters::{Letter, Sent};
pub(crate) use mailbox::Mailboxes;
pub(crate) use pulse::Pulse;
pub(crate) use resume::LAUNCHER;
pub use roster::{AgentSource, MainAgent, Roster};
