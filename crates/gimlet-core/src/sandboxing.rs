//! The session's sandbox: which commands run inside it, and what is said about them afterwards.
//!
//! Whether a command is walled in is decided once, by the gate, and travels with its permit: a tool cannot leave the
//! sandbox on its own.

mod closed;
mod in_force;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gimlet_exec::{Aftermath, Available, Census, Exit, Guard, HostJudge, Proxy, Sandbox, violations};
use gimlet_policy::shell::ShellFacts;
use gimlet_policy::{ClosedFiles, Exclusion, Walls, exclusion};
use gimlet_proto::{Need, SandboxSpec, Violation};
use serde_json::{Map, Value};

use crate::tool::{PathContext, ToolError};

/// The parameter by which a call asks to run outside.
const LEAVE: &str = "dangerouslyDisableSandbox";

pub(crate) use in_force::WallsInForce;

/// A sandbox for the commands of a session.
pub struct Sandboxing {
    pub sandbox: Sandbox,
    pub spec: SandboxSpec,
    pub available: Available,
    /// Being inside is reason enough to run without a question.
    pub auto_allow: bool,
    /// A call may ask to run outside.
    pub may_leave: bool,
    /// Commands that always run outside: the inside of `Bash(…)` rules.
    pub excluded: Vec<String>,
    /// Where changes of protected files are moved to.
    pub quarantine: PathBuf,
    /// Reaches the hosts that are allowed, if any are.
    pub proxy: Option<Proxy>,
    /// Hosts that are on no list are asked about; otherwise they are refused.
    pub asks_about_hosts: bool,
    /// Files that patterns close, looked for before every command.
    pub closed: Option<ClosedFiles>,
    /// Files that patterns keep from being changed, looked for in the same way.
    pub kept: Option<ClosedFiles>,
    /// Refusals that are not worth telling: a part of the command, or `*`, and parts of what would be told.
    pub expected: Vec<(String, Vec<String>)>,
    /// What is remembered from one command to the next, also when these walls take the place of others.
    pub state: Arc<Mutex<WatchState>>,
}

impl Sandboxing {
    /// Where the commands of a call run.
    pub(crate) fn walls(&self, needs: &[Need], given: &Map<String, Value>, paths: &PathContext) -> Walls {
        let facts = ShellFacts { cwd: &paths.cwd, roots: &paths.roots, home: paths.home.as_deref() };
        let commands = needs.iter().filter_map(|need| match need {
            Need::Run(command) => Some(exclusion(command, &self.excluded, &facts)),
            _ => None,
        });
        let commands: Vec<Exclusion> = commands.collect();
        if commands.iter().all(|excluded| *excluded == Exclusion::Whole) {
            return Walls::None;
        }
        // What would go out together with a command that may is asked about like everything else that wants out.
        let wants_out = given.get(LEAVE).is_some_and(|wanted| *wanted == Value::Bool(true))
            || commands.iter().any(|excluded| *excluded != Exclusion::None);
        if self.may_leave && wants_out {
            return Walls::Leaving;
        }
        // A wall that is missing could be just the one that matters.
        let is_whole = self.available.missing_layers().is_empty() && !self.spec.files_open;
        if self.auto_allow && is_whole { Walls::Enough } else { Walls::Inside }
    }

    /// Lets the gate decide about hosts that are on no list.
    fn ask_about_hosts(&self, judge: &Arc<dyn HostJudge>) {
        if let Some(proxy) = self.proxy.as_ref().filter(|_| self.asks_about_hosts) {
            proxy.ask_through(judge.clone());
        }
    }

    /// Prepares the walls of one command, and notes how protected files are before it runs.
    pub async fn watch(self: &Arc<Self>) -> Result<Watch, ToolError> {
        let this = self.clone();
        let look = move || {
            this.check_leftovers();
            let guard = Guard::before(&this.spec, &this.available, &mut lock(&this.state).census);
            let found = |files: &Option<ClosedFiles>| match files {
                Some(files) if !this.spec.files_open => closed::closed_in(&this.spec.write, files),
                _ => Vec::new(),
            };
            (guard, found(&this.closed), found(&this.kept))
        };
        let looked = tokio::task::spawn_blocking(look).await;
        let (guard, closed, kept) =
            looked.map_err(|error| ToolError::failed(format!("the sandbox was not set up: {error}")))?;
        let sandbox = self.sandbox.holding(guard.held()).holding(&kept).closing(guard.closed()).closing(&closed);
        Ok(Watch { walls: self.clone(), sandbox, guard: Some(guard) })
    }

    /// Looks after commands whose end nobody waited for. Blocking; they must be over.
    pub(crate) fn check_leftovers(&self) {
        let mut state = lock(&self.state);
        let WatchState { census, unchecked } = &mut *state;
        for guard in unchecked.drain(..) {
            // What it finds was made by a command that was given up; there is no result to put it into.
            drop(guard.after(&self.quarantine, census));
        }
    }

    /// Whether people said that this is to be expected of this command.
    fn is_expected(&self, command: &str, violation: &Violation) -> bool {
        let text = violation.to_string();
        let of_command = |(pattern, _): &&(String, Vec<String>)| pattern == "*" || command.contains(pattern.as_str());
        self.expected.iter().filter(of_command).flat_map(|(_, parts)| parts).any(|part| text.contains(part.as_str()))
    }
}

/// What is remembered from one command to the next.
#[derive(Default)]
pub struct WatchState {
    census: Census,
    /// Of commands whose end nobody waited for.
    unchecked: Vec<Guard>,
}

/// One command behind walls. Whoever drops it leaves the check of its traces to the next command or the session's end.
pub struct Watch {
    walls: Arc<Sandboxing>,
    sandbox: Sandbox,
    guard: Option<Guard>,
}

/// How a watched command ended.
#[derive(Clone, Copy)]
pub struct WatchedEnd<'a> {
    pub command: &'a str,
    pub cwd: &'a Path,
    pub exit: Option<Exit>,
    /// What it printed, or the end of it.
    pub output: &'a str,
}

impl Watch {
    /// The walls for this command.
    pub fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    /// What the sandbox did not let the command do, in a sentence; protected files are as they were.
    pub async fn after(mut self, end: WatchedEnd<'_>) -> Option<String> {
        let (walls, guard) = (self.walls.clone(), self.guard.take());
        let check = move || guard.map(|guard| guard.after(&walls.quarantine, &mut lock(&walls.state).census));
        let mut found = tokio::task::spawn_blocking(check).await.ok().flatten().unwrap_or_default();
        let WatchedEnd { command, cwd, exit, output } = end;
        let refusals = self.walls.proxy.as_ref().map(Proxy::take_refusals).unwrap_or_default();
        found.extend(violations(Aftermath { spec: &self.walls.spec, cwd, exit, output, refusals: &refusals }));
        found.retain(|violation| !self.walls.is_expected(command, violation));
        if found.is_empty() {
            return None;
        }
        let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
        let way_out = match self.walls.may_leave {
            true => " If the task needs this, say so and set `dangerouslyDisableSandbox`.",
            false => "",
        };
        Some(format!("The sandbox refused: {}.{way_out}", lines.join("; ")))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        lock(&self.walls.state).unchecked.extend(self.guard.take());
    }
}

fn lock(state: &Mutex<WatchState>) -> MutexGuard<'_, WatchState> {
    // A census that was left half-way is looked through again; a list of guards is whole.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
