//! Settings while a session runs: files that change are taken up before the next call is decided on, what a person
//! allows for good is written down, and what a project's files say waits until the person trusts it.
//!
//! The files themselves are somebody else's; this is what the gate needs of whoever reads them.

use std::path::PathBuf;
use std::sync::Arc;

use gimlet_policy::{Destination, PermissionUpdate, RuleSet, RuleSource};
use gimlet_proto::{AgentPath, Body, Env, Level, Notice, TrustQuestion};
use serde_json::value::RawValue;

use super::{Gate, lock};
use crate::call::CallScope;
use crate::services::Services;

/// What settings say about permissions at one moment.
#[derive(Default)]
pub struct SettingsNow {
    /// Those of flags and files together.
    pub rules: RuleSet,
    /// Working directories beside the one the session started in.
    pub directories: Vec<PathBuf>,
    /// The environment that commands get from now on, when it is another one.
    pub env: Option<Env>,
    /// What people should know about it.
    pub remarks: Vec<String>,
}

/// Settings that can change while a session runs.
pub trait LiveSettings: Send {
    /// What holds now, if something changed since the last look. Cheap: it is asked before every batch of calls.
    fn refresh(&mut self) -> Option<SettingsNow>;

    /// What waits for the person's trust.
    fn trust_question(&mut self) -> Option<TrustQuestion>;

    /// The person trusts what the question named.
    fn accept_trust(&mut self) -> SettingsNow;

    /// Writes a change to the settings file that it is meant for.
    fn keep(&mut self, update: &PermissionUpdate) -> Result<(), String>;
}

impl Gate {
    /// Takes up settings that changed since the last look.
    pub(crate) fn refresh(&self, services: &Services) {
        let now = lock(&self.live).as_mut().and_then(|live| live.refresh());
        if let Some(now) = now {
            self.take_up(services, now);
        }
    }

    /// What waits for trust, if there is someone who can give it.
    pub(crate) fn trust_question(&self) -> Option<TrustQuestion> {
        self.asks.as_ref()?;
        lock(&self.live).as_mut()?.trust_question()
    }

    pub(crate) fn accept_trust(&self, services: &Services) {
        let now = lock(&self.live).as_mut().map(|live| live.accept_trust());
        if let Some(now) = now {
            self.take_up(services, now);
        }
    }

    fn take_up(&self, services: &Services, now: SettingsNow) {
        let SettingsNow { mut rules, directories, env, remarks } = now;
        {
            let mut in_force = lock(&self.in_force);
            rules.carry_over(&in_force.rules);
            in_force.rules = Arc::new(rules);
        }
        services.set_added_directories(directories);
        self.changes.send_replace(());
        if let (Some(env), Ok((_, shell))) = (env, services.processes()) {
            shell.set_environment(&env);
        }
        for text in remarks {
            services.publish(&AgentPath::default(), Body::Notice(Notice { level: Level::Warning, text }));
        }
    }

    /// Makes the changes that a person chose with their yes. One that cannot be made is said and left out.
    pub(super) fn change(&self, scope: &CallScope, updates: &[Arc<RawValue>]) {
        let before = self.mode();
        for update in updates {
            if let Err(why) = self.change_one(scope, update) {
                let text = format!("a change of permissions was not made: {why}");
                scope.services.publish(&scope.agent, Body::Notice(Notice { level: Level::Warning, text }));
            }
        }
        let mode = self.mode();
        if mode != before {
            scope.services.publish(&AgentPath::default(), Body::ModeChanged(mode));
        }
    }

    fn change_one(&self, scope: &CallScope, update: &RawValue) -> Result<(), String> {
        let update: PermissionUpdate = serde_json::from_str(update.get()).map_err(|error| error.to_string())?;
        let paths = scope.services.paths();
        let source = |destination: Destination| RuleSource::new(destination.scope(), &paths.project_dir);
        {
            let mut in_force = lock(&self.in_force);
            let mut changed = gimlet_policy::Permissions {
                mode: in_force.mode,
                rules: (*in_force.rules).clone(),
                directories: paths.roots.iter().skip(1).cloned().collect(),
                bypass_reachable: self.bypass_reachable,
            };
            changed.apply(&update, source).map_err(|error| error.to_string())?;
            in_force.change_mode(changed.mode);
            in_force.rules = Arc::new(changed.rules);
            scope.services.set_added_directories(changed.directories);
        }
        self.changes.send_replace(());
        match lock(&self.live).as_mut() {
            Some(live) if update.destination().is_kept() => live.keep(&update),
            _ => Ok(()),
        }
    }
}
