//! `/exit`: the end.

use super::{CommandStep, TerminalCommand};
use crate::app::TerminalApp;

pub(super) const ROW: TerminalCommand = TerminalCommand {
    name: "exit",
    aliases: &["quit"],
    description: "Leave gimlet",
    argument_hint: "",
    waits_for_turn: false,
    run,
};

fn run(app: &mut TerminalApp, _args: &str) -> CommandStep {
    CommandStep::Done(app.leave())
}
