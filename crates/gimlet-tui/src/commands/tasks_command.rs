//! `/tasks`: subagents and background commands, to look into one, to write to it, to stop it.

use super::{CommandStep, TerminalCommand};
use crate::app::TerminalApp;
use crate::pickers::{AppPicker, TaskPicker};

pub(super) const ROW: TerminalCommand = TerminalCommand {
    name: "tasks",
    aliases: &["bashes"],
    description: "List agents and background commands; look into one, write to it, stop it",
    argument_hint: "",
    waits_for_turn: false,
    run,
};

fn run(app: &mut TerminalApp, _args: &str) -> CommandStep {
    match TaskPicker::new(&app.facts().tasks) {
        Some(picker) => app.open_app_picker(AppPicker::Tasks(picker)),
        None => app.remark("No agent or background command has run in this session"),
    }
    CommandStep::Done(Vec::new())
}
