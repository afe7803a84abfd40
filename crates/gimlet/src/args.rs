//! The command line: what gimlet accepts, and by name what it knows but does not have yet.

mod commands;
mod sessions;

use std::path::PathBuf;

use clap::{ArgAction, Args, CommandFactory, Parser, ValueEnum};
use gimlet_config::Sources;
use gimlet_proto::PermissionMode;

pub(crate) use commands::{
    Against, CheckArgs, Command, ConfigCommand, DevCommand, PermissionsCommand, SandboxCommand, SandboxExplainArgs,
    SandboxRunArgs, SandboxWalls, ScriptedModelArgs, SimulateArgs, WhyArgs, WritableScope,
};
pub(crate) use sessions::{
    ExportArgs, ExportFormat, FsckArgs, ListArgs, RemoveArgs, RenameArgs, SearchArgs, SessionsCommand, ShowArgs,
    TagArgs,
};

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
    /// Let the session go over to bypassPermissions later, without starting in it
    #[arg(long)]
    pub(crate) allow_dangerously_skip_permissions: bool,
    /// More settings for this run: a file, or JSON
    #[arg(long, value_name = "FILE_OR_JSON")]
    pub(crate) settings: Option<String>,
    /// Which settings files to read: user, project, local (naming project trusts the project's files)
    #[arg(long, value_name = "SOURCES")]
    pub(crate) setting_sources: Option<Sources>,
    /// Trust this folder's own settings, hooks and servers for this run
    #[arg(long, visible_alias = "trust-workspace")]
    pub(crate) trust: bool,
    /// Go on with the newest session of this folder
    #[arg(short = 'c', long = "continue", conflicts_with = "resume")]
    pub(crate) continue_session: bool,
    /// Go on with a session, by id, title or transcript
    #[arg(short = 'r', long, value_name = "SESSION")]
    pub(crate) resume: Option<String>,
    /// With --continue or --resume: work on a copy under a new id
    #[arg(long)]
    pub(crate) fork_session: bool,
    /// With --resume: go on from this entry, as if nothing had followed it
    #[arg(long, value_name = "UUID")]
    pub(crate) resume_session_at: Option<String>,
    /// With --resume-session-at: refuse unless exactly the turn that this prompt began is left behind
    #[arg(long, value_name = "UUID")]
    pub(crate) resume_drops_turn: Option<String>,
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
    "--plugin-dir",
    "--plugin-dir-no-mcp",
    "--plugin-url",
    "--permission-prompt-tool",
    "--permission-prompts",
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
        assert_eq!(refuse_unavailable(&words("-p -- --mcp-config")), None);
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
            "sessions ls --all --json",
            "sessions rm abcd --yes",
            "sessions search -- -not this",
            "--resume=abc --resume-session-at=x --resume-drops-turn= -p go",
        ] {
            let args = std::iter::once("gimlet".to_owned()).chain(words(line));
            Cli::try_parse_from(args).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
        let cli = Cli::try_parse_from(["gimlet", "-p", "--tools", "", "go"]);
        assert!(cli.is_ok_and(|cli| cli.run.tools.is_some()));
    }
}
