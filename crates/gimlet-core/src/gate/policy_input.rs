//! From a call's needs to a verdict: resolves paths, collects the circumstances and calls the pure decision function.
//! The gate uses it for every call; code that only explains a decision uses it without a session.

use std::path::{Path, PathBuf};

use gimlet_policy::{
    CallCondition, Decision, DecisionContext, DeniedFiles, FileView, FollowedPath, HookDecision, NeedFacts,
    PartVerdict, PermissionSuggestion, ProposedCall, RuleSet, RuleSource, SandboxPlacement, UpdateDestination, Verdict,
    VerdictReason,
};
use gimlet_proto::{AccessNeed, PermissionMode};
use serde_json::{Map, Value};

use crate::tool::{PathContext, PermissionVerdict, PreparedCall};

/// Circumstances that a verdict depends on besides the call.
#[derive(Clone, Copy)]
pub struct PolicyInput<'a> {
    pub mode: PermissionMode,
    /// True if the session could switch to bypassing permissions.
    pub bypass_reachable: bool,
    pub rules: &'a RuleSet,
    pub paths: &'a PathContext,
    /// Further folders that may always be read.
    pub readable: &'a [PathBuf],
    /// The session's own folders, which it may always write.
    pub own: &'a [PathBuf],
    /// Sandbox placement of the call's commands.
    pub sandbox_verdict: SandboxPlacement,
    /// True if the reviewer checks commands in plan mode.
    pub plan_reviewed: bool,
    /// Files that define permissions; see [`DecisionContext::policy_files`].
    pub governing: &'a [PathBuf],
    /// True if the session has a sandbox.
    pub has_sandbox: bool,
    /// True if commands are run by zsh.
    pub zsh: bool,
    /// Files that the call would access.
    pub view: &'a dyn FileView,
}

/// Needs and input of a call.
#[derive(Clone, Copy)]
pub struct PolicyCall<'a> {
    pub tool: &'a str,
    /// Other names that rules may use for it.
    pub also_named: &'a [String],
    pub needs: &'a [AccessNeed],
    pub input: Option<&'a Map<String, Value>>,
    pub needs_person: bool,
    /// The tool's own verdict.
    pub own: &'a PermissionVerdict,
}

impl<'a> From<&'a PreparedCall> for PolicyCall<'a> {
    fn from(prepared: &'a PreparedCall) -> Self {
        Self {
            tool: &prepared.tool,
            also_named: &prepared.also_named,
            needs: &prepared.needs,
            input: Some(&prepared.given),
            needs_person: prepared.requires_user_interaction,
            own: &prepared.verdict,
        }
    }
}

/// A verdict with the facts that were collected for it.
pub(super) struct PolicyOutcome {
    pub(super) verdict: Verdict,
    /// Each path of the call with its resolved path.
    pub(super) resolved: Vec<(PathBuf, PathBuf)>,
    pub(super) closed: Option<DeniedFiles>,
}

impl PolicyInput<'_> {
    /// Returns the decision on a call. Runs nothing and asks no questions.
    pub fn verdict(&self, judged: PolicyCall<'_>) -> Verdict {
        self.judge(judged, None).verdict
    }

    /// Returns the decision on each part of the call's commands by itself.
    pub fn part_verdicts(&self, judged: PolicyCall<'_>) -> Vec<PartVerdict> {
        let (needs, world) = (self.need_facts(judged.needs), self.decision_context());
        gimlet_policy::decide_parts(&to_policy_call(judged, &needs), self.rules, &world, self.view)
    }

    /// Returns for each condition whether the call may be meant by it.
    pub fn match_conditions(&self, conditions: &[&CallCondition], call: PolicyCall<'_>) -> Vec<bool> {
        let (needs, world) = (self.need_facts(call.needs), self.decision_context());
        gimlet_policy::match_conditions(conditions, &to_policy_call(call, &needs), &world, self.view)
    }

    /// Returns the rules that "don't ask again" could save for a call that needs a question.
    pub fn suggestions(&self, judged: PolicyCall<'_>) -> Vec<PermissionSuggestion> {
        let (needs, world) = (self.need_facts(judged.needs), self.decision_context());
        let verdict = apply_tool_verdict(self.decide(judged, &needs, &world, None), judged.own);
        if verdict.decision != Decision::Ask
            || verdict.reasons.iter().any(|reason| matches!(reason, VerdictReason::Tool(_)))
        {
            return Vec::new();
        }
        gimlet_policy::suggest_updates(&to_policy_call(judged, &needs), self.rules, &world, self.view, &|to| {
            self.rule_source(to)
        })
    }

    /// Returns the rules that "don't ask again" could save for a call that needs a question only because it failed
    /// under confinement.
    pub(super) fn suggestions_after_confinement(&self, judged: PolicyCall<'_>) -> Vec<PermissionSuggestion> {
        let (needs, world) = (self.need_facts(judged.needs), self.decision_context());
        let call = to_policy_call(judged, &needs);
        gimlet_policy::suggestions_to_run_unconfined(&call, self.rules, &world, self.view, &|to| self.rule_source(to))
    }

    /// Returns the source of a suggested rule. Generated patterns begin at the root of the file system, so their
    /// anchor does not matter.
    fn rule_source(&self, destination: UpdateDestination) -> RuleSource {
        destination.rule_source(&self.paths.project_dir)
    }

    /// Returns the files that no document may lead to.
    pub(super) fn files_denied_to_documents(&self) -> DeniedFiles {
        DeniedFiles::for_documents(self.rules, &self.decision_context())
    }

    /// Decides on a call. `hook` is the decision of hooks on it.
    pub(super) fn judge(&self, judged: PolicyCall<'_>, hook: Option<&HookDecision>) -> PolicyOutcome {
        let (needs, world) = (self.need_facts(judged.needs), self.decision_context());
        let verdict = apply_tool_verdict(self.decide(judged, &needs, &world, hook), judged.own);
        let resolved =
            needs.iter().filter_map(|facts| Some((need_path(&facts.need)?.clone(), facts.resolved.clone()?)));
        PolicyOutcome { verdict, resolved: resolved.collect(), closed: DeniedFiles::new(self.rules, &world, &needs) }
    }

    fn decide(
        &self,
        judged: PolicyCall<'_>,
        needs: &[NeedFacts],
        world: &DecisionContext,
        hook: Option<&HookDecision>,
    ) -> Verdict {
        gimlet_policy::decide_after_hook(&to_policy_call(judged, needs), self.rules, world, self.view, hook)
    }

    fn need_facts(&self, needs: &[AccessNeed]) -> Vec<NeedFacts> {
        let facts =
            |need: &AccessNeed| NeedFacts::new(need.clone(), need_path(need).and_then(|path| self.follow_path(path)));
        needs.iter().map(facts).collect()
    }

    /// Resolves a path; relative ones begin at the working directory.
    fn follow_path(&self, path: &Path) -> Option<FollowedPath> {
        self.view.follow(&self.paths.cwd.join(path))
    }

    fn decision_context(&self) -> DecisionContext {
        let paths = self.paths;
        DecisionContext {
            mode: self.mode,
            start: self.with_resolved_paths(std::slice::from_ref(&paths.project_dir)),
            resolved_cwd: self.follow_path(&paths.cwd).map(|cwd| cwd.real).filter(|real| *real != paths.cwd),
            roots: self.with_resolved_paths(&paths.roots),
            readable_dirs: self.with_resolved_paths(self.readable),
            session_dirs: self.own_paths(),
            cwd: paths.cwd.clone(),
            home: paths.home.clone(),
            environment: paths.environment.clone(),
            bypass_available: self.bypass_reachable,
            sandbox: self.sandbox_verdict,
            plan_reviewed: self.plan_reviewed,
            policy_files: self.with_resolved_paths(self.governing),
            zsh: self.zsh,
            has_sandbox: self.has_sandbox,
        }
    }

    /// Returns the session's own folders as written and resolved. Below the project only the project itself is
    /// resolved: a symlink in it must not make another folder the session's own.
    fn own_paths(&self) -> Vec<PathBuf> {
        let project = &self.paths.project_dir;
        let mut all = Vec::with_capacity(self.own.len() * 2);
        for folder in self.own {
            let real = match folder.strip_prefix(project) {
                Ok(rest) => self.follow_path(project).map(|followed| followed.real.join(rest)),
                Err(_) => self.follow_path(folder).map(|followed| followed.real),
            };
            all.push(folder.clone());
            all.extend(real.filter(|real| real != folder));
        }
        all
    }

    /// Returns folders as written and resolved.
    fn with_resolved_paths(&self, folders: &[PathBuf]) -> Vec<PathBuf> {
        let mut all: Vec<PathBuf> = Vec::with_capacity(folders.len() * 2);
        for folder in folders {
            all.push(folder.clone());
            all.extend(self.follow_path(folder).map(|followed| followed.real).filter(|real| real != folder));
        }
        all
    }
}

fn to_policy_call<'a>(judged: PolicyCall<'a>, needs: &'a [NeedFacts]) -> ProposedCall<'a> {
    ProposedCall {
        tool: judged.tool,
        also_named: judged.also_named,
        input: judged.input,
        needs,
        needs_person: judged.needs_person,
    }
}

/// Returns the path of a need, if it has one.
fn need_path(need: &AccessNeed) -> Option<&PathBuf> {
    match need {
        AccessNeed::Read(path) | AccessNeed::Write(path) => Some(path),
        AccessNeed::Run(_) | AccessNeed::Fetch(_) | AccessNeed::Session | AccessNeed::Opaque => None,
    }
}

/// Applies the tool's own check, which can only make the outcome stricter.
fn apply_tool_verdict(verdict: Verdict, own: &PermissionVerdict) -> Verdict {
    let (decision, why) = match own {
        PermissionVerdict::Passthrough => return verdict,
        PermissionVerdict::Ask(why) => (Decision::Ask, why),
        PermissionVerdict::Deny(why) => (Decision::Deny, why),
    };
    if verdict.decision >= decision {
        return verdict;
    }
    let mut reasons = vec![VerdictReason::Tool(why.clone())];
    reasons.extend(verdict.reasons);
    Verdict { decision, reasons }
}

#[cfg(test)]
mod tests {
    use gimlet_policy::FileTable;
    use gimlet_proto::Env;

    use super::*;

    #[test]
    fn a_link_of_the_project_makes_no_other_folder_the_sessions_own() {
        let mut links = FileTable::default();
        links.add_link("/repo/.claude/agent-memory", "../.git/hooks");
        links.add_link("/home/ada/.claude", "/dotfiles/claude");
        let paths = PathContext {
            cwd: "/repo".into(),
            project_dir: "/repo".into(),
            roots: vec!["/repo".into()],
            home: Some("/home/ada".into()),
            env: Env::default(),
            environment: None,
            skills: std::sync::Arc::default(),
        };
        let own = ["/repo/.claude/agent-memory".into(), "/home/ada/.claude/plans".into()];
        let judging = PolicyInput {
            mode: PermissionMode::AcceptEdits,
            bypass_reachable: false,
            plan_reviewed: false,
            rules: &RuleSet::default(),
            paths: &paths,
            readable: &[],
            own: &own,
            sandbox_verdict: SandboxPlacement::None,
            governing: &[],
            zsh: false,
            has_sandbox: false,
            view: &links,
        };
        let write = |path: &str| {
            let needs = [AccessNeed::Write(path.into())];
            let own = &PermissionVerdict::Passthrough;
            judging
                .verdict(PolicyCall {
                    tool: "Write",
                    also_named: &[],
                    needs: &needs,
                    input: None,
                    needs_person: false,
                    own,
                })
                .decision
        };
        assert_eq!(write("/repo/.claude/agent-memory/pre-commit"), Decision::Ask, "it is a hook of git's");
        assert_eq!(write("/home/ada/.claude/plans/a.md"), Decision::Allow, "the person's own folder is a link");
        assert_eq!(write("/home/ada/.claude/settings.json"), Decision::Ask);
    }
}
