//! Asking the user: the question, its timeout, and the effect of the answer.
//!
//! A question is open only as long as the call needs one. When mode or rules change meanwhile, the call is decided
//! again: if it is allowed or refused by then, the question is withdrawn, and a later answer changes nothing. Nor does
//! a yes override a new rule that refuses the call.

use std::time::Duration;

use gimlet_policy::{Decision, HookDecision, Verdict};
use gimlet_proto::{Approval, AskAnswer, AskBody, CallQuestion, PermissionMode};
use gimlet_store::Decider;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::{oneshot, watch};

use super::decision_log::FinalDecision;
use super::permission_ask::AskReason;
use super::refusal::{self, DenialDetails, Refusal};
use super::{AskOutcome, AskRequest, Gate, lock};
use crate::call::{CallScope, ToolCall};
use crate::tool::PreparedCall;

/// Interval at which settings files are checked while a question is open, so that it is withdrawn when no longer
/// needed.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Context of a question.
pub(super) struct AskContext<'a> {
    pub(super) verdict: &'a Verdict,
    /// Decision of hooks on the call.
    pub(super) hook: Option<&'a HookDecision>,
    /// Changes of mode and rules since the verdict.
    pub(super) changes: watch::Receiver<()>,
}

/// End of the wait for an answer.
pub(super) enum AnswerWaitEnd {
    Answer(AskAnswer),
    /// The question is not needed any more.
    Superseded,
}

/// Returns the refusal for an answer of another kind than the question wants.
pub(super) fn unfit_answer(prepared: &PreparedCall, verdict: &Verdict) -> Refusal {
    let why = "its answer does not fit the question";
    Refusal::Denied(DenialDetails::unanswered(why, prepared, verdict))
}

impl Gate {
    /// Asks about a call. The reviewer is asked first, then hooks, then the user.
    pub(super) async fn ask_user(
        &self,
        scope: &CallScope,
        incoming: &ToolCall,
        prepared: &PreparedCall,
        question: AskContext<'_>,
    ) -> Result<AskOutcome, Refusal> {
        let AskContext { verdict, hook, changes } = question;
        if let Some(settled) = self.review_call(scope, incoming, prepared, verdict).await {
            return settled;
        }
        if let Some(settled) = self.ask_hooks(scope, incoming, prepared, verdict, hook).await {
            return settled;
        }
        let Some(asks) = &self.asks else {
            if let Some(instead) = scope.tools.find(&prepared.tool).and_then(|tool| tool.unanswered_message()) {
                return match self.mode_for(scope) {
                    PermissionMode::BypassPermissions => {
                        Ok(AskOutcome::Allowed(FinalDecision::allowed_by(Decider::Policy)))
                    }
                    _ => Err(Refusal::Denied(DenialDetails::new(
                        refusal::UNATTENDED,
                        instead.to_owned(),
                        prepared,
                        verdict,
                    ))),
                };
            }
            let message =
                format!("{} Nobody can be asked in this run, so it was refused.", verdict.model_text(&prepared.tool));
            let suggested = self.suggestions(scope, prepared);
            return Err(Refusal::Denied(DenialDetails::unattended(message, prepared, verdict, suggested)));
        };
        let _asking = scope.services.activity().pause_for_ask();
        let (reply, answer) = oneshot::channel();
        let reason = AskReason { text: verdict.why(), kind: refusal::reason_kind(verdict) };
        let suggestions = self.suggestions(scope, prepared);
        let ask = self.build_permission_ask(scope, incoming, prepared, reason, suggestions).await;
        let asking = scope.tools.find(&prepared.tool).and_then(|tool| tool.question(&*prepared.typed));
        let body = match asking {
            Some(CallQuestion::Questions(questions)) => AskBody::Question { call: Box::new(ask), questions },
            Some(CallQuestion::Plan { plan, file }) => AskBody::Plan { call: Box::new(ask), plan, file },
            None => AskBody::Permission(Box::new(ask)),
        };
        self.notify_hooks_of_ask(scope, prepared);
        asks.send(AskRequest { agent: scope.agent.clone(), body, reply }).map_err(|_| Refusal::Cancelled)?;
        let decision = || self.decide_call(scope, prepared, hook).0.decision;
        let heard = tokio::select! {
            input = self.input_without_answer(scope, prepared) => return Ok(AskOutcome::Edited { input, by: Decider::Policy }),
            heard = self.wait_for_answer(scope, answer, changes, decision) => heard?,
        };
        let answer = match heard {
            AnswerWaitEnd::Answer(answer) => answer,
            AnswerWaitEnd::Superseded => return Ok(AskOutcome::Superseded),
        };
        match answer {
            AskAnswer::Yes(Approval { input, changes }) => {
                if !changes.is_empty() {
                    self.apply_user_changes(scope, &changes);
                }
                Ok(match input {
                    Some(input) => AskOutcome::Edited { input, by: Decider::Person },
                    None => AskOutcome::Allowed(FinalDecision::allowed_by(Decider::Person)),
                })
            }
            AskAnswer::Replied(reply) => {
                let tool = scope.tools.find(&prepared.tool);
                let input = tool.and_then(|tool| tool.input_with_reply(&prepared.input, &reply));
                match input.and_then(|input| to_raw_value(&input).ok()) {
                    Some(input) => Ok(AskOutcome::Edited { input, by: Decider::Person }),
                    None => Err(unfit_answer(prepared, verdict)),
                }
            }
            AskAnswer::Elicited { .. } => Err(unfit_answer(prepared, verdict)),
            AskAnswer::No { message, interrupt } => {
                // A background agent is not waited for: it loses this one call and can find another way.
                let waited_for = scope.subagent.as_ref().is_none_or(|who| who.is_awaited_by_main());
                let stop_turn = waited_for && (interrupt || message.trim().is_empty());
                Err(Refusal::ByPerson { message, stop_turn })
            }
            AskAnswer::NotAsked(why) => Err(Refusal::Denied(DenialDetails::unasked(&why, prepared, verdict))),
            AskAnswer::Failed(why) => Err(Refusal::Denied(DenialDetails::unanswered(&why, prepared, verdict))),
        }
    }

    /// Waits for the timeout of a question of the model's, then returns the input to continue with; never returns for
    /// other calls.
    async fn input_without_answer(&self, scope: &CallScope, prepared: &PreparedCall) -> Box<RawValue> {
        let patience = lock(&self.in_force).question_patience;
        let tool = scope.tools.find(&prepared.tool);
        let late = patience.zip(tool).and_then(|(patience, tool)| {
            let input = tool.input_without_answer(&prepared.input, patience)?;
            Some((patience, to_raw_value(&input).ok()?))
        });
        match late {
            Some((patience, input)) => {
                tokio::time::sleep(patience).await;
                input
            }
            None => std::future::pending().await,
        }
    }

    /// Waits for the answer as long as the question is needed.
    pub(super) async fn wait_for_answer(
        &self,
        scope: &CallScope,
        mut answer: oneshot::Receiver<AskAnswer>,
        mut changes: watch::Receiver<()>,
        decision: impl Fn() -> Decision,
    ) -> Result<AnswerWaitEnd, Refusal> {
        let answer = {
            let look = async {
                loop {
                    tokio::time::sleep(LOOK_EVERY).await;
                    self.refresh_settings(scope).await;
                }
            };
            tokio::pin!(look);
            loop {
                tokio::select! {
                    biased;
                    () = scope.cancel.cancelled() => return Err(Refusal::Cancelled),
                    answer = &mut answer => break answer.map_err(|_| Refusal::Cancelled)?,
                    // The gate holds the sender, so there is always a next change to wait for.
                    Ok(()) = changes.changed() => {
                        if decision() != Decision::Ask {
                            return Ok(AnswerWaitEnd::Superseded);
                        }
                    }
                    () = &mut look => {}
                }
            }
        };
        // No settings check runs any more: two would deadlock.
        if matches!(answer, AskAnswer::Yes(_)) {
            self.refresh_settings_for_call(scope).await?;
            if changes.has_changed().unwrap_or(true) && decision() == Decision::Deny {
                return Ok(AnswerWaitEnd::Superseded);
            }
        }
        Ok(AnswerWaitEnd::Answer(answer))
    }
}
