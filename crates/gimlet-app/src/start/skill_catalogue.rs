//! The skills and commands of a folder without a session: every one, who can use it, and what keeps it or parts of it
//! from being used.

use std::path::PathBuf;
use std::sync::Arc;

use gimlet_config::{SettingsProblem, SkillFile, SkippedDocument};
use gimlet_core::SessionSkill;
use gimlet_core::commands::CommandRegistry;
use gimlet_policy::is_skill_removed;

use super::SessionSettings;
use crate::launch_error::LaunchError;
use crate::launch_request::LaunchRequest;
use crate::process_env::ProcessEnv;

/// Every skill and command that a session with these flags in a folder could have.
pub struct SkillCatalogue {
    pub skills: Vec<CataloguedSkill>,
    pub skipped: Vec<SkippedDocument>,
    pub problems: Vec<SettingsProblem>,
}

/// One skill or command.
pub struct CataloguedSkill {
    pub skill: Arc<SessionSkill>,
    /// File that it is read from; `None` for a bundled one.
    pub file: Option<PathBuf>,
    /// Parts that wait for trust.
    pub withheld: Vec<&'static str>,
    pub usable_by_user: bool,
    pub usable_by_model: bool,
    /// Reason why the user cannot type it although its file says so.
    pub shadowed: Option<&'static str>,
    /// True if it was written for arguments that count from one.
    pub counts_from_one: bool,
    /// Fields of its front matter that are read and have no effect.
    pub without_effect: Vec<&'static str>,
}

impl SkillCatalogue {
    /// Reads the files. Starts nothing.
    pub fn read(request: &LaunchRequest, around: &ProcessEnv) -> Result<Self, LaunchError> {
        let settings = SessionSettings::read(request, around)?;
        let rules = settings.now().rules;
        let commands = CommandRegistry::default();
        let files = settings.skill_files();
        let set = settings.skill_set();
        let skills = set.iter().map(|skill| {
            let is_taken =
                skill.is_for_user() && commands.list().iter().any(|info| info.names().any(|name| name == skill.name()));
            let shadowed = is_taken.then_some("a command of gimlet has its name");
            CataloguedSkill {
                file: skill.file.folder.is_absolute().then(|| skill.file.origin.path.clone()),
                withheld: withheld_parts(&skill.file, skill),
                usable_by_user: skill.is_for_user() && !is_taken,
                usable_by_model: skill.is_for_model() && !is_skill_removed(&rules, skill.name()),
                shadowed,
                counts_from_one: skill.file.body.has_one_based_arguments(),
                without_effect: find_fields_without_effect(skill),
                skill: skill.clone(),
            }
        });
        Ok(Self { skills: skills.collect(), skipped: files.skipped, problems: files.problems })
    }
}

/// Returns the fields of a skill that this version does not carry out.
fn find_fields_without_effect(skill: &SessionSkill) -> Vec<&'static str> {
    let fields = [
        ("context: fork", skill.file.execution.in_fork),
        ("hooks", !skill.actions.hooks.is_empty()),
        ("paths", skill.file.invocation.paths.is_some()),
    ];
    fields.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name).collect()
}

/// Returns what a skill does not do before its project is trusted.
fn withheld_parts(file: &SkillFile, skill: &SessionSkill) -> Vec<&'static str> {
    let mut parts = file.actions.withheld_fields(&skill.trust).to_vec();
    let is_withheld = |part: &gimlet_config::BodyPart<'_>| match part {
        gimlet_config::BodyPart::Command(command) => command.code(&skill.trust).is_none(),
        gimlet_config::BodyPart::Text(_) => false,
    };
    if file.body.parts().iter().any(is_withheld) {
        parts.push("commands");
    }
    parts
}
