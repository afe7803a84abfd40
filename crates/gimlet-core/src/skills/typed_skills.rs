//! Skills that the user types: `/name args`, or several of them in front of the arguments.

use std::sync::Arc;

use super::SessionSkill;
use super::skill_expansion::ExpandedSkill;
use crate::conversation::Conversation;
use crate::mentions::Mention;
use crate::turn::{Turn, append_meta_message};

/// Maximum number of skills that one prompt loads.
const MOST_SKILLS: usize = 6;

/// Skills at the start of a prompt.
pub(crate) struct TypedSkills {
    skills: Vec<Arc<SessionSkill>>,
    /// What was typed behind the names.
    args: String,
    /// What was typed behind the first name.
    typed_args: String,
}

/// Returns the skills that the arguments of one begin with, too. `find` returns the skill that can be typed by a name.
pub(crate) fn parse_typed_skills(
    first: Arc<SessionSkill>,
    args: &str,
    find: impl Fn(&str) -> Option<Arc<SessionSkill>>,
) -> TypedSkills {
    let mut typed = TypedSkills { skills: vec![first], args: args.to_owned(), typed_args: args.to_owned() };
    while typed.skills.len() < MOST_SKILLS && !typed.skills[0].file.execution.in_fork {
        let (word, rest) = typed.args.split_once(char::is_whitespace).unwrap_or((&typed.args, ""));
        let next = word.strip_prefix('/').and_then(&find).filter(|skill| !skill.file.execution.in_fork);
        let Some(next) = next else { break };
        let rest = rest.trim_start().to_owned();
        typed.skills.push(next);
        typed.args = rest;
    }
    typed
}

impl TypedSkills {
    /// Returns the name of the first.
    pub(crate) fn name(&self) -> &str {
        self.skills[0].name()
    }

    /// Returns what was typed behind the first name.
    pub(crate) fn typed_args(&self) -> &str {
        &self.typed_args
    }

    /// Returns the origin of the first.
    pub(crate) fn source(&self) -> &'static str {
        self.skills[0].source.as_str()
    }

    /// Renders all of them; if one cannot be rendered, none is loaded.
    pub(crate) async fn expand(&self, turn: &Turn) -> Result<Vec<ExpandedSkill>, String> {
        turn.scope.gate.refresh_settings(&turn.scope).await;
        let mut expanded = Vec::new();
        for skill in &self.skills {
            expanded.push(ExpandedSkill::render(&turn.scope, skill, &self.args).await?);
        }
        Ok(expanded)
    }
}

impl ExpandedSkill {
    /// Appends the skill behind the prompt that names it, and applies what it changes. Returns the files that its text
    /// names.
    pub(crate) fn append(self, conversation: &mut Conversation, turn: &Turn) -> Vec<Mention> {
        for problem in self.apply(&turn.scope) {
            turn.publish_notice(gimlet_proto::NoticeLevel::Warning, problem);
        }
        let message = self.message(&turn.scope);
        let text = format!(
            "The prompt above runs /{}. These are the instructions that it stands for; carry them out.\n{message}",
            self.name()
        );
        append_meta_message(conversation, &text);
        self.mentions
    }
}
