//! The skills of a session at one moment.

use std::fmt;
use std::sync::Arc;

use gimlet_config::SkillKind;

use super::SessionSkill;
use crate::tool::nearest_name;

/// Skills by precedence.
#[derive(Clone, Default)]
pub struct SkillSet {
    skills: Vec<Arc<SessionSkill>>,
    /// Names of the only skills that the model may load; `None` for all.
    offered: Option<Vec<String>>,
}

impl fmt::Debug for SkillSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.skills.iter().map(|skill| skill.name())).finish()
    }
}

impl SkillSet {
    pub fn new(skills: Vec<Arc<SessionSkill>>) -> Self {
        Self { skills, offered: None }
    }

    /// Returns the set with these as the only ones that the model may load: full names, or what follows the name of a
    /// plugin.
    #[must_use]
    pub fn with_offered(self, offered: Option<Vec<String>>) -> Self {
        Self { offered, ..self }
    }

    /// Returns true if nothing is known of any skill.
    pub fn is_empty(&self) -> bool {
        self.skills.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<SessionSkill>> {
        self.skills.iter()
    }

    /// Returns the skill of this name: the full one, or that without the plugin if no other skill has it.
    pub fn find(&self, name: &str) -> Option<&Arc<SessionSkill>> {
        let name = name.trim().trim_start_matches('/');
        self.skills.iter().find(|skill| skill.name() == name).or_else(|| {
            let is_short = |skill: &&Arc<SessionSkill>| {
                skill.source == super::SkillSource::Plugin && short_name(skill.name()) == name
            };
            let mut found = self.skills.iter().filter(is_short);
            found.next().filter(|_| found.next().is_none())
        })
    }

    /// Returns the name of a plugin's skill without that of the plugin; `None` for other skills, and where several
    /// plugins have a skill of that name.
    pub fn short_name_of<'a>(&self, skill: &'a SessionSkill) -> Option<&'a str> {
        let short = short_name(skill.name());
        let is_of_plugin = skill.source == super::SkillSource::Plugin;
        (is_of_plugin && self.find(short).is_some_and(|found| found.name() == skill.name())).then_some(short)
    }

    /// Returns the skills that the model may load.
    pub fn for_model(&self) -> impl Iterator<Item = &Arc<SessionSkill>> {
        self.skills.iter().filter(|skill| skill.is_for_model() && self.is_offered(skill.name()))
    }

    /// Returns true unless the program that drives the session leaves this skill out.
    pub fn is_offered(&self, name: &str) -> bool {
        let Some(offered) = &self.offered else { return true };
        offered.iter().any(|offered| offered == name || name.ends_with(&format!(":{offered}")))
    }

    /// Returns the names of the skills, without commands.
    pub fn skill_names(&self) -> Vec<String> {
        let skills = self.skills.iter().filter(|skill| skill.file.kind == SkillKind::Skill && is_there(skill));
        skills.map(|skill| skill.name().to_owned()).collect()
    }

    /// Returns the skill that the model may load, or the reason why there is none.
    pub fn find_for_model(&self, name: &str) -> Result<&Arc<SessionSkill>, String> {
        let Some(skill) = self.find(name).filter(|skill| is_there(skill)) else {
            let known = self.for_model().map(|skill| skill.name());
            let hint = match nearest_name(name, known) {
                Some(near) => format!("Did you mean `{near}`?"),
                None => {
                    let names: Vec<&str> = self.for_model().map(|skill| skill.name()).collect();
                    if names.is_empty() {
                        "There are none.".to_owned()
                    } else {
                        format!("There are: {}.", names.join(", "))
                    }
                }
            };
            return Err(format!("There is no skill named `{name}`. {hint}"));
        };
        if skill.is_for_model() && self.is_offered(skill.name()) {
            return Ok(skill);
        }
        Err(format!(
            "Only the user can run the skill `{0}`. Do not carry out its steps in another way; if it is needed, ask the \
             user to type /{0}.",
            skill.name()
        ))
    }
}

/// Returns true unless the user turned the skill off.
fn is_there(skill: &Arc<SessionSkill>) -> bool {
    skill.visibility != gimlet_config::SkillVisibility::Off
}

/// Returns a name without the plugin that it begins with.
fn short_name(name: &str) -> &str {
    name.rsplit_once(':').map_or(name, |(_, short)| short)
}
