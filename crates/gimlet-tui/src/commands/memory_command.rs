//! `/memory`: a memory file in the editor. With an argument, the session lists them.

use super::{CommandStep, TerminalCommand};
use crate::app::StatusFacts;
use crate::app::{AppEffect, TerminalApp};
use crate::pickers::{AppPicker, ChoicePicker, PickerRow};
use crate::services::EditableFile;

pub(super) const ROW: TerminalCommand = TerminalCommand {
    name: "memory",
    aliases: &[],
    description: "Open a memory file in your editor, or list them",
    argument_hint: "[list]",
    waits_for_turn: false,
    run,
};

fn run(_app: &mut TerminalApp, args: &str) -> CommandStep {
    if !args.is_empty() {
        return CommandStep::ForSession;
    }
    CommandStep::Done(vec![AppEffect::ListMemory])
}

/// Returns the picker of memory files; an error, in words for the user, if there are none.
pub(crate) fn memory_picker(facts: &StatusFacts, files: Vec<EditableFile>) -> Result<AppPicker, String> {
    if files.is_empty() {
        return Err("There is no place for memory here: it is turned off".to_owned());
    }
    let choices = files.into_iter().map(|file| {
        let note = if file.exists { String::new() } else { "new".to_owned() };
        let row = PickerRow { note, ..PickerRow::new(facts.shorten_path(&file.path), file.label) };
        (row, vec![AppEffect::EditFile { path: file.path, template: String::new() }])
    });
    Ok(AppPicker::Choices(ChoicePicker::new("Memory: open in your editor", choices.collect())))
}
