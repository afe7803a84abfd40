//! Tool servers: the only crate that knows the Model Context Protocol.
//!
//! A server's tools become external tools of the session, under the permission gate of every other tool. Data from a
//! server is untrusted: it is cut, converted and counted here, and never trusted where permission is concerned.

mod admission;
mod binary_files;
mod call_result;
mod connection;
mod driver_channel;
mod http_endpoint;
mod input_schema;
mod mcp_command;
mod observed_transport;
mod prompt_commands;
mod resource_tools;
mod schema_cost;
mod server_call;
mod server_client;
mod server_config;
mod server_launcher;
mod server_signals;
mod server_text;
mod servers;
mod sse_transport;
mod stdio_transport;
mod tool_listing;
mod tool_names;
mod tool_policies;
mod variable_expansion;

pub use admission::{ServerAdmission, ServerMatch};
pub use mcp_command::McpSlashCommand;
pub use server_config::{
    EntryContext, ParsedServers, RemoteServer, RemoteTransport, ServerConfig, ServerConfigError, ServerKind,
    ServerSource, StdioServer, parse_server_entries, parse_servers,
};
pub use server_launcher::ServerLauncher;
pub use servers::{McpServers, ServerOrigin, ServerTimeouts, StartupWait};
pub use tool_names::tool_name;
pub use variable_expansion::VariableExpander;

/// Estimated number of characters per token.
const CHARS_PER_TOKEN: usize = 4;
