//! `/add-dir`: a further folder to work in.

use std::path::PathBuf;

use super::{CommandStep, TerminalCommand};
use crate::app::{AppEffect, TerminalApp};

pub(super) const ROW: TerminalCommand = TerminalCommand {
    name: "add-dir",
    aliases: &[],
    description: "Add a folder to work in, for this session",
    argument_hint: "<folder>",
    run,
};

fn run(app: &mut TerminalApp, args: &str) -> CommandStep {
    if args.is_empty() {
        return CommandStep::Done(app.warn("Name the folder: /add-dir <folder>"));
    }
    let path = match (args.strip_prefix("~/"), &app.facts().home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(args),
    };
    CommandStep::Done(vec![AppEffect::AddDirectory(app.facts().cwd.join(path))])
}
