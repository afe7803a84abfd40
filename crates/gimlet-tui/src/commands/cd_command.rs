//! `/cd`: another folder for commands to start in.

use super::{CommandStep, TerminalCommand, typed_folder};
use crate::app::{AppEffect, TerminalApp};

pub(super) const ROW: TerminalCommand = TerminalCommand {
    name: "cd",
    aliases: &[],
    description: "Let commands start in another folder",
    argument_hint: "<folder>",
    waits_for_turn: true,
    run,
};

fn run(app: &mut TerminalApp, args: &str) -> CommandStep {
    if args.is_empty() {
        return CommandStep::Done(app.warn("Name the folder: /cd <folder>"));
    }
    CommandStep::Done(vec![AppEffect::ChangeDirectory(typed_folder(app, args))])
}
