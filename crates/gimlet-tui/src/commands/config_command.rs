//! `/config`: the settings that are changed most, as a form.

use super::{CommandStep, TerminalCommand};
use crate::app::{AppEffect, TerminalApp};

pub(super) const ROW: TerminalCommand = TerminalCommand {
    name: "config",
    aliases: &["settings"],
    description: "Change settings of the terminal",
    argument_hint: "",
    run,
};

fn run(_app: &mut TerminalApp, _args: &str) -> CommandStep {
    CommandStep::Done(vec![AppEffect::QuerySettings])
}
