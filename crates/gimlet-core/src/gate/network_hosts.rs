//! Hosts that a sandboxed command wants to reach and that are on no list: decided like a fetch from that host, by its
//! rules and mode, with its question, and logged like every other decision.

use std::borrow::Cow;
use std::sync::{Arc, Weak};

use gimlet_exec::{HostDecision, HostJudge, WEB_PORTS};
use gimlet_policy::{Decision, PermissionSuggestion, SandboxPlacement, Verdict};
use gimlet_proto::{AccessNeed, Approval, AskAnswer, AskBody, BoxFuture, SuggestedChange, ToolUseId};
use gimlet_store::Decider;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use super::ask_user::{AnswerWaitEnd, AskContext, unfit_answer};
use super::decision_log::FinalDecision;
use super::host_requests::undecidable;
use super::permission_ask::AskReason;
use super::refusal::{self, DenialDetails, Refusal, UNATTENDED};
use super::{AskOutcome, Gate, PolicyCall, to_raw};
use crate::agents::AgentRuntime;
use crate::call::{CallScope, ToolCall};
use crate::model_selection::LiveModelSelection;
use crate::panics::catch_panic;
use crate::services::SessionServices;
use crate::tool::{PermissionVerdict, PreparedCall};

/// Name of such a decision in lists of tool calls.
const NAME: &str = "SandboxNetworkAccess";
/// Tool whose rules apply to hosts.
const RULES_OF: &str = "WebFetch";

/// Gate for the proxy of a session's sandbox.
pub(crate) struct NetworkGate {
    gate: Arc<Gate>,
    /// Weak, because the services own the sandbox.
    services: Weak<SessionServices>,
    model_selection: LiveModelSelection,
    agent_runtime: Arc<AgentRuntime>,
}

impl NetworkGate {
    pub(crate) fn new(
        gate: &Arc<Gate>,
        services: &Arc<SessionServices>,
        model_selection: &LiveModelSelection,
        agent_runtime: &Arc<AgentRuntime>,
    ) -> Self {
        Self {
            gate: gate.clone(),
            services: Arc::downgrade(services),
            model_selection: model_selection.clone(),
            agent_runtime: agent_runtime.clone(),
        }
    }

    /// Returns a scope that belongs to no turn: a command in the background asks as well, and the command is not known
    /// here. An interrupt of the session closes all of these questions.
    fn call_scope(&self) -> Option<CallScope> {
        let services = self.services.upgrade()?;
        Some(CallScope::for_session(&services, &self.gate, &self.model_selection, &self.agent_runtime))
    }
}

impl HostJudge for NetworkGate {
    fn judge_host(&self, host: &str, port: u16) -> BoxFuture<'static, HostDecision> {
        let (scope, host) = (self.call_scope(), host.to_owned());
        Box::pin(async move {
            match scope {
                Some(scope) => scope.gate.decide_host(&scope, &host, port).await,
                None => HostDecision::REFUSED,
            }
        })
    }
}

impl Gate {
    async fn decide_host(&self, scope: &CallScope, host: &str, port: u16) -> HostDecision {
        self.refresh_settings(scope).await;
        let prepared = host_request_call(host, port);
        let incoming = ToolCall {
            id: ToolUseId::new(format!("{NAME}:{host}:{port}")),
            name: NAME.to_owned(),
            input: to_raw(&prepared.input),
            bad_input: None,
            reply: Arc::default(),
        };
        let (verdict, (answer, lasts)) = loop {
            let changes = self.changes.subscribe();
            let verdict = self.judge_host(scope, &prepared);
            let answer = match verdict.decision {
                // By rule or mode, which can change.
                Decision::Allow => (Ok(FinalDecision::allowed_by(Decider::Policy)), false),
                Decision::Deny => (Err(host_refusal(&prepared, &verdict, "rule")), false),
                Decision::Ask => {
                    let question = AskContext { verdict: &verdict, hook: None, changes };
                    match self.ask_about_host(scope, &incoming, &prepared, question).await {
                        // The answer took time; a rule that refuses the host by now applies.
                        Some((Ok(_), _)) if self.is_host_refused_now(scope, &prepared).await => continue,
                        Some(answer) => answer,
                        None => continue,
                    }
                }
            };
            break (verdict, answer);
        };
        let (word, allow) = match answer {
            Ok(word) => (word, true),
            Err(refusal) => (FinalDecision::from_refusal(&refusal, &verdict), false),
        };
        self.ledger.record_call(scope, self.mode(), &incoming.id, &prepared, &verdict, &word);
        HostDecision { allow, lasts }
    }

    /// Returns the answer of the reviewer or of the user, and true if it applies to the rest of the session; `None`
    /// when the question was superseded.
    async fn ask_about_host(
        &self,
        scope: &CallScope,
        incoming: &ToolCall,
        prepared: &PreparedCall,
        question: AskContext<'_>,
    ) -> Option<(Result<FinalDecision, Refusal>, bool)> {
        let AskContext { verdict, changes, .. } = question;
        match self.review_call(scope, incoming, prepared, verdict).await {
            Some(Ok(AskOutcome::Allowed(word))) => return Some((Ok(word), true)),
            Some(Ok(AskOutcome::Edited { .. } | AskOutcome::Superseded)) => {
                return Some((Err(Refusal::Cancelled), false));
            }
            // Another command may have a better reason to reach it.
            Some(Err(refusal)) => return Some((Err(refusal), false)),
            None => {}
        }
        let Some(asks) = &self.asks else { return Some((Err(host_refusal(prepared, verdict, UNATTENDED)), false)) };
        let (reply, answer) = oneshot::channel();
        let text = "a command in the sandbox wants to reach a host that is on no list".to_owned();
        let reason = AskReason { text, kind: refusal::reason_kind(verdict) };
        let suggestions = self.host_suggestions(scope, prepared);
        let ask = self.build_permission_ask(scope, incoming, prepared, reason, suggestions).await;
        let body = AskBody::Permission(Box::new(ask));
        if asks.send(super::AskRequest { agent: scope.agent.clone(), body, reply }).is_err() {
            return Some((Err(Refusal::Cancelled), false));
        }
        let decision = || self.judge_host(scope, prepared).decision;
        Some(match self.wait_for_answer(scope, answer, changes, decision).await {
            Ok(AnswerWaitEnd::Superseded) => return None,
            // An answer can only approve this host.
            Ok(AnswerWaitEnd::Answer(AskAnswer::Yes(Approval { input: Some(input), .. })))
                if !is_same_input(&input, &prepared.input) =>
            {
                (Err(Refusal::Cancelled), false)
            }
            Ok(AnswerWaitEnd::Answer(AskAnswer::Yes(Approval { changes, .. }))) => {
                if !changes.is_empty() {
                    self.apply_user_changes(scope, &changes);
                }
                (Ok(FinalDecision::allowed_by(Decider::Person)), true)
            }
            Ok(AnswerWaitEnd::Answer(AskAnswer::No { message, .. })) => {
                (Err(Refusal::ByPerson { message, stop_turn: false }), true)
            }
            Ok(AnswerWaitEnd::Answer(AskAnswer::NotAsked(why))) => {
                (Err(Refusal::Denied(DenialDetails::unasked(&why, prepared, verdict))), false)
            }
            Ok(AnswerWaitEnd::Answer(AskAnswer::Failed(why))) => {
                (Err(Refusal::Denied(DenialDetails::unanswered(&why, prepared, verdict))), false)
            }
            Ok(AnswerWaitEnd::Answer(AskAnswer::Replied(_) | AskAnswer::Elicited { .. })) => {
                (Err(unfit_answer(prepared, verdict)), false)
            }
            Err(refusal) => (Err(refusal), false),
        })
    }

    async fn is_host_refused_now(&self, scope: &CallScope, prepared: &PreparedCall) -> bool {
        self.refresh_settings(scope).await;
        self.judge_host(scope, prepared).decision == Decision::Deny
    }

    fn judge_host(&self, scope: &CallScope, prepared: &PreparedCall) -> Verdict {
        let judge = || {
            self.with_policy_input(scope, SandboxPlacement::None, |judging| judging.verdict(as_fetch_call(prepared)))
        };
        catch_panic(judge).unwrap_or_else(|panicked| {
            panicked.log(scope, "deciding on a host");
            undecidable()
        })
    }

    /// Returns the rule that would allow the host permanently; rules about hosts cover only the web's ports.
    fn host_suggestions(&self, scope: &CallScope, prepared: &PreparedCall) -> Vec<SuggestedChange> {
        let on_the_web = prepared.given.get("port").and_then(Value::as_u64);
        if !on_the_web.is_some_and(|port| WEB_PORTS.iter().any(|known| u64::from(*known) == port)) {
            return Vec::new();
        }
        let found = self
            .with_policy_input(scope, SandboxPlacement::None, |judging| judging.suggestions(as_fetch_call(prepared)));
        let change = |PermissionSuggestion { covers, update }: PermissionSuggestion| {
            Some(SuggestedChange { covers, update: Arc::from(to_raw_value(&update).ok()?) })
        };
        found.into_iter().filter_map(change).collect()
    }
}

/// Builds a call from a command's request, to be decided and shown.
fn host_request_call(host: &str, port: u16) -> PreparedCall {
    let given: Map<String, Value> =
        [("host".to_owned(), json!(host)), ("port".to_owned(), json!(port))].into_iter().collect();
    PreparedCall {
        also_named: Arc::default(),
        tool: Cow::Borrowed(NAME),
        typed: Arc::new(()),
        input: Value::Object(given.clone()),
        given,
        needs: host_needs(host, port),
        read_only: false,
        destructive: false,
        concurrency_safe: true,
        requires_user_interaction: false,
        verdict: PermissionVerdict::Passthrough,
        path: None,
        description: format!("connect to {host}:{port}"),
        user_facing_name: Cow::Borrowed("Network"),
        confinement_denial: None,
    }
}

/// Returns the accesses that the request needs. A rule that allows a host covers its web site, not other services
/// there.
fn host_needs(host: &str, port: u16) -> Vec<AccessNeed> {
    let other = (!WEB_PORTS.contains(&port)).then_some(AccessNeed::Opaque);
    std::iter::once(AccessNeed::Fetch(format!("https://{host}/"))).chain(other).collect()
}

fn as_fetch_call(prepared: &PreparedCall) -> PolicyCall<'_> {
    PolicyCall { tool: RULES_OF, also_named: &[], ..PolicyCall::from(prepared) }
}

/// Returns true if the returned input equals the one in the question: programs send it back with their answer.
fn is_same_input(given: &RawValue, asked: &Value) -> bool {
    serde_json::from_str::<Value>(given.get()).is_ok_and(|given| given == *asked)
}

fn host_refusal(prepared: &PreparedCall, verdict: &Verdict, origin: &'static str) -> Refusal {
    Refusal::Denied(DenialDetails::new(origin, verdict.model_text(NAME), prepared, verdict))
}
