//! The session's sandbox: which commands run inside it, and what is said about them afterwards.
//!
//! Whether a command is walled in is decided once, by the gate, and travels with its permit: a tool cannot leave the
//! sandbox on its own.

mod closed;
mod git_words;
mod in_force;
mod watch;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use gimlet_config::Locations;
use gimlet_exec::{Available, HostJudge, Proxy, Sandbox};
use gimlet_policy::{ClosedFiles, Exclusion, Walls, exclusion};
use gimlet_proto::{Need, SandboxSpec};
use serde_json::{Map, Value};

use crate::tool::PathContext;

/// The parameter by which a call asks to run outside.
const LEAVE: &str = "dangerouslyDisableSandbox";

pub(crate) use in_force::WallsInForce;
pub use watch::{Behind, Watch, WatchState, WatchedEnd};

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
    /// The settings that must not change by a command while it runs.
    pub settings: Option<SettingsFiles>,
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

/// The settings that a session goes by.
pub struct SettingsFiles {
    pub locations: Locations,
    /// Those that it reads, wherever they are.
    pub files: Vec<PathBuf>,
}

impl Sandboxing {
    /// Where the commands of a call run.
    pub(crate) fn walls(&self, needs: &[Need], given: &Map<String, Value>, paths: &PathContext) -> Walls {
        let facts = paths.shell_facts();
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
        let is_whole =
            self.available.missing_layers().is_empty() && !self.spec.files_open && !self.overlooks_something();
        if self.auto_allow && is_whole { Walls::Enough } else { Walls::Inside }
    }

    /// Lets the gate decide about hosts that are on no list.
    fn ask_about_hosts(&self, judge: &Arc<dyn HostJudge>) {
        if let Some(proxy) = self.proxy.as_ref().filter(|_| self.asks_about_hosts) {
            proxy.ask_through(judge.clone());
        }
    }
}
