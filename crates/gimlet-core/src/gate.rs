//! The one choke point: a tool runs only with a [`Permit`], and only this module makes one.
//!
//! Deciding is `gimlet_policy`'s, a pure function; the gate finds out what paths really are, asks whoever can be
//! asked, and turns every outcome into either a permit or a refusal. It fails closed: whatever goes wrong refuses.

mod asks;
mod repeats;
mod resolve;
mod suggest;

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gimlet_policy::{Call, ClosedFiles, Decision, NeedFacts, Reason, RuleSet, Verdict, World};
use gimlet_proto::{Answer, AskBody, Body, Denial, PermissionMode};
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};

pub(crate) use asks::{Asked, Asks};

use crate::call::{self, CallScope, Incoming};
use crate::results::{Settled, cancelled};
use crate::tool::{AnyTool, ErrorClass, PermissionVerdict, Prepared, ToolError};
use repeats::Repeats;

/// How often an answer may change the input of one call before the gate gives up.
const MAX_EDITS: u32 = 8;

/// Leave to run one prepared call. It cannot be made outside the gate, copied, or used for another tool.
pub struct Permit {
    call: Prepared,
    found: Found,
}

/// What the gate found out while it decided.
struct Found {
    /// Each path of the call and what it really is.
    resolved: Vec<(PathBuf, PathBuf)>,
    closed: Option<Arc<ClosedFiles>>,
}

impl Permit {
    /// The typed input, if this permit is for the tool of that name.
    pub(crate) fn into_input<I: 'static>(self, tool: &str) -> Option<I> {
        if self.call.tool != tool {
            return None;
        }
        self.call.typed.downcast::<I>().ok().map(|input| *input)
    }

    /// Each path of the call and what it really is.
    pub(crate) fn resolved(&self) -> &[(PathBuf, PathBuf)] {
        &self.found.resolved
    }

    /// Files that rules keep closed, if there are any.
    pub(crate) fn closed_files(&self) -> Option<Arc<ClosedFiles>> {
        self.found.closed.clone()
    }

    pub(crate) fn summary(&self) -> &str {
        &self.call.description
    }

    pub(crate) fn user_facing_name(&self) -> &Cow<'static, str> {
        &self.call.user_facing_name
    }
}

/// A call on its way to its permit.
pub(crate) enum Pass {
    Undecided(Box<Prepared>),
    /// Decided while the reply still streamed.
    Granted(Box<Permit>),
}

/// Why a call may not run.
pub(crate) enum Refusal {
    /// By rule, mode or the lack of anyone to ask.
    Denied(Box<Denied>),
    /// By a person.
    ByPerson { message: String, stop_turn: bool },
    /// The question was withdrawn.
    Cancelled,
    /// An edited input did not fit.
    Invalid(ToolError),
}

/// A refusal without a person: what the model is told, and what the person would want to know.
pub(crate) struct Denied {
    origin: &'static str,
    message: String,
    summary: String,
    reason: String,
    allow_with: Option<String>,
}

impl Denied {
    fn new(origin: &'static str, message: String, prepared: &Prepared, verdict: &Verdict) -> Box<Self> {
        let explained = verdict.explain();
        let reason = explained.split_once(": ").map_or(explained.as_str(), |(_, reason)| reason).to_owned();
        // A rule or a mode that was chosen on purpose is not to be argued away.
        let allow_with = (origin == "unattended").then(|| suggest::flag(prepared)).flatten();
        Box::new(Self { origin, message, summary: prepared.description.clone(), reason, allow_with })
    }
}

/// Mode and rules, one shared value that every decision reads.
struct Permissions {
    mode: PermissionMode,
    rules: Arc<RuleSet>,
}

/// The gate of a session.
pub(crate) struct Gate {
    permissions: Mutex<Permissions>,
    /// `None` when nobody can be asked.
    asks: Option<mpsc::UnboundedSender<Asked>>,
    denials: Mutex<Vec<Denial>>,
    repeats: Mutex<Repeats>,
}

impl Gate {
    pub(crate) fn new(mode: PermissionMode, rules: RuleSet, asks: Option<mpsc::UnboundedSender<Asked>>) -> Self {
        Self {
            permissions: Mutex::new(Permissions { mode, rules: Arc::new(rules) }),
            asks,
            denials: Mutex::default(),
            repeats: Mutex::default(),
        }
    }

    /// Whether someone can be asked.
    pub(crate) fn is_attended(&self) -> bool {
        self.asks.is_some()
    }

    pub(crate) fn mode(&self) -> PermissionMode {
        lock(&self.permissions).mode
    }

    pub(crate) fn set_mode(&self, mode: PermissionMode) {
        lock(&self.permissions).mode = mode;
    }

    /// Forgets what belongs to the turn before.
    pub(crate) fn begin_turn(&self) {
        lock(&self.denials).clear();
    }

    pub(crate) fn take_denials(&self) -> Vec<Denial> {
        std::mem::take(&mut *lock(&self.denials))
    }

    /// Looks at each result on its way to the model.
    pub(crate) fn note_result(&self, call: &Incoming, settled: &mut Settled) {
        lock(&self.repeats).note(call, settled);
    }

    /// Grants a call at once if no question is needed; else leaves it undecided. Says which.
    pub(crate) fn grant_quietly(&self, scope: &CallScope, tool: &'static dyn AnyTool, pass: Pass) -> (Pass, bool) {
        match pass {
            Pass::Granted(permit) => (Pass::Granted(permit), true),
            Pass::Undecided(prepared) => {
                let (verdict, found) = self.decide(scope, tool, &prepared);
                if verdict.decision == Decision::Allow {
                    return (Pass::Granted(Box::new(Permit { call: *prepared, found })), true);
                }
                (Pass::Undecided(prepared), false)
            }
        }
    }

    /// Decides on a call, asking when it must.
    pub(crate) async fn pass(
        &self,
        scope: &CallScope,
        tool: &'static dyn AnyTool,
        incoming: &Incoming,
        pass: Pass,
    ) -> Result<Permit, Refusal> {
        let mut prepared = match pass {
            Pass::Granted(permit) => return Ok(*permit),
            Pass::Undecided(prepared) => prepared,
        };
        for _ in 0..MAX_EDITS {
            let (verdict, found) = self.decide(scope, tool, &prepared);
            match verdict.decision {
                Decision::Allow => return Ok(Permit { call: *prepared, found }),
                Decision::Deny => {
                    let origin = origin(&verdict);
                    let message = verdict.model_text(tool.name());
                    return Err(Refusal::Denied(Denied::new(origin, message, &prepared, &verdict)));
                }
                Decision::Ask => match self.ask(scope, incoming, &prepared, &verdict).await? {
                    Answer::Yes => return Ok(Permit { call: *prepared, found }),
                    Answer::No { message, interrupt } => {
                        let stop_turn = interrupt || message.trim().is_empty();
                        return Err(Refusal::ByPerson { message, stop_turn });
                    }
                    Answer::Edited(input) => prepared = edited(scope, incoming, input)?,
                },
            }
        }
        let message = "the input was changed too often without a decision".to_owned();
        Err(Refusal::ByPerson { message, stop_turn: false })
    }

    async fn ask(
        &self,
        scope: &CallScope,
        incoming: &Incoming,
        prepared: &Prepared,
        verdict: &Verdict,
    ) -> Result<Answer, Refusal> {
        let Some(asks) = &self.asks else {
            let message = format!(
                "{} This run has nobody who could be asked, so it was refused.",
                verdict.model_text(prepared.tool)
            );
            return Err(Refusal::Denied(Denied::new("unattended", message, prepared, verdict)));
        };
        let (reply, answer) = oneshot::channel();
        let body = AskBody::Permission {
            tool: prepared.tool.to_owned(),
            call: incoming.id.clone(),
            input: raw(&prepared.input),
            summary: prepared.description.clone(),
            reason: verdict.explain(),
        };
        asks.send(Asked { agent: scope.agent.clone(), body, reply }).map_err(|_| Refusal::Cancelled)?;
        tokio::select! {
            biased;
            () = scope.cancel.cancelled() => Err(Refusal::Cancelled),
            answer = answer => answer.map_err(|_| Refusal::Cancelled),
        }
    }

    fn decide(&self, scope: &CallScope, tool: &'static dyn AnyTool, prepared: &Prepared) -> (Verdict, Found) {
        let (mode, rules) = {
            let permissions = lock(&self.permissions);
            (permissions.mode, permissions.rules.clone())
        };
        let paths = scope.services.paths();
        let mut resolved = Vec::new();
        let needs: Vec<NeedFacts> = prepared
            .needs
            .iter()
            .map(|need| {
                let target = resolve::path_of(need).map(|path| (path, resolve::follow(path)));
                if let Some((path, Some(followed))) = &target {
                    resolved.push(((*path).clone(), followed.real.clone()));
                }
                NeedFacts::new(need.clone(), target.and_then(|(_, followed)| followed))
            })
            .collect();
        let world = World {
            mode,
            start: resolve::both_spellings(std::slice::from_ref(&paths.project_dir)),
            resolved_cwd: resolve::follow(&paths.cwd).map(|cwd| cwd.real).filter(|real| *real != paths.cwd),
            roots: resolve::both_spellings(&paths.roots),
            readable: resolve::both_spellings(std::slice::from_ref(&scope.services.results_dir)),
            cwd: paths.cwd,
            home: paths.home,
        };
        let call = Call {
            tool: tool.name(),
            input: Some(&prepared.given),
            needs: &needs,
            needs_person: prepared.requires_user_interaction,
        };
        let verdict = gimlet_policy::decide_following(&call, &rules, &world, &resolve::follow);
        let closed = ClosedFiles::new(&rules, &world, &needs).map(Arc::new);
        (with_own_verdict(verdict, &prepared.verdict), Found { resolved, closed })
    }
}

/// The tool's own check can only make the outcome stricter.
fn with_own_verdict(verdict: Verdict, own: &PermissionVerdict) -> Verdict {
    let (decision, why) = match own {
        PermissionVerdict::Passthrough => return verdict,
        PermissionVerdict::Ask(why) => (Decision::Ask, why),
        PermissionVerdict::Deny(why) => (Decision::Deny, why),
    };
    if verdict.decision >= decision {
        return verdict;
    }
    let mut reasons = vec![Reason::Tool(why.clone())];
    reasons.extend(verdict.reasons);
    Verdict { decision, reasons }
}

fn origin(verdict: &Verdict) -> &'static str {
    match verdict.reasons.first() {
        Some(Reason::Rule { .. } | Reason::MayMatchRule { .. }) => "rule",
        Some(Reason::Mode(_)) => "mode",
        Some(Reason::Tool(_)) => "tool",
        Some(_) | None => "other",
    }
}

/// An edited input is prepared from the start; everything is decided again on it.
fn edited(scope: &CallScope, incoming: &Incoming, input: Box<RawValue>) -> Result<Box<Prepared>, Refusal> {
    let changed = Incoming { input: Arc::from(input), bad_input: None, ..incoming.clone() };
    call::prepare(&changed, &scope.tools, &scope.services.paths())
        .map(|(_, prepared)| Box::new(prepared))
        .map_err(Refusal::Invalid)
}

impl Refusal {
    /// The result that the model gets in place of a run; every refusal is counted and shown.
    pub(crate) fn into_settled(self, scope: &CallScope, incoming: &Incoming) -> Settled {
        let by_person = |message: String| Denied {
            origin: "user",
            summary: String::new(),
            reason: "a person refused".to_owned(),
            allow_with: None,
            message,
        };
        let (denied, stop_turn) = match self {
            Refusal::Cancelled => return cancelled("the turn was stopped while permission was being asked"),
            Refusal::Invalid(error) => return Settled::failed(error),
            Refusal::Denied(denied) => (*denied, false),
            Refusal::ByPerson { message, stop_turn } if message.trim().is_empty() => {
                (by_person("The user refused this call. Wait for what they say next.".to_owned()), stop_turn)
            }
            Refusal::ByPerson { message, stop_turn } => {
                (by_person(format!("The user refused this call and said: {message}")), stop_turn)
            }
        };
        let Denied { origin, message, summary, reason, allow_with } = denied;
        let denial = Denial {
            tool: incoming.name.clone(),
            call: incoming.id.clone(),
            input: incoming.input.clone(),
            origin: origin.to_owned(),
            message: message.clone(),
            summary,
            reason,
            allow_with,
        };
        lock(&scope.gate.denials).push(denial.clone());
        if origin != "user" {
            scope.services.publish(&scope.agent, Body::Denied(denial));
        }
        let mut settled = Settled::failed(ToolError::new(ErrorClass::PermissionDenied, message));
        settled.stop_turn = stop_turn;
        settled
    }
}

fn raw(value: &serde_json::Value) -> Arc<RawValue> {
    Arc::from(serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned()))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Only whole values are swapped under these locks; one that was poisoned still guards a whole value.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
