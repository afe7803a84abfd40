//! Parsing of a hook's answer: strict where it decides something and lenient elsewhere. Unknown fields are ignored; an
//! unknown decision is an error.

use std::path::PathBuf;
use std::sync::Arc;

use gimlet_proto::ElicitationAction;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::hook_event::takes_plain_text;
use super::{HandlerAnswer, HookEvent};

/// Decision of a hook on a call, from most to least permissive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum HookPermission {
    Allow,
    Ask,
    /// The turn ends, and the call waits.
    Defer,
    Deny,
}

/// Answer of a hook in place of the user.
#[derive(Debug)]
pub(crate) enum PermissionRequestAnswer {
    Allow { input: Option<Box<RawValue>>, changes: Vec<Arc<RawValue>> },
    Deny { message: Option<String>, interrupt: bool },
}

/// Answer of a hook to a server's question: the reaction, and the values for an accepted form.
pub(crate) type ElicitationAnswer = (ElicitationAction, Option<Map<String, Value>>);

/// Answer of one hook of any kind.
#[derive(Debug, Default)]
pub(super) struct HookOutput {
    /// Reason if the turn is to end.
    pub(super) stop: Option<String>,
    /// Message for the user.
    pub(super) message: Option<String>,
    pub(super) block: Option<String>,
    pub(super) permission: Option<(HookPermission, Option<String>)>,
    pub(super) input: Option<Box<RawValue>>,
    pub(super) result: Option<Box<RawValue>>,
    /// New output, for tools of servers only.
    pub(super) server_result: Option<Box<RawValue>>,
    pub(super) context: Option<String>,
    /// Context for the reviewer of auto mode.
    pub(super) review_context: Option<String>,
    pub(super) answer: Option<PermissionRequestAnswer>,
    pub(super) elicitation: Option<ElicitationAnswer>,
    pub(super) retry: bool,
    pub(super) title: Option<String>,
    pub(super) first_prompt: Option<String>,
    pub(super) hides_prompt: bool,
    /// Files to watch from now on, in place of those before.
    pub(super) watch_paths: Option<Vec<PathBuf>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HookOutputForm {
    #[serde(rename = "continue")]
    go_on: Option<bool>,
    stop_reason: Option<String>,
    system_message: Option<String>,
    decision: Option<LegacyDecision>,
    reason: Option<String>,
    #[serde(rename = "async")]
    in_background: Option<bool>,
    suppress_original_prompt: Option<bool>,
    hook_specific_output: Option<EventSpecificOutput>,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum LegacyDecision {
    Block,
    Approve,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EventSpecificOutput {
    hook_event_name: Option<String>,
    permission_decision: Option<HookPermission>,
    permission_decision_reason: Option<String>,
    updated_input: Option<Box<RawValue>>,
    additional_context: Option<String>,
    classifier_context: Option<String>,
    updated_tool_output: Option<Box<RawValue>>,
    #[serde(rename = "updatedMCPToolOutput")]
    updated_mcp_tool_output: Option<Box<RawValue>>,
    decision: Option<PermissionRequestForm>,
    retry: Option<bool>,
    session_title: Option<String>,
    initial_user_message: Option<String>,
    suppress_original_prompt: Option<bool>,
    watch_paths: Option<Vec<PathBuf>>,
    action: Option<String>,
    content: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PermissionRequestForm {
    behavior: PermissionBehavior,
    updated_input: Option<Box<RawValue>>,
    updated_permissions: Option<Vec<Box<RawValue>>>,
    message: Option<String>,
    interrupt: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum PermissionBehavior {
    Allow,
    Deny,
}

impl HookOutput {
    /// Parses an answer; an error describes the problem in one line.
    pub(super) fn from_answer(event: HookEvent, answer: HandlerAnswer) -> Result<Self, String> {
        match answer {
            HandlerAnswer::Json(json) => Self::parse(event, json.get()),
            HandlerAnswer::Text(text) if takes_plain_text(event) => {
                Ok(Self { context: non_empty_text(Some(text)), ..Self::default() })
            }
            HandlerAnswer::Text(_) => Ok(Self::default()),
            HandlerAnswer::Block(reason) => Ok(Self::blocking(event, Some(reason))),
        }
    }

    /// Returns an output that blocks the action that the event guards.
    pub(super) fn blocking(event: HookEvent, reason: Option<String>) -> Self {
        match event {
            HookEvent::PreToolUse | HookEvent::PreModelSwitch => {
                Self { permission: Some((HookPermission::Deny, reason)), ..Self::default() }
            }
            HookEvent::PermissionRequest => {
                let answer = PermissionRequestAnswer::Deny { message: reason, interrupt: false };
                Self { answer: Some(answer), ..Self::default() }
            }
            _ => Self { block: Some(reason.unwrap_or_default()), ..Self::default() },
        }
    }

    fn parse(event: HookEvent, json: &str) -> Result<Self, String> {
        if !json.trim_start().starts_with('{') {
            return Err("its answer is no JSON object".to_owned());
        }
        let form: HookOutputForm =
            serde_json::from_str(json).map_err(|error| format!("its answer cannot be used: {error}"))?;
        if form.in_background == Some(true) {
            return Ok(Self::default());
        }
        let specific = form.hook_specific_output.unwrap_or_default();
        if let Some(name) = specific.hook_event_name.as_deref().filter(|name| *name != event.name()) {
            return Err(format!("its answer is for {name}, not for {}", event.name()));
        }
        if specific.updated_input.as_deref().is_some_and(|input| !gimlet_text::is_json_object(input.get())) {
            return Err("the input it wants is no JSON object".to_owned());
        }
        let mut output = match form.decision {
            Some(LegacyDecision::Block) if event != HookEvent::PermissionRequest => Self::blocking(event, form.reason),
            Some(LegacyDecision::Approve) if event == HookEvent::PreToolUse => {
                Self { permission: Some((HookPermission::Allow, form.reason)), ..Self::default() }
            }
            Some(_) | None => Self::default(),
        };
        if matches!(event, HookEvent::PreToolUse | HookEvent::PreModelSwitch)
            && let Some(permission) = specific.permission_decision
        {
            output.permission = Some((permission, specific.permission_decision_reason));
        }
        if form.go_on == Some(false) {
            output.stop = Some(form.stop_reason.unwrap_or_default());
        }
        output.message = non_empty_text(form.system_message);
        output.input = specific.updated_input;
        output.result = specific.updated_tool_output;
        output.server_result = specific.updated_mcp_tool_output;
        output.context = non_empty_text(specific.additional_context);
        output.review_context = non_empty_text(specific.classifier_context);
        output.answer = output.answer.or(specific.decision.map(PermissionRequestForm::into_answer));
        output.retry = specific.retry == Some(true);
        output.title = non_empty_text(specific.session_title);
        output.first_prompt = non_empty_text(specific.initial_user_message);
        if matches!(event, HookEvent::SessionStart | HookEvent::CwdChanged | HookEvent::FileChanged) {
            output.watch_paths = specific.watch_paths;
        }
        if let Some(action) = specific.action.filter(|_| is_about_elicitation(event)) {
            let action = ElicitationAction::from_word(&action)
                .ok_or_else(|| format!("the action '{action}' is unknown; there are accept, decline and cancel"))?;
            output.elicitation = Some((action, specific.content));
        }
        output.hides_prompt = form.suppress_original_prompt.or(specific.suppress_original_prompt) == Some(true);
        Ok(output)
    }
}

fn is_about_elicitation(event: HookEvent) -> bool {
    matches!(event, HookEvent::Elicitation | HookEvent::ElicitationResult)
}

impl PermissionRequestForm {
    fn into_answer(self) -> PermissionRequestAnswer {
        match self.behavior {
            PermissionBehavior::Allow => PermissionRequestAnswer::Allow {
                input: self.updated_input,
                changes: self.updated_permissions.unwrap_or_default().into_iter().map(Arc::from).collect(),
            },
            PermissionBehavior::Deny => PermissionRequestAnswer::Deny {
                message: non_empty_text(self.message),
                interrupt: self.interrupt == Some(true),
            },
        }
    }
}

/// Returns the text unless it is empty or only whitespace.
fn non_empty_text(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.trim().is_empty())
}
