//! `/mcp`: how the servers of the session stand, what they offer, and connecting, turning on and off.

use std::sync::Weak;

use gimlet_core::commands::{CommandContext, CommandOutput, SlashCommand, text_table};
use gimlet_proto::{BoxFuture, ServerRegistry, ServerStatus, ServerView};

use crate::server_text::sanitize_label;
use crate::servers::McpServers;

const USAGE: &str = "use /mcp, /mcp NAME, /mcp reconnect NAME, /mcp enable NAME or /mcp disable NAME";

/// The command `/mcp`.
pub struct McpSlashCommand {
    servers: Weak<McpServers>,
}

impl McpSlashCommand {
    pub(crate) fn new(servers: Weak<McpServers>) -> Self {
        Self { servers }
    }

    /// Returns the command of a session without servers.
    pub fn without_servers() -> Self {
        Self { servers: Weak::new() }
    }
}

impl SlashCommand for McpSlashCommand {
    fn name(&self) -> &str {
        "mcp"
    }

    fn description(&self) -> &str {
        "Show the MCP servers of this session, or connect one again"
    }

    fn argument_hint(&self) -> &str {
        "[name]"
    }

    fn run<'a>(&'a self, args: &'a str, _cx: &'a CommandContext) -> BoxFuture<'a, Result<CommandOutput, String>> {
        Box::pin(async move {
            let Some(servers) = self.servers.upgrade() else {
                return Ok(CommandOutput::Text(
                    "This session has no MCP servers. Add one with: gimlet mcp add".to_owned(),
                ));
            };
            let words: Vec<&str> = args.split_whitespace().collect();
            let text = match words.as_slice() {
                [] => render_servers(&servers.list()),
                ["reconnect", name] => {
                    servers.reconnect(name).await?;
                    render_server(&find_server(&servers.list(), name)?)
                }
                ["enable", name] => {
                    servers.set_enabled(name, true).await?;
                    render_server(&find_server(&servers.list(), name)?)
                }
                ["disable", name] => {
                    servers.set_enabled(name, false).await?;
                    format!("The MCP server '{name}' is turned off for this session.")
                }
                [name] => render_server(&find_server(&servers.list(), name)?),
                _ => return Err(USAGE.to_owned()),
            };
            Ok(CommandOutput::Text(text))
        })
    }
}

fn find_server(servers: &[ServerView], name: &str) -> Result<ServerView, String> {
    let found = servers.iter().find(|server| server.name == name).cloned();
    found.ok_or_else(|| {
        let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
        format!("there is no MCP server named '{name}'; there are {}; {USAGE}", names.join(", "))
    })
}

fn render_servers(servers: &[ServerView]) -> String {
    if servers.is_empty() {
        return "This session has no MCP servers. Add one with: gimlet mcp add".to_owned();
    }
    let rows: Vec<Vec<String>> = servers.iter().map(server_row).collect();
    text_table(&rows, false)
}

fn server_row(server: &ServerView) -> Vec<String> {
    let detail = match (server.status, &server.error) {
        (ServerStatus::Connected, _) => match server.tools.len() {
            1 => "1 tool".to_owned(),
            count => format!("{count} tools"),
        },
        (_, Some(error)) => error.clone(),
        (_, None) => String::new(),
    };
    vec![server.name.clone(), server.source.to_owned(), server.status.as_str().to_owned(), detail]
}

fn render_server(server: &ServerView) -> String {
    let mut lines = vec![server_row(server).join("  ").trim_end().to_owned()];
    if let Some((name, version)) = &server.info {
        lines.push(format!("  {} {}", sanitize_label(name), sanitize_label(version)));
    }
    for tool in &server.tools {
        let said = tool.description.as_deref().map(sanitize_label).unwrap_or_default();
        lines.push(format!("  {}  {said}", sanitize_label(&tool.name)).trim_end().to_owned());
    }
    lines.join("\n")
}
