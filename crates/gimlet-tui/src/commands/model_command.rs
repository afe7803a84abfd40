//! `/model`: another model, from a list.

use super::{CommandStep, TerminalCommand};
use crate::app::{AppEffect, TerminalApp};
use crate::pickers::{ChoicePicker, PickerRow};

pub(super) const ROW: TerminalCommand = TerminalCommand {
    name: "model",
    aliases: &[],
    description: "Choose the model",
    argument_hint: "[model]",
    waits_for_turn: false,
    run,
};

fn run(app: &mut TerminalApp, args: &str) -> CommandStep {
    if !args.is_empty() {
        return CommandStep::ForSession;
    }
    let current = app.facts().model.clone();
    let choices: Vec<_> = app
        .facts()
        .models
        .iter()
        .map(|model| {
            let mark = if model.id == current { "in use" } else { "" };
            let row = PickerRow { note: mark.to_owned(), ..PickerRow::new(&model.alias, &model.id) };
            (row, vec![AppEffect::SetModel(Some(model.alias.clone()))])
        })
        .collect();
    if choices.is_empty() {
        return CommandStep::Done(app.warn("Name the model: /model <name>"));
    }
    let selected = app.facts().models.iter().position(|model| model.id == current).unwrap_or(0);
    app.open_choices(ChoicePicker::new("Model for this session", choices).with_selected(selected));
    CommandStep::Done(Vec::new())
}
