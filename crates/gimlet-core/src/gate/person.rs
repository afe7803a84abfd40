//! Asking a person: what they are shown, how long is waited, and what their answer does.
//!
//! A question is open only as long as the call needs one. When mode or rules change meanwhile, the call is judged again:
//! if it is allowed or refused by now, the question is withdrawn, and an answer that comes later changes nothing. Nor does
//! a yes that crosses a rule which refuses the call.

use std::time::Duration;

use gimlet_policy::{Decision, HookSay, Verdict};
use gimlet_proto::{Answer, Approval, AskBody, PermissionMode};
use gimlet_store::Decider;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::{oneshot, watch};

use super::ledger::Word;
use super::refusal::{self, Denied, Refusal};
use super::{Answered, Asked, Gate, lock, raw};
use crate::call::{CallScope, Incoming};
use crate::tool::Prepared;

/// How often settings files are looked at while a question is open, so that it does not stay open in vain.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Why somebody is asked.
pub(super) struct Question<'a> {
    pub(super) verdict: &'a Verdict,
    /// What hooks said about the call before.
    pub(super) hook: Option<&'a HookSay>,
    /// Changes since the verdict.
    pub(super) changes: watch::Receiver<()>,
}

/// What ended the wait for an answer.
pub(super) enum Heard {
    Answer(Answer),
    /// The question is no question any more.
    Overtaken,
}

impl Gate {
    /// Who answers in the person's place comes first: the reviewer, then hooks.
    pub(super) async fn ask(
        &self,
        scope: &CallScope,
        incoming: &Incoming,
        prepared: &Prepared,
        question: Question<'_>,
    ) -> Result<Answered, Refusal> {
        let Question { verdict, hook, changes } = question;
        if let Some(settled) = self.review(scope, incoming, prepared, verdict).await {
            return settled;
        }
        if let Some(settled) = self.ask_hooks(scope, incoming, prepared, verdict, hook).await {
            return settled;
        }
        let Some(asks) = &self.asks else {
            if let Some(instead) = scope.tools.find(&prepared.tool).and_then(|tool| tool.unanswered()) {
                return match self.mode_of(scope) {
                    PermissionMode::BypassPermissions => Ok(Answered::Go(Word::allowed_by(Decider::Policy))),
                    _ => Err(Refusal::Denied(Denied::new(refusal::UNATTENDED, instead.to_owned(), prepared, verdict))),
                };
            }
            let message = format!(
                "{} This run has nobody who could be asked, so it was refused.",
                verdict.model_text(&prepared.tool)
            );
            let suggested = self.suggestions(scope, prepared);
            return Err(Refusal::Denied(Denied::unattended(message, prepared, verdict, suggested)));
        };
        let _asking = scope.services.pulse.asking();
        let (reply, answer) = oneshot::channel();
        let body = AskBody::Permission {
            tool: prepared.tool.to_string(),
            server: scope.tools.find(&prepared.tool).and_then(|tool| tool.server()).cloned(),
            call: incoming.id.clone(),
            input: raw(&prepared.input),
            label: prepared.user_facing_name.to_string(),
            summary: prepared.description.clone(),
            reason: verdict.why(),
            reason_kind: refusal::kind(verdict),
            path: prepared.path.clone(),
            suggestions: self.suggestions(scope, prepared),
        };
        self.notify(scope, prepared);
        asks.send(Asked { agent: scope.agent.clone(), body, reply }).map_err(|_| Refusal::Cancelled)?;
        let decision = || self.decide(scope, prepared, hook).0.decision;
        let heard = tokio::select! {
            input = self.without_answer(scope, prepared) => return Ok(Answered::Edited { input, by: Decider::Policy }),
            heard = self.hear(scope, answer, changes, decision) => heard?,
        };
        let answer = match heard {
            Heard::Answer(answer) => answer,
            Heard::Overtaken => return Ok(Answered::Overtaken),
        };
        match answer {
            Answer::Yes(Approval { input, changes }) => {
                if !changes.is_empty() {
                    self.change(scope, &changes);
                }
                Ok(match input {
                    Some(input) => Answered::Edited { input, by: Decider::Person },
                    None => Answered::Go(Word::allowed_by(Decider::Person)),
                })
            }
            Answer::No { message, interrupt } => {
                // Nobody waits for a background agent: it loses this one call and finds another way.
                let waited_for = scope.subagent.as_ref().is_none_or(|who| who.is_waited_for());
                let stop_turn = waited_for && (interrupt || message.trim().is_empty());
                Err(Refusal::ByPerson { message, stop_turn })
            }
            Answer::Unasked(why) => Err(Refusal::Denied(Denied::unasked(&why, prepared, verdict))),
            Answer::Failed(why) => Err(Refusal::Denied(Denied::unanswered(&why, prepared, verdict))),
        }
    }

    /// What a question of the model's goes on with once everybody has waited for long enough; never for other calls.
    async fn without_answer(&self, scope: &CallScope, prepared: &Prepared) -> Box<RawValue> {
        let patience = lock(&self.in_force).question_patience;
        let tool = scope.tools.find(&prepared.tool);
        let late = patience.zip(tool).and_then(|(patience, tool)| {
            let input = tool.without_answer(&prepared.input, patience)?;
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
    pub(super) async fn hear(
        &self,
        scope: &CallScope,
        mut answer: oneshot::Receiver<Answer>,
        mut changes: watch::Receiver<()>,
        decision: impl Fn() -> Decision,
    ) -> Result<Heard, Refusal> {
        let answer = {
            let look = async {
                loop {
                    tokio::time::sleep(LOOK_EVERY).await;
                    self.refresh(scope).await;
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
                            return Ok(Heard::Overtaken);
                        }
                    }
                    () = &mut look => {}
                }
            }
        };
        // No look is under way any more: two would wait for each other.
        if matches!(answer, Answer::Yes(_)) {
            self.look_again(scope).await?;
            if changes.has_changed().unwrap_or(true) && decision() == Decision::Deny {
                return Ok(Heard::Overtaken);
            }
        }
        Ok(Heard::Answer(answer))
    }
}
