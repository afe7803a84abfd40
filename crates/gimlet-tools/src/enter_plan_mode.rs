//! EnterPlanMode: switches to plan mode once the user agrees. It changes the mode and nothing else; the gate enforces
//! it.

use std::borrow::Cow;

use gimlet_core::tool::{
    AgentAvailability, CallSite, ModeChangeRequest, PathContext, PromptContext, Tool, ToolContext, ToolError,
    ToolResult,
};
use gimlet_proto::{AccessNeed, PermissionMode, ResultContent};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) struct EnterPlanMode;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EnterPlanModeInput {}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct EnterPlanModeOutput {
    message: String,
}

impl Tool for EnterPlanMode {
    const NAME: &'static str = "EnterPlanMode";
    type Input = EnterPlanModeInput;
    type Output = EnterPlanModeOutput;

    fn prompt(&self, _cx: &PromptContext) -> Cow<'static, str> {
        Cow::Borrowed(include_str!("enter_plan_mode.md").trim_ascii_end())
    }

    fn needs(&self, _input: &EnterPlanModeInput, _cx: &PathContext) -> Vec<AccessNeed> {
        vec![AccessNeed::Session]
    }

    fn requires_attended_session(&self) -> bool {
        true
    }

    /// Always true: the mode decides how the user works with the session from here on.
    fn requires_user_interaction(&self, _input: &EnterPlanModeInput) -> bool {
        true
    }

    fn misplaced_reason(&self, scene: CallSite) -> Option<&'static str> {
        match scene {
            CallSite { is_subagent: true, .. } => Some("Only the main conversation plans with the user."),
            CallSite { mode: PermissionMode::Plan, .. } => {
                Some("Plan mode is on already: write the plan, then present it.")
            }
            _ => None,
        }
    }

    async fn call(
        &self,
        _input: EnterPlanModeInput,
        _cx: &ToolContext,
    ) -> Result<ToolResult<EnterPlanModeOutput>, ToolError> {
        let message = "The user agreed to plan first.".to_owned();
        let begin = |session: &mut gimlet_core::SessionState| session.mode_request = Some(ModeChangeRequest::BeginPlan);
        Ok(ToolResult::new(EnterPlanModeOutput { message }).with_change(begin))
    }

    fn to_blocks(&self, output: &EnterPlanModeOutput) -> ResultContent {
        output.message.as_str().into()
    }

    fn description(&self, _input: &EnterPlanModeInput, _cx: &PathContext) -> String {
        "Plan before anything is changed".to_owned()
    }

    fn agent_availability(&self) -> AgentAvailability {
        AgentAvailability::Never
    }

    fn search_hint(&self) -> &'static str {
        "plan mode design before coding"
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::harness::ToolBench;

    #[tokio::test]
    async fn it_asks_for_the_mode_and_touches_only_the_session() {
        let mut bench = ToolBench::new();
        let given = bench.call(&EnterPlanMode, json!({})).await.unwrap();
        assert_eq!(given.output, json!({"message": "The user agreed to plan first."}));
        assert_eq!(bench.state.mode_request, Some(ModeChangeRequest::BeginPlan));
        assert_eq!(bench.prepare(&EnterPlanMode, json!({})).unwrap().0, [AccessNeed::Session]);
        let wrong = bench.prepare(&EnterPlanMode, json!({"foo": 1})).unwrap_err();
        assert!(wrong.model_text.contains("unexpected parameter `foo`"), "{wrong}");
        assert!(EnterPlanMode.requires_user_interaction(&EnterPlanModeInput {}));
    }

    #[test]
    fn it_is_refused_while_planning_and_to_subagents() {
        let at = |mode, is_subagent| EnterPlanMode.misplaced_reason(CallSite { mode, is_subagent });
        assert!(at(PermissionMode::Plan, false).is_some_and(|text| text.contains("already")));
        assert!(at(PermissionMode::Default, true).is_some());
        assert_eq!(at(PermissionMode::Default, false), None);
    }
}
