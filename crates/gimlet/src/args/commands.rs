//! The sub-commands and their arguments.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use gimlet_proto::PermissionMode;

use super::SessionsCommand;

#[derive(Subcommand, Debug)]
pub(crate) enum CliCommand {
    /// Watch gimlet find a bug, fix it and run the tests; needs no key and no network
    Demo,
    /// Show why each call of a session was allowed or refused
    Why(WhyArgs),
    /// Print what this gimlet is, in full
    Version,
    /// List, show, rename, tag, delete, export, check and search sessions
    Sessions {
        #[command(subcommand)]
        command: SessionsCommand,
    },
    /// What gimlet may do, and why
    Permissions {
        #[command(subcommand)]
        command: PermissionsCommand,
    },
    /// Run a command in the sandbox of this folder, or say what that sandbox is (Linux)
    Sandbox {
        #[command(subcommand)]
        command: SandboxCommand,
    },
    /// Show and change settings
    #[command(
        after_help = "Examples:\n  gimlet config list                                      everything that is set, and where\n  gimlet config set model opus                            in your own settings\n  gimlet config add permissions.allow 'Bash(npm test)'    one more entry in a list\n  gimlet config set env.CI 1 --scope local                for you, in this project\n\nScopes: user is for you everywhere, local for you in this project, project for everybody who has it."
    )]
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// What the reviewer of auto mode is told
    AutoMode {
        #[command(subcommand)]
        command: AutoModeCommand,
    },
    /// Show what this folder's files would do, and trust it
    #[command(
        long_about = "Show what this folder's files would do, and trust it.\n\nWithout --yes nothing is recorded: every item that needs trust is listed with its file and digest. With --yes what is there now is accepted; what changes later waits again.",
        after_help = "Examples:\n  gimlet trust                 what waits for trust in this folder\n  gimlet trust --yes           accept it as it is now\n  gimlet trust --revoke ../x   forget what was accepted of another folder"
    )]
    Trust(TrustArgs),
    /// Look for what is broken in settings, trust and programs; ends with 1 when something is
    Doctor {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Tools for people who work on gimlet or test against it
    Dev {
        #[command(subcommand)]
        command: DevCommand,
    },
}

#[derive(Args, Debug)]
pub(crate) struct TrustArgs {
    /// The folder; the current one when left out
    #[arg(value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
    /// Only show what waits and what was accepted; so it is without any flag
    #[arg(long, conflicts_with_all = ["yes", "revoke"])]
    pub(crate) show: bool,
    /// Accept everything that the folder has now
    #[arg(short = 'y', long)]
    pub(crate) yes: bool,
    /// Forget all that was accepted of the folder
    #[arg(long, conflicts_with = "yes")]
    pub(crate) revoke: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Subcommand, Debug)]
pub(crate) enum PermissionsCommand {
    /// Say what would be decided about a call, without running it
    #[command(
        after_help = "Exit codes: 0 allow, 3 ask, 4 deny, 1 when the question could not be understood.\n\nExamples:\n  gimlet permissions check --command 'git push' --rules .claude/settings.json\n  gimlet permissions check --tool Edit --input '{\"file_path\":\"a.rs\",\"old_string\":\"a\",\"new_string\":\"b\"}'\n  gimlet permissions check --batch < rows.jsonl"
    )]
    Check(CheckArgs),
    /// Say which calls of past sessions other rules would decide differently, without running anything
    #[command(
        long_about = "Say which calls of past sessions other rules would decide differently, without running anything.\n\nEach call is decided on again with the settings of the folder that its session was started in, and the rules to try, and compared with what was decided then. Without --rules, the settings as they are now are what is tried.",
        after_help = "Examples:\n  gimlet permissions simulate                         what today's settings would change\n  gimlet permissions simulate --rules strict.json     the same with further rules\n  gimlet permissions simulate --only-rules team.json --all --days 30\n  gimlet permissions simulate --mode dontAsk --against now --json"
    )]
    Simulate(SimulateArgs),
}

#[derive(Args, Debug)]
pub(crate) struct SimulateArgs {
    /// Sessions by id, title or transcript; those of this folder when left out
    #[arg(value_name = "SESSION", conflicts_with_all = ["all", "days"])]
    pub(crate) sessions: Vec<String>,
    /// A settings file whose permission rules are added to those in force; may be given more than once
    #[arg(long, value_name = "FILE")]
    pub(crate) rules: Vec<PathBuf>,
    /// A settings file whose permission rules count and no others; may be given more than once
    #[arg(long, value_name = "FILE", conflicts_with = "rules")]
    pub(crate) only_rules: Vec<PathBuf>,
    /// The permission mode to try; that of each call when left out
    #[arg(long, value_name = "MODE")]
    pub(crate) mode: Option<PermissionMode>,
    /// What to compare with: what was decided then, where that is known, or what the settings of now decide
    #[arg(long, value_enum, default_value = "then")]
    pub(crate) against: ComparisonBase,
    /// The sessions of every folder
    #[arg(long)]
    pub(crate) all: bool,
    /// Only sessions that changed in the last days
    #[arg(long, value_name = "N")]
    pub(crate) days: Option<u64>,
    /// Let the project's own files count as trusted
    #[arg(long)]
    pub(crate) trust: bool,
    /// One JSON object a line
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
    /// What the tool would be called with (a JSON object)
    #[arg(long, value_name = "JSON", requires = "tool")]
    pub(crate) input: Option<String>,
    /// The folder that it would happen in
    #[arg(long, value_name = "DIR", conflicts_with = "batch")]
    pub(crate) cwd: Option<PathBuf>,
    /// A settings file whose permission rules count instead of those in force; may be given more than once
    #[arg(long, value_name = "FILE", conflicts_with = "batch")]
    pub(crate) rules: Vec<PathBuf>,
    /// The permission mode
    #[arg(long, value_name = "MODE", conflicts_with = "batch")]
    pub(crate) mode: Option<PermissionMode>,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Answer rows of JSON on standard input, each in a world of its own
    #[arg(long)]
    pub(crate) batch: bool,
}

#[derive(Subcommand, Debug)]
pub(crate) enum SandboxCommand {
    /// Run a command that can write only this folder and reaches no network
    Run(SandboxRunArgs),
    /// Say what the sandbox is made of here, what it closes, and what is missing
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

#[derive(Args, Debug)]
pub(crate) struct SandboxExplainArgs {
    #[command(flatten)]
    pub(crate) limits: SandboxLimitArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct SandboxLimitArgs {
    /// A further folder that may be written
    #[arg(long, value_name = "DIR")]
    pub(crate) allow_write: Vec<PathBuf>,
    /// A file or folder that cannot be read
    #[arg(long, value_name = "PATH")]
    pub(crate) deny_read: Vec<PathBuf>,
    /// A host that may be reached: example.org, *.example.org or example.org:22
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_domain: Vec<String>,
    /// A host that may not be reached, whatever is allowed
    #[arg(long, value_name = "HOST")]
    pub(crate) deny_domain: Vec<String>,
    /// Let the command's own processes talk to each other over loopback
    #[arg(long)]
    pub(crate) allow_local: bool,
    /// Let it connect to Unix sockets, which lead out of the sandbox
    #[arg(long)]
    pub(crate) allow_unix_sockets: bool,
    /// Use this bubblewrap, or none with the word none
    #[arg(long, value_name = "PATH")]
    pub(crate) bubblewrap: Option<PathBuf>,
}

#[derive(Subcommand, Debug)]
pub(crate) enum AutoModeCommand {
    /// Print the built-in rules as JSON
    Defaults {
        /// Only lists and rules that begin with this
        #[arg(long, value_name = "PREFIX")]
        label: Option<String>,
    },
    /// Print the rules that hold here as JSON: your own and, where they are kept, the built-in ones
    Config,
    /// Remove autoMode from your settings, so that the built-in rules hold again
    Reset {
        /// Do not ask first
        #[arg(short = 'y', long)]
        yes: bool,
    },
}

#[derive(Subcommand, Debug)]
pub(crate) enum ConfigCommand {
    /// Show a setting that holds here, and which file and line it comes from
    Get {
        /// The setting, such as model or permissions.allow
        key: String,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Change a setting
    Set {
        /// The setting, such as model or env.NAME
        key: String,
        /// JSON, or a plain text
        value: String,
        /// Whose settings
        #[arg(long, value_enum, default_value = "user")]
        scope: WritableScope,
    },
    /// Add an entry to a setting that is a list
    Add {
        /// The setting, such as permissions.allow
        key: String,
        /// JSON, or a plain text such as 'Bash(npm test)'
        value: String,
        /// Whose settings
        #[arg(long, value_enum, default_value = "user")]
        scope: WritableScope,
    },
    /// Remove an entry from a setting that is a list
    Remove {
        key: String,
        value: String,
        /// Whose settings
        #[arg(long, value_enum, default_value = "user")]
        scope: WritableScope,
    },
    /// Remove a setting from a file
    Unset {
        key: String,
        /// Whose settings
        #[arg(long, value_enum, default_value = "user")]
        scope: WritableScope,
    },
    /// Show everything that is set, and where
    List {
        /// Print one JSON array
        #[arg(long)]
        json: bool,
    },
    /// Show which settings files there are
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
    /// Serve a scripted model on a loopback port; prints its address as one JSON line, ends when stdin closes
    ScriptedModel(ScriptedModelArgs),
}

#[derive(Args, Debug)]
pub(crate) struct ScriptedModelArgs {
    /// The script (JSON)
    pub(crate) script: PathBuf,
    /// Address to listen on (loopback only)
    #[arg(long, default_value = "127.0.0.1:0")]
    pub(crate) bind: String,
    /// Keep every exchange in this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) record: Option<PathBuf>,
    /// At the end, write when each request came and when its answer was complete (JSON, microseconds)
    #[arg(long, value_name = "FILE")]
    pub(crate) timings: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct WhyArgs {
    /// A session's id or title; the newest of this folder when left out
    pub(crate) session: Option<String>,
    /// A number of the list, or a tool call's id: show that decision in full
    pub(crate) call: Option<String>,
    /// One JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}
