//! `/add-dir`: a further folder to work in.

use super::{CommandStep, TerminalCommand, typed_folder};
use crate::app::{AppEffect, TerminalApp};

pub(super) const ROW: TerminalCommand = TerminalCommand {
    name: "add-dir",
    aliases: &[],
    description: "Add a folder to work in, for this session",
    argument_hint: "<folder>",
    waits_for_turn: false,
    run,
};

fn run(app: &mut TerminalApp, args: &str) -> CommandStep {
    if args.is_empty() {
        return CommandStep::Done(app.warn("Name the folder: /add-dir <folder>"));
    }
    CommandStep::Done(vec![AppEffect::AddDirectory(typed_folder(app, args))])
}
