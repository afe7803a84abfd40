//! The stages of a start: each takes what earlier ones found, returns a named result, and adds its remarks to one list.

use std::path::PathBuf;
use std::sync::Arc;

use gimlet_config::SettingsProblem;
use gimlet_core::{EffectivePermissions, ProcessAccess, PromptSegment, PromptStyle, SessionConfinement, SystemPrompt};
use gimlet_exec::Exec;
use gimlet_model::{ModelSummary, ProviderConfig};
use gimlet_proto::{CredentialSource, Env, ModelInfo, SessionFacts, SessionId};
use tokio::task::JoinHandle;

use super::initial_mode::{self, InitialMode};
use super::key_helper::KeyHelper;
use super::main_agent::{self, AgentNames, MainAgentChoice};
use super::memory_limit::MemoryLimit;
use super::model_choice::{self, SessionModels};
use super::sandbox_setup::{self, SandboxOptions, SandboxSetup};
use super::session_agents::DefinedAgents;
use super::session_history::{ResumeSource, SessionHistory, SessionOpening};
use super::session_tools::SessionTools;
use super::{LaunchOptions, SessionSettings, mcp_servers, provider, session_plugins, session_processes};
use crate::launch_error::LaunchError;
use crate::launch_request::LaunchRequest;
use crate::process_env::ProcessEnv;

/// Remarks of a start for the user, in the order in which they came up.
#[derive(Default)]
pub(super) struct LaunchWarnings {
    lines: Vec<String>,
}

impl LaunchWarnings {
    pub(super) fn extend(&mut self, lines: impl IntoIterator<Item = String>) {
        self.lines.extend(lines);
    }

    pub(super) fn into_lines(self) -> Vec<String> {
        self.lines
    }
}

/// Settings in force, with policy and trust applied.
pub(super) struct ResolvedSettings {
    pub(super) configured: SessionSettings,
    pub(super) now: EffectivePermissions,
    /// Check of the user's state file. The file can be large, so it is checked in parallel.
    pub(super) state_check: JoinHandle<Option<SettingsProblem>>,
}

pub(super) async fn resolve_settings(
    request: &LaunchRequest,
    around: &ProcessEnv,
    manner: &LaunchOptions,
    warnings: &mut LaunchWarnings,
) -> Result<ResolvedSettings, LaunchError> {
    let configured =
        SessionSettings::open_with_policy(request, around).await?.with_flag_settings(&manner.flag_settings);
    mcp_servers::check_sideloading(request, &configured)?;
    let locations = configured.loaded.locations.clone();
    let state_check = tokio::task::spawn_blocking(move || gimlet_config::check_and_back_up_state_file(&locations));
    let now = configured.now();
    warnings.extend(now.remarks.iter().cloned());
    warnings.extend(configured.untrusted_line());
    Ok(ResolvedSettings { configured, now, state_check })
}

/// Agent of the main conversation, and the session to resume.
pub(super) struct ChosenAgent {
    pub(super) role: MainAgentChoice,
    pub(super) source: ResumeSource,
    pub(super) agents: DefinedAgents,
}

pub(super) fn choose_agent(
    request: &LaunchRequest,
    around: &ProcessEnv,
    configured: &SessionSettings,
    now: &EffectivePermissions,
    warnings: &mut LaunchWarnings,
) -> Result<ChosenAgent, LaunchError> {
    let source = ResumeSource::from_flags(request, around)?;
    let before = source.agent();
    let of_plugin = configured.plugins().default_agent();
    let by_settings = configured.effective.settings.agent.as_deref().or(of_plugin.as_deref());
    let named = AgentNames { of_session: before.as_deref(), by_settings };
    let caller = main_agent::parse_agents(request)?;
    let roster = configured.agent_roster(&caller);
    let role = MainAgentChoice::choose(request, &roster, &now.rules, &named)?;
    warnings.extend(role.remark.clone());
    Ok(ChosenAgent { role, source, agents: DefinedAgents { caller, roster } })
}

/// Provider of the model, and the command that prints its key.
pub(super) struct ChosenProvider {
    pub(super) provider: ProviderConfig,
    pub(super) key_helper: Option<Arc<KeyHelper>>,
}

pub(super) fn choose_provider(
    role: &MainAgentChoice,
    configured: &mut SessionSettings,
    warnings: &mut LaunchWarnings,
) -> Result<ChosenProvider, LaunchError> {
    let key_helper = configured.build_key_helper();
    let credentials = key_helper.clone().map(|helper| helper as Arc<dyn CredentialSource>);
    let (provider, missing) = provider::build_provider(&role.request, configured, credentials)?;
    warnings.extend(missing);
    warnings.extend(provider.warnings().iter().cloned());
    Ok(ChosenProvider { provider, key_helper })
}

pub(super) fn choose_mode(
    role: &MainAgentChoice,
    manner: &LaunchOptions,
    configured: &SessionSettings,
    warnings: &mut LaunchWarnings,
) -> Result<InitialMode, LaunchError> {
    let start = initial_mode::choose_mode(role, manner, configured)?;
    warnings.extend(start.warnings.iter().cloned());
    Ok(start)
}

pub(super) fn limit_memory(env: &Env, warnings: &mut LaunchWarnings) -> MemoryLimit {
    let memory = MemoryLimit::from_env(env);
    warnings.extend(memory.remark.clone());
    memory
}

/// Sandbox of commands, and the confinement of those that run without a question.
pub(super) struct BuiltSandbox {
    pub(super) walls: SandboxSetup,
    pub(super) confining: Option<Arc<SessionConfinement>>,
}

pub(super) async fn build_sandbox(
    configured: &SessionSettings,
    now: &EffectivePermissions,
    wishes: SandboxOptions,
    toolbox: &SessionTools,
    warnings: &mut LaunchWarnings,
) -> Result<BuiltSandbox, LaunchError> {
    let walls = sandbox_setup::set_up_sandbox(configured, now, wishes).await?;
    let confining = sandbox_setup::build_confinement(configured, now, &walls);
    warnings.extend(main_agent::agent_remarks(&toolbox.agents));
    warnings.extend(walls.remarks.iter().cloned());
    Ok(BuiltSandbox { walls, confining })
}

pub(super) fn session_facts(
    role: &MainAgentChoice,
    configured: &SessionSettings,
    now: &EffectivePermissions,
    provider: &ProviderConfig,
    toolbox: &SessionTools,
    walls: &SandboxSetup,
) -> SessionFacts {
    SessionFacts {
        output_style: configured.output_style(),
        output_styles: configured.available_styles().into_iter().map(|style| style.name).collect(),
        betas: provider.requested_betas(),
        models: provider.model_summaries().iter().map(model_info).collect(),
        agents: toolbox.offered_agents(&now.rules),
        sandbox_missing: walls.missing.clone(),
        plugins: configured.plugin_summaries(),
        plugin_errors: configured
            .plugin_failures()
            .into_iter()
            .chain(session_plugins::ignored_plugin_flags(&role.request))
            .collect(),
        is_resumed: role.request.session.resume.is_some() || role.request.session.continue_latest,
        // Known once its transcript was read.
        earlier_usage: Vec::new(),
    }
}

fn model_info(offer: &ModelSummary) -> ModelInfo {
    ModelInfo {
        alias: offer.alias.to_owned(),
        id: offer.id.clone(),
        efforts: offer.efforts.iter().map(|level| (*level).to_owned()).collect(),
        adaptive: offer.adaptive,
    }
}

/// Beginning of every request, and the output style in it.
pub(super) struct ChosenPrompt {
    pub(super) segment: PromptSegment,
    pub(super) style: Option<PromptStyle>,
}

/// Renders the beginning of every request: system prompt and tool definitions.
pub(super) fn prompt_segment(
    role: &MainAgentChoice,
    configured: &SessionSettings,
    now: &EffectivePermissions,
    toolbox: &SessionTools,
    walls: &SandboxSetup,
    warnings: &mut LaunchWarnings,
) -> Result<ChosenPrompt, LaunchError> {
    let may_leave = walls.sandbox.as_ref().map(|sandboxing| sandboxing.may_run_unsandboxed);
    let prompt = toolbox.prompt_context(&configured.env, &now.rules, may_leave);
    let mut system = read_system_prompt(&role.request, &configured.around, configured.note_for_model())?;
    if let Some(memory) = role.memory_text(&configured.agent_memory_folders()) {
        system.append = Some(system.append.into_iter().chain([memory]).collect::<Vec<_>>().join("\n\n"));
    }
    let chosen = configured.chosen_style();
    warnings.extend(chosen.remark);
    system.style.clone_from(&chosen.style);
    let segment = PromptSegment {
        system: gimlet_core::system_blocks(&system),
        tools: gimlet_core::tool_defs(&toolbox.tools, &prompt),
        context: None,
    };
    Ok(ChosenPrompt { segment, style: chosen.style })
}

pub(super) fn open_transcript(
    request: &LaunchRequest,
    around: &ProcessEnv,
    manner: &LaunchOptions,
    opening: SessionOpening<'_>,
    warnings: &mut LaunchWarnings,
) -> Result<SessionHistory, LaunchError> {
    let past = SessionHistory::open(request, around, manner, opening)?;
    warnings.extend(past.remarks.iter().cloned());
    Ok(past)
}

/// Chooses the models; a resumed session keeps its own.
pub(super) fn choose_models(
    role: &MainAgentChoice,
    configured: &SessionSettings,
    provider: &ProviderConfig,
    past: &SessionHistory,
    warnings: &mut LaunchWarnings,
) -> Result<SessionModels, LaunchError> {
    let before = past.model.as_deref().or(if role.is_restored() { role.model() } else { None });
    let mut chosen = model_choice::choose_models(&role.request, configured, provider, before)?;
    warnings.extend(chosen.remark.take());
    Ok(chosen)
}

/// Builds the executor and the access to processes, with the session's memory limit, and ends what killed runs have left.
pub(super) fn prepare_processes(
    request: &LaunchRequest,
    configured: &SessionSettings,
    id: &SessionId,
    memory: MemoryLimit,
    key_helper: Option<Arc<KeyHelper>>,
    warnings: &mut LaunchWarnings,
) -> (Exec, ProcessAccess) {
    let config_home = &configured.around.config_home;
    let runtime_dir = config_home.join("gimlet").join("run");
    warnings.extend(gimlet_config::restrict_own_folder(&config_home.join("gimlet")));
    warnings.extend(session_processes::kill_orphans(&runtime_dir));
    let (exec, processes) = session_processes::build_processes(
        &configured.env,
        id,
        provider::choose_effort(request, configured),
        config_home,
        runtime_dir,
    );
    if let Some(group) = memory.group {
        exec.use_memory_group(group);
    }
    if let Some(helper) = key_helper {
        helper.set_exec(exec.clone());
    }
    (exec, processes)
}

fn read_system_prompt(
    request: &LaunchRequest,
    around: &ProcessEnv,
    note: Option<String>,
) -> Result<SystemPrompt, LaunchError> {
    let read = |text: &Option<String>, file: &Option<PathBuf>| match file {
        Some(file) => std::fs::read_to_string(around.cwd.join(file))
            .map(Some)
            .map_err(|error| LaunchError::new(format!("{} cannot be read: {error}", file.display()))),
        None => Ok(text.clone()),
    };
    let replace = read(&request.system_prompt.replace, &request.system_prompt.replace_file)?;
    let append = read(&request.system_prompt.append, &request.system_prompt.append_file)?;
    // A custom system prompt replaces the note as well.
    let note = if replace.is_none() { note } else { None };
    let append: Vec<String> = [note, append].into_iter().flatten().collect();
    Ok(SystemPrompt { replace, style: None, append: (!append.is_empty()).then(|| append.join("\n\n")) })
}
