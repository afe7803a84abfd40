//! `/rewind`: back to before an earlier prompt.

use super::{CommandStep, TerminalCommand};
use crate::app::{AppEffect, HistoryUse, TerminalApp};

pub(super) const ROW: TerminalCommand = TerminalCommand {
    name: "rewind",
    aliases: &["undo", "checkpoint"],
    description: "Go back to before an earlier prompt",
    argument_hint: "",
    waits_for_turn: false,
    run,
};

fn run(app: &mut TerminalApp, _args: &str) -> CommandStep {
    CommandStep::Done(if app.is_busy() {
        app.warn("Stop the model first: Esc")
    } else {
        vec![AppEffect::QueryHistory(HistoryUse::Rewind)]
    })
}
