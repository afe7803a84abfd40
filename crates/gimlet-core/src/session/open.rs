//! Configuration of a session, and the assembly of its parts.

use std::path::PathBuf;
use std::sync::Arc;

use gimlet_proto::{
    AgentSpec, CacheTtl, Driver, DriverHook, Env, EventHub, Model, SessionHandle, SessionId, ThinkingMode, ToolDef,
};
use gimlet_store::{ResultFiles, SessionCheckpoints, ToolOutputs, keep_newest_images};
use gimlet_text::SendableImage;
use tokio::sync::{mpsc, watch};

use super::SessionState;
use super::actor::SessionActor;
use super::op_handler::{ModelSwitchQueue, OpHandler};
use super::session_namer::SessionNamer;
use crate::agents::{AgentRoster, AgentRuntime, AgentRuntimeParts, AgentSource, MainAgent};
use crate::confinement::SessionConfinement;
use crate::conversation::Conversation;
use crate::files::FilePreferences;
use crate::gate::{AskRegistry, Gate, NetworkGate, PermissionConfig};
use crate::hooks::{HookContext, HookRegistry, StartSource};
use crate::model_selection::{LiveModelSelection, ModelSelection};
use crate::past_calls::PastCalls;
use crate::plan_mode::PlanConfig;
use crate::record::ConversationRecord;
use crate::redact::Redactor;
use crate::sandbox::SessionSandbox;
use crate::services::{ProcessAccess, SessionServices};
use crate::structured_output::OutputSchema;
use crate::tool::{CallHint, ToolSet, ToolSource};
use crate::turn::TurnOptions;

/// Configuration of a session. Everything is a value: the session reads no environment and no settings.
pub struct SessionConfig {
    pub id: SessionId,
    pub model: Arc<dyn Model>,
    /// An id or an alias.
    pub model_id: String,
    pub thinking: ThinkingMode,
    pub effort: Option<String>,
    pub api_key_source: String,
    pub tools: ToolSet,
    /// Further tools, which may appear and disappear.
    pub tool_source: Option<Arc<dyn ToolSource>>,
    /// Kinds of subagents that the caller defined; they override built-in ones with their names.
    pub agents: Vec<(String, AgentSpec)>,
    /// System prompt; fixed for the segment.
    pub system: Arc<[String]>,
    pub tool_defs: Arc<[ToolDef]>,
    pub env: Env,
    pub home: Option<PathBuf>,
    pub state: SessionState,
    pub permissions: PermissionConfig,
    /// True if a user can be asked.
    pub attended: bool,
    /// True if ended background work may begin a turn by itself; otherwise its notice waits for the next prompt.
    pub background_may_start_turn: bool,
    /// True if a prompt is already there: the resources that calls will need can be started in parallel with the rest.
    pub has_prompt: bool,
    pub options: TurnOptions,
    pub cache_ttl: Option<CacheTtl>,
    pub record: ConversationRecord,
    /// History of a resumed session.
    pub history: Vec<gimlet_proto::Message>,
    /// Assistant message after the history, if it is a call that a hook deferred: it runs with the next prompt.
    pub deferred: Option<gimlet_proto::Message>,
    /// Outputs of the calls in the history.
    pub outputs: ToolOutputs,
    pub result_files: ResultFiles,
    pub processes: ProcessAccess,
    /// gimlet's own credentials, kept out of history.
    pub redactor: Redactor,
    /// Sandbox for commands.
    pub sandbox: Option<Arc<SessionSandbox>>,
    /// Confinement for commands that run without a question.
    pub confinement: Option<Arc<SessionConfinement>>,
    pub plan_config: PlanConfig,
    /// Files and folders of the session itself, its plan among them: they may always be written, also by subagents.
    pub own: Vec<PathBuf>,
    /// Schema that answers must match. Its tool is among `tools`.
    pub output: Option<Arc<OutputSchema>>,
    /// Store of files as they were before they changed; `None` if nothing can be restored.
    pub checkpoints: Option<SessionCheckpoints>,
    pub file_preferences: FilePreferences,
    /// Program that drives the session, if there is one, and the hooks that it registers first.
    pub driver: Option<Arc<dyn Driver>>,
    pub hooks: Vec<DriverHook>,
    /// Agent that the main conversation runs as, if any.
    pub main_agent: Option<MainAgent>,
    /// Origin of the session.
    pub source: StartSource,
}

/// Opens a session. The returned future runs the session; the caller polls it.
pub fn open(mut config: SessionConfig) -> (SessionHandle, impl Future<Output = ()> + Send) {
    let (ops, inbox) = mpsc::unbounded_channel();
    let (ask_sender, asked) = mpsc::unbounded_channel();
    let hub = EventHub::default();
    let dials = LiveModelSelection::new(ModelSelection {
        model: config.model_id,
        thinking: config.thinking,
        display: None,
        effort: config.effort,
    });
    let hooks = HookRegistry::new(HookContext {
        driver: config.driver,
        transcript: config.record.transcript().path().map(ToOwned::to_owned),
        files: Some(config.result_files.clone()),
        source: Some(config.source),
        agent: config.main_agent.as_ref().map(|agent| agent.name.clone()),
    });
    let mut remarks: Vec<String> = hooks.set_driver_hooks(&config.hooks).err().into_iter().collect();
    let most = SendableImage::max_count_for_window(config.model.facts(&dials.current().model).context_window);
    match keep_newest_images(&mut config.history, most) {
        0 => {}
        count => remarks.push(format!("the oldest {count} images are left out: the model takes {most} in a request")),
    }
    let history: Vec<_> = config.history.into_iter().map(Arc::new).collect();
    let (initial_prompt, main_launches) =
        config.main_agent.map_or((None, None), |agent| (agent.initial_prompt, agent.may_launch));
    let initial_prompt = initial_prompt.filter(|_| history.is_empty());
    let beside = config.record.transcript().beside();
    let named = config.record.transcript().labels().display_title().is_some();
    let services = Arc::new(
        SessionServices::new(
            config.id.clone(),
            config.env,
            config.home,
            config.result_files.dir().to_owned(),
            hub.clone(),
            config.state,
        )
        .with_ops(ops.clone())
        .with_past_calls(PastCalls::new(history.clone(), config.outputs))
        .with_processes(config.processes)
        .with_redactor(config.redactor)
        .with_sandbox(config.sandbox)
        .with_confinement(config.confinement)
        .with_plan_config(&config.plan_config)
        .with_own_paths(config.own)
        .with_session_namer(SessionNamer::new(beside.clone(), named))
        .with_checkpoints(config.checkpoints.map(|kept| kept.with_side_writer(beside.clone())))
        .with_file_preferences(config.file_preferences)
        .with_hooks(hooks),
    );
    let roster = AgentRoster::built_in(&services.env).with(AgentSource::Caller, config.agents);
    let gate = Arc::new(Gate::new(config.permissions, &config.model, config.attended.then_some(ask_sender)));
    let snapshot = watch::Sender::new(Arc::default());
    let handle = SessionHandle::new(config.id.clone(), ops, hub, snapshot.subscribe());
    let items = Arc::default();
    let own_defs = config.tool_defs.clone();
    let mut conversation = Conversation::new(config.record, config.system, config.tool_defs, history, config.cache_ttl);
    conversation.told_planning = config.plan_config.was_planning;
    conversation.opening_prompt = initial_prompt;
    if let Some(asking) = config.deferred {
        conversation.restore_deferred(asking.blocks);
    }
    let host = Arc::new(AgentRuntime::new(AgentRuntimeParts {
        model: &config.model,
        roster,
        main_launches,
        env: &services.env,
        options: &config.options,
        items: &items,
        result_files: &config.result_files,
        transcripts: conversation.record.agent_transcripts(),
        cache_ttl: config.cache_ttl,
        ledger: &conversation.ledger,
    }));
    services.active_sandbox().set_host_judge(Arc::new(NetworkGate::new(&gate, &services, &dials, &host)));
    if config.has_prompt {
        config.tools.offered().for_each(|tool| tool.anticipate(CallHint::PromptReady, &services));
    }
    let steering = services.mailboxes().main_queue().clone();
    steering.log_to(beside);
    let actor = SessionActor {
        desk: OpHandler {
            services,
            gate,
            asks: AskRegistry::default(),
            steering,
            dials,
            gauge: conversation.gauge.clone(),
            model: config.model.clone(),
            host: host.clone(),
            guests: config.tool_source,
            agents: conversation.record.agent_transcripts(),
            switches: ModelSwitchQueue::default(),
            cleared: false,
        },
        inbox,
        asked,
        conversation,
        model: config.model,
        api_key_source: config.api_key_source,
        own_tools: (config.tools.clone(), own_defs),
        tools: config.tools,
        host,
        options: config.options,
        items,
        result_files: config.result_files,
        output: config.output,
        snapshot,
        wakes: config.background_may_start_turn,
        remarks,
        closing: false,
        interrupted: false,
        leaving: handle.exit_signal(),
    };
    // A snapshot that is read before the session runs already has the right state.
    actor.publish_snapshot(false);
    (handle, actor.run())
}
