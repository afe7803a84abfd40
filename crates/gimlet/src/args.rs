//! The command line: what gimlet accepts, and by name what it knows but does not have yet.

mod commands;
mod mcp_args;
mod plugin_args;
mod session_args;
mod session_request;
mod unavailable_flags;

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, CommandFactory, Parser, ValueEnum};
use gimlet_app::CompactionWindow;
use gimlet_config::{SettingSources, WorkTime};
use gimlet_proto::PermissionMode;

pub(crate) use unavailable_flags::{is_driven, program_expects_list, refuse_unavailable, remove_unavailable};

pub(crate) use commands::{
    AutoModeCommand, CheckArgs, CliCommand, ComparisonBase, ConfigCommand, ContextArgs, CostArgs, DevCommand,
    HooksCommand, HooksTestArgs, PermissionsCommand, SandboxCommand, SandboxExplainArgs, SandboxLimitArgs,
    SandboxRunArgs, ScriptedModelArgs, SimulateArgs, TrustArgs, WhyArgs, WritableScope,
};
pub(crate) use mcp_args::{McpAddArgs, McpAddJsonArgs, McpCommand, McpScopeFlag, McpTransportFlag};
pub(crate) use plugin_args::PluginCommand;
pub(crate) use session_args::{
    ExportArgs, ExportFormat, FsckArgs, ListArgs, RemoveArgs, RenameArgs, SearchArgs, SessionsCommand, ShowArgs,
    TagArgs, separate_search_words,
};

#[derive(Parser, Debug)]
#[command(
    name = "gimlet",
    about = "A coding agent for the terminal",
    disable_version_flag = true,
    // Programs add flags of their callers' to their own: of two that say different things, the last is meant.
    args_override_self = true,
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  gimlet demo                                     watch it work: no API key, no network\n  gimlet -p \"fix the failing test\"                run one task and print the answer\n  git diff | gimlet -p \"review this change\"       pass input on a pipe\n  tail -f app.log | gimlet -p \"alert on errors\"   watch a log\n  gimlet -p --continue \"now add a test\"           continue the last session of this directory"
)]
pub(crate) struct CliArgs {
    #[command(subcommand)]
    pub(crate) command: Option<CliCommand>,
    #[command(flatten)]
    pub(crate) run: RunArgs,
    /// Print the version and exit
    #[arg(short = 'v', short_alias = 'V', long = "version", action = ArgAction::SetTrue)]
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
    /// The protocol by which programs drive a session.
    StreamJson,
}

/// Whether the model thinks before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ThinkingFlag {
    Adaptive,
    Disabled,
}

/// How much of its thinking the model shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ThinkingDisplayFlag {
    Summarized,
    Omitted,
}

/// Whether something is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SnapshotFlag {
    On,
    Off,
}

/// Who answers permission questions of a session that a program drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PermissionPrompts {
    Host,
    None,
}

fn parse_usd(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(amount) if amount.is_finite() && amount > 0.0 => Ok(amount),
        Ok(_) | Err(_) => Err("it must be a positive number, such as 0.5".to_owned()),
    }
}

fn parse_token_count(text: &str) -> Result<u64, String> {
    let tokens = gimlet_app::parse_token_count(text).filter(|tokens| *tokens > 0);
    tokens.ok_or_else(|| "it must be a number of tokens, such as 500000, 500k or 2M".to_owned())
}

#[derive(Args, Debug, Clone)]
pub(crate) struct RunArgs {
    /// The task for the model
    pub(crate) prompt: Option<String>,
    /// Run without a terminal UI: print the answer and exit
    #[arg(short = 'p', long, help_heading = "Common")]
    pub(crate) print: bool,
    /// Format of the output
    #[arg(long, value_enum, default_value = "text", value_name = "FORMAT", help_heading = "Output")]
    pub(crate) output_format: OutputFormat,
    /// Format of standard input
    #[arg(
        long,
        value_enum,
        default_value = "text",
        value_name = "FORMAT",
        help_heading = "For programs (Agent SDKs)",
        hide_short_help = true
    )]
    pub(crate) input_format: InputFormat,
    /// Also print the model's events while they stream (needs --output-format stream-json)
    #[arg(long, help_heading = "For programs (Agent SDKs)", hide_short_help = true)]
    pub(crate) include_partial_messages: bool,
    /// Also print each accepted prompt (needs --output-format stream-json)
    #[arg(long, help_heading = "For programs (Agent SDKs)", hide_short_help = true)]
    pub(crate) replay_user_messages: bool,
    /// Also print what subagents write, not only what they do (needs --output-format stream-json)
    #[arg(long, help_heading = "For programs (Agent SDKs)", hide_short_help = true)]
    pub(crate) forward_subagent_text: bool,
    /// Tool of an MCP server that answers permission questions, as mcp__server__tool (stdio: the driving program)
    #[arg(long, value_name = "TOOL", help_heading = "Permissions", hide_short_help = true)]
    pub(crate) permission_prompt_tool: Option<String>,
    /// Ask the driving program for permission (host), or nobody (none)
    #[arg(long, value_enum, value_name = "WHO", help_heading = "For programs (Agent SDKs)", hide_short_help = true)]
    pub(crate) permission_prompts: Option<PermissionPrompts>,
    /// MCP servers for this session, as files or as JSON
    #[arg(long, value_name = "FILE_OR_JSON", num_args = 1.., help_heading = "Settings", hide_short_help = true)]
    pub(crate) mcp_config: Vec<String>,
    /// Use only the MCP servers of --mcp-config
    #[arg(long, help_heading = "Settings", hide_short_help = true)]
    pub(crate) strict_mcp_config: bool,
    /// Also report every hook that runs (needs --output-format stream-json)
    #[arg(long, help_heading = "For programs (Agent SDKs)", hide_short_help = true)]
    pub(crate) include_hook_events: bool,
    /// Also send a copy of every transcript line (needs stream-json input and output)
    #[arg(long, help_heading = "For programs (Agent SDKs)", hide_short_help = true)]
    pub(crate) session_mirror: bool,
    /// Reject a first line that is not an initialize request (needs stream-json input and output)
    #[arg(long, help_heading = "For programs (Agent SDKs)", hide_short_help = true)]
    pub(crate) await_initialize: bool,
    /// Wait for a pipe that is quiet, such as tail -f, before the first turn and after each
    #[arg(long, help_heading = "Output", hide_short_help = true)]
    pub(crate) follow: bool,
    /// Print every step on stderr (with --output-format json: print all messages as an array)
    #[arg(long, help_heading = "Output")]
    pub(crate) verbose: bool,
    /// Model: an alias (default, opus, sonnet, haiku, fable, small) or a model id
    #[arg(long, help_heading = "Common")]
    pub(crate) model: Option<String>,
    /// Models to use while the first is overloaded, separated by commas
    #[arg(long, value_name = "MODELS", value_delimiter = ',', help_heading = "Model", hide_short_help = true)]
    pub(crate) fallback_model: Vec<String>,
    /// Thinking effort: low, medium, high, xhigh or max (ultracode means xhigh)
    #[arg(long, value_parser = ["low", "medium", "high", "xhigh", "max", "ultracode"], help_heading = "Model")]
    pub(crate) effort: Option<String>,
    /// adaptive: the model decides how long to think; disabled: no thinking
    #[arg(long, value_enum, value_name = "HOW", help_heading = "Model", hide_short_help = true)]
    pub(crate) thinking: Option<ThinkingFlag>,
    /// Maximum thinking tokens per reply (0 turns thinking off)
    #[arg(long, value_name = "N", conflicts_with = "thinking", help_heading = "Model", hide_short_help = true)]
    pub(crate) max_thinking_tokens: Option<u64>,
    /// Show a summary of the thinking, or omit it
    #[arg(long, value_enum, value_name = "HOW", help_heading = "Model", hide_short_help = true)]
    pub(crate) thinking_display: Option<ThinkingDisplayFlag>,
    /// Tell the model how many tokens the task may use
    #[arg(long, value_name = "TOKENS", help_heading = "Model", hide_short_help = true)]
    pub(crate) task_budget: Option<u64>,
    /// Additional beta features of the API
    #[arg(long, value_name = "BETAS", num_args = 1.., value_delimiter = ',', help_heading = "Model", hide_short_help = true)]
    pub(crate) betas: Vec<String>,
    /// Stop after this many model requests; 0 for no limit [default: 1000]
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = "Limits")]
    pub(crate) max_turns: Option<u32>,
    /// Stop when the session has cost this many dollars
    #[arg(long, value_name = "USD", value_parser = parse_usd, allow_negative_numbers = true, help_heading = "Limits")]
    pub(crate) max_budget_usd: Option<f64>,
    /// Stop when the session has taken this many tokens, cached ones included: 500000, 500k, 2M
    #[arg(long, value_name = "TOKENS", value_parser = parse_token_count, allow_negative_numbers = true, help_heading = "Limits", hide_short_help = true)]
    pub(crate) max_total_tokens: Option<u64>,
    /// Stop when the session has worked this long: 90s, 30m, 2h
    #[arg(long, value_name = "TIME", value_parser = WorkTime::parse, allow_negative_numbers = true, help_heading = "Limits", hide_short_help = true)]
    pub(crate) max_time: Option<Duration>,
    /// Compact the conversation by this window in place of the model's, if it is smaller: auto, 200000, 200k, 1M
    #[arg(long, value_name = "TOKENS", value_parser = CompactionWindow::parse, help_heading = "Limits", hide_short_help = true)]
    pub(crate) autocompact: Option<CompactionWindow>,
    /// Require an answer that matches this JSON Schema; it is printed as structured_output
    #[arg(long, value_name = "SCHEMA", help_heading = "Output", hide_short_help = true)]
    pub(crate) json_schema: Option<String>,
    /// Replace the system prompt
    #[arg(
        long,
        value_name = "TEXT",
        conflicts_with = "system_prompt_file",
        allow_hyphen_values = true,
        help_heading = "Model",
        hide_short_help = true
    )]
    pub(crate) system_prompt: Option<String>,
    /// Replace the system prompt by the content of a file
    #[arg(long, value_name = "FILE", help_heading = "Model", hide_short_help = true)]
    pub(crate) system_prompt_file: Option<PathBuf>,
    /// Append text to the system prompt
    #[arg(
        long,
        value_name = "TEXT",
        conflicts_with = "append_system_prompt_file",
        allow_hyphen_values = true,
        help_heading = "Model",
        hide_short_help = true
    )]
    pub(crate) append_system_prompt: Option<String>,
    /// Append the content of a file to the system prompt
    #[arg(long, value_name = "FILE", help_heading = "Model", hide_short_help = true)]
    pub(crate) append_system_prompt_file: Option<PathBuf>,
    /// Append text to the system prompt of every subagent
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, help_heading = "Model", hide_short_help = true)]
    pub(crate) append_subagent_system_prompt: Option<String>,
    /// Keep the system prompt of a resumed session, or render it anew
    #[arg(long, value_enum, value_name = "on|off", hide = true)]
    pub(crate) system_prompt_snapshot: Option<SnapshotFlag>,
    /// Additional working directories
    #[arg(long, value_name = "DIR", num_args = 1.., help_heading = "Permissions")]
    pub(crate) add_dir: Vec<PathBuf>,
    /// Offer only these tools ("" for none, "default" for all)
    #[arg(long, value_name = "TOOLS", num_args = 1.., help_heading = "Permissions")]
    pub(crate) tools: Option<Vec<String>>,
    /// Subagent types as JSON: {"name": {"description": "...", "prompt": "..."}}
    #[arg(long, value_name = "JSON", help_heading = "Model", hide_short_help = true)]
    pub(crate) agents: Option<String>,
    /// Run the session as this subagent type, with its prompt, tools and model
    #[arg(long, value_name = "NAME", help_heading = "Model", hide_short_help = true)]
    pub(crate) agent: Option<String>,
    /// Permission rules that allow, such as Edit or "Bash(npm test *)"
    #[arg(long = "allowedTools", alias = "allowed-tools", value_name = "RULES", num_args = 1.., help_heading = "Common")]
    pub(crate) allowed_tools: Vec<String>,
    /// Permission rules that deny
    #[arg(long = "disallowedTools", alias = "disallowed-tools", value_name = "RULES", num_args = 1.., help_heading = "Permissions")]
    pub(crate) disallowed_tools: Vec<String>,
    /// Permission mode: default, acceptEdits, plan, auto, dontAsk or bypassPermissions
    #[arg(long, value_name = "MODE", help_heading = "Common")]
    pub(crate) permission_mode: Option<PermissionMode>,
    /// Skip all permission checks. Use only inside an isolated container or VM
    #[arg(long, help_heading = "Permissions", hide_short_help = true)]
    pub(crate) dangerously_skip_permissions: bool,
    /// Allow switching to bypassPermissions during the session
    #[arg(long, help_heading = "Permissions", hide_short_help = true)]
    pub(crate) allow_dangerously_skip_permissions: bool,
    /// Additional settings: a file, or JSON
    #[arg(long, value_name = "FILE_OR_JSON", help_heading = "Settings")]
    pub(crate) settings: Option<String>,
    /// Managed settings of the program that embeds gimlet, as JSON; an administrator's settings win
    #[arg(long, value_name = "JSON", hide = true)]
    pub(crate) managed_settings: Option<String>,
    /// Settings files to read: user, project, local (naming project trusts the project's files)
    #[arg(long, value_name = "SOURCES", help_heading = "Settings", hide_short_help = true)]
    pub(crate) setting_sources: Option<SettingSources>,
    /// Trust this directory's project settings for this run
    #[arg(long, visible_alias = "trust-workspace", help_heading = "Settings")]
    pub(crate) trust: bool,
    /// Use the plugin in this folder or .zip file for this run (repeatable)
    #[arg(long, value_name = "PATH", help_heading = "Settings", hide_short_help = true)]
    pub(crate) plugin_dir: Vec<PathBuf>,
    /// The same, without the plugin's MCP servers
    #[arg(long, value_name = "PATH", help_heading = "Settings", hide_short_help = true)]
    pub(crate) plugin_dir_no_mcp: Vec<PathBuf>,
    /// Start without your hooks, memory, agents, skills, plugins and servers; managed settings stay
    #[arg(long, help_heading = "Settings", hide_short_help = true)]
    pub(crate) safe_mode: bool,
    /// Look for nothing beside settings, and offer only Bash, Read and Edit (flags still add what they name)
    #[arg(long, help_heading = "Settings", hide_short_help = true)]
    pub(crate) bare: bool,
    /// Continue the most recent session of this directory
    #[arg(short = 'c', long = "continue", conflicts_with = "resume", help_heading = "Common")]
    pub(crate) continue_session: bool,
    /// Resume a session by id, id prefix, title or transcript path; without a value, choose from a list
    #[arg(short = 'r', long, value_name = "SESSION", num_args = 0..=1, default_missing_value = "", help_heading = "Common")]
    pub(crate) resume: Option<String>,
    /// With --continue or --resume: work on a copy with a new session id
    #[arg(long, help_heading = "Sessions", hide_short_help = true)]
    pub(crate) fork_session: bool,
    /// With --resume: continue after this entry and drop everything that follows it
    #[arg(long, value_name = "UUID", help_heading = "Sessions", hide_short_help = true)]
    pub(crate) resume_session_at: Option<String>,
    /// With --resume-session-at: fail unless exactly the turn of this prompt is dropped
    #[arg(long, value_name = "UUID", help_heading = "Sessions", hide_short_help = true)]
    pub(crate) resume_drops_turn: Option<String>,
    /// UUID for the new session
    #[arg(long, value_name = "UUID", help_heading = "Sessions", hide_short_help = true)]
    pub(crate) session_id: Option<String>,
    /// Title of the session
    #[arg(short = 'n', long, value_name = "TITLE", help_heading = "Sessions", hide_short_help = true)]
    pub(crate) name: Option<String>,
    /// Call the Setup hooks that prepare a project (trigger init) before the session begins
    #[arg(long, conflicts_with = "maintenance", help_heading = "Sessions", hide_short_help = true)]
    pub(crate) init: bool,
    /// Call the Setup hooks that tend a project (trigger maintenance) before the session begins
    #[arg(long, help_heading = "Sessions", hide_short_help = true)]
    pub(crate) maintenance: bool,
    /// Call the hooks that prepare a project and begin a session (Setup, SessionStart), and exit without a conversation
    #[arg(long, conflicts_with_all = ["init", "maintenance", "prompt", "resume", "continue_session"], help_heading = "Sessions", hide_short_help = true)]
    pub(crate) init_only: bool,
    /// Do not save the session to disk
    #[arg(long, help_heading = "Sessions", hide_short_help = true)]
    pub(crate) no_session_persistence: bool,
    /// Write a debug log; filter with --debug=api,tool
    #[arg(short = 'd', long, value_name = "FILTER", num_args = 0..=1, require_equals = true, default_missing_value = "", help_heading = "Output", hide_short_help = true)]
    pub(crate) debug: Option<String>,
    /// Write the debug log to this file (implies --debug)
    #[arg(long, value_name = "FILE", help_heading = "Output", hide_short_help = true)]
    pub(crate) debug_file: Option<PathBuf>,
}

impl RunArgs {
    /// A program drives the session.
    pub(crate) fn is_driven(&self) -> bool {
        self.input_format == InputFormat::StreamJson
    }
}

/// The command that these arguments name, as far as they name one: `gimlet config set`.
pub(crate) fn command_path(args: &[String]) -> String {
    let mut words = "gimlet".to_owned();
    let mut command = CliArgs::command();
    for arg in args {
        let Some(next) = command.find_subcommand(arg).cloned() else { break };
        words = format!("{words} {arg}");
        command = next;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split_words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_command_line_is_consistent() {
        CliArgs::command().debug_assert();
    }

    #[test]
    fn what_sdks_pass_parses() {
        let args = [
            "gimlet",
            "--output-format",
            "stream-json",
            "--verbose",
            "--system-prompt",
            "",
            "--tools",
            "Read,Bash",
            "--allowedTools",
            "Read,Bash(ls:*)",
            "--max-turns",
            "1",
            "--max-budget-usd",
            "0.0001",
            "--disallowedTools",
            "Write",
            "--task-budget",
            "1000",
            "--model",
            "sonnet",
            "--betas",
            "context-1m-2025-08-07",
            "--permission-prompt-tool",
            "stdio",
            "--permission-mode",
            "acceptEdits",
            "--continue",
            "--settings",
            "{}",
            "--add-dir",
            "/a",
            "--add-dir",
            "/b",
            "--include-partial-messages",
            "--fork-session",
            "--session-mirror",
            "--setting-sources=",
            "--max-thinking-tokens",
            "0",
            "--thinking-display",
            "omitted",
            "--effort",
            "xhigh",
            "--input-format",
            "stream-json",
        ];
        let run = CliArgs::try_parse_from(args).unwrap_or_else(|error| panic!("{error}")).run;
        assert_eq!((run.system_prompt.as_deref(), run.betas.len(), run.add_dir.len()), (Some(""), 1, 2));
        let line =
            "--resume=abc --resume-session-at=u --resume-drops-turn= --thinking adaptive --input-format=stream-json";
        let args = std::iter::once("gimlet".to_owned()).chain(split_words(line));
        let run = CliArgs::try_parse_from(args).unwrap_or_else(|error| panic!("{error}")).run;
        assert_eq!(run.resume_drops_turn.as_deref(), Some(""));
    }

    #[test]
    fn a_flag_may_come_twice_and_the_last_one_counts() {
        for (line, counts) in [
            ("--verbose --verbose", "verbose: true"),
            ("--model opus --model=haiku", "model: Some(\"haiku\")"),
            ("--settings {} --settings {\"a\":1}", "settings: Some(\"{\\\"a\\\":1}\")"),
            ("--permission-mode plan --permission-mode default", "permission_mode: Some(Default)"),
            ("--max-turns 3 --max-turns 4", "max_turns: Some(4)"),
            ("--include-partial-messages --include-partial-messages", "include_partial_messages: true"),
            ("--append-system-prompt a --append-system-prompt b", "append_system_prompt: Some(\"b\")"),
            ("--input-format text --input-format stream-json", "input_format: StreamJson"),
            ("--setting-sources= --setting-sources=user", "user: true"),
            ("--add-dir /a --add-dir /b", "add_dir: [\"/a\", \"/b\"]"),
            ("--mcp-config x --mcp-config y", "mcp_config: [\"x\", \"y\"]"),
            ("--tools a --tools b", "tools: Some([\"a\", \"b\"])"),
        ] {
            let args = std::iter::once("gimlet".to_owned()).chain(split_words(line));
            let run = CliArgs::try_parse_from(args).unwrap_or_else(|error| panic!("{line}: {error}")).run;
            assert!(format!("{run:?}").contains(counts), "{line}: {run:?}");
        }
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
            let args = std::iter::once("gimlet".to_owned()).chain(split_words(line));
            CliArgs::try_parse_from(args).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
        let cli = CliArgs::try_parse_from(["gimlet", "-p", "--tools", "", "go"]);
        assert!(cli.is_ok_and(|cli| cli.run.tools.is_some()));
    }
}
