//! From flags and surroundings to an open session.

mod configured;
mod key_helper;
mod live;
mod sandboxed;
mod sessions;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gimlet_core::tool::{AnyTool, PromptContext, ToolSet, nearest};
use gimlet_core::{Permissions, Processes, Redactor, SessionConfig, SessionState, SystemPrompt, TurnOptions};
use gimlet_exec::{CustodianProgram, Exec, ExecConfig, Shell, ShellConfig};
use gimlet_model::{Anthropic, AnthropicConfig, ConfigError};
use gimlet_policy::{ModeRequest, RuleSet, StartMode, removes_tool, resumed_mode, start_mode};
use gimlet_proto::{CacheTtl, Credentials, Env, PermissionMode, Secret, SessionHandle, SessionId, Thinking};

use crate::args::RunArgs;
use crate::report::Report;
use crate::settings;
use crate::surroundings::Surroundings;
use configured::Configured;
use live::Live;
use sessions::{Past, Scratch, Segment};

/// A session ready to run.
pub(crate) struct Started<F> {
    pub(crate) handle: SessionHandle,
    /// The session's life; to be run by the caller.
    pub(crate) life: F,
    pub(crate) exec: Exec,
    /// Remarks from before the session.
    pub(crate) warnings: Vec<String>,
    /// To be kept until the session is over.
    pub(crate) scratch: [Scratch; 2],
}

/// What differs between print mode and other uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    /// Someone can be asked.
    pub(crate) attended: bool,
    /// What transcripts say started the session.
    pub(crate) entrypoint: &'static str,
    pub(crate) wire_events: bool,
}

/// Opens the session that the flags describe.
pub(crate) async fn start(
    run: &RunArgs,
    around: &Surroundings,
    manner: Manner,
) -> Result<Started<impl Future<Output = ()> + Send + use<>>, Report> {
    let mut configured = Configured::read(run, around)?;
    let env = &configured.env.clone();
    let redactor = Redactor::new(credentials(env));
    let key_helper = configured.key_helper(&redactor);
    let provider = AnthropicConfig::from_env_or(env, key_helper.clone().map(|helper| helper as Arc<dyn Credentials>))
        .map_err(|error| no_provider(error, &configured))?;
    let now = configured.now();
    let mut warnings: Vec<String> = now.remarks.into_iter().chain(configured.untrusted()).collect();
    warnings.extend(provider.warnings().iter().cloned());
    let start = mode(run, &configured)?;
    warnings.extend(start.warnings.iter().cloned());
    let tools = tools(run, env, &now.rules)?;
    let walls = sandboxed::sandboxing(&configured, &now.directories).await?;
    warnings.extend(walls.remarks.iter().cloned());
    let prompt = PromptContext {
        env: env.clone(),
        tools: tools.offered().map(|tool| tool.name().to_owned()).collect(),
        background: !env.flag("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS"),
        sandbox: walls.sandboxing.as_ref().map(|sandboxing| sandboxing.may_leave),
    };
    let segment = Segment {
        system: gimlet_core::system_blocks(&system_prompt(run, around)?),
        tools: gimlet_core::tool_defs(&tools, &prompt),
    };
    let past = Past::find(run, around, manner.entrypoint, segment)?;
    warnings.extend(past.remarks.iter().cloned());
    let model_id = model(run, &configured, past.model.as_deref());
    let api_key_source = provider.api_key_source().to_owned();
    let runtime_dir = around.config_home.join("gimlet").join("run");
    warnings.extend(sweep(&runtime_dir));
    let processes = processes(env, &past.id, effort(run, &configured), &around.config_home, runtime_dir);
    let exec = processes.exec.clone();
    if let Some(helper) = key_helper {
        helper.start_with(exec.clone());
    }
    let options = options(run, &configured, manner);
    let resumed = past.mode.and_then(|mode| resumed_mode(mode, configured.review().is_some()));
    let config = SessionConfig {
        id: past.id,
        model: Arc::new(Anthropic::new(provider)),
        model_id,
        api_key_source,
        tools,
        system: past.segment.system,
        tool_defs: past.segment.tools,
        env: env.clone(),
        home: around.home.clone(),
        state: SessionState::new(around.cwd.clone(), now.directories),
        permissions: Permissions {
            mode: resumed.filter(|_| !start.chosen).unwrap_or(start.mode),
            bypass_reachable: start.bypass_reachable,
            rules: now.rules,
            decisions: past.decisions,
            review: configured.review(),
            live: Some(Box::new(Live::new(configured))),
        },
        attended: manner.attended,
        options,
        cache_ttl: cache_ttl(env),
        record: past.record,
        history: past.messages,
        outputs: past.outputs,
        result_files: past.result_files,
        processes,
        redactor,
        sandboxing: walls.sandboxing.map(Arc::new),
    };
    let (handle, life) = gimlet_core::open(config);
    Ok(Started { handle, life, exec, warnings, scratch: [past.scratch, walls.scratch] })
}

/// The values that must not end up in a transcript, a log or an answer.
pub(crate) fn credentials(env: &Env) -> impl Iterator<Item = Secret> {
    // Both spellings of each: the one that is not used is no less secret.
    let (key, token) = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN");
    [env.get(key), env.exact(key), env.get(token), env.exact(token)].into_iter().flatten().map(Secret::new)
}

fn no_provider(error: ConfigError, configured: &Configured) -> Report {
    match error {
        ConfigError::MissingCredential if configured.withholds("apiKeyHelper") => {
            Report::new("no credentials were found, and the apiKeyHelper of this folder is not trusted")
                .hint("Add --trust to use it in this run, or set ANTHROPIC_API_KEY")
        }
        ConfigError::MissingCredential => Report::new("no credentials were found")
            .hint("Set ANTHROPIC_API_KEY, or point ANTHROPIC_BASE_URL at a local model server, or try 'gimlet demo'"),
        error => Report::new(error.to_string()),
    }
}

fn model(run: &RunArgs, configured: &Configured, resumed: Option<&str>) -> String {
    let env = &configured.env;
    let wanted = run.model.as_deref().or_else(|| env.get("ANTHROPIC_MODEL")).or(resumed).or(configured
        .effective
        .settings
        .model
        .as_deref());
    wanted.unwrap_or("default").to_owned()
}

/// How hard the model thinks: the environment, the flag, the settings.
fn effort(run: &RunArgs, configured: &Configured) -> Option<String> {
    let known = |level: &&str| ["low", "medium", "high", "xhigh", "max"].contains(level);
    let env = configured.env.get("CLAUDE_CODE_EFFORT_LEVEL").filter(known);
    let setting = configured.effective.settings.effort_level.map(|level| level.as_str());
    env.or(run.effort.as_deref()).or(setting).map(str::to_owned)
}

fn options(run: &RunArgs, configured: &Configured, manner: Manner) -> TurnOptions {
    let env = &configured.env;
    let budget = env.integer("MAX_THINKING_TOKENS");
    TurnOptions {
        max_turns: run.max_turns,
        thinking: match (budget, configured.effective.settings.always_thinking_enabled) {
            (Some(0), _) | (None, Some(false)) => Thinking::Off,
            (Some(tokens), _) => Thinking::Budget(tokens),
            (None, _) => Thinking::ModelDefault,
        },
        effort: effort(run, configured),
        parallel_tools: !env.flag("CLAUDE_CODE_DISABLE_PARALLEL_TOOL_USE"),
        streaming_execution: !env.flag("CLAUDE_CODE_DISABLE_STREAMING_EXECUTION"),
        wire_events: manner.wire_events,
        concurrency: gimlet_core::concurrency(env),
    }
}

fn cache_ttl(env: &Env) -> Option<CacheTtl> {
    if env.flag("DISABLE_PROMPT_CACHING") {
        return None;
    }
    Some(if env.flag("ENABLE_PROMPT_CACHING_1H") { CacheTtl::OneHour } else { CacheTtl::FiveMinutes })
}

/// Tools of the reference CLI that gimlet does not have yet. Rules about them are harmless: there is nothing to call.
const TOOLS_TO_COME: &[&str] = &[
    "Agent",
    "Task",
    "Skill",
    "Cd",
    "PowerShell",
    "WebFetch",
    "WebSearch",
    "NotebookEdit",
    "MultiEdit",
    "LSP",
    "ToolSearch",
    "AskUserQuestion",
    "EnterPlanMode",
    "ExitPlanMode",
    "TaskCreate",
    "TaskUpdate",
    "TaskGet",
    "TaskList",
    "EnterWorktree",
    "ExitWorktree",
    "CronCreate",
    "CronDelete",
    "CronList",
    "Monitor",
    "SendMessage",
    "StructuredOutput",
    "ListMcpResourcesTool",
    "ReadMcpResourceTool",
];

/// The names that a rule can be about.
pub(crate) fn known_tools() -> impl Iterator<Item = &'static str> {
    let built_in =
        gimlet_tools::builtin().into_iter().flat_map(|tool| tool.aliases().iter().copied().chain([tool.name()]));
    built_in.chain(TOOLS_TO_COME.iter().copied())
}

/// A rule about a tool that nobody knows is a slip, and a deny rule with a slip would deny nothing.
fn known_tool(rule: &str, label: &str) -> Result<(), Report> {
    let name = rule.split('(').next().unwrap_or(rule).trim();
    if name.contains('*') || name.starts_with("mcp__") || known_tools().any(|known| known == name) {
        return Ok(());
    }
    let report = Report::new(format!("{label}: there is no tool named '{name}'"));
    Err(match nearest(name, known_tools()) {
        Some(close) => report.hint(format!("Did you mean {close}?")),
        None => report.hint("See docs/tools.md for the tools there are"),
    })
}

/// The mode of a new session.
struct Start {
    mode: PermissionMode,
    bypass_reachable: bool,
    /// By a flag: that of a resumed session does not count then.
    chosen: bool,
    warnings: Vec<String>,
}

/// The mode to start in; bypass is refused to root outside a sandbox.
fn mode(run: &RunArgs, configured: &Configured) -> Result<Start, Report> {
    let permissions = &configured.effective.settings.permissions;
    let request = ModeRequest {
        flag: run.permission_mode,
        skip_permissions: run.dangerously_skip_permissions,
        allow_skipping: run.allow_dangerously_skip_permissions,
        defaults: &settings::default_mode(&configured.effective).into_iter().collect::<Vec<_>>(),
        bypass_disabled: permissions.disable_bypass_permissions_mode.is_some(),
        auto_available: configured.review().is_some(),
    };
    let StartMode { mode, bypass_reachable, warnings } =
        start_mode(&request).map_err(|error| Report::new(error.to_string()))?;
    if bypass_reachable && rustix::process::getuid().is_root() && !in_sandbox(&configured.env) {
        return Err(Report::new("bypassing permissions as root is refused outside a sandbox")
            .hint("Run as an ordinary user, or set IS_SANDBOX=1 if this machine is one"));
    }
    let chosen = run.dangerously_skip_permissions || run.permission_mode.is_some();
    Ok(Start { mode, bypass_reachable, chosen, warnings })
}

fn in_sandbox(env: &Env) -> bool {
    env.flag("IS_SANDBOX") || ["/.dockerenv", "/run/.containerenv"].iter().any(|mark| Path::new(mark).exists())
}

fn tools(run: &RunArgs, env: &Env, rules: &RuleSet) -> Result<ToolSet, Report> {
    let all: Vec<&'static dyn AnyTool> =
        gimlet_tools::builtin().into_iter().filter(|tool| tool.is_enabled(env)).collect();
    let wanted = wanted_tools(run, &all)?;
    let kept = all.into_iter().filter(|tool| {
        wanted.as_ref().is_none_or(|wanted| wanted.iter().any(|name| name == tool.name()))
            && !removes_tool(rules, tool.name())
    });
    Ok(ToolSet::new(kept.collect()))
}

/// The tools named by `--tools`; `None` for all.
fn wanted_tools(run: &RunArgs, all: &[&'static dyn AnyTool]) -> Result<Option<Vec<String>>, Report> {
    let Some(lists) = &run.tools else { return Ok(None) };
    let names = lists.iter().flat_map(|list| list.split([',', ' '])).filter(|name| !name.is_empty());
    let mut wanted = Vec::new();
    for name in names {
        if name == "default" {
            return Ok(None);
        }
        let Some(tool) = all.iter().find(|tool| tool.name() == name || tool.aliases().contains(&name)) else {
            let report = Report::new(format!("--tools: there is no tool named '{name}'"));
            return Err(match nearest(name, all.iter().map(|tool| tool.name())) {
                Some(close) => report.hint(format!("Did you mean {close}?")),
                None => {
                    let names: Vec<&str> = all.iter().map(|tool| tool.name()).collect();
                    report.hint(format!("Available: {}", names.join(", ")))
                }
            });
        };
        wanted.push(tool.name().to_owned());
    }
    Ok(Some(wanted))
}

fn system_prompt(run: &RunArgs, around: &Surroundings) -> Result<SystemPrompt, Report> {
    let read = |text: &Option<String>, file: &Option<PathBuf>| match file {
        Some(file) => std::fs::read_to_string(around.cwd.join(file))
            .map(Some)
            .map_err(|error| Report::new(format!("{} cannot be read: {error}", file.display()))),
        None => Ok(text.clone()),
    };
    Ok(SystemPrompt {
        replace: read(&run.system_prompt, &run.system_prompt_file)?,
        append: read(&run.append_system_prompt, &run.append_system_prompt_file)?,
    })
}

/// Ends what an earlier run left when it and its custodian were both killed. Costs one look at a folder otherwise.
fn sweep(runtime_dir: &Path) -> Option<String> {
    if !runtime_dir.is_dir() {
        return None;
    }
    match gimlet_exec::sweep(runtime_dir) {
        Ok(swept) if swept.ended_processes > 0 => {
            Some(format!("ended {} processes that a killed run had left", swept.ended_processes))
        }
        Ok(_) => None,
        Err(error) => Some(format!("looking for processes of killed runs failed: {error}")),
    }
}

fn processes(env: &Env, id: &SessionId, effort: Option<String>, config_home: &Path, runtime_dir: PathBuf) -> Processes {
    let own = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("gimlet"));
    let exec = Exec::new(ExecConfig {
        custodian: CustodianProgram::Reexec(own),
        session_marker: id.to_string(),
        runtime_dir: Some(runtime_dir),
    });
    let shell = Shell::find(ShellConfig {
        env: env.clone(),
        session_id: id.to_string(),
        effort,
        snapshot_file: Some(config_home.join("shell-snapshots").join(format!("{id}.sh"))),
    });
    Processes { exec, shell }
}
