//! `/tasks`: what runs in the background, and a way to stop it.

use gimlet_proto::TaskState;

use super::{CommandStep, TerminalCommand};
use crate::app::{AppEffect, TerminalApp};
use crate::pickers::{ChoicePicker, PickerRow};

pub(super) const ROW: TerminalCommand = TerminalCommand {
    name: "tasks",
    aliases: &["bashes"],
    description: "List what runs in the background; Enter stops it",
    argument_hint: "",
    run,
};

fn run(app: &mut TerminalApp, _args: &str) -> CommandStep {
    let running = app.facts().tasks.iter().filter(|task| task.state == TaskState::Running);
    let choices: Vec<_> = running
        .map(|task| {
            let row = PickerRow::new(format!("Stop {}", task.description), &task.id);
            (row, vec![AppEffect::StopTask(task.id.clone())])
        })
        .collect();
    if choices.is_empty() {
        app.remark("Nothing runs in the background");
    } else {
        app.open_choices(ChoicePicker::new("In the background", choices));
    }
    CommandStep::Done(Vec::new())
}
