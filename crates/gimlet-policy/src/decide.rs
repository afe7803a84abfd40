//! The decision itself, in one fixed order: deny rules, what the mode blocks, ask rules, needs that always ask, grants
//! by the mode, a rule or harmlessness, and otherwise a question. Every need of a call must pass; the strictest
//! outcome wins. No input can make it wait or fail: doubt asks.

mod call_condition;
mod command_files;
mod grants;
mod near_rules;
mod other_homes;
mod rule_subject;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gimlet_proto::{AccessNeed, PermissionMode};
use serde_json::{Map, Value};

use crate::paths::{
    AnchorDirs, FileView, FollowedPath, LinkFreeView, MatchStrictness, PathPattern, is_inside, is_protected, normalise,
};
use crate::rules::{Behavior, CommandPattern, MatchCertainty, Rule, RuleSet, RuleSpecifier};
use crate::shell::{
    EnvironmentNames, ParseTrouble, PatternLookup, PossibleLaunches, ShellAnalysis, ShellFacts, analyse,
    analyse_for_zsh, find_possible_launches, launch_candidates,
};
use crate::verdict::{Decision, PartVerdict, Verdict, VerdictReason};
pub use call_condition::{CallCondition, match_conditions};
use rule_subject::{CommandFiles, FileAccess, RuleSubject};

/// Limit of words that could start a program that a rule is about, but begin another command of that program.
const MOST_DOUBTS: usize = 64;

/// One need, with the facts that the caller found about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeedFacts {
    pub need: AccessNeed,
    /// For a path: its target once symlinks are followed (for a file that does not exist yet, through its deepest
    /// existing ancestor). `None` for a path means that it could not be resolved, and then it is not allowed without a
    /// question.
    pub resolved: Option<PathBuf>,
    /// The path after each symlink on the way: a rule may name one in the middle of a chain.
    pub hops: Vec<PathBuf>,
}

impl NeedFacts {
    /// Creates the facts of a need, with the target of a path.
    pub fn new(need: AccessNeed, followed: Option<FollowedPath>) -> Self {
        let FollowedPath { real, hops } = match followed {
            Some(followed) => followed,
            None => return Self { need, resolved: None, hops: Vec::new() },
        };
        Self { need, resolved: Some(real), hops }
    }
}

/// A call to decide on.
#[derive(Clone, Copy, Debug)]
pub struct ProposedCall<'a> {
    pub tool: &'a str,
    /// Other names that rules may use for it: the original names of a server and its tool.
    pub also_named: &'a [String],
    /// The top-level parameters of the call, for rules about parameters. `None` when they are not known; such a rule
    /// then asks.
    pub input: Option<&'a Map<String, Value>>,
    pub needs: &'a [NeedFacts],
    /// True if the tool is a question to the user by nature.
    pub needs_person: bool,
}

/// Circumstances of a session that decisions depend on.
#[derive(Clone, Debug, Default)]
pub struct DecisionContext {
    pub mode: PermissionMode,
    /// The working directory, absolute and normalised.
    pub cwd: PathBuf,
    /// The working directory with symlinks followed, when that differs.
    pub resolved_cwd: Option<PathBuf>,
    /// The directory that the session started in, in both spellings where symlinks make a difference; empty when that
    /// is `cwd`. A command may change `cwd`, but never the meaning of a rule.
    pub start: Vec<PathBuf>,
    /// All working directories, `cwd` among them, in both spellings where symlinks make a difference.
    pub roots: Vec<PathBuf>,
    /// Further directories that may always be read, such as the session's stored tool results.
    pub readable_dirs: Vec<PathBuf>,
    /// Directories of the session's own that may always be written, such as that of its plans, even below a protected
    /// one; in both spellings where symlinks make a difference.
    pub session_dirs: Vec<PathBuf>,
    pub home: Option<PathBuf>,
    /// Variables that the shell of a command starts with. `None` when they are not known, and then every one may have
    /// a value.
    pub environment: Option<Arc<EnvironmentNames>>,
    /// True if the session could switch to `bypassPermissions`: then `plan` only asks the model to hold back.
    pub bypass_available: bool,
    /// Sandbox that the call's commands run in.
    pub sandbox: SandboxPlacement,
    /// True if a classifier reviews commands in plan mode.
    pub plan_reviewed: bool,
    /// Files that define permissions: settings and records of trust, in both spellings where symlinks make a
    /// difference. Only the user decides on writing them.
    pub policy_files: Vec<PathBuf>,
    /// True if commands are run by zsh instead of bash.
    pub zsh: bool,
    /// True if the session has a sandbox. Then no mode lifts the question about `policy_files`, which could open it.
    pub has_sandbox: bool,
}

/// Sandboxing of a call's commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SandboxPlacement {
    /// There is no sandbox for them.
    #[default]
    None,
    /// They run in a sandbox, and ask like any other.
    Inside,
    /// They run in a complete sandbox, and the user accepted it in place of questions.
    Sufficient,
    /// There is one, and the call requests to run outside of it.
    Outside,
}

impl DecisionContext {
    /// Analyses a command in this context.
    pub(crate) fn analyse_command(&self, text: &str) -> ShellAnalysis {
        let facts = self.shell_facts();
        if self.zsh { analyse_for_zsh(text, &facts) } else { analyse(text, &facts) }
    }

    pub(crate) fn shell_facts(&self) -> ShellFacts<'_> {
        // The variables that zsh sets by itself are not known here.
        let environment = if self.zsh { None } else { self.environment.as_deref() };
        ShellFacts { cwd: &self.cwd, roots: &self.roots, home: self.home.as_deref(), environment }
    }

    fn cwd_spellings(&self) -> Vec<PathBuf> {
        std::iter::once(self.cwd.clone()).chain(self.resolved_cwd.clone()).collect()
    }

    /// Returns the directories that relative patterns of allow rules are anchored at: only those that the session
    /// started in.
    pub(crate) fn allow_anchors(&self) -> Vec<PathBuf> {
        if self.start.is_empty() { self.cwd_spellings() } else { self.start.clone() }
    }

    /// Returns the directories that relative patterns of forbidding rules are anchored at: those that the session
    /// started in, and the current one.
    pub(crate) fn deny_anchors(&self) -> Vec<PathBuf> {
        let mut anchors = self.cwd_spellings();
        anchors.extend(self.start.iter().filter(|start| **start != self.cwd).cloned());
        anchors
    }

    fn is_in_roots(&self, path: &Path) -> bool {
        self.roots.iter().any(|root| is_inside(path, root))
    }

    /// Returns true for a file of the session's own; protected paths below its directory stay protected.
    fn is_session_file(&self, path: &Path) -> bool {
        let below = self.session_dirs.iter().filter_map(|root| path.strip_prefix(root).ok());
        below.into_iter().any(|rest| !is_protected(&normalise(Path::new("/"), rest)))
    }

    /// Returns true if a write to the path needs the user unless the mode lifts the question.
    fn is_protected_from_writes(&self, path: &Path) -> bool {
        self.is_policy_file(path) || (is_protected(path) && !self.is_session_file(path))
    }

    /// Returns true if the path is a file that defines permissions.
    pub(crate) fn is_policy_file(&self, path: &Path) -> bool {
        self.policy_files.iter().any(|file| path == file)
    }

    /// Returns true if the mode allows everything that is not decided otherwise.
    fn skips_questions(&self) -> bool {
        self.mode == PermissionMode::BypassPermissions || (self.mode == PermissionMode::Plan && self.bypass_available)
    }

    /// Returns true if the sandbox replaces the question about a command; never in plan mode.
    fn is_sandbox_sufficient(&self) -> bool {
        self.sandbox == SandboxPlacement::Sufficient && self.mode != PermissionMode::Plan
    }

    fn is_readable(&self, path: &Path) -> bool {
        self.is_in_roots(path)
            || self.is_session_file(path)
            || self.readable_dirs.iter().any(|root| is_inside(path, root))
    }
}

/// Decides on a call, assuming that there are no symlinks.
pub fn decide(call: &ProposedCall<'_>, rules: &RuleSet, world: &DecisionContext) -> Verdict {
    decide_with_files(call, rules, world, &LinkFreeView { cwd: &world.cwd })
}

/// Decides on a call. The files that a command names are only found while it is analysed, so `view` is queried about
/// them: with absolute paths in which `..` is kept, since it has another meaning behind a symlink.
pub fn decide_with_files(
    call: &ProposedCall<'_>,
    rules: &RuleSet,
    world: &DecisionContext,
    view: &dyn FileView,
) -> Verdict {
    decide_after_hook(call, rules, world, view, None)
}

/// Decision of a hook that ran before the call; a hook that denies never gets here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookDecision {
    /// The hook allows the call, with its message for users.
    Allow(String),
    Ask(String),
}

/// Decides on a call that a hook has decided on. A hook's permission never overrides a rule that forbids, a protected
/// path, a critical removal or a call that always needs the user.
pub fn decide_after_hook(
    call: &ProposedCall<'_>,
    rules: &RuleSet,
    world: &DecisionContext,
    view: &dyn FileView,
    hook: Option<&HookDecision>,
) -> Verdict {
    let subjects = rule_subject::build_subjects(call, rules, world, view);
    PolicyEvaluator::new(call, rules, world, &subjects, hook).evaluate()
}

/// Decides on each part of a call's commands by itself; the strictest of these decides on the whole, unless something
/// about the whole does. Returns an empty list where there are no separate parts.
pub fn decide_parts(
    call: &ProposedCall<'_>,
    rules: &RuleSet,
    world: &DecisionContext,
    view: &dyn FileView,
) -> Vec<PartVerdict> {
    let subjects = rule_subject::build_subjects(call, rules, world, view);
    PolicyEvaluator::new(call, rules, world, &subjects, None).decide_each_part()
}

struct PolicyEvaluator<'a> {
    call: &'a ProposedCall<'a>,
    rules: &'a RuleSet,
    context: &'a DecisionContext,
    allow_anchors: Vec<PathBuf>,
    deny_anchors: Vec<PathBuf>,
    subjects: &'a [RuleSubject],
    hook: Option<&'a HookDecision>,
}

impl<'a> PolicyEvaluator<'a> {
    fn new(
        call: &'a ProposedCall<'a>,
        rules: &'a RuleSet,
        context: &'a DecisionContext,
        subjects: &'a [RuleSubject],
        hook: Option<&'a HookDecision>,
    ) -> Self {
        let (allow_anchors, deny_anchors) = (context.allow_anchors(), context.deny_anchors());
        Self { call, rules, context, allow_anchors, deny_anchors, subjects, hook }
    }
}

impl PolicyEvaluator<'_> {
    /// Evaluates the call. If rules could not be read, an explicit permission is required: a rule that could be read,
    /// or a hook.
    fn evaluate(&self) -> Verdict {
        let verdict = self.evaluate_in_order();
        let is_said = |reason: &VerdictReason| {
            matches!(reason, VerdictReason::Rule { .. } | VerdictReason::Hook(_) | VerdictReason::SessionState)
        };
        let may_stay = |verdict: &Verdict| verdict.decision != Decision::Allow || verdict.reasons.iter().all(is_said);
        if !self.rules.has_unread_settings || may_stay(&verdict) {
            return verdict;
        }
        if let Some(rule) = self.find_allow_rule(|_| false) {
            return Verdict::new(Decision::Allow, rule);
        }
        // A mode or the sandbox may have answered before any rule was searched.
        let granted = self.grant_all_needs();
        let is_granted = granted.decision == Decision::Allow && may_stay(&granted);
        if is_granted { granted } else { self.ask_user(VerdictReason::UnreadSettings) }
    }

    fn evaluate_in_order(&self) -> Verdict {
        let (denied, maybe_denied) = self.find_forbidding_rule(Behavior::Deny);
        if let Some(reason) = denied {
            return Verdict::new(Decision::Deny, reason);
        }
        let other_home = self.find_other_users_file();
        let may_ask = matches!(self.context.mode, PermissionMode::Default | PermissionMode::AcceptEdits);
        if let Some(reason) = other_home.clone().filter(|_| !may_ask) {
            return Verdict::new(Decision::Deny, reason);
        }
        // Before ask rules: an ask rule must not open what the mode blocks.
        let plan = self.context.mode == PermissionMode::Plan && !self.context.skips_questions();
        if plan && self.subjects.iter().any(|subject| self.is_blocked_by_plan(subject)) {
            return Verdict::new(Decision::Deny, VerdictReason::Mode(PermissionMode::Plan));
        }
        let leaves =
            self.context.sandbox == SandboxPlacement::Outside && self.subjects.iter().any(RuleSubject::is_command);
        let (asked, maybe_asked) = self.find_forbidding_rule(Behavior::Ask);
        if let Some(reason) = asked.or(maybe_denied).or(maybe_asked).or_else(|| self.find_parse_doubt()) {
            let certain = matches!(reason, VerdictReason::Rule { .. });
            let mut verdict = self.ask_user(reason);
            // A user who is asked because of a doubt should also see the reasons that are certain.
            verdict
                .reasons
                .extend(self.find_mandatory_question().filter(|more| !certain && !verdict.reasons.contains(more)));
            // A hook must not answer in place of the user that a command may leave the sandbox.
            verdict.reasons.extend(leaves.then_some(VerdictReason::LeavesSandbox));
            return verdict;
        }
        if leaves {
            return self.ask_user(VerdictReason::LeavesSandbox);
        }
        if let Some(reason) = self.find_mandatory_question() {
            return match reason {
                // A removal or a protected file can be judged from the call; the other reasons need the user.
                VerdictReason::CriticalRemoval(_) | VerdictReason::ProtectedPath(_) if !self.needs_user_decision() => {
                    self.ask_classifier_or_user(reason)
                }
                _ => self.ask_user(reason),
            };
        }
        if let Some(reason) = other_home {
            return self.ask_user(reason);
        }
        match self.hook {
            Some(HookDecision::Allow(why)) => return Verdict::new(Decision::Allow, VerdictReason::Hook(why.clone())),
            Some(HookDecision::Ask(why)) => return self.ask_user(VerdictReason::Hook(why.clone())),
            None => {}
        }
        if self.context.skips_questions() {
            return Verdict::new(Decision::Allow, VerdictReason::Mode(PermissionMode::BypassPermissions));
        }
        if self.context.is_sandbox_sufficient() && self.subjects.iter().any(RuleSubject::is_command) {
            return Verdict::new(Decision::Allow, VerdictReason::Sandboxed);
        }
        self.grant_all_needs()
    }

    /// Returns true if plan mode blocks the subject. A plan may be written while nothing else may be written.
    fn is_blocked_by_plan(&self, subject: &RuleSubject) -> bool {
        match subject {
            RuleSubject::Path { spelled, resolved, write: true, .. } => {
                !(self.context.is_session_file(spelled)
                    && resolved.as_deref().is_some_and(|path| self.context.is_session_file(path)))
            }
            _ => false,
        }
    }

    /// Returns a question that a classifier may answer where the mode has one.
    fn ask_classifier_or_user(&self, reason: VerdictReason) -> Verdict {
        let mut verdict = self.ask_user(reason);
        let in_plan = self.context.mode == PermissionMode::Plan && self.context.plan_reviewed;
        if self.context.mode == PermissionMode::Auto || (in_plan && self.subjects.iter().any(RuleSubject::is_command)) {
            verdict.reasons.push(VerdictReason::ClassifierMayAnswer);
        }
        verdict
    }

    /// Returns a question, which `dontAsk` mode turns into a refusal.
    fn ask_user(&self, reason: VerdictReason) -> Verdict {
        match self.context.mode {
            PermissionMode::DontAsk => Verdict {
                decision: Decision::Deny,
                reasons: vec![VerdictReason::Mode(PermissionMode::DontAsk), reason],
            },
            _ => Verdict::new(Decision::Ask, reason),
        }
    }

    /// Returns the first rule of a kind that matches, and the first that would match for some value of the unknown
    /// parts.
    fn find_forbidding_rule(&self, behavior: Behavior) -> (Option<VerdictReason>, Option<VerdictReason>) {
        let mut perhaps = None;
        // An ask rule about every command is answered by a sandbox; one about certain commands is not.
        let answered = behavior == Behavior::Ask && self.context.is_sandbox_sufficient();
        let asks_always = |rule: &&Rule| rule.specifier == RuleSpecifier::All && rule.tool == "Bash";
        for rule in self.rules.rules(behavior).iter().filter(|rule| !(answered && asks_always(rule))) {
            // One doubt is enough; after it only certain matches are new.
            let doubts = perhaps.is_none();
            match self
                .subjects
                .iter()
                .map(|subject| self.match_subject(rule, subject, doubts))
                .max()
                .unwrap_or(MatchCertainty::No)
            {
                MatchCertainty::Yes => return (Some(rule.to_reason(behavior)), perhaps),
                MatchCertainty::Perhaps => {
                    let (text, source) = (rule.text.clone(), rule.source.clone());
                    perhaps.get_or_insert(VerdictReason::MayMatchRule { text, source });
                }
                MatchCertainty::No => {}
            }
        }
        (None, perhaps)
    }

    fn match_subject(&self, rule: &Rule, subject: &RuleSubject, doubts: bool) -> MatchCertainty {
        match (&rule.specifier, subject) {
            (RuleSpecifier::All, _) if rule.may_name_tool(self.call.tool, self.call.also_named) => MatchCertainty::Yes,
            // A rule against the shell applies to every tool that runs a command.
            (RuleSpecifier::All, RuleSubject::Run { .. }) if rule.tool == "Bash" => MatchCertainty::Yes,
            (RuleSpecifier::Parameter(_) | RuleSpecifier::Agent(_) | RuleSpecifier::Skill(_), _) => {
                self.match_input(rule)
            }
            (RuleSpecifier::Command(pattern), RuleSubject::Run { analysis, launches: launched, .. }) => {
                let reached = analysis.reachable_commands().chain(analysis.completed_commands());
                if !doubts {
                    let mut reached = reached;
                    return if reached.any(|words| pattern.certainly_forbids(words)) {
                        MatchCertainty::Yes
                    } else {
                        MatchCertainty::No
                    };
                }
                match reached.map(|words| pattern.forbids(words)).max() {
                    Some(fit) if fit > MatchCertainty::No => fit,
                    _ if analysis.runs_hidden_text => MatchCertainty::Perhaps,
                    _ if may_launch_forbidden_program(
                        launched.get_or_init(|| find_possible_launches(analysis)),
                        pattern,
                    ) =>
                    {
                        MatchCertainty::Perhaps
                    }
                    _ => MatchCertainty::No,
                }
            }
            (RuleSpecifier::Path(pattern), RuleSubject::Path { spelled, resolved, hops, write, .. }) => {
                // A file that may not be read may not be changed either.
                let governs = *write || rule.tool == "Read";
                let hit = |path: &Path| self.path_rule_matches(pattern, rule, path);
                let mut led_to = resolved.iter().chain(hops);
                if governs && (hit(spelled) || led_to.any(|path| hit(path))) {
                    MatchCertainty::Yes
                } else {
                    MatchCertainty::No
                }
            }
            (RuleSpecifier::Path(pattern), RuleSubject::Run { analysis, files, .. }) => {
                let unseen = if analysis.runs_hidden_text { MatchCertainty::Perhaps } else { MatchCertainty::No };
                self.match_files(pattern, rule, files).max(unseen)
            }
            (RuleSpecifier::Domain(pattern), RuleSubject::Fetch { host }) => match host {
                Some(host) if pattern.matches(host) => MatchCertainty::Yes,
                Some(_) => MatchCertainty::No,
                None => MatchCertainty::Perhaps,
            },
            _ => MatchCertainty::No,
        }
    }

    /// Matches rules about the call's parameters rather than its needs.
    fn match_input(&self, rule: &Rule) -> MatchCertainty {
        let input = self.call.input;
        match &rule.specifier {
            _ if !rule.may_name_tool(self.call.tool, self.call.also_named) => MatchCertainty::No,
            RuleSpecifier::Parameter(pattern) => pattern.forbids(input),
            RuleSpecifier::Agent(pattern) => pattern.forbids(input),
            RuleSpecifier::Skill(pattern) => pattern.forbids(input),
            _ => MatchCertainty::No,
        }
    }

    fn match_files(&self, pattern: &PathPattern, rule: &Rule, files: &CommandFiles) -> MatchCertainty {
        let reads = rule.tool == "Read";
        let touched = files.all_accesses().filter(|file| reads || (file.write && !file.copy_source));
        let hit = |path: &PathBuf| self.path_rule_matches(pattern, rule, path);
        let named = if reads { &files.possible_reads } else { &files.possible_changes };
        let perhaps = named.as_ref().is_none_or(|paths| paths.iter().any(hit));
        let mut fit = if perhaps { MatchCertainty::Perhaps } else { MatchCertainty::No };
        for file in touched {
            fit = fit.max(self.match_file(pattern, rule, file));
        }
        fit
    }

    fn match_file(&self, pattern: &PathPattern, rule: &Rule, file: &FileAccess) -> MatchCertainty {
        let hit = |path: &PathBuf| self.path_rule_matches(pattern, rule, path);
        if file.paths.iter().any(hit) {
            return if file.found_by_lookup { MatchCertainty::Perhaps } else { MatchCertainty::Yes };
        }
        let places = || self.anchor_dirs(rule, MatchStrictness::Forbid);
        let below = || match &file.denied_below {
            Some(found) => found.iter().any(hit),
            None => file.paths.iter().any(|path| pattern.may_match_below(path, places())),
        };
        let may_be = |look: &PatternLookup| pattern.may_match_names(&look.pattern, &look.from, file.tree, places());
        let tree = file.tree && !(file.unread_below && rule.tool == "Read");
        let doubtful = !(file.certain || file.certain_given_home)
            || (tree && below())
            || file.pattern.as_deref().is_some_and(may_be);
        if doubtful { MatchCertainty::Perhaps } else { MatchCertainty::No }
    }

    fn path_rule_matches(&self, pattern: &PathPattern, rule: &Rule, path: &Path) -> bool {
        pattern.matches(path, self.anchor_dirs(rule, MatchStrictness::Forbid), MatchStrictness::Forbid)
    }

    fn anchor_dirs<'b>(&'b self, rule: &'b Rule, strictness: MatchStrictness) -> AnchorDirs<'b> {
        let working = match strictness {
            MatchStrictness::Allow => &self.allow_anchors,
            MatchStrictness::Forbid => &self.deny_anchors,
        };
        AnchorDirs { working_dirs: working, home: self.context.home.as_deref(), source: &rule.source.anchor }
    }

    /// Returns the doubt about text that is not understood: it may hide what a rule forbids, and no mode lifts that.
    fn find_parse_doubt(&self) -> Option<VerdictReason> {
        let mut scoped = self.rules.deny.iter().chain(&self.rules.ask);
        let scoped = scoped.any(|rule| matches!(rule.specifier, RuleSpecifier::Command(_) | RuleSpecifier::Path(_)));
        if !scoped {
            return None;
        }
        self.subjects.iter().find_map(RuleSubject::trouble).map(VerdictReason::NotUnderstood)
    }

    fn find_mandatory_question(&self) -> Option<VerdictReason> {
        if self.call.needs_person {
            return Some(VerdictReason::NeedsPerson);
        }
        let runs = |what: fn(&ShellAnalysis) -> bool| {
            self.subjects.iter().any(|subject| matches!(subject, RuleSubject::Run { analysis, .. } if what(analysis)))
        };
        // The text was not searched for critical removals.
        if runs(|analysis| analysis.too_long_to_read) {
            return Some(VerdictReason::NotUnderstood(ParseTrouble::TooLong));
        }
        let critical = self.subjects.iter().find_map(|subject| match subject {
            RuleSubject::Run { analysis, files, .. } => {
                analysis.critical_removal.as_ref().or(files.critical_removal.as_ref()).cloned()
            }
            _ => None,
        });
        if let Some(what) = critical {
            return Some(VerdictReason::CriticalRemoval(what));
        }
        if runs(|analysis| analysis.gives_trust) {
            return Some(VerdictReason::GivesTrust);
        }
        let lifted = self.context.skips_questions();
        if (!lifted || self.context.has_sandbox) && runs(|analysis| analysis.changes_settings) {
            return Some(VerdictReason::ChangesSettings);
        }
        let counts = |path: &PathBuf| !lifted || (self.context.has_sandbox && self.context.is_policy_file(path));
        self.subjects
            .iter()
            .find_map(|subject| self.find_protected_write(subject).filter(counts))
            .map(VerdictReason::ProtectedPath)
    }

    /// Returns true if something in the call can only be decided by the user, even if something else in it asks first.
    fn needs_user_decision(&self) -> bool {
        self.subjects.iter().any(|subject| {
            let governs = self.find_protected_write(subject).is_some_and(|path| self.context.is_policy_file(&path));
            let says = |analysis: &ShellAnalysis| analysis.gives_trust || analysis.changes_settings;
            governs || matches!(subject, RuleSubject::Run { analysis, .. } if says(analysis))
        })
    }

    fn find_protected_write(&self, subject: &RuleSubject) -> Option<PathBuf> {
        match subject {
            RuleSubject::Path { spelled, resolved, hops, write: true, .. } => {
                let all = || std::iter::once(spelled).chain(resolved).chain(hops);
                let governing = all().find(|path| self.context.is_policy_file(path));
                governing.or_else(|| all().find(|path| self.context.is_protected_from_writes(path))).cloned()
            }
            RuleSubject::Run { files, .. } => {
                let written = files.all_accesses().filter(|file| file.write).flat_map(|file| &file.paths);
                let governing = written.into_iter().find(|path| self.context.is_policy_file(path)).cloned();
                governing.or_else(|| files.protected.clone())
            }
            _ => None,
        }
    }
}

/// Returns true if a program that the rule is about could be started in a way that no table lists.
fn may_launch_forbidden_program(launched: &PossibleLaunches, pattern: &CommandPattern) -> bool {
    let mut doubts = 0;
    launched.too_many
        || launched.commands.iter().flat_map(|words| launch_candidates(words)).any(|(name, words)| {
            pattern.may_name(name) && {
                doubts += 1;
                doubts > MOST_DOUBTS || pattern.forbids(words) > MatchCertainty::No
            }
        })
}
