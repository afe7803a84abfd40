//! The sub-commands and their arguments.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use clap_complete::Shell;
use gimlet_proto::PermissionMode;

use super::{McpCommand, PluginCommand, SessionsCommand};

#[derive(Subcommand, Debug)]
pub(crate) enum CliCommand {
    /// Watch gimlet find a bug, fix it and run the tests (no API key, no network)
    Demo,
    /// Show why each call of a session was allowed or refused
    Why(WhyArgs),
    /// Print detailed version information
    Version,
    /// List, show, rename, tag, delete, export, check and search sessions
    Sessions {
        #[command(subcommand)]
        command: SessionsCommand,
    },
    /// Show which text of which file the model had in each turn of a session, and why
    #[command(
        after_help = "Examples:\n  gimlet context               the newest session of this directory\n  gimlet context 1a2b --full   with the texts\n\nThis is about memory and lists in front of the conversation; 'gimlet sessions show' shows the conversation."
    )]
    Context(ContextArgs),
    /// Show what sessions have cost, by day, session or model
    #[command(
        after_help = "Examples:\n  gimlet cost                    the last days with costs\n  gimlet cost --day              the sessions of today\n  gimlet cost --project --day    those of this directory\n  gimlet cost --session 1a2b     one session, by model and purpose\n\nCosts are counted when a request is answered, by the prices of that moment. They go when their session is removed."
    )]
    Cost(CostArgs),
    /// Check what permission rules decide, without running anything
    Permissions {
        #[command(subcommand)]
        command: PermissionsCommand,
    },
    /// Run a command in this directory's sandbox, or describe that sandbox (Linux)
    Sandbox {
        #[command(subcommand)]
        command: SandboxCommand,
    },
    /// Show and change settings
    #[command(
        after_help = "Examples:\n  gimlet config list                                      all settings, with their files\n  gimlet config set model opus                            in your user settings\n  gimlet config add permissions.allow 'Bash(npm test)'    add an entry to a list\n  gimlet config set env.CI 1 --scope local                only for you, only in this project\n\nScopes: user applies to you everywhere, local to you in this project, project to everyone who works on it."
    )]
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Show or reset the rules of auto mode
    AutoMode {
        #[command(subcommand)]
        command: AutoModeCommand,
    },
    /// Review the project settings of this directory, and trust them
    #[command(
        long_about = "Review the project settings of this directory, and trust them.\n\nWithout --yes nothing is recorded: every item that needs trust is listed with its file and digest. With --yes the current content is accepted; an item that changes later needs trust again.",
        after_help = "Examples:\n  gimlet trust                 what waits for trust in this folder\n  gimlet trust --yes           accept it as it is now\n  gimlet trust --revoke ../x   forget what was accepted of another folder"
    )]
    Trust(TrustArgs),
    /// Add, list and remove MCP servers
    Mcp {
        #[command(subcommand)]
        command: McpCommand,
    },
    /// List and check plugins
    #[command(visible_alias = "plugins")]
    Plugin {
        #[command(subcommand)]
        command: PluginCommand,
    },
    /// List the hooks of settings, or try them out
    Hooks {
        #[command(subcommand)]
        command: HooksCommand,
    },
    /// Check settings, trust and required programs (exits with 1 on problems)
    Doctor {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Print a shell completion script
    #[command(
        after_help = "Examples:\n  gimlet completions bash > ~/.local/share/bash-completion/completions/gimlet\n  gimlet completions zsh > ~/.zfunc/_gimlet        # with ~/.zfunc in $fpath\n  gimlet completions fish > ~/.config/fish/completions/gimlet.fish"
    )]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write man pages, one for each command, into a directory
    #[command(hide = true, after_help = "Example:\n  gimlet man-pages ~/.local/share/man/man1")]
    ManPages {
        /// Directory to write to; it is created if it does not exist
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
    /// Tools for developing gimlet and for testing against it
    Dev {
        #[command(subcommand)]
        command: DevCommand,
    },
}

#[derive(Args, Debug)]
pub(crate) struct TrustArgs {
    /// The directory (default: the current one)
    #[arg(value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
    /// Show pending and accepted items (default)
    #[arg(long, conflicts_with_all = ["yes", "revoke"])]
    pub(crate) show: bool,
    /// Accept everything that the directory contains now
    #[arg(short = 'y', long)]
    pub(crate) yes: bool,
    /// Revoke everything that was accepted for the directory
    #[arg(long, conflicts_with = "yes")]
    pub(crate) revoke: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Subcommand, Debug)]
pub(crate) enum HooksCommand {
    /// List every hook of the settings files, and whether it runs
    List {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Call the hooks that match an event, and show what would follow
    #[command(
        long_about = "Call the hooks that match an event, and show what would follow.\n\nThe hooks really run, with an invented input for the event or that of --input; what they decide has no effect. Hooks that wait for trust are not called.",
        after_help = "Examples:\n  gimlet hooks test PreToolUse --tool Bash\n  gimlet hooks test PreToolUse --input call.json      for {\"tool_name\": …, \"tool_input\": {…}}\n  echo '{\"prompt\":\"deploy\"}' | gimlet hooks test UserPromptSubmit --input -"
    )]
    Test(HooksTestArgs),
}

#[derive(Args, Debug)]
pub(crate) struct HooksTestArgs {
    /// The event, such as PreToolUse
    #[arg(value_name = "EVENT")]
    pub(crate) event: String,
    /// Tool of the call, for events about calls
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,
    /// File with members of the input, as a JSON object; - for standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Subcommand, Debug)]
pub(crate) enum PermissionsCommand {
    /// Show how a tool call would be decided, without running it
    #[command(
        after_help = "Exit codes: 0 allow, 3 ask, 4 deny, 1 invalid input.\n\nExamples:\n  gimlet permissions check --command 'git push' --rules .claude/settings.json\n  gimlet permissions check --tool Edit --input '{\"file_path\":\"a.rs\",\"old_string\":\"a\",\"new_string\":\"b\"}'\n  gimlet permissions check --batch < rows.jsonl"
    )]
    Check(CheckArgs),
    /// Show which calls of past sessions other rules would decide differently
    #[command(
        long_about = "Show which calls of past sessions other rules would decide differently.\n\nEach call is decided again with the settings of the directory its session was started in plus the rules to try, and compared with the decision that was made then. Nothing is run. Without --rules the current settings are tried.",
        after_help = "Examples:\n  gimlet permissions simulate                         what today's settings would change\n  gimlet permissions simulate --rules strict.json     the same with further rules\n  gimlet permissions simulate --only-rules team.json --all --days 30\n  gimlet permissions simulate --mode dontAsk --against now --json"
    )]
    Simulate(SimulateArgs),
}

#[derive(Args, Debug)]
pub(crate) struct SimulateArgs {
    /// Sessions by id, title or transcript path (default: those of this directory)
    #[arg(value_name = "SESSION", conflicts_with_all = ["all", "days"])]
    pub(crate) sessions: Vec<String>,
    /// Settings file whose permission rules are added to those in force (repeatable)
    #[arg(long, value_name = "FILE")]
    pub(crate) rules: Vec<PathBuf>,
    /// Settings file whose permission rules replace those in force (repeatable)
    #[arg(long, value_name = "FILE", conflicts_with = "rules")]
    pub(crate) only_rules: Vec<PathBuf>,
    /// Permission mode to try (default: the mode of each call)
    #[arg(long, value_name = "MODE")]
    pub(crate) mode: Option<PermissionMode>,
    /// Compare with the recorded decision (then), or with the decision of the current settings (now)
    #[arg(long, value_enum, default_value = "then")]
    pub(crate) against: ComparisonBase,
    /// The sessions of every directory
    #[arg(long)]
    pub(crate) all: bool,
    /// Only sessions that changed in the last N days
    #[arg(long, value_name = "N")]
    pub(crate) days: Option<u64>,
    /// Treat the project's own files as trusted
    #[arg(long)]
    pub(crate) trust: bool,
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
}

/// What simulated decisions are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ComparisonBase {
    Then,
    Now,
}

#[derive(Args, Debug)]
pub(crate) struct CheckArgs {
    /// A shell command
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["tool", "batch"])]
    pub(crate) command: Option<String>,
    /// A tool, by name
    #[arg(long, value_name = "NAME", conflicts_with = "batch")]
    pub(crate) tool: Option<String>,
    /// Input of the tool call, as a JSON object
    #[arg(long, value_name = "JSON", requires = "tool")]
    pub(crate) input: Option<String>,
    /// Working directory of the call
    #[arg(long, value_name = "DIR", conflicts_with = "batch")]
    pub(crate) cwd: Option<PathBuf>,
    /// Settings file whose permission rules are used instead of those in force (repeatable)
    #[arg(long, value_name = "FILE", conflicts_with = "batch")]
    pub(crate) rules: Vec<PathBuf>,
    /// The permission mode
    #[arg(long, value_name = "MODE", conflicts_with = "batch")]
    pub(crate) mode: Option<PermissionMode>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Read JSON lines from standard input; each is evaluated independently
    #[arg(long)]
    pub(crate) batch: bool,
}

#[derive(Subcommand, Debug)]
pub(crate) enum SandboxCommand {
    /// Run a command that can write only to this directory and has no network
    Run(SandboxRunArgs),
    /// Describe the sandbox of this directory: its layers, what it blocks, what is missing
    Explain(SandboxExplainArgs),
}

#[derive(Args, Debug)]
pub(crate) struct SandboxRunArgs {
    #[command(flatten)]
    pub(crate) limits: SandboxLimitArgs,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<std::ffi::OsString>,
}

#[derive(Args, Debug, Default)]
pub(crate) struct SandboxExplainArgs {
    #[command(flatten)]
    pub(crate) limits: SandboxLimitArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug, Default)]
pub(crate) struct SandboxLimitArgs {
    /// Additional directory that the command may write to
    #[arg(long, value_name = "DIR")]
    pub(crate) allow_write: Vec<PathBuf>,
    /// File or directory that the command cannot read
    #[arg(long, value_name = "PATH")]
    pub(crate) deny_read: Vec<PathBuf>,
    /// Host that the command may connect to: example.org, *.example.org or example.org:22
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_domain: Vec<String>,
    /// Host that the command may never connect to
    #[arg(long, value_name = "HOST")]
    pub(crate) deny_domain: Vec<String>,
    /// Allow connections between the command's own processes over loopback
    #[arg(long)]
    pub(crate) allow_local: bool,
    /// Allow connections to Unix sockets, which lead out of the sandbox
    #[arg(long)]
    pub(crate) allow_unix_sockets: bool,
    /// Path of bwrap, or 'none'
    #[arg(long, value_name = "PATH")]
    pub(crate) bubblewrap: Option<PathBuf>,
}

#[derive(Subcommand, Debug)]
pub(crate) enum AutoModeCommand {
    /// Print the built-in rules as JSON
    Defaults {
        /// Only lists and rules whose label starts with this prefix
        #[arg(long, value_name = "PREFIX")]
        label: Option<String>,
    },
    /// Print the rules in force here as JSON: your own and the built-in ones that they keep
    Config,
    /// Remove autoMode from your settings, so that the built-in rules apply again
    Reset {
        /// Do not ask for confirmation
        #[arg(short = 'y', long)]
        yes: bool,
    },
}

#[derive(Subcommand, Debug)]
pub(crate) enum ConfigCommand {
    /// Show the effective value of a setting, with its file and line
    Get {
        /// Name of the setting, such as model or permissions.allow
        key: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Change a setting
    Set {
        /// Name of the setting, such as model or env.NAME
        key: String,
        /// JSON, or plain text
        value: String,
        /// Settings file to change
        #[arg(long, value_enum, default_value = "user")]
        scope: WritableScope,
    },
    /// Add an entry to a setting that is a list
    Add {
        /// Name of the setting, such as permissions.allow
        key: String,
        /// JSON, or plain text such as 'Bash(npm test)'
        value: String,
        /// Settings file to change
        #[arg(long, value_enum, default_value = "user")]
        scope: WritableScope,
    },
    /// Remove an entry from a setting that is a list
    Remove {
        /// Name of the setting, such as permissions.allow
        key: String,
        /// The entry to remove
        value: String,
        /// Settings file to change
        #[arg(long, value_enum, default_value = "user")]
        scope: WritableScope,
    },
    /// Remove a setting from a file
    Unset {
        /// Name of the setting, such as model
        key: String,
        /// Settings file to change
        #[arg(long, value_enum, default_value = "user")]
        scope: WritableScope,
    },
    /// Show all settings, with their files
    List {
        /// Print one JSON array
        #[arg(long)]
        json: bool,
    },
    /// Show the settings files
    Path {
        /// Print one JSON array
        #[arg(long)]
        json: bool,
    },
}

impl ConfigCommand {
    /// The setting that it is about.
    pub(crate) fn key(&self) -> Option<&str> {
        match self {
            Self::Get { key, .. }
            | Self::Set { key, .. }
            | Self::Add { key, .. }
            | Self::Remove { key, .. }
            | Self::Unset { key, .. } => Some(key),
            Self::List { .. } | Self::Path { .. } => None,
        }
    }
}

/// The settings files that a person writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WritableScope {
    User,
    Project,
    Local,
}

impl From<WritableScope> for gimlet_config::Scope {
    fn from(scope: WritableScope) -> Self {
        match scope {
            WritableScope::User => gimlet_config::Scope::User,
            WritableScope::Project => gimlet_config::Scope::Project,
            WritableScope::Local => gimlet_config::Scope::Local,
        }
    }
}

#[derive(Subcommand, Debug)]
pub(crate) enum DevCommand {
    /// Serve a scripted model on a loopback port; prints its address as a JSON line, exits when stdin closes
    ScriptedModel(ScriptedModelArgs),
}

#[derive(Args, Debug)]
pub(crate) struct ScriptedModelArgs {
    /// The script (JSON)
    pub(crate) script: PathBuf,
    /// Address to listen on (loopback only)
    #[arg(long, default_value = "127.0.0.1:0")]
    pub(crate) bind: String,
    /// Save every request and response in this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) record: Option<PathBuf>,
    /// On exit, write the start and end time of each request (JSON, microseconds)
    #[arg(long, value_name = "FILE")]
    pub(crate) timings: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct ContextArgs {
    /// Session id, title or transcript path (default: the newest session of this directory)
    pub(crate) session: Option<String>,
    /// Show the texts, too
    #[arg(long, conflicts_with = "json")]
    pub(crate) full: bool,
    /// Print one JSON object per turn, with the texts
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct CostArgs {
    /// One session: id, title or transcript path (without a value: the newest one of this directory)
    #[arg(long, value_name = "SESSION", num_args = 0..=1, default_missing_value = "", conflicts_with_all = ["day", "project"])]
    pub(crate) session: Option<String>,
    /// One day, such as 2026-01-31 (without a value: today)
    #[arg(long, value_name = "DATE", num_args = 0..=1, default_missing_value = "")]
    pub(crate) day: Option<String>,
    /// One directory (without a value: the current one)
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = ".")]
    pub(crate) project: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct WhyArgs {
    /// Session id or title, or its number in the list (default: the newest session of this directory)
    pub(crate) session: Option<String>,
    /// Number in the list, or tool call id: show that decision in full
    pub(crate) call: Option<String>,
    /// Print one JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
}
