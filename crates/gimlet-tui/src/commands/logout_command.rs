//! `/logout`: removes the stored API key.

use super::{CommandStep, TerminalCommand};
use crate::app::{AppEffect, TerminalApp};

pub(super) const ROW: TerminalCommand = TerminalCommand {
    name: "logout",
    aliases: &[],
    description: "Remove the stored API key",
    argument_hint: "",
    waits_for_turn: false,
    run,
};

fn run(_app: &mut TerminalApp, _args: &str) -> CommandStep {
    CommandStep::Done(vec![AppEffect::LogOut])
}
