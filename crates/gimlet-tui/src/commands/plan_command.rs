//! `/plan`: plan first, change nothing.

use gimlet_proto::PermissionMode;

use super::{CommandStep, TerminalCommand};
use crate::app::{AppEffect, TerminalApp};

pub(super) const ROW: TerminalCommand = TerminalCommand {
    name: "plan",
    aliases: &[],
    description: "Switch to plan mode, with a task if you name one",
    argument_hint: "[task]",
    waits_for_turn: false,
    run,
};

fn run(app: &mut TerminalApp, args: &str) -> CommandStep {
    let mut effects = vec![AppEffect::SetMode(PermissionMode::Plan)];
    if !args.is_empty() {
        effects.push(app.submit_text(args));
    }
    CommandStep::Done(effects)
}
