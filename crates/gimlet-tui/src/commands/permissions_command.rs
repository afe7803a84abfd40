//! `/permissions`: the rules that hold, and where they come from.

use super::{CommandStep, TerminalCommand};
use crate::app::{AppEffect, TerminalApp};

pub(super) const ROW: TerminalCommand = TerminalCommand {
    name: "permissions",
    aliases: &["allowed-tools"],
    description: "Show the permission rules and folders of this session",
    argument_hint: "",
    run,
};

fn run(_app: &mut TerminalApp, _args: &str) -> CommandStep {
    CommandStep::Done(vec![AppEffect::QueryPermissions])
}
