//! Settings while a session runs: changed files are applied before a call is decided and again after waiting for it,
//! permanent approvals are saved, and settings of a project wait until the user trusts it.
//!
//! The files themselves are read elsewhere; this is the gate's interface to that code.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use gimlet_policy::{PermissionUpdate, RuleSet, UpdateDestination};
use gimlet_proto::{AgentPath, Env, EventBody, Notice, NoticeLevel, PermissionMode, TrustQuestion};
use serde_json::value::RawValue;

use super::{ActivePermissions, Gate, Refusal, lock};
use crate::call::CallScope;
use crate::hooks::{HookEntry, HookEvent, HookOwner, HookPayload};
use crate::sandbox::SessionSandbox;
use crate::services::SessionServices;

/// Permissions that settings define at one moment.
#[derive(Default)]
pub struct EffectivePermissions {
    /// Rules of flags and files together.
    pub rules: RuleSet,
    /// Working directories beside the one the session started in.
    pub directories: Vec<PathBuf>,
    /// New environment of commands, if it changed.
    pub env: Option<Env>,
    /// Timeout of the model's questions; `None` for no limit.
    pub question_patience: Option<Duration>,
    pub sandbox: SandboxUpdate,
    /// Hooks of settings files in place of all before; `None` if they stay.
    pub hooks: Option<Vec<HookEntry>>,
    /// Modes that are not allowed.
    pub disabled_modes: Vec<PermissionMode>,
    /// Warnings for the user.
    pub remarks: Vec<String>,
}

/// Change of the sandbox for commands. Running commands keep theirs.
#[derive(Default)]
pub enum SandboxUpdate {
    #[default]
    Unchanged,
    Off,
    On(Arc<SessionSandbox>),
}

/// Settings that changed.
pub struct ChangedSettings {
    pub file: PathBuf,
    pub source: SettingsOrigin,
}

/// Owner of settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingsOrigin {
    User,
    Project,
    Local,
    /// The administrator's.
    Policy,
    /// Those of the program that runs the session, which knows of them.
    Caller,
    /// Documents beside settings, such as agents.
    Documents,
}

impl SettingsOrigin {
    /// Returns the name in hook input; `None` for what is not reported to hooks.
    fn name(self) -> Option<&'static str> {
        match self {
            SettingsOrigin::User => Some("user_settings"),
            SettingsOrigin::Project => Some("project_settings"),
            SettingsOrigin::Local => Some("local_settings"),
            SettingsOrigin::Policy => Some("policy_settings"),
            SettingsOrigin::Caller | SettingsOrigin::Documents => None,
        }
    }
}

/// Settings that can change while a session runs.
pub trait SettingsSource: Send {
    /// Returns the changes since the last call. Must be cheap: it is called before every tool call.
    fn poll_changes(&mut self) -> Vec<ChangedSettings>;

    /// Returns the current settings. The files in `held` keep their previous content until they change again.
    fn reload_settings(&mut self, held: &[PathBuf]) -> EffectivePermissions;

    /// Returns the current settings if the caller changed its own. Changed files keep their previous content.
    fn reload_caller_settings(&mut self) -> Option<EffectivePermissions>;

    /// Returns the settings that wait for the user's trust, if any.
    fn trust_question(&mut self) -> Option<TrustQuestion>;

    /// Records that the user trusts the content of the question, and returns the settings that apply then.
    fn accept_trust(&mut self) -> EffectivePermissions;

    /// Returns the change of the sandbox that rules for this session alone cause, with warnings.
    fn apply_session_rules(&mut self, rules: &RuleSet) -> (SandboxUpdate, Vec<String>);

    /// Returns true if this session reads the settings that a change is meant for.
    fn reads_destination(&self, _destination: UpdateDestination) -> bool {
        true
    }

    /// Writes a change to its settings file.
    fn save_update(&mut self, update: &PermissionUpdate) -> Result<(), String>;
}

impl ActivePermissions {
    /// Switches to the default mode if settings disabled the current one. Returns the mode that was left.
    fn leave_disabled_mode(&mut self, disabled: &[PermissionMode]) -> Option<PermissionMode> {
        if disabled.contains(&self.before_plan) {
            self.before_plan = PermissionMode::default();
        }
        disabled.contains(&self.mode).then(|| std::mem::take(&mut self.mode))
    }

    /// Records the folders that were added only for this session.
    fn note_directories(&mut self, update: &PermissionUpdate) {
        match update {
            PermissionUpdate::AddDirectories { directories, destination } if !destination.is_persistent() => {
                let new = directories.iter().filter(|folder| !self.added.contains(folder)).cloned();
                let new: Vec<PathBuf> = new.collect();
                self.added.extend(new);
            }
            PermissionUpdate::RemoveDirectories { directories, .. } => {
                self.added.retain(|folder| !directories.contains(folder));
            }
            _ => {}
        }
    }

    /// Records the rules of flags that were removed: flags define them again whenever files are reloaded.
    fn note_removed_flag_rules(&mut self, update: &PermissionUpdate) {
        let destination = UpdateDestination::CliArg;
        let taken = match update {
            PermissionUpdate::RemoveRules { destination: UpdateDestination::CliArg, .. } => update.clone(),
            PermissionUpdate::ReplaceRules { behavior, destination: UpdateDestination::CliArg, .. } => {
                PermissionUpdate::ReplaceRules { rules: Vec::new(), behavior: *behavior, destination }
            }
            _ => return,
        };
        self.taken_from_flags.push(taken);
    }
}

impl Gate {
    /// Applies settings that changed since the last check, unless a hook objects. Until then the old ones apply. If
    /// the caller stops waiting, the change is left to the next check.
    pub(crate) async fn refresh_settings(&self, scope: &CallScope) {
        // One at a time: a change that hooks are being asked about must not be applied by another caller.
        let mut undecided = self.undecided.clone().lock_owned().await;
        self.collect_changes(&mut undecided);
        if undecided.is_empty() {
            return;
        }
        let mut held = Vec::new();
        for change in undecided.iter() {
            match is_blocked_by_hook(scope, change).await {
                Some(true) => held.push(change.file.clone()),
                Some(false) => {}
                None => return,
            }
        }
        let (gate, services) = (scope.gate.clone(), scope.services.clone());
        run_blocking(move || gate.apply_pending_changes(&services, &mut undecided, &held)).await;
    }

    /// Applies changed settings for a call that may be cancelled meanwhile.
    pub(super) async fn refresh_settings_for_call(&self, scope: &CallScope) -> Result<(), Refusal> {
        tokio::select! {
            biased;
            () = scope.cancel.cancelled() => Err(Refusal::Cancelled),
            () = self.refresh_settings(scope) => Ok(()),
        }
    }

    /// Applies changes of the caller's own settings. No hook is asked about those, so this does not wait.
    pub(crate) fn reload_caller_settings(&self, services: &SessionServices) {
        let now = lock(&self.live).as_mut().and_then(|live| live.reload_caller_settings());
        if let Some(now) = now {
            self.apply_settings(services, now);
        }
    }

    /// Applies changed settings without waiting for hooks. If a hook must be asked, the next call asks it.
    pub(crate) fn refresh_settings_without_hooks(&self, services: &SessionServices) {
        if services.hooks().has_listeners(HookEvent::ConfigChange) {
            return;
        }
        if let Ok(mut undecided) = self.undecided.try_lock() {
            self.collect_changes(&mut undecided);
            if !undecided.is_empty() {
                self.apply_pending_changes(services, &mut undecided, &[]);
            }
        }
    }

    /// Collects new changes.
    fn collect_changes(&self, undecided: &mut Vec<ChangedSettings>) {
        let changed = lock(&self.live).as_mut().map(|live| live.poll_changes()).unwrap_or_default();
        for change in changed {
            if !undecided.iter().any(|known| known.file == change.file) {
                undecided.push(change);
            }
        }
    }

    fn apply_pending_changes(
        &self,
        services: &SessionServices,
        undecided: &mut Vec<ChangedSettings>,
        held: &[PathBuf],
    ) {
        undecided.clear();
        let now = lock(&self.live).as_mut().map(|live| live.reload_settings(held));
        if let Some(now) = now {
            self.apply_settings(services, now);
        }
    }

    /// Returns the settings that wait for trust, if there is a user who can be asked.
    pub(crate) fn trust_question(&self) -> Option<TrustQuestion> {
        self.asks.as_ref()?;
        lock(&self.live).as_mut()?.trust_question()
    }

    pub(crate) async fn accept_trust(self: &Arc<Self>, services: &Arc<SessionServices>) {
        let (gate, services) = (self.clone(), services.clone());
        run_blocking(move || {
            let now = lock(&gate.live).as_mut().map(|live| live.accept_trust());
            if let Some(now) = now {
                gate.apply_settings(&services, now);
            }
        })
        .await;
    }

    fn apply_settings(&self, services: &SessionServices, now: EffectivePermissions) {
        let EffectivePermissions { rules, mut directories, env, sandbox, hooks, remarks, .. } = now;
        let (question_patience, disabled_modes) = (now.question_patience, now.disabled_modes);
        let left;
        {
            let mut in_force = lock(&self.in_force);
            let mut now = gimlet_policy::SessionPermissions { rules, ..gimlet_policy::SessionPermissions::default() };
            for taken in &in_force.taken_from_flags {
                // Nothing is added, so nothing can fail.
                drop(now.apply(taken, |destination| destination.rule_source("/")));
            }
            now.rules.carry_over_session_rules(&in_force.rules);
            in_force.rules = Arc::new(now.rules);
            in_force.question_patience = question_patience;
            left = in_force.leave_disabled_mode(&disabled_modes);
            *lock(&self.taken_away) = disabled_modes;
            // Folders that were added for this session stay, no matter what files contain.
            let added = in_force.added.iter().filter(|folder| !directories.contains(folder));
            let added: Vec<PathBuf> = added.cloned().collect();
            directories.extend(added);
        }
        services.set_added_directories(directories);
        if let Some(hooks) = hooks {
            services.hooks().replace(HookOwner::Settings, hooks);
        }
        replace_sandbox(services, sandbox, remarks);
        if let Some(left) = left {
            let now = self.mode();
            let text = format!("settings disable the mode {left} now; the session goes on in {now}");
            services.publish(&AgentPath::default(), EventBody::Notice(Notice { level: NoticeLevel::Warning, text }));
            services.publish(&AgentPath::default(), EventBody::ModeChanged(now));
        }
        self.changes.send_replace(());
        if let (Some(env), Some(shell)) = (env, services.shell()) {
            shell.set_environment(&env);
        }
    }

    /// Applies the changes that the user chose with a yes. One that fails is reported and skipped.
    pub(super) fn apply_user_changes(&self, scope: &CallScope, updates: &[Arc<RawValue>]) {
        let before = self.mode();
        for update in updates {
            if let Err(why) = self.apply_user_change(scope, update) {
                let text = format!("a change of permissions was not made: {why}");
                scope.services.publish(&scope.agent, EventBody::Notice(Notice { level: NoticeLevel::Warning, text }));
            }
        }
        let mode = self.mode();
        if mode != before {
            scope.services.publish(&AgentPath::default(), EventBody::ModeChanged(mode));
        }
    }

    fn apply_user_change(&self, scope: &CallScope, update: &RawValue) -> Result<(), String> {
        let update: PermissionUpdate = serde_json::from_str(update.get()).map_err(|error| error.to_string())?;
        self.apply_update(&scope.services, &update)
    }

    /// Applies one change, or returns the reason why not. A change for settings that this session does not read is
    /// applied to the session only: those files were excluded, but the user has answered.
    pub(super) fn apply_update(&self, services: &SessionServices, update: &PermissionUpdate) -> Result<(), String> {
        let destination = update.destination();
        let is_read = lock(&self.live).as_ref().is_none_or(|live| live.reads_destination(destination));
        if is_read {
            return self.update_rules(services, update);
        }
        self.update_rules(services, &update.clone().for_session())?;
        let text = format!(
            "a change of permissions holds for this session only: {} are not read in it, so nothing was written there",
            destination.scope()
        );
        services.publish(&AgentPath::default(), EventBody::Notice(Notice { level: NoticeLevel::Warning, text }));
        Ok(())
    }

    /// Warns about new rules that have no effect, and about others that have none because of them.
    fn warn_unreachable_rules(&self, services: &SessionServices, update: &PermissionUpdate) {
        let Some((behavior, rules)) = update.added_rules() else { return };
        for remark in self.rules().find_newly_unreachable(behavior, &rules) {
            let notice = Notice { level: NoticeLevel::Warning, text: remark.to_string() };
            services.publish(&AgentPath::default(), EventBody::Notice(notice));
        }
    }

    fn update_rules(&self, services: &SessionServices, update: &PermissionUpdate) -> Result<(), String> {
        let paths = services.paths();
        let source = |destination: UpdateDestination| destination.rule_source(&paths.project_dir);
        {
            let mut in_force = lock(&self.in_force);
            let mut changed = gimlet_policy::SessionPermissions {
                mode: in_force.mode,
                rules: (*in_force.rules).clone(),
                directories: paths.roots.iter().skip(1).cloned().collect(),
                bypass_reachable: self.is_mode_available(PermissionMode::BypassPermissions),
                auto_available: self.is_mode_available(PermissionMode::Auto),
            };
            changed.apply(update, source).map_err(|error| error.to_string())?;
            in_force.change_mode(changed.mode);
            in_force.rules = Arc::new(changed.rules);
            in_force.note_directories(update);
            in_force.note_removed_flag_rules(update);
            services.set_added_directories(changed.directories);
        }
        self.changes.send_replace(());
        self.warn_unreachable_rules(services, update);
        let mut live = lock(&self.live);
        let Some(live) = live.as_mut() else { return Ok(()) };
        if update.destination().is_persistent() {
            return live.save_update(update);
        }
        let (sandbox, remarks) = live.apply_session_rules(&self.rules());
        replace_sandbox(services, sandbox, remarks);
        Ok(())
    }
}

/// Replaces the sandbox for commands that start from now on, and publishes its warnings.
fn replace_sandbox(services: &SessionServices, sandbox: SandboxUpdate, remarks: Vec<String>) {
    match sandbox {
        SandboxUpdate::Unchanged => {}
        SandboxUpdate::Off => services.active_sandbox().replace(None),
        SandboxUpdate::On(sandboxing) => services.active_sandbox().replace(Some(sandboxing)),
    }
    for text in remarks {
        services.publish(&AgentPath::default(), EventBody::Notice(Notice { level: NoticeLevel::Warning, text }));
    }
}

/// Runs work on a blocking thread: files are read and the sandbox is tested there. It completes even when the caller
/// stops waiting: settings that were read must be applied.
async fn run_blocking(work: impl FnOnce() + Send + 'static) {
    if let Err(error) = tokio::task::spawn_blocking(work).await
        && error.is_panic()
    {
        std::panic::resume_unwind(error.into_panic());
    }
}

/// Returns true if a hook blocks a change; `None` when the turn was stopped before hooks answered. A hook cannot block
/// the administrator's settings.
async fn is_blocked_by_hook(scope: &CallScope, change: &ChangedSettings) -> Option<bool> {
    let hooks = scope.services.hooks();
    let Some(source) = change.source.name() else { return Some(false) };
    if !hooks.has_listeners(HookEvent::ConfigChange) {
        return Some(false);
    }
    let fired = hooks.fire(scope, &HookPayload::ConfigChange { source, file: &change.file }).await;
    let stopped = scope.cancel.is_cancelled() && fired.blocked.is_none();
    (!stopped).then_some(fired.blocked.is_some() && change.source != SettingsOrigin::Policy)
}
