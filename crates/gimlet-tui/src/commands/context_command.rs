//! `/context`: the context window as a picture.

use super::{CommandStep, TerminalCommand};
use crate::app::{AppEffect, TerminalApp};

pub(super) const ROW: TerminalCommand = TerminalCommand {
    name: "context",
    aliases: &[],
    description: "Show what fills the context window",
    argument_hint: "",
    waits_for_turn: false,
    run,
};

fn run(_app: &mut TerminalApp, _args: &str) -> CommandStep {
    CommandStep::Done(vec![AppEffect::ShowContext])
}
