//! The place where a past call was made, and what is decided on it there.

use std::path::PathBuf;

use gimlet_core::tool::PathContext;
use gimlet_core::{Judging, OnDisk};
use gimlet_policy::{Reason, RuleSet, Verdict, Walls};
use gimlet_proto::PermissionMode;
use gimlet_store::{DecisionLine, PastCall};

use super::Sides;
use crate::permissions::call::ReadCall;
use crate::surroundings::Surroundings;

/// Where a call was made, as far as it is known.
pub(super) struct Place {
    pub(super) paths: PathContext,
    pub(super) mode: PermissionMode,
    readable: Vec<PathBuf>,
    own: Vec<PathBuf>,
    governing: Vec<PathBuf>,
    walls: Walls,
}

impl Place {
    pub(super) fn of(call: &PastCall, line: Option<&DecisionLine>, sides: &Sides, around: &Surroundings) -> Self {
        let cwd = line.and_then(|line| line.cwd.as_ref().map(PathBuf::from)).or_else(|| call.cwd.clone());
        let mode = line.map(|line| line.mode.as_str()).or(call.mode.as_deref());
        let mut roots = vec![sides.start.clone()];
        let added = line.map(|line| line.added.as_slice()).unwrap_or_default().iter().map(PathBuf::from);
        for root in added.chain(sides.directories.iter().cloned()) {
            if !roots.contains(&root) {
                roots.push(root);
            }
        }
        let there = Surroundings { cwd: sides.start.clone(), ..around.clone() };
        Self {
            paths: PathContext {
                cwd: cwd.unwrap_or_else(|| sides.start.clone()),
                project_dir: sides.start.clone(),
                roots,
                home: around.home.clone(),
                env: around.env.clone(),
                environment: crate::permissions::known_names(&around.env),
            },
            mode: mode.and_then(|mode| mode.parse().ok()).unwrap_or_default(),
            readable: vec![sides.results.clone()],
            own: crate::start::own_folders(around),
            governing: crate::settings::locations(&there).governing(),
            walls: line.map_or(Walls::None, walls_of),
        }
    }
}

/// The sandbox of then, as far as it decided something; without one the answer is the stricter one.
fn walls_of(line: &DecisionLine) -> Walls {
    let verdict = serde_json::from_str::<Verdict>(line.verdict.get());
    let reasons = verdict.map(|verdict| verdict.reasons).unwrap_or_default();
    if reasons.contains(&Reason::Sandboxed) {
        return Walls::Enough;
    }
    if reasons.contains(&Reason::LeavesSandbox) { Walls::Leaving } else { Walls::None }
}

/// Decides on a call as it would be decided on there.
pub(super) fn judge(call: &ReadCall, rules: &RuleSet, mode: PermissionMode, place: &Place) -> Verdict {
    let judging = Judging {
        mode,
        // No record says whether the session could have gone over to it; the stricter answer is the better one.
        bypass_reachable: false,
        rules,
        paths: &place.paths,
        readable: &place.readable,
        own: &place.own,
        walls: place.walls,
        plan_reviewed: false,
        governing: &place.governing,
        zsh: gimlet_exec::runs_zsh(&place.paths.env),
        walled: place.walls != Walls::None,
        view: &OnDisk,
    };
    judging.verdict(call.judged())
}
