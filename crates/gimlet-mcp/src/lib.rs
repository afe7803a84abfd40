//! Tool servers: the only room that knows the Model Context Protocol.
//!
//! A server's tools become guests of the session, under the same gate as every other tool. What a server sends is
//! somebody else's text: it is cut, mapped and counted here, and never believed where permission is concerned.

mod admission;
mod channel;
mod client;
mod config;
mod effort;
mod listing;
mod naming;
mod outcome;
mod policies;
mod schema;
mod server;
mod servers;
mod text;

pub use admission::{Admission, ServerMatch};
pub use config::{ConfigError, ServerConfig, servers_in};
pub use naming::tool_name;
pub use servers::{McpServers, Origin, Timeouts};

/// How answers are counted.
const CHARS_PER_TOKEN: usize = 4;
