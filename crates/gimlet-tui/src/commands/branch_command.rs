//! `/branch`: goes on in a copy of the conversation.

use super::{CommandStep, TerminalCommand};
use crate::app::{AppEffect, TerminalApp};

pub(super) const ROW: TerminalCommand = TerminalCommand {
    name: "branch",
    aliases: &[],
    description: "Go on in a copy of this conversation",
    argument_hint: "[title]",
    waits_for_turn: true,
    run,
};

fn run(_app: &mut TerminalApp, args: &str) -> CommandStep {
    CommandStep::Done(vec![AppEffect::Branch((!args.is_empty()).then(|| args.to_owned()))])
}
