//! Hosts that a command in the sandbox wants to reach and that are on no list: decided like a fetch from that host, by
//! the same rules and mode, with the same question, and written down like every other decision.

use std::borrow::Cow;
use std::sync::{Arc, Weak};

use gimlet_exec::{HostAnswer, HostJudge, WEB_PORTS};
use gimlet_policy::{Decision, Suggestion, Verdict, Walls};
use gimlet_proto::{Answer, Approval, AskBody, BoxFuture, Need, SuggestedChange, ToolUseId};
use gimlet_store::Decider;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use super::aside::undecidable;
use super::ledger::Word;
use super::person::{Heard, Question};
use super::refusal::{self, Denied, Refusal, UNATTENDED};
use super::{Answered, Gate, Judged, raw};
use crate::agents::AgentHost;
use crate::call::{CallScope, Incoming};
use crate::dials::Dials;
use crate::panics::caught;
use crate::services::Services;
use crate::tool::{PermissionVerdict, Prepared};

/// What such a decision is called where calls of tools are listed.
const NAME: &str = "SandboxNetworkAccess";
/// The tool whose rules speak of hosts.
const RULES_OF: &str = "WebFetch";

/// Answers the proxy of a session's sandbox.
pub(crate) struct HostGate {
    gate: Arc<Gate>,
    /// Weak, because the services own the sandbox.
    services: Weak<Services>,
    dials: Dials,
    host: Arc<AgentHost>,
}

impl HostGate {
    pub(crate) fn new(gate: &Arc<Gate>, services: &Arc<Services>, dials: &Dials, host: &Arc<AgentHost>) -> Self {
        let (gate, dials, host) = (gate.clone(), dials.clone(), host.clone());
        Self { gate, services: Arc::downgrade(services), dials, host }
    }

    /// No turn's own: a command in the background asks as well, and nobody knows which command it is. Whoever interrupts
    /// the session closes all of these questions.
    fn scope(&self) -> Option<CallScope> {
        Some(CallScope::of_no_turn(&self.services.upgrade()?, &self.gate, &self.dials, &self.host))
    }
}

impl HostJudge for HostGate {
    fn judge(&self, host: &str, port: u16) -> BoxFuture<'static, HostAnswer> {
        let (scope, host) = (self.scope(), host.to_owned());
        Box::pin(async move {
            match scope {
                Some(scope) => scope.gate.decide_on_host(&scope, &host, port).await,
                None => HostAnswer::REFUSED,
            }
        })
    }
}

impl Gate {
    async fn decide_on_host(&self, scope: &CallScope, host: &str, port: u16) -> HostAnswer {
        self.refresh(scope).await;
        let prepared = request(host, port);
        let incoming = Incoming {
            id: ToolUseId::new(format!("{NAME}:{host}:{port}")),
            name: NAME.to_owned(),
            input: raw(&prepared.input),
            bad_input: None,
        };
        let (verdict, (answer, lasts)) = loop {
            let changes = self.changes.subscribe();
            let verdict = self.judge_host(scope, &prepared);
            let answer = match verdict.decision {
                // By rule or mode, which can change.
                Decision::Allow => (Ok(Word::allowed_by(Decider::Policy)), false),
                Decision::Deny => (Err(refused(&prepared, &verdict, "rule")), false),
                Decision::Ask => {
                    let question = Question { verdict: &verdict, hook: None, changes };
                    match self.ask_about_host(scope, &incoming, &prepared, question).await {
                        // Whoever it was has taken their time; a rule that refuses the host by now counts.
                        Some((Ok(_), _)) if self.refuses_by_now(scope, &prepared).await => continue,
                        Some(answer) => answer,
                        None => continue,
                    }
                }
            };
            break (verdict, answer);
        };
        let (word, allow) = match answer {
            Ok(word) => (word, true),
            Err(refusal) => (Word::of_refusal(&refusal, &verdict), false),
        };
        self.ledger.note(scope, self.mode(), &incoming.id, &prepared, &verdict, &word);
        HostAnswer { allow, lasts }
    }

    /// The answer of the reviewer or of a person, and whether it holds for the rest of the session; `None` when
    /// the question was overtaken.
    async fn ask_about_host(
        &self,
        scope: &CallScope,
        incoming: &Incoming,
        prepared: &Prepared,
        question: Question<'_>,
    ) -> Option<(Result<Word, Refusal>, bool)> {
        let Question { verdict, changes, .. } = question;
        match self.review(scope, incoming, prepared, verdict).await {
            Some(Ok(Answered::Go(word))) => return Some((Ok(word), true)),
            Some(Ok(Answered::Edited { .. } | Answered::Overtaken)) => return Some((Err(Refusal::Cancelled), false)),
            // Another command may have a better reason to go there.
            Some(Err(refusal)) => return Some((Err(refusal), false)),
            None => {}
        }
        let Some(asks) = &self.asks else { return Some((Err(refused(prepared, verdict, UNATTENDED)), false)) };
        let (reply, answer) = oneshot::channel();
        let body = AskBody::Permission {
            tool: NAME.to_owned(),
            server: None,
            call: incoming.id.clone(),
            input: incoming.input.clone(),
            label: prepared.user_facing_name.to_string(),
            summary: prepared.description.clone(),
            reason: "a command in the sandbox wants to reach a host that is on no list".to_owned(),
            reason_kind: refusal::kind(verdict),
            path: None,
            suggestions: self.host_suggestions(scope, prepared),
        };
        if asks.send(super::Asked { agent: scope.agent.clone(), body, reply }).is_err() {
            return Some((Err(Refusal::Cancelled), false));
        }
        let decision = || self.judge_host(scope, prepared).decision;
        Some(match self.hear(scope, answer, changes, decision).await {
            Ok(Heard::Overtaken) => return None,
            // There is only this host to say yes to.
            Ok(Heard::Answer(Answer::Yes(Approval { input: Some(input), .. })))
                if !is_same(&input, &prepared.input) =>
            {
                (Err(Refusal::Cancelled), false)
            }
            Ok(Heard::Answer(Answer::Yes(Approval { changes, .. }))) => {
                if !changes.is_empty() {
                    self.change(scope, &changes);
                }
                (Ok(Word::allowed_by(Decider::Person)), true)
            }
            Ok(Heard::Answer(Answer::No { message, .. })) => {
                (Err(Refusal::ByPerson { message, stop_turn: false }), true)
            }
            Ok(Heard::Answer(Answer::Unasked(why))) => {
                (Err(Refusal::Denied(Denied::unasked(&why, prepared, verdict))), false)
            }
            Ok(Heard::Answer(Answer::Failed(why))) => {
                (Err(Refusal::Denied(Denied::unanswered(&why, prepared, verdict))), false)
            }
            Err(refusal) => (Err(refusal), false),
        })
    }

    async fn refuses_by_now(&self, scope: &CallScope, prepared: &Prepared) -> bool {
        self.refresh(scope).await;
        self.judge_host(scope, prepared).decision == Decision::Deny
    }

    fn judge_host(&self, scope: &CallScope, prepared: &Prepared) -> Verdict {
        let judge = || self.judging(scope, Walls::None, |judging| judging.verdict(as_fetch(prepared)));
        caught(judge).unwrap_or_else(|panicked| {
            panicked.log(scope, "deciding on a host");
            undecidable()
        })
    }

    /// The rule that would answer for good; rules about hosts know no other ports than the web's.
    fn host_suggestions(&self, scope: &CallScope, prepared: &Prepared) -> Vec<SuggestedChange> {
        let on_the_web = prepared.given.get("port").and_then(Value::as_u64);
        if !on_the_web.is_some_and(|port| WEB_PORTS.iter().any(|known| u64::from(*known) == port)) {
            return Vec::new();
        }
        let found = self.judging(scope, Walls::None, |judging| judging.suggestions(as_fetch(prepared)));
        let change = |Suggestion { covers, update }: Suggestion| {
            Some(SuggestedChange { covers, update: Arc::from(to_raw_value(&update).ok()?) })
        };
        found.into_iter().filter_map(change).collect()
    }
}

/// The wish of a command as a call that can be judged and shown.
fn request(host: &str, port: u16) -> Prepared {
    let given: Map<String, Value> =
        [("host".to_owned(), json!(host)), ("port".to_owned(), json!(port))].into_iter().collect();
    Prepared {
        also_named: Arc::default(),
        tool: Cow::Borrowed(NAME),
        typed: Box::new(()),
        input: Value::Object(given.clone()),
        given,
        needs: needs(host, port),
        read_only: false,
        destructive: false,
        concurrency_safe: true,
        requires_user_interaction: false,
        verdict: PermissionVerdict::Passthrough,
        path: None,
        description: format!("connect to {host}:{port}"),
        user_facing_name: Cow::Borrowed("Network"),
        held_back: None,
    }
}

/// A rule that allows a host speaks of its web site; whatever else listens there is another matter.
fn needs(host: &str, port: u16) -> Vec<Need> {
    let other = (!WEB_PORTS.contains(&port)).then_some(Need::Opaque);
    std::iter::once(Need::Fetch(format!("https://{host}/"))).chain(other).collect()
}

fn as_fetch(prepared: &Prepared) -> Judged<'_> {
    Judged { tool: RULES_OF, also_named: &[], ..Judged::from(prepared) }
}

/// Programs give back what they were asked about.
fn is_same(given: &RawValue, asked: &Value) -> bool {
    serde_json::from_str::<Value>(given.get()).is_ok_and(|given| given == *asked)
}

fn refused(prepared: &Prepared, verdict: &Verdict, origin: &'static str) -> Refusal {
    Refusal::Denied(Denied::new(origin, verdict.model_text(NAME), prepared, verdict))
}
