//! Work of a session that has a life of its own: one registry for commands that go on after their call has returned and
//! for subagents, whether somebody waits for them or not.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gimlet_proto::{AgentPath, BoxFuture, TaskProgress, TaskState, TaskView, ToolUseId};
use tokio::sync::watch;

/// How a task is stopped. Resolves when nothing of it is left.
pub type Stop = Box<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// One task.
pub struct Task {
    pub id: String,
    /// `local_bash`, `local_agent`, …
    pub kind: &'static str,
    pub description: String,
    /// The command text, for tasks that have one.
    pub command: Option<String>,
    pub call: Option<ToolUseId>,
    /// The agent that started it.
    pub owner: AgentPath,
    pub output_file: PathBuf,
    /// What it is, if it is a subagent.
    pub agent: Option<AgentTask>,
    state: watch::Sender<(TaskState, Option<i32>)>,
    /// Nobody waits for it.
    backgrounded: watch::Sender<bool>,
    telling: Mutex<Telling>,
    stop: Stop,
    /// How far incremental readers have read the output file.
    read_to: Mutex<u64>,
    /// A person stopped it.
    stopped_by_user: AtomicBool,
}

/// What a subagent is, for people and programs.
pub struct AgentTask {
    pub subagent_type: String,
    pub prompt: String,
    pub depth: u32,
    /// What others may call it.
    pub name: Option<String>,
    /// Where its words come from, and where words for it go.
    pub path: AgentPath,
}

/// What is told about a task and changes.
#[derive(Default)]
struct Telling {
    progress: Option<TaskProgress>,
    summary: Option<String>,
}

impl Task {
    pub fn state(&self) -> (TaskState, Option<i32>) {
        *self.state.borrow()
    }

    /// Waits until the task no longer runs.
    pub async fn finished(&self) -> (TaskState, Option<i32>) {
        let mut state = self.state.subscribe();
        match state.wait_for(|(state, _)| *state != TaskState::Running).await {
            Ok(ended) => *ended,
            Err(_) => self.state(),
        }
    }

    /// Stops the task and waits for its end.
    pub async fn stop(&self) {
        self.settle(TaskState::Killed, None);
        (self.stop)().await;
    }

    /// Stops the task because a person wants it so.
    pub async fn stop_for_user(&self) {
        self.stopped_by_user.store(true, Ordering::Relaxed);
        self.stop().await;
    }

    /// Whether a person stopped it.
    pub fn was_stopped_by_user(&self) -> bool {
        self.stopped_by_user.load(Ordering::Relaxed)
    }

    /// Waits until nothing of the task is left.
    pub(crate) async fn over(&self) {
        self.finished().await;
        // There is nothing left to stop; what still winds up is waited for.
        (self.stop)().await;
    }

    /// Notes the end; the first one counts. Says whether this call was the first.
    pub fn settle(&self, end: TaskState, exit_code: Option<i32>) -> bool {
        self.state.send_if_modified(|state| {
            let running = state.0 == TaskState::Running;
            if running {
                *state = (end, exit_code);
            }
            running
        })
    }

    /// The stretch of output from where the last incremental read ended; moves the mark to `end`.
    pub fn take_unread(&self, end: u64) -> u64 {
        let mut mark = self.read_to.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *mark, end)
    }

    /// Notes how far it has come.
    pub fn set_progress(&self, progress: TaskProgress) {
        self.telling().progress = Some(progress);
    }

    /// Notes in one line how it ended.
    pub fn set_summary(&self, summary: String) {
        self.telling().summary = Some(summary);
    }

    /// Nobody waits for it.
    pub fn is_backgrounded(&self) -> bool {
        *self.backgrounded.borrow()
    }

    /// Whoever waited for it does not any more.
    pub(crate) fn move_to_background(&self) {
        self.backgrounded.send_replace(true);
    }

    /// Waits until nobody waits for it.
    pub(crate) async fn left_alone(&self) {
        // The sender lives as long as the task, which is borrowed here.
        drop(self.backgrounded.subscribe().wait_for(|alone| *alone).await);
    }

    fn telling(&self) -> MutexGuard<'_, Telling> {
        self.telling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn view(&self) -> TaskView {
        let (state, exit_code) = self.state();
        let (progress, summary) = {
            let telling = self.telling();
            (telling.progress.clone(), telling.summary.clone())
        };
        TaskView {
            id: self.id.clone(),
            kind: self.kind,
            description: self.description.clone(),
            call: self.call.clone(),
            state,
            output_file: self.output_file.clone(),
            exit_code,
            backgrounded: self.is_backgrounded(),
            subagent_type: self.agent.as_ref().map(|agent| agent.subagent_type.clone()),
            prompt: self.agent.as_ref().map(|agent| agent.prompt.clone()),
            depth: self.agent.as_ref().map_or(0, |agent| agent.depth),
            progress,
            summary,
        }
    }
}

/// What a new task is made of.
pub struct NewTask {
    /// `None` for one that is made up, such as `b1`.
    pub id: Option<String>,
    pub kind: &'static str,
    pub description: String,
    pub command: Option<String>,
    pub call: Option<ToolUseId>,
    pub owner: AgentPath,
    pub output_file: PathBuf,
    pub agent: Option<AgentTask>,
    /// Nobody waits for it.
    pub backgrounded: bool,
    pub stop: Stop,
}

/// All tasks of a session, oldest first. Clones share them.
#[derive(Clone, Default)]
pub struct Tasks {
    list: Arc<Mutex<(u64, Vec<Arc<Task>>)>>,
}

impl Tasks {
    /// Registers running work under an id that is unique in the session.
    pub fn add(&self, new: NewTask) -> Arc<Task> {
        let mut list = self.lock();
        list.0 += 1;
        let prefix = new.kind.rsplit('_').next().and_then(|word| word.chars().next()).unwrap_or('t');
        let task = Arc::new(Task {
            id: new.id.unwrap_or_else(|| format!("{prefix}{}", list.0)),
            kind: new.kind,
            description: new.description,
            command: new.command,
            call: new.call,
            owner: new.owner,
            output_file: new.output_file,
            agent: new.agent,
            backgrounded: watch::Sender::new(new.backgrounded),
            telling: Mutex::default(),
            state: watch::Sender::new((TaskState::Running, None)),
            stop: new.stop,
            read_to: Mutex::new(0),
            stopped_by_user: AtomicBool::new(false),
        });
        // One that begins again takes the place of what it was.
        list.1.retain(|known| known.id != task.id);
        list.1.push(task.clone());
        task
    }

    pub fn find(&self, id: &str) -> Option<Arc<Task>> {
        self.lock().1.iter().find(|task| task.id == id).cloned()
    }

    /// The task of this id, or else the newest agent of this name.
    pub fn find_named(&self, name: &str) -> Option<Arc<Task>> {
        let is_meant = |task: &&Arc<Task>| task.agent.as_ref().is_some_and(|agent| agent.name.as_deref() == Some(name));
        self.find(name).or_else(|| self.lock().1.iter().rev().find(is_meant).cloned())
    }

    /// The id of the subagent that speaks by this path.
    pub fn agent_id(&self, path: &AgentPath) -> Option<String> {
        let call = path.parent_tool_use()?;
        let list = self.lock();
        let of_call = |task: &&Arc<Task>| task.agent.is_some() && task.call.as_ref() == Some(call);
        list.1.iter().rev().find(of_call).map(|task| task.id.clone())
    }

    pub fn all(&self) -> Vec<Arc<Task>> {
        self.lock().1.clone()
    }

    pub fn running(&self) -> Vec<Arc<Task>> {
        self.all().into_iter().filter(|task| task.state().0 == TaskState::Running).collect()
    }

    fn lock(&self) -> MutexGuard<'_, (u64, Vec<Arc<Task>>)> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
