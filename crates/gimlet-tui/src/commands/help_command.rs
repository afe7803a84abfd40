//! `/help`: all commands on one page.

use super::{CommandStep, TerminalCommand, all_commands};
use crate::app::TerminalApp;
use crate::styled_line::{StyledLine, TextTone};
use crate::text_width::{clean_line, display_width};

pub(super) const ROW: TerminalCommand = TerminalCommand {
    name: "help",
    aliases: &[],
    description: "List the commands",
    argument_hint: "",
    waits_for_turn: false,
    run,
};

/// Columns of names and arguments.
const NAME_COLUMN: usize = 26;

fn run(app: &mut TerminalApp, _args: &str) -> CommandStep {
    let mut lines = Vec::new();
    for command in all_commands(&app.facts().commands) {
        let usage = format!("/{} {}", command.name, command.argument_hint);
        let usage = clean_line(usage.trim_end()).into_owned();
        let mut line = StyledLine::of(format!("  {usage}"), TextTone::Accent);
        let used = display_width(&usage);
        if used >= NAME_COLUMN {
            // A long argument stands alone, so that the descriptions stay one column.
            lines.push(line);
            line = StyledLine::of(" ".repeat(NAME_COLUMN + 2), TextTone::Text);
        } else {
            line.push(" ".repeat(NAME_COLUMN - used), TextTone::Text);
        }
        lines.push(line.with(clean_line(&command.description), TextTone::Text).hanging(NAME_COLUMN + 2));
    }
    lines.push(StyledLine::blank());
    lines.push(StyledLine::of("  ? on an empty input shows the keys", TextTone::Dim));
    app.open_page("Commands", lines);
    CommandStep::Done(Vec::new())
}
