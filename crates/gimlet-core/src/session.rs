//! A session: its state and the actor that owns it.

mod actor;
mod op_handler;
mod open;
mod queries;
mod session_namer;
mod session_state;
mod shutdown;

pub use open::{SessionConfig, open};
pub(crate) use session_namer::SessionNamer;
pub use session_state::{ModeChangeRequest, SessionState};
