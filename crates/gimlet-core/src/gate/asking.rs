//! Asking about a call: who is asked in which order, and what each answer means for it. No answer is a refusal, except
//! for questions of the model's that somebody has set a time for.

use gimlet_policy::{Reason, Verdict};
use gimlet_proto::{Answer, Approval, AskBody, Body, Level, Notice, PermissionMode};
use gimlet_store::Decider;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::oneshot;

use super::classifier::Opinion;
use super::ledger::Word;
use super::refusal::{self, Denied, Refusal};
use super::{Answered, Asked, Gate, hooked, lock, raw};
use crate::call::{CallScope, Incoming};
use crate::tool::Prepared;

impl Gate {
    /// Asks about a call: a reviewer, hooks, and else a person. Whatever is no clear yes refuses it.
    pub(super) async fn ask(
        &self,
        scope: &CallScope,
        incoming: &Incoming,
        prepared: &Prepared,
        verdict: &Verdict,
    ) -> Result<Answered, Refusal> {
        if let Some(settled) = self.review(scope, incoming, prepared, verdict).await {
            return settled;
        }
        if let Some(settled) = self.ask_hooks(scope, incoming, prepared, verdict).await {
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
            return Err(Refusal::Denied(Denied::unattended(message, prepared, verdict, &suggested)));
        };
        let _asking = scope.services.pulse.asking();
        let (reply, answer) = oneshot::channel();
        let body = AskBody::Permission {
            tool: prepared.tool.to_string(),
            call: incoming.id.clone(),
            input: raw(&prepared.input),
            label: prepared.user_facing_name.to_string(),
            summary: prepared.description.clone(),
            reason: verdict.explain(),
            reason_kind: refusal::kind(verdict),
            path: prepared.path.clone(),
            suggestions: self.suggestions(scope, prepared),
        };
        self.notify(scope, prepared);
        asks.send(Asked { agent: scope.agent.clone(), body, reply }).map_err(|_| Refusal::Cancelled)?;
        let late = self.without_answer(scope, prepared);
        let answer = tokio::select! {
            biased;
            () = scope.cancel.cancelled() => return Err(Refusal::Cancelled),
            input = late => return Ok(Answered::Edited { input, by: Decider::Policy }),
            answer = answer => answer.map_err(|_| Refusal::Cancelled)?,
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
                let waited_for = scope.subagent.as_ref().is_none_or(|who| !who.is_alone());
                let stop_turn = waited_for && (interrupt || message.trim().is_empty());
                Err(Refusal::ByPerson { message, stop_turn })
            }
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

    /// In auto mode: what the reviewer says in place of a person; `None` when a person must be asked after all.
    pub(super) async fn review(
        &self,
        scope: &CallScope,
        incoming: &Incoming,
        prepared: &Prepared,
        verdict: &Verdict,
    ) -> Option<Result<Answered, Refusal>> {
        let classifier = self.classifier.as_ref().filter(|_| verdict.reasons.contains(&Reason::ClassifierMayAnswer))?;
        let planning = self.mode_of(scope) == PermissionMode::Plan;
        match classifier.review(prepared, verdict, planning, &scope.cancel).await {
            Opinion::Allow => Some(Ok(Answered::Go(Word::allowed_by(Decider::Classifier)))),
            Opinion::Refuse(why) => {
                let mut message = format!(
                    "{} was not run: the reviewer of auto mode refused it ({why}). Do not look for another way to the \
                     same effect; go on with what is clearly within the task, or tell the user what you would need.",
                    prepared.tool
                );
                if self.may_retry(scope, incoming, prepared, &why).await {
                    message.push_str(hooked::RETRY);
                }
                Some(Err(Refusal::Denied(Denied::by_reviewer(message, &why, prepared))))
            }
            Opinion::None(why) => {
                scope.services.publish(
                    &scope.agent,
                    Body::Notice(Notice { level: Level::Warning, text: format!("auto mode: {why}; a person decides") }),
                );
                None
            }
        }
    }
}
