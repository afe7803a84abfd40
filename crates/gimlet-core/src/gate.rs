//! The only way to run a tool: a tool needs a [`Permit`], and only this module creates one.
//!
//! The decision is made in `gimlet_policy`, by a pure function; the gate resolves paths, asks the user, a hook or the
//! reviewer where needed, and turns every outcome into either a permit or a refusal. It fails closed: every error
//! refuses the call.

mod ask_user;
mod asks;
mod auto_review;
mod classifier;
mod decision_log;
mod disk_view;
mod gate_hooks;
mod git_traps;
mod host_requests;
mod network_hosts;
mod permission_ask;
mod policy_input;
mod refusal;
mod repeated;
mod settings_reload;
mod suggestions;

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gimlet_exec::Confinement;
use gimlet_policy::{
    Decision, DeniedFiles, HookDecision, PermissionUpdate, RuleSet, SandboxPlacement, Verdict, VerdictReason,
};
use gimlet_proto::{AccessNeed, AgentSummary, Block, Denial, Model, PermissionMode, ToolUseId};
use gimlet_store::{Decider, DecisionLedger};
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::{mpsc, watch};

pub use asks::UserAsker;
pub(crate) use asks::{AskRegistry, AskRequest};
pub(crate) use classifier::AutoModeClassifier;
pub use classifier::ReviewRules;
pub use disk_view::DiskFileView;
pub(crate) use gate_hooks::has_user_answer;
pub use host_requests::HostPermit;
pub(crate) use network_hosts::NetworkGate;
pub use policy_input::{PolicyCall, PolicyInput};
pub(crate) use refusal::Refusal;
pub use settings_reload::{ChangedSettings, EffectivePermissions, SandboxUpdate, SettingsOrigin, SettingsSource};

use crate::agents::AgentRoster;
use crate::call::{self, CallScope, InputAuthor, ToolCall};
use crate::sandbox::{CallSandbox, SessionSandbox};
use crate::services::SessionServices;
use crate::session::ModeChangeRequest;
use crate::skills::TurnGrants;
use crate::tool::{AnyTool, PreparedCall, TypedInput};
use ask_user::AskContext;
use decision_log::{DecisionLog, FinalDecision};
use refusal::DenialDetails;

/// Number of times that answers may change the input of one call before the gate refuses it.
const MAX_EDITS: u32 = 8;

/// Permission to run one prepared call. It cannot be created outside the gate, copied, or used for another tool.
pub struct Permit {
    call: PreparedCall,
    found: GateFindings,
    /// Changes of mode and rules since the permit was issued.
    since: watch::Receiver<()>,
}

/// Facts that the gate collected while it decided.
struct GateFindings {
    /// Each path of the call with its resolved path.
    resolved: Vec<(PathBuf, PathBuf)>,
    closed: Option<Arc<DeniedFiles>>,
    /// Sandbox that its commands run in.
    sandbox: Option<CallSandbox>,
    /// Confinement of its commands, if the call is allowed only because it appears to be read-only.
    confinement: Option<Arc<Confinement>>,
    /// True if an answer changed the input.
    amended: bool,
}

impl Permit {
    /// Returns the typed input, or `None` if this permit is not for the tool with this name.
    pub(crate) fn into_input<I: Send + Sync + 'static>(self, tool: &str) -> Option<Arc<I>> {
        if self.call.tool != tool {
            return None;
        }
        self.call.typed.downcast::<I>().ok()
    }

    /// Returns the typed input, for the views of the call.
    pub(crate) fn typed_input(&self) -> Arc<TypedInput> {
        self.call.typed.clone()
    }

    /// Returns each path of the call with its resolved path.
    pub(crate) fn resolved(&self) -> &[(PathBuf, PathBuf)] {
        &self.found.resolved
    }

    /// Returns the files that rules deny, if there are any.
    pub(crate) fn denied_files(&self) -> Option<Arc<DeniedFiles>> {
        self.found.closed.clone()
    }

    /// Returns the sandbox that the call's commands run in, if any.
    pub(crate) fn sandbox(&self) -> Option<CallSandbox> {
        self.found.sandbox.clone()
    }

    /// Returns the confinement of the call's commands, if it was allowed without a question.
    pub(crate) fn confinement(&self) -> Option<Arc<Confinement>> {
        self.found.confinement.clone()
    }

    /// Returns true if an answer changed the call's input.
    pub(crate) fn is_input_edited(&self) -> bool {
        self.found.amended
    }

    /// Returns the accesses that the call needs.
    pub(crate) fn needs(&self) -> &[AccessNeed] {
        &self.call.needs
    }

    /// Returns the input with paths expanded.
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

/// Outcome of a question.
enum AskOutcome {
    Allowed(FinalDecision),
    /// The call gets another input, which is decided on again.
    Edited {
        input: Box<RawValue>,
        by: Decider,
    },
    /// No answer is needed any more: rules or mode changed while the question was open, and they decide the call.
    Superseded,
}

/// A call before or after its permit was issued.
pub(crate) enum Clearance {
    Undecided(Box<PreparedCall>),
    /// Permitted, possibly while the reply was still streaming.
    Granted(Box<Permit>),
}

impl Clearance {
    /// Returns the input with paths expanded; for a permitted call, the input that was decided on.
    pub(crate) fn input(&self) -> &serde_json::Value {
        match self {
            Clearance::Undecided(prepared) => &prepared.input,
            Clearance::Granted(permit) => permit.input(),
        }
    }
}

/// Initial configuration of a session's gate.
#[derive(Default)]
pub struct PermissionConfig {
    pub mode: PermissionMode,
    /// True if the session may switch to bypassing permissions later.
    pub bypass_reachable: bool,
    pub rules: RuleSet,
    /// Timeout of the model's questions; `None` for no limit.
    pub question_patience: Option<Duration>,
    /// Ledger of decisions; `None` if nothing of the session is stored.
    pub decisions: Option<DecisionLedger>,
    /// Configuration of auto mode's reviewer; `None` if auto mode is not available.
    pub review: Option<ReviewConfig>,
    /// Settings that rules are read from and saved to.
    pub settings: Option<Box<dyn SettingsSource>>,
    /// Files that define permissions: no rule allows writing them.
    pub governing_files: Vec<PathBuf>,
}

/// Configuration of auto mode's reviewer.
#[derive(Clone, Debug, Default)]
pub struct ReviewConfig {
    pub model: String,
    pub rules: ReviewRules,
    /// True if no rule exempts a command from review.
    pub all_shell: bool,
    /// True if commands in plan mode are reviewed too; `None` for only where planning began in auto mode.
    pub in_plan: Option<bool>,
}

/// Mode and rules, one shared value that every decision reads.
struct ActivePermissions {
    mode: PermissionMode,
    /// Mode to restore when planning ends.
    before_plan: PermissionMode,
    rules: Arc<RuleSet>,
    /// Working directories that were added only for this session.
    added: Vec<PathBuf>,
    /// Changes that removed rules of flags.
    taken_from_flags: Vec<PermissionUpdate>,
    /// Timeout of the model's questions.
    question_patience: Option<Duration>,
}

impl ActivePermissions {
    fn change_mode(&mut self, mode: PermissionMode) {
        if mode == PermissionMode::Plan && self.mode != PermissionMode::Plan {
            self.before_plan = self.mode;
        }
        self.mode = mode;
    }
}

/// The gate of a session.
pub(crate) struct Gate {
    in_force: Mutex<ActivePermissions>,
    bypass_reachable: bool,
    /// Modes that settings disabled since the session began. Locked after `in_force`, never before.
    taken_away: Mutex<Vec<PermissionMode>>,
    /// Channel for questions; `None` when there is no user to ask.
    asks: Option<mpsc::UnboundedSender<AskRequest>>,
    denials: Mutex<Vec<Denial>>,
    ledger: DecisionLog,
    /// Reviewer that answers questions in auto mode.
    classifier: Option<AutoModeClassifier>,
    /// True if no rule exempts a command from review in auto mode.
    review_all_shell: bool,
    review_in_plan: Option<bool>,
    live: Mutex<Option<Box<dyn SettingsSource>>>,
    /// Changes of settings that are not applied yet.
    undecided: Arc<tokio::sync::Mutex<Vec<ChangedSettings>>>,
    governing: Vec<PathBuf>,
    /// Notifies open questions of changes of mode or rules.
    changes: watch::Sender<()>,
}

impl Gate {
    pub(crate) fn new(
        permissions: PermissionConfig,
        model: &Arc<dyn Model>,
        asks: Option<mpsc::UnboundedSender<AskRequest>>,
    ) -> Self {
        let review = permissions.review;
        Self {
            review_all_shell: review.as_ref().is_some_and(|review| review.all_shell),
            review_in_plan: review.as_ref().and_then(|review| review.in_plan),
            in_force: Mutex::new(ActivePermissions {
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
            ledger: DecisionLog::new(permissions.decisions),
            classifier: review.map(|review| AutoModeClassifier::new(model.clone(), review.model, &review.rules)),
            live: Mutex::new(permissions.settings),
            undecided: Arc::default(),
            governing: permissions.governing_files,
            changes: watch::Sender::new(()),
        }
    }

    /// Returns true if a user can be asked.
    pub(crate) fn is_attended(&self) -> bool {
        self.asks.is_some()
    }

    pub(crate) fn mode(&self) -> PermissionMode {
        lock(&self.in_force).mode
    }

    /// Returns the mode in which calls of this scope are decided: that of the session, or a subagent's own where it
    /// may have one.
    pub(crate) fn mode_for(&self, scope: &CallScope) -> PermissionMode {
        let session = self.mode();
        scope.subagent.as_ref().map_or(session, |who| who.effective_mode(session, &|mode| self.is_mode_available(mode)))
    }

    fn is_mode_available(&self, mode: PermissionMode) -> bool {
        if lock(&self.taken_away).contains(&mode) {
            return false;
        }
        match mode {
            PermissionMode::BypassPermissions => self.bypass_reachable,
            PermissionMode::Auto => self.classifier.is_some(),
            _ => true,
        }
    }

    /// Returns true if the reviewer answers for commands while a plan is made: as configured, or else if planning
    /// began in auto mode.
    fn reviews_plans(&self) -> bool {
        let in_force = lock(&self.in_force);
        let begun_in_auto = in_force.mode == PermissionMode::Plan && in_force.before_plan == PermissionMode::Auto;
        self.is_mode_available(PermissionMode::Auto) && self.review_in_plan.unwrap_or(begun_in_auto)
    }

    /// Changes the mode; returns false if it is not available in this session.
    pub(crate) fn set_mode(&self, mode: PermissionMode) -> bool {
        // Settings that disable the mode concurrently wait for this lock, and then leave the mode.
        let mut in_force = lock(&self.in_force);
        let available = self.is_mode_available(mode);
        if available {
            in_force.change_mode(mode);
            drop(in_force);
            self.changes.send_replace(());
        }
        available
    }

    /// Applies a tool's request to change the mode. Returns the new mode if it changed.
    pub(crate) fn apply_mode_request(&self, wish: ModeChangeRequest) -> Option<PermissionMode> {
        let mut in_force = lock(&self.in_force);
        let before = in_force.mode;
        match wish {
            ModeChangeRequest::BeginPlan => in_force.change_mode(PermissionMode::Plan),
            // The user may have chosen another mode when approving the plan.
            ModeChangeRequest::EndPlan if before == PermissionMode::Plan => in_force.mode = in_force.before_plan,
            ModeChangeRequest::EndPlan => {}
        }
        let now = in_force.mode;
        drop(in_force);
        self.changes.send_replace(());
        Some(now).filter(|mode| *mode != before)
    }

    /// Returns true if rules deny a tool as a whole.
    pub(crate) fn denies_tool(&self, tool: &dyn AnyTool) -> bool {
        gimlet_policy::is_tool_removed(&self.rules(), tool.name(), tool.also_named())
    }

    /// Returns the kinds of subagents that rules do not deny.
    pub(crate) fn offered_agents(&self, roster: &AgentRoster) -> Vec<AgentSummary> {
        roster.offered_kinds(&self.rules())
    }

    pub(crate) fn rules(&self) -> Arc<RuleSet> {
        lock(&self.in_force).rules.clone()
    }

    /// Takes the refusals since the last call. Agents in the background are refused between turns, too.
    pub(crate) fn take_denials(&self) -> Vec<Denial> {
        std::mem::take(&mut *lock(&self.denials))
    }

    /// Records the user's prompt for the reviewer.
    pub(crate) fn note_user_prompt(&self, blocks: &[Block]) {
        if let Some(classifier) = &self.classifier {
            blocks.iter().filter_map(Block::as_text).for_each(|text| classifier.note_user_text(&text));
        }
    }

    /// Records a hook's context for the reviewer.
    pub(crate) fn note_hook_context(&self, text: &str) {
        if let Some(classifier) = &self.classifier {
            classifier.note_hook_context(text);
        }
    }

    /// Issues a permit at once if no question is needed; otherwise leaves the call undecided. The flag is true if the
    /// permit was issued.
    pub(crate) fn try_grant(&self, scope: &CallScope, call: &ToolUseId, pass: Clearance) -> (Clearance, bool) {
        match pass {
            Clearance::Granted(permit) => (Clearance::Granted(permit), true),
            // Hooks run first, and they may take time.
            Clearance::Undecided(prepared) if call::has_pre_call_hooks(scope, &prepared) => {
                (Clearance::Undecided(prepared), false)
            }
            Clearance::Undecided(prepared) => match self.grant_without_ask(scope, call, prepared) {
                Ok(permit) => {
                    self.show_to_reviewer(&permit.call);
                    (Clearance::Granted(Box::new(permit)), true)
                }
                Err(prepared) => (Clearance::Undecided(prepared), false),
            },
        }
    }

    /// Issues the permit for a call that needs no question; returns the call otherwise.
    pub(crate) fn grant_without_ask(
        &self,
        scope: &CallScope,
        call: &ToolUseId,
        prepared: Box<PreparedCall>,
    ) -> Result<Permit, Box<PreparedCall>> {
        let since = self.changes.subscribe();
        let (verdict, found) = self.decide_call(scope, &prepared, None);
        if verdict.decision != Decision::Allow {
            return Err(prepared);
        }
        let word = FinalDecision::allowed_by(Decider::Policy);
        self.ledger.record_call(scope, self.mode_for(scope), call, &prepared, &verdict, &word);
        Ok(Permit { call: *prepared, found, since })
    }

    /// Issues the permit for a call that nobody is asked about; returns the reason if it needs a question or is denied.
    /// `hook` is the decision of hooks on it.
    pub(crate) async fn permit_unasked(
        &self,
        scope: &CallScope,
        incoming: &ToolCall,
        pass: Clearance,
        hook: Option<&HookDecision>,
    ) -> Result<Permit, String> {
        let prepared = match pass {
            Clearance::Granted(permit) => return Ok(*permit),
            Clearance::Undecided(prepared) => prepared,
        };
        self.refresh_settings(scope).await;
        if let Some(sandbox) = scope.services.active_sandbox().current() {
            sandbox.rescan_if_partial().await;
        }
        let since = self.changes.subscribe();
        let (verdict, found) = self.decide_call(scope, &prepared, hook);
        let mode = self.mode_for(scope);
        if verdict.decision != Decision::Allow {
            let why = verdict.why();
            let refusal = Refusal::Denied(DenialDetails::new(
                refusal::refusal_origin(&verdict),
                why.clone(),
                &prepared,
                &verdict,
            ));
            let word = FinalDecision::from_refusal(&refusal, &verdict);
            self.ledger.record_call(scope, mode, &incoming.id, &prepared, &verdict, &word);
            return Err(match verdict.decision {
                Decision::Deny => format!("it was not run: {why}"),
                _ => format!("it was not run, because nobody is asked about it: {why}"),
            });
        }
        let word = FinalDecision::allowed_by(decider(&verdict));
        self.ledger.record_call(scope, mode, &incoming.id, &prepared, &verdict, &word);
        self.show_to_reviewer(&prepared);
        Ok(Permit { call: *prepared, found, since })
    }

    /// Makes permits that were issued before a change of a turn's rules be decided again.
    pub(crate) fn note_rule_change(&self) {
        self.changes.send_replace(());
    }

    /// Decides on a call, with a question if needed. `hook` is the decision of hooks on it. Current settings apply,
    /// and they are checked again after every wait.
    pub(crate) async fn authorize_call(
        &self,
        scope: &CallScope,
        tool: &dyn AnyTool,
        incoming: &ToolCall,
        pass: Clearance,
        hook: Option<&HookDecision>,
    ) -> Result<Permit, Refusal> {
        let mut prepared = match pass {
            Clearance::Granted(permit) => {
                // The call may have waited for others since it was prepared.
                self.refresh_settings_for_call(scope).await?;
                if permit.since.has_changed().is_ok_and(|changed| !changed) {
                    return Ok(*permit);
                }
                Box::new(permit.call)
            }
            Clearance::Undecided(prepared) => prepared,
        };
        let runs = prepared.needs.iter().any(|need| matches!(need, AccessNeed::Run(_)));
        if runs && let Some(sandbox) = scope.services.active_sandbox().current() {
            sandbox.rescan_if_partial().await;
        }
        // Reasons of the questions that were approved: only other reasons are asked about again.
        let mut answered: Vec<VerdictReason> = Vec::new();
        let mut answered_by = Decider::Person;
        let mut amended = false;
        // Verdict that the first question was about.
        let mut asked: Option<Verdict> = None;
        for _ in 0..MAX_EDITS {
            self.refresh_settings_for_call(scope).await?;
            let changes = self.changes.subscribe();
            let since = changes.clone();
            let (verdict, found) = self.decide_call(scope, &prepared, hook);
            let settled = !answered.is_empty() && verdict.reasons.iter().all(|reason| answered.contains(reason));
            let answer = match verdict.decision {
                Decision::Ask if settled => Ok(AskOutcome::Allowed(FinalDecision::allowed_by(answered_by))),
                Decision::Allow if asked.is_some() => Ok(AskOutcome::Allowed(FinalDecision::allowed_by(answered_by))),
                Decision::Allow => Ok(AskOutcome::Allowed(FinalDecision::allowed_by(decider(&verdict)))),
                Decision::Deny => {
                    let message = verdict.model_text(tool.name());
                    Err(Refusal::Denied(DenialDetails::new(
                        refusal::refusal_origin(&verdict),
                        message,
                        &prepared,
                        &verdict,
                    )))
                }
                Decision::Ask => {
                    self.ask_user(scope, incoming, &prepared, AskContext { verdict: &verdict, hook, changes }).await
                }
            };
            let (word, end) = match answer {
                Ok(AskOutcome::Edited { input, by }) => {
                    let given = std::mem::replace(&mut prepared, prepare_edited_call(scope, incoming, input)?);
                    // Many programs return the input with every yes; only a different input is a change.
                    amended |= prepared.input != given.input;
                    answered_by = by;
                    answered.extend(verdict.reasons);
                    continue;
                }
                Ok(AskOutcome::Superseded) => continue,
                Ok(AskOutcome::Allowed(word)) if verdict.decision == Decision::Ask && !settled => {
                    // A question can stay open for long. Current rules, mode and files apply, except for the reasons
                    // that were approved.
                    answered_by = word.decider();
                    answered.extend(verdict.reasons.iter().cloned());
                    asked.get_or_insert(verdict);
                    continue;
                }
                Ok(AskOutcome::Allowed(word)) => (word, None),
                Err(refusal) => (FinalDecision::from_refusal(&refusal, &verdict), Some(refusal)),
            };
            let ground = match &asked {
                Some(asked) if end.is_none() => asked,
                _ => &verdict,
            };
            self.ledger.record_call(scope, self.mode_for(scope), &incoming.id, &prepared, ground, &word);
            if let Some(refusal) = end {
                return Err(refusal);
            }
            self.show_to_reviewer(&prepared);
            return Ok(Permit { call: *prepared, found: GateFindings { amended, ..found }, since });
        }
        let message = "the input was changed too often without a decision".to_owned();
        Err(Refusal::ByPerson { message, stop_turn: false })
    }

    /// Records a permitted call for the reviewer.
    fn show_to_reviewer(&self, prepared: &PreparedCall) {
        if let Some(classifier) = &self.classifier
            && !prepared.read_only
        {
            classifier.note_action(prepared);
        }
    }

    fn with_policy_input<T>(
        &self,
        scope: &CallScope,
        placement: SandboxPlacement,
        judge: impl FnOnce(PolicyInput<'_>) -> T,
    ) -> T {
        self.judge_with(Some(&scope.grants), self.mode_for(scope), &scope.services, placement, judge)
    }

    /// Builds the policy input for a mode that may differ from the session's, without what skills grant.
    fn with_policy_input_in_mode<T>(
        &self,
        mode: PermissionMode,
        services: &SessionServices,
        placement: SandboxPlacement,
        judge: impl FnOnce(PolicyInput<'_>) -> T,
    ) -> T {
        self.judge_with(None, mode, services, placement, judge)
    }

    fn judge_with<T>(
        &self,
        grants: Option<&TurnGrants>,
        mode: PermissionMode,
        services: &SessionServices,
        placement: SandboxPlacement,
        judge: impl FnOnce(PolicyInput<'_>) -> T,
    ) -> T {
        let rules = match (mode, grants.map_or_else(|| self.rules(), |grants| grants.join(self.rules()))) {
            (PermissionMode::Auto, rules) if self.review_all_shell => {
                Arc::new(rules.for_auto_mode(self.review_all_shell))
            }
            (_, rules) => rules,
        };
        // In plan mode only the plan file may be written.
        let plan: Vec<PathBuf> = services.plan_file().map(PathBuf::from).into_iter().collect();
        let own = if mode == PermissionMode::Plan { &plan } else { services.own_paths() };
        judge(PolicyInput {
            mode,
            // Modes that the user could switch the session to do not apply to a mode that only a subagent is in.
            bypass_reachable: self.is_mode_available(PermissionMode::BypassPermissions) && mode == self.mode(),
            rules: &rules,
            paths: &services.paths(),
            readable: &[services.session_results_dir()],
            own,
            sandbox_verdict: placement,
            plan_reviewed: self.reviews_plans(),
            governing: &self.governing,
            zsh: services.shell().is_some_and(gimlet_exec::Shell::is_zsh),
            has_sandbox: services.is_sandboxed(),
            view: &DiskFileView,
        })
    }

    /// Returns the files that no document of a user or project may lead to.
    pub(crate) fn files_denied_to_documents(&self, scope: &CallScope) -> DeniedFiles {
        self.with_policy_input(scope, SandboxPlacement::None, |input| input.files_denied_to_documents())
    }

    fn decide_call(
        &self,
        scope: &CallScope,
        prepared: &PreparedCall,
        hook: Option<&HookDecision>,
    ) -> (Verdict, GateFindings) {
        let sandbox = scope.services.active_sandbox().current();
        let placement = sandbox_verdict(scope, prepared, sandbox.as_deref());
        let mut judgement = self.with_policy_input(scope, placement, |judging| judging.judge(prepared.into(), hook));
        let confinement = self.confine_call(scope, prepared, placement, &mut judgement.verdict);
        let is_inside = matches!(placement, SandboxPlacement::Inside | SandboxPlacement::Sufficient);
        let suffices = placement == SandboxPlacement::Sufficient;
        let sandbox =
            if is_inside { sandbox.map(|sandbox| CallSandbox { session_sandbox: sandbox, suffices }) } else { None };
        let closed = judgement.closed.map(Arc::new);
        let found = GateFindings { resolved: judgement.resolved, closed, sandbox, confinement, amended: false };
        (judgement.verdict, found)
    }

    /// Returns the confinement of a call's commands, if it is allowed only because they appear to be read-only. If
    /// they cannot be confined, or failed because of it before, the verdict becomes a question.
    fn confine_call(
        &self,
        scope: &CallScope,
        prepared: &PreparedCall,
        placement: SandboxPlacement,
        verdict: &mut Verdict,
    ) -> Option<Arc<Confinement>> {
        let runs = prepared.needs.iter().any(|need| matches!(need, AccessNeed::Run(_)));
        // In the sandbox they are restricted already.
        if !runs || placement != SandboxPlacement::None || !verdict.is_by_analysis_alone() {
            return None;
        }
        let confinement = scope.services.confinement()?;
        if let Some(why) = &prepared.confinement_denial {
            *verdict = Verdict::after_confinement(self.mode_for(scope), why);
            return None;
        }
        match confinement {
            Ok(confinement) => Some(confinement),
            Err(error) => {
                let why = format!("gimlet cannot confine it ({error})");
                *verdict = Verdict::after_confinement(self.mode_for(scope), &why);
                None
            }
        }
    }
}

/// Returns the text by which the reviewer judges a call; `None` if it cannot judge it.
fn action_for_review(scope: &CallScope, prepared: &PreparedCall) -> Option<String> {
    let text = match scope.tools.find(&prepared.tool) {
        Some(tool) => tool.classifier_input(&*prepared.typed),
        // A command's request for a host belongs to no tool.
        None => prepared.input.to_string(),
    };
    (!text.is_empty()).then_some(text)
}

/// Returns the sandbox placement of a call's commands.
fn sandbox_verdict(
    scope: &CallScope,
    prepared: &PreparedCall,
    sandboxing: Option<&SessionSandbox>,
) -> SandboxPlacement {
    sandboxing.map_or(SandboxPlacement::None, |sandboxing| {
        sandboxing.sandbox_verdict(&prepared.needs, &prepared.given, &scope.services.paths())
    })
}

/// Returns the decider of a call that needed no question.
fn decider(verdict: &Verdict) -> Decider {
    if matches!(verdict.reasons.first(), Some(VerdictReason::Hook(_))) { Decider::Hook } else { Decider::Policy }
}

/// Prepares an edited input from the start; everything is decided again for it.
pub(crate) fn prepare_edited_call(
    scope: &CallScope,
    incoming: &ToolCall,
    input: Box<RawValue>,
) -> Result<Box<PreparedCall>, Refusal> {
    let changed = ToolCall { input: Arc::from(input), bad_input: None, ..incoming.clone() };
    call::prepare_call(scope, &changed, InputAuthor::Answer, &scope.services.paths())
        .map(|(_, prepared)| Box::new(prepared))
        .map_err(Refusal::Invalid)
}

fn to_raw(value: &serde_json::Value) -> Arc<RawValue> {
    Arc::from(to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned()))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Only whole values are swapped under these locks, so a poisoned lock still guards a whole value.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
