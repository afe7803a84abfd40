//! `/export`: the conversation as text, in a file or the clipboard.

use super::{CommandStep, TerminalCommand};
use crate::app::{AppEffect, TerminalApp};

pub(super) const ROW: TerminalCommand = TerminalCommand {
    name: "export",
    aliases: &[],
    description: "Write the conversation to a file, or copy it",
    argument_hint: "[file]",
    waits_for_turn: false,
    run,
};

fn run(app: &mut TerminalApp, args: &str) -> CommandStep {
    let file = (!args.is_empty()).then(|| app.facts().cwd.join(args));
    CommandStep::Done(vec![AppEffect::Export(file)])
}
