//! A session: its state and the actor that owns it.

mod actor;
mod desk;
mod ending;
mod inquiries;
mod naming;
mod open;
mod state;

pub(crate) use naming::Naming;
pub use open::{SessionConfig, open};
pub use state::{ModeWish, SessionState};
