//! `/theme`: colours for a dark or a light background.

use super::{CommandStep, TerminalCommand};
use crate::app::{AppEffect, TerminalApp};
use crate::pickers::{ChoicePicker, PickerRow};
use crate::theme::ScreenBackground;

pub(super) const ROW: TerminalCommand = TerminalCommand {
    name: "theme",
    aliases: &[],
    description: "Choose colours for a dark or a light terminal",
    argument_hint: "[dark|light]",
    waits_for_turn: false,
    run,
};

const THEMES: [(&str, ScreenBackground, &str); 2] = [
    ("dark", ScreenBackground::Dark, "light text on a dark background"),
    ("light", ScreenBackground::Light, "dark text on a light background"),
];

fn run(app: &mut TerminalApp, args: &str) -> CommandStep {
    let effects = |name: &str, background| {
        vec![AppEffect::SetTheme(background), AppEffect::SaveUserSetting { key: "theme", value: name.to_owned() }]
    };
    if let Some((name, background, _)) = THEMES.iter().find(|(name, ..)| *name == args) {
        return CommandStep::Done(app.apply(effects(name, *background)));
    }
    if !args.is_empty() {
        return CommandStep::Done(app.warn("The themes are dark and light"));
    }
    let selected = THEMES.iter().position(|(_, background, _)| *background == app.theme().background).unwrap_or(0);
    let choices =
        THEMES.iter().map(|(name, background, detail)| (PickerRow::new(*name, *detail), effects(name, *background)));
    app.open_choices(ChoicePicker::new("Theme", choices.collect()).with_selected(selected));
    CommandStep::Done(Vec::new())
}
