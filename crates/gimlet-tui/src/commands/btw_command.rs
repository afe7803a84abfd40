//! `/btw`: a question beside the conversation, which stays as it is.

use super::{CommandStep, TerminalCommand};
use crate::app::{AppEffect, TerminalApp};

pub(super) const ROW: TerminalCommand = TerminalCommand {
    name: "btw",
    aliases: &[],
    description: "Ask something beside the conversation",
    argument_hint: "<question>",
    waits_for_turn: false,
    run,
};

fn run(app: &mut TerminalApp, args: &str) -> CommandStep {
    if args.is_empty() {
        return CommandStep::Done(app.warn("Write the question: /btw <question>"));
    }
    app.open_aside(args);
    CommandStep::Done(vec![AppEffect::AskAside(args.to_owned())])
}
