//! From a skill and its arguments to the text that the model gets.

use std::sync::Arc;

use gimlet_config::{BodyPart, ShellChoice};

use super::argument_substitution::ArgumentSubstitution;
use super::inline_command::run_inline_command;
use super::turn_grants::SkillRules;
use super::{LoadedSkills, SessionSkill};
use crate::call::CallScope;
use crate::mentions::{self, Mention};
use crate::prompt_tags::{self, SKILL_INSTRUCTIONS};

/// Text in place of a command that a policy forbids.
const DISABLED_COMMAND: &str = "[commands in skills are disabled by policy]";

/// A skill with its text as this call of it renders it.
pub(crate) struct ExpandedSkill {
    pub(super) skill: Arc<SessionSkill>,
    pub(super) text: String,
    /// Files that the text names.
    pub(super) mentions: Vec<Mention>,
    rules: SkillRules,
}

impl ExpandedSkill {
    /// Renders the text of a skill. Its commands run with what it grants; one that may not run or fails is an error.
    pub(super) async fn render(scope: &Arc<CallScope>, skill: &Arc<SessionSkill>, args: &str) -> Result<Self, String> {
        let variables = session_variables(scope, skill);
        let mut values = ArgumentSubstitution::new(args, &skill.file.invocation.arguments, variables);
        let rules = SkillRules::new(skill, &values, &scope.services.paths());
        let granted = Arc::new(CallScope { grants: scope.grants.with(&rules.rules), ..CallScope::clone(scope) });
        let (mut text, mut mentions) = (String::new(), Vec::new());
        for part in skill.file.body.parts() {
            match part {
                BodyPart::Text(part) => {
                    let part = values.replace_all(part);
                    mentions.extend(mentions::parse_document_mentions(&part));
                    text.push_str(&part);
                }
                BodyPart::Command(_) if !skill.runs_commands => text.push_str(DISABLED_COMMAND),
                BodyPart::Command(command) => {
                    let code = command.code(&skill.trust).ok_or_else(|| {
                        format!("the skill {} runs commands, and it is not trusted; review: gimlet trust", skill.name())
                    })?;
                    let code = values.replace_all(code);
                    if skill.file.execution.shell == Some(ShellChoice::Powershell) {
                        return Err(format!("the skill {} needs PowerShell, which is not there", skill.name()));
                    }
                    let printed = run_inline_command(&granted, &code).await;
                    let printed =
                        printed.map_err(|why| format!("the skill {}: its command `{code}`: {why}", skill.name()))?;
                    text.push_str(&printed);
                }
            }
        }
        if !args.is_empty() && !values.uses_arguments() {
            text.push_str(&format!("\n\nARGUMENTS: {args}"));
        }
        let mentions = mentions::retain_allowed(scope, mentions).await;
        Ok(Self { skill: skill.clone(), text: frame_text(skill, &text), mentions, rules })
    }

    pub(crate) fn name(&self) -> &str {
        self.skill.name()
    }

    /// Applies what the skill grants and changes, for the rest of the turn. Problems are returned for the user.
    pub(super) fn apply(&self, scope: &CallScope) -> Vec<String> {
        let mut problems = self.rules.problems.clone();
        if !self.rules.rules.is_empty() {
            scope.grants.add(self.rules.rules.clone());
            scope.gate.note_rule_change();
        }
        let actions = &self.skill.actions;
        let model = actions.model.clone().filter(|model| model != "inherit");
        if let Err(problem) = scope.model_selection.override_for_turn(model, actions.effort.clone()) {
            problems.push(format!("the skill {}: {problem}", self.skill.name()));
        }
        if !self.skill.hooks.is_empty() {
            scope.services.hooks().add_skill_hooks(self.skill.name(), self.skill.hooks.clone());
        }
        problems
    }

    /// Returns the message for the model: the text, or a note if the conversation has the same text already.
    pub(super) fn message(&self, scope: &CallScope) -> String {
        if scope.services.tool_state::<LoadedSkills>().note(self.skill.name(), &self.text) {
            return self.text.clone();
        }
        format!(
            "The instructions of the skill {} are in the conversation already, word for word. Follow them again.",
            self.skill.name()
        )
    }
}

/// Returns the values that a text can name.
fn session_variables(scope: &CallScope, skill: &SessionSkill) -> Vec<(String, String)> {
    let mut variables = vec![
        ("CLAUDE_SESSION_ID".to_owned(), scope.services.session_id().to_string()),
        ("CLAUDE_EFFORT".to_owned(), scope.model_selection.current().effort.unwrap_or_default()),
        ("CLAUDE_PROJECT_DIR".to_owned(), scope.services.paths().project_dir.display().to_string()),
    ];
    if skill.file.folder.is_absolute() {
        variables.push(("CLAUDE_SKILL_DIR".to_owned(), skill.file.folder.display().to_string()));
    }
    variables.extend(skill.variables.iter().cloned());
    variables
}

/// Returns the text as the model gets it, with the name of the skill and the folder of its files.
fn frame_text(skill: &SessionSkill, text: &str) -> String {
    let name = prompt_tags::escape_tags(skill.name());
    let text = prompt_tags::escape_tags(text);
    let folder = match skill.file.kind {
        gimlet_config::SkillKind::Skill if skill.file.folder.is_absolute() => {
            format!("Folder of its files: {}\n\n", skill.file.folder.display())
        }
        _ => String::new(),
    };
    format!("<{SKILL_INSTRUCTIONS} name=\"{name}\">\n{folder}{}\n</{SKILL_INSTRUCTIONS}>", text.trim_end())
}
