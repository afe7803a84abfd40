//! Settings while a session runs: files that change are taken up before a call is decided on and again when it was waited for, what a person
//! allows for good is written down, and what a project's files say waits until the person trusts it.
//!
//! The files themselves are somebody else's; this is what the gate needs of whoever reads them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use gimlet_policy::{Destination, PermissionUpdate, RuleSet};
use gimlet_proto::{AgentPath, Body, Env, Level, Notice, PermissionMode, TrustQuestion};
use serde_json::value::RawValue;

use super::{Gate, InForce, Refusal, lock};
use crate::call::CallScope;
use crate::hooks::{HookEvent, Occasion};
use crate::sandboxing::Sandboxing;
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
    /// How long questions of the model wait for an answer; `None` for ever.
    pub question_patience: Option<Duration>,
    pub sandbox: SandboxNow,
    /// Modes that nobody may be in.
    pub disabled_modes: Vec<PermissionMode>,
    /// What people should know about it.
    pub remarks: Vec<String>,
}

/// What became of the walls around commands. Those that run already keep theirs.
#[derive(Default)]
pub enum SandboxNow {
    #[default]
    Same,
    Off,
    On(Arc<Sandboxing>),
}

/// Settings that changed.
pub struct ChangedSettings {
    pub file: PathBuf,
    pub source: SettingsSource,
}

/// Whose settings they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingsSource {
    User,
    Project,
    Local,
    /// The administrator's.
    Policy,
    /// Those of the program that runs the session, which knows of them.
    Caller,
}

impl SettingsSource {
    /// What hooks call it; those of the caller are not their business.
    fn name(self) -> Option<&'static str> {
        match self {
            SettingsSource::User => Some("user_settings"),
            SettingsSource::Project => Some("project_settings"),
            SettingsSource::Local => Some("local_settings"),
            SettingsSource::Policy => Some("policy_settings"),
            SettingsSource::Caller => None,
        }
    }
}

/// Settings that can change while a session runs.
pub trait LiveSettings: Send {
    /// What changed since the last look. Cheap: it is asked before every call.
    fn changed(&mut self) -> Vec<ChangedSettings>;

    /// What holds now. The files of `held` go on saying what they said, until they change again.
    fn take_up(&mut self, held: &[PathBuf]) -> SettingsNow;

    /// What holds now if those that run the session changed their own settings. Files that changed go on saying what
    /// they said.
    fn take_up_callers(&mut self) -> Option<SettingsNow>;

    /// What waits for the person's trust.
    fn trust_question(&mut self) -> Option<TrustQuestion>;

    /// The person trusts what the question named.
    fn accept_trust(&mut self) -> SettingsNow;

    /// What rules that hold for this session alone make of the walls around commands.
    fn said_in_session(&mut self, rules: &RuleSet) -> (SandboxNow, Vec<String>);

    /// Whether this session reads the settings that a change is meant for.
    fn reads(&self, _destination: Destination) -> bool {
        true
    }

    /// Writes a change to the settings file that it is meant for.
    fn keep(&mut self, update: &PermissionUpdate) -> Result<(), String>;
}

impl InForce {
    /// Goes on in the ordinary mode where settings took this one away; says which one that was.
    fn leave(&mut self, disabled: &[PermissionMode]) -> Option<PermissionMode> {
        if disabled.contains(&self.before_plan) {
            self.before_plan = PermissionMode::default();
        }
        disabled.contains(&self.mode).then(|| std::mem::take(&mut self.mode))
    }

    /// Keeps in mind which folders only this session works in.
    fn note_directories(&mut self, update: &PermissionUpdate) {
        match update {
            PermissionUpdate::AddDirectories { directories, destination } if !destination.is_kept() => {
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
    fn note_flags(&mut self, update: &PermissionUpdate) {
        let destination = Destination::CliArg;
        let taken = match update {
            PermissionUpdate::RemoveRules { destination: Destination::CliArg, .. } => update.clone(),
            PermissionUpdate::ReplaceRules { behavior, destination: Destination::CliArg, .. } => {
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
    pub(crate) async fn refresh(&self, scope: &CallScope) {
        // One at a time: what one asks hooks about, another must not take up unasked.
        let mut undecided = self.undecided.clone().lock_owned().await;
        self.look(&mut undecided);
        if undecided.is_empty() {
            return;
        }
        let mut held = Vec::new();
        for change in undecided.iter() {
            match is_objected_to(scope, change).await {
                Some(true) => held.push(change.file.clone()),
                Some(false) => {}
                None => return,
            }
        }
        let (gate, services) = (scope.gate.clone(), scope.services.clone());
        aside(move || gate.settle(&services, &mut undecided, &held)).await;
    }

    /// The same for a call that somebody may stop meanwhile.
    pub(super) async fn look_again(&self, scope: &CallScope) -> Result<(), Refusal> {
        tokio::select! {
            biased;
            () = scope.cancel.cancelled() => Err(Refusal::Cancelled),
            () = self.refresh(scope) => Ok(()),
        }
    }

    /// Takes up what those that run the session changed in their own settings. No hook is asked about that, so it waits
    /// for none.
    pub(crate) fn take_up_callers(&self, services: &Services) {
        let now = lock(&self.live).as_mut().and_then(|live| live.take_up_callers());
        if let Some(now) = now {
            self.take_up(services, now);
        }
    }

    /// The same for whoever cannot wait for hooks. Where a hook wants to be asked, the next call asks it.
    pub(crate) fn refresh_unasked(&self, services: &Services) {
        if services.hooks().listens(HookEvent::ConfigChange) {
            return;
        }
        if let Ok(mut undecided) = self.undecided.try_lock() {
            self.look(&mut undecided);
            if !undecided.is_empty() {
                self.settle(services, &mut undecided, &[]);
            }
        }
    }

    /// Notes what changed.
    fn look(&self, undecided: &mut Vec<ChangedSettings>) {
        let changed = lock(&self.live).as_mut().map(|live| live.changed()).unwrap_or_default();
        for change in changed {
            if !undecided.iter().any(|known| known.file == change.file) {
                undecided.push(change);
            }
        }
    }

    fn settle(&self, services: &Services, undecided: &mut Vec<ChangedSettings>, held: &[PathBuf]) {
        undecided.clear();
        let now = lock(&self.live).as_mut().map(|live| live.take_up(held));
        if let Some(now) = now {
            self.take_up(services, now);
        }
    }

    /// What waits for trust, if there is someone who can give it.
    pub(crate) fn trust_question(&self) -> Option<TrustQuestion> {
        self.asks.as_ref()?;
        lock(&self.live).as_mut()?.trust_question()
    }

    pub(crate) async fn accept_trust(self: &Arc<Self>, services: &Arc<Services>) {
        let (gate, services) = (self.clone(), services.clone());
        aside(move || {
            let now = lock(&gate.live).as_mut().map(|live| live.accept_trust());
            if let Some(now) = now {
                gate.take_up(&services, now);
            }
        })
        .await;
    }

    fn take_up(&self, services: &Services, now: SettingsNow) {
        let SettingsNow { rules, mut directories, env, question_patience, sandbox, disabled_modes, remarks } = now;
        let left;
        {
            let mut in_force = lock(&self.in_force);
            let mut now = gimlet_policy::Permissions { rules, ..gimlet_policy::Permissions::default() };
            for taken in &in_force.taken_from_flags {
                // Nothing is added, so nothing can be wrong with it.
                drop(now.apply(taken, |destination| destination.source("/")));
            }
            now.rules.carry_over(&in_force.rules);
            in_force.rules = Arc::new(now.rules);
            in_force.question_patience = question_patience;
            left = in_force.leave(&disabled_modes);
            *lock(&self.taken_away) = disabled_modes;
            // What somebody added for this session stays, whatever files say.
            let added = in_force.added.iter().filter(|folder| !directories.contains(folder));
            let added: Vec<PathBuf> = added.cloned().collect();
            directories.extend(added);
        }
        services.set_added_directories(directories);
        rebuild(services, sandbox, remarks);
        if let Some(left) = left {
            let now = self.mode();
            let text = format!("settings disable the mode {left} now; the session goes on in {now}");
            services.publish(&AgentPath::default(), Body::Notice(Notice { level: Level::Warning, text }));
            services.publish(&AgentPath::default(), Body::ModeChanged(now));
        }
        self.changes.send_replace(());
        if let (Some(env), Some(shell)) = (env, services.shell()) {
            shell.set_environment(&env);
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
        self.apply(&scope.services, &update)
    }

    /// Makes one change, or says why not. One that is meant for settings that this session does not read is made for
    /// the session: whoever shut those files out wants nothing of them, but the person has answered.
    pub(super) fn apply(&self, services: &Services, update: &PermissionUpdate) -> Result<(), String> {
        let destination = update.destination();
        let is_read = lock(&self.live).as_ref().is_none_or(|live| live.reads(destination));
        if is_read {
            return self.make(services, update);
        }
        self.make(services, &update.clone().for_session())?;
        let text = format!(
            "a change of permissions holds for this session only: {} are not read in it, so nothing was written there",
            destination.scope()
        );
        services.publish(&AgentPath::default(), Body::Notice(Notice { level: Level::Warning, text }));
        Ok(())
    }

    /// Names new rules that decide nothing, and others that decide nothing because of them.
    fn say_what_is_vain(&self, services: &Services, update: &PermissionUpdate) {
        let Some((behavior, rules)) = update.brings() else { return };
        for remark in self.rules().made_unreachable(behavior, &rules) {
            let notice = Notice { level: Level::Warning, text: remark.to_string() };
            services.publish(&AgentPath::default(), Body::Notice(notice));
        }
    }

    fn make(&self, services: &Services, update: &PermissionUpdate) -> Result<(), String> {
        let paths = services.paths();
        let source = |destination: Destination| destination.source(&paths.project_dir);
        {
            let mut in_force = lock(&self.in_force);
            let mut changed = gimlet_policy::Permissions {
                mode: in_force.mode,
                rules: (*in_force.rules).clone(),
                directories: paths.roots.iter().skip(1).cloned().collect(),
                bypass_reachable: self.is_available(PermissionMode::BypassPermissions),
                auto_available: self.is_available(PermissionMode::Auto),
            };
            changed.apply(update, source).map_err(|error| error.to_string())?;
            in_force.change_mode(changed.mode);
            in_force.rules = Arc::new(changed.rules);
            in_force.note_directories(update);
            in_force.note_flags(update);
            services.set_added_directories(changed.directories);
        }
        self.changes.send_replace(());
        self.say_what_is_vain(services, update);
        let mut live = lock(&self.live);
        let Some(live) = live.as_mut() else { return Ok(()) };
        if update.destination().is_kept() {
            return live.keep(update);
        }
        let (sandbox, remarks) = live.said_in_session(&self.rules());
        rebuild(services, sandbox, remarks);
        Ok(())
    }
}

/// Puts other walls around the commands that begin from now on, and says what is to be said about them.
fn rebuild(services: &Services, sandbox: SandboxNow, remarks: Vec<String>) {
    match sandbox {
        SandboxNow::Same => {}
        SandboxNow::Off => services.walls().replace(None),
        SandboxNow::On(sandboxing) => services.walls().replace(Some(sandboxing)),
    }
    for text in remarks {
        services.publish(&AgentPath::default(), Body::Notice(Notice { level: Level::Warning, text }));
    }
}

/// Files are read and walls tried out beside the threads that everything else runs on. It comes to its end even when
/// nobody waits for it any more: what was read must be taken up.
async fn aside(work: impl FnOnce() + Send + 'static) {
    if let Err(error) = tokio::task::spawn_blocking(work).await
        && error.is_panic()
    {
        std::panic::resume_unwind(error.into_panic());
    }
}

/// Whether a hook wants a change not to be taken up; `None` when the turn was stopped before they had said so. The
/// administrator's word is not a hook's to stop.
async fn is_objected_to(scope: &CallScope, change: &ChangedSettings) -> Option<bool> {
    let hooks = scope.services.hooks();
    let Some(source) = change.source.name().filter(|_| hooks.listens(HookEvent::ConfigChange)) else {
        return Some(false);
    };
    let fired = hooks.fire(scope, &Occasion::ConfigChange { source, file: &change.file }).await;
    let stopped = scope.cancel.is_cancelled() && fired.blocked.is_none();
    (!stopped).then_some(fired.blocked.is_some() && change.source != SettingsSource::Policy)
}
