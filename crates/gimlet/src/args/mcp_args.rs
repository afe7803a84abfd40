//! Arguments of `gimlet mcp`.

use clap::{Args, Subcommand, ValueEnum};

#[derive(Subcommand, Debug)]
pub(crate) enum McpCommand {
    /// Add a server: a program, or an address
    #[command(
        after_help = "Examples:\n  gimlet mcp add files -- npx -y @modelcontextprotocol/server-filesystem .\n  gimlet mcp add -e API_KEY=abc search -- ./search-server --stdio\n  gimlet mcp add --transport http docs https://docs.example/mcp -H \"X-Team: core\"\n  gimlet mcp add --scope project shared -- ./tools/server\n\nScopes: local for you in this project (the default), user for you everywhere, project for everyone who works on it."
    )]
    Add(McpAddArgs),
    /// Add a server by its entry as JSON
    #[command(
        after_help = "Example:\n  gimlet mcp add-json weather '{\"type\":\"http\",\"url\":\"https://weather.example/mcp\"}'"
    )]
    AddJson(McpAddJsonArgs),
    /// Connect every configured server and show how each stands
    List {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Show one server: scope, file, entry, and whether it can be connected
    Get {
        name: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Remove a server
    Remove {
        name: String,
        /// Scope to remove it from, if several have it
        #[arg(long, short, value_enum)]
        scope: Option<McpScopeFlag>,
    },
    /// Forget which servers of .mcp.json were approved and refused
    ResetProjectChoices,
}

/// Scope that can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum McpScopeFlag {
    Local,
    Project,
    User,
}

/// Transport of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum McpTransportFlag {
    Stdio,
    Http,
    Sse,
}

#[derive(Args, Debug)]
pub(crate) struct McpAddArgs {
    /// stdio for a program (the default), http or sse for an address
    #[arg(long, short, value_enum)]
    pub(crate) transport: Option<McpTransportFlag>,
    /// Where the server is written
    #[arg(long, short, value_enum, default_value = "local")]
    pub(crate) scope: McpScopeFlag,
    /// Variables for the program
    #[arg(long, short, value_name = "NAME=VALUE", num_args = 1..)]
    pub(crate) env: Vec<String>,
    /// Headers for the address
    #[arg(long, short = 'H', value_name = "NAME: VALUE", num_args = 1..)]
    pub(crate) header: Vec<String>,
    /// Name of the server, then its program with arguments, or its address
    #[arg(value_name = "NAME COMMAND_OR_URL")]
    pub(crate) words: Vec<String>,
}

#[derive(Args, Debug)]
pub(crate) struct McpAddJsonArgs {
    /// Where the server is written
    #[arg(long, short, value_enum, default_value = "local")]
    pub(crate) scope: McpScopeFlag,
    pub(crate) name: String,
    /// The entry
    pub(crate) json: String,
}
