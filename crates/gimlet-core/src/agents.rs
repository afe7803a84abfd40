//! Subagents: other conversations of the same session, each with its own prompt, tools, model and transcript.
//!
//! They run through the one loop and the one gate. What they leave behind is their report and their transcript; nothing
//! that they did to their working directory or know of files reaches whoever sent them.

mod roster;

pub use roster::{AgentSource, Roster};
