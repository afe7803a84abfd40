//! `/config`: the settings that are changed most, as a form. With a key, the session answers.

use super::{CommandStep, TerminalCommand};
use crate::app::{AppEffect, TerminalApp};

pub(super) const ROW: TerminalCommand = TerminalCommand {
    name: "config",
    aliases: &["settings"],
    description: "Change settings of the terminal",
    argument_hint: "[key[=value]]",
    waits_for_turn: false,
    run,
};

fn run(_app: &mut TerminalApp, args: &str) -> CommandStep {
    if !args.is_empty() {
        return CommandStep::ForSession;
    }
    CommandStep::Done(vec![AppEffect::QuerySettings])
}
