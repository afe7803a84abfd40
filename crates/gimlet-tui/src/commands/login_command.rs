//! `/login`: an API key, tested and stored for later sessions.

use gimlet_proto::Secret;
use serde_json::{Map, Value};

use super::{CommandStep, TerminalCommand};
use crate::app::{AppEffect, TerminalApp};
use crate::dialogs::{CommandForm, FieldSpec};
use crate::styled_line::{StyledLine, TextTone};

pub(super) const ROW: TerminalCommand = TerminalCommand {
    name: "login",
    aliases: &[],
    description: "Test an API key and store it",
    argument_hint: "",
    waits_for_turn: false,
    run,
};

fn run(app: &mut TerminalApp, args: &str) -> CommandStep {
    if !args.is_empty() {
        // What is typed here is in the history of prompts by now.
        return CommandStep::Done(app.warn("Do not type the key here: /login asks for it, and does not show it"));
    }
    app.open_form(login_form(&["A small request tests the key; then it is stored for you alone, in a file that \
                                nobody else can read. A key in the environment comes first."]));
    CommandStep::Done(Vec::new())
}

/// Returns the form that asks for a key, below these paragraphs.
pub(crate) fn login_form(paragraphs: &[&str]) -> CommandForm {
    let lines = paragraphs.iter().flat_map(|text| text.lines()).map(|line| StyledLine::of(line, TextTone::Text));
    let field = FieldSpec::secret("key", "API key", "Paste it; it is not shown");
    CommandForm::new("Log in", lines.collect(), vec![field], "Test and store", accept)
}

fn accept(values: &Map<String, Value>) -> Vec<AppEffect> {
    let key = values.get("key").and_then(Value::as_str).unwrap_or_default();
    vec![AppEffect::LogIn(Secret::new(key))]
}
