//! Opens a session: the assembly of its parts from its configuration.

use std::collections::VecDeque;
use std::sync::Arc;

use gimlet_proto::{EventHub, Op, SessionHandle};
use gimlet_store::keep_newest_images;
use gimlet_text::SendableImage;
use tokio::sync::{mpsc, watch};

use super::actor::SessionActor;
use super::op_handler::{ModelSwitchQueue, OpHandler};
use super::queries::HistorySource;
use super::session_config::{HistoryConfig, ModelConfig, SessionConfig};
use super::session_namer::SessionNamer;
use crate::agents::{AgentRuntime, AgentRuntimeParts};
use crate::call::CallScope;
use crate::commands::{CommandContext, CommandResolver};
use crate::context_usage::ContextGauge;
use crate::conversation::{Conversation, ConversationSegment};
use crate::gate::{AskRegistry, Gate, NetworkGate, UserAsker};
use crate::hooks::{HookContext, HookFacilities, HookOwner, HookRegistry};
use crate::model_selection::LiveModelSelection;
use crate::past_calls::PastCalls;
use crate::services::{SessionServices, SessionShared};
use crate::spending::{CostLog, SessionSpending};
use crate::tool::CallHint;
use crate::usage_ledger::UsageLedger;

/// Opens a session. The returned future runs the session; the caller polls it.
pub fn open(mut config: SessionConfig) -> (SessionHandle, impl Future<Output = ()> + Send) {
    let (ops, op_inbox) = mpsc::unbounded_channel();
    let (ask_sender, ask_inbox) = mpsc::unbounded_channel();
    let hub = EventHub::default();
    // A program that drives the session can pass on servers' questions although it answers none about calls.
    let passes_questions = config.turns.attended || config.driver.driver.is_some();
    let server_asks = if passes_questions { Some(ask_sender.clone()) } else { None };
    let history_source = HistorySource {
        transcript: config.history.record.transcript().path().map(ToOwned::to_owned),
        tools: config.tools.tools.clone(),
    };
    let model_selection = LiveModelSelection::new(config.model.provider.clone(), config.model.selection());
    let model_selection = if config.model.managed { model_selection.with_managed_model() } else { model_selection };
    let mut warnings = Vec::new();
    let hooks = build_hooks(&mut config, &mut warnings);
    warnings.extend(limit_images(&mut config.history, &config.model));
    let history: Vec<_> = std::mem::take(&mut config.history.messages).into_iter().map(Arc::new).collect();
    let past_calls = PastCalls::new(history.clone(), std::mem::take(&mut config.history.outputs));
    let services = Arc::new(build_services(&mut config, hooks, ops.clone(), hub.clone()).with_past_calls(past_calls));
    let gate = Arc::new(Gate::new(
        config.permissions,
        &config.model.provider,
        if config.turns.attended { Some(ask_sender) } else { None },
    ));
    let snapshot = watch::Sender::new(Arc::default());
    let handle = SessionHandle::new(config.id, ops, hub, snapshot.subscribe());
    let context = CommandContext::new(handle.clone(), config.model.provider.clone(), &mut config.history.record);
    let commands = CommandResolver::new(config.turns.commands, context);
    let own_defs = config.prompt.tools.clone();
    let (initial_prompt, main_launches) =
        config.agents.main.map_or((None, None), |agent| (agent.initial_prompt, agent.may_launch));
    let is_new = history.is_empty();
    let mut segment = ConversationSegment::new(config.prompt, history, ContextGauge::default());
    segment.announced_planning = config.plan.was_planning;
    config.history.context_parts.into_iter().for_each(|part| segment.note_delivered(part));
    let spending = SessionSpending::new(config.turns.options.limits.clone(), CostLog::new(config.history.costs));
    let ledger = UsageLedger::new(spending);
    let mut conversation = Conversation::new(config.history.record, segment, ledger, config.model.cache_ttl);
    conversation.opening.prompt = if is_new { initial_prompt } else { None };
    conversation.user_words = config.history.user_words;
    if let Some(reply) = config.history.deferred {
        conversation.restore_deferred(reply.blocks);
    }
    let agent_runtime = Arc::new(AgentRuntime::new(AgentRuntimeParts {
        roster: config.agents.roster,
        main_launches,
        append_system: config.agents.append_system,
        memory: config.agents.memory,
        env: services.env(),
        options: &config.turns.options,
        result_files: &config.history.result_files,
        transcripts: conversation.record.agent_transcripts(),
        cache_ttl: config.model.cache_ttl,
        ledger: &conversation.ledger,
    }));
    let judge = NetworkGate::new(&gate, &services, &model_selection, &agent_runtime);
    services.active_sandbox().set_host_judge(Arc::new(judge));
    if config.turns.has_prompt {
        config.tools.tools.offered().for_each(|tool| tool.anticipate(CallHint::PromptReady, &services));
    }
    let steering = services.mailboxes().main_queue().clone();
    steering.log_to(conversation.record.transcript().beside());
    let scope = Arc::new(CallScope::for_session(&services, &gate, &model_selection, &agent_runtime));
    if let Some(source) = &config.tools.source {
        source.set_user_asker(UserAsker::new(server_asks, &scope));
    }
    let actor = SessionActor {
        op_handler: OpHandler {
            scope,
            asks: AskRegistry::default(),
            steering,
            gauge: conversation.history().gauge.clone(),
            tool_source: config.tools.source,
            history: history_source,
            model_switches: ModelSwitchQueue::default(),
            commands,
            cleared: false,
            compactions: VecDeque::new(),
        },
        op_inbox,
        ask_inbox,
        conversation,
        api_key_source: config.model.api_key_source,
        own_tools: (config.tools.tools.clone(), own_defs),
        tools: config.tools.tools,
        output: config.tools.output,
        snapshot,
        background_may_start_turn: config.turns.background_may_start_turn,
        warnings,
        closing: false,
        interrupted: false,
        exit_signal: handle.exit_signal(),
    };
    // A snapshot that is read before the session runs already has the right state.
    actor.publish_snapshot(false);
    (handle, actor.run())
}

/// Creates the registry of hooks. A hook that cannot be registered is reported as a warning.
fn build_hooks(config: &mut SessionConfig, warnings: &mut Vec<String>) -> HookRegistry {
    let hooks = HookRegistry::new(HookContext {
        driver: config.driver.driver.take(),
        transcript: config.history.record.transcript().path().map(ToOwned::to_owned),
        files: Some(config.history.result_files.clone()),
        source: Some(config.history.source),
        setup: config.driver.setup,
        agent: config.agents.main.as_ref().map(|agent| agent.name.clone()),
        facilities: HookFacilities {
            small_model: config.model.small_model.clone(),
            tool_source: config.tools.source.clone(),
        },
    });
    hooks.replace(HookOwner::Settings, std::mem::take(&mut config.driver.settings_hooks));
    if let Some(main) = config.agents.main.as_mut().filter(|main| !main.hooks.is_empty()) {
        hooks.add_main_agent_hooks(&main.name, std::mem::take(&mut main.hooks));
    }
    warnings.extend(hooks.set_driver_hooks(&config.driver.hooks).err());
    hooks
}

/// Drops the oldest images of the history if the model takes fewer. Returns a warning in that case.
fn limit_images(history: &mut HistoryConfig, model: &ModelConfig) -> Option<String> {
    let window = model.provider.facts(&model.model).context_window;
    let most = SendableImage::max_count_for_window(window);
    match keep_newest_images(&mut history.messages, most) {
        0 => None,
        count => Some(format!("the oldest {count} images are left out: the model takes {most} in a request")),
    }
}

/// Creates the services of the main conversation from those parts of the configuration that calls use.
fn build_services(
    config: &mut SessionConfig,
    hooks: HookRegistry,
    ops: mpsc::UnboundedSender<Op>,
    hub: EventHub,
) -> SessionServices {
    let transcript = config.history.record.transcript();
    let side_writer = transcript.beside();
    let transcript_path = transcript.path().map(ToOwned::to_owned);
    let namer = SessionNamer::new(transcript);
    let checkpoints = config.files.checkpoints.take();
    let shared = SessionShared::new(config.id.clone(), std::mem::take(&mut config.env), config.home.take(), hub)
        .with_ops(ops)
        .with_transcript(transcript_path)
        .with_processes(std::mem::take(&mut config.processes))
        .with_redactor(std::mem::take(&mut config.history.redactor))
        .with_hooks(hooks)
        .with_skills(config.skills.clone())
        .with_context_sources(std::mem::take(&mut config.turns.context_sources))
        .with_own_paths(std::mem::take(&mut config.files.own_paths))
        .with_checkpoints(checkpoints.map(|kept| kept.with_side_writer(side_writer)))
        .with_file_preferences(config.files.preferences)
        .with_image_fitter(config.files.image_fitter.take());
    SessionServices::new(shared, config.state.clone(), config.history.result_files.dir().to_owned())
        .with_plan_config(config.plan.clone())
        .with_session_namer(namer)
}
