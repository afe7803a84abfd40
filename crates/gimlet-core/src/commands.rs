//! Slash commands: the contract of a command, the table of those that are built in, and the registry of a session.
//!
//! A command is one file in `commands/` and one row of [`BUILT_IN`]. The application hands in further ones that need
//! its settings, and more can be added while a session runs. A command sees its session as a front end does, through a
//! [`CommandContext`]; it cannot touch the conversation.

mod clear_command;
mod command_context;
mod command_resolver;
mod compact_command;
mod context_command;
mod cost_command;
mod effort_command;
mod help_command;
mod model_command;
mod rename_command;
mod text_table;

use std::collections::HashSet;
use std::sync::{Arc, PoisonError, RwLock};

use gimlet_proto::{BoxFuture, CommandInfo, CommandKind};

use crate::skills::{SessionSkill, SkillCommand, SkillSet};
pub use command_context::CommandContext;
pub(crate) use command_resolver::{CommandCall, CommandResolver, FoundCommand};
pub use text_table::{format_dollars, grouped, text_table};

/// The built-in commands, in the order in which lists show them.
const BUILT_IN: &[fn() -> Arc<dyn SlashCommand>] = &[
    || Arc::new(clear_command::ClearCommand),
    || Arc::new(compact_command::CompactCommand),
    || Arc::new(context_command::ContextCommand),
    || Arc::new(cost_command::CostCommand),
    || Arc::new(effort_command::EffortCommand),
    || Arc::new(help_command::HelpCommand),
    || Arc::new(model_command::ModelCommand),
    || Arc::new(rename_command::RenameCommand),
];

/// A slash command.
pub trait SlashCommand: Send + Sync {
    /// Returns the name, without the slash.
    fn name(&self) -> &str;

    /// Returns further names.
    fn aliases(&self) -> Vec<&str> {
        Vec::new()
    }

    /// Returns one line for lists.
    fn description(&self) -> &str;

    /// Returns the arguments as lists show them; empty if there are none.
    fn argument_hint(&self) -> &str {
        ""
    }

    fn kind(&self) -> CommandKind {
        CommandKind::Local
    }

    /// Returns the skill that the command stands for, if it does: the turn of its prompt loads it.
    fn skill(&self) -> Option<&Arc<SessionSkill>> {
        None
    }

    /// Runs the command with everything that was typed after its name. An error is one line for the user that says
    /// what to do instead.
    fn run<'a>(&'a self, args: &'a str, cx: &'a CommandContext) -> BoxFuture<'a, Result<CommandOutput, String>>;
}

/// Result of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandOutput {
    /// Text for the user; no request is sent.
    Text(String),
    /// Prompt that is sent to the model in place of the typed text.
    Prompt(String),
    /// The session compacts its conversation, with a summary that dwells on this.
    Compaction(Option<String>),
}

/// Commands of a session. Clones share them.
#[derive(Clone)]
pub struct CommandRegistry(Arc<RwLock<CommandTable>>);

struct CommandTable {
    commands: Vec<Arc<dyn SlashCommand>>,
    infos: Arc<[CommandInfo]>,
}

impl Default for CommandRegistry {
    fn default() -> Self {
        Self::new(BUILT_IN.iter().map(|create| create()).collect())
    }
}

impl CommandRegistry {
    fn new(commands: Vec<Arc<dyn SlashCommand>>) -> Self {
        let infos = describe_all(&commands);
        Self(Arc::new(RwLock::new(CommandTable { commands, infos })))
    }

    /// Creates the registry of the built-in commands and further ones.
    pub fn with_commands(further: impl IntoIterator<Item = Arc<dyn SlashCommand>>) -> Self {
        let registry = Self::default();
        further.into_iter().for_each(|command| registry.add(command));
        registry
    }

    /// Adds a command, in place of the one with the same name if there is one. It can be typed from now on.
    pub fn add(&self, command: Arc<dyn SlashCommand>) {
        self.change(|commands| match commands.iter_mut().find(|known| known.name() == command.name()) {
            Some(known) => *known = command,
            None => commands.push(command),
        });
    }

    /// Removes a command. One that does not exist is no error.
    pub fn remove(&self, name: &str) {
        self.change(|commands| commands.retain(|command| command.name() != name));
    }

    /// Replaces the commands that stand for skills by those that the user can type. A name that another command has
    /// stays with that.
    pub fn set_skills(&self, skills: &SkillSet) {
        self.change(|commands| {
            commands.retain(|command| command.skill().is_none());
            let mut taken: HashSet<String> = HashSet::new();
            for command in commands.iter() {
                taken.insert(command.name().to_owned());
                taken.extend(command.aliases().into_iter().map(str::to_owned));
            }
            let typed: Vec<_> = skills.iter().filter(|skill| skill.is_for_user()).collect();
            let is_full_name = |name: &str| typed.iter().any(|skill| skill.name() == name);
            for skill in &typed {
                if taken.insert(skill.name().to_owned()) {
                    let short = skills.short_name_of(skill);
                    let short = short.filter(|short| !taken.contains(*short) && !is_full_name(short));
                    let command = SkillCommand::new((*skill).clone()).with_short_name(short.map(str::to_owned));
                    commands.push(Arc::new(command));
                }
            }
        });
    }

    /// Returns the skill that can be typed by this name.
    pub(crate) fn skill(&self, name: &str) -> Option<Arc<SessionSkill>> {
        self.command(name).and_then(|command| command.skill().cloned())
    }

    /// Returns the descriptions of all commands.
    pub fn list(&self) -> Arc<[CommandInfo]> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).infos.clone()
    }

    /// Returns the command of this name.
    fn command(&self, name: &str) -> Option<Arc<dyn SlashCommand>> {
        let table = self.0.read().unwrap_or_else(PoisonError::into_inner);
        table.commands.iter().find(|command| command.name() == name).cloned()
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Arc<dyn SlashCommand>>)) {
        let mut table = self.0.write().unwrap_or_else(PoisonError::into_inner);
        change(&mut table.commands);
        table.infos = describe_all(&table.commands);
    }
}

fn describe_all(commands: &[Arc<dyn SlashCommand>]) -> Arc<[CommandInfo]> {
    let describe = |command: &Arc<dyn SlashCommand>| CommandInfo {
        name: command.name().to_owned(),
        aliases: command.aliases().into_iter().map(str::to_owned).collect(),
        description: command.description().to_owned(),
        argument_hint: command.argument_hint().to_owned(),
        kind: command.kind(),
    };
    commands.iter().map(describe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct EchoCommand(&'static str);

    impl SlashCommand for EchoCommand {
        fn name(&self) -> &str {
            "echo"
        }

        fn description(&self) -> &str {
            self.0
        }

        fn run<'a>(&'a self, args: &'a str, _cx: &'a CommandContext) -> BoxFuture<'a, Result<CommandOutput, String>> {
            Box::pin(async move { Ok(CommandOutput::Text(args.to_owned())) })
        }
    }

    #[test]
    fn a_registry_can_be_changed_and_its_clones_see_it() {
        let registry = CommandRegistry::with_commands([Arc::new(EchoCommand("one")) as Arc<dyn SlashCommand>]);
        let shared = registry.clone();
        let described = || -> Option<String> {
            let infos = shared.list();
            infos.iter().find(|info| info.name == "echo").map(|info| info.description.clone())
        };
        assert_eq!(described().as_deref(), Some("one"));
        registry.add(Arc::new(EchoCommand("two")));
        assert_eq!(described().as_deref(), Some("two"));
        assert_eq!(shared.list().iter().filter(|info| info.name == "echo").count(), 1);
        registry.remove("echo");
        assert!(described().is_none() && shared.command("echo").is_none() && shared.command("cost").is_some());
    }

    #[test]
    fn no_two_commands_answer_to_one_name() {
        let infos = CommandRegistry::default().list();
        let mut names: Vec<&str> = infos.iter().flat_map(CommandInfo::names).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count, "{names:?}");
        assert!(infos.iter().all(|info| !info.description.is_empty() && !info.name.contains('/')));
    }
}
