//! Slash commands of the terminal front end: one file and one row each. Everything else that begins with a slash is the
//! session's, which knows its own commands and runs them.

mod add_dir_command;
mod branch_command;
mod btw_command;
mod cd_command;
mod clear_command;
mod config_command;
mod context_command;
mod copy_command;
mod cost_command;
mod editor_mode_command;
mod effort_command;
mod exit_command;
mod export_command;
mod help_command;
mod keybindings_command;
mod login_command;
mod logout_command;
mod mcp_command;
mod memory_command;
mod model_command;
mod permissions_command;
mod plan_command;
mod resume_command;
mod rewind_command;
mod tasks_command;
mod theme_command;

use std::path::PathBuf;
use std::sync::LazyLock;

use gimlet_proto::{CommandInfo, CommandKind, CommandMatch, find_command};

pub(crate) use copy_command::copy_answer;
pub(crate) use login_command::login_form;
pub(crate) use mcp_command::show_servers;
pub(crate) use memory_command::memory_picker;
pub(crate) use permissions_command::{permission_picker, rule_picker};

use crate::app::{AppEffect, TerminalApp};

/// One command of the front end.
pub(crate) struct TerminalCommand {
    pub(crate) name: &'static str,
    pub(crate) aliases: &'static [&'static str],
    pub(crate) description: &'static str,
    pub(crate) argument_hint: &'static str,
    /// True if it waits for the end of a running turn, which it would end otherwise.
    pub(crate) waits_for_turn: bool,
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
    branch_command::ROW,
    btw_command::ROW,
    cd_command::ROW,
    clear_command::ROW,
    config_command::ROW,
    context_command::ROW,
    copy_command::ROW,
    cost_command::ROW,
    effort_command::ROW,
    exit_command::ROW,
    export_command::ROW,
    help_command::ROW,
    keybindings_command::ROW,
    login_command::ROW,
    logout_command::ROW,
    mcp_command::ROW,
    memory_command::ROW,
    model_command::ROW,
    permissions_command::ROW,
    plan_command::ROW,
    resume_command::ROW,
    rewind_command::ROW,
    tasks_command::ROW,
    theme_command::ROW,
    editor_mode_command::ROW,
];

/// Returns all commands that can be typed: those of the front end and those of the session, each name once.
pub(crate) fn all_commands(of_session: &[CommandInfo]) -> Vec<CommandInfo> {
    let mut all = INFOS.clone();
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

/// Descriptions of the commands.
static INFOS: LazyLock<Vec<CommandInfo>> = LazyLock::new(|| COMMANDS.iter().map(TerminalCommand::info).collect());

/// Returns the command that a text begins with, and its arguments.
fn find_row(text: &str) -> Option<(&'static TerminalCommand, &str)> {
    let CommandMatch::Known { command, args } = find_command(text, &INFOS, |_| false) else { return None };
    let row = COMMANDS.iter().find(|row| row.name == command.name)?;
    Some((row, args))
}

/// Returns true for a command that must not end a running turn.
pub(crate) fn waits_for_turn(text: &str) -> bool {
    find_row(text).is_some_and(|(row, _)| row.waits_for_turn)
}

/// Returns a folder as it was typed, with `~` for the user's home and from the working directory on.
fn typed_folder(app: &TerminalApp, typed: &str) -> PathBuf {
    let home = app.facts().home.as_ref();
    let path = match (typed.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ if typed == "~" => home.cloned().unwrap_or_else(|| PathBuf::from(typed)),
        _ => PathBuf::from(typed),
    };
    app.facts().cwd.join(path)
}

/// Runs the command that a text begins with; `None` if the text is for the session.
pub(crate) fn run_typed(app: &mut TerminalApp, text: &str) -> Option<Vec<AppEffect>> {
    let (row, args) = find_row(text)?;
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
mod command_screens;

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
