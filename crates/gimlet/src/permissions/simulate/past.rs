//! A past call, read again by the tool that would run it, in the place where it was made.

use std::path::PathBuf;

use gimlet_core::tool::{AnyTool, PathContext, PermissionVerdict, Prepared};
use gimlet_core::{Judged, Judging, OnDisk};
use gimlet_policy::{Reason, RuleSet, Verdict, Walls};
use gimlet_proto::{Need, PermissionMode};
use gimlet_store::{DecisionLine, PastCall};
use serde_json::{Map, Value};

use super::Sides;
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

/// What a call would touch.
pub(super) enum ReadAgain {
    BuiltIn(Box<Prepared>, &'static str),
    /// A tool that only another program, a server or another version has.
    Other {
        tool: String,
        input: Map<String, Value>,
        needs: Vec<Need>,
        needs_person: bool,
    },
}

impl ReadAgain {
    /// Nothing when the tool does not take such an input.
    pub(super) fn new(call: &PastCall, paths: &PathContext) -> Option<Self> {
        let input: Value = serde_json::from_str(call.input.get()).ok()?;
        if let Some(tool) = built_in(&call.tool) {
            let prepared = tool.prepare(input, paths).ok()?;
            return Some(Self::BuiltIn(Box::new(prepared), tool.name()));
        }
        let Value::Object(input) = input else { return None };
        let text = |name: &str| input.get(name).and_then(Value::as_str);
        let written = || text("file_path").or_else(|| text("notebook_path"));
        let need = match call.tool.as_str() {
            "WebFetch" => text("url").map(|url| Need::Fetch(url.to_owned())),
            "StructuredOutput" => Some(Need::Session),
            "MultiEdit" | "NotebookEdit" => written().map(|path| Need::Write(paths.expand(path.as_ref()))),
            _ => None,
        };
        let needs = vec![need.unwrap_or(Need::Opaque)];
        let needs_person = matches!(call.tool.as_str(), "AskUserQuestion" | "ExitPlanMode");
        Some(Self::Other { tool: call.tool.clone(), input, needs, needs_person })
    }

    pub(super) fn judge(&self, rules: &RuleSet, mode: PermissionMode, place: &Place) -> Verdict {
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
            walled: place.walls != Walls::None,
            view: &OnDisk,
        };
        judging.verdict(match self {
            Self::BuiltIn(prepared, _) => Judged::from(prepared.as_ref()),
            Self::Other { tool, input, needs, needs_person } => Judged {
                tool,
                also_named: &[],
                needs,
                input: Some(input),
                needs_person: *needs_person,
                own: &PermissionVerdict::Passthrough,
            },
        })
    }

    /// Whether people answered it with another input, which is what the ledger has a verdict on.
    pub(super) fn was_answered(&self) -> bool {
        match self {
            Self::BuiltIn(prepared, _) => Judged::from(prepared.as_ref()).needs_person,
            Self::Other { needs_person, .. } => *needs_person,
        }
    }

    /// The tool by its present name, and the command, path or address that it is about.
    pub(super) fn what(&self) -> (String, String) {
        let (tool, needs) = match self {
            Self::BuiltIn(prepared, tool) => ((*tool).to_owned(), &prepared.needs),
            Self::Other { tool, needs, .. } => (tool.clone(), needs),
        };
        let about = needs.iter().find_map(|need| match need {
            Need::Run(command) => Some(command.clone()),
            Need::Read(path) | Need::Write(path) => Some(path.display().to_string()),
            Need::Fetch(url) => Some(url.clone()),
            Need::Session | Need::Opaque => None,
        });
        let about = about.unwrap_or_else(|| match self {
            Self::BuiltIn(prepared, _) => prepared.description.clone(),
            Self::Other { input, .. } => Value::Object(input.clone()).to_string(),
        });
        (tool, about)
    }
}

fn built_in(name: &str) -> Option<&'static dyn AnyTool> {
    gimlet_tools::builtin().into_iter().find(|tool| tool.name() == name || tool.aliases().contains(&name))
}
