//! The session's sandbox: which commands run inside it, and what is said about them afterwards.
//!
//! Whether a command is walled in is decided once, by the gate, and travels with its permit: a tool cannot leave the
//! sandbox on its own.

use std::path::PathBuf;
use std::sync::Arc;

use gimlet_exec::{Aftermath, Available, Exit, Guard, Proxy, Sandbox, violations};
use gimlet_policy::shell::ShellFacts;
use gimlet_policy::{Walls, runs_one_of};
use gimlet_proto::{Need, SandboxSpec, Violation};
use serde_json::{Map, Value};

use crate::gate::HostGate;
use crate::tool::PathContext;

/// The parameter by which a call asks to run outside.
const LEAVE: &str = "dangerouslyDisableSandbox";

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
}

impl Sandboxing {
    /// Where the commands of a call run.
    pub(crate) fn walls(&self, needs: &[Need], given: &Map<String, Value>, paths: &PathContext) -> Walls {
        let facts = ShellFacts { cwd: &paths.cwd, roots: &paths.roots, home: paths.home.as_deref() };
        let mut commands = needs.iter().filter_map(|need| match need {
            Need::Run(command) => Some(command),
            _ => None,
        });
        if commands.clone().next().is_none() || commands.any(|command| runs_one_of(command, &self.excluded, &facts)) {
            return Walls::None;
        }
        if self.may_leave && given.get(LEAVE).is_some_and(|wanted| *wanted == Value::Bool(true)) {
            return Walls::Leaving;
        }
        // A wall that is missing could be just the one that matters.
        if self.auto_allow && self.available.missing_layers().is_empty() { Walls::Enough } else { Walls::Inside }
    }

    /// Lets the gate decide about hosts that are on no list.
    pub(crate) fn ask_about_hosts(&self, gate: HostGate) {
        if let Some(proxy) = self.proxy.as_ref().filter(|_| self.asks_about_hosts) {
            proxy.ask_through(Arc::new(gate));
        }
    }

    /// Notes how protected files are before a command runs.
    pub async fn guard(self: &Arc<Self>) -> Option<Guard> {
        let this = self.clone();
        tokio::task::spawn_blocking(move || Guard::before(&this.spec, &this.available)).await.ok()
    }

    /// What the sandbox did not let a command do; protected files are as they were.
    pub async fn after(
        self: &Arc<Self>,
        guard: Option<Guard>,
        cwd: &std::path::Path,
        exit: Option<Exit>,
        output: &str,
    ) -> Vec<Violation> {
        let this = self.clone();
        let held = tokio::task::spawn_blocking(move || guard.map(|guard| guard.after(&this.quarantine))).await;
        let mut found = held.ok().flatten().unwrap_or_default();
        let refusals = self.proxy.as_ref().map(Proxy::take_refusals).unwrap_or_default();
        found.extend(violations(Aftermath { spec: &self.spec, cwd, exit, output, refusals: &refusals }));
        found
    }
}
