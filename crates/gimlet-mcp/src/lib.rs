//! Tool servers: the only room that knows the Model Context Protocol.
//!
//! A server's tools become guests of the session, under the same gate as every other tool. What a server sends is
//! somebody else's text: it is cut, mapped and counted here, and never believed where permission is concerned.

mod admission;
mod call_result;
mod connection;
mod driver_channel;
mod elicitation;
mod input_schema;
mod schema_cost;
mod server_config;
mod server_text;
mod servers;
mod tool_listing;
mod tool_names;
mod tool_policies;

pub use admission::{ServerAdmission, ServerMatch};
pub use server_config::{ServerConfig, ServerConfigError, parse_servers};
pub use servers::{McpServers, ServerOrigin, ServerTimeouts};
pub use tool_names::tool_name;

/// How answers are counted.
const CHARS_PER_TOKEN: usize = 4;
