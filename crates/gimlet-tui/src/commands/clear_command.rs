//! `/clear`: a new conversation on an empty screen.

use gimlet_proto::SessionReplacement;

use super::{CommandStep, TerminalCommand};
use crate::app::{AppEffect, TerminalApp};

pub(super) const ROW: TerminalCommand = TerminalCommand {
    name: "clear",
    aliases: &["reset", "new"],
    description: "Begin a new conversation",
    argument_hint: "",
    waits_for_turn: true,
    run,
};

fn run(app: &mut TerminalApp, _args: &str) -> CommandStep {
    let mode = app.facts().mode;
    CommandStep::Done(vec![AppEffect::ClearScreen, AppEffect::ReplaceSession(SessionReplacement::Cleared { mode })])
}
