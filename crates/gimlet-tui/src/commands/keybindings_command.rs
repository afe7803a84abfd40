//! `/keybindings`: the user's own keys, in the editor.

use super::{CommandStep, TerminalCommand};
use crate::app::{AppEffect, TerminalApp};

pub(super) const ROW: TerminalCommand = TerminalCommand {
    name: "keybindings",
    aliases: &[],
    description: "Change the keys, in your editor",
    argument_hint: "",
    waits_for_turn: false,
    run,
};

fn run(_app: &mut TerminalApp, _args: &str) -> CommandStep {
    CommandStep::Done(vec![AppEffect::EditKeyBindings])
}
