//! `/resume`: another conversation, from a list or by name.

use gimlet_proto::{SessionReplacement, SessionScope};

use super::{CommandStep, TerminalCommand};
use crate::app::{AppEffect, TerminalApp};

pub(super) const ROW: TerminalCommand = TerminalCommand {
    name: "resume",
    aliases: &["continue"],
    description: "Go on with an earlier conversation",
    argument_hint: "[session]",
    waits_for_turn: true,
    run,
};

fn run(_app: &mut TerminalApp, args: &str) -> CommandStep {
    CommandStep::Done(if args.is_empty() {
        vec![AppEffect::ListSessions(SessionScope::Folder)]
    } else {
        vec![AppEffect::ReplaceSession(SessionReplacement::Resumed { session: args.to_owned() })]
    })
}
