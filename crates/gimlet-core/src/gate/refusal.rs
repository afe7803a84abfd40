//! Calls that may not run: why, what the model is told, and what the person would want to know.

use gimlet_policy::{Verdict, VerdictReason};
use gimlet_proto::{Denial, EventBody, SuggestedChange, TurnEnd};

use super::lock;
use crate::call::{CallScope, ToolCall};
use crate::call_result::{CallResult, cancelled_result};
use crate::tool::{ErrorClass, PreparedCall, ToolError};

/// The origin of a refusal that a person could have turned into a yes.
pub(super) const UNATTENDED: &str = "unattended";

/// The origin of a refusal by auto mode's reviewer.
const REVIEWER: &str = "classifier";

/// The origin of a refusal by a hook.
const HOOK: &str = "hook";

/// Why a call may not run.
pub(crate) enum Refusal {
    /// By rule, mode or the lack of anyone to ask.
    Denied(Box<DenialDetails>),
    /// By a person.
    ByPerson { message: String, stop_turn: bool },
    /// By a hook: before anything was decided, or in a person's place.
    ByHook { denied: Box<DenialDetails>, at_once: bool, stop_turn: bool },
    /// The question was withdrawn.
    Cancelled,
    /// An edited input did not fit.
    Invalid(ToolError),
}

/// A refusal without a person: what the model is told, and what the person would want to know.
pub(crate) struct DenialDetails {
    origin: &'static str,
    message: String,
    summary: String,
    reason: String,
    remedies: Vec<SuggestedChange>,
    /// A hook that heard of it wants the turn to end.
    ends_turn: bool,
}

impl DenialDetails {
    /// By a rule or a mode that was chosen on purpose, and is not to be argued away.
    pub(super) fn new(origin: &'static str, message: String, prepared: &PreparedCall, verdict: &Verdict) -> Box<Self> {
        let explained = verdict.explain();
        let reason = explained.split_once(": ").map_or(explained.as_str(), |(_, reason)| reason).to_owned();
        Box::new(Self::from_parts(origin, message, prepared.description.clone(), reason))
    }

    fn from_parts(origin: &'static str, message: String, summary: String, reason: String) -> Self {
        Self { origin, message, summary, reason, remedies: Vec::new(), ends_turn: false }
    }

    /// For want of a person who could be asked; `suggested` is what would have answered the question.
    pub(super) fn unattended(
        message: String,
        prepared: &PreparedCall,
        verdict: &Verdict,
        suggested: Vec<SuggestedChange>,
    ) -> Box<Self> {
        let denied = Self::new(UNATTENDED, message, prepared, verdict);
        Box::new(Self { remedies: suggested, ..*denied })
    }

    /// Somebody was asked and failed to answer.
    pub(super) fn unanswered(why: &str, prepared: &PreparedCall, verdict: &Verdict) -> Box<Self> {
        let message = format!(
            "{} was not run: the program that answers for the user failed to answer ({why}). Nobody has decided about this \
             call.",
            prepared.tool
        );
        Self::new(UNATTENDED, message, prepared, verdict)
    }

    /// Somebody answers for the person, and could not even be asked.
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

    /// The same, as the last thing that happens in the turn.
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

    /// It would have asked, and nobody was there.
    pub(super) fn is_unattended(&self) -> bool {
        self.origin == UNATTENDED
    }
}

impl Refusal {
    /// The result that the model gets in place of a run; every refusal is counted and shown.
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
            // Whoever answers words it: it may be a program's own explanation.
            Refusal::ByPerson { message, stop_turn } => (by_person(message), stop_turn),
        };
        let DenialDetails { origin, message, summary, reason, remedies, ends_turn } = denied;
        let denial = Denial {
            tool: incoming.name.clone(),
            call: incoming.id.clone(),
            input: incoming.input.clone(),
            origin: origin.to_owned(),
            message: message.clone(),
            summary,
            reason,
            remedies,
        };
        lock(&scope.gate.denials).push(denial.clone());
        if origin != "user" && !blocked_at_once {
            scope.services.publish(&scope.agent, EventBody::Denied(denial));
        }
        let class = if blocked_at_once { ErrorClass::HookBlocked } else { ErrorClass::PermissionDenied };
        let mut settled = CallResult::from_error(ToolError::new(class, message));
        settled.stop_turn = stop_turn;
        settled.ends_turn = ends_turn.then_some(TurnEnd::HookStopped);
        settled
    }
}

/// What kind of ground a refusal has.
pub(super) fn refusal_origin(verdict: &Verdict) -> &'static str {
    match verdict.reasons.first() {
        Some(VerdictReason::Rule { .. } | VerdictReason::MayMatchRule { .. }) => "rule",
        Some(VerdictReason::Mode(_)) => "mode",
        Some(VerdictReason::Tool(_)) => "tool",
        Some(_) | None => "other",
    }
}

/// The ground of a question, in the words that programs know.
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
