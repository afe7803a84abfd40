//! `/cost`: what the session has used, as a picture.

use super::{CommandStep, TerminalCommand};
use crate::app::{PageContent, TerminalApp};

pub(super) const ROW: TerminalCommand = TerminalCommand {
    name: "cost",
    aliases: &["usage", "stats"],
    description: "Show what this session has used and cost, by model",
    argument_hint: "",
    waits_for_turn: false,
    run,
};

fn run(app: &mut TerminalApp, _args: &str) -> CommandStep {
    let spending = app.facts().spending.clone();
    app.open_page_of("Cost", PageContent::Spending(Box::new(spending)));
    CommandStep::Done(Vec::new())
}
