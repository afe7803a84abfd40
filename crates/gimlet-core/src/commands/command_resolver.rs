//! Finds the command that a prompt is, and runs it.

use std::path::Path;
use std::sync::Arc;

use gimlet_proto::{Block, CommandInfo, CommandKind, CommandMatch, MentionScope, SubmittedPrompt, find_command};

use super::{CommandContext, CommandOutput, CommandRegistry, SlashCommand};
use crate::skills::{TypedSkills, parse_typed_skills};

/// Finds commands of one session. Clones share the registry.
#[derive(Clone)]
pub(crate) struct CommandResolver {
    registry: CommandRegistry,
    context: CommandContext,
}

/// Command at the start of a prompt.
pub(crate) enum FoundCommand {
    Known(CommandCall),
    /// Skills, which the turn of the prompt loads.
    Skills(TypedSkills),
    /// Text in the form of a command that does not exist.
    Unknown {
        name: String,
        nearest: Vec<String>,
    },
}

/// A command with its arguments, ready to run.
pub(crate) struct CommandCall {
    command: Arc<dyn SlashCommand>,
    args: String,
    context: CommandContext,
}

impl CommandResolver {
    pub(crate) fn new(registry: CommandRegistry, context: CommandContext) -> Self {
        Self { registry, context }
    }

    pub(crate) fn list(&self) -> Arc<[CommandInfo]> {
        self.registry.list()
    }

    /// Returns all names under which commands can be typed.
    pub(crate) fn names(&self) -> Vec<String> {
        self.list().iter().flat_map(CommandInfo::names).map(str::to_owned).collect()
    }

    /// Returns the command that the prompt is; `None` for any other prompt.
    pub(crate) fn find(&self, said: &SubmittedPrompt) -> Option<FoundCommand> {
        let infos = self.registry.list();
        match find_command(&said.typed_text()?, &infos, Path::exists) {
            CommandMatch::NotCommand => None,
            CommandMatch::Unknown { name, nearest } => Some(FoundCommand::Unknown {
                name: name.to_owned(),
                nearest: nearest.into_iter().map(str::to_owned).collect(),
            }),
            CommandMatch::Known { command, args } => {
                let command = self.registry.command(&command.name)?;
                let args = args.to_owned();
                Some(match command.skill() {
                    Some(skill) => {
                        let find = |name: &str| self.registry.skill(name);
                        FoundCommand::Skills(parse_typed_skills(skill.clone(), &args, find))
                    }
                    None => FoundCommand::Known(CommandCall { command, args, context: self.context.clone() }),
                })
            }
        }
    }

    /// Returns the command that the prompt is, if it sends no request.
    pub(crate) fn find_local(&self, said: &SubmittedPrompt) -> Option<CommandCall> {
        match self.find(said)? {
            FoundCommand::Known(call) if call.command.kind() != CommandKind::Prompt => Some(call),
            FoundCommand::Known(_) | FoundCommand::Skills(_) | FoundCommand::Unknown { .. } => None,
        }
    }
}

impl CommandCall {
    pub(crate) fn name(&self) -> &str {
        self.command.name()
    }

    /// Returns what was typed behind the name.
    pub(crate) fn args(&self) -> &str {
        &self.args
    }

    /// Runs a command that is no prompt, and returns its text or the compaction that it asks for.
    pub(crate) async fn run(&self) -> Result<CommandOutput, String> {
        match self.command.run(&self.args, &self.context).await? {
            CommandOutput::Prompt(_) => Err(format!("/{} gave a prompt, but it is no prompt command", self.name())),
            output => Ok(output),
        }
    }

    /// Runs a command that expands to a prompt, and returns the prompt in place of the typed one. Files that the
    /// command names are not attached: only what the user types has mentions.
    pub(crate) async fn expand(&self, said: &SubmittedPrompt) -> Result<SubmittedPrompt, String> {
        let text = match self.command.run(&self.args, &self.context).await? {
            CommandOutput::Prompt(text) => text,
            CommandOutput::Text(_) | CommandOutput::Compaction(_) => {
                return Err(format!("/{} gave no prompt", self.name()));
            }
        };
        let typed = MentionScope::In(self.args.clone());
        let mut blocks = said.blocks.clone();
        match blocks.first_mut() {
            // Data from a pipe stands behind the typed text in the same block.
            Some(first) => *first = Block::text(&replace_typed(first, said, &text)),
            None => blocks.push(Block::text(&text)),
        }
        Ok(SubmittedPrompt { blocks, mentions: typed, ..said.clone() })
    }
}

/// Returns the text of the first block with the typed part replaced.
fn replace_typed(first: &Block, said: &SubmittedPrompt, text: &str) -> String {
    let typed = said.typed_text().unwrap_or_default();
    let whole = first.as_text().unwrap_or_default();
    match whole.strip_prefix(&*typed) {
        Some(rest) => format!("{text}{rest}"),
        None => text.to_owned(),
    }
}
