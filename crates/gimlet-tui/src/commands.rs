//! Slash commands of the terminal front end: one file and one row each. Everything else that begins with a slash is the
//! session's, which knows its own commands and runs them.

mod add_dir_command;
mod clear_command;
mod config_command;
mod context_command;
mod copy_command;
mod cost_command;
mod effort_command;
mod exit_command;
mod export_command;
mod help_command;
mod model_command;
mod permissions_command;
mod plan_command;
mod resume_command;
mod rewind_command;
mod tasks_command;
mod theme_command;

use gimlet_proto::{CommandInfo, CommandKind, CommandMatch, find_command};

pub(crate) use copy_command::copy_answer;

use crate::app::{AppEffect, TerminalApp};

/// One command of the front end.
pub(crate) struct TerminalCommand {
    pub(crate) name: &'static str,
    pub(crate) aliases: &'static [&'static str],
    pub(crate) description: &'static str,
    pub(crate) argument_hint: &'static str,
    pub(crate) run: fn(&mut TerminalApp, &str) -> CommandStep,
}

/// What a command did.
pub(crate) enum CommandStep {
    Done(Vec<AppEffect>),
    /// The session runs the command of this name with what was typed.
    ForSession,
}

/// The commands, in alphabetical order.
const COMMANDS: &[TerminalCommand] = &[
    add_dir_command::ROW,
    clear_command::ROW,
    config_command::ROW,
    context_command::ROW,
    copy_command::ROW,
    cost_command::ROW,
    effort_command::ROW,
    exit_command::ROW,
    export_command::ROW,
    help_command::ROW,
    model_command::ROW,
    permissions_command::ROW,
    plan_command::ROW,
    resume_command::ROW,
    rewind_command::ROW,
    tasks_command::ROW,
    theme_command::ROW,
];

/// Returns all commands that can be typed: those of the front end and those of the session, each name once.
pub(crate) fn all_commands(of_session: &[CommandInfo]) -> Vec<CommandInfo> {
    let mut all: Vec<CommandInfo> = COMMANDS.iter().map(TerminalCommand::info).collect();
    let is_known = |name: &str| COMMANDS.iter().any(|row| row.name == name || row.aliases.contains(&name));
    all.extend(of_session.iter().filter(|command| !is_known(&command.name)).cloned());
    all.sort_by(|one, two| one.name.cmp(&two.name));
    all
}

impl TerminalCommand {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            name: self.name.to_owned(),
            aliases: self.aliases.iter().map(|alias| (*alias).to_owned()).collect(),
            description: self.description.to_owned(),
            argument_hint: self.argument_hint.to_owned(),
            kind: CommandKind::Host,
        }
    }
}

/// Runs the command that a text begins with; `None` if the text is for the session.
pub(crate) fn run_typed(app: &mut TerminalApp, text: &str) -> Option<Vec<AppEffect>> {
    let infos: Vec<CommandInfo> = COMMANDS.iter().map(TerminalCommand::info).collect();
    let CommandMatch::Known { command, args } = find_command(text, &infos, |_| false) else { return None };
    let row = COMMANDS.iter().find(|row| row.name == command.name)?;
    match (row.run)(app, args) {
        CommandStep::Done(effects) => Some(effects),
        CommandStep::ForSession => None,
    }
}

/// Runs a command as if it had been typed.
pub(crate) fn run_by_name(app: &mut TerminalApp, name: &str, args: &str) -> Vec<AppEffect> {
    let Some(row) = COMMANDS.iter().find(|row| row.name == name) else { return Vec::new() };
    match (row.run)(app, args) {
        CommandStep::Done(effects) => effects,
        CommandStep::ForSession => vec![app.submit_text(format!("/{name} {args}").trim_end())],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_stands_for_one_command() {
        let names: Vec<&str> =
            COMMANDS.iter().flat_map(|row| std::iter::once(row.name).chain(row.aliases.iter().copied())).collect();
        let mut unique = names.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), names.len());
        assert!(COMMANDS.iter().map(|row| row.name).is_sorted());
    }

    #[test]
    fn the_sessions_commands_are_listed_with_those_of_the_front_end() {
        let status = CommandInfo { name: "status".to_owned(), ..COMMANDS[0].info() };
        let all = all_commands(&[status, COMMANDS[1].info()]);
        assert_eq!(all.len(), COMMANDS.len() + 1);
        assert!(all.iter().any(|command| command.name == "status"));
    }
}
