//! What the footer and commands need to know of the session.

use std::path::PathBuf;
use std::sync::Arc;

use gimlet_proto::{
    CommandInfo, ModelInfo, ModelUsage, PermissionMode, SessionSnapshot, TaskState, TaskView, ToolCallPhase,
    ToolCallView, TurnReport, View,
};

use crate::feed::SessionSpending;
use crate::feed::diff::count_changes;

/// Tasks that have ended and can still be looked into.
const MAX_ENDED_TASKS: usize = 50;

/// Facts about the session that runs.
#[derive(Clone, Debug, Default)]
pub struct StatusFacts {
    pub is_open: bool,
    pub mode: PermissionMode,
    /// The model by its id.
    pub model: String,
    pub effort: Option<String>,
    pub cwd: PathBuf,
    pub home: Option<PathBuf>,
    pub context_tokens: u64,
    pub context_window: u64,
    /// Dollars since the start; `None` if a price is not known.
    pub cost_usd: Option<f64>,
    pub commands: Arc<[CommandInfo]>,
    pub models: Vec<ModelInfo>,
    pub tasks: Vec<TaskView>,
    /// What earlier runs of the session used.
    pub earlier_usage: Vec<ModelUsage>,
    pub spending: SessionSpending,
    /// What the user's status line command printed last.
    pub status_line: Option<String>,
}

impl StatusFacts {
    pub(super) fn take_snapshot(&mut self, snapshot: &SessionSnapshot) {
        self.is_open = true;
        self.mode = snapshot.mode;
        // The setup has the model's id, the snapshot the name that it was chosen by.
        let model = if snapshot.turn_setup.model.is_empty() { &snapshot.model } else { &snapshot.turn_setup.model };
        if !model.is_empty() {
            self.model.clone_from(model);
        }
        self.effort.clone_from(&snapshot.effort);
        self.cwd.clone_from(&snapshot.cwd);
        self.commands = snapshot.commands.clone();
        for task in &snapshot.tasks {
            // Events know better.
            if self.tasks.iter().all(|known| known.id != task.id) {
                self.tasks.push(task.clone());
            }
        }
        self.spending.by_model = ModelUsage::sum_by_model(&self.earlier_usage, &snapshot.by_model);
    }

    pub(super) fn take_report(&mut self, report: &TurnReport) {
        let turn_usd = report.total_cost_usd.zip(self.cost_usd.or(Some(0.0))).map(|(now, before)| now - before);
        self.spending.add_turn(turn_usd, report.api_ms, report.duration_ms);
        self.cost_usd = report.total_cost_usd;
    }

    /// Takes over the state of a task.
    pub(super) fn take_task(&mut self, task: &TaskView) {
        match self.tasks.iter_mut().find(|known| known.id == task.id) {
            Some(known) => known.clone_from(task),
            None => self.tasks.push(task.clone()),
        }
        let ended = self.tasks.iter().filter(|task| task.state != TaskState::Running).count();
        if ended > MAX_ENDED_TASKS
            && let Some(oldest) = self.tasks.iter().position(|task| task.state != TaskState::Running)
        {
            self.tasks.remove(oldest);
        }
    }

    /// Counts the lines that a call changed.
    pub(super) fn take_call(&mut self, call: &ToolCallView) {
        if let ToolCallPhase::Done { view: View::Diff { hunks, .. }, .. } = &call.phase {
            let (added, removed) = count_changes(hunks);
            self.spending.lines_added += added as u64;
            self.spending.lines_removed += removed as u64;
        }
    }

    /// Begins anew with a session in place of another.
    pub(super) fn forget_session(&mut self) {
        self.cost_usd = Some(0.0);
        self.spending = SessionSpending::default();
        self.tasks.clear();
    }

    /// Returns the part of the window that is used, in per cent.
    pub fn context_percent(&self) -> Option<u64> {
        (self.context_window > 0).then(|| (self.context_tokens * 100).div_ceil(self.context_window).min(100))
    }

    /// Returns the last part of the folder's path.
    pub fn folder_name(&self) -> String {
        let name = self.cwd.file_name().map(|name| name.to_string_lossy().into_owned());
        name.unwrap_or_else(|| self.cwd.display().to_string())
    }

    /// Returns a path as users write it, with `~` for their home.
    pub fn shorten_path(&self, path: &std::path::Path) -> String {
        match self.home.as_ref().and_then(|home| path.strip_prefix(home).ok()) {
            Some(rest) if rest.as_os_str().is_empty() => "~".to_owned(),
            Some(rest) => format!("~/{}", rest.display()),
            None => path.display().to_string(),
        }
    }
}
