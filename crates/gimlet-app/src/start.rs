//! Opening a session from flags and environment.

mod agent_catalogue;
mod compaction_choice;
mod document_settings;
mod file_stamps;
mod folder_trust;
mod hook_catalogue;
mod image_decoder;
mod initial_mode;
mod key_helper;
mod launch_stages;
mod main_agent;
mod mcp_servers;
mod memory_catalogue;
mod memory_limit;
mod memory_source;
mod memory_text;
mod model_choice;
mod plan_file;
mod plugin_catalogue;
mod policy_helper;
mod provider;
mod rule_names;
mod sandbox_setup;
mod server_health;
mod session_agents;
mod session_cleanup;
mod session_expiry;
mod session_history;
mod session_plugins;
mod session_processes;
mod session_settings;
mod session_skills;
mod session_style;
mod session_tools;
mod settings_hooks;
mod settings_reload;
mod skill_catalogue;
mod skill_listing;
mod spending_choice;
#[cfg(test)]
mod trust_tests;

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::Arc;

use gimlet_config::RequireRead;
use gimlet_core::commands::{CommandRegistry, SlashCommand};
use gimlet_core::files::FilePreferences;
use gimlet_core::tool::ToolSource;
use gimlet_core::{
    AgentConfig, DriverConfig, EffectivePermissions, FileConfig, HistoryConfig, LiveOutputStyle, LiveSkillSet,
    ModelConfig, PermissionConfig, ProcessAccess, PromptStyle, ReviewConfig, SegmentContextSource, SessionConfig,
    SessionConfinement, SessionState, StartSource, ToolConfig, TurnConfig, TurnOptions,
};
use gimlet_exec::Exec;
use gimlet_mcp::McpServers;
use gimlet_model::ProviderConfig;
use gimlet_policy::choose_resumed_mode;
use gimlet_proto::{Driver, DriverHook, Env, SessionFacts, SessionHandle, SessionId};
use gimlet_store::{MirrorFactory, SessionCheckpoints, StoreLocations};

use crate::launch_error::LaunchError;
use crate::launch_request::LaunchRequest;
use crate::process_env::ProcessEnv;
pub use agent_catalogue::{AgentCatalogue, CataloguedAgent};
pub use hook_catalogue::{CataloguedHook, HookCatalogue, HookState};
use initial_mode::InitialMode;
pub use initial_mode::PreviousMode;
use launch_stages::{BuiltSandbox, ChosenAgent, ChosenPrompt, ChosenProvider, LaunchWarnings, ResolvedSettings};
use main_agent::MainAgentChoice;
pub use memory_catalogue::MemoryCatalogue;
use memory_source::MemorySource;
use model_choice::SessionModels;
pub use plugin_catalogue::{CataloguedPlugin, PluginCatalogue, PluginCheck};
pub use provider::register_secrets;
pub use rule_names::{check_rule, check_tool_name, find_unknown_tool, known_tools};
pub use sandbox_setup::{FolderSandbox, FolderSandboxSpec};
use sandbox_setup::{SandboxOptions, SandboxSetup};
pub use server_health::{CataloguedServer, ServerCatalogue, check_servers, forget_project_choices, trust_added_server};
use session_agents::LiveAgents;
pub use session_cleanup::SessionCleanup;
use session_expiry::SessionExpiry;
use session_history::{SessionHistory, SessionOpening};
pub use session_history::{SessionTitleTarget, check_session, is_mid_turn};
pub use session_processes::session_folders;
pub use session_settings::SessionSettings;
use session_skills::LiveSkills;
pub use session_style::CataloguedStyle;
use session_style::StyleWatch;
use session_tools::SessionTools;
pub use session_tools::check_schema_and_agents;
pub use settings_reload::FlagSettings;
use settings_reload::{LiveDocuments, SettingsReloader};
pub use skill_catalogue::{CataloguedSkill, SkillCatalogue};
use skill_listing::SkillListing;

/// A session ready to run.
pub struct StartedSession<F> {
    pub handle: SessionHandle,
    /// The session's future; to be run by the caller.
    pub session_future: F,
    /// Remarks from before the session.
    pub warnings: Vec<String>,
    /// Cleanup to run when the session is over.
    pub cleanup: SessionCleanup,
    /// Facts about the session for programs.
    pub facts: SessionFacts,
    /// Its tool servers.
    pub servers: Option<Arc<McpServers>>,
    pub title_target: SessionTitleTarget,
    /// Agent that it keeps when its conversation is cleared; an empty name for none.
    pub agent_when_cleared: Option<String>,
    /// True if the mode that bypasses permissions can be chosen in it.
    pub bypass_reachable: bool,
}

/// Differences between print mode and other uses.
#[derive(Clone)]
pub struct LaunchOptions {
    /// True if there is a user who can be asked.
    pub attended: bool,
    /// Entrypoint recorded in transcripts.
    pub entrypoint: &'static str,
    pub wire_events: bool,
    /// Destination for a copy of the transcript.
    pub mirror: Option<MirrorFactory>,
    /// The program that drives the session.
    pub driver: Option<Arc<dyn Driver>>,
    /// Its hooks.
    pub hooks: Vec<DriverHook>,
    /// True if the session replaces one that was cleared.
    pub cleared: bool,
    /// Mode of the session that this one replaces, if any.
    pub predecessor: Option<PreviousMode>,
    /// Tool servers inside it.
    pub driver_servers: Vec<String>,
    /// Their configurations from the driving program, by name.
    pub driver_server_configs: serde_json::Map<String, serde_json::Value>,
    /// Servers of the cleared session, in the state its program left them.
    pub servers: Option<Arc<McpServers>>,
    /// Settings of the command line that may still change.
    pub flag_settings: FlagSettings,
    /// Slash commands besides the built-in ones.
    pub commands: Vec<Arc<dyn SlashCommand>>,
}

impl Default for LaunchOptions {
    fn default() -> Self {
        Self {
            attended: false,
            entrypoint: "sdk-cli",
            wire_events: false,
            mirror: None,
            driver: None,
            hooks: Vec::new(),
            cleared: false,
            predecessor: None,
            driver_servers: Vec::new(),
            driver_server_configs: serde_json::Map::new(),
            servers: None,
            flag_settings: FlagSettings::default(),
            commands: Vec::new(),
        }
    }
}

/// Opens the session that the request describes, stage by stage. A stage that fails ends the start; nothing of earlier
/// sessions was removed until then.
pub async fn start(
    request: &LaunchRequest,
    around: &ProcessEnv,
    manner: &LaunchOptions,
) -> Result<StartedSession<impl Future<Output = ()> + Send + use<>>, LaunchError> {
    let mut warnings = LaunchWarnings::default();
    let ResolvedSettings { mut configured, now, state_check } =
        launch_stages::resolve_settings(request, around, manner, &mut warnings).await?;
    let ChosenAgent { role, source, agents } =
        launch_stages::choose_agent(request, around, &configured, &now, &mut warnings)?;
    let ChosenProvider { provider, key_helper } =
        launch_stages::choose_provider(&role, &mut configured, &mut warnings)?;
    let start = launch_stages::choose_mode(&role, manner, &configured, &mut warnings)?;
    let toolbox = SessionTools::build(&role, manner, agents, &configured.env, &now.rules)?;
    let memory = launch_stages::limit_memory(&configured.env, &mut warnings);
    let wishes =
        SandboxOptions { can_ask_about_hosts: start.can_answer_host_asks(manner), max_memory: memory.per_process };
    let BuiltSandbox { walls, confining } =
        launch_stages::build_sandbox(&configured, &now, wishes, &toolbox, &mut warnings).await?;
    let mut facts = launch_stages::session_facts(&role, &configured, &now, &provider, &toolbox, &walls);
    let ChosenPrompt { segment, style } =
        launch_stages::prompt_segment(&role, &configured, &now, &toolbox, &walls, &mut warnings)?;
    let compacted_tools = gimlet_core::compacted_tool_defs(&toolbox.tools);
    let opening = SessionOpening { source, segment, agent: role.name(), fsync: configured.fsync(), compacted_tools };
    let past = launch_stages::open_transcript(&role.request, around, manner, opening, &mut warnings)?;
    facts.earlier_usage = past.record.prior_usage();
    let upkeep = SessionExpiry::from_settings(&configured, &past.id);
    let chosen = launch_stages::choose_models(&role, &configured, &provider, &past, &mut warnings)?;
    let processes =
        launch_stages::prepare_processes(&role.request, &configured, &past.id, memory, key_helper, &mut warnings);
    let surroundings = mcp_servers::ServerSurroundings {
        around,
        exec: &processes.0,
        session: &past.id,
        directories: now.directories.clone(),
    };
    let servers = mcp_servers::build_servers(&role.request, surroundings, manner, &configured, &mut warnings)?;
    let parts = SessionParts {
        configured,
        now,
        role,
        provider,
        start,
        toolbox,
        style,
        walls,
        confining,
        past,
        chosen,
        processes,
        servers: servers.clone(),
    };
    let assembled = assemble(around, manner, parts, &mut warnings);
    let (handle, life) = gimlet_core::open(assembled.config);
    // A start that fails before this point has removed nothing.
    if let Some(upkeep) = upkeep {
        warnings.extend(tokio::task::spawn_blocking(|| upkeep.remove_expired()).await.ok().flatten());
    }
    warnings.extend(state_check.await.into_iter().flatten().map(|problem| problem.to_string()));
    Ok(StartedSession {
        handle,
        session_future: life,
        warnings: warnings.into_lines(),
        cleanup: assembled.cleanup,
        facts,
        servers,
        title_target: assembled.title_target,
        agent_when_cleared: assembled.agent_when_cleared,
        bypass_reachable: assembled.bypass_reachable,
    })
}

/// Results of the stages, from which a session is assembled.
struct SessionParts {
    configured: SessionSettings,
    now: EffectivePermissions,
    role: MainAgentChoice,
    provider: ProviderConfig,
    start: InitialMode,
    toolbox: SessionTools,
    style: Option<PromptStyle>,
    walls: SandboxSetup,
    confining: Option<Arc<SessionConfinement>>,
    past: SessionHistory,
    chosen: SessionModels,
    processes: (Exec, ProcessAccess),
    servers: Option<Arc<McpServers>>,
}

/// Configuration of a session, and what its caller keeps.
struct AssembledSession {
    config: SessionConfig,
    cleanup: SessionCleanup,
    title_target: SessionTitleTarget,
    agent_when_cleared: Option<String>,
    bypass_reachable: bool,
}

fn assemble(
    around: &ProcessEnv,
    manner: &LaunchOptions,
    parts: SessionParts,
    warnings: &mut LaunchWarnings,
) -> AssembledSession {
    let SessionParts { mut configured, now, role, provider, start, toolbox, walls, confining, past, chosen, .. } =
        parts;
    let servers = parts.servers;
    let (exec, processes) = parts.processes;
    let (settings_hooks, hook_problems) = configured.start_hooks(&exec, &past.id);
    warnings.extend(hook_problems);
    let (request, env) = (&role.request.clone(), &configured.env.clone());
    let redactor = configured.redactor.clone();
    let api_key_source = provider.api_key_source().to_owned();
    let style = StyleWatch::new(&configured, parts.style);
    let options = TurnOptions { style: style.style(), ..turn_options(request, &configured, manner, warnings) };
    let resumed = past.mode.and_then(|mode| choose_resumed_mode(mode, configured.review().is_some()));
    let (plans, own_plan) = plan_file::plan_location(request, around, &configured, &past);
    let checkpoints = open_checkpoints(request, around, &configured, &past.id);
    let agent_when_cleared = role.agent_after_clear();
    let file_habits = file_habits(&configured);
    let tool_source = servers.clone().map(|servers| role.filter_guests(servers as Arc<dyn ToolSource>));
    let agents = LiveAgents::new(&configured, toolbox.agents);
    let agent_config = AgentConfig {
        roster: agents.roster(),
        main: role.into_main_agent(&agents.roster().current()),
        append_system: request.agents.append_system_prompt.clone(),
        memory: configured.agent_memory_folders(),
    };
    let commands = CommandRegistry::with_commands(manner.commands.iter().cloned());
    if let Some(servers) = &servers {
        servers.set_commands(commands.clone());
    }
    let live_skills = LiveSkills::new(&configured, commands.clone());
    let skills = live_skills.skills();
    let context_sources = context_sources(&configured, &skills);
    let config = SessionConfig {
        id: past.id,
        env: env.clone(),
        home: around.home.clone(),
        state: SessionState::new(around.cwd.clone(), now.directories),
        prompt: past.segment,
        model: ModelConfig {
            provider: provider.into_model(),
            small_model: Some(chosen.reviewer.clone()),
            model: chosen.model,
            managed: chosen.managed,
            thinking: provider::choose_thinking(request, &configured),
            effort: provider::choose_effort(request, &configured),
            cache_ttl: provider::choose_cache_ttl(env),
            api_key_source,
        },
        tools: ToolConfig { tools: toolbox.tools, source: tool_source, output: toolbox.output },
        history: HistoryConfig {
            source: if manner.cleared { StartSource::Clear } else { past.source },
            record: past.record,
            messages: past.messages,
            context_parts: past.context_parts,
            deferred: past.deferred,
            outputs: past.outputs,
            user_words: past.user_words,
            result_files: past.result_files,
            costs: past.costs,
            redactor,
        },
        permissions: PermissionConfig {
            mode: if start.chosen { start.mode } else { resumed.unwrap_or(start.mode) },
            bypass_reachable: start.bypass_reachable,
            rules: now.rules,
            question_patience: now.question_patience,
            decisions: past.decisions,
            review: configured.review().map(|review| ReviewConfig { model: chosen.reviewer, ..review }),
            governing_files: configured.governing_files(),
            settings: Some(Box::new(SettingsReloader::new(
                configured,
                walls.builder,
                LiveDocuments { agents, skills: live_skills },
                style,
            ))),
        },
        turns: TurnConfig {
            attended: manner.attended,
            background_may_start_turn: manner.driver.is_some(),
            has_prompt: !request.is_driven(),
            options,
            context_sources,
            commands,
        },
        processes: processes.with_sandbox(walls.sandbox).with_confinement(confining),
        files: FileConfig {
            own_paths: session_folders(around).into_iter().chain(own_plan).collect(),
            checkpoints,
            preferences: file_habits,
            image_fitter: Some(Arc::new(image_decoder::ImageDecoder)),
        },
        plan: plans,
        skills,
        driver: DriverConfig {
            driver: manner.driver.clone(),
            hooks: manner.hooks.clone(),
            settings_hooks,
            setup: request.session.setup,
        },
        agents: agent_config,
    };
    let (watched, quarantine) = (walls.watched, sandbox_setup::quarantine_dir(around));
    AssembledSession {
        config,
        cleanup: SessionCleanup { exec, servers, watched, quarantine, _scratch: [past.scratch, walls.scratch] },
        title_target: past.title_target,
        agent_when_cleared,
        bypass_reachable: start.bypass_reachable,
    }
}

/// Returns the sources of what stands in front of every conversation, in this order.
fn context_sources(configured: &SessionSettings, skills: &LiveSkillSet) -> Vec<Arc<dyn SegmentContextSource>> {
    let documents = &configured.documents;
    let memory = MemorySource::new(documents.clone(), &configured.env, configured.around.config_home.clone());
    let mut sources: Vec<Arc<dyn SegmentContextSource>> = Vec::new();
    if let Some(memory) = memory {
        sources.push(Arc::new(memory));
    }
    sources.push(Arc::new(SkillListing::new(skills.clone(), documents.clone(), configured.env.clone())));
    sources
}

fn turn_options(
    request: &LaunchRequest,
    configured: &SessionSettings,
    manner: &LaunchOptions,
    warnings: &mut LaunchWarnings,
) -> TurnOptions {
    let env = &configured.env;
    let (compaction, remarks) = compaction_choice::compaction_policy(request, configured);
    warnings.extend(remarks);
    TurnOptions {
        max_turns: spending_choice::turn_limit(request, configured),
        limits: spending_choice::spending_limits(request, configured),
        parallel_tools: !env.flag("CLAUDE_CODE_DISABLE_PARALLEL_TOOL_USE"),
        streaming_execution: !env.flag("CLAUDE_CODE_DISABLE_STREAMING_EXECUTION"),
        wire_events: manner.wire_events,
        concurrency: gimlet_core::concurrency_limit(env),
        compaction,
        style: LiveOutputStyle::default(),
    }
}

/// Returns the path of this session's temporary folder, not created yet. The name cannot be guessed, so no symlink can
/// be planted there.
fn scratch_dir_path(env: &Env) -> PathBuf {
    let named = env.get("CLAUDE_CODE_TMPDIR").map(PathBuf::from).filter(|folder| folder.is_absolute());
    named.unwrap_or_else(|| temp_dir(env)).join(format!("gimlet-{}", gimlet_store::new_session_id()))
}

/// Returns the folder for temporary files.
fn temp_dir(env: &Env) -> PathBuf {
    env.exact("TMPDIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from)
}

/// Opens the store of file checkpoints. In print mode only a program that asks for it can restore files.
fn open_checkpoints(
    request: &LaunchRequest,
    around: &ProcessEnv,
    configured: &SessionSettings,
    id: &SessionId,
) -> Option<SessionCheckpoints> {
    let env = &configured.env;
    let wanted = match request.is_headless() {
        true => env.flag("CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING"),
        false => configured.effective.settings.file_checkpointing_enabled != Some(false),
    };
    let kept = wanted && !env.flag("CLAUDE_CODE_DISABLE_FILE_CHECKPOINTING") && !request.session.is_unsaved;
    kept.then(|| SessionCheckpoints::open(&StoreLocations::new(&around.config_home), id))
}

/// Returns the preferences for reading and changing files.
fn file_habits(configured: &SessionSettings) -> FilePreferences {
    let settings = &configured.effective.settings;
    FilePreferences {
        default_lines: settings.read.default_lines.map(NonZeroU64::from),
        trusts_models: settings.edit.require_read == Some(RequireRead::Model),
    }
}
