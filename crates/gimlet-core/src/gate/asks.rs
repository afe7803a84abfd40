//! Questions that wait for the user: opened by the gate, answered through the session.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::task::Poll;

use gimlet_proto::{AgentPath, AskAnswer, AskBody, AskId, AskView, ElicitationAction, ElicitationAsk, EventBody};
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};

use crate::call::CallScope;
use crate::hooks::HookPayload;
use crate::services::SessionServices;

/// Way for servers to ask the user of a session. Hooks are asked first.
#[derive(Clone)]
pub struct UserAsker {
    /// `None` where no front end answers.
    asks: Option<mpsc::UnboundedSender<AskRequest>>,
    /// Weak: the servers that ask belong to the session.
    scope: Weak<CallScope>,
}

impl UserAsker {
    pub(crate) fn new(asks: Option<mpsc::UnboundedSender<AskRequest>>, scope: &Arc<CallScope>) -> Self {
        Self { asks, scope: Arc::downgrade(scope) }
    }

    /// Asks the user a server's question. Returns the user's reaction and the values for an accepted form; `None` if
    /// the question was not answered. Dropping the future withdraws the question.
    pub async fn elicit(&self, question: ElicitationAsk) -> Option<(ElicitationAction, Option<Map<String, Value>>)> {
        let scope = self.scope.upgrade()?;
        let hooks = scope.services.hooks();
        let fired = hooks.fire(&scope, &HookPayload::Elicitation { question: &question }).await;
        if fired.blocked.or(fired.stop).is_some() {
            return Some((ElicitationAction::Decline, None));
        }
        let (action, content) = match fired.elicitation {
            Some(answer) => answer,
            None => self.ask(question.clone()).await?,
        };
        let answered = HookPayload::ElicitationResult { question: &question, action, content: content.as_ref() };
        let fired = hooks.fire(&scope, &answered).await;
        if fired.blocked.or(fired.stop).is_some() {
            return Some((ElicitationAction::Decline, None));
        }
        Some(fired.elicitation.unwrap_or((action, content)))
    }

    async fn ask(&self, question: ElicitationAsk) -> Option<(ElicitationAction, Option<Map<String, Value>>)> {
        let (reply, answer) = oneshot::channel();
        let body = AskBody::Elicitation(Box::new(question));
        self.asks.as_ref()?.send(AskRequest { agent: AgentPath::default(), body, reply }).ok()?;
        match answer.await.ok()? {
            AskAnswer::Elicited { action, content } => Some((action, content)),
            _ => None,
        }
    }
}

/// A question on its way from the gate to the session.
pub(crate) struct AskRequest {
    pub(crate) agent: AgentPath,
    pub(crate) body: AskBody,
    pub(crate) reply: oneshot::Sender<AskAnswer>,
}

/// The open questions of a session.
#[derive(Default)]
pub(crate) struct AskRegistry {
    next: u64,
    open: BTreeMap<AskId, OpenAsk>,
}

/// An open question.
struct OpenAsk {
    agent: AgentPath,
    /// True for a question of a server, which does not end with a turn.
    of_server: bool,
    reply: oneshot::Sender<AskAnswer>,
}

impl AskRegistry {
    pub(crate) fn open(&mut self, asked: AskRequest, services: &SessionServices) {
        // Withdrawn on its way here.
        if asked.reply.is_closed() {
            return;
        }
        self.next += 1;
        let id = AskId(self.next);
        let of_server = matches!(asked.body, AskBody::Elicitation(_));
        self.open.insert(id, OpenAsk { agent: asked.agent.clone(), of_server, reply: asked.reply });
        let task = services.tasks().find_agent(&asked.agent);
        let view = AskView {
            id,
            agent: asked.agent.clone(),
            agent_id: task.as_ref().map(|task| task.id.clone()),
            agent_type: task.as_ref().and_then(|task| Some(task.agent.as_ref()?.subagent_type.clone())),
            body: asked.body,
        };
        services.publish(&asked.agent, EventBody::Ask(Box::new(view)));
    }

    /// Passes an answer on; an answer to a closed or unknown question changes nothing.
    pub(crate) fn answer(&mut self, id: AskId, answer: AskAnswer, services: &SessionServices) {
        if let Some(OpenAsk { reply, .. }) = self.open.remove(&id) {
            // A gate that stopped waiting was cancelled; the question is closed either way.
            drop(reply.send(answer));
            services.publish(&AgentPath::default(), EventBody::AskClosed(id));
        }
    }

    /// Waits until the asker of some open question was stopped, so that its answer is not awaited any more.
    pub(crate) async fn wait_abandoned(&mut self) -> AskId {
        std::future::poll_fn(|cx| {
            let gone = self.open.iter_mut().find_map(|(id, open)| open.reply.poll_closed(cx).is_ready().then_some(*id));
            gone.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Closes the questions whose answers are not awaited any more.
    pub(crate) fn close_abandoned(&mut self, services: &SessionServices) {
        self.close_matching(services, |open| open.reply.is_closed());
    }

    /// Closes the questions of the main conversation and of its commands; those of subagents and servers stay open.
    pub(crate) fn close_main(&mut self, services: &SessionServices) {
        self.close_matching(services, |open| open.agent == AgentPath::default() && !open.of_server);
    }

    /// Closes the questions of all conversations; those of servers stay open.
    pub(crate) fn close_calls(&mut self, services: &SessionServices) {
        self.close_matching(services, |open| !open.of_server);
    }

    /// Closes every question unanswered; the waiting calls count as cancelled.
    pub(crate) fn close_all(&mut self, services: &SessionServices) {
        self.close_matching(services, |_| true);
    }

    fn close_matching(&mut self, services: &SessionServices, is_over: impl Fn(&OpenAsk) -> bool) {
        self.open.retain(|id, open| {
            let over = is_over(open);
            if over {
                services.publish(&AgentPath::default(), EventBody::AskClosed(*id));
            }
            !over
        });
    }
}
