//! From what a call needs to a verdict: paths are followed, the circumstances put together and the pure decision asked.
//! The gate uses it for every call; whoever only wants to know what would be decided uses it without a session.

use std::path::{Path, PathBuf};

use gimlet_policy::{
    Call, ClosedFiles, Decision, Destination, FileView, Followed, HookSay, NeedFacts, PartVerdict, Reason, RuleSet,
    RuleSource, Suggestion, Verdict, Walls, World,
};
use gimlet_proto::{Need, PermissionMode};
use serde_json::{Map, Value};

use crate::tool::{PathContext, PermissionVerdict, Prepared};

/// What a verdict depends on besides the call.
#[derive(Clone, Copy)]
pub struct Judging<'a> {
    pub mode: PermissionMode,
    /// The session could go over to bypassing permissions.
    pub bypass_reachable: bool,
    pub rules: &'a RuleSet,
    pub paths: &'a PathContext,
    /// Further folders that may always be read.
    pub readable: &'a [PathBuf],
    /// Folders of the session's own, which it may always write.
    pub own: &'a [PathBuf],
    /// Where the call's commands run.
    pub walls: Walls,
    /// A reviewer looks at commands while only a plan is made.
    pub plan_reviewed: bool,
    /// Files that say what is allowed; see [`World::governing`].
    pub governing: &'a [PathBuf],
    /// The session has a sandbox.
    pub walled: bool,
    /// Commands are run by zsh.
    pub zsh: bool,
    /// The files that the call would meet.
    pub view: &'a dyn FileView,
}

/// What a call would touch and what it was given.
#[derive(Clone, Copy)]
pub struct Judged<'a> {
    pub tool: &'a str,
    /// Other names that rules may use for it.
    pub also_named: &'a [String],
    pub needs: &'a [Need],
    pub input: Option<&'a Map<String, Value>>,
    pub needs_person: bool,
    /// The tool's own say.
    pub own: &'a PermissionVerdict,
}

impl<'a> From<&'a Prepared> for Judged<'a> {
    fn from(prepared: &'a Prepared) -> Self {
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

/// A verdict with what was found out on the way to it.
pub(super) struct Judgement {
    pub(super) verdict: Verdict,
    /// Each path of the call and what it really is.
    pub(super) resolved: Vec<(PathBuf, PathBuf)>,
    pub(super) closed: Option<ClosedFiles>,
}

impl Judging<'_> {
    /// What would be decided about a call. Runs nothing and asks nobody.
    pub fn verdict(&self, judged: Judged<'_>) -> Verdict {
        self.judge(judged, None).verdict
    }

    /// What would be decided about each part of the call's commands by itself.
    pub fn parts(&self, judged: Judged<'_>) -> Vec<PartVerdict> {
        let (needs, world) = (self.facts(judged.needs), self.world());
        gimlet_policy::decide_parts(&call(judged, &needs), self.rules, &world, self.view)
    }

    /// What "don't ask again" could save for a call that asks.
    pub fn suggestions(&self, judged: Judged<'_>) -> Vec<Suggestion> {
        let (needs, world) = (self.facts(judged.needs), self.world());
        let verdict = with_own_verdict(self.decide(judged, &needs, &world, None), judged.own);
        if verdict.decision != Decision::Ask || verdict.reasons.iter().any(|reason| matches!(reason, Reason::Tool(_))) {
            return Vec::new();
        }
        gimlet_policy::suggestions(&call(judged, &needs), self.rules, &world, self.view, &|to| self.source_of(to))
    }

    /// What "don't ask again" could save for a call that is asked about only because it could not work confined.
    pub(super) fn suggestions_after_confinement(&self, judged: Judged<'_>) -> Vec<Suggestion> {
        let (needs, world) = (self.facts(judged.needs), self.world());
        let call = call(judged, &needs);
        gimlet_policy::suggestions_to_run_unconfined(&call, self.rules, &world, self.view, &|to| self.source_of(to))
    }

    /// Generated patterns begin at the root of the file system, so their anchor does not matter.
    fn source_of(&self, destination: Destination) -> RuleSource {
        destination.source(&self.paths.project_dir)
    }

    /// `hook` is what hooks said about the call before.
    pub(super) fn judge(&self, judged: Judged<'_>, hook: Option<&HookSay>) -> Judgement {
        let (needs, world) = (self.facts(judged.needs), self.world());
        let verdict = with_own_verdict(self.decide(judged, &needs, &world, hook), judged.own);
        let resolved = needs.iter().filter_map(|facts| Some((path_of(&facts.need)?.clone(), facts.resolved.clone()?)));
        Judgement { verdict, resolved: resolved.collect(), closed: ClosedFiles::new(self.rules, &world, &needs) }
    }

    fn decide(&self, judged: Judged<'_>, needs: &[NeedFacts], world: &World, hook: Option<&HookSay>) -> Verdict {
        gimlet_policy::decide_after_hook(&call(judged, needs), self.rules, world, self.view, hook)
    }

    fn facts(&self, needs: &[Need]) -> Vec<NeedFacts> {
        let facts = |need: &Need| NeedFacts::new(need.clone(), path_of(need).and_then(|path| self.lead(path)));
        needs.iter().map(facts).collect()
    }

    /// Relative paths begin at the working directory.
    fn lead(&self, path: &Path) -> Option<Followed> {
        self.view.follow(&self.paths.cwd.join(path))
    }

    fn world(&self) -> World {
        let paths = self.paths;
        World {
            mode: self.mode,
            start: self.both_spellings(std::slice::from_ref(&paths.project_dir)),
            resolved_cwd: self.lead(&paths.cwd).map(|cwd| cwd.real).filter(|real| *real != paths.cwd),
            roots: self.both_spellings(&paths.roots),
            readable: self.both_spellings(self.readable),
            own_writable: self.own_spellings(),
            cwd: paths.cwd.clone(),
            home: paths.home.clone(),
            environment: paths.environment.clone(),
            bypass_available: self.bypass_reachable,
            walls: self.walls,
            plan_reviewed: self.plan_reviewed,
            governing: self.both_spellings(self.governing),
            zsh: self.zsh,
            walled: self.walled,
        }
    }

    /// The session's own folders as spelt and as they really are. Below the project only the project itself is followed:
    /// a link that it brings along must not make another folder the session's own.
    fn own_spellings(&self) -> Vec<PathBuf> {
        let project = &self.paths.project_dir;
        let mut all = Vec::with_capacity(self.own.len() * 2);
        for folder in self.own {
            let real = match folder.strip_prefix(project) {
                Ok(rest) => self.lead(project).map(|followed| followed.real.join(rest)),
                Err(_) => self.lead(folder).map(|followed| followed.real),
            };
            all.push(folder.clone());
            all.extend(real.filter(|real| real != folder));
        }
        all
    }

    /// Folders as spelt and as they really are.
    fn both_spellings(&self, folders: &[PathBuf]) -> Vec<PathBuf> {
        let mut all: Vec<PathBuf> = Vec::with_capacity(folders.len() * 2);
        for folder in folders {
            all.push(folder.clone());
            all.extend(self.lead(folder).map(|followed| followed.real).filter(|real| real != folder));
        }
        all
    }
}

fn call<'a>(judged: Judged<'a>, needs: &'a [NeedFacts]) -> Call<'a> {
    Call {
        tool: judged.tool,
        also_named: judged.also_named,
        input: judged.input,
        needs,
        needs_person: judged.needs_person,
    }
}

/// The path that a need is about.
fn path_of(need: &Need) -> Option<&PathBuf> {
    match need {
        Need::Read(path) | Need::Write(path) => Some(path),
        Need::Run(_) | Need::Fetch(_) | Need::Session | Need::Opaque => None,
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
        };
        let own = ["/repo/.claude/agent-memory".into(), "/home/ada/.claude/plans".into()];
        let judging = Judging {
            mode: PermissionMode::AcceptEdits,
            bypass_reachable: false,
            plan_reviewed: false,
            rules: &RuleSet::default(),
            paths: &paths,
            readable: &[],
            own: &own,
            walls: Walls::None,
            governing: &[],
            zsh: false,
            walled: false,
            view: &links,
        };
        let write = |path: &str| {
            let needs = [Need::Write(path.into())];
            let own = &PermissionVerdict::Passthrough;
            judging
                .verdict(Judged {
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
