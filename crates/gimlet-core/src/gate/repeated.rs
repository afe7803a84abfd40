//! Asking whether a call that had no effect so often is to be made once more.

use gimlet_policy::Decision;
use gimlet_proto::{Answer, AskBody};
use tokio::sync::oneshot;

use super::person::Heard;
use super::refusal::Refusal;
use super::{Asked, Gate, Pass, raw};
use crate::call::{CallScope, Incoming};
use crate::repeats::ASKED_AT;

impl Gate {
    /// Asks the user; says whether they answered with a yes. Where nobody can be asked, nothing stands in the way.
    pub(crate) async fn ask_to_repeat(
        &self,
        scope: &CallScope,
        incoming: &Incoming,
        pass: &Pass,
    ) -> Result<bool, Refusal> {
        let Some(asks) = &self.asks else { return Ok(false) };
        let prepared = match pass {
            Pass::Undecided(prepared) => prepared,
            Pass::Granted(permit) => &permit.call,
        };
        let _asking = scope.services.pulse.asking();
        let (reply, answer) = oneshot::channel();
        let made = ASKED_AT - 1;
        let body = AskBody::Permission {
            tool: prepared.tool.to_string(),
            server: scope.tools.find(&prepared.tool).and_then(|tool| tool.server()).cloned(),
            call: incoming.id.clone(),
            input: raw(&prepared.input),
            label: prepared.user_facing_name.to_string(),
            summary: prepared.description.clone(),
            reason: format!(
                "the model made this call {made} times with the same result: yes goes on, no ends the turn"
            ),
            reason_kind: "other",
            path: prepared.path.clone(),
            suggestions: Vec::new(),
        };
        self.notify(scope, prepared);
        asks.send(Asked { agent: scope.agent.clone(), body, reply }).map_err(|_| Refusal::Cancelled)?;
        // No rule or mode answers this one.
        let heard = self.hear(scope, answer, self.changes.subscribe(), || Decision::Ask).await?;
        match heard {
            Heard::Answer(Answer::Yes(_)) => Ok(true),
            Heard::Answer(Answer::No { message, .. }) => Err(Refusal::ByPerson { message, stop_turn: true }),
            Heard::Answer(Answer::Unasked(_) | Answer::Failed(_)) | Heard::Overtaken => Ok(false),
        }
    }
}
