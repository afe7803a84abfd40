//! The one choke point: a tool runs only with a [`Permit`], and only this module makes one.
//!
//! Deciding is `gimlet_policy`'s, a pure function; the gate finds out what paths really are, asks whoever can be
//! asked, and turns every outcome into either a permit or a refusal. It fails closed: whatever goes wrong refuses.

mod aside;
mod asks;
mod classifier;
mod git;
mod hooked;
mod hosts;
mod judge;
mod ledger;
mod live;
mod person;
mod refusal;
mod repeated;
mod resolve;
mod review;
mod suggest;

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gimlet_exec::Confinement;
use gimlet_policy::{ClosedFiles, Decision, HookSay, PermissionUpdate, Reason, RuleSet, Verdict, Walls};
use gimlet_proto::{AgentOffer, Block, Denial, Model, Need, PermissionMode, ToolUseId};
use gimlet_store::{Decider, DecisionLedger};
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::{mpsc, watch};

pub use aside::Leave;
pub(crate) use asks::{Asked, Asks};
pub use classifier::ReviewRules;
pub(crate) use classifier::{Classifier, Spent};
pub(crate) use hooked::brings_answer;
pub(crate) use hosts::HostGate;
pub use judge::{Judged, Judging};
pub use live::{ChangedSettings, LiveSettings, SandboxNow, SettingsNow, SettingsSource};
pub(crate) use refusal::Refusal;
pub use resolve::OnDisk;

use crate::agents::Roster;
use crate::call::{self, Author, CallScope, Incoming};
use crate::sandboxing::{Behind, Sandboxing};
use crate::services::Services;
use crate::session::ModeWish;
use crate::tool::{AnyTool, Prepared};
use ledger::{Ledger, Word};
use person::Question;
use refusal::Denied;

/// How often an answer may change the input of one call before the gate gives up.
const MAX_EDITS: u32 = 8;

/// Leave to run one prepared call. It cannot be made outside the gate, copied, or used for another tool.
pub struct Permit {
    call: Prepared,
    found: Found,
    /// Changes of mode and rules since it was given.
    since: watch::Receiver<()>,
}

/// What the gate found out while it decided.
struct Found {
    /// Each path of the call and what it really is.
    resolved: Vec<(PathBuf, PathBuf)>,
    closed: Option<Arc<ClosedFiles>>,
    /// The walls that its commands run behind.
    sandbox: Option<Behind>,
    /// What its commands are held to, when the call is allowed only because it seems to read.
    confinement: Option<Arc<Confinement>>,
    /// Whoever was asked changed the input.
    amended: bool,
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

    /// The walls that the call's commands run behind.
    pub(crate) fn sandbox(&self) -> Option<Behind> {
        self.found.sandbox.clone()
    }

    /// What the call's commands are held to, when nobody was asked about it.
    pub(crate) fn confinement(&self) -> Option<Arc<Confinement>> {
        self.found.confinement.clone()
    }

    /// Whether whoever was asked about the call changed its input.
    pub(crate) fn is_amended(&self) -> bool {
        self.found.amended
    }

    /// What the call would touch.
    pub(crate) fn needs(&self) -> &[Need] {
        &self.call.needs
    }

    /// The input with paths expanded.
    pub(crate) fn input(&self) -> &serde_json::Value {
        &self.call.input
    }

    pub(crate) fn summary(&self) -> &str {
        &self.call.description
    }

    pub(crate) fn user_facing_name(&self) -> &Cow<'static, str> {
        &self.call.user_facing_name
    }
}

/// What came of a question.
enum Answered {
    Go(Word),
    /// Do this instead, which is decided on again.
    Edited {
        input: Box<RawValue>,
        by: Decider,
    },
    /// Nobody has to answer any more: rules or mode changed while the question was open, and decide by themselves.
    Overtaken,
}

/// A call on its way to its permit.
pub(crate) enum Pass {
    Undecided(Box<Prepared>),
    /// Decided while the reply still streamed.
    Granted(Box<Permit>),
}

impl Pass {
    /// The input with paths expanded, as far as it is decided on.
    pub(crate) fn input(&self) -> &serde_json::Value {
        match self {
            Pass::Undecided(prepared) => &prepared.input,
            Pass::Granted(permit) => permit.input(),
        }
    }
}

/// What a session's gate starts with.
#[derive(Default)]
pub struct Permissions {
    pub mode: PermissionMode,
    /// The session may go over to bypassing permissions later.
    pub bypass_reachable: bool,
    pub rules: RuleSet,
    /// How long questions of the model wait for an answer; `None` for ever.
    pub question_patience: Option<Duration>,
    /// Where decisions are written down; `None` when nothing of the session is kept.
    pub decisions: Option<DecisionLedger>,
    /// How auto mode reviews; `None` where it is not to be had.
    pub review: Option<Review>,
    /// Where the rules come from and go to.
    pub live: Option<Box<dyn LiveSettings>>,
    /// Files that say what is allowed: no rule answers for writing them.
    pub governing: Vec<PathBuf>,
}

/// How auto mode reviews actions.
#[derive(Clone, Debug, Default)]
pub struct Review {
    pub model: String,
    pub rules: ReviewRules,
    /// No rule spares a command the review.
    pub all_shell: bool,
    /// Whether commands in plan mode are reviewed too; unless it is said, where planning began in auto mode.
    pub in_plan: Option<bool>,
}

/// Mode and rules, one shared value that every decision reads.
struct InForce {
    mode: PermissionMode,
    /// The mode to go back to when planning ends.
    before_plan: PermissionMode,
    rules: Arc<RuleSet>,
    /// Working directories that were added for this session alone.
    added: Vec<PathBuf>,
    /// What was taken from the rules of flags.
    taken_from_flags: Vec<PermissionUpdate>,
    /// How long questions of the model wait for an answer.
    question_patience: Option<Duration>,
}

impl InForce {
    fn change_mode(&mut self, mode: PermissionMode) {
        if mode == PermissionMode::Plan && self.mode != PermissionMode::Plan {
            self.before_plan = self.mode;
        }
        self.mode = mode;
    }
}

/// The gate of a session.
pub(crate) struct Gate {
    in_force: Mutex<InForce>,
    bypass_reachable: bool,
    /// Modes that settings took away since the session began. Is locked after `in_force`, never before.
    taken_away: Mutex<Vec<PermissionMode>>,
    /// `None` when nobody can be asked.
    asks: Option<mpsc::UnboundedSender<Asked>>,
    denials: Mutex<Vec<Denial>>,
    ledger: Ledger,
    /// Answers questions in auto mode.
    classifier: Option<Classifier>,
    /// In auto mode no rule spares a command the review.
    review_all_shell: bool,
    review_in_plan: Option<bool>,
    live: Mutex<Option<Box<dyn LiveSettings>>>,
    /// Changes of settings that are not taken up yet.
    undecided: Arc<tokio::sync::Mutex<Vec<ChangedSettings>>>,
    governing: Vec<PathBuf>,
    /// Tells open questions that mode or rules are others now.
    changes: watch::Sender<()>,
}

impl Gate {
    pub(crate) fn new(
        permissions: Permissions,
        model: &Arc<dyn Model>,
        asks: Option<mpsc::UnboundedSender<Asked>>,
    ) -> Self {
        let review = permissions.review;
        Self {
            review_all_shell: review.as_ref().is_some_and(|review| review.all_shell),
            review_in_plan: review.as_ref().and_then(|review| review.in_plan),
            in_force: Mutex::new(InForce {
                mode: permissions.mode,
                before_plan: PermissionMode::default(),
                rules: Arc::new(permissions.rules),
                added: Vec::new(),
                taken_from_flags: Vec::new(),
                question_patience: permissions.question_patience,
            }),
            bypass_reachable: permissions.bypass_reachable,
            taken_away: Mutex::default(),
            asks,
            denials: Mutex::default(),
            ledger: Ledger::new(permissions.decisions),
            classifier: review.map(|review| Classifier::new(model.clone(), review.model, &review.rules)),
            live: Mutex::new(permissions.live),
            undecided: Arc::default(),
            governing: permissions.governing,
            changes: watch::Sender::new(()),
        }
    }

    /// Whether someone can be asked.
    pub(crate) fn is_attended(&self) -> bool {
        self.asks.is_some()
    }

    pub(crate) fn mode(&self) -> PermissionMode {
        lock(&self.in_force).mode
    }

    /// The mode in which calls of this scope are decided: that of the session, or a subagent's own where it may have one.
    pub(crate) fn mode_of(&self, scope: &CallScope) -> PermissionMode {
        let session = self.mode();
        scope.subagent.as_ref().map_or(session, |who| who.mode_under(session, &|mode| self.is_available(mode)))
    }

    fn is_available(&self, mode: PermissionMode) -> bool {
        if lock(&self.taken_away).contains(&mode) {
            return false;
        }
        match mode {
            PermissionMode::BypassPermissions => self.bypass_reachable,
            PermissionMode::Auto => self.classifier.is_some(),
            _ => true,
        }
    }

    /// Whether a reviewer answers for commands while a plan is made. Whoever never chose one is asked.
    fn reviews_plans(&self) -> bool {
        let in_force = lock(&self.in_force);
        let begun_in_auto = in_force.mode == PermissionMode::Plan && in_force.before_plan == PermissionMode::Auto;
        self.is_available(PermissionMode::Auto) && self.review_in_plan.unwrap_or(begun_in_auto)
    }

    /// Changes the mode; false when this session cannot have it.
    pub(crate) fn set_mode(&self, mode: PermissionMode) -> bool {
        // Settings that take the mode away meanwhile wait for this, and then leave it.
        let mut in_force = lock(&self.in_force);
        let available = self.is_available(mode);
        if available {
            in_force.change_mode(mode);
            drop(in_force);
            self.changes.send_replace(());
        }
        available
    }

    /// Does what a tool wants of the mode; gives the new one if it changed.
    pub(crate) fn grant_wish(&self, wish: ModeWish) -> Option<PermissionMode> {
        let mut in_force = lock(&self.in_force);
        let before = in_force.mode;
        match wish {
            ModeWish::BeginPlan => in_force.change_mode(PermissionMode::Plan),
            // Whoever approved the plan may have chosen another mode with their yes.
            ModeWish::EndPlan if before == PermissionMode::Plan => in_force.mode = in_force.before_plan,
            ModeWish::EndPlan => {}
        }
        let now = in_force.mode;
        drop(in_force);
        self.changes.send_replace(());
        Some(now).filter(|mode| *mode != before)
    }

    /// Whether rules take a tool away as a whole.
    pub(crate) fn removes_tool(&self, tool: &dyn AnyTool) -> bool {
        gimlet_policy::removes_tool(&self.rules(), tool.name(), tool.also_named())
    }

    /// The kinds of subagents that rules leave.
    pub(crate) fn offers(&self, roster: &Roster) -> Vec<AgentOffer> {
        roster.offers(&self.rules())
    }

    pub(crate) fn rules(&self) -> Arc<RuleSet> {
        lock(&self.in_force).rules.clone()
    }

    /// What was refused since the last time. Agents in the background are refused between turns, too.
    pub(crate) fn take_denials(&self) -> Vec<Denial> {
        std::mem::take(&mut *lock(&self.denials))
    }

    /// What the person said, for whoever reviews actions in their place.
    pub(crate) fn note_prompt(&self, blocks: &[Block]) {
        if let Some(classifier) = &self.classifier {
            blocks.iter().filter_map(Block::as_text).for_each(|text| classifier.hear(&text));
        }
    }

    /// What a hook wants the same one to know.
    pub(crate) fn note_hook(&self, text: &str) {
        if let Some(classifier) = &self.classifier {
            classifier.learn(text);
        }
    }

    /// The reviewer's requests since the last time, to be counted.
    pub(crate) fn take_spent(&self) -> Vec<Spent> {
        self.classifier.as_ref().map(Classifier::take_spent).unwrap_or_default()
    }

    /// Grants a call at once if no question is needed; else leaves it undecided. Says which.
    pub(crate) fn grant_quietly(&self, scope: &CallScope, call: &ToolUseId, pass: Pass) -> (Pass, bool) {
        match pass {
            Pass::Granted(permit) => (Pass::Granted(permit), true),
            // Hooks look at it first, and they take their time.
            Pass::Undecided(prepared) if call::is_awaited(scope, &prepared) => (Pass::Undecided(prepared), false),
            Pass::Undecided(prepared) => match self.grant(scope, call, prepared) {
                Ok(permit) => {
                    self.show(&permit.call);
                    (Pass::Granted(Box::new(permit)), true)
                }
                Err(prepared) => (Pass::Undecided(prepared), false),
            },
        }
    }

    /// The permit for a call that needs no question; the call itself back otherwise.
    pub(crate) fn grant(
        &self,
        scope: &CallScope,
        call: &ToolUseId,
        prepared: Box<Prepared>,
    ) -> Result<Permit, Box<Prepared>> {
        let since = self.changes.subscribe();
        let (verdict, found) = self.decide(scope, &prepared, None);
        if verdict.decision != Decision::Allow {
            return Err(prepared);
        }
        let word = Word::allowed_by(Decider::Policy);
        self.ledger.note(scope, self.mode_of(scope), call, &prepared, &verdict, &word);
        Ok(Permit { call: *prepared, found, since })
    }

    /// Decides on a call, asking when it must. `hook` is what hooks said about it. Settings count as they are at this
    /// moment, and again after everybody who was waited for.
    pub(crate) async fn pass(
        &self,
        scope: &CallScope,
        tool: &dyn AnyTool,
        incoming: &Incoming,
        pass: Pass,
        hook: Option<&HookSay>,
    ) -> Result<Permit, Refusal> {
        let mut prepared = match pass {
            Pass::Granted(permit) => {
                // The call may have waited for others since.
                self.look_again(scope).await?;
                if permit.since.has_changed().is_ok_and(|changed| !changed) {
                    return Ok(*permit);
                }
                Box::new(permit.call)
            }
            Pass::Undecided(prepared) => prepared,
        };
        let runs = prepared.needs.iter().any(|need| matches!(need, Need::Run(_)));
        if let Some(sandboxing) = scope.services.walls().now().filter(|_| runs) {
            sandboxing.look_again().await;
        }
        // The grounds of the questions that were answered with a yes: only others are asked about again.
        let mut answered: Vec<Reason> = Vec::new();
        let mut answered_by = Decider::Person;
        let mut amended = false;
        // The verdict that the first question was about.
        let mut asked: Option<Verdict> = None;
        for _ in 0..MAX_EDITS {
            self.look_again(scope).await?;
            let changes = self.changes.subscribe();
            let since = changes.clone();
            let (verdict, found) = self.decide(scope, &prepared, hook);
            let settled = !answered.is_empty() && verdict.reasons.iter().all(|reason| answered.contains(reason));
            let answer = match verdict.decision {
                Decision::Ask if settled => Ok(Answered::Go(Word::allowed_by(answered_by))),
                Decision::Allow if asked.is_some() => Ok(Answered::Go(Word::allowed_by(answered_by))),
                Decision::Allow => Ok(Answered::Go(Word::allowed_by(decider(&verdict)))),
                Decision::Deny => {
                    let message = verdict.model_text(tool.name());
                    Err(Refusal::Denied(Denied::new(refusal::origin(&verdict), message, &prepared, &verdict)))
                }
                Decision::Ask => {
                    self.ask(scope, incoming, &prepared, Question { verdict: &verdict, hook, changes }).await
                }
            };
            let (word, end) = match answer {
                Ok(Answered::Edited { input, by }) => {
                    let given = std::mem::replace(&mut prepared, edited(scope, incoming, input)?);
                    // Many send the input back with every yes; only another one is a change.
                    amended |= prepared.input != given.input;
                    answered_by = by;
                    answered.extend(verdict.reasons);
                    continue;
                }
                Ok(Answered::Overtaken) => continue,
                Ok(Answered::Go(word)) if verdict.decision == Decision::Ask && !settled => {
                    // A question can stay open for long. What rules, mode and files say by now counts, except for what
                    // the yes was about.
                    answered_by = word.decider();
                    answered.extend(verdict.reasons.iter().cloned());
                    asked.get_or_insert(verdict);
                    continue;
                }
                Ok(Answered::Go(word)) => (word, None),
                Err(refusal) => (Word::of_refusal(&refusal, &verdict), Some(refusal)),
            };
            let ground = asked.as_ref().filter(|_| end.is_none()).unwrap_or(&verdict);
            self.ledger.note(scope, self.mode_of(scope), &incoming.id, &prepared, ground, &word);
            if let Some(refusal) = end {
                return Err(refusal);
            }
            self.show(&prepared);
            return Ok(Permit { call: *prepared, found: Found { amended, ..found }, since });
        }
        let message = "the input was changed too often without a decision".to_owned();
        Err(Refusal::ByPerson { message, stop_turn: false })
    }

    /// Lets the reviewer see what runs.
    fn show(&self, prepared: &Prepared) {
        if let Some(classifier) = &self.classifier {
            classifier.see(prepared);
        }
    }

    fn judging<T>(&self, scope: &CallScope, walls: Walls, judge: impl FnOnce(Judging<'_>) -> T) -> T {
        self.judging_in(self.mode_of(scope), &scope.services, walls, judge)
    }

    /// The same in a mode that need not be the session's.
    fn judging_in<T>(
        &self,
        mode: PermissionMode,
        services: &Services,
        walls: Walls,
        judge: impl FnOnce(Judging<'_>) -> T,
    ) -> T {
        let rules = match (mode, self.rules()) {
            (PermissionMode::Auto, rules) if self.review_all_shell => Arc::new(rules.in_auto(self.review_all_shell)),
            (_, rules) => rules,
        };
        // While only a plan is made, the plan is all that is written.
        let plan: Vec<PathBuf> = services.plan_file().map(PathBuf::from).into_iter().collect();
        let own = if mode == PermissionMode::Plan { &plan } else { services.own() };
        judge(Judging {
            mode,
            // What the person could switch the session to says nothing about a mode that only a subagent is in.
            bypass_reachable: self.is_available(PermissionMode::BypassPermissions) && mode == self.mode(),
            rules: &rules,
            paths: &services.paths(),
            readable: &[services.session_results_dir()],
            own,
            walls,
            plan_reviewed: self.reviews_plans(),
            governing: &self.governing,
            zsh: services.shell().is_some_and(gimlet_exec::Shell::is_zsh),
            walled: services.is_walled(),
            view: &OnDisk,
        })
    }

    fn decide(&self, scope: &CallScope, prepared: &Prepared, hook: Option<&HookSay>) -> (Verdict, Found) {
        let sandboxing = scope.services.walls().now();
        let walls = walls(scope, prepared, sandboxing.as_deref());
        let mut judgement = self.judging(scope, walls, |judging| judging.judge(prepared.into(), hook));
        let confinement = self.confine(scope, prepared, walls, &mut judgement.verdict);
        let sandbox = sandboxing.filter(|_| matches!(walls, Walls::Inside | Walls::Enough));
        let sandbox = sandbox.map(|sandboxing| Behind { walls: sandboxing, suffices: walls == Walls::Enough });
        let closed = judgement.closed.map(Arc::new);
        let found = Found { resolved: judgement.resolved, closed, sandbox, confinement, amended: false };
        (judgement.verdict, found)
    }

    /// What the commands of a call are held to that is allowed only because they seem to read. Where they cannot be held,
    /// or failed for it before, the verdict becomes a question.
    fn confine(
        &self,
        scope: &CallScope,
        prepared: &Prepared,
        walls: Walls,
        verdict: &mut Verdict,
    ) -> Option<Arc<Confinement>> {
        let runs = prepared.needs.iter().any(|need| matches!(need, Need::Run(_)));
        // Behind walls they are held already.
        if !runs || walls != Walls::None || !verdict.is_by_analysis_alone() {
            return None;
        }
        let confinement = scope.services.confinement()?;
        if let Some(why) = &prepared.held_back {
            *verdict = Verdict::after_confinement(self.mode_of(scope), why);
            return None;
        }
        match confinement {
            Ok(confinement) => Some(confinement),
            Err(error) => {
                let why = format!("gimlet cannot confine it ({error})");
                *verdict = Verdict::after_confinement(self.mode_of(scope), &why);
                None
            }
        }
    }
}

/// Where the commands of a call run.
fn walls(scope: &CallScope, prepared: &Prepared, sandboxing: Option<&Sandboxing>) -> Walls {
    sandboxing
        .map_or(Walls::None, |sandboxing| sandboxing.walls(&prepared.needs, &prepared.given, &scope.services.paths()))
}

/// Who let a call pass that nobody had to be asked about.
fn decider(verdict: &Verdict) -> Decider {
    if matches!(verdict.reasons.first(), Some(Reason::Hook(_))) { Decider::Hook } else { Decider::Policy }
}

/// An edited input is prepared from the start; everything is decided again on it.
pub(crate) fn edited(scope: &CallScope, incoming: &Incoming, input: Box<RawValue>) -> Result<Box<Prepared>, Refusal> {
    let changed = Incoming { input: Arc::from(input), bad_input: None, ..incoming.clone() };
    call::prepare(scope, &changed, Author::Answer, &scope.services.paths())
        .map(|(_, prepared)| Box::new(prepared))
        .map_err(Refusal::Invalid)
}

fn raw(value: &serde_json::Value) -> Arc<RawValue> {
    Arc::from(to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned()))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Only whole values are swapped under these locks; one that was poisoned still guards a whole value.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
