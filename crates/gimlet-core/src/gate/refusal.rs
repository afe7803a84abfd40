//! Refused calls: the reason, the message for the model, and the details for the user.

use gimlet_policy::{Verdict, VerdictReason};
use gimlet_proto::{Denial, EventBody, SuggestedChange, TurnEnd, View};

use super::lock;
use crate::call::{CallScope, ToolCall};
use crate::call_result::{CallResult, cancelled_result};
use crate::tool::{ErrorClass, PreparedCall, RecordedResult, ToolError};

/// Origin of a refusal that the user could have approved.
pub(super) const UNATTENDED: &str = "unattended";

/// Origin of a refusal by auto mode's reviewer.
const REVIEWER: &str = "classifier";

/// Origin of a refusal by a hook.
const HOOK: &str = "hook";

/// Reason why a call may not run.
pub(crate) enum Refusal {
    /// By a rule or mode, or because there is no user to ask.
    Denied(Box<DenialDetails>),
    /// By the user.
    ByPerson { message: String, stop_turn: bool },
    /// By a hook: before the call was decided, or in place of the user.
    ByHook { denied: Box<DenialDetails>, at_once: bool, stop_turn: bool },
    /// The question was withdrawn.
    Cancelled,
    /// An edited input was invalid.
    Invalid(ToolError),
}

/// Details of a refusal that the user did not make: the message for the model and the facts for the user.
pub(crate) struct DenialDetails {
    origin: &'static str,
    message: String,
    summary: String,
    reason: String,
    remedies: Vec<SuggestedChange>,
    /// True if a hook that was notified wants the turn to end.
    ends_turn: bool,
}

impl DenialDetails {
    /// Builds the details of a refusal with this origin and message.
    pub(super) fn new(origin: &'static str, message: String, prepared: &PreparedCall, verdict: &Verdict) -> Box<Self> {
        let explained = verdict.explain();
        let reason = explained.split_once(": ").map_or(explained.as_str(), |(_, reason)| reason).to_owned();
        Box::new(Self::from_parts(origin, message, prepared.description.clone(), reason))
    }

    fn from_parts(origin: &'static str, message: String, summary: String, reason: String) -> Self {
        Self { origin, message, summary, reason, remedies: Vec::new(), ends_turn: false }
    }

    /// Builds a refusal because there is no user to ask; `suggested` is what would have allowed the call.
    pub(super) fn unattended(
        message: String,
        prepared: &PreparedCall,
        verdict: &Verdict,
        suggested: Vec<SuggestedChange>,
    ) -> Box<Self> {
        let denied = Self::new(UNATTENDED, message, prepared, verdict);
        Box::new(Self { remedies: suggested, ..*denied })
    }

    /// Builds a refusal because the program that answers for the user failed to answer.
    pub(super) fn unanswered(why: &str, prepared: &PreparedCall, verdict: &Verdict) -> Box<Self> {
        let message = format!(
            "{} was not run: the program that answers for the user failed to answer ({why}). Nobody has decided about this \
             call.",
            prepared.tool
        );
        Self::new(UNATTENDED, message, prepared, verdict)
    }

    /// Builds a refusal because the program that answers for the user could not be asked.
    pub(super) fn unasked(why: &str, prepared: &PreparedCall, verdict: &Verdict) -> Box<Self> {
        let message = format!("{} was not run: nobody could be asked about this call ({why}).", prepared.tool);
        Self::new(UNATTENDED, message, prepared, verdict)
    }

    pub(super) fn by_reviewer(message: String, why: &str, prepared: &PreparedCall) -> Box<Self> {
        let reason = format!("the reviewer of auto mode refused it: {why}");
        Box::new(Self::from_parts(REVIEWER, message, prepared.description.clone(), reason))
    }

    pub(super) fn by_hook(message: String, prepared: &PreparedCall) -> Box<Self> {
        let summary = prepared.description.clone();
        let reason = format!("a hook refused it: {message}");
        Box::new(Self::from_parts(HOOK, message, summary, reason))
    }

    /// Makes the refusal end the turn if `ends` is true.
    #[must_use]
    pub(super) fn ending_turn_if(mut self: Box<Self>, ends: bool) -> Box<Self> {
        self.ends_turn = ends;
        self
    }

    pub(super) fn is_by_reviewer(&self) -> bool {
        self.origin == REVIEWER
    }

    pub(super) fn reason(&self) -> &str {
        &self.reason
    }

    /// Returns true if the call would have needed a question and there was no user to ask.
    pub(super) fn is_unattended(&self) -> bool {
        self.origin == UNATTENDED
    }
}

impl Refusal {
    /// Returns the result that the model receives instead of an output; every refusal is counted and shown.
    pub(crate) fn into_call_result(self, scope: &CallScope, incoming: &ToolCall) -> CallResult {
        let by_person =
            |message: String| DenialDetails::from_parts("user", message, String::new(), "a person refused".to_owned());
        let blocked_at_once = matches!(self, Refusal::ByHook { at_once: true, .. });
        let (denied, stop_turn) = match self {
            Refusal::Cancelled => return cancelled_result("the turn was stopped while permission was being asked"),
            Refusal::Invalid(error) => return CallResult::from_error(error),
            Refusal::Denied(denied) => (*denied, false),
            Refusal::ByHook { denied, stop_turn, .. } => (*denied, stop_turn),
            Refusal::ByPerson { message, stop_turn } if message.trim().is_empty() => {
                (by_person("The user refused this call. Wait for what they say next.".to_owned()), stop_turn)
            }
            // The message comes from the answer: it may be a program's own explanation.
            Refusal::ByPerson { message, stop_turn } => (by_person(message), stop_turn),
        };
        let DenialDetails { origin, message, summary, reason, remedies, ends_turn } = denied;
        let class = if blocked_at_once { ErrorClass::HookBlocked } else { ErrorClass::PermissionDenied };
        let mut settled = CallResult::from_error(ToolError::new(class, message.clone()));
        let denial = Denial {
            tool: incoming.name.clone(),
            call: incoming.id.clone(),
            input: incoming.input.clone(),
            origin: origin.to_owned(),
            view: refused_view(scope, incoming, &message, &settled),
            message,
            summary,
            reason,
            remedies,
        };
        lock(&scope.gate.denials).push(denial.clone());
        if origin != "user" && !blocked_at_once {
            scope.services.publish(&scope.agent, EventBody::Denied(denial));
        }
        settled.stop_turn = stop_turn;
        settled.ends_turn = ends_turn.then_some(TurnEnd::HookStopped);
        settled
    }
}

/// Returns the view of a refused call.
fn refused_view(scope: &CallScope, incoming: &ToolCall, message: &str, settled: &CallResult) -> View {
    let result = RecordedResult { is_error: true, text: message, output: Some(&settled.output) };
    let shown = scope
        .tools
        .find(&incoming.name)
        .and_then(|tool| tool.summarize_past_call(&incoming.input, Some(&result), &scope.services.paths()));
    let mut view = shown.and_then(|shown| shown.view).unwrap_or_else(|| View::Text(message.to_owned()));
    scope.services.redactor().mask_view(&mut view);
    view
}

/// Returns the origin of a refusal with this verdict.
pub(super) fn refusal_origin(verdict: &Verdict) -> &'static str {
    match verdict.reasons.first() {
        Some(VerdictReason::Rule { .. } | VerdictReason::MayMatchRule { .. }) => "rule",
        Some(VerdictReason::Mode(_)) => "mode",
        Some(VerdictReason::Tool(_)) => "tool",
        Some(_) | None => "other",
    }
}

/// Returns the reason of a question as a public identifier.
pub(super) fn reason_kind(verdict: &Verdict) -> &'static str {
    match verdict.reasons.first() {
        Some(VerdictReason::Rule { .. } | VerdictReason::MayMatchRule { .. }) => "rule",
        Some(VerdictReason::Mode(_)) => "mode",
        Some(VerdictReason::Hook(_)) => "hook",
        Some(VerdictReason::OutsideWorkingDirectories(_)) => "workingDir",
        Some(VerdictReason::LeavesSandbox) => "sandboxOverride",
        Some(
            VerdictReason::CriticalRemoval(_)
            | VerdictReason::ProtectedPath(_)
            | VerdictReason::ChangesSettings
            | VerdictReason::Credentials(_)
            | VerdictReason::GitRuns(_)
            | VerdictReason::OddPath(_),
        ) => "safetyCheck",
        Some(_) | None => "other",
    }
}
