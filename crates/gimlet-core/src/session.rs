//! A session: its state and the actor that owns it.

mod actor;
mod desk;
mod inquiries;
mod state;

pub use actor::{SessionConfig, open};
pub use state::{ModeWish, SessionState};
