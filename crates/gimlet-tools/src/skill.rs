//! Skill: loads the instructions of a skill into the conversation. What a skill runs or grants is decided by the
//! permission gate; this tool itself changes nothing but the session.

use std::borrow::Cow;

use gimlet_core::SkillLoad;
use gimlet_core::tool::{
    AgentAvailability, InputProblem, PathContext, PromptContext, Tool, ToolContext, ToolError, ToolResult,
};
use gimlet_proto::{AccessNeed, ResultContent, View};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) struct Skill;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SkillInput {
    /// Name of the skill, as listed.
    skill: String,
    /// Its arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SkillOutput {
    success: bool,
    command_name: String,
}

impl Tool for Skill {
    const NAME: &'static str = "Skill";
    type Input = SkillInput;
    type Output = SkillOutput;

    fn prompt(&self, _cx: &PromptContext) -> Cow<'static, str> {
        Cow::Borrowed(include_str!("skill.md").trim_ascii_end())
    }

    /// Returns `Opaque` for a skill that runs or grants something, so that it needs permission, and for one of which
    /// nothing is known.
    fn needs(&self, input: &SkillInput, cx: &PathContext) -> Vec<AccessNeed> {
        match cx.skills.find_for_model(&input.skill) {
            Ok(skill) if !skill.acts() => vec![AccessNeed::Session],
            Ok(_) | Err(_) => vec![AccessNeed::Opaque],
        }
    }

    fn backfill_observable_input(&self, input: &mut SkillInput, cx: &PathContext) {
        if let Some(skill) = cx.skills.find(&input.skill) {
            skill.name().clone_into(&mut input.skill);
        }
    }

    fn key_repairs(&self) -> &'static [(&'static str, &'static str)] {
        &[("name", "skill"), ("command", "skill"), ("skill_name", "skill"), ("arguments", "args")]
    }

    fn validate_input(&self, input: &SkillInput, cx: &PathContext) -> Result<(), InputProblem> {
        match cx.skills.find_for_model(&input.skill) {
            Ok(_) => Ok(()),
            // Outside a session a call can still be judged by its name.
            Err(_) if cx.skills.is_empty() => Ok(()),
            Err(reason) => Err(InputProblem::new(1, reason)),
        }
    }

    fn description(&self, input: &SkillInput, _cx: &PathContext) -> String {
        match input.args.as_deref().map(str::trim) {
            Some(args) if !args.is_empty() => format!("{} {args}", input.skill),
            Some(_) | None => input.skill.clone(),
        }
    }

    fn auto_classifier_input(&self, input: &SkillInput) -> String {
        format!("load the skill {} {}", input.skill, input.args.as_deref().unwrap_or_default())
    }

    fn agent_availability(&self) -> AgentAvailability {
        AgentAvailability::Always
    }

    fn search_hint(&self) -> &'static str {
        "skill command instructions workflow"
    }

    async fn call(&self, input: SkillInput, cx: &ToolContext) -> Result<ToolResult<SkillOutput>, ToolError> {
        let args = input.args.unwrap_or_default();
        let SkillLoad { name, messages, changes } = cx.load_skill(&input.skill, &args).await?;
        let output = SkillOutput { success: true, command_name: name };
        Ok(ToolResult { data: output, new_messages: messages, changes })
    }

    fn to_blocks(&self, output: &SkillOutput) -> ResultContent {
        format!("The skill {} is loaded. Its instructions follow.", output.command_name).into()
    }

    fn view(&self, _input: &SkillInput, output: &SkillOutput) -> View {
        View::Text(format!("loaded {}", output.command_name))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gimlet_config::{ProjectTrust, SkillFile};
    use gimlet_core::tool::AnyTool;
    use gimlet_core::{LiveSkillSet, SessionServices, SessionShared, SkillSet, SkillSource};
    use gimlet_proto::{Env, EventHub, SessionId};
    use serde_json::json;

    use super::*;
    use crate::harness::ToolBench;

    fn skill(name: &str, text: &str) -> Arc<gimlet_core::SessionSkill> {
        let file = SkillFile::from_bundled_text(name, text);
        Arc::new(gimlet_core::SessionSkill::new(file, SkillSource::User, Arc::new(ProjectTrust::none())))
    }

    fn paths(bench: &ToolBench) -> PathContext {
        let skills = SkillSet::new(vec![
            skill("plain", "---\ndescription: d\n---\nText."),
            skill("granting", "---\nallowed-tools: Bash(ls *)\n---\nText."),
            skill("running", "Now: !`date`"),
            skill("mine", "---\ndisable-model-invocation: true\n---\nText."),
        ]);
        let shared = SessionShared::new(SessionId::new("s"), Env::default(), None, EventHub::default())
            .with_skills(LiveSkillSet::new(skills));
        SessionServices::new(shared, bench.state.clone(), bench.results()).paths()
    }

    #[test]
    fn a_skill_that_runs_or_grants_something_needs_permission() {
        let bench = ToolBench::new();
        for (name, need) in
            [("plain", AccessNeed::Session), ("/granting", AccessNeed::Opaque), ("running", AccessNeed::Opaque)]
        {
            let prepared = Skill.prepare(json!({"skill": name, "args": " x "}), &paths(&bench)).unwrap();
            let plain = name.trim_start_matches('/');
            assert_eq!((prepared.needs, prepared.description), (vec![need], format!("{plain} x")), "{name}");
            assert_eq!(prepared.input["skill"], plain);
        }
    }

    #[test]
    fn unknown_skills_and_those_of_the_user_are_refused_with_the_reason() {
        let bench = ToolBench::new();
        for (name, reason) in [("plian", "Did you mean `plain`?"), ("mine", "ask the user to type /mine")] {
            let error = Skill.prepare(json!({"name": name}), &paths(&bench)).err().unwrap();
            assert!(error.model_text.contains(reason), "{error}");
        }
    }

    #[test]
    fn the_description_stays_short() {
        assert!(include_str!("skill.md").len() <= 750, "every request carries it");
    }
}
