//! Tool servers: the only crate that knows the Model Context Protocol.
//!
//! A server's tools become external tools of the session, under the permission gate of every other tool. Data from a
//! server is untrusted: it is cut, converted and counted here, and never trusted where permission is concerned.

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

/// Estimated number of characters per token.
const CHARS_PER_TOKEN: usize = 4;
