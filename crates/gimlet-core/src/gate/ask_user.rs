//! Asking a person: what they are shown, how long is waited, and what their answer does.
//!
//! A question is open only as long as the call needs one. When mode or rules change meanwhile, the call is judged again:
//! if it is allowed or refused by now, the question is withdrawn, and an answer that comes later changes nothing. Nor does
//! a yes that crosses a rule which refuses the call.

use std::time::Duration;

use gimlet_policy::{Decision, HookDecision, Verdict};
use gimlet_proto::{Approval, AskAnswer, AskBody, PermissionMode};
use gimlet_store::Decider;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::{oneshot, watch};

use super::decision_log::FinalDecision;
use super::refusal::{self, DenialDetails, Refusal};
use super::{AskOutcome, AskRequest, Gate, lock, to_raw};
use crate::call::{CallScope, ToolCall};
use crate::tool::PreparedCall;

/// How often settings files are looked at while a question is open, so that it does not stay open in vain.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Why somebody is asked.
pub(super) struct AskContext<'a> {
    pub(super) verdict: &'a Verdict,
    /// What hooks said about the call before.
    pub(super) hook: Option<&'a HookDecision>,
    /// Changes since the verdict.
    pub(super) changes: watch::Receiver<()>,
}

/// What ended the wait for an answer.
pub(super) enum AnswerWaitEnd {
    Answer(AskAnswer),
    /// The question is no question any more.
    Superseded,
}

impl Gate {
    /// Who answers in the person's place comes first: the reviewer, then hooks.
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
            let message = format!(
                "{} This run has nobody who could be asked, so it was refused.",
                verdict.model_text(&prepared.tool)
            );
            let suggested = self.suggestions(scope, prepared);
            return Err(Refusal::Denied(DenialDetails::unattended(message, prepared, verdict, suggested)));
        };
        let _asking = scope.services.pulse.pause_for_ask();
        let (reply, answer) = oneshot::channel();
        let body = AskBody::Permission {
            tool: prepared.tool.to_string(),
            server: scope.tools.find(&prepared.tool).and_then(|tool| tool.server()).cloned(),
            call: incoming.id.clone(),
            input: to_raw(&prepared.input),
            label: prepared.user_facing_name.to_string(),
            summary: prepared.description.clone(),
            reason: verdict.why(),
            reason_kind: refusal::reason_kind(verdict),
            path: prepared.path.clone(),
            suggestions: self.suggestions(scope, prepared),
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
            AskAnswer::No { message, interrupt } => {
                // Nobody waits for a background agent: it loses this one call and finds another way.
                let waited_for = scope.subagent.as_ref().is_none_or(|who| who.is_awaited_by_main());
                let stop_turn = waited_for && (interrupt || message.trim().is_empty());
                Err(Refusal::ByPerson { message, stop_turn })
            }
            AskAnswer::NotAsked(why) => Err(Refusal::Denied(DenialDetails::unasked(&why, prepared, verdict))),
            AskAnswer::Failed(why) => Err(Refusal::Denied(DenialDetails::unanswered(&why, prepared, verdict))),
        }
    }

    /// What a question of the model's goes on with once everybody has waited for long enough; never for other calls.
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

    /// Waits for the answer for as long as there is something to answer.
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
        // No look is under way any more: two would wait for each other.
        if matches!(answer, AskAnswer::Yes(_)) {
            self.refresh_settings_for_call(scope).await?;
            if changes.has_changed().unwrap_or(true) && decision() == Decision::Deny {
                return Ok(AnswerWaitEnd::Superseded);
            }
        }
        Ok(AnswerWaitEnd::Answer(answer))
    }
}
