//! A session around a scripted model and tools that say when they run.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::stream;
use gimlet_core::tool::{
    AnyTool, ErrorClass, PathContext, PromptContext, Tool, ToolContext, ToolError, ToolResult, ToolSet,
};
use gimlet_core::{
    LiveSettings, OutputSchema, Permissions, Plans, Processes, Record, Review, SessionConfig, SessionState,
    TurnOptions, open,
};
use gimlet_exec::{CustodianProgram, Exec, ExecConfig, Shell, ShellConfig};
use gimlet_proto::{
    Answer, Block, BlockKind, Body, Env, Event, Model, ModelEvent, ModelFacts, ModelRequest, ModelStream, Need, Op,
    PermissionMode, Reader, ReplyEnd, ReplyStart, ResultContent, Say, SessionHandle, StopReason, Thinking, TurnReport,
    Usage,
};
use gimlet_store::{Checkpoints, Locations, ResultFiles, Stamp, ToolOutputs, Transcript, new_session_id};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// A model that plays replies and keeps the requests.
#[derive(Default)]
pub(crate) struct Scripted {
    replies: Mutex<VecDeque<Vec<ModelEvent>>>,
    requests: Mutex<Vec<ModelRequest>>,
}

impl Scripted {
    pub(crate) fn requests(&self) -> Vec<ModelRequest> {
        self.requests.lock().unwrap().clone()
    }
}

impl Model for Scripted {
    fn facts(&self, model: &str) -> ModelFacts {
        ModelFacts {
            id: model.to_owned(),
            context_window: 200_000,
            max_output_tokens: 64_000,
            price: None,
            known: false,
        }
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        self.requests.lock().unwrap().push(request);
        let events = self.replies.lock().unwrap().pop_front().expect("a reply for every request");
        Box::pin(stream::iter(events))
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
        usage: Usage::default(),
        interrupted: None,
        explanation: None,
        cut_tool_call: false,
    })
}

pub(crate) fn call(id: &str, name: &str, input: Value) -> Block {
    Block::from_json(&json!({"type": "tool_use", "id": id, "name": name, "input": input}).to_string()).unwrap()
}

/// The logs of all sessions of this process, by session.
static LOGS: Mutex<BTreeMap<String, Arc<Log>>> = Mutex::new(BTreeMap::new());

fn log_of(session: &str) -> Arc<Log> {
    LOGS.lock().unwrap().entry(session.to_owned()).or_default().clone()
}

/// What the test tools of one session saw.
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) lines: Mutex<Vec<String>>,
    running: AtomicUsize,
    pub(crate) most: AtomicUsize,
    pub(crate) gate: Notify,
}

impl Log {
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
pub(crate) struct Step {
    /// A name for the log.
    pub(crate) name: String,
    /// How long to take.
    #[serde(default)]
    pub(crate) ms: u64,
    /// `fail`, `panic`, `hang`, `big`, `large` or nothing.
    #[serde(default)]
    pub(crate) manner: String,
}

/// Reads: runs beside others.
pub(crate) struct Look;
/// Writes: runs alone.
pub(crate) struct Touch;

async fn act(kind: &str, step: Step, cx: &ToolContext) -> Result<ToolResult<String>, ToolError> {
    let log = log_of(cx.services.session.as_str());
    log.enter();
    log.lines.lock().unwrap().push(format!("{kind} {} begins", step.name));
    tokio::time::sleep(Duration::from_millis(step.ms)).await;
    let outcome = match step.manner.as_str() {
        "fail" => Err(ToolError::failed(format!("{} failed", step.name))),
        "panic" => panic!("a tool that panics"),
        "hang" => {
            log.gate.notify_one();
            cx.cancel.cancelled().await;
            Err(ToolError::new(ErrorClass::Interrupted, format!("{} was stopped", step.name)))
        }
        "big" => Ok(ToolResult::new("x".repeat(200_000))),
        "large" => Ok(ToolResult::new("y".repeat(49_000))),
        _ => Ok(ToolResult::new(format!("{} done", step.name))),
    };
    log.leave();
    log.lines.lock().unwrap().push(format!("{kind} {} ends", step.name));
    let (name, log) = (step.name, log.clone());
    outcome.map(|result| result.with_change(move |_| log.lines.lock().unwrap().push(format!("change {name}"))))
}

macro_rules! test_tool {
    ($tool:ident, $kind:literal, $need:expr) => {
        impl Tool for $tool {
            const NAME: &'static str = stringify!($tool);
            type Input = Step;
            type Output = String;
            fn prompt(&self, _cx: &PromptContext) -> Cow<'static, str> {
                "A tool for tests.".into()
            }
            fn needs(&self, _input: &Step, cx: &PathContext) -> Vec<Need> {
                vec![$need(cx.cwd.join("file"))]
            }
            async fn call(&self, input: Step, cx: &ToolContext) -> Result<ToolResult<String>, ToolError> {
                act($kind, input, cx).await
            }
            fn to_blocks(&self, output: &String) -> ResultContent {
                output.clone().into()
            }
        }
    };
}
test_tool!(Look, "look", Need::Read);
test_tool!(Touch, "touch", Need::Write);

/// A running session.
pub(crate) struct Bench {
    pub(crate) dir: TempDir,
    pub(crate) model: Arc<Scripted>,
    pub(crate) handle: SessionHandle,
    pub(crate) events: Reader,
    pub(crate) log: Arc<Log>,
    life: JoinSet<()>,
}

pub(crate) struct Setup {
    pub(crate) mode: PermissionMode,
    /// Auto mode is to be had.
    pub(crate) review: bool,
    pub(crate) attended: bool,
    pub(crate) concurrency: usize,
    /// Settings that can change.
    pub(crate) live: Option<Box<dyn LiveSettings>>,
    pub(crate) plans: Plans,
    /// The JSON Schema of answers.
    pub(crate) output: Option<Arc<OutputSchema>>,
    pub(crate) checkpoints: Option<Checkpoints>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            mode: PermissionMode::BypassPermissions,
            review: false,
            attended: false,
            concurrency: 10,
            live: None,
            plans: Plans::default(),
            output: None,
            checkpoints: None,
        }
    }
}

impl Bench {
    pub(crate) fn new(setup: Setup, replies: Vec<Vec<ModelEvent>>) -> Self {
        Self::new_with(|_| setup, replies)
    }

    /// A session whose setup depends on its project folder.
    pub(crate) fn new_with(setup: impl FnOnce(&Path) -> Setup, replies: Vec<Vec<ModelEvent>>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path().canonicalize().unwrap();
        let setup = setup(&project);
        let id = new_session_id();
        let files = Locations::new(&project.join("home")).project(&project).session(&id);
        let stamp = Stamp::default();
        let model = Arc::new(Scripted { replies: Mutex::new(replies.into()), ..Scripted::default() });
        let tools = ToolSet::new(vec![
            &Look as &'static dyn AnyTool,
            &Touch,
            &crate::asking::Quiz,
            &crate::planning::Planner,
            &crate::rewinding::Scribble,
        ]);
        let tools = if setup.attended { tools } else { tools.unattended() };
        let tools = match &setup.output {
            Some(output) => tools.with(output.tool()),
            None => tools,
        };
        let prompt = PromptContext { env: Env::default(), tools: Vec::new(), background: true, sandbox: None };
        let config = SessionConfig {
            id: id.clone(),
            model: model.clone(),
            model_id: "test".into(),
            thinking: Thinking::ModelDefault,
            effort: None,
            api_key_source: "none".into(),
            system: gimlet_core::system_blocks(&gimlet_core::SystemPrompt::default()),
            tool_defs: gimlet_core::tool_defs(&tools, &prompt),
            tools,
            env: Env::default(),
            home: None,
            state: SessionState::new(project.clone(), Vec::new()),
            permissions: Permissions {
                mode: setup.mode,
                bypass_reachable: setup.mode == PermissionMode::BypassPermissions,
                review: setup.review.then(Review::default),
                live: setup.live,
                ..Permissions::default()
            },
            attended: setup.attended,
            options: TurnOptions { concurrency: setup.concurrency, ..TurnOptions::default() },
            cache_ttl: None,
            record: Record::new(Transcript::unsaved(id.clone(), stamp)),
            history: Vec::new(),
            outputs: ToolOutputs::default(),
            result_files: ResultFiles::new(&files),
            redactor: gimlet_core::Redactor::default(),
            sandboxing: None,
            plans: setup.plans,
            output: setup.output,
            checkpoints: setup.checkpoints,
            processes: Processes {
                exec: Exec::new(ExecConfig {
                    custodian: CustodianProgram::Fork,
                    session_marker: id.to_string(),
                    runtime_dir: None,
                }),
                shell: Shell::find(ShellConfig {
                    env: Env::default(),
                    session_id: id.to_string(),
                    effort: None,
                    snapshot_file: None,
                }),
            },
        };
        let (handle, session) = open(config);
        let events = handle.subscribe();
        let mut life = JoinSet::new();
        life.spawn(session);
        Self { dir, model, log: log_of(handle.id.as_str()), handle, events, life }
    }

    pub(crate) fn say(&self, text: &str) {
        self.handle.send(Op::Say(Say::text(text)));
    }

    /// Reads events until the turn is over; `each` may answer questions.
    pub(crate) async fn turn(&mut self, mut each: impl FnMut(&Event, &SessionHandle)) -> TurnReport {
        loop {
            let event = self.events.next().await.expect("an open session");
            each(&event, &self.handle);
            if let Body::TurnEnded(report) = event.body {
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
pub(crate) fn answer_all(answer: impl Fn() -> Answer) -> impl FnMut(&Event, &SessionHandle) {
    move |event, handle| {
        if let Body::Ask(ask) = &event.body {
            handle.send(Op::Answer { ask: ask.id, answer: answer() });
        }
    }
}
