//! A session for tests of the tools that run commands: a real shell, real processes, changes applied as a scheduler
//! would.

use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use gimlet_core::tool::{AnyTool, Tool, ToolContext, ToolError};
use gimlet_core::{ProcessAccess, SessionServices, SessionShared, SessionState};
use gimlet_exec::{CustodianProgram, Exec, ExecConfig, Shell, ShellConfig};
use gimlet_proto::{
    AgentPath, Env, Event, EventBody, EventHub, EventReader, Op, SessionId, SubmittedPrompt, TaskState, ToolCallPhase,
    ToolUseId, View,
};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use gimlet_testkit::PATIENCE;
pub(crate) use gimlet_testkit::{unique_sleep_seconds, wait_until};

pub(crate) struct CommandBench {
    folder: tempfile::TempDir,
    env: Env,
    /// The session's state as a scheduler would have it after the calls so far.
    pub(crate) state: SessionState,
    pub(crate) services: Arc<SessionServices>,
    pub(crate) cancel: CancellationToken,
    pub(crate) agent: AgentPath,
    calls: u32,
    reader: EventReader,
    ops: mpsc::UnboundedReceiver<Op>,
    task_states: Vec<TaskState>,
    progress: Vec<String>,
}

/// Result of a call in all its forms.
#[derive(Debug)]
pub(crate) struct CommandCallResult {
    pub(crate) text: String,
    pub(crate) output: Value,
    pub(crate) view: View,
}

impl CommandBench {
    pub(crate) fn new() -> Self {
        Self::with_env(&[])
    }

    pub(crate) fn with_env(vars: &[(&str, &str)]) -> Self {
        let mut env = Env::default().with("PATH", "/usr/local/bin:/usr/bin:/bin").with("HOME", "/nonexistent");
        for (name, value) in vars {
            env = env.with(name, *value);
        }
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().canonicalize().unwrap().join("project");
        std::fs::create_dir(&project).unwrap();
        let state = SessionState::new(project, Vec::new());
        let (services, reader, ops) = services(&folder, &env, &state);
        Self {
            folder,
            env,
            state,
            services,
            cancel: CancellationToken::new(),
            agent: AgentPath::default(),
            calls: 0,
            reader,
            ops,
            task_states: Vec::new(),
            progress: Vec::new(),
        }
    }

    /// Recreates the session's services from the current state, so that calls see it.
    pub(crate) fn restart(&mut self) {
        (self.services, self.reader, self.ops) = services(&self.folder, &self.env, &self.state);
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.state.project_dir.join(name)
    }

    pub(crate) fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Returns the files that calls have created outside the project.
    pub(crate) fn result_files(&self) -> Vec<PathBuf> {
        let files = std::fs::read_dir(self.services.results_dir()).into_iter().flatten();
        files.map(|file| file.unwrap().path()).collect()
    }

    pub(crate) fn context(&mut self, tool: &'static str) -> ToolContext {
        self.calls += 1;
        let call = ToolUseId::new(format!("toolu_{}", self.calls));
        let (agent, cancel) = (self.agent.clone(), self.cancel.clone());
        let mut cx = self.services.tool_context(tool, call, agent, cancel, String::new(), Vec::new());
        cx.paths.cwd = self.state.cwd.clone();
        cx
    }

    /// Parses and validates the input as the pipeline does, calls the tool and applies its changes.
    pub(crate) async fn call<T: Tool>(&mut self, tool: T, input: Value) -> Result<CommandCallResult, ToolError> {
        let cx = self.context(T::NAME);
        let prepared = AnyTool::prepare(&tool, input, &cx.paths)?;
        let input: T::Input = serde_json::from_value(prepared.input).unwrap();
        let called = tokio::time::timeout(PATIENCE, tool.call(input.clone(), &cx)).await.expect("the call hangs");
        match called {
            Ok(result) => {
                result.changes.into_iter().for_each(|change| change(&mut self.state));
                Ok(CommandCallResult {
                    text: tool.to_blocks(&result.data).to_text(),
                    output: serde_json::to_value(&result.data).unwrap(),
                    view: tool.view(&input, &result.data),
                })
            }
            Err(mut error) => {
                error.changes.drain(..).for_each(|change| change(&mut self.state));
                Err(error)
            }
        }
    }

    /// Returns the task states that were reported to the user.
    pub(crate) fn task_states(&mut self) -> &[TaskState] {
        self.read_events();
        &self.task_states
    }

    pub(crate) fn progress(&mut self) -> &[String] {
        self.read_events();
        &self.progress
    }

    fn read_events(&mut self) {
        while let Some(event) = next_ready_event(&mut self.reader) {
            match event.body {
                EventBody::Task(view) => self.task_states.push(view.state),
                EventBody::Tool(view) => {
                    if let ToolCallPhase::Progress { text, .. } = view.phase {
                        self.progress.push(text);
                    }
                }
                _ => {}
            }
        }
    }

    /// Takes the messages that background tasks have sent to the model since the last call.
    pub(crate) fn take_model_messages(&mut self) -> Vec<String> {
        let mut said = Vec::new();
        while let Ok(op) = self.ops.try_recv() {
            let Op::Submit(SubmittedPrompt { blocks, synthetic: true, .. }) = op else {
                panic!("only synthetic words come from tasks")
            };
            said.extend(blocks.iter().filter_map(|block| block.as_text().map(|text| text.to_string())));
        }
        said
    }
}

fn services(
    folder: &tempfile::TempDir,
    env: &Env,
    state: &SessionState,
) -> (Arc<SessionServices>, EventReader, mpsc::UnboundedReceiver<Op>) {
    let exec = Exec::new(ExecConfig {
        custodian: CustodianProgram::Fork,
        session_marker: "test-session".into(),
        runtime_dir: None,
    });
    let config = ShellConfig {
        env: env.clone(),
        session_id: "session-1".into(),
        effort: None,
        snapshot_file: None,
        prestart: true,
    };
    let hub = EventHub::default();
    let reader = hub.subscribe();
    let (ops, said) = mpsc::unbounded_channel();
    let results = folder.path().canonicalize().unwrap().join("results");
    let shared = SessionShared::new(SessionId::new("session"), env.clone(), None, hub)
        .with_ops(ops)
        .with_processes(ProcessAccess::new(exec, Shell::find(config)));
    let services = SessionServices::new(shared, state.clone(), results);
    (Arc::new(services), reader, said)
}

/// Returns the next event if there is one already.
fn next_ready_event(reader: &mut EventReader) -> Option<Event> {
    match pin!(reader.next()).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(event) => event,
        Poll::Pending => None,
    }
}

/// Returns the processes whose arguments include exactly this one.
pub(crate) fn pids_with_argument(argument: &str) -> Vec<i32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if line.split(|byte| *byte == 0).any(|word| word == argument.as_bytes()) {
            found.push(pid);
        }
    }
    found
}
