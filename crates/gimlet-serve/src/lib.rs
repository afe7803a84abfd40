//! The machine front ends: print mode with its three output formats, and the protocol by which programs drive a session.
//!
//! A front end holds a `SessionHandle`, reads the one event stream and writes to the writer it was given. It knows no
//! tool, decides nothing and never touches the session's state.

mod debug_log;
pub mod print;
pub mod sdk;
mod stdin;
mod watch;
mod wire;
mod writer;

pub use debug_log::{Filter, Mask, write_log};
pub use gimlet_proto::sanitise;
pub use stdin::{Feed, Patience, PipedInput, StdinError};
pub use watch::{Colour, Watcher};
pub use wire::{Face, StartupFailure, startup_failure};
pub use writer::{Output, OutputEnd};
