//! Skills that the model loads with a tool.

use gimlet_proto::{Notice, NoticeLevel};

use super::skill_expansion::ExpandedSkill;
use crate::mentions;
use crate::tool::{NewMessage, StateChange, ToolContext, ToolError};

/// A loaded skill: what enters the conversation behind the result, and what changes with it.
pub struct SkillLoad {
    pub name: String,
    pub messages: Vec<NewMessage>,
    pub changes: Vec<StateChange>,
}

impl ToolContext {
    /// Loads a skill for the conversation of this call.
    pub async fn load_skill(&self, name: &str, args: &str) -> Result<SkillLoad, ToolError> {
        let Some(scope) = &self.scope else {
            return Err(ToolError::failed("No skill can be loaded outside a session."));
        };
        let skill = scope.services.skills().find_for_model(name).map_err(ToolError::input)?.clone();
        let expanded = ExpandedSkill::render(scope, &skill, args.trim()).await.map_err(|why| {
            ToolError::failed(format!("The skill was not loaded: {why}. Do not carry out its steps from memory."))
        })?;
        let mut messages = vec![NewMessage::Text(expanded.message(scope))];
        let attached = mentions::read_for_call(scope, &expanded.mentions, &self.call).await;
        let mut changes: Vec<StateChange> = Vec::new();
        for (blocks, more) in attached {
            messages.push(NewMessage::Attachment(blocks));
            changes.extend(more);
        }
        let scope = scope.clone();
        let name = skill.name().to_owned();
        changes.push(Box::new(move |_| {
            for text in expanded.apply(&scope) {
                let notice = Notice { level: NoticeLevel::Warning, text };
                scope.services.publish(&scope.agent, gimlet_proto::EventBody::Notice(notice));
            }
        }));
        Ok(SkillLoad { name, messages, changes })
    }
}
