//! From flags and surroundings to an open session.

mod cleanup;
mod configured;
mod key_helper;
mod live;
mod memory;
mod models;
mod planning;
mod policy;
mod sandboxed;
mod sessions;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gimlet_core::tool::{AnyTool, PromptContext, ToolSet, ToolSource, nearest};
use gimlet_core::{
    AgentSource, OutputSchema, Permissions, Processes, Redactor, Review, Roster, SessionConfig, SessionState,
    StartSource, SystemPrompt, TurnOptions,
};
use gimlet_exec::{CustodianProgram, Exec, ExecConfig, Shell, ShellConfig};
use gimlet_mcp::{McpServers, ServerConfig, Timeouts, servers_in};
use gimlet_model::{Anthropic, AnthropicConfig, ConfigError, ModelOffer, ThinkingDisplay};
use gimlet_policy::{
    Behavior, ModeRequest, Rule, RuleError, RuleSet, RuleSource, StartMode, removes_tool, resumed_mode, start_mode,
};
use gimlet_proto::{
    AgentOffer, AgentSpec, CacheTtl, Credentials, Driver, DriverHook, Env, PermissionMode, Secret, SessionHandle,
    SessionId, Thinking,
};
use gimlet_serve::sdk::Mirror;
use gimlet_store::{Checkpoints, Locations};

use crate::args::{RunArgs, ThinkingDisplayFlag, ThinkingFlag};
use crate::report::Report;
use crate::settings;
use crate::surroundings::Surroundings;
pub(crate) use configured::Configured;
pub(crate) use live::FlagSettings;
use live::Live;
use memory::Memory;
use sandboxed::Wishes;
pub(crate) use sandboxed::{InForce, InForceWalls};
pub(crate) use sessions::{NamePlate, Scratch};
use sessions::{Past, Segment};

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
    /// What programs want to know about it.
    pub(crate) facts: Facts,
    /// Its tool servers.
    pub(crate) servers: Option<Arc<McpServers>>,
    pub(crate) name_plate: NamePlate,
}

/// What is known once the session is open.
pub(crate) struct Facts {
    /// As settings name it.
    pub(crate) output_style: String,
    pub(crate) betas: Vec<String>,
    pub(crate) models: Vec<ModelOffer>,
    pub(crate) agents: Vec<AgentOffer>,
}

/// What differs between print mode and other uses.
#[derive(Clone)]
pub(crate) struct Manner {
    /// Someone can be asked.
    pub(crate) attended: bool,
    /// What transcripts say started the session.
    pub(crate) entrypoint: &'static str,
    pub(crate) wire_events: bool,
    /// Where a copy of the transcript goes.
    pub(crate) mirror: Option<Mirror>,
    /// The program that drives the session.
    pub(crate) driver: Option<Arc<dyn Driver>>,
    /// Its hooks.
    pub(crate) hooks: Vec<DriverHook>,
    /// The session takes the place of one that was cleared.
    pub(crate) cleared: bool,
    /// Tool servers inside it.
    pub(crate) driver_servers: Vec<String>,
    /// The servers of the session that was cleared, as its program has left them.
    pub(crate) servers: Option<Arc<McpServers>>,
    /// Settings of the command line that may still change.
    pub(crate) flag_settings: FlagSettings,
}

impl Default for Manner {
    fn default() -> Self {
        Self {
            attended: false,
            entrypoint: "sdk-cli",
            wire_events: false,
            mirror: None,
            driver: None,
            hooks: Vec::new(),
            cleared: false,
            driver_servers: Vec::new(),
            servers: None,
            flag_settings: FlagSettings::default(),
        }
    }
}

/// Opens the session that the flags describe.
pub(crate) async fn start(
    run: &RunArgs,
    around: &Surroundings,
    manner: &Manner,
) -> Result<Started<impl Future<Output = ()> + Send + use<>>, Report> {
    let mut configured = Configured::open(run, around).await?.following(&manner.flag_settings);
    let env = &configured.env.clone();
    let redactor = Redactor::new(credentials(env));
    let key_helper = configured.key_helper(&redactor);
    let helper = key_helper.clone().map(|helper| helper as Arc<dyn Credentials>);
    let mut provider = AnthropicConfig::from_env_or(env, helper)
        .map_err(|error| no_provider(error, &configured))?
        .with_choices(models::choices(run, &configured));
    attune(&mut provider, run, env);
    let now = configured.now();
    let mut warnings: Vec<String> = now.remarks.iter().cloned().chain(configured.untrusted()).collect();
    warnings.extend(provider.warnings().iter().cloned());
    let start = mode(run, &configured)?;
    warnings.extend(start.warnings.iter().cloned());
    let tools = tools(run, env, &now.rules)?;
    let tools = if manner.attended { tools } else { tools.unattended() };
    let output = output_schema(run, env)?;
    let tools = output.iter().fold(tools, |tools, output| tools.with(output.tool()));
    let memory = Memory::of(env);
    warnings.extend(memory.remark.clone());
    let wishes = Wishes { answered: start.answers_about_hosts(manner), max_memory: memory.per_process };
    let walls = sandboxed::sandboxing(&configured, &now, wishes).await?;
    let agents = agents(run)?;
    warnings.extend(walls.remarks.iter().cloned());
    let prompt = PromptContext {
        env: env.clone(),
        tools: tools.offered().map(|tool| tool.name().to_owned()).collect(),
        agents: Roster::built_in(env).with(AgentSource::Caller, agents.clone()).offers(&now.rules),
        background: !env.flag("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS"),
        sandbox: walls.sandboxing.as_ref().map(|sandboxing| sandboxing.may_leave),
    };
    let facts = Facts {
        output_style: configured.effective.settings.output_style.clone().unwrap_or_else(|| "default".to_owned()),
        betas: provider.asked_betas().to_vec(),
        models: provider.offers(),
        agents: prompt.agents.clone(),
    };
    let segment = Segment {
        system: gimlet_core::system_blocks(&system_prompt(run, around, configured.note_for_model())?),
        tools: gimlet_core::tool_defs(&tools, &prompt),
    };
    let past = Past::find(run, around, manner, segment)?;
    warnings.extend(past.remarks.iter().cloned());
    let upkeep = cleanup::Upkeep::asked(&configured, &past.id);
    let chosen = models::choose(run, &configured, &provider, past.model.as_deref())?;
    warnings.extend(chosen.remark);
    let api_key_source = provider.api_key_source().to_owned();
    let runtime_dir = around.config_home.join("gimlet").join("run");
    warnings.extend(sweep(&runtime_dir));
    let processes = processes(env, &past.id, effort(run, &configured), &around.config_home, runtime_dir);
    let exec = processes.exec.clone();
    if let Some(group) = memory.group {
        exec.share_memory(group);
    }
    if let Some(helper) = key_helper {
        helper.start_with(exec.clone());
    }
    let servers = match &manner.servers {
        Some(servers) => Some(servers.clone()),
        None => servers(run, around, manner, env)?.map(Arc::new),
    };
    let options = options(run, &configured, manner);
    let resumed = past.mode.and_then(|mode| resumed_mode(mode, configured.review().is_some()));
    let (plans, own_plan) = planning::plans(around, &configured, &past);
    let checkpoints = checkpoints(run, around, &configured, &past.id);
    let config = SessionConfig {
        id: past.id,
        model: Arc::new(Anthropic::new(provider)),
        model_id: chosen.model,
        thinking: thinking(run, &configured),
        effort: effort(run, &configured),
        api_key_source,
        tools,
        guests: servers.clone().map(|servers| servers as Arc<dyn ToolSource>),
        agents,
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
            review: configured.review().map(|review| Review { model: chosen.reviewer, ..review }),
            governing: configured.governing(),
            live: Some(Box::new(Live::new(configured, walls.walls))),
        },
        attended: manner.attended,
        wakes: manner.driver.is_some(),
        options,
        cache_ttl: cache_ttl(env),
        record: past.record,
        history: past.messages,
        outputs: past.outputs,
        result_files: past.result_files,
        processes,
        redactor,
        sandboxing: walls.sandboxing,
        plans,
        own: own_folders(around).into_iter().chain(own_plan).collect(),
        output,
        checkpoints,
        driver: manner.driver.clone(),
        hooks: manner.hooks.clone(),
        source: if manner.cleared { StartSource::Clear } else { past.source },
    };
    let (handle, life) = gimlet_core::open(config);
    // A start that fails before this has removed nothing.
    if let Some(upkeep) = upkeep {
        warnings.extend(tokio::task::spawn_blocking(|| upkeep.carry_out()).await.ok().flatten());
    }
    let (scratch, name_plate) = ([past.scratch, walls.scratch], past.name_plate);
    Ok(Started { handle, life, exec, warnings, scratch, facts, servers, name_plate })
}

const NOT_A_FILE: &str = "Give the JSON itself, not a file";

/// Whether a file was given where JSON is wanted.
fn names_a_file(given: &str) -> bool {
    !given.trim_start().starts_with(['{', '[', '"'])
}

/// The form that the answer has to have.
fn output_schema(run: &RunArgs, env: &Env) -> Result<Option<Arc<OutputSchema>>, Report> {
    let parsed = run.json_schema.as_deref().map(|text| OutputSchema::parse(text, env));
    parsed.transpose().map_err(|error| {
        let report = Report::new(format!("--json-schema: {error}"));
        if run.json_schema.as_deref().is_some_and(names_a_file) { report.hint(NOT_A_FILE) } else { report }
    })
}

/// The values that must not end up in a transcript, a log or an answer.
pub(crate) fn credentials(env: &Env) -> impl Iterator<Item = Secret> {
    // Both spellings of each: the one that is not used is no less secret.
    let (key, token) = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN");
    [env.get(key), env.exact(key), env.get(token), env.exact(token)].into_iter().flatten().map(Secret::new)
}

/// The tool servers that flags and driver name; `None` when there are none and can be none.
fn servers(run: &RunArgs, around: &Surroundings, manner: &Manner, env: &Env) -> Result<Option<McpServers>, Report> {
    let Some(driver) = &manner.driver else { return Ok(None) };
    let mut servers = Vec::new();
    for given in &run.mcp_config {
        let document = match given.trim() {
            inline if inline.starts_with('{') => given.clone(),
            path => std::fs::read_to_string(around.cwd.join(path))
                .map_err(|error| Report::new(format!("--mcp-config: {path} cannot be read: {error}")))?,
        };
        let found = servers_in(&document).map_err(|error| Report::new(format!("--mcp-config: {error}")))?;
        servers.extend(found);
    }
    let inside = manner.driver_servers.iter().map(|name| (name.clone(), ServerConfig::in_driver(name)));
    servers.extend(inside);
    Ok(Some(McpServers::new(Some(driver.clone()), Timeouts::from_env(env), servers)))
}

/// What the flags and the caller add to every request.
fn attune(provider: &mut AnthropicConfig, run: &RunArgs, env: &Env) {
    provider.add_betas(run.betas.iter().map(String::as_str));
    provider.task_budget = run.task_budget;
    provider.thinking_display = run.thinking_display.map(|display| match display {
        ThinkingDisplayFlag::Summarized => ThinkingDisplay::Summarized,
        ThinkingDisplayFlag::Omitted => ThinkingDisplay::Omitted,
    });
    let callers = [
        ("entrypoint", env.get("CLAUDE_CODE_ENTRYPOINT")),
        ("agent-sdk", env.get("CLAUDE_AGENT_SDK_VERSION")),
        ("client-app", env.get("CLAUDE_AGENT_SDK_CLIENT_APP")),
    ];
    let sendable = |text: &str| text.chars().filter(|char| char.is_ascii_graphic()).collect::<String>();
    provider.callers =
        callers.into_iter().filter_map(|(name, value)| Some(format!("{name}/{}", sendable(value?)))).collect();
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

/// How hard the model thinks: the environment, the flag, the settings.
fn effort(run: &RunArgs, configured: &Configured) -> Option<String> {
    let known = |level: &&str| ["low", "medium", "high", "xhigh", "max"].contains(level);
    let env = configured.env.get("CLAUDE_CODE_EFFORT_LEVEL").filter(known);
    let setting = configured.effective.settings.effort_level.map(|level| level.as_str());
    env.or(run.effort.as_deref()).or(setting).map(str::to_owned)
}

/// How the model thinks: the flags, the environment, then the settings.
fn thinking(run: &RunArgs, configured: &Configured) -> Thinking {
    match run.thinking {
        Some(ThinkingFlag::Adaptive) => return Thinking::ModelDefault,
        Some(ThinkingFlag::Disabled) => return Thinking::Off,
        None => {}
    }
    let budget = run.max_thinking_tokens.or_else(|| configured.env.integer("MAX_THINKING_TOKENS"));
    match (budget, configured.effective.settings.always_thinking_enabled) {
        (Some(0), _) | (None, Some(false)) => Thinking::Off,
        (Some(tokens), _) => Thinking::Budget(tokens),
        (None, _) => Thinking::ModelDefault,
    }
}

fn options(run: &RunArgs, configured: &Configured, manner: &Manner) -> TurnOptions {
    let env = &configured.env;
    TurnOptions {
        max_turns: run.max_turns,
        max_budget_usd: run.max_budget_usd,
        parallel_tools: !env.flag("CLAUDE_CODE_DISABLE_PARALLEL_TOOL_USE"),
        streaming_execution: !env.flag("CLAUDE_CODE_DISABLE_STREAMING_EXECUTION"),
        wire_events: manner.wire_events,
        concurrency: gimlet_core::concurrency(env),
    }
}

/// Where files are kept before they change. In print mode only a program that says so will ever go back.
fn checkpoints(run: &RunArgs, around: &Surroundings, configured: &Configured, id: &SessionId) -> Option<Checkpoints> {
    let env = &configured.env;
    let wanted = match run.print || run.is_driven() {
        true => env.flag("CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING"),
        false => configured.effective.settings.file_checkpointing_enabled != Some(false),
    };
    let kept = wanted && !env.flag("CLAUDE_CODE_DISABLE_FILE_CHECKPOINTING") && !run.no_session_persistence;
    kept.then(|| Checkpoints::open(&Locations::new(&around.config_home), id))
}

fn cache_ttl(env: &Env) -> Option<CacheTtl> {
    if env.flag("DISABLE_PROMPT_CACHING") {
        return None;
    }
    Some(if env.flag("ENABLE_PROMPT_CACHING_1H") { CacheTtl::OneHour } else { CacheTtl::FiveMinutes })
}

/// Tools of the reference CLI that gimlet does not have yet. Rules about them are harmless: there is nothing to call.
const TOOLS_TO_COME: &[&str] = &[
    "Skill",
    "Cd",
    "PowerShell",
    "WebFetch",
    "WebSearch",
    "NotebookEdit",
    "MultiEdit",
    "LSP",
    "ToolSearch",
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
    "ListMcpResourcesTool",
    "ReadMcpResourceTool",
];

/// The names that a rule can be about.
pub(crate) fn known_tools() -> impl Iterator<Item = &'static str> {
    let built_in =
        gimlet_tools::builtin().into_iter().flat_map(|tool| tool.aliases().iter().copied().chain([tool.name()]));
    built_in.chain(TOOLS_TO_COME.iter().copied()).chain(["StructuredOutput"])
}

/// The name of the tool in a rule, if nobody knows such a tool, and the one that may have been meant.
pub(crate) fn unknown_tool(rule: &str) -> Option<(&str, Option<&'static str>)> {
    let name = rule.split('(').next().unwrap_or(rule).trim();
    let known = name.contains('*') || name.starts_with("mcp__") || known_tools().any(|known| known == name);
    (!known).then(|| (name, nearest(name, known_tools())))
}

/// A rule about a tool that nobody knows is a slip, and a deny rule with a slip would deny nothing.
fn known_tool(rule: &str, label: &str, driven: bool) -> Result<(), Report> {
    // What a program passes on may be meant for another version; there is nobody who could correct it.
    let Some((name, close)) = unknown_tool(rule).filter(|_| !driven) else { return Ok(()) };
    let report = Report::new(format!("{label}: there is no tool named '{name}'"));
    Err(match close {
        Some(close) => report.hint(format!("Did you mean {close}?")),
        None => report.hint("See docs/tools.md for the tools there are"),
    })
}

/// Whether a rule that somebody wrote just now can be honoured.
pub(crate) fn check_rule(rule: &str, behavior: Behavior, source: &RuleSource, label: &str) -> Result<(), Report> {
    known_tool(rule, label, false)?;
    Rule::parse(rule, behavior, source).map(drop).map_err(|error| no_rule(label, &error))
}

fn no_rule(label: &str, error: &RuleError) -> Report {
    Report::new(format!("{label}: {error}")).hint("Write rules as Tool or Tool(pattern)")
}

/// The mode of a new session.
struct Start {
    mode: PermissionMode,
    bypass_reachable: bool,
    /// By a flag: that of a resumed session does not count then.
    chosen: bool,
    warnings: Vec<String>,
}

impl Start {
    /// Whether somebody or something could answer what a sandboxed command wants to know.
    fn answers_about_hosts(&self, manner: &Manner) -> bool {
        manner.attended || self.bypass_reachable || self.mode == PermissionMode::Auto
    }
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
    Ok(ToolSet::new(kept))
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
            if run.is_driven() {
                continue;
            }
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

/// The kinds of subagents that `--agents` defines.
fn agents(run: &RunArgs) -> Result<Vec<(String, AgentSpec)>, Report> {
    let Some(json) = &run.agents else { return Ok(Vec::new()) };
    let wrong = |error: serde_json::Error| {
        let report = Report::new(format!("--agents: {error}"));
        if names_a_file(json) {
            return report.hint(NOT_A_FILE);
        }
        report.hint(r#"It is a JSON object: {"name": {"description": "when to use it", "prompt": "what it is told"}}"#)
    };
    let given: serde_json::Map<String, serde_json::Value> = serde_json::from_str(json).map_err(wrong)?;
    given.into_iter().map(|(name, spec)| Ok((name, serde_json::from_value(spec).map_err(wrong)?))).collect()
}

fn system_prompt(run: &RunArgs, around: &Surroundings, note: Option<String>) -> Result<SystemPrompt, Report> {
    let read = |text: &Option<String>, file: &Option<PathBuf>| match file {
        Some(file) => std::fs::read_to_string(around.cwd.join(file))
            .map(Some)
            .map_err(|error| Report::new(format!("{} cannot be read: {error}", file.display()))),
        None => Ok(text.clone()),
    };
    let replace = read(&run.system_prompt, &run.system_prompt_file)?;
    let append = read(&run.append_system_prompt, &run.append_system_prompt_file)?;
    // Whoever brings a prompt of their own has said all that it should say.
    let note = note.filter(|_| replace.is_none());
    let append: Vec<String> = [note, append].into_iter().flatten().collect();
    Ok(SystemPrompt { replace, append: (!append.is_empty()).then(|| append.join("\n\n")) })
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

/// The folders that a session writes plans and memories to. One that a setting moved elsewhere gets no leave by that.
pub(crate) fn own_folders(around: &Surroundings) -> Vec<PathBuf> {
    let memory = Locations::new(&around.config_home).project(&around.cwd).dir().join("memory");
    let project = around.cwd.join(".claude");
    vec![
        around.config_home.join("plans"),
        memory,
        around.config_home.join("agent-memory"),
        project.join("agent-memory"),
        project.join("agent-memory-local"),
    ]
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
