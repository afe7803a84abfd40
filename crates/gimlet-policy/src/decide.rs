//! The decision itself, in one fixed order: deny rules, what the mode blocks, ask rules, things that always ask, what
//! the mode, a rule or harmlessness allows, and otherwise a question. Every need of a call must pass; the strictest
//! outcome wins. No input can make it wait or fail: doubt asks.

mod files;
mod grants;
mod nearby;
mod subject;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gimlet_proto::{Need, PermissionMode};
use serde_json::{Map, Value};

use crate::paths::{FileView, Followed, PathPattern, Places, Strictness, Unseen, is_inside, is_protected, normalise};
use crate::rules::{Behavior, CommandPattern, Fit, Rule, RuleSet, Specifier};
use crate::shell::{
    Analysis, EnvironmentNames, Launches, PatternLook, ShellFacts, Trouble, analyse, analyse_for_zsh, launches, places,
};
use crate::verdict::{Decision, PartVerdict, Reason, Verdict};
use subject::{Files, Subject, Touched};

/// Words that could start what a rule is about, but begin another command of that program, before it is one doubt too many.
const MOST_DOUBTS: usize = 64;

/// One need, with what the caller found out about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeedFacts {
    pub need: Need,
    /// For a path: where it leads once links are followed (for a file that does not exist yet, through its deepest
    /// existing ancestor). `None` for a path means that nobody could say, and then it is not allowed without a question.
    pub resolved: Option<PathBuf>,
    /// The path after each link on the way there: a rule may name one in the middle of a chain.
    pub hops: Vec<PathBuf>,
}

impl NeedFacts {
    /// A need, and for a path where it leads.
    pub fn new(need: Need, followed: Option<Followed>) -> Self {
        let Followed { real, hops } = match followed {
            Some(followed) => followed,
            None => return Self { need, resolved: None, hops: Vec::new() },
        };
        Self { need, resolved: Some(real), hops }
    }
}

/// A call to decide on.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    pub tool: &'a str,
    /// Other names that rules may use for it: those that a server and its tool have for themselves.
    pub also_named: &'a [String],
    /// The top-level parameters as they were given, for rules that speak of one. `None` when nobody knows them; such a
    /// rule then asks.
    pub input: Option<&'a Map<String, Value>>,
    pub needs: &'a [NeedFacts],
    /// The tool is a question to a person by nature.
    pub needs_person: bool,
}

/// The circumstances of a session.
#[derive(Clone, Debug, Default)]
pub struct World {
    pub mode: PermissionMode,
    /// The working directory, absolute and normalised.
    pub cwd: PathBuf,
    /// The same with links followed, when that differs.
    pub resolved_cwd: Option<PathBuf>,
    /// Where the session started, in both spellings where links make a difference; empty when that is `cwd`. A command
    /// may change `cwd`, but never what a rule stands for.
    pub start: Vec<PathBuf>,
    /// All working directories, `cwd` among them, in both spellings where links make a difference.
    pub roots: Vec<PathBuf>,
    /// Further directories that may always be read, such as the session's stored tool results.
    pub readable: Vec<PathBuf>,
    /// Directories of the session's own that may always be written, such as that of its plans, even below a protected
    /// one; in both spellings where links make a difference.
    pub own_writable: Vec<PathBuf>,
    pub home: Option<PathBuf>,
    /// The variables that the shell of a command begins with. `None` when nobody knows them, and then every one may have
    /// a value.
    pub environment: Option<Arc<EnvironmentNames>>,
    /// The session could switch to `bypassPermissions`: then `plan` only asks the model to hold back.
    pub bypass_available: bool,
    /// Where the call's commands run.
    pub walls: Walls,
    /// A reviewer looks at commands while only a plan is made.
    pub plan_reviewed: bool,
    /// Files that say what is allowed: settings and records of trust, in both spellings where links make a difference.
    /// Writing them is a person's to decide.
    pub governing: Vec<PathBuf>,
    /// Commands are run by zsh instead of bash.
    pub zsh: bool,
    /// The session has a sandbox. Then no mode lifts the question about `governing`, which could open it.
    pub walled: bool,
}

/// Whether a call's commands run in a sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Walls {
    /// There is no sandbox for them.
    #[default]
    None,
    /// They do, and ask like any other.
    Inside,
    /// They do, nothing of the sandbox is missing, and the person said that this is enough.
    Enough,
    /// There is one, and the call wants to run outside of it.
    Leaving,
}

impl World {
    /// What a command would do here.
    pub(crate) fn analyse(&self, text: &str) -> Analysis {
        let facts = self.shell_facts();
        if self.zsh { analyse_for_zsh(text, &facts) } else { analyse(text, &facts) }
    }

    pub(crate) fn shell_facts(&self) -> ShellFacts<'_> {
        // What zsh sets by itself is not known here.
        let environment = self.environment.as_deref().filter(|_| !self.zsh);
        ShellFacts { cwd: &self.cwd, roots: &self.roots, home: self.home.as_deref(), environment }
    }

    fn working_spellings(&self) -> Vec<PathBuf> {
        std::iter::once(self.cwd.clone()).chain(self.resolved_cwd.clone()).collect()
    }

    /// Where relative patterns that allow hang: only where the session started.
    pub(crate) fn allowing_anchors(&self) -> Vec<PathBuf> {
        if self.start.is_empty() { self.working_spellings() } else { self.start.clone() }
    }

    /// Where relative patterns that forbid hang: where the session started, and where it is now.
    pub(crate) fn forbidding_anchors(&self) -> Vec<PathBuf> {
        let mut anchors = self.working_spellings();
        anchors.extend(self.start.iter().filter(|start| **start != self.cwd).cloned());
        anchors
    }

    fn is_in_roots(&self, path: &Path) -> bool {
        self.roots.iter().any(|root| is_inside(path, root))
    }

    /// A file of the session's own; what is protected below its directory stays so.
    fn is_own(&self, path: &Path) -> bool {
        let below = self.own_writable.iter().filter_map(|root| path.strip_prefix(root).ok());
        below.into_iter().any(|rest| !is_protected(&normalise(Path::new("/"), rest)))
    }

    /// Whether a write there needs a person unless the mode lifts the question.
    fn protects(&self, path: &Path) -> bool {
        self.governs(path) || (is_protected(path) && !self.is_own(path))
    }

    /// Whether it is a file that says what is allowed.
    pub(crate) fn governs(&self, path: &Path) -> bool {
        self.governing.iter().any(|file| path == file)
    }

    /// What is not decided otherwise is allowed.
    fn lifts_questions(&self) -> bool {
        self.mode == PermissionMode::BypassPermissions || (self.mode == PermissionMode::Plan && self.bypass_available)
    }

    /// The sandbox answers what would be asked about a command. A plan is not carried out in a sandbox either.
    fn walls_are_enough(&self) -> bool {
        self.walls == Walls::Enough && self.mode != PermissionMode::Plan
    }

    fn is_readable(&self, path: &Path) -> bool {
        self.is_in_roots(path) || self.is_own(path) || self.readable.iter().any(|root| is_inside(path, root))
    }
}

/// Decides on a call in a world without links.
pub fn decide(call: &Call<'_>, rules: &RuleSet, world: &World) -> Verdict {
    decide_seeing(call, rules, world, &Unseen { cwd: &world.cwd })
}

/// Decides on a call. The files that a command names only come to light while it is analysed, so `view` is asked about
/// them: absolute paths in which `..` has not been touched, for it means something else behind a link.
pub fn decide_seeing(call: &Call<'_>, rules: &RuleSet, world: &World, view: &dyn FileView) -> Verdict {
    decide_after_hook(call, rules, world, view, None)
}

/// What a hook that looked at the call first has to say; one that denies is not asked about here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookSay {
    /// Run it, with the hook's words for people.
    Allow(String),
    Ask(String),
}

/// Decides on a call that a hook has looked at. A hook's leave never beats a rule that forbids, a protected path, a
/// critical removal or what always wants a person.
pub fn decide_after_hook(
    call: &Call<'_>,
    rules: &RuleSet,
    world: &World,
    view: &dyn FileView,
    hook: Option<&HookSay>,
) -> Verdict {
    let subjects = subject::subjects(call, rules, world, view);
    Judge::new(call, rules, world, &subjects, hook).verdict()
}

/// What is decided about each part of a call's commands by itself; the strictest of these decides on the whole, unless
/// something about the whole does. Empty where there are no parts to tell apart.
pub fn decide_parts(call: &Call<'_>, rules: &RuleSet, world: &World, view: &dyn FileView) -> Vec<PartVerdict> {
    let subjects = subject::subjects(call, rules, world, view);
    Judge::new(call, rules, world, &subjects, None).part_verdicts()
}

struct Judge<'a> {
    call: &'a Call<'a>,
    rules: &'a RuleSet,
    world: &'a World,
    allowing: Vec<PathBuf>,
    forbidding: Vec<PathBuf>,
    subjects: &'a [Subject],
    hook: Option<&'a HookSay>,
}

impl<'a> Judge<'a> {
    fn new(
        call: &'a Call<'a>,
        rules: &'a RuleSet,
        world: &'a World,
        subjects: &'a [Subject],
        hook: Option<&'a HookSay>,
    ) -> Self {
        let (allowing, forbidding) = (world.allowing_anchors(), world.forbidding_anchors());
        Self { call, rules, world, allowing, forbidding, subjects, hook }
    }
}

impl Judge<'_> {
    /// Where rules could not be read, somebody has to have said yes: a rule that could, or a hook.
    fn verdict(&self) -> Verdict {
        let verdict = self.judged();
        let is_said = |reason: &Reason| matches!(reason, Reason::Rule { .. } | Reason::Hook(_) | Reason::SessionState);
        let may_stay = |verdict: &Verdict| verdict.decision != Decision::Allow || verdict.reasons.iter().all(is_said);
        if !self.rules.unread || may_stay(&verdict) {
            return verdict;
        }
        if let Some(rule) = self.allow_rule(|_| false) {
            return Verdict::new(Decision::Allow, rule);
        }
        // A mode or walls may have answered before any rule was looked for.
        let granted = self.granted();
        let is_granted = granted.decision == Decision::Allow && may_stay(&granted);
        if is_granted { granted } else { self.ask_a_person(Reason::UnreadSettings) }
    }

    fn judged(&self) -> Verdict {
        let (denied, maybe_denied) = self.forbidding(Behavior::Deny);
        if let Some(reason) = denied {
            return Verdict::new(Decision::Deny, reason);
        }
        // Before ask rules: a rule that wants to be asked must not open what the mode blocks.
        let plan = self.world.mode == PermissionMode::Plan && !self.world.lifts_questions();
        if plan && self.subjects.iter().any(|subject| self.blocked_by_plan(subject)) {
            return Verdict::new(Decision::Deny, Reason::Mode(PermissionMode::Plan));
        }
        let leaves = self.world.walls == Walls::Leaving && self.subjects.iter().any(Subject::is_run);
        let (asked, maybe_asked) = self.forbidding(Behavior::Ask);
        if let Some(reason) = asked.or(maybe_denied).or(maybe_asked).or_else(|| self.unlifted_doubt()) {
            let certain = matches!(reason, Reason::Rule { .. });
            let mut verdict = self.ask_a_person(reason);
            // Whoever is asked because of a doubt should also hear of what is no doubt.
            verdict.reasons.extend(self.must_ask().filter(|more| !certain && !verdict.reasons.contains(more)));
            // And whatever asks, a hook must not answer for a person that a command may leave its walls.
            verdict.reasons.extend(leaves.then_some(Reason::LeavesSandbox));
            return verdict;
        }
        if leaves {
            return self.ask_a_person(Reason::LeavesSandbox);
        }
        if let Some(reason) = self.must_ask() {
            return match reason {
                // A removal or a protected file can be judged from the call; the others are somebody's own to say.
                Reason::CriticalRemoval(_) | Reason::ProtectedPath(_) if !self.is_a_persons() => self.ask(reason),
                _ => self.ask_a_person(reason),
            };
        }
        match self.hook {
            Some(HookSay::Allow(why)) => return Verdict::new(Decision::Allow, Reason::Hook(why.clone())),
            Some(HookSay::Ask(why)) => return self.ask_a_person(Reason::Hook(why.clone())),
            None => {}
        }
        if self.world.lifts_questions() {
            return Verdict::new(Decision::Allow, Reason::Mode(PermissionMode::BypassPermissions));
        }
        if self.world.walls_are_enough() && self.subjects.iter().any(Subject::is_run) {
            return Verdict::new(Decision::Allow, Reason::Sandboxed);
        }
        self.granted()
    }

    /// A plan may be written down while nothing else may be written.
    fn blocked_by_plan(&self, subject: &Subject) -> bool {
        match subject {
            Subject::Path { spelled, resolved, write: true, .. } => {
                !(self.world.is_own(spelled) && resolved.as_deref().is_some_and(|path| self.world.is_own(path)))
            }
            _ => false,
        }
    }

    /// A question that a classifier may answer where the mode has one.
    fn ask(&self, reason: Reason) -> Verdict {
        let mut verdict = self.ask_a_person(reason);
        let in_plan = self.world.mode == PermissionMode::Plan && self.world.plan_reviewed;
        if self.world.mode == PermissionMode::Auto || (in_plan && self.subjects.iter().any(Subject::is_run)) {
            verdict.reasons.push(Reason::ClassifierMayAnswer);
        }
        verdict
    }

    /// A question, which one mode turns into a refusal.
    fn ask_a_person(&self, reason: Reason) -> Verdict {
        match self.world.mode {
            PermissionMode::DontAsk => {
                Verdict { decision: Decision::Deny, reasons: vec![Reason::Mode(PermissionMode::DontAsk), reason] }
            }
            _ => Verdict::new(Decision::Ask, reason),
        }
    }

    /// The first rule of a kind that matches, and the first that would match for some value of what is not known.
    fn forbidding(&self, behavior: Behavior) -> (Option<Reason>, Option<Reason>) {
        let mut perhaps = None;
        // A question about every command is answered by a sandbox; one about certain commands is not.
        let answered = behavior == Behavior::Ask && self.world.walls_are_enough();
        let asks_always = |rule: &&Rule| rule.specifier == Specifier::All && rule.tool == "Bash";
        for rule in self.rules.rules(behavior).iter().filter(|rule| !(answered && asks_always(rule))) {
            // One doubt is enough; behind it only what is certain is news.
            let doubts = perhaps.is_none();
            match self.subjects.iter().map(|subject| self.forbids(rule, subject, doubts)).max().unwrap_or(Fit::No) {
                Fit::Yes => return (Some(rule.reason(behavior)), perhaps),
                Fit::Perhaps => {
                    let (text, source) = (rule.text.clone(), rule.source.clone());
                    perhaps.get_or_insert(Reason::MayMatchRule { text, source });
                }
                Fit::No => {}
            }
        }
        (None, perhaps)
    }

    fn forbids(&self, rule: &Rule, subject: &Subject, doubts: bool) -> Fit {
        match (&rule.specifier, subject) {
            (Specifier::All, _) if rule.may_name(self.call.tool, self.call.also_named) => Fit::Yes,
            // Whatever tool runs a command, it is the shell that was forbidden.
            (Specifier::All, Subject::Run { .. }) if rule.tool == "Bash" => Fit::Yes,
            (Specifier::Parameter(_) | Specifier::Agent(_) | Specifier::Skill(_), _) => self.forbids_input(rule),
            (Specifier::Command(pattern), Subject::Run { analysis, launches: launched, .. }) => {
                let reached = analysis.reached().chain(analysis.completed());
                if !doubts {
                    let mut reached = reached;
                    return if reached.any(|words| pattern.certainly_forbids(words)) { Fit::Yes } else { Fit::No };
                }
                match reached.map(|words| pattern.forbids(words)).max() {
                    Some(fit) if fit > Fit::No => fit,
                    _ if analysis.runs_unseen_text => Fit::Perhaps,
                    _ if may_launch(launched.get_or_init(|| launches(analysis)), pattern) => Fit::Perhaps,
                    _ => Fit::No,
                }
            }
            (Specifier::Path(pattern), Subject::Path { spelled, resolved, hops, write, .. }) => {
                // A file that may not be read may not be changed either.
                let governs = *write || rule.tool == "Read";
                let hit = |path: &Path| self.path_forbids(pattern, rule, path);
                let mut led_to = resolved.iter().chain(hops);
                if governs && (hit(spelled) || led_to.any(|path| hit(path))) { Fit::Yes } else { Fit::No }
            }
            (Specifier::Path(pattern), Subject::Run { analysis, files, .. }) => {
                let unseen = if analysis.runs_unseen_text { Fit::Perhaps } else { Fit::No };
                self.forbids_files(pattern, rule, files).max(unseen)
            }
            (Specifier::Domain(pattern), Subject::Fetch { host }) => match host {
                Some(host) if pattern.matches(host) => Fit::Yes,
                Some(_) => Fit::No,
                None => Fit::Perhaps,
            },
            _ => Fit::No,
        }
    }

    /// Rules about what the call was given rather than what it needs.
    fn forbids_input(&self, rule: &Rule) -> Fit {
        let input = self.call.input;
        match &rule.specifier {
            _ if !rule.may_name(self.call.tool, self.call.also_named) => Fit::No,
            Specifier::Parameter(pattern) => pattern.forbids(input),
            Specifier::Agent(pattern) => pattern.forbids(input),
            Specifier::Skill(pattern) => pattern.forbids(input),
            _ => Fit::No,
        }
    }

    fn forbids_files(&self, pattern: &PathPattern, rule: &Rule, files: &Files) -> Fit {
        let reads = rule.tool == "Read";
        let touched = files.touched().filter(|file| reads || (file.write && !file.copied));
        let hit = |path: &PathBuf| self.path_forbids(pattern, rule, path);
        let named = if reads { &files.spoken } else { &files.changed };
        let perhaps = named.as_ref().is_none_or(|paths| paths.iter().any(hit));
        let mut fit = if perhaps { Fit::Perhaps } else { Fit::No };
        for file in touched {
            fit = fit.max(self.forbids_file(pattern, rule, file));
        }
        fit
    }

    fn forbids_file(&self, pattern: &PathPattern, rule: &Rule, file: &Touched) -> Fit {
        let hit = |path: &PathBuf| self.path_forbids(pattern, rule, path);
        if file.paths.iter().any(hit) {
            return if file.seen { Fit::Perhaps } else { Fit::Yes };
        }
        let places = || self.places(rule, Strictness::Forbid);
        let below = || match &file.closed_below {
            Some(found) => found.iter().any(hit),
            None => file.paths.iter().any(|path| pattern.may_match_below(path, places())),
        };
        let may_be = |look: &PatternLook| pattern.may_match_names(&look.pattern, &look.from, file.tree, places());
        let tree = file.tree && !(file.unread_below && rule.tool == "Read");
        let doubtful = !(file.certain || file.told) || (tree && below()) || file.may_be.as_deref().is_some_and(may_be);
        if doubtful { Fit::Perhaps } else { Fit::No }
    }

    fn path_forbids(&self, pattern: &PathPattern, rule: &Rule, path: &Path) -> bool {
        pattern.matches(path, self.places(rule, Strictness::Forbid), Strictness::Forbid)
    }

    fn places<'b>(&'b self, rule: &'b Rule, strictness: Strictness) -> Places<'b> {
        let working = match strictness {
            Strictness::Allow => &self.allowing,
            Strictness::Forbid => &self.forbidding,
        };
        Places { working, home: self.world.home.as_deref(), source: &rule.source.anchor }
    }

    /// Text that is not understood may hide what a rule forbids, and no mode lifts that.
    fn unlifted_doubt(&self) -> Option<Reason> {
        let mut scoped = self.rules.deny.iter().chain(&self.rules.ask);
        let scoped = scoped.any(|rule| matches!(rule.specifier, Specifier::Command(_) | Specifier::Path(_)));
        let trouble = self.subjects.iter().find_map(Subject::trouble).filter(|_| scoped)?;
        Some(Reason::NotUnderstood(trouble))
    }

    fn must_ask(&self) -> Option<Reason> {
        if self.call.needs_person {
            return Some(Reason::NeedsPerson);
        }
        let runs = |what: fn(&Analysis) -> bool| {
            self.subjects.iter().any(|subject| matches!(subject, Subject::Run { analysis, .. } if what(analysis)))
        };
        // Nobody looked for what must not be removed.
        if runs(|analysis| analysis.unread) {
            return Some(Reason::NotUnderstood(Trouble::TooLong));
        }
        let critical = self.subjects.iter().find_map(|subject| match subject {
            Subject::Run { analysis, files, .. } => {
                analysis.critical_removal.as_ref().or(files.critical_removal.as_ref()).cloned()
            }
            _ => None,
        });
        if let Some(what) = critical {
            return Some(Reason::CriticalRemoval(what));
        }
        if runs(|analysis| analysis.gives_trust) {
            return Some(Reason::GivesTrust);
        }
        let lifted = self.world.lifts_questions();
        if (!lifted || self.world.walled) && runs(|analysis| analysis.changes_settings) {
            return Some(Reason::ChangesSettings);
        }
        let counts = |path: &PathBuf| !lifted || (self.world.walled && self.world.governs(path));
        self.subjects.iter().find_map(|subject| self.protected_write(subject).filter(counts)).map(Reason::ProtectedPath)
    }

    /// Something in the call is nobody's to judge but a person's, whatever else in it asks first.
    fn is_a_persons(&self) -> bool {
        self.subjects.iter().any(|subject| {
            let governs = self.protected_write(subject).is_some_and(|path| self.world.governs(&path));
            let says = |analysis: &Analysis| analysis.gives_trust || analysis.changes_settings;
            governs || matches!(subject, Subject::Run { analysis, .. } if says(analysis))
        })
    }

    fn protected_write(&self, subject: &Subject) -> Option<PathBuf> {
        match subject {
            Subject::Path { spelled, resolved, hops, write: true, .. } => {
                let all = || std::iter::once(spelled).chain(resolved).chain(hops);
                let governing = all().find(|path| self.world.governs(path));
                governing.or_else(|| all().find(|path| self.world.protects(path))).cloned()
            }
            Subject::Run { files, .. } => {
                let written = files.touched().filter(|file| file.write).flat_map(|file| &file.paths);
                let governing = written.into_iter().find(|path| self.world.governs(path)).cloned();
                governing.or_else(|| files.protected.clone())
            }
            _ => None,
        }
    }
}

/// Whether a program that the rule is about could be started by a way that no table knows.
fn may_launch(launched: &Launches, pattern: &CommandPattern) -> bool {
    let mut doubts = 0;
    launched.too_many
        || launched.commands.iter().flat_map(|words| places(words)).any(|(name, words)| {
            pattern.may_name(name) && {
                doubts += 1;
                doubts > MOST_DOUBTS || pattern.forbids(words) > Fit::No
            }
        })
}
