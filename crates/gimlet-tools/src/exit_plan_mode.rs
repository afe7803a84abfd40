//! ExitPlanMode: presents the plan; when the user approves it, plan mode ends.
//!
//! The plan is the plan file's text, put into the input before the question is shown, so that the decision is about the
//! text that is shown. Nothing of it is carried out here, and it is never approved without a user, a program or a hook.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use gimlet_core::tool::{
    AgentAvailability, CallSite, ModeChangeRequest, PathContext, PreviewContext, PromptContext, Tool, ToolContext,
    ToolError, ToolResult,
};
use gimlet_core::{DiskFileView, DurableBarrier, SessionServices, SessionState};
use gimlet_policy::FileView;
use gimlet_proto::{AccessNeed, CallQuestion, PermissionMode, ResultContent, UserReply, View};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::text_file::open::load_if_there;
use crate::text_file::{TextFile, replace};

/// Maximum size of a plan; longer texts are not readable as plans.
const LONGEST_PLAN: u64 = 1 << 20;

pub(crate) struct ExitPlanMode;

/// Open: other programs' versions of the tool have further fields, which mean nothing here.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExitPlanModeInput {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    plan: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    plan_file_path: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExitPlanModeOutput {
    plan: Option<String>,
    is_agent: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_path: Option<String>,
    /// True if the user changed the plan while approving it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    plan_was_edited: bool,
}

impl Tool for ExitPlanMode {
    const NAME: &'static str = "ExitPlanMode";
    type Input = ExitPlanModeInput;
    type Output = ExitPlanModeOutput;

    fn prompt(&self, _cx: &PromptContext) -> Cow<'static, str> {
        Cow::Borrowed(include_str!("exit_plan_mode.md").trim_ascii_end())
    }

    fn hidden_parameters(&self, _cx: &PromptContext) -> &'static [&'static str] {
        &["plan", "planFilePath"]
    }

    fn needs(&self, _input: &ExitPlanModeInput, _cx: &PathContext) -> Vec<AccessNeed> {
        vec![AccessNeed::Session]
    }

    fn requires_attended_session(&self) -> bool {
        true
    }

    fn requires_user_interaction(&self, _input: &ExitPlanModeInput) -> bool {
        true
    }

    fn question(&self, input: &ExitPlanModeInput) -> Option<CallQuestion> {
        Some(CallQuestion::Plan {
            plan: input.plan.clone().unwrap_or_default(),
            file: input.plan_file_path.as_ref().map(PathBuf::from),
        })
    }

    fn input_with_reply(&self, input: &Value, reply: &UserReply) -> Option<Value> {
        let UserReply::Plan(plan) = reply else { return None };
        let mut input = input.clone();
        input["plan"] = plan.as_str().into();
        Some(input)
    }

    fn preview(&self, input: &ExitPlanModeInput, _cx: &PreviewContext) -> View {
        View::Text(input.plan.clone().unwrap_or_default())
    }

    fn misplaced_reason(&self, scene: CallSite) -> Option<&'static str> {
        match scene {
            CallSite { is_subagent: true, .. } => {
                Some("Only the main conversation presents a plan. Report yours as your answer.")
            }
            CallSite { mode: PermissionMode::Plan, .. } => None,
            _ => Some("Plan mode is not on, so there is no plan to approve. Go on with the task."),
        }
    }

    /// Puts the plan into the input. A plan in the model's input is an older form of the call: it is accepted, and
    /// saved first, so that the question shows the file's content.
    fn complete_input(
        &self,
        input: &Map<String, Value>,
        services: &SessionServices,
    ) -> Result<Option<Map<String, Value>>, ToolError> {
        let file = services.plan_file().map(Path::to_owned);
        let given = input.get("plan").and_then(Value::as_str).filter(|plan| !plan.trim().is_empty());
        let kept = file.as_deref().and_then(read_plan_file);
        if let (Some(given), Some(file)) = (given, &file)
            && !is_same_plan(kept.as_deref(), given)
        {
            write_plan_file(file, given)?;
        }
        let plan = given.map(str::to_owned).or(kept);
        let Some(plan) = plan else {
            let place = file.map_or_else(|| "the plan file".to_owned(), |file| file.display().to_string());
            return Err(ToolError::input(format!("There is no plan yet: write it to {place} first, then present it.")));
        };
        let mut completed = input.clone();
        completed.insert("plan".to_owned(), plan.into());
        // Only the session knows which file is its own.
        match file {
            Some(file) => completed.insert("planFilePath".to_owned(), file.display().to_string().into()),
            None => completed.shift_remove("planFilePath"),
        };
        Ok(Some(completed))
    }

    async fn call(
        &self,
        input: ExitPlanModeInput,
        cx: &ToolContext,
    ) -> Result<ToolResult<ExitPlanModeOutput>, ToolError> {
        let file = cx.services.plan_file().map(Path::to_owned);
        let (approved, kept) = (input.plan, file.clone());
        let settled = tokio::task::spawn_blocking(move || store_approved_plan(approved, kept.as_deref())).await;
        let (plan, plan_was_edited) =
            settled.map_err(|error| ToolError::failed(format!("The plan could not be kept: {error}")))??;
        if let Some(plan) = &plan {
            cx.services.name_after_plan(plan);
        }
        let output = ExitPlanModeOutput {
            plan,
            is_agent: false,
            file_path: file.map(|file| file.display().to_string()),
            plan_was_edited,
        };
        let end = |session: &mut SessionState| session.mode_request = Some(ModeChangeRequest::EndPlan);
        Ok(ToolResult::new(output).with_change(end))
    }

    fn to_blocks(&self, output: &ExitPlanModeOutput) -> ResultContent {
        let mut text = match &output.file_path {
            Some(file) => format!("The user approved the plan, which is kept in {file}. Carry it out now."),
            None => "The user approved the plan. Carry it out now.".to_owned(),
        };
        if let (true, Some(plan)) = (output.plan_was_edited, &output.plan) {
            text.push_str(" The user changed it; this is what was approved:\n\n");
            text.push_str(plan);
        }
        text.into()
    }

    fn view(&self, _input: &ExitPlanModeInput, output: &ExitPlanModeOutput) -> View {
        View::Text(output.plan.clone().unwrap_or_default())
    }

    fn description(&self, _input: &ExitPlanModeInput, _cx: &PathContext) -> String {
        "Approve the plan".to_owned()
    }

    fn agent_availability(&self) -> AgentAvailability {
        AgentAvailability::Never
    }

    fn search_hint(&self) -> &'static str {
        "plan mode approve present plan"
    }
}

/// Reads the plan file, if there is any. A symlink in its place is not the session's own and is ignored.
fn read_plan_file(file: &Path) -> Option<String> {
    let metadata = file.symlink_metadata().ok()?;
    if !metadata.is_file() || metadata.len() > LONGEST_PLAN {
        return None;
    }
    std::fs::read_to_string(file).ok().filter(|plan| !plan.trim().is_empty())
}

fn is_same_plan(kept: Option<&str>, plan: &str) -> bool {
    kept.is_some_and(|kept| kept.trim() == plan.trim())
}

/// Returns the approved plan, writing it to the file where they differ, and true if an earlier plan was changed.
fn store_approved_plan(approved: Option<String>, file: Option<&Path>) -> Result<(Option<String>, bool), ToolError> {
    let kept = file.and_then(read_plan_file);
    let Some(approved) = approved.filter(|plan| !plan.trim().is_empty()) else { return Ok((kept, false)) };
    if is_same_plan(kept.as_deref(), &approved) {
        return Ok((Some(approved), false));
    }
    if let Some(file) = file {
        write_plan_file(file, &approved)?;
    }
    Ok((Some(approved), kept.is_some()))
}

fn write_plan_file(file: &Path, plan: &str) -> Result<(), ToolError> {
    if file.symlink_metadata().is_ok_and(|metadata| !metadata.is_file()) {
        let text = format!("{} is not a file but a link or a folder; the plan was not kept", file.display());
        return Err(ToolError::failed(text));
    }
    // The configuration folder may be reached through the user's own symlink.
    let file = DiskFileView.follow(file).map_or_else(|| file.to_owned(), |followed| followed.real);
    let backups: PathBuf = file.with_extension("backups");
    // A plan is the session's own; keeping one changes nothing that the record would have to explain.
    let recorded = DurableBarrier::default();
    match load_if_there(&file)? {
        None => replace::create(&file, plan.as_bytes(), &recorded)?,
        Some(old) if TextFile::decode(&old.bytes).is_ok() => {
            replace::replace(&file, &old, plan.as_bytes(), &backups, &recorded)?
        }
        Some(_) => return Err(ToolError::failed(format!("{} is not text; the plan was not kept", file.display()))),
    };
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gimlet_core::PlanConfig;
    use serde_json::json;

    use super::*;
    use crate::harness::ToolBench;

    fn services(bench: &ToolBench) -> Arc<SessionServices> {
        let file = Some(bench.path("plans/p.md"));
        bench.services_with(|services| services.with_plan_config(PlanConfig { file, ..PlanConfig::default() }))
    }

    #[test]
    fn the_plan_file_is_put_into_the_input_and_its_name_is_not_the_models_to_choose() {
        let bench = ToolBench::new();
        let services = services(&bench);
        let complete = |input: Value| ExitPlanMode.complete_input(input.as_object().unwrap(), &services);
        let missing = complete(json!({})).unwrap_err().model_text;
        assert!(missing.contains("plans/p.md"), "{missing}");
        std::fs::create_dir(bench.path("plans")).unwrap();
        bench.file("plans/p.md", "1. do it\n");
        let completed = complete(json!({"planFilePath": "/etc/passwd", "allowedPrompts": []})).unwrap().unwrap();
        assert_eq!(completed["plan"], "1. do it\n");
        assert_eq!(completed["planFilePath"], bench.path("plans/p.md").display().to_string());
        let given = complete(json!({"plan": "my own"})).unwrap().unwrap();
        assert_eq!(given["plan"], "my own");
    }

    #[tokio::test]
    async fn a_plan_that_the_model_gave_is_kept_first_and_nobody_changed_it() {
        let bench = ToolBench::new();
        let services = services(&bench);
        std::fs::create_dir(bench.path("plans")).unwrap();
        bench.file("plans/p.md", "1. first");
        let given = json!({"plan": "2. second"});
        let completed = ExitPlanMode.complete_input(given.as_object().unwrap(), &services).unwrap().unwrap();
        assert_eq!(bench.text("plans/p.md"), "2. second", "before anybody is asked");
        let result = bench.call_on(&services, &ExitPlanMode, completed.into()).await.unwrap();
        assert!(!result.data.plan_was_edited);
        let text = ExitPlanMode.to_blocks(&result.data).to_text();
        assert!(!text.contains("changed"), "{text}");
        assert_eq!(bench.text("plans/p.md"), "2. second");
    }

    #[tokio::test]
    async fn an_approved_plan_ends_planning_and_is_echoed_only_when_it_was_changed() {
        let bench = ToolBench::new();
        let services = services(&bench);
        for (plan, edited) in [("1. do it", false), ("1. do it\n", false), ("2. do that", true)] {
            let result = bench.call_on(&services, &ExitPlanMode, json!({ "plan": plan })).await.unwrap();
            assert_eq!(result.data.plan_was_edited, edited, "{plan}");
            let text = ExitPlanMode.to_blocks(&result.data).to_text();
            assert_eq!(text.contains(plan), edited, "{text}");
            let mut state = bench.state.clone();
            result.changes.into_iter().for_each(|change| change(&mut state));
            assert_eq!(state.mode_request, Some(ModeChangeRequest::EndPlan));
        }
        assert_eq!(bench.text("plans/p.md"), "2. do that");
    }

    #[test]
    fn a_front_end_gets_the_plan_as_data_and_may_change_it() {
        let given = json!({"plan": "1. do it", "planFilePath": "/p.md"});
        let input: ExitPlanModeInput = serde_json::from_value(given.clone()).unwrap();
        let shown = CallQuestion::Plan { plan: "1. do it".into(), file: Some("/p.md".into()) };
        assert_eq!(ExitPlanMode.question(&input), Some(shown));
        let changed = ExitPlanMode.input_with_reply(&given, &UserReply::Plan("2. do that".into())).unwrap();
        assert_eq!(changed, json!({"plan": "2. do that", "planFilePath": "/p.md"}));
    }

    #[test]
    fn it_makes_sense_only_while_planning() {
        let at = |mode, is_subagent| ExitPlanMode.misplaced_reason(CallSite { mode, is_subagent });
        assert_eq!(at(PermissionMode::Plan, false), None);
        assert!(at(PermissionMode::Default, false).is_some() && at(PermissionMode::Plan, true).is_some());
    }
}
