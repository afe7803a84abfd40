//! The session's sandbox: the commands that run inside it, and the reports about them.
//!
//! The gate decides once if a command is sandboxed, and the decision is part of its permit: a tool cannot leave the
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

/// Parameter by which a call asks to run outside the sandbox.
const LEAVE: &str = "dangerouslyDisableSandbox";

pub(crate) use active_sandbox::ActiveSandbox;
pub use command_guard::{CallSandbox, CommandGuard, CommandGuardState, GuardedCommandEnd};

/// Sandbox for the commands of a session.
pub struct SessionSandbox {
    pub sandbox: Sandbox,
    pub spec: SandboxSpec,
    pub available: SandboxSupport,
    /// Set if sandboxed commands run without a permission question.
    pub auto_allow: bool,
    /// Set if a call may ask to run outside the sandbox.
    pub may_run_unsandboxed: bool,
    /// Commands that always run outside: the content of `Bash(…)` rules.
    pub excluded: Vec<String>,
    /// Directory to which changed protected files are moved.
    pub quarantine: PathBuf,
    /// Settings files that a running command must not change.
    pub settings: Option<SettingsFiles>,
    /// Proxy to the allowed hosts, if there are any.
    pub proxy: Option<SandboxProxy>,
    /// Set if unlisted hosts lead to a permission question; otherwise they are refused.
    pub asks_about_hosts: bool,
    /// Patterns of denied files, searched before every command.
    pub denied_files: Option<DeniedFiles>,
    /// Patterns of read-only files, searched before every command.
    pub read_only_files: Option<DeniedFiles>,
    /// Violations that are not reported: a part of the command, or `*`, and parts of the report.
    pub expected_violations: Vec<(String, Vec<String>)>,
    /// State kept from one command to the next, also when this sandbox replaces another.
    pub state: Arc<Mutex<CommandGuardState>>,
}

/// Settings files of a session.
pub struct SettingsFiles {
    pub locations: SettingsLocations,
    /// Paths of the files that the session reads.
    pub files: Vec<PathBuf>,
}

impl SessionSandbox {
    /// Decides if the commands of a call run inside or outside the sandbox.
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
        // A command line of which only a part is excluded needs approval like any other that runs outside.
        let wants_out = given.get(LEAVE).is_some_and(|wanted| *wanted == Value::Bool(true))
            || commands.iter().any(|excluded| *excluded != SandboxExclusion::None);
        if self.may_run_unsandboxed && wants_out {
            return SandboxPlacement::Outside;
        }
        // A missing layer could be the one that matters.
        let is_whole = self.available.missing_layers().is_empty() && !self.spec.files_open && !self.has_scan_gap();
        if self.auto_allow && is_whole { SandboxPlacement::Sufficient } else { SandboxPlacement::Inside }
    }

    /// Sets the judge that decides about unlisted hosts.
    fn set_host_judge(&self, judge: &Arc<dyn HostJudge>) {
        if self.asks_about_hosts
            && let Some(proxy) = &self.proxy
        {
            proxy.set_host_judge(judge.clone());
        }
    }
}
