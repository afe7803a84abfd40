//! `/help`: the list of commands.

use gimlet_proto::{BoxFuture, CommandInfo};

use super::{CommandContext, CommandOutput, SlashCommand, text_table};

/// The command `/help`.
pub(super) struct HelpCommand;

impl SlashCommand for HelpCommand {
    fn name(&self) -> &str {
        "help"
    }

    fn description(&self) -> &str {
        "List the commands"
    }

    fn run<'a>(&'a self, _args: &'a str, cx: &'a CommandContext) -> BoxFuture<'a, Result<CommandOutput, String>> {
        Box::pin(async move {
            let rows: Vec<Vec<String>> = cx.commands().iter().map(command_row).collect();
            Ok(CommandOutput::Text(text_table(&rows, false)))
        })
    }
}

fn command_row(command: &CommandInfo) -> Vec<String> {
    let usage = format!("/{} {}", command.name, command.argument_hint).trim_end().to_owned();
    let aliases: Vec<String> = command.aliases.iter().map(|alias| format!("/{alias}")).collect();
    let also = if aliases.is_empty() { String::new() } else { format!(" (also {})", aliases.join(", ")) };
    vec![usage, format!("{}{also}", command.description)]
}
