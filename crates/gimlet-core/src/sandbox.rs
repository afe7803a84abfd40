//! The session's sandbox: which commands run inside it, and what is said about them afterwards.
//!
//! Whether a command is walled in is decided once, by the gate, and travels with its permit: a tool cannot leave the
//! sandbox on its own.

mod active_sandbox;
mod command_guard;
mod git_advice;
mod pattern_scan;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use gimlet_config::SettingsLocations;
use gimlet_exec::{HostJudge, Sandbox, SandboxProxy, SandboxSupport};
use gimlet_policy::{DeniedFiles, SandboxExclusion, SandboxPlacement, classify_exclusion};
use gimlet_proto::{AccessNeed, SandboxSpec};
use serde_json::{Map, Value};

use crate::tool::PathContext;

/// The parameter by which a call asks to run outside.
const LEAVE: &str = "dangerouslyDisableSandbox";

pub(crate) use active_sandbox::ActiveSandbox;
pub use command_guard::{CallSandbox, CommandGuard, CommandGuardState, GuardedCommandEnd};

/// A sandbox for the commands of a session.
pub struct SessionSandbox {
    pub sandbox: Sandbox,
    pub spec: SandboxSpec,
    pub available: SandboxSupport,
    /// Being inside is reason enough to run without a question.
    pub auto_allow: bool,
    /// A call may ask to run outside.
    pub may_run_unsandboxed: bool,
    /// Commands that always run outside: the inside of `Bash(…)` rules.
    pub excluded: Vec<String>,
    /// Where changes of protected files are moved to.
    pub quarantine: PathBuf,
    /// The settings that must not change by a command while it runs.
    pub settings: Option<SettingsFiles>,
    /// Reaches the hosts that are allowed, if any are.
    pub proxy: Option<SandboxProxy>,
    /// Hosts that are on no list are asked about; otherwise they are refused.
    pub asks_about_hosts: bool,
    /// Files that patterns close, looked for before every command.
    pub denied_files: Option<DeniedFiles>,
    /// Files that patterns keep from being changed, looked for in the same way.
    pub read_only_files: Option<DeniedFiles>,
    /// Refusals that are not worth telling: a part of the command, or `*`, and parts of what would be told.
    pub expected_violations: Vec<(String, Vec<String>)>,
    /// What is remembered from one command to the next, also when these walls take the place of others.
    pub state: Arc<Mutex<CommandGuardState>>,
}

/// The settings that a session goes by.
pub struct SettingsFiles {
    pub locations: SettingsLocations,
    /// Those that it reads, wherever they are.
    pub files: Vec<PathBuf>,
}

impl SessionSandbox {
    /// Where the commands of a call run.
    pub(crate) fn sandbox_verdict(
        &self,
        needs: &[AccessNeed],
        given: &Map<String, Value>,
        paths: &PathContext,
    ) -> SandboxPlacement {
        let facts = paths.shell_facts();
        let commands = needs.iter().filter_map(|need| match need {
            AccessNeed::Run(command) => Some(classify_exclusion(command, &self.excluded, &facts)),
            _ => None,
        });
        let commands: Vec<SandboxExclusion> = commands.collect();
        if commands.iter().all(|excluded| *excluded == SandboxExclusion::Whole) {
            return SandboxPlacement::None;
        }
        // What would go out together with a command that may is asked about like everything else that wants out.
        let wants_out = given.get(LEAVE).is_some_and(|wanted| *wanted == Value::Bool(true))
            || commands.iter().any(|excluded| *excluded != SandboxExclusion::None);
        if self.may_run_unsandboxed && wants_out {
            return SandboxPlacement::Outside;
        }
        // A wall that is missing could be just the one that matters.
        let is_whole = self.available.missing_layers().is_empty() && !self.spec.files_open && !self.has_scan_gap();
        if self.auto_allow && is_whole { SandboxPlacement::Sufficient } else { SandboxPlacement::Inside }
    }

    /// Lets the gate decide about hosts that are on no list.
    fn set_host_judge(&self, judge: &Arc<dyn HostJudge>) {
        if let Some(proxy) = self.proxy.as_ref().filter(|_| self.asks_about_hosts) {
            proxy.set_host_judge(judge.clone());
        }
    }
}
