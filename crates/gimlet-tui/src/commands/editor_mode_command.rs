//! `/vim`: vim's modes in the input, on and off.

use super::{CommandStep, TerminalCommand};
use crate::app::{AppEffect, TerminalApp};

pub(super) const ROW: TerminalCommand = TerminalCommand {
    name: "vim",
    aliases: &[],
    description: "Turn vim's modes in the input on or off",
    argument_hint: "",
    waits_for_turn: false,
    run,
};

fn run(app: &mut TerminalApp, _args: &str) -> CommandStep {
    let (value, text) = match app.uses_vim() {
        true => ("normal", "The input is edited without modes"),
        false => ("vim", "The input has vim's modes; Esc leads to NORMAL"),
    };
    app.remark(text);
    let effects = vec![AppEffect::SaveUserSetting { key: "editorMode", value: value.to_owned() }];
    CommandStep::Done(app.apply(effects))
}
