//! Tasks of a session: one registry for commands that outlive their call and for subagents in the foreground or
//! background.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gimlet_proto::{AgentPath, BoxFuture, TaskProgress, TaskState, TaskView, ToolUseId};
use tokio::sync::watch;

/// Number of ended tasks that are kept in full.
const MOST_ENDED: usize = 100;
/// Number of further tasks that are kept by id and output file.
const MOST_FORGOTTEN: usize = 1_000;

/// Function that stops a task. Resolves when nothing of the task is left.
pub type TaskStopFn = Box<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// One task.
pub struct Task {
    pub id: String,
    /// Kind: `local_bash`, `local_agent`, …
    pub kind: &'static str,
    pub description: String,
    /// Command text, for tasks that have one.
    pub command: Option<String>,
    pub call: Option<ToolUseId>,
    /// Agent that started the task.
    pub owner: AgentPath,
    pub output_file: PathBuf,
    /// Details of a subagent, for tasks that are one.
    pub agent: Option<AgentTask>,
    state: watch::Sender<(TaskState, Option<i32>)>,
    /// True if the task runs in the background.
    backgrounded: watch::Sender<bool>,
    telling: Mutex<TaskDetails>,
    stop: TaskStopFn,
    /// Position up to which incremental readers have read the output file.
    read_to: Mutex<u64>,
    /// Set if the user stopped the task.
    stopped_by_user: AtomicBool,
}

/// Details of a subagent, for users and programs.
pub struct AgentTask {
    pub subagent_type: String,
    pub prompt: String,
    pub depth: u32,
    /// Name under which other agents can address it.
    pub name: Option<String>,
    /// Path from which its messages come and to which messages for it go.
    pub path: AgentPath,
}

/// Published state of a task that changes over time.
#[derive(Default)]
struct TaskDetails {
    progress: Option<TaskProgress>,
    summary: Option<String>,
}

impl Task {
    pub fn state(&self) -> (TaskState, Option<i32>) {
        *self.state.borrow()
    }

    /// Waits until the task no longer runs. Returns its state and exit code.
    pub async fn wait_finished(&self) -> (TaskState, Option<i32>) {
        let mut state = self.state.subscribe();
        match state.wait_for(|(state, _)| *state != TaskState::Running).await {
            Ok(ended) => *ended,
            Err(_) => self.state(),
        }
    }

    /// Stops the task and waits for its end.
    pub async fn stop(&self) {
        self.record_end(TaskState::Killed, None);
        (self.stop)().await;
    }

    /// Stops the task on behalf of the user.
    pub async fn stop_for_user(&self) {
        self.stopped_by_user.store(true, Ordering::Relaxed);
        self.stop().await;
    }

    /// Returns true if the user stopped the task.
    pub fn was_stopped_by_user(&self) -> bool {
        self.stopped_by_user.load(Ordering::Relaxed)
    }

    /// Waits until nothing of the task is left.
    pub(crate) async fn wait_gone(&self) {
        self.wait_finished().await;
        // Nothing is left to stop; this waits for the cleanup.
        (self.stop)().await;
    }

    /// Records the end; only the first one counts. Returns true if this call was the first.
    pub fn record_end(&self, end: TaskState, exit_code: Option<i32>) -> bool {
        self.state.send_if_modified(|state| {
            let running = state.0 == TaskState::Running;
            if running {
                *state = (end, exit_code);
            }
            running
        })
    }

    /// Returns the position where the last incremental read ended, and moves it to `end`.
    pub fn take_unread(&self, end: u64) -> u64 {
        let mut mark = self.read_to.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *mark, end)
    }

    /// Sets the progress.
    pub fn set_progress(&self, progress: TaskProgress) {
        self.lock_details().progress = Some(progress);
    }

    /// Sets the one-line summary of the end.
    pub fn set_summary(&self, summary: String) {
        self.lock_details().summary = Some(summary);
    }

    /// Returns true if the task runs in the background.
    pub fn is_backgrounded(&self) -> bool {
        *self.backgrounded.borrow()
    }

    /// Moves the task to the background.
    pub(crate) fn move_to_background(&self) {
        self.backgrounded.send_replace(true);
    }

    /// Waits until the task runs in the background.
    pub(crate) async fn wait_backgrounded(&self) {
        // The sender lives as long as the task, which is borrowed here.
        drop(self.backgrounded.subscribe().wait_for(|alone| *alone).await);
    }

    fn lock_details(&self) -> MutexGuard<'_, TaskDetails> {
        self.telling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn view(&self) -> TaskView {
        let (state, exit_code) = self.state();
        let (progress, summary) = {
            let telling = self.lock_details();
            (telling.progress.clone(), telling.summary.clone())
        };
        TaskView {
            id: self.id.clone(),
            kind: self.kind,
            description: self.description.clone(),
            call: self.call.clone(),
            parent: self.owner.parent_tool_use().cloned(),
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

/// Parameters of a new task.
pub struct NewTask {
    /// `None` for a generated id such as `b1`.
    pub id: Option<String>,
    pub kind: &'static str,
    pub description: String,
    pub command: Option<String>,
    pub call: Option<ToolUseId>,
    pub owner: AgentPath,
    pub output_file: PathBuf,
    pub agent: Option<AgentTask>,
    /// Set if the task starts in the background.
    pub backgrounded: bool,
    pub stop: TaskStopFn,
}

/// Running tasks of a session and the most recent ended ones, oldest first. Clones share them.
#[derive(Clone, Default)]
pub struct TaskRegistry {
    list: Arc<Mutex<TaskList>>,
}

#[derive(Default)]
struct TaskList {
    /// Number of tasks registered so far.
    count: u64,
    tasks: Vec<Arc<Task>>,
    /// Output files of older tasks.
    forgotten: VecDeque<(String, PathBuf)>,
}

impl TaskList {
    /// Removes the oldest ended tasks, to bound the memory of a long session.
    fn prune(&mut self) {
        let ended = |task: &Arc<Task>| task.state().0 != TaskState::Running;
        let mut surplus = self.tasks.iter().filter(|task| ended(task)).count().saturating_sub(MOST_ENDED);
        let forgotten = &mut self.forgotten;
        self.tasks.retain(|task| {
            let goes = surplus > 0 && ended(task);
            if goes {
                surplus -= 1;
                forgotten.push_back((task.id.clone(), task.output_file.clone()));
            }
            !goes
        });
        forgotten.drain(..forgotten.len().saturating_sub(MOST_FORGOTTEN));
    }
}

impl TaskRegistry {
    /// Registers running work under an id that is unique in the session.
    pub fn add(&self, new: NewTask) -> Arc<Task> {
        let mut list = self.lock();
        list.count += 1;
        let prefix = new.kind.rsplit('_').next().and_then(|word| word.chars().next()).unwrap_or('t');
        let task = Arc::new(Task {
            id: new.id.unwrap_or_else(|| format!("{prefix}{}", list.count)),
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
        // A restarted task replaces its earlier entry.
        list.tasks.retain(|known| known.id != task.id);
        list.tasks.push(task.clone());
        list.prune();
        task
    }

    pub fn find(&self, id: &str) -> Option<Arc<Task>> {
        self.lock().tasks.iter().find(|task| task.id == id).cloned()
    }

    /// Returns the output file of a task that ended so long ago that only this is kept.
    pub fn forgotten_output(&self, id: &str) -> Option<PathBuf> {
        let list = self.lock();
        list.forgotten.iter().rev().find(|(forgotten, _)| forgotten == id).map(|(_, file)| file.clone())
    }

    /// Returns the task with this id, or else the newest agent with this name.
    pub fn find_by_name(&self, name: &str) -> Option<Arc<Task>> {
        let is_meant = |task: &&Arc<Task>| task.agent.as_ref().is_some_and(|agent| agent.name.as_deref() == Some(name));
        self.find(name).or_else(|| self.lock().tasks.iter().rev().find(is_meant).cloned())
    }

    /// Returns the id of the subagent with this path.
    pub fn agent_id(&self, path: &AgentPath) -> Option<String> {
        self.find_agent(path).map(|task| task.id.clone())
    }

    /// Returns the subagent with this path.
    pub(crate) fn find_agent(&self, path: &AgentPath) -> Option<Arc<Task>> {
        let call = path.parent_tool_use()?;
        let list = self.lock();
        let of_call = |task: &&Arc<Task>| task.agent.is_some() && task.call.as_ref() == Some(call);
        list.tasks.iter().rev().find(of_call).cloned()
    }

    pub fn all(&self) -> Vec<Arc<Task>> {
        self.lock().tasks.clone()
    }

    pub fn running(&self) -> Vec<Arc<Task>> {
        self.all().into_iter().filter(|task| task.state().0 == TaskState::Running).collect()
    }

    fn lock(&self) -> MutexGuard<'_, TaskList> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(tasks: &TaskRegistry) -> Arc<Task> {
        tasks.add(NewTask {
            id: None,
            kind: "local_bash",
            description: String::new(),
            command: None,
            call: None,
            owner: AgentPath::default(),
            output_file: "/out".into(),
            agent: None,
            backgrounded: true,
            stop: Box::new(|| Box::pin(std::future::ready(()))),
        })
    }

    #[test]
    fn a_long_session_keeps_what_runs_and_the_last_of_what_has_ended() {
        let tasks = TaskRegistry::default();
        let server = begin(&tasks);
        for _ in 0..MOST_ENDED + MOST_FORGOTTEN + 50 {
            begin(&tasks).record_end(TaskState::Completed, Some(0));
        }
        let last = begin(&tasks);
        let kept = tasks.all();
        assert_eq!(kept.len(), MOST_ENDED + 2);
        assert_eq!((kept[0].id.as_str(), kept.last().map(|task| task.id.clone())), ("b1", Some(last.id.clone())));
        assert!(tasks.find(&server.id).is_some() && tasks.find("b2").is_none());
        assert_eq!(tasks.forgotten_output("b2"), None, "even ids are not kept for ever");
        let newest = format!("b{}", MOST_FORGOTTEN + 51);
        assert_eq!(tasks.forgotten_output(&newest), Some("/out".into()));
        assert_eq!(tasks.forgotten_output(&last.id), None, "that one is known");
    }
}
