//! Subagents and background commands: to look into one, to write to it, to stop it.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use gimlet_proto::{TaskState, TaskView};

use super::list_picker::{ListPicker, PickerRow};
use super::{AppPicker, ListStep, MessageForm, PickerOutcome};
use crate::app::{AppEffect, HistoryUse, TaskLabel};
use crate::feed::{format_elapsed, format_tokens};
use crate::glyphs::RenderContext;
use crate::styled_line::StyledLine;

/// The tasks and the list that shows them.
#[derive(Debug)]
pub struct TaskPicker {
    tasks: Vec<TaskView>,
    list: ListPicker,
}

impl TaskPicker {
    /// Creates the picker; `None` if there are no tasks. What runs comes first.
    pub fn new(tasks: &[TaskView]) -> Option<Self> {
        let mut tasks = tasks.to_vec();
        tasks.sort_by_key(|task| task.state != TaskState::Running);
        if tasks.is_empty() {
            return None;
        }
        let rows = tasks.iter().map(task_row).collect();
        let list = ListPicker::new("Agents and background commands", rows)
            .not_searchable()
            .with_keys("enter looks into it · m writes to an agent · x stops it · esc");
        Some(Self { tasks, list })
    }

    pub(super) fn handle_key(&mut self, key: KeyEvent) -> PickerOutcome {
        let is_plain = !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
        let task = self.list.selected().and_then(|index| self.tasks.get(index));
        match (key.code, task) {
            (KeyCode::Char('x'), Some(task)) if is_plain && task.state == TaskState::Running => {
                PickerOutcome::Chooses(vec![AppEffect::StopTask(task.id.clone())])
            }
            (KeyCode::Char('m'), Some(task)) if is_plain && task.state == TaskState::Running && is_agent(task) => {
                let form = MessageForm::new(TaskLabel::for_task(task));
                PickerOutcome::Opens(Box::new(AppPicker::Message(form)))
            }
            _ => match self.list.handle_key(key) {
                ListStep::Stays | ListStep::Moved => PickerOutcome::Stays,
                ListStep::Closes => PickerOutcome::Closes,
                ListStep::Takes(index) => match self.tasks.get(index) {
                    Some(task) => PickerOutcome::Chooses(vec![look_into(task)]),
                    None => PickerOutcome::Closes,
                },
            },
        }
    }

    pub(super) fn render(
        &mut self,
        max_rows: usize,
        cx: &RenderContext<'_>,
    ) -> (Vec<StyledLine>, Option<(usize, usize)>) {
        self.list.render(max_rows, cx)
    }
}

fn is_agent(task: &TaskView) -> bool {
    task.subagent_type.is_some()
}

fn look_into(task: &TaskView) -> AppEffect {
    let label = TaskLabel::for_task(task);
    if is_agent(task) {
        AppEffect::QueryHistory(HistoryUse::Transcript(Some(label)))
    } else {
        AppEffect::QueryOutput(label)
    }
}

fn task_row(task: &TaskView) -> PickerRow {
    let mut facts = vec![match (task.state, task.exit_code) {
        (TaskState::Running, _) => "running".to_owned(),
        (TaskState::Completed, _) => "finished".to_owned(),
        (TaskState::Failed, Some(code)) => format!("exit {code}"),
        (TaskState::Failed, None) => "failed".to_owned(),
        (TaskState::Killed, _) => "stopped".to_owned(),
    }];
    if let Some(progress) = &task.progress {
        if progress.duration_ms > 0 {
            facts.push(format_elapsed(progress.duration_ms));
        }
        if progress.total_tokens > 0 {
            facts.push(format!("{} tokens", format_tokens(progress.total_tokens)));
        }
    }
    let label = task.subagent_type.clone().unwrap_or_else(|| "Command".to_owned());
    PickerRow { label, detail: task.description.clone(), note: facts.join("  ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feed::tests::{context, show};

    fn task(id: &str, subagent_type: Option<&str>, state: TaskState) -> TaskView {
        TaskView {
            id: id.into(),
            kind: if subagent_type.is_some() { "local_agent" } else { "local_bash" },
            description: format!("do {id}"),
            call: None,
            parent: None,
            state,
            output_file: "/out".into(),
            exit_code: None,
            backgrounded: true,
            subagent_type: subagent_type.map(str::to_owned),
            prompt: None,
            depth: 1,
            progress: None,
            summary: None,
        }
    }

    fn press(picker: &mut TaskPicker, code: KeyCode) -> PickerOutcome {
        picker.handle_key(KeyEvent::new(code, KeyModifiers::NONE))
    }

    #[test]
    fn what_runs_comes_first_and_can_be_looked_into_written_to_and_stopped() {
        assert!(TaskPicker::new(&[]).is_none());
        let tasks = [
            task("a1", Some("Explore"), TaskState::Completed),
            task("a2", Some("Plan"), TaskState::Running),
            task("b3", None, TaskState::Running),
        ];
        let mut picker = TaskPicker::new(&tasks).unwrap();
        let screen = show(&picker.render(20, &context(80)).0, 80);
        assert!(screen.contains("❯ 1  Plan  do a2") && screen.contains("3  Explore  do a1"), "{screen}");
        let PickerOutcome::Opens(form) = press(&mut picker, KeyCode::Char('m')) else { panic!("no form") };
        let AppPicker::Message(mut form) = *form else { panic!("another picker") };
        let PickerOutcome::Stays = form.handle_key(KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE)) else {
            panic!("an empty message was sent")
        };
        form.paste("also the lexer");
        let PickerOutcome::Chooses(effects) = form.handle_key(KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE)) else {
            panic!("not sent")
        };
        let [AppEffect::MessageAgent { agent, text }] = effects.as_slice() else { panic!("{effects:?}") };
        assert_eq!((agent.id.as_str(), text.as_str()), ("a2", "also the lexer"));

        let PickerOutcome::Chooses(effects) = press(&mut picker, KeyCode::Enter) else { panic!("nothing chosen") };
        assert!(matches!(effects.as_slice(), [AppEffect::QueryHistory(HistoryUse::Transcript(Some(_)))]));
        press(&mut picker, KeyCode::Down);
        let PickerOutcome::Chooses(effects) = press(&mut picker, KeyCode::Enter) else { panic!("nothing chosen") };
        assert!(matches!(effects.as_slice(), [AppEffect::QueryOutput(label)] if label.id == "b3"));
        let PickerOutcome::Chooses(effects) = press(&mut picker, KeyCode::Char('x')) else { panic!("not stopped") };
        assert!(matches!(effects.as_slice(), [AppEffect::StopTask(id)] if id == "b3"));
        assert!(matches!(press(&mut picker, KeyCode::Char('m')), PickerOutcome::Stays), "a command reads no messages");
        press(&mut picker, KeyCode::Down);
        assert!(matches!(press(&mut picker, KeyCode::Char('x')), PickerOutcome::Stays), "it has ended");
    }
}
