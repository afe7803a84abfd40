//! Front ends for programs: print mode with its three output formats, and the protocol for driving a session.
//!
//! A front end holds a `SessionHandle`, reads the event stream and writes to the writer it received. It knows no tool,
//! makes no decisions and never touches the session's state.

mod debug_log;
mod event_watcher;
mod line_output;
mod piped_input;
pub mod print;
pub mod sdk;
mod wire;

pub use debug_log::{LogFilter, SecretMask, write_log};
pub use event_watcher::{ColourMode, EventWatcher};
pub use gimlet_text::sanitise;
pub use line_output::{LineOutput, OutputEnd};
pub use piped_input::{InitialInput, InputTimeouts, PipedInput, StdinError};
pub use wire::{InitFacts, startup_failure_line};
