//! Question about a call that had no effect so often that the user decides whether it is repeated.

use gimlet_policy::Decision;
use gimlet_proto::{AskAnswer, AskBody};
use tokio::sync::oneshot;

use super::ask_user::AnswerWaitEnd;
use super::permission_ask::AskReason;
use super::refusal::Refusal;
use super::{AskRequest, Clearance, Gate};
use crate::call::{CallScope, ToolCall};
use crate::repeated_failures::ASKED_AT;

impl Gate {
    /// Asks the user and returns true for a yes. Without a user to ask, returns false and the call is decided as
    /// usual.
    pub(crate) async fn ask_to_repeat(
        &self,
        scope: &CallScope,
        incoming: &ToolCall,
        pass: &Clearance,
    ) -> Result<bool, Refusal> {
        let Some(asks) = &self.asks else { return Ok(false) };
        let prepared = match pass {
            Clearance::Undecided(prepared) => prepared,
            Clearance::Granted(permit) => &permit.call,
        };
        let _asking = scope.services.activity().pause_for_ask();
        let (reply, answer) = oneshot::channel();
        let made = ASKED_AT - 1;
        let text = format!("the model made this call {made} times with the same result: yes goes on, no ends the turn");
        let reason = AskReason { text, kind: "other" };
        let ask = self.build_permission_ask(scope, incoming, prepared, reason, Vec::new()).await;
        let body = AskBody::Permission(Box::new(ask));
        self.notify_hooks_of_ask(scope, prepared);
        asks.send(AskRequest { agent: scope.agent.clone(), body, reply }).map_err(|_| Refusal::Cancelled)?;
        // No rule or mode answers this question.
        let heard = self.wait_for_answer(scope, answer, self.changes.subscribe(), || Decision::Ask).await?;
        match heard {
            AnswerWaitEnd::Answer(AskAnswer::Yes(_)) => Ok(true),
            AnswerWaitEnd::Answer(AskAnswer::No { message, .. }) => Err(Refusal::ByPerson { message, stop_turn: true }),
            AnswerWaitEnd::Answer(
                AskAnswer::NotAsked(_) | AskAnswer::Failed(_) | AskAnswer::Replied(_) | AskAnswer::Elicited { .. },
            )
            | AnswerWaitEnd::Superseded => Ok(false),
        }
    }
}
