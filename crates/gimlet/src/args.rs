//! The command line: what gimlet accepts, and by name what it knows but does not have yet.

use std::path::PathBuf;

use clap::{ArgAction, Args, CommandFactory, Parser, Subcommand, ValueEnum};
use gimlet_proto::PermissionMode;

#[derive(Parser, Debug)]
#[command(
    name = "gimlet",
    about = "A coding agent for the terminal",
    disable_version_flag = true,
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  gimlet demo                                   see it work: no key, no network\n  gimlet -p \"fix the failing test\"               run one task and print the answer\n  git diff | gimlet -p \"review this change\"      give it input on a pipe\n  tail -f app.log | gimlet -p \"alert on errors\"  watch an endless one\n  gimlet -p --continue \"now add a test\"          go on with the last session here"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) run: RunArgs,
    /// Print the version and exit
    #[arg(short = 'v', long = "version", action = ArgAction::SetTrue)]
    pub(crate) version: bool,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Watch gimlet find a bug, fix it and run the tests; needs no key and no network
    Demo,
    /// Show why each call of a session was allowed or refused
    Why(WhyArgs),
    /// Print what this gimlet is, in full
    Version,
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
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
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

#[derive(Subcommand, Debug)]
pub(crate) enum PermissionsCommand {
    /// Say what would be decided about a call, without running it
    #[command(
        after_help = "Exit codes: 0 allow, 3 ask, 4 deny, 1 when the question could not be understood.\n\nExamples:\n  gimlet permissions check --command 'git push' --rules .claude/settings.json\n  gimlet permissions check --tool Edit --input '{\"file_path\":\"a.rs\",\"old_string\":\"a\",\"new_string\":\"b\"}'\n  gimlet permissions check --batch < rows.jsonl"
    )]
    Check(CheckArgs),
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
    /// A settings file whose permission rules count; may be given more than once
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
    pub(crate) walls: SandboxWalls,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub(crate) command: Vec<std::ffi::OsString>,
}

#[derive(Args, Debug)]
pub(crate) struct SandboxExplainArgs {
    #[command(flatten)]
    pub(crate) walls: SandboxWalls,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct SandboxWalls {
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    Text,
    Json,
    StreamJson,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum InputFormat {
    Text,
}

#[derive(Args, Debug, Clone)]
pub(crate) struct RunArgs {
    /// What to do
    pub(crate) prompt: Option<String>,
    /// Run without a terminal UI: print the answer and exit
    #[arg(short = 'p', long)]
    pub(crate) print: bool,
    /// How to print the answer
    #[arg(long, value_enum, default_value = "text", value_name = "FORMAT")]
    pub(crate) output_format: OutputFormat,
    /// How input is given
    #[arg(long, value_enum, default_value = "text", value_name = "FORMAT")]
    pub(crate) input_format: InputFormat,
    /// With stream-json: also print the model's own events as they arrive
    #[arg(long)]
    pub(crate) include_partial_messages: bool,
    /// With stream-json: print each accepted prompt too
    #[arg(long)]
    pub(crate) replay_user_messages: bool,
    /// Show every step on stderr (with json: all messages as an array)
    #[arg(long)]
    pub(crate) verbose: bool,
    /// The model: an alias (default, opus, sonnet, haiku, fable, small) or an id
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// How hard the model thinks: low, medium, high, xhigh, max
    #[arg(long, value_parser = ["low", "medium", "high", "xhigh", "max"])]
    pub(crate) effort: Option<String>,
    /// Stop after this many model round trips
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_turns: Option<u32>,
    /// Use this system prompt instead of gimlet's own
    #[arg(long, value_name = "TEXT", conflicts_with = "system_prompt_file")]
    pub(crate) system_prompt: Option<String>,
    /// Read the system prompt from a file
    #[arg(long, value_name = "FILE")]
    pub(crate) system_prompt_file: Option<PathBuf>,
    /// Add this to the system prompt
    #[arg(long, value_name = "TEXT", conflicts_with = "append_system_prompt_file")]
    pub(crate) append_system_prompt: Option<String>,
    /// Read the addition to the system prompt from a file
    #[arg(long, value_name = "FILE")]
    pub(crate) append_system_prompt_file: Option<PathBuf>,
    /// Further folders that gimlet may work in
    #[arg(long, value_name = "DIR", num_args = 1..)]
    pub(crate) add_dir: Vec<PathBuf>,
    /// Offer only these tools ("" for none, "default" for all)
    #[arg(long, value_name = "TOOLS", num_args = 1..)]
    pub(crate) tools: Option<Vec<String>>,
    /// Permission rules that allow, such as Edit or "Bash(npm test *)"
    #[arg(long = "allowedTools", alias = "allowed-tools", value_name = "RULES", num_args = 1..)]
    pub(crate) allowed_tools: Vec<String>,
    /// Permission rules that deny
    #[arg(long = "disallowedTools", alias = "disallowed-tools", value_name = "RULES", num_args = 1..)]
    pub(crate) disallowed_tools: Vec<String>,
    /// default, acceptEdits, plan, auto, dontAsk or bypassPermissions
    #[arg(long, value_name = "MODE")]
    pub(crate) permission_mode: Option<PermissionMode>,
    /// Ask for nothing (same as --permission-mode bypassPermissions); for sandboxes without network
    #[arg(long)]
    pub(crate) dangerously_skip_permissions: bool,
    /// Go on with the newest session of this folder
    #[arg(short = 'c', long = "continue", conflicts_with = "resume")]
    pub(crate) continue_session: bool,
    /// Go on with a session, by id or title
    #[arg(short = 'r', long, value_name = "SESSION")]
    pub(crate) resume: Option<String>,
    /// With --continue or --resume: work on a copy under a new id
    #[arg(long)]
    pub(crate) fork_session: bool,
    /// Use this UUID for the new session
    #[arg(long, value_name = "UUID")]
    pub(crate) session_id: Option<String>,
    /// Give the session a title
    #[arg(short = 'n', long, value_name = "TITLE")]
    pub(crate) name: Option<String>,
    /// Keep nothing of this session on disk
    #[arg(long)]
    pub(crate) no_session_persistence: bool,
    /// Write a debug log; a filter such as api,tool goes after '='
    #[arg(short = 'd', long, value_name = "FILTER", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub(crate) debug: Option<String>,
    /// Write the debug log here (implies --debug)
    #[arg(long, value_name = "FILE")]
    pub(crate) debug_file: Option<PathBuf>,
}

/// Flags of the reference CLI whose features gimlet does not have yet. They are refused by name, never ignored.
const NOT_YET: &[&str] = &[
    "--mcp-config",
    "--strict-mcp-config",
    "--agents",
    "--agent",
    "--settings",
    "--setting-sources",
    "--plugin-dir",
    "--plugin-dir-no-mcp",
    "--plugin-url",
    "--permission-prompt-tool",
    "--permission-prompts",
    "--allow-dangerously-skip-permissions",
    "--json-schema",
    "--max-budget-usd",
    "--task-budget",
    "--fallback-model",
    "--betas",
    "--thinking",
    "--thinking-display",
    "--max-thinking-tokens",
    "--include-hook-events",
    "--forward-subagent-text",
    "--prompt-suggestions",
    "--session-mirror",
    "--resume-session-at",
    "--resume-drops-turn",
    "--append-subagent-system-prompt",
    "--exclude-dynamic-system-prompt-sections",
    "--system-prompt-snapshot",
    "--await-initialize",
    "--worktree",
    "-w",
    "--tmux",
    "--bg",
    "--background",
    "--exec",
    "--bare",
    "--safe-mode",
    "--init",
    "--init-only",
    "--maintenance",
    "--disable-slash-commands",
    "--autocompact",
    "--ide",
    "--ax-screen-reader",
    "--teammate-mode",
    "--trust",
    "--trust-workspace",
    "--record",
    "--from-pr",
];

/// Flags that belong to services of another vendor.
const NEVER: &[&str] = &[
    "--chrome",
    "--no-chrome",
    "--cloud",
    "--remote",
    "--teleport",
    "--environment",
    "--ref",
    "--remote-control",
    "--rc",
    "--channels",
    "--advisor",
];

/// Commands of the reference CLI that gimlet does not have yet.
const COMMANDS_NOT_YET: &[&str] = &[
    "mcp",
    "plugin",
    "plugins",
    "sessions",
    "agents",
    "attach",
    "logs",
    "stop",
    "kill",
    "rm",
    "respawn",
    "daemon",
    "auto-mode",
    "project",
    "auth",
    "setup-token",
    "update",
    "install",
    "import",
    "replay",
    "serve",
];

/// Says what is wrong with the arguments before they are parsed: flags and commands that are known by name only.
pub(crate) fn refuse_unavailable(args: &[String]) -> Option<String> {
    // Commands have flags of their own, which the parser knows.
    if args.first().is_some_and(|first| Cli::command().get_subcommands().any(|known| known.get_name() == first)) {
        return None;
    }
    let flags = args.iter().take_while(|arg| *arg != "--").filter(|arg| arg.starts_with('-'));
    for flag in flags {
        let name = flag.split('=').next().unwrap_or(flag);
        if NOT_YET.contains(&name) {
            return Some(format!("the flag {name} is not available in this version of gimlet"));
        }
        if NEVER.contains(&name) {
            return Some(format!("the flag {name} belongs to a hosted service that gimlet does not use"));
        }
    }
    if let Some(format) = value_of(args, "--input-format").filter(|format| *format == "stream-json") {
        return Some(format!("--input-format {format} is not available in this version of gimlet"));
    }
    match args {
        [command] if COMMANDS_NOT_YET.contains(&command.as_str()) => {
            Some(format!("the command '{command}' is not available in this version of gimlet"))
        }
        [command, next, ..] if COMMANDS_NOT_YET.contains(&command.as_str()) && !next.contains(' ') => {
            Some(format!("the command '{command}' is not available in this version of gimlet"))
        }
        _ => None,
    }
}

fn value_of<'a>(args: &'a [String], flag: &str) -> Option<&'a str> {
    args.iter().enumerate().find_map(|(at, arg)| match arg.strip_prefix(flag) {
        Some("") => args.get(at + 1).map(String::as_str),
        Some(rest) => rest.strip_prefix('='),
        None => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn flags_without_their_feature_are_refused_by_name() {
        assert!(refuse_unavailable(&words("-p --mcp-config x.json hello")).unwrap().contains("--mcp-config"));
        assert!(refuse_unavailable(&words("-p --input-format=stream-json")).unwrap().contains("stream-json"));
        assert!(refuse_unavailable(&words("mcp list")).unwrap().contains("'mcp'"));
        assert_eq!(refuse_unavailable(&words("-p -- --settings")), None);
        assert_eq!(refuse_unavailable(&words("dev scripted-model x.json --record folder")), None);
        assert_eq!(refuse_unavailable(&["-p".to_owned(), "install the tools".to_owned()]), None);
    }

    #[test]
    fn the_usual_invocations_parse() {
        for line in [
            "-p --output-format stream-json --verbose --model claude-sonnet-4-5 --dangerously-skip-permissions go",
            "-p --allowedTools Read Edit --max-turns 3 --add-dir /a /b -- go",
            "-p --debug=api,tool go",
            "-p -d go",
            "-c -p go",
            "--resume=abc -p go --fork-session",
            "-v",
            "demo",
            "config get model --json",
            "config set env.A 1 --scope local",
            "doctor --json",
            "dev scripted-model x.json",
            "permissions check --command ls --json",
            "permissions check --tool Read --input {} --mode plan --rules a --rules b",
            "permissions check --batch",
            "sandbox run --allow-write /a --allow-domain *.b.org -- make -j2",
            "sandbox run make -j2",
            "sandbox explain --json",
        ] {
            let args = std::iter::once("gimlet".to_owned()).chain(words(line));
            Cli::try_parse_from(args).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
        let cli = Cli::try_parse_from(["gimlet", "-p", "--tools", "", "go"]);
        assert!(cli.is_ok_and(|cli| cli.run.tools.is_some()));
    }
}
