//! What a session is opened with, and how its parts come together.

use std::path::PathBuf;
use std::sync::Arc;

use gimlet_proto::{
    AgentSpec, CacheTtl, Driver, DriverHook, Env, EventHub, Model, SendableImage, SessionHandle, SessionId,
    ThinkingMode, ToolDef,
};
use gimlet_store::{ResultFiles, SessionCheckpoints, ToolOutputs, keep_newest_images};
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

/// What a session is opened with. Everything is a value: the session reads no environment and no settings.
pub struct SessionConfig {
    pub id: SessionId,
    pub model: Arc<dyn Model>,
    /// An id or an alias.
    pub model_id: String,
    pub thinking: ThinkingMode,
    pub effort: Option<String>,
    pub api_key_source: String,
    pub tools: ToolSet,
    /// Further tools, which may come and go.
    pub tool_source: Option<Arc<dyn ToolSource>>,
    /// Kinds of subagents that the caller defined; they win over built-in ones of the same name.
    pub agents: Vec<(String, AgentSpec)>,
    /// Frozen for the segment.
    pub system: Arc<[String]>,
    pub tool_defs: Arc<[ToolDef]>,
    pub env: Env,
    pub home: Option<PathBuf>,
    pub state: SessionState,
    pub permissions: PermissionConfig,
    /// Someone can be asked.
    pub attended: bool,
    /// What ended in the background may begin a turn by itself; else it waits for the next prompt.
    pub background_may_start_turn: bool,
    /// A prompt is at hand: what calls will need can come up beside the rest of the start.
    pub has_prompt: bool,
    pub options: TurnOptions,
    pub cache_ttl: Option<CacheTtl>,
    pub record: ConversationRecord,
    /// History of a resumed session.
    pub history: Vec<gimlet_proto::Message>,
    /// What the model said behind it, when that is a call which a hook left for later: it runs when somebody speaks.
    pub deferred: Option<gimlet_proto::Message>,
    /// What the calls in it gave back.
    pub outputs: ToolOutputs,
    pub result_files: ResultFiles,
    pub processes: ProcessAccess,
    /// gimlet's own credentials, kept out of history.
    pub redactor: Redactor,
    /// The walls around commands.
    pub sandbox: Option<Arc<SessionSandbox>>,
    /// Holds commands that nobody was asked about.
    pub confinement: Option<Arc<SessionConfinement>>,
    pub plan_config: PlanConfig,
    /// Files and folders of the session's own, its plan among them: they may always be written, also by subagents.
    pub own: Vec<PathBuf>,
    /// The form that answers have to have. Its tool is among `tools`.
    pub output: Option<Arc<OutputSchema>>,
    /// Where files are kept as they were before they changed; `None` when nobody will go back.
    pub checkpoints: Option<SessionCheckpoints>,
    pub file_preferences: FilePreferences,
    /// The program that drives the session, where there is one, and the hooks that it wants called at first.
    pub driver: Option<Arc<dyn Driver>>,
    pub hooks: Vec<DriverHook>,
    /// The agent that the main conversation runs as, if it does.
    pub main_agent: Option<MainAgent>,
    /// How the session came to be.
    pub source: StartSource,
}

/// Opens a session. The returned future is the session's life; the caller runs it.
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
    // Whoever looks before the session's life begins sees where it will be.
    actor.publish_snapshot(false);
    (handle, actor.run())
}
