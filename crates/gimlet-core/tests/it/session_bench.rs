//! A session around a scripted model and tools that say when they run.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use gimlet_core::files::FileStamp;
use gimlet_core::tool::{
    AgentAvailability, AnyTool, CallHint, ErrorClass, NewMessage, PathContext, PromptContext, Tool, ToolContext,
    ToolError, ToolResult, ToolSet, ToolSource,
};
use gimlet_core::{
    AgentConfig, AgentLaunch, AgentRoster, AgentSource, ConversationRecord, DriverConfig, FileConfig, HistoryConfig,
    LaunchOutcome, LiveAgentRoster, MainAgent, ModelConfig, OutputSchema, PermissionConfig, PlanConfig, ProcessAccess,
    PromptSegment, ReviewConfig, SegmentContextPart, SegmentContextSource, SessionConfig, SessionSandbox,
    SessionServices, SessionState, SettingsSource, SpendingLimits, ToolConfig, TurnConfig, TurnOptions, open,
};
use gimlet_exec::{CustodianProgram, Exec, ExecConfig, Shell, ShellConfig};
use gimlet_policy::{Behavior, RuleScope, RuleSet, RuleSource};
use gimlet_proto::{
    AccessNeed, AgentSpec, AskAnswer, Block, BlockKind, Driver, DriverHook, Env, Event, EventBody, EventReader, Model,
    ModelEvent, ModelFacts, ModelRequest, ModelStream, Notice, NoticeLevel, Op, PermissionMode, ReplyEnd, ReplyStart,
    ResultContent, SessionHandle, SessionId, StopReason, SubmittedPrompt, ThinkingMode, TokenUsage, TurnReport,
};
use gimlet_store::{
    DecisionLedger, DecisionLine, EntryStamp, LoadOptions, ResultFiles, SessionCheckpoints, SessionFiles,
    StoreLocations, ToolOutputs, Transcript, TranscriptOptions, load_conversation, new_session_id, read_decisions,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// A model that plays replies and keeps the requests.
#[derive(Default)]
pub(crate) struct ScriptedModel {
    replies: Mutex<VecDeque<Vec<ModelEvent>>>,
    /// Replies in the conversations that begin with these words; one without events never ends.
    tasks: Mutex<BTreeMap<String, VecDeque<Vec<ModelEvent>>>>,
    requests: Mutex<Vec<ModelRequest>>,
    /// Lets a reply go on behind its `Waiting`.
    pub(crate) go: Arc<Notify>,
}

impl ScriptedModel {
    pub(crate) fn requests(&self) -> Vec<ModelRequest> {
        self.requests.lock().unwrap().clone()
    }
}

impl Model for ScriptedModel {
    fn facts(&self, model: &str) -> ModelFacts {
        ModelFacts {
            id: model.to_owned(),
            context_window: 200_000,
            max_output_tokens: 64_000,
            price: None,
            edits_unread: false,
            image_side: 1568,
            bytes_per_token: 4.0,
            min_cache_tokens: 1_024,
            known: false,
        }
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        let task = request.messages[0].blocks[0].as_text().map(|text| text.into_owned()).unwrap_or_default();
        self.requests.lock().unwrap().push(request);
        let mut tasks = self.tasks.lock().unwrap();
        let events = match tasks.get_mut(&task) {
            Some(replies) => replies.pop_front().expect("a reply for every request of a subagent"),
            None => self.replies.lock().unwrap().pop_front().expect("a reply for every request"),
        };
        if events.is_empty() {
            return Box::pin(stream::pending());
        }
        let go = self.go.clone();
        Box::pin(stream::iter(events).then(move |event| {
            let go = go.clone();
            async move {
                if matches!(event, ModelEvent::Waiting { .. }) {
                    go.notified().await;
                }
                event
            }
        }))
    }
}

/// One reply as a stream of events.
pub(crate) fn reply(blocks: &[Block]) -> Vec<ModelEvent> {
    let mut events = vec![started()];
    events.extend(blocks.iter().enumerate().map(|(index, block)| ModelEvent::BlockDone {
        index,
        block: block.clone(),
        bad_input: None,
    }));
    let calls = blocks.iter().any(|block| block.kind() == BlockKind::ToolUse);
    events.push(ended(if calls { StopReason::ToolUse } else { StopReason::EndTurn }));
    events
}

pub(crate) fn started() -> ModelEvent {
    ModelEvent::Started(ReplyStart { message_id: "msg_1".into(), model: "test".into(), ..ReplyStart::default() })
}

pub(crate) fn ended(stop_reason: StopReason) -> ModelEvent {
    ModelEvent::Done(ReplyEnd {
        stop_reason: Some(stop_reason),
        stop_sequence: None,
        usage: TokenUsage::default(),
        context: TokenUsage::default(),
        interrupted: None,
        explanation: None,
        cut_tool_call: None,
    })
}

pub(crate) fn call(id: &str, name: &str, input: Value) -> Block {
    Block::from_json(&json!({"type": "tool_use", "id": id, "name": name, "input": input}).to_string()).unwrap()
}

/// The logs of all sessions of this process, by session.
static LOGS: Mutex<BTreeMap<String, Arc<ToolLog>>> = Mutex::new(BTreeMap::new());

fn log_of(session: &str) -> Arc<ToolLog> {
    LOGS.lock().unwrap().entry(session.to_owned()).or_default().clone()
}

/// What the test tools of one session saw.
#[derive(Default)]
pub(crate) struct ToolLog {
    pub(crate) lines: Mutex<Vec<String>>,
    /// What let the tools expect a call.
    pub(crate) signs: Mutex<Vec<CallHint>>,
    running: AtomicUsize,
    pub(crate) most: AtomicUsize,
    pub(crate) gate: Notify,
    /// Lets a call that waits go on.
    pub(crate) go: Notify,
}

impl ToolLog {
    fn enter(&self) {
        let now = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
    }

    fn leave(&self) {
        self.running.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Input of the test tools.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StepInput {
    /// A name for the log.
    pub(crate) name: String,
    /// How long to take.
    #[serde(default)]
    pub(crate) ms: u64,
    /// `fail`, `moan`, `panic`, `hang`, `wait`, `big`, `large`, `wide`, `news`, `message`, `write`, `check`, `protected` or nothing.
    #[serde(default)]
    pub(crate) manner: String,
}

/// Reads: runs beside others.
pub(crate) struct Look;
/// Writes: runs alone.
pub(crate) struct Touch;

async fn run_step(kind: &str, step: StepInput, cx: &ToolContext) -> Result<ToolResult<String>, ToolError> {
    let log = log_of(cx.services.session_id().as_str());
    log.enter();
    log.lines.lock().unwrap().push(format!("{kind} {} begins", step.name));
    tokio::time::sleep(Duration::from_millis(step.ms)).await;
    let outcome = match step.manner.as_str() {
        "fail" => Err(ToolError::failed(format!("{} failed", step.name))),
        "moan" => Err(ToolError::failed("why\n".repeat(500_000))),
        "panic" => panic!("a tool that panics"),
        "hang" => {
            log.gate.notify_one();
            cx.cancel.cancelled().await;
            Err(ToolError::new(ErrorClass::Interrupted, format!("{} was stopped", step.name)))
        }
        "wait" => {
            log.go.notified().await;
            Ok(ToolResult::new(format!("{} went on", step.name)))
        }
        "big" => Ok(ToolResult::new("x".repeat(200_000))),
        "large" => Ok(ToolResult::new("y".repeat(49_000))),
        "wide" => Ok(ToolResult::new("\u{65e5}".repeat(49_000))),
        "news" => Ok(ToolResult::new("with news".to_owned())
            .with_message(NewMessage::Text("a text".into()))
            .with_message(NewMessage::Notice(Notice { level: NoticeLevel::Info, text: "a notice".into() }))
            .with_message(NewMessage::Attachment(vec![Block::text("one"), Block::text("two")]))),
        "message" => Ok(ToolResult::new(cx.assistant_message().len().to_string())),
        "write" => Ok(write(cx)),
        "check" => Ok(ToolResult::new(is_fresh(cx).to_string())),
        _ => Ok(ToolResult::new(format!("{} done", step.name))),
    };
    log.leave();
    log.lines.lock().unwrap().push(format!("{kind} {} ends", step.name));
    let (name, log) = (step.name, log.clone());
    outcome.map(|result| result.with_change(move |_| log.lines.lock().unwrap().push(format!("change {name}"))))
}

/// Writes the file and notes that it did.
fn write(cx: &ToolContext) -> ToolResult<String> {
    let path = cx.paths.cwd.join("file");
    std::fs::write(&path, "written").unwrap();
    let stamp = FileStamp::from_bytes(b"written", &std::fs::metadata(&path).unwrap());
    ToolResult::new("written".to_owned()).with_change(move |state| state.files.record_write(path, stamp))
}

/// Whether the file is as the session knows it.
fn is_fresh(cx: &ToolContext) -> bool {
    let path = cx.paths.cwd.join("file");
    let stamp = FileStamp::from_bytes(&std::fs::read(&path).unwrap(), &std::fs::metadata(&path).unwrap());
    cx.with_session_state(|state| state.files.get(&path).map(|known| known.stamp)) == Some(stamp)
}

/// The file that a step is about.
fn target(step: &StepInput, cx: &PathContext) -> PathBuf {
    cx.cwd.join(if step.manner == "protected" { ".git/config" } else { "file" })
}

macro_rules! test_tool {
    ($tool:ident, $kind:literal, $need:expr, $person:literal) => {
        impl Tool for $tool {
            const NAME: &'static str = stringify!($tool);
            type Input = StepInput;
            type Output = String;
            fn prompt(&self, _cx: &PromptContext) -> Cow<'static, str> {
                "A tool for tests.".into()
            }
            fn needs(&self, input: &StepInput, cx: &PathContext) -> Vec<AccessNeed> {
                vec![$need(target(input, cx))]
            }
            fn requires_user_interaction(&self, _input: &StepInput) -> bool {
                $person
            }
            fn anticipate(&self, sign: CallHint, services: &SessionServices) {
                log_of(services.session_id().as_str()).signs.lock().unwrap().push(sign);
            }
            fn auto_classifier_input(&self, input: &StepInput) -> String {
                format!("{} {}", input.name, input.manner)
            }
            fn parse_output(&self, json: &str) -> Option<String> {
                serde_json::from_str(json).ok()
            }
            async fn call(&self, input: StepInput, cx: &ToolContext) -> Result<ToolResult<String>, ToolError> {
                run_step($kind, input, cx).await
            }
            fn agent_availability(&self) -> AgentAvailability {
                AgentAvailability::Always
            }
            fn to_blocks(&self, output: &String) -> ResultContent {
                output.clone().into()
            }
        }
    };
}
test_tool!(Look, "look", AccessNeed::Read, false);
test_tool!(Touch, "touch", AccessNeed::Write, false);
test_tool!(Consult, "consult", AccessNeed::Read, true);

/// Wants a person.
pub(crate) struct Consult;

/// Sends a subagent.
pub(crate) struct SpawnTool;

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SpawnInput {
    task: String,
    #[serde(default)]
    subagent_type: Option<String>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    background: Option<bool>,
    #[serde(default)]
    name: Option<String>,
}

impl Tool for SpawnTool {
    const NAME: &'static str = "Agent";
    type Input = SpawnInput;
    type Output = String;
    fn prompt(&self, cx: &PromptContext) -> Cow<'static, str> {
        cx.agents.iter().map(|offer| offer.name.clone()).collect::<Vec<_>>().join(" ").into()
    }
    fn needs(&self, _input: &SpawnInput, _cx: &PathContext) -> Vec<AccessNeed> {
        vec![AccessNeed::Session]
    }
    fn is_concurrency_safe(&self, _input: &SpawnInput, _cx: &PathContext) -> bool {
        true
    }
    fn agent_availability(&self) -> AgentAvailability {
        AgentAvailability::ToLaunchOthers
    }
    fn reports_own_progress(&self) -> bool {
        true
    }
    async fn call(&self, input: SpawnInput, cx: &ToolContext) -> Result<ToolResult<String>, ToolError> {
        let SpawnInput { task, subagent_type: kind, model, background, name } = input;
        let description = task.clone();
        let launch = AgentLaunch { kind, description, prompt: task, model, background, name, ..AgentLaunch::default() };
        Ok(ToolResult::new(match cx.launch_agent(launch).await? {
            LaunchOutcome::Finished(report) => match report.incomplete {
                Some(why) => format!("{} [{why}]", report.text),
                None => report.text,
            },
            LaunchOutcome::InBackground { id, .. } => id,
        }))
    }
    fn to_blocks(&self, output: &String) -> ResultContent {
        output.clone().into()
    }
}

/// A running session.
pub(crate) struct SessionBench {
    pub(crate) dir: TempDir,
    pub(crate) model: Arc<ScriptedModel>,
    pub(crate) handle: SessionHandle,
    pub(crate) events: EventReader,
    pub(crate) log: Arc<ToolLog>,
    pub(crate) files: SessionFiles,
    life: JoinSet<()>,
}

pub(crate) struct BenchSetup {
    pub(crate) mode: PermissionMode,
    /// The session may go over to bypassing permissions, whatever its mode.
    pub(crate) may_bypass: bool,
    /// Auto mode is to be had.
    pub(crate) review: bool,
    pub(crate) attended: bool,
    /// A prompt is at hand from the start.
    pub(crate) prompted: bool,
    pub(crate) concurrency: usize,
    /// Calls may begin while the reply still streams.
    pub(crate) early: bool,
    pub(crate) max_budget_usd: Option<f64>,
    /// Replies in conversations of subagents, by their task.
    pub(crate) tasks: Vec<(&'static str, Vec<Vec<ModelEvent>>)>,
    pub(crate) env: Env,
    pub(crate) deny: Vec<&'static str>,
    /// Kinds of subagents that the caller defined.
    pub(crate) agents: Vec<(String, AgentSpec)>,
    /// What stands in front of the conversation.
    pub(crate) context: Vec<SegmentContextPart>,
    /// What gives it instead, when the segment opens.
    pub(crate) context_sources: Vec<Arc<dyn SegmentContextSource>>,
    pub(crate) question_patience: Option<Duration>,
    /// Settings that can change.
    pub(crate) live: Option<Box<dyn SettingsSource>>,
    /// The walls around commands.
    pub(crate) sandboxing: Option<SessionSandbox>,
    pub(crate) plans: PlanConfig,
    /// What is the session's own.
    pub(crate) own: Vec<PathBuf>,
    /// The JSON Schema of answers.
    pub(crate) output: Option<Arc<OutputSchema>>,
    pub(crate) checkpoints: Option<SessionCheckpoints>,
    /// The program that drives the session, and the hooks that it wants.
    pub(crate) driver: Option<Arc<dyn Driver>>,
    pub(crate) hooks: Vec<DriverHook>,
    pub(crate) rules: RuleSet,
    /// Tools that come and go.
    pub(crate) guests: Option<Arc<dyn ToolSource>>,
    /// Tools that are called instead of others.
    pub(crate) stand_ins: Vec<(&'static str, &'static str)>,
    /// The session is kept on disk.
    pub(crate) saved: bool,
    /// What the main conversation runs as.
    pub(crate) main_agent: Option<MainAgent>,
    /// Slash commands besides the built-in ones.
    pub(crate) commands: Vec<Arc<dyn gimlet_core::commands::SlashCommand>>,
}

impl Default for BenchSetup {
    fn default() -> Self {
        Self {
            mode: PermissionMode::BypassPermissions,
            may_bypass: false,
            review: false,
            attended: false,
            prompted: false,
            concurrency: 10,
            early: true,
            max_budget_usd: None,
            sandboxing: None,
            plans: PlanConfig::default(),
            own: Vec::new(),
            output: None,
            checkpoints: None,
            tasks: Vec::new(),
            env: Env::default(),
            deny: Vec::new(),
            live: None,
            question_patience: None,
            driver: None,
            hooks: Vec::new(),
            rules: RuleSet::default(),
            guests: None,
            stand_ins: Vec::new(),
            saved: false,
            main_agent: None,
            commands: Vec::new(),
            agents: Vec::new(),
            context: Vec::new(),
            context_sources: Vec::new(),
        }
    }
}

impl SessionBench {
    pub(crate) fn new(setup: BenchSetup, replies: Vec<Vec<ModelEvent>>) -> Self {
        Self::new_with(|_| setup, replies)
    }

    /// A session whose setup depends on its project folder.
    pub(crate) fn new_with(setup: impl FnOnce(&Path) -> BenchSetup, replies: Vec<Vec<ModelEvent>>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let setup = setup(&dir.path().canonicalize().unwrap());
        Self::open(dir, new_session_id(), setup, replies)
    }

    /// Opens a session in a folder; one that an earlier bench left there goes on.
    pub(crate) fn open(dir: TempDir, id: SessionId, setup: BenchSetup, replies: Vec<Vec<ModelEvent>>) -> Self {
        let project = dir.path().canonicalize().unwrap();
        let files = StoreLocations::new(&project.join("home")).project(&project).session_files(&id);
        let stamp = EntryStamp::default();
        let tasks = setup.tasks.into_iter().map(|(task, replies)| (task.to_owned(), replies.into())).collect();
        let model = Arc::new(ScriptedModel {
            replies: Mutex::new(replies.into()),
            tasks: Mutex::new(tasks),
            ..ScriptedModel::default()
        });
        let tools = ToolSet::new(vec![
            &Look as &'static dyn AnyTool,
            &Touch,
            &Consult,
            &SpawnTool,
            &crate::question_tools::QuizTool,
            &crate::agent_messaging::PostTool,
            &crate::panic_recovery::FragileTool,
            &crate::planning_tools::PlannerTool,
            &crate::rewind::ScribbleTool,
        ]);
        let owned = |(name, other): (&str, &str)| (name.to_owned(), other.to_owned());
        let tools = tools.with_substitutes(setup.stand_ins.into_iter().map(owned).collect());
        let tools = if setup.attended { tools } else { tools.for_unattended() };
        let tools = match &setup.output {
            Some(output) => tools.with(output.tool()),
            None => tools,
        };
        let mut rules = setup.rules;
        for rule in setup.deny {
            rules.add(Behavior::Deny, rule, &RuleSource::new(RuleScope::Session, &project)).unwrap();
        }
        let earlier = load_conversation(&files.transcript(), &LoadOptions::default()).ok();
        let options = TranscriptOptions::default();
        let transcript = match (setup.saved, &earlier) {
            (true, Some(loaded)) => Transcript::resume(&files, loaded, stamp, options).unwrap(),
            (true, None) => Transcript::create(&files, stamp, options).unwrap(),
            (false, _) => Transcript::new_unsaved(id.clone(), stamp),
        };
        let prompt = PromptContext {
            env: Env::default(),
            tools: Vec::new(),
            background: true,
            sandbox: None,
            agents: Vec::new(),
        };
        let prompt = PromptSegment {
            context: setup.context_sources.is_empty().then(|| setup.context.into()),
            system: gimlet_core::system_blocks(&gimlet_core::SystemPrompt::default()),
            tools: gimlet_core::tool_defs(&tools, &prompt),
        };
        let exec = Exec::new(ExecConfig {
            custodian: CustodianProgram::Fork,
            session_marker: id.to_string(),
            runtime_dir: None,
        });
        let shell = Shell::find(ShellConfig {
            env: Env::default(),
            session_id: id.to_string(),
            effort: None,
            snapshot_file: None,
            prestart: false,
        });
        let setup_roster = AgentRoster::built_in(&setup.env).with(AgentSource::Caller, setup.agents);
        let setup_roster = LiveAgentRoster::new(setup_roster);
        let config = SessionConfig {
            skills: gimlet_core::LiveSkillSet::default(),
            id: id.clone(),
            env: setup.env,
            home: None,
            state: SessionState::new(project.clone(), Vec::new()),
            prompt,
            model: ModelConfig {
                provider: model.clone(),
                model: "test".into(),
                small_model: None,
                managed: false,
                thinking: ThinkingMode::ModelDefault,
                effort: None,
                cache_ttl: None,
                api_key_source: "none".into(),
            },
            tools: ToolConfig { tools, source: setup.guests, output: setup.output },
            agents: AgentConfig { roster: setup_roster, main: setup.main_agent, ..AgentConfig::default() },
            history: HistoryConfig {
                source: gimlet_core::StartSource::Startup,
                record: ConversationRecord::new(transcript),
                deferred: earlier.as_ref().and_then(|loaded| loaded.deferred.clone()),
                messages: earlier.map(|loaded| loaded.messages).unwrap_or_default(),
                context_parts: Vec::new(),
                outputs: ToolOutputs::default(),
                user_words: Vec::new(),
                result_files: ResultFiles::new(&files),
                costs: None,
                redactor: gimlet_core::Redactor::default(),
            },
            turns: TurnConfig {
                context_sources: setup.context_sources,
                attended: setup.attended,
                background_may_start_turn: setup.attended,
                has_prompt: setup.prompted,
                options: TurnOptions {
                    concurrency: setup.concurrency,
                    streaming_execution: setup.early,
                    limits: SpendingLimits { max_budget_usd: setup.max_budget_usd, ..SpendingLimits::default() },
                    ..TurnOptions::default()
                },
                commands: gimlet_core::commands::CommandRegistry::with_commands(setup.commands),
            },
            permissions: PermissionConfig {
                mode: setup.mode,
                rules,
                bypass_reachable: setup.may_bypass || setup.mode == PermissionMode::BypassPermissions,
                review: setup.review.then(ReviewConfig::default),
                settings: setup.live,
                question_patience: setup.question_patience,
                governing_files: Vec::new(),
                decisions: (setup.saved || setup.sandboxing.is_some()).then(|| DecisionLedger::new(&files)),
            },
            processes: ProcessAccess::new(exec, shell).with_sandbox(setup.sandboxing.map(Arc::new)),
            files: FileConfig { own_paths: setup.own, checkpoints: setup.checkpoints, ..FileConfig::default() },
            plan: setup.plans,
            driver: DriverConfig { driver: setup.driver, hooks: setup.hooks, settings_hooks: Vec::new(), setup: None },
        };
        let (handle, session) = open(config);
        let events = handle.subscribe();
        let mut life = JoinSet::new();
        life.spawn(session);
        Self { dir, model, log: log_of(handle.id.as_str()), files, handle, events, life }
    }

    pub(crate) fn say(&self, text: &str) {
        self.handle.send(Op::Submit(SubmittedPrompt::from_text(text)));
    }

    /// Reads events until the turn is over; `each` may answer questions.
    pub(crate) async fn turn(&mut self, mut each: impl FnMut(&Event, &SessionHandle)) -> TurnReport {
        loop {
            let event = self.events.next().await.expect("an open session");
            each(&event, &self.handle);
            if let EventBody::TurnEnded(report) = event.body {
                return *report;
            }
        }
    }

    /// Says something and waits for the end of the turn.
    pub(crate) async fn run(&mut self, text: &str) -> TurnReport {
        self.say(text);
        self.turn(|_, _| {}).await
    }

    /// What the tools did so far, in order.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.log.lines.lock().unwrap().clone()
    }

    /// What was decided so far.
    pub(crate) fn decisions(&self) -> Vec<DecisionLine> {
        read_decisions(&self.files).unwrap().0
    }

    /// Ends the session as a crash would: nothing more is written.
    pub(crate) async fn crash(mut self) -> TempDir {
        self.life.shutdown().await;
        self.dir
    }

    pub(crate) async fn close(mut self) -> TempDir {
        self.handle.send(Op::Close);
        while self.life.join_next().await.is_some() {}
        self.dir
    }

    /// The results in the last user message of request `index`, as (id, is_error, text).
    pub(crate) fn results(&self, index: usize) -> Vec<(String, bool, String)> {
        let requests = self.model.requests();
        let message = requests[index].messages.last().expect("a message").clone();
        message
            .blocks
            .iter()
            .filter_map(|block| {
                let parts = block.as_tool_result()?;
                let text: String = serde_json::from_str(parts.content?.get()).ok()?;
                Some((parts.tool_use_id.into_owned(), parts.is_error, text))
            })
            .collect()
    }
}

/// Answers every question the same way.
pub(crate) fn answer_all(answer: impl Fn() -> AskAnswer) -> impl FnMut(&Event, &SessionHandle) {
    move |event, handle| {
        if let EventBody::Ask(ask) = &event.body {
            handle.send(Op::Answer { ask: ask.id, answer: answer() });
        }
    }
}
