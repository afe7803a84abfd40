//! Auto mode: the reviewer's decision in place of the user's.

use gimlet_policy::{Verdict, VerdictReason};
use gimlet_proto::{EventBody, Notice, NoticeLevel, PermissionMode};
use gimlet_store::Decider;

use super::classifier::ReviewOutcome;
use super::decision_log::FinalDecision;
use super::refusal::{DenialDetails, Refusal};
use super::{AskOutcome, Gate, gate_hooks};
use crate::call::{CallScope, ToolCall};
use crate::tool::PreparedCall;

impl Gate {
    /// Returns the reviewer's decision in auto mode; `None` when the user must be asked after all.
    pub(super) async fn review_call(
        &self,
        scope: &CallScope,
        incoming: &ToolCall,
        prepared: &PreparedCall,
        verdict: &Verdict,
    ) -> Option<Result<AskOutcome, Refusal>> {
        let classifier = self.classifier.as_ref()?;
        if !verdict.reasons.contains(&VerdictReason::ClassifierMayAnswer) {
            return None;
        }
        let planning = self.mode_for(scope) == PermissionMode::Plan;
        let outcome = match super::action_for_review(scope, prepared) {
            Some(action) => classifier.review_action(&prepared.tool, &action, verdict, planning, scope).await,
            None => ReviewOutcome::AskUser("the reviewer cannot judge calls of this tool"),
        };
        match outcome {
            ReviewOutcome::Allow => Some(Ok(AskOutcome::Allowed(FinalDecision::allowed_by(Decider::Classifier)))),
            ReviewOutcome::Refuse(why) => {
                let mut message = format!(
                    "{} was not run: the reviewer of auto mode refused it ({why}). Do not look for another way to the \
                     same effect; go on with what is clearly within the task, or tell the user what you would need.",
                    prepared.tool
                );
                let said = self.report_refusal_to_hooks(scope, incoming, prepared, &why).await;
                if said.retry {
                    message.push_str(gate_hooks::RETRY);
                }
                let denied = DenialDetails::by_reviewer(message, &why, prepared).ending_turn_if(said.stop.is_some());
                Some(Err(Refusal::Denied(denied)))
            }
            ReviewOutcome::AskUser(why) => {
                scope.services.publish(
                    &scope.agent,
                    EventBody::Notice(Notice {
                        level: NoticeLevel::Warning,
                        text: format!("auto mode: {why}; a person decides"),
                    }),
                );
                None
            }
        }
    }
}
