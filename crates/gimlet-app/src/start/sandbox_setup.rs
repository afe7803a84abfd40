//! Building the sandbox of a session's commands from settings and rules.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gimlet_config::{CredentialMode, ProjectItem, RuleBehavior, SandboxSettings as Settings};
use gimlet_core::{
    CommandGuardState, EffectivePermissions, SandboxUpdate, SessionConfinement, SessionSandbox, SettingsFiles,
};
use gimlet_exec::{
    BubblewrapChoice, ProbeOptions, Sandbox, SandboxBackend, SandboxPlace, SandboxSupport, UpstreamProxies,
    default_sandbox_spec, is_host_pattern, probe_sandbox,
};
use gimlet_policy::{Behavior, DecisionContext, DeniedFiles, Rule, RuleScope, RuleSet, RuleSource};
use gimlet_proto::{NetworkAccess, SandboxSpec};
use gimlet_store::create_private_dirs;

mod sandbox_paths;

use self::sandbox_paths::{base_dir, has_pattern, listed_paths, rule_path};
use super::session_history::SessionScratchDir;
use super::session_settings::SessionSettings;
use crate::launch_error::LaunchError;
use crate::process_env::ProcessEnv;
use crate::stored_keys::StoredKeys;

/// Sandbox of a session as it starts.
pub(super) struct SandboxSetup {
    pub(super) sandbox: Option<Arc<SessionSandbox>>,
    /// Remarks for the user.
    pub(super) remarks: Vec<String>,
    /// Requested part that is not available.
    pub(super) missing: Option<String>,
    /// Folder for the commands' temporary files.
    pub(super) scratch: SessionScratchDir,
    /// Builder that rebuilds the sandbox when settings change.
    pub(super) builder: SandboxBuilder,
    /// State of the sandboxed commands, shared by all builds.
    pub(super) watched: Arc<Mutex<CommandGuardState>>,
}

/// Options besides settings.
#[derive(Clone, Copy, Default)]
pub(super) struct SandboxOptions {
    /// True if a user or a program can decide about unlisted hosts.
    pub(super) can_ask_about_hosts: bool,
    /// Memory limit of each process.
    pub(super) max_memory: Option<u64>,
}

/// Builds the sandbox from settings; an error when they require one and it is not available.
pub(super) async fn set_up_sandbox(
    configured: &SessionSettings,
    now: &EffectivePermissions,
    wishes: SandboxOptions,
) -> Result<SandboxSetup, LaunchError> {
    let root = super::scratch_dir_path(&configured.env);
    let mut walls = SandboxBuilder { options: wishes, ..SandboxBuilder::inactive(root.clone()) };
    let settings = &configured.effective.settings.sandbox;
    let (mut sandboxing, mut remarks, mut lacking) = (None, Vec::new(), None);
    if settings.enabled == Some(true) {
        walls.available = Some(probe_machine(choose_bubblewrap(configured)).await);
        match walls.build(configured, now) {
            Ok((built, said)) => {
                lacking = walls.available.as_ref().and_then(missing_layers_line);
                (sandboxing, remarks) = (built, said);
            }
            Err(why) if settings.fail_if_unavailable == Some(true) => {
                return Err(LaunchError::new(format!("the sandbox that settings demand is not there: {why}"))
                    .with_hint("See 'gimlet sandbox explain', or change sandbox.failIfUnavailable")
                    .with_reason("sandbox_required_unavailable"));
            }
            Err(why) => {
                remarks.push(no_sandbox_message(&why));
                lacking = remarks.last().cloned();
            }
        }
        remarks.extend(crate::sandbox_process::invalid_backend_choice(&configured.env));
    }
    let watched = walls.state.clone();
    Ok(SandboxSetup {
        sandbox: sandboxing,
        remarks,
        missing: lacking,
        scratch: SessionScratchDir(Some(root)),
        builder: walls,
        watched,
    })
}

/// Builds the confinement for commands that run without a question; `None` when the user turned it off.
pub(super) fn build_confinement(
    configured: &SessionSettings,
    now: &EffectivePermissions,
    found: &SandboxSetup,
) -> Option<Arc<SessionConfinement>> {
    let SessionSettings { around, effective, .. } = configured;
    if effective.settings.sandbox.confine_read_only_commands == Some(false) {
        return None;
    }
    let mut closed = listed_paths(effective, around, "sandbox.filesystem.denyRead");
    closed.extend(listed_paths(effective, around, "sandbox.credentials.files"));
    closed.extend(deny_rules(now, &[]).filter_map(|rule| rule_path(&rule.text, &rule.source.anchor, "Read", around)));
    closed.extend([quarantine_dir(around), stored_keys_file(around)]);
    let temp_dir = found.builder.scratch.join("confined");
    Some(Arc::new(SessionConfinement::new(around.config_home.clone(), temp_dir, closed)))
}

fn no_sandbox_message(why: &str) -> String {
    format!("there is no sandbox, so commands run without one and ask as usual: {why}. See 'gimlet sandbox explain'")
}

fn choose_bubblewrap(configured: &SessionSettings) -> BubblewrapChoice {
    let named = configured.effective.settings.sandbox.bwrap_path.as_ref();
    named.map_or_else(
        || crate::sandbox_process::bubblewrap_from_env(&configured.env),
        |path| BubblewrapChoice::At(PathBuf::from(path)),
    )
}

/// Sandbox from settings, for commands without a session.
pub struct FolderSandbox {
    settings: SessionSettings,
}

/// Sandbox that settings request.
pub struct FolderSandboxSpec {
    pub spec: SandboxSpec,
    pub upstream: UpstreamProxies,
    pub enabled: bool,
    /// Files that the settings come from.
    pub settings_files: Vec<PathBuf>,
}

impl FolderSandbox {
    /// Reads the settings that a session in this folder would start with.
    pub fn read(around: &ProcessEnv) -> Result<Self, LaunchError> {
        Ok(Self { settings: SessionSettings::for_folder(around)? })
    }

    pub fn bubblewrap(&self) -> BubblewrapChoice {
        choose_bubblewrap(&self.settings)
    }

    /// Builds the spec with further writable paths. Unlisted hosts are refused: no questions are asked here.
    pub fn build_spec(&self, temp_dir: &Path, opened: Vec<PathBuf>) -> FolderSandboxSpec {
        let settings = &self.settings.effective.settings.sandbox;
        let now = self.settings.now();
        let mut spec = sandbox_spec(&self.settings, &now, &[], temp_dir, opened);
        spec.network = network_access(&self.settings, &now, &[], false);
        let settings_files = self.settings.settings_files();
        FolderSandboxSpec {
            spec,
            upstream: upstream_proxy(settings),
            enabled: settings.enabled == Some(true),
            settings_files,
        }
    }
}

/// Builder of a session's sandbox, at its start and when settings change.
pub(super) struct SandboxBuilder {
    /// Support of this machine, once probed.
    available: Option<SandboxSupport>,
    /// A folder of the session's own.
    scratch: PathBuf,
    options: SandboxOptions,
    state: Arc<Mutex<CommandGuardState>>,
    /// Deny rules of this session alone.
    session_denials: Vec<Rule>,
    /// Plan of the current sandbox.
    plan: Option<SessionSandboxPlan>,
    /// Number of builds so far.
    builds: u32,
    /// True if changed settings demand a sandbox that is not available.
    is_missing: bool,
}

/// Inputs of a sandbox build; the sandbox is rebuilt only when they change.
#[derive(Clone, PartialEq)]
struct SessionSandboxPlan {
    spec: SandboxSpec,
    upstream: UpstreamProxies,
    asks_about_hosts: bool,
    auto_allow: bool,
    may_leave: bool,
    excluded: Vec<String>,
    expected: Vec<(String, Vec<String>)>,
    /// Rules that deny files by patterns.
    closing: Vec<(String, PathBuf)>,
}

impl SandboxBuilder {
    /// Returns a builder without a sandbox.
    pub(super) fn inactive(scratch: PathBuf) -> Self {
        let state = Arc::default();
        Self {
            available: None,
            scratch,
            options: SandboxOptions::default(),
            state,
            session_denials: Vec::new(),
            plan: None,
            builds: 0,
            is_missing: false,
        }
    }

    /// Stores the deny rules of this session; returns true if the current sandbox must be rebuilt for them.
    pub(super) fn set_session_denials(&mut self, said: Vec<Rule>) -> bool {
        let texts = |rules: &[Rule]| rules.iter().map(|rule| rule.text.clone()).collect::<Vec<_>>();
        let is_news = texts(&said) != texts(&self.session_denials);
        self.session_denials = said;
        is_news && self.plan.is_some()
    }

    /// Returns true if no command may run because the sandbox that settings demand is not available.
    pub(super) fn is_missing(&self) -> bool {
        self.is_missing
    }

    /// Applies changed settings to the sandbox; returns the update and remarks for the user.
    pub(super) fn update(
        &mut self,
        configured: &SessionSettings,
        now: &EffectivePermissions,
    ) -> (SandboxUpdate, Vec<String>) {
        let settings = &configured.effective.settings.sandbox;
        self.is_missing = false;
        if settings.enabled != Some(true) {
            return match self.plan.take() {
                Some(_) => (SandboxUpdate::Off, vec!["the sandbox is off now; commands ask as usual".to_owned()]),
                None => (SandboxUpdate::Unchanged, Vec::new()),
            };
        }
        if self.available.is_none() {
            self.available = probe_on_thread(choose_bubblewrap(configured));
        }
        match self.build(configured, now) {
            Ok((Some(sandboxing), remarks)) => (SandboxUpdate::On(sandboxing), remarks),
            Ok((None, _)) => (SandboxUpdate::Unchanged, Vec::new()),
            Err(why) if self.plan.is_some() => (
                SandboxUpdate::Unchanged,
                vec![format!("the sandbox stays as it was, since it cannot be changed: {why}")],
            ),
            Err(why) if settings.fail_if_unavailable == Some(true) => {
                self.is_missing = true;
                let text = format!("the sandbox that settings demand is not there, so no command runs: {why}");
                (SandboxUpdate::Unchanged, vec![text])
            }
            Err(why) => (SandboxUpdate::Unchanged, vec![no_sandbox_message(&why)]),
        }
    }

    /// Builds a new sandbox with remarks; returns none when the current one already fits.
    fn build(
        &mut self,
        configured: &SessionSettings,
        now: &EffectivePermissions,
    ) -> Result<(Option<Arc<SessionSandbox>>, Vec<String>), String> {
        let available = self.available.clone().ok_or("nobody could look at what this machine can do")?;
        if let SandboxBackend::None { why } = &available.backend {
            return Err(why.clone());
        }
        let temp_dir = self.scratch.join("tmp");
        create_private_dirs(&temp_dir).map_err(|error| format!("{} cannot be made: {error}", temp_dir.display()))?;
        let closing = denied_pattern_rules(configured, now, &self.session_denials);
        let plan = self.build_plan(configured, now, &available, &temp_dir, &closing);
        if self.plan.as_ref() == Some(&plan) {
            return Ok((None, Vec::new()));
        }
        self.builds += 1;
        // Commands in an earlier sandbox still use the earlier proxy.
        let folder = self.scratch.join(format!("walls-{}", self.builds));
        create_private_dirs(&folder).map_err(|error| format!("{} cannot be made: {error}", folder.display()))?;
        let mut spec = plan.spec.clone();
        let mut remarks = invalid_host_remarks(configured, now, &self.session_denials);
        let proxy = crate::sandbox_process::start_proxy(&spec, plan.upstream, &folder).unwrap_or_else(|report| {
            // A sandbox without network is better than none.
            spec.network = NetworkAccess::Off;
            remarks.push(format!(
                "the network of the sandbox is closed, since its proxy did not start: {}",
                report.text()
            ));
            None
        });
        let socket = proxy.as_ref().map(|proxy| proxy.socket().to_owned());
        let sandbox = Sandbox::new(spec, available.clone(), socket).map_err(|error| error.to_string())?;
        let spec = sandbox.spec().clone();
        let world = pattern_context(configured, &spec.write);
        let sandboxing = SessionSandbox {
            sandbox,
            available,
            auto_allow: plan.auto_allow,
            may_run_unsandboxed: plan.may_leave,
            excluded: plan.excluded.clone(),
            quarantine: quarantine_dir(&configured.around),
            settings: Some(SettingsFiles {
                locations: configured.loaded.locations.clone(),
                files: configured.settings_files(),
            }),
            proxy,
            asks_about_hosts: plan.asks_about_hosts,
            denied_files: DeniedFiles::new(&closing, &world, &[]),
            read_only_files: DeniedFiles::for_writers(&closing, &world),
            expected_violations: plan.expected.clone(),
            state: self.state.clone(),
            spec,
        };
        remarks.extend(missing_layers_line(&sandboxing.available));
        remarks.extend(unmet_setting_remarks(&configured.effective.settings.sandbox, &sandboxing));
        if configured.loaded.has_damaged_file() {
            remarks.push("settings that are broken may close more, so commands in the sandbox ask as usual".to_owned());
        }
        self.plan = Some(plan);
        Ok((Some(Arc::new(sandboxing)), remarks))
    }

    fn build_plan(
        &self,
        configured: &SessionSettings,
        now: &EffectivePermissions,
        available: &SandboxSupport,
        temp_dir: &Path,
        closing: &RuleSet,
    ) -> SessionSandboxPlan {
        let settings = &configured.effective.settings.sandbox;
        let mut spec = sandbox_spec(configured, now, &self.session_denials, temp_dir, Vec::new());
        // Quarantined files of one command must not be readable by the next.
        spec.deny_read.extend([quarantine_dir(&configured.around), stored_keys_file(&configured.around)]);
        spec.max_memory = self.options.max_memory;
        let asks_about_hosts = !is_allowlist_strict(settings);
        if available.backend != SandboxBackend::Landlock {
            spec.network = network_access(
                configured,
                now,
                &self.session_denials,
                asks_about_hosts && self.options.can_ask_about_hosts,
            );
        }
        let closing = closing.rules(Behavior::Deny).iter().map(|rule| (rule.text.clone(), rule.source.anchor.clone()));
        SessionSandboxPlan {
            spec,
            upstream: upstream_proxy(settings),
            asks_about_hosts,
            auto_allow: settings.auto_allow_bash_if_sandboxed != Some(false) && may_auto_allow(configured),
            may_leave: settings.allow_unsandboxed_commands != Some(false),
            excluded: settings.excluded_commands.clone().unwrap_or_default(),
            expected: settings.ignore_violations.clone().unwrap_or_default().into_iter().collect(),
            closing: closing.collect(),
        }
    }
}

fn stored_keys_file(around: &ProcessEnv) -> PathBuf {
    StoredKeys::new(&around.config_home).path().to_owned()
}

pub(super) fn quarantine_dir(around: &ProcessEnv) -> PathBuf {
    around.config_home.join("gimlet/quarantine")
}

/// Probes this machine's support, with processes that end before the session starts its own.
async fn probe_machine(bubblewrap: BubblewrapChoice) -> SandboxSupport {
    let exec = crate::sandbox_process::new_exec();
    let available = probe_sandbox(&exec, &ProbeOptions { bubblewrap, ..ProbeOptions::default() }).await;
    exec.shutdown(Duration::ZERO).await;
    available
}

/// Probes once for a session that already runs, on a separate thread: the settings reload may block, the session's
/// threads must not.
fn probe_on_thread(bubblewrap: BubblewrapChoice) -> Option<SandboxSupport> {
    let looking = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
        Some(runtime.block_on(probe_machine(bubblewrap)))
    });
    looking.join().ok().flatten()
}

/// Returns a line about missing sandbox layers: without them no command is allowed for being sandboxed.
fn missing_layers_line(available: &SandboxSupport) -> Option<String> {
    let missing: Vec<String> = available.missing_layers().iter().map(|layer| layer.name().to_owned()).collect();
    let text = format!("the sandbox lacks {}, so commands in it ask as usual", missing.join(", "));
    (!missing.is_empty()).then_some(text)
}

/// Returns remarks on settings that cannot be met, or only in another form.
fn unmet_setting_remarks(settings: &Settings, sandboxing: &SessionSandbox) -> Vec<String> {
    let mut remarks = Vec::new();
    let wants_hosts = settings.network.allowed_domains.as_ref().is_some_and(|hosts| !hosts.is_empty());
    if sandboxing.available.backend == SandboxBackend::Landlock && wants_hosts {
        remarks.push("without a network namespace the sandbox cannot allow single hosts; its network is closed".into());
    }
    if sandboxing.spec.files_open {
        remarks.push("sandbox.filesystem.disabled leaves files open, so commands in the sandbox ask as usual".into());
    }
    let masked = settings.credentials.files.iter().flatten().any(|secret| secret.mode == CredentialMode::Mask);
    if masked {
        remarks.push("sandbox.credentials.files: files with the mode 'mask' are closed instead".into());
    }
    remarks
}

/// Returns true if unlisted hosts are refused: by a setting, or because only the administrator may name hosts.
fn is_allowlist_strict(settings: &Settings) -> bool {
    let network = &settings.network;
    network.strict_allowlist == Some(true) || network.allow_managed_domains_only == Some(true)
}

fn upstream_proxy(settings: &Settings) -> UpstreamProxies {
    UpstreamProxies { http: settings.network.http_proxy_port, socks: settings.network.socks_proxy_port }
}

/// Returns the network access of commands: through the proxy if hosts are allowed or can be asked about. An invalid
/// allowed entry allows nothing; an invalid denied entry denies all hosts.
fn network_access(
    configured: &SessionSettings,
    now: &EffectivePermissions,
    said: &[Rule],
    asking: bool,
) -> NetworkAccess {
    let settings = &configured.effective.settings.sandbox.network;
    let (mut allow, deny) = host_lists(configured, now, said);
    allow.retain(|host| is_host_pattern(host));
    let has_upstream = settings.http_proxy_port.is_some() || settings.socks_proxy_port.is_some();
    let nobody_passes = allow.is_empty() && !asking && !has_upstream;
    if nobody_passes || !deny.iter().all(|host| is_host_pattern(host)) {
        return NetworkAccess::Off;
    }
    NetworkAccess::Proxy { allow, deny }
}

/// Returns the allowed hosts and the denied hosts.
fn host_lists(configured: &SessionSettings, now: &EffectivePermissions, said: &[Rule]) -> (Vec<String>, Vec<String>) {
    let effective = &configured.effective;
    let settings = &effective.settings.sandbox.network;
    let allowing = effective.rules.iter().filter(|rule| rule.behavior == RuleBehavior::Allow);
    let allow = collect_domains(settings.allowed_domains.as_ref(), allowing.map(|rule| &*rule.text));
    (allow, collect_domains(settings.denied_domains.as_ref(), deny_rules(now, said).map(|rule| &*rule.text)))
}

/// Returns remarks on entries that are not valid hosts.
fn invalid_host_remarks(configured: &SessionSettings, now: &EffectivePermissions, said: &[Rule]) -> Vec<String> {
    let (allow, deny) = host_lists(configured, now, said);
    let mut remarks = Vec::new();
    if let Some(odd) = allow.iter().find(|host| !is_host_pattern(host)) {
        remarks.push(format!("the sandbox lets nobody through for '{odd}', which is no host"));
    }
    if let Some(odd) = deny.iter().find(|host| !is_host_pattern(host)) {
        remarks.push(format!("the network of the sandbox is closed: '{odd}', which is to be kept out, is no host"));
    }
    remarks
}

/// Returns true if the sandbox may replace questions: only if the user turned it on or accepted that a project did, and
/// if all denials in the user's files are known.
fn may_auto_allow(configured: &SessionSettings) -> bool {
    if configured.loaded.has_damaged_file() {
        return false;
    }
    let accepted = || {
        configured.trust.has_accepted_folder()
            && !configured.effective.withheld.iter().any(ProjectItem::is_sandbox_auto_allow)
    };
    configured.loaded.has_user_enabled_sandbox() || accepted()
}

/// Builds the spec from settings and rules, with further writable paths in `opened`.
fn sandbox_spec(
    configured: &SessionSettings,
    now: &EffectivePermissions,
    said: &[Rule],
    temp_dir: &Path,
    mut opened: Vec<PathBuf>,
) -> SandboxSpec {
    let SessionSettings { around, effective, .. } = configured;
    let settings = &effective.settings.sandbox;
    let listed = |key: &str| listed_paths(effective, around, key);
    opened.extend(listed("sandbox.filesystem.allowWrite"));
    let allowed = effective.rules.iter().filter(|rule| rule.behavior == RuleBehavior::Allow);
    opened.extend(allowed.filter_map(|rule| rule_path(&rule.text, &rule.anchor, "Edit", around)));
    let mut spec = default_sandbox_spec(SandboxPlace {
        cwd: &around.cwd,
        write: &now.directories,
        opened: &opened,
        home: around.home.as_deref(),
        config_home: &around.config_home,
        temp_dir,
        env: &configured.env,
    });
    spec.deny_write.extend(listed("sandbox.filesystem.denyWrite"));
    spec.deny_write.extend(configured.flag_file());
    // Trusted scripts run outside the sandbox.
    spec.deny_write.extend(configured.trusted_scripts());
    spec.deny_read.extend(listed("sandbox.filesystem.denyRead"));
    spec.allow_read.extend(listed("sandbox.filesystem.allowRead"));
    spec.deny_read.extend(listed("sandbox.credentials.files"));
    for rule in deny_rules(now, said) {
        let path = |tool: &str| rule_path(&rule.text, &rule.source.anchor, tool, around);
        spec.deny_write.extend(path("Edit"));
        spec.deny_read.extend(path("Read"));
    }
    let mut governing = sandbox_paths::governing_paths(configured.governing_files(), &around.config_home, &spec.write);
    governing.retain(|name| !spec.deny_write.contains(name));
    spec.deny_write.extend(governing);
    let network = &settings.network;
    spec.local_sockets = network.allow_local_binding == Some(true);
    spec.unix_sockets = network.allow_all_unix_sockets == Some(true);
    spec.files_open = settings.filesystem.disabled == Some(true);
    for secret in settings.credentials.env_vars.iter().flatten() {
        let list = match secret.mode {
            CredentialMode::Deny => &mut spec.hide_env,
            CredentialMode::Mask => &mut spec.mask_env,
        };
        list.extend(secret.name.clone());
    }
    spec
}

/// Returns the patterns that `Read(…)` and `Edit(…)` deny rules and settings lists close; the sandbox itself has no
/// patterns.
fn denied_pattern_rules(configured: &SessionSettings, now: &EffectivePermissions, said: &[Rule]) -> RuleSet {
    let SessionSettings { around, effective, .. } = configured;
    let mut closing = RuleSet::default();
    for rule in deny_rules(now, said) {
        let inside = |tool: &str| rule.text.trim().strip_prefix(tool)?.strip_prefix('(')?.strip_suffix(')');
        let inside = inside("Read").or_else(|| inside("Edit"));
        // A name without a folder is meant at any depth.
        if inside.is_some_and(|inside| has_pattern(inside) || !inside.contains('/')) {
            // The rule was parsed once already.
            drop(closing.add(Behavior::Deny, &rule.text, &rule.source));
        }
    }
    let listed = |key: &str, tool: &'static str| effective.merged.entries(key).iter().map(move |entry| (entry, tool));
    let unread = listed("sandbox.filesystem.denyRead", "Read");
    for (entry, tool) in unread.chain(listed("sandbox.filesystem.denyWrite", "Edit")) {
        let Some(text) = entry.value.as_str().filter(|text| has_pattern(text)) else { continue };
        let pattern = match (text.starts_with("~/"), text.strip_prefix('/')) {
            (true, _) => text.to_owned(),
            (false, Some(rest)) => format!("//{}", rest.trim_start_matches('/')),
            (false, None) => format!("/{}", text.strip_prefix("./").unwrap_or(text)),
        };
        let source = RuleSource::new(RuleScope::User, base_dir(entry, around));
        // An invalid pattern denies nothing; the check of settings reports it.
        drop(closing.add(Behavior::Deny, &format!("{tool}({pattern})"), &source));
    }
    closing
}

/// Returns the context in which these patterns are evaluated.
fn pattern_context(configured: &SessionSettings, roots: &[PathBuf]) -> DecisionContext {
    let (cwd, home) = (configured.around.cwd.clone(), configured.around.home.clone());
    DecisionContext { cwd, home, roots: roots.to_vec(), ..DecisionContext::default() }
}

/// Returns all deny rules: from files and flags, and those added while the session runs.
fn deny_rules<'a>(now: &'a EffectivePermissions, said: &'a [Rule]) -> impl Iterator<Item = &'a Rule> {
    now.rules.rules(Behavior::Deny).iter().chain(said)
}

/// Returns the hosts of a list in settings, and of rules.
fn collect_domains<'a>(listed: Option<&Vec<String>>, rules: impl Iterator<Item = &'a str>) -> Vec<String> {
    let of_rule = |rule: &str| {
        let inside = rule.trim().strip_prefix("WebFetch(domain:")?.strip_suffix(')')?;
        Some(inside.trim().to_owned())
    };
    listed.into_iter().flatten().cloned().chain(rules.filter_map(of_rule)).collect()
}
