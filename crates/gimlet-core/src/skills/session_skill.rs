//! One skill, or a command that is written like one.

use std::fmt;
use std::sync::Arc;

use gimlet_config::{BodyPart, ProjectTrust, SkillActions, SkillFile, SkillVisibility};

use crate::hooks::HookEntry;

/// Origin of a skill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkillSource {
    /// Part of gimlet.
    Bundled,
    Plugin,
    Project,
    /// A folder that the user added to the session.
    AddedFolder,
    User,
    Managed,
}

impl SkillSource {
    /// Returns the name that people and hooks know the origin by.
    pub fn as_str(self) -> &'static str {
        match self {
            SkillSource::Bundled => "bundled",
            SkillSource::Plugin => "plugin",
            SkillSource::Project => "project",
            SkillSource::AddedFolder => "added folder",
            SkillSource::User => "user",
            SkillSource::Managed => "managed",
        }
    }
}

/// A skill or command with all that it may do in this session.
#[derive(Clone)]
pub struct SessionSkill {
    pub file: SkillFile,
    pub source: SkillSource,
    /// Fields that act, as far as they are trusted.
    pub actions: SkillActions,
    /// Hooks that are called once it was loaded.
    pub hooks: Vec<HookEntry>,
    /// Trust that its commands need.
    pub trust: Arc<ProjectTrust>,
    pub visibility: SkillVisibility,
    /// False if a policy replaces its commands.
    pub runs_commands: bool,
    /// Further variables of its text, such as the folder of its plugin.
    pub variables: Vec<(String, String)>,
}

impl fmt::Debug for SessionSkill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Skill").field("name", &self.name()).field("source", &self.source).finish_non_exhaustive()
    }
}

impl SessionSkill {
    /// Creates the skill of a file that acts as far as this trust allows.
    pub fn new(file: SkillFile, source: SkillSource, trust: Arc<ProjectTrust>) -> Self {
        Self {
            actions: file.actions.get(&trust).cloned().unwrap_or_default(),
            file,
            source,
            hooks: Vec::new(),
            trust,
            visibility: SkillVisibility::On,
            runs_commands: true,
            variables: Vec::new(),
        }
    }

    pub fn name(&self) -> &str {
        &self.file.name
    }

    /// Returns true if the user can type it.
    pub fn is_for_user(&self) -> bool {
        self.file.invocation.by_user && self.visibility != SkillVisibility::Off
    }

    /// Returns true if the model can load it.
    pub fn is_for_model(&self) -> bool {
        self.file.invocation.by_model && matches!(self.visibility, SkillVisibility::On | SkillVisibility::NameOnly)
    }

    /// Returns true if loading it runs or grants something, so that the model needs permission for it.
    pub fn acts(&self) -> bool {
        let has_command = || self.file.body.parts().iter().any(|part| matches!(part, BodyPart::Command(_)));
        !self.actions.allowed_tools.is_empty() || !self.hooks.is_empty() || has_command()
    }

    /// Returns its text in lists on one line: what it does, and when it is to be used. Empty if it has none.
    pub fn summary(&self) -> String {
        let listing = &self.file.listing;
        let parts = listing.description.iter().chain(&listing.when_to_use);
        let words: Vec<&str> = parts.flat_map(|text| text.split_whitespace()).collect();
        words.join(" ")
    }

    /// Returns its arguments as lists show them; empty if it takes none.
    pub fn argument_hint(&self) -> String {
        if let Some(hint) = &self.file.listing.argument_hint {
            return hint.clone();
        }
        let names: Vec<String> = self.file.invocation.arguments.iter().map(|name| format!("[{name}]")).collect();
        names.join(" ")
    }
}
