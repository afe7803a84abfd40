//! A skill as a slash command.

use std::sync::Arc;

use gimlet_config::SkillKind;
use gimlet_proto::{BoxFuture, CommandKind};

use super::{SessionSkill, SkillSource};
use crate::commands::{CommandContext, CommandOutput, SlashCommand};

/// Command that loads a skill. The turn expands it: its commands need the gate.
pub struct SkillCommand {
    skill: Arc<SessionSkill>,
    description: String,
    argument_hint: String,
    /// Name without the plugin's, if nothing else has it.
    short_name: Option<String>,
}

impl SkillCommand {
    pub fn new(skill: Arc<SessionSkill>) -> Self {
        let listing = &skill.file.listing;
        let summary = listing.description.as_deref().unwrap_or_default();
        let summary = summary.split_whitespace().collect::<Vec<_>>().join(" ");
        let place = match (&listing.namespace, skill.source) {
            (_, SkillSource::Bundled) => String::new(),
            (Some(namespace), source) => format!(" ({}:{namespace})", source.as_str()),
            (None, source) => format!(" ({})", source.as_str()),
        };
        let what = if skill.file.kind == SkillKind::Command { "Run the command" } else { "Run the skill" };
        let summary = if summary.is_empty() { format!("{what} {}", skill.name()) } else { summary };
        Self { description: format!("{summary}{place}"), argument_hint: skill.argument_hint(), short_name: None, skill }
    }

    /// Returns the command with a second name.
    #[must_use]
    pub fn with_short_name(self, short_name: Option<String>) -> Self {
        Self { short_name, ..self }
    }
}

impl SlashCommand for SkillCommand {
    fn name(&self) -> &str {
        self.skill.name()
    }

    fn aliases(&self) -> Vec<&str> {
        self.short_name.iter().map(String::as_str).collect()
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn argument_hint(&self) -> &str {
        &self.argument_hint
    }

    fn kind(&self) -> CommandKind {
        CommandKind::Prompt
    }

    fn skill(&self) -> Option<&Arc<SessionSkill>> {
        Some(&self.skill)
    }

    fn run<'a>(&'a self, _args: &'a str, _cx: &'a CommandContext) -> BoxFuture<'a, Result<CommandOutput, String>> {
        Box::pin(async move { Err(format!("/{} can only run as the prompt of a turn", self.name())) })
    }
}
