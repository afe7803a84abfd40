//! A session: its state and the actor that owns it.

mod actor;
mod command_turn;
mod compaction_turn;
mod op_handler;
mod open;
mod queries;
mod session_config;
mod session_namer;
mod session_state;
mod shutdown;

pub use open::open;
pub use session_config::{
    AgentConfig, DriverConfig, FileConfig, HistoryConfig, ModelConfig, SessionConfig, ToolConfig, TurnConfig,
};
pub(crate) use session_namer::SessionNamer;
pub use session_state::{ModeChangeRequest, SessionState};
