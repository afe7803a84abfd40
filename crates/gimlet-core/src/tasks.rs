//! Background work of a session: one registry for everything that goes on after its call has returned.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gimlet_proto::{BoxFuture, TaskState, TaskView, ToolUseId};
use tokio::sync::watch;

/// How a task is stopped. Resolves when nothing of it is left.
pub type Stop = Box<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// One background task.
pub struct Task {
    pub id: String,
    /// `local_bash`, later `local_agent` and others.
    pub kind: &'static str,
    pub description: String,
    /// The command text, for tasks that have one.
    pub command: Option<String>,
    pub call: Option<ToolUseId>,
    pub output_file: PathBuf,
    state: watch::Sender<(TaskState, Option<i32>)>,
    stop: Stop,
    /// How far incremental readers have read the output file.
    read_to: Mutex<u64>,
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

    pub fn view(&self) -> TaskView {
        let (state, exit_code) = self.state();
        TaskView {
            id: self.id.clone(),
            kind: self.kind,
            description: self.description.clone(),
            call: self.call.clone(),
            state,
            output_file: self.output_file.clone(),
            exit_code,
        }
    }
}

/// What a new task is made of.
pub struct NewTask {
    pub kind: &'static str,
    pub description: String,
    pub command: Option<String>,
    pub call: Option<ToolUseId>,
    pub output_file: PathBuf,
    pub stop: Stop,
}

/// All background tasks of a session, oldest first.
#[derive(Default)]
pub struct Tasks {
    list: Mutex<(u64, Vec<Arc<Task>>)>,
}

impl Tasks {
    /// Registers running work and gives it an id such as `b1`, unique in the session.
    pub fn add(&self, new: NewTask) -> Arc<Task> {
        let mut list = self.lock();
        list.0 += 1;
        let prefix = new.kind.rsplit('_').next().and_then(|word| word.chars().next()).unwrap_or('t');
        let task = Arc::new(Task {
            id: format!("{prefix}{}", list.0),
            kind: new.kind,
            description: new.description,
            command: new.command,
            call: new.call,
            output_file: new.output_file,
            state: watch::Sender::new((TaskState::Running, None)),
            stop: new.stop,
            read_to: Mutex::new(0),
        });
        list.1.push(task.clone());
        task
    }

    pub fn find(&self, id: &str) -> Option<Arc<Task>> {
        self.lock().1.iter().find(|task| task.id == id).cloned()
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
