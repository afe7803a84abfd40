//! From flags and surroundings to an open session.

mod agents;
mod behind;
mod cleanup;
mod configured;
mod key_helper;
mod live;
mod memory;
mod mode;
mod models;
mod planning;
mod policy;
mod processes;
mod provider;
mod rule_names;
mod sandboxed;
mod servers;
mod sessions;
mod toolbox;
#[cfg(test)]
mod trust_tests;

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::Arc;

use gimlet_config::RequireRead;
use gimlet_core::files::FileHabits;
use gimlet_core::tool::ToolSource;
use gimlet_core::{Permissions, Review, SessionConfig, SessionState, StartSource, SystemPrompt, TurnOptions};
use gimlet_mcp::McpServers;
use gimlet_model::{Anthropic, ModelOffer};
use gimlet_policy::resumed_mode;
use gimlet_proto::{AgentOffer, Credentials, Driver, DriverHook, Env, SessionHandle, SessionId};
use gimlet_serve::sdk::Mirror;
use gimlet_store::{Checkpoints, Locations};

use crate::args::RunArgs;
use crate::report::Report;
use crate::surroundings::Surroundings;
use agents::{Named, Role};
pub(crate) use behind::LeftBehind;
pub(crate) use configured::Configured;
pub(crate) use live::FlagSettings;
use live::Live;
use memory::Memory;
pub(crate) use mode::Predecessor;
pub(crate) use processes::own_folders;
pub(crate) use provider::teach;
pub(crate) use rule_names::{check_rule, known_tool, known_tools, unknown_tool};
use sandboxed::Wishes;
pub(crate) use sandboxed::{InForce, InForceWalls};
pub(crate) use sessions::{NamePlate, check as check_session, is_mid_turn};
use sessions::{Opening, Past, Segment, Source};
use toolbox::Toolbox;
pub(crate) use toolbox::check_shape;

/// A session ready to run.
pub(crate) struct Started<F> {
    pub(crate) handle: SessionHandle,
    /// The session's life; to be run by the caller.
    pub(crate) life: F,
    /// Remarks from before the session.
    pub(crate) warnings: Vec<String>,
    /// To be cleared away when the session is over.
    pub(crate) behind: LeftBehind,
    /// What programs want to know about it.
    pub(crate) facts: Facts,
    /// Its tool servers.
    pub(crate) servers: Option<Arc<McpServers>>,
    pub(crate) name_plate: NamePlate,
    /// The agent that it keeps when its conversation is cleared; an empty name for none.
    pub(crate) agent_when_cleared: Option<String>,
    /// Whether the mode that bypasses permissions can be chosen in it.
    pub(crate) bypass_reachable: bool,
}

/// What is known once the session is open.
pub(crate) struct Facts {
    /// As settings name it.
    pub(crate) output_style: String,
    pub(crate) betas: Vec<String>,
    pub(crate) models: Vec<ModelOffer>,
    pub(crate) agents: Vec<AgentOffer>,
    /// What of the sandbox that settings ask for cannot be had.
    pub(crate) sandbox_missing: Option<String>,
    /// Flags that name plugins, which are set aside.
    pub(crate) plugin_flags: Vec<String>,
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
    /// What it takes the place of, whatever for.
    pub(crate) predecessor: Option<Predecessor>,
    /// Tool servers inside it.
    pub(crate) driver_servers: Vec<String>,
    /// What it says about those besides, by name.
    pub(crate) driver_server_configs: serde_json::Map<String, serde_json::Value>,
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
            predecessor: None,
            driver_servers: Vec::new(),
            driver_server_configs: serde_json::Map::new(),
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
    servers::check_sideloading(run, &configured)?;
    let env = &configured.env.clone();
    let locations = configured.loaded.locations.clone();
    // The file can be large; it is looked at while everything else is made ready.
    let state = tokio::task::spawn_blocking(move || gimlet_config::check_state(&locations));
    let now = configured.now();
    let source = Source::of(run, around)?;
    let before = source.agent();
    let named = Named { before: before.as_deref(), by_settings: configured.effective.settings.agent.as_deref() };
    let role = Role::of(run, env, &now.rules, &named)?;
    let run = &role.run.clone();
    let redactor = configured.redactor.clone();
    let key_helper = configured.key_helper();
    let (provider, missing) =
        provider::provider(run, &configured, key_helper.clone().map(|helper| helper as Arc<dyn Credentials>))?;
    let mut warnings: Vec<String> = now.remarks.iter().cloned().chain(configured.untrusted()).collect();
    warnings.extend(missing);
    warnings.extend(role.remark.clone());
    warnings.extend(provider.warnings().iter().cloned());
    let start = mode::mode(&role, manner, &configured)?;
    warnings.extend(start.warnings.iter().cloned());
    let toolbox = Toolbox::of(&role, manner, env, &now.rules)?;
    let memory = Memory::of(env);
    warnings.extend(memory.remark.clone());
    let wishes = Wishes { answered: start.answers_about_hosts(manner), max_memory: memory.per_process };
    let walls = sandboxed::sandboxing(&configured, &now, wishes).await?;
    let confining = sandboxed::confining(&configured, &now, &walls);
    warnings.extend(agents::remarks(&toolbox.agents));
    warnings.extend(walls.remarks.iter().cloned());
    let may_leave = walls.sandboxing.as_ref().map(|sandboxing| sandboxing.may_leave);
    let prompt = toolbox.prompt(env, &now.rules, may_leave);
    let facts = Facts {
        output_style: configured.output_style(),
        betas: provider.asked_betas().to_vec(),
        models: provider.offers(),
        agents: toolbox.roster(env).offers(&now.rules),
        sandbox_missing: walls.missing.clone(),
        plugin_flags: servers::plugin_flags(run).map(str::to_owned).collect(),
    };
    let segment = Segment {
        system: gimlet_core::system_blocks(&system_prompt(run, around, configured.note_for_model())?),
        tools: gimlet_core::tool_defs(&toolbox.tools, &prompt),
    };
    let past =
        Past::find(run, around, manner, Opening { source, segment, agent: role.name(), fsync: configured.fsync() })?;
    warnings.extend(past.remarks.iter().cloned());
    let upkeep = cleanup::Upkeep::asked(&configured, &past.id);
    let before = past.model.as_deref().or(role.model().filter(|_| role.is_restored()));
    let chosen = models::choose(run, &configured, &provider, before)?;
    warnings.extend(chosen.remark);
    let api_key_source = provider.api_key_source().to_owned();
    let runtime_dir = around.config_home.join("gimlet").join("run");
    warnings.extend(gimlet_config::close_own_folder(&around.config_home.join("gimlet")));
    warnings.extend(processes::sweep(&runtime_dir));
    let processes =
        processes::processes(env, &past.id, provider::effort(run, &configured), &around.config_home, runtime_dir);
    let exec = processes.exec.clone();
    if let Some(group) = memory.group {
        exec.share_memory(group);
    }
    if let Some(helper) = key_helper {
        helper.start_with(exec.clone());
    }
    let servers = servers::servers(run, around, manner, &configured)?;
    let options = options(run, &configured, manner);
    let resumed = past.mode.and_then(|mode| resumed_mode(mode, configured.review().is_some()));
    let (plans, own_plan) = planning::plans(run, around, &configured, &past);
    let checkpoints = checkpoints(run, around, &configured, &past.id);
    let agent_when_cleared = role.kept_when_cleared();
    let file_habits = file_habits(&configured);
    let config = SessionConfig {
        id: past.id,
        model: Arc::new(Anthropic::new(provider)),
        model_id: chosen.model,
        thinking: provider::thinking(run, &configured),
        effort: provider::effort(run, &configured),
        api_key_source,
        tools: toolbox.tools,
        guests: servers.clone().map(|servers| role.guests(servers as Arc<dyn ToolSource>)),
        agents: toolbox.agents,
        system: past.segment.system,
        tool_defs: past.segment.tools,
        env: env.clone(),
        home: around.home.clone(),
        state: SessionState::new(around.cwd.clone(), now.directories),
        permissions: Permissions {
            mode: resumed.filter(|_| !start.chosen).unwrap_or(start.mode),
            bypass_reachable: start.bypass_reachable,
            rules: now.rules,
            question_patience: now.question_patience,
            decisions: past.decisions,
            review: configured.review().map(|review| Review { model: chosen.reviewer, ..review }),
            governing: configured.governing(),
            live: Some(Box::new(Live::new(configured, walls.walls))),
        },
        attended: manner.attended,
        wakes: manner.driver.is_some(),
        prompted: !run.is_driven(),
        options,
        cache_ttl: provider::cache_ttl(env),
        record: past.record,
        history: past.messages,
        outputs: past.outputs,
        deferred: past.deferred,
        result_files: past.result_files,
        processes,
        redactor,
        sandboxing: walls.sandboxing,
        confining,
        plans,
        own: own_folders(around).into_iter().chain(own_plan).collect(),
        output: toolbox.output,
        checkpoints,
        file_habits,
        driver: manner.driver.clone(),
        hooks: manner.hooks.clone(),
        main_agent: role.main_agent(),
        source: if manner.cleared { StartSource::Clear } else { past.source },
    };
    let (handle, life) = gimlet_core::open(config);
    // A start that fails before this has removed nothing.
    if let Some(upkeep) = upkeep {
        warnings.extend(tokio::task::spawn_blocking(|| upkeep.carry_out()).await.ok().flatten());
    }
    warnings.extend(state.await.into_iter().flatten().map(|problem| problem.to_string()));
    let (watched, quarantine) = (walls.watched, sandboxed::quarantine(around));
    let behind = LeftBehind { exec, watched, quarantine, _scratch: [past.scratch, walls.scratch] };
    let name_plate = past.name_plate;
    let bypass_reachable = start.bypass_reachable;
    Ok(Started { handle, life, warnings, behind, facts, servers, name_plate, agent_when_cleared, bypass_reachable })
}

fn options(run: &RunArgs, configured: &Configured, manner: &Manner) -> TurnOptions {
    let env = &configured.env;
    TurnOptions {
        max_turns: run.max_turns.or_else(|| most_turns(env)),
        max_budget_usd: run.max_budget_usd,
        parallel_tools: !env.flag("CLAUDE_CODE_DISABLE_PARALLEL_TOOL_USE"),
        streaming_execution: !env.flag("CLAUDE_CODE_DISABLE_STREAMING_EXECUTION"),
        wire_events: manner.wire_events,
        concurrency: gimlet_core::concurrency(env),
    }
}

/// The limit on turns where no flag says one.
fn most_turns(env: &Env) -> Option<u32> {
    env.integer("CLAUDE_CODE_MAX_TURNS").and_then(|turns| u32::try_from(turns).ok()).filter(|turns| *turns > 0)
}

/// A folder of this session's own for what ends with it, not made yet. A name that nobody can guess, so that nobody can
/// have put a link there.
fn scratch_folder(env: &Env) -> PathBuf {
    let named = env.get("CLAUDE_CODE_TMPDIR").map(PathBuf::from).filter(|folder| folder.is_absolute());
    named.unwrap_or_else(std::env::temp_dir).join(format!("gimlet-{}", gimlet_store::new_session_id()))
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

/// How files are read and changed.
fn file_habits(configured: &Configured) -> FileHabits {
    let settings = &configured.effective.settings;
    FileHabits {
        default_lines: settings.read.default_lines.map(NonZeroU64::from),
        trusts_models: settings.edit.require_read == Some(RequireRead::Model),
    }
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
