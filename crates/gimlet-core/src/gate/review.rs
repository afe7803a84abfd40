//! Auto mode: what a reviewer says in place of a person.

use gimlet_policy::{Reason, Verdict};
use gimlet_proto::{Body, Level, Notice, PermissionMode};
use gimlet_store::Decider;

use super::classifier::Opinion;
use super::ledger::Word;
use super::refusal::{Denied, Refusal};
use super::{Answered, Gate, hooked};
use crate::call::{CallScope, Incoming};
use crate::tool::Prepared;

impl Gate {
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
                let said = self.after_refusal(scope, incoming, prepared, &why).await;
                if said.retry {
                    message.push_str(hooked::RETRY);
                }
                let denied = Denied::by_reviewer(message, &why, prepared).ending_turn_if(said.stop.is_some());
                Some(Err(Refusal::Denied(denied)))
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
