//! Settings while a session runs: files that change are taken up before a call is decided on and again when it was waited for, what a person
//! allows for good is written down, and what a project's files say waits until the person trusts it.
//!
//! The files themselves are somebody else's; this is what the gate needs of whoever reads them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use gimlet_policy::{PermissionUpdate, RuleSet, UpdateDestination};
use gimlet_proto::{AgentPath, Env, EventBody, Notice, NoticeLevel, PermissionMode, TrustQuestion};
use serde_json::value::RawValue;

use super::{ActivePermissions, Gate, Refusal, lock};
use crate::call::CallScope;
use crate::hooks::{HookEvent, HookPayload};
use crate::sandbox::SessionSandbox;
use crate::services::SessionServices;

/// What settings say about permissions at one moment.
#[derive(Default)]
pub struct EffectivePermissions {
    /// Those of flags and files together.
    pub rules: RuleSet,
    /// Working directories beside the one the session started in.
    pub directories: Vec<PathBuf>,
    /// The environment that commands get from now on, when it is another one.
    pub env: Option<Env>,
    /// How long questions of the model wait for an answer; `None` for ever.
    pub question_patience: Option<Duration>,
    pub sandbox: SandboxUpdate,
    /// Modes that nobody may be in.
    pub disabled_modes: Vec<PermissionMode>,
    /// What people should know about it.
    pub remarks: Vec<String>,
}

/// What became of the walls around commands. Those that run already keep theirs.
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

/// Whose settings they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingsOrigin {
    User,
    Project,
    Local,
    /// The administrator's.
    Policy,
    /// Those of the program that runs the session, which knows of them.
    Caller,
}

impl SettingsOrigin {
    /// What hooks call it; those of the caller are not their business.
    fn name(self) -> Option<&'static str> {
        match self {
            SettingsOrigin::User => Some("user_settings"),
            SettingsOrigin::Project => Some("project_settings"),
            SettingsOrigin::Local => Some("local_settings"),
            SettingsOrigin::Policy => Some("policy_settings"),
            SettingsOrigin::Caller => None,
        }
    }
}

/// Settings that can change while a session runs.
pub trait SettingsSource: Send {
    /// What changed since the last look. Cheap: it is asked before every call.
    fn poll_changes(&mut self) -> Vec<ChangedSettings>;

    /// What holds now. The files of `held` go on saying what they said, until they change again.
    fn reload_settings(&mut self, held: &[PathBuf]) -> EffectivePermissions;

    /// What holds now if those that run the session changed their own settings. Files that changed go on saying what
    /// they said.
    fn reload_caller_settings(&mut self) -> Option<EffectivePermissions>;

    /// What waits for the person's trust.
    fn trust_question(&mut self) -> Option<TrustQuestion>;

    /// The person trusts what the question named.
    fn accept_trust(&mut self) -> EffectivePermissions;

    /// What rules that hold for this session alone make of the walls around commands.
    fn apply_session_rules(&mut self, rules: &RuleSet) -> (SandboxUpdate, Vec<String>);

    /// Whether this session reads the settings that a change is meant for.
    fn reads_destination(&self, _destination: UpdateDestination) -> bool {
        true
    }

    /// Writes a change to the settings file that it is meant for.
    fn save_update(&mut self, update: &PermissionUpdate) -> Result<(), String>;
}

impl ActivePermissions {
    /// Goes on in the ordinary mode where settings took this one away; says which one that was.
    fn leave_disabled_mode(&mut self, disabled: &[PermissionMode]) -> Option<PermissionMode> {
        if disabled.contains(&self.before_plan) {
            self.before_plan = PermissionMode::default();
        }
        disabled.contains(&self.mode).then(|| std::mem::take(&mut self.mode))
    }

    /// Keeps in mind which folders only this session works in.
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

    /// Keeps in mind which rules of flags do not hold any more: flags say the same again whenever files are read anew.
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
    /// Takes up settings that changed since the last look, unless a hook objects. Until then the old ones hold. Whoever
    /// stops waiting leaves the change to the next look.
    pub(crate) async fn refresh_settings(&self, scope: &CallScope) {
        // One at a time: what one asks hooks about, another must not take up unasked.
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

    /// The same for a call that somebody may stop meanwhile.
    pub(super) async fn refresh_settings_for_call(&self, scope: &CallScope) -> Result<(), Refusal> {
        tokio::select! {
            biased;
            () = scope.cancel.cancelled() => Err(Refusal::Cancelled),
            () = self.refresh_settings(scope) => Ok(()),
        }
    }

    /// Takes up what those that run the session changed in their own settings. No hook is asked about that, so it waits
    /// for none.
    pub(crate) fn reload_caller_settings(&self, services: &SessionServices) {
        let now = lock(&self.live).as_mut().and_then(|live| live.reload_caller_settings());
        if let Some(now) = now {
            self.apply_settings(services, now);
        }
    }

    /// The same for whoever cannot wait for hooks. Where a hook wants to be asked, the next call asks it.
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

    /// Notes what changed.
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

    /// What waits for trust, if there is someone who can give it.
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
        let EffectivePermissions { rules, mut directories, env, question_patience, sandbox, disabled_modes, remarks } =
            now;
        let left;
        {
            let mut in_force = lock(&self.in_force);
            let mut now = gimlet_policy::SessionPermissions { rules, ..gimlet_policy::SessionPermissions::default() };
            for taken in &in_force.taken_from_flags {
                // Nothing is added, so nothing can be wrong with it.
                drop(now.apply(taken, |destination| destination.rule_source("/")));
            }
            now.rules.carry_over_session_rules(&in_force.rules);
            in_force.rules = Arc::new(now.rules);
            in_force.question_patience = question_patience;
            left = in_force.leave_disabled_mode(&disabled_modes);
            *lock(&self.taken_away) = disabled_modes;
            // What somebody added for this session stays, whatever files say.
            let added = in_force.added.iter().filter(|folder| !directories.contains(folder));
            let added: Vec<PathBuf> = added.cloned().collect();
            directories.extend(added);
        }
        services.set_added_directories(directories);
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

    /// Makes the changes that a person chose with their yes. One that cannot be made is said and left out.
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

    /// Makes one change, or says why not. One that is meant for settings that this session does not read is made for
    /// the session: whoever shut those files out wants nothing of them, but the person has answered.
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

    /// Names new rules that decide nothing, and others that decide nothing because of them.
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

/// Puts other walls around the commands that begin from now on, and says what is to be said about them.
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

/// Files are read and walls tried out beside the threads that everything else runs on. It comes to its end even when
/// nobody waits for it any more: what was read must be taken up.
async fn run_blocking(work: impl FnOnce() + Send + 'static) {
    if let Err(error) = tokio::task::spawn_blocking(work).await
        && error.is_panic()
    {
        std::panic::resume_unwind(error.into_panic());
    }
}

/// Whether a hook wants a change not to be taken up; `None` when the turn was stopped before they had said so. The
/// administrator's word is not a hook's to stop.
async fn is_blocked_by_hook(scope: &CallScope, change: &ChangedSettings) -> Option<bool> {
    let hooks = scope.services.hooks();
    let Some(source) = change.source.name().filter(|_| hooks.has_listeners(HookEvent::ConfigChange)) else {
        return Some(false);
    };
    let fired = hooks.fire(scope, &HookPayload::ConfigChange { source, file: &change.file }).await;
    let stopped = scope.cancel.is_cancelled() && fired.blocked.is_none();
    (!stopped).then_some(fired.blocked.is_some() && change.source != SettingsOrigin::Policy)
}
