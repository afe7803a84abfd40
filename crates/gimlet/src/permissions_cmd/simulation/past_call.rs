//! Context of a past call, and the decision on it there.

use std::path::PathBuf;

use gimlet_app::ProcessEnv;
use gimlet_core::tool::PathContext;
use gimlet_core::{DiskFileView, PolicyInput};
use gimlet_policy::{RuleSet, SandboxPlacement, Verdict, VerdictReason};
use gimlet_proto::PermissionMode;
use gimlet_store::{DecisionLine, PastCall};

use super::ComparedRules;
use crate::permissions_cmd::parsed_call::ParsedCall;

/// Context of a past call, as far as it is known.
pub(super) struct PastCallContext {
    pub(super) paths: PathContext,
    pub(super) mode: PermissionMode,
    readable: Vec<PathBuf>,
    own: Vec<PathBuf>,
    governing: Vec<PathBuf>,
    walls: SandboxPlacement,
}

impl PastCallContext {
    pub(super) fn for_call(
        call: &PastCall,
        line: Option<&DecisionLine>,
        sides: &ComparedRules,
        around: &ProcessEnv,
    ) -> Self {
        let cwd = line.and_then(|line| line.cwd.as_ref().map(PathBuf::from)).or_else(|| call.cwd.clone());
        let mode = line.map(|line| line.mode.as_str()).or(call.mode.as_deref());
        let mut roots = vec![sides.start.clone()];
        let added = line.map(|line| line.added.as_slice()).unwrap_or_default().iter().map(PathBuf::from);
        for root in added.chain(sides.directories.iter().cloned()) {
            if !roots.contains(&root) {
                roots.push(root);
            }
        }
        let there = ProcessEnv { cwd: sides.start.clone(), ..around.clone() };
        Self {
            paths: PathContext {
                cwd: cwd.unwrap_or_else(|| sides.start.clone()),
                project_dir: sides.start.clone(),
                roots,
                home: around.home.clone(),
                env: around.env.clone(),
                environment: crate::permissions_cmd::inherited_variable_names(&around.env),
                skills: std::sync::Arc::default(),
            },
            mode: mode.and_then(|mode| mode.parse().ok()).unwrap_or_default(),
            readable: vec![sides.results.clone()],
            own: gimlet_app::start::session_folders(around),
            governing: gimlet_app::settings_mapping::find_locations(&there).permission_files(),
            walls: line.map_or(SandboxPlacement::None, recorded_sandbox),
        }
    }
}

/// Returns the recorded sandbox, as far as it decided something; without a record the stricter answer applies.
fn recorded_sandbox(line: &DecisionLine) -> SandboxPlacement {
    let verdict = serde_json::from_str::<Verdict>(line.verdict.get());
    let reasons = verdict.map(|verdict| verdict.reasons).unwrap_or_default();
    if reasons.contains(&VerdictReason::Sandboxed) {
        return SandboxPlacement::Sufficient;
    }
    if reasons.contains(&VerdictReason::LeavesSandbox) { SandboxPlacement::Outside } else { SandboxPlacement::None }
}

/// Decides on a call in its recorded context.
pub(super) fn decide_call(
    call: &ParsedCall,
    rules: &RuleSet,
    mode: PermissionMode,
    place: &PastCallContext,
) -> Verdict {
    let judging = PolicyInput {
        mode,
        // No record shows if bypass mode was available; the stricter answer is used.
        bypass_reachable: false,
        rules,
        paths: &place.paths,
        readable: &place.readable,
        own: &place.own,
        sandbox_verdict: place.walls,
        plan_reviewed: false,
        governing: &place.governing,
        zsh: gimlet_exec::runs_zsh(&place.paths.env),
        has_sandbox: place.walls != SandboxPlacement::None,
        view: &DiskFileView,
    };
    judging.verdict(call.to_policy_call())
}
