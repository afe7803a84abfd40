//! `/effort`: how much the model thinks.

use super::{CommandStep, TerminalCommand};
use crate::app::{AppEffect, TerminalApp};
use crate::pickers::{ChoicePicker, PickerRow};

pub(super) const ROW: TerminalCommand = TerminalCommand {
    name: "effort",
    aliases: &[],
    description: "Choose how much the model thinks",
    argument_hint: "[level]",
    waits_for_turn: false,
    run,
};

const LEVELS: [(&str, &str); 5] = [
    ("low", "quick answers"),
    ("medium", "a balance"),
    ("high", "thorough"),
    ("xhigh", "very thorough, slower"),
    ("max", "as much as the model can"),
];

fn run(app: &mut TerminalApp, args: &str) -> CommandStep {
    if !args.is_empty() {
        return CommandStep::ForSession;
    }
    let current = app.facts().effort.clone();
    let model = app.facts().model.clone();
    let offered = app.facts().models.iter().find(|known| known.id == model).map(|known| known.efforts.clone());
    let is_offered = |level: &str| offered.as_ref().is_none_or(|levels| levels.iter().any(|known| known == level));
    let default = PickerRow::new("default", "what the model does by itself");
    let mut choices = vec![(default, vec![AppEffect::SetEffort(None)])];
    let mut selected = 0;
    for (level, detail) in LEVELS.into_iter().filter(|(level, _)| is_offered(level)) {
        if current.as_deref() == Some(level) {
            selected = choices.len();
        }
        choices.push((PickerRow::new(level, detail), vec![AppEffect::SetEffort(Some(level.to_owned()))]));
    }
    if choices.len() == 1 {
        return CommandStep::Done(app.warn("This model has no levels of effort"));
    }
    app.open_choices(ChoicePicker::new("Effort", choices).with_selected(selected));
    CommandStep::Done(Vec::new())
}
