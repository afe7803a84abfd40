//! From settings and rules to the sandbox of a session's commands.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gimlet_config::{CredentialMode, Item, RuleBehavior, Sandbox as Settings};
use gimlet_core::{Confining, SandboxNow, Sandboxing, SettingsFiles, SettingsNow, WatchState};
use gimlet_exec::{
    Available, Backend, Bubblewrap, ProbeOptions, Sandbox, SandboxPlace, Upstream, default_sandbox, is_host_pattern,
    probe,
};
use gimlet_policy::{Behavior, ClosedFiles, Rule, RuleScope, RuleSet, RuleSource, World};
use gimlet_proto::{SandboxNetwork, SandboxSpec};
use gimlet_store::create_private_dirs;

mod places;

use self::places::{base_of, has_pattern, listed, path_of_rule};
use super::configured::Configured;
use super::sessions::Scratch;
use crate::report::Report;
use crate::surroundings::Surroundings;

/// The walls of a session as it starts.
pub(super) struct Found {
    pub(super) sandboxing: Option<Arc<Sandboxing>>,
    /// What people should know about it.
    pub(super) remarks: Vec<String>,
    /// What of it is asked for and cannot be had.
    pub(super) missing: Option<String>,
    /// Holds the commands' own temporary files.
    pub(super) scratch: Scratch,
    /// Builds them again when settings change.
    pub(super) walls: Walls,
    /// What is known of the commands behind all of them.
    pub(super) watched: Arc<Mutex<WatchState>>,
}

/// What is wanted besides what settings say.
#[derive(Clone, Copy, Default)]
pub(super) struct Wishes {
    /// There is somebody or something that decides about hosts on no list.
    pub(super) answered: bool,
    /// The most memory for each process.
    pub(super) max_memory: Option<u64>,
}

/// The sandbox that settings want; an error when they want none of the session without it.
pub(super) async fn sandboxing(configured: &Configured, now: &SettingsNow, wishes: Wishes) -> Result<Found, Report> {
    let root = super::scratch_folder(&configured.env);
    let mut walls = Walls { wishes, ..Walls::none(root.clone()) };
    let settings = &configured.effective.settings.sandbox;
    let (mut sandboxing, mut remarks, mut lacking) = (None, Vec::new(), None);
    if settings.enabled == Some(true) {
        walls.available = Some(look(bubblewrap(configured)).await);
        match walls.build(configured, now) {
            Ok((built, said)) => {
                lacking = walls.available.as_ref().and_then(missing);
                (sandboxing, remarks) = (built, said);
            }
            Err(why) if settings.fail_if_unavailable == Some(true) => {
                return Err(Report::new(format!("the sandbox that settings demand is not there: {why}"))
                    .hint("See 'gimlet sandbox explain', or change sandbox.failIfUnavailable")
                    .because("sandbox_required_unavailable"));
            }
            Err(why) => {
                remarks.push(no_sandbox(&why));
                lacking = remarks.last().cloned();
            }
        }
        remarks.extend(crate::sandbox::odd_choice(&configured.env));
    }
    let watched = walls.state.clone();
    Ok(Found { sandboxing, remarks, missing: lacking, scratch: Scratch(Some(root)), walls, watched })
}

/// What commands are held to that nobody was asked about; `None` when the user does not want that.
pub(super) fn confining(configured: &Configured, now: &SettingsNow, found: &Found) -> Option<Arc<Confining>> {
    let Configured { around, effective, .. } = configured;
    if effective.settings.sandbox.confine_read_only_commands == Some(false) {
        return None;
    }
    let mut closed = listed(effective, around, "sandbox.filesystem.denyRead");
    closed.extend(listed(effective, around, "sandbox.credentials.files"));
    closed.extend(denying(now, &[]).filter_map(|rule| path_of_rule(&rule.text, &rule.source.anchor, "Read", around)));
    closed.push(quarantine(around));
    let temp_dir = found.walls.scratch.join("confined");
    Some(Arc::new(Confining::new(around.config_home.clone(), temp_dir, closed)))
}

fn no_sandbox(why: &str) -> String {
    format!("there is no sandbox, so commands run without one and ask as usual: {why}. See 'gimlet sandbox explain'")
}

fn bubblewrap(configured: &Configured) -> Bubblewrap {
    let named = configured.effective.settings.sandbox.bwrap_path.as_ref();
    named.map_or_else(|| crate::sandbox::bubblewrap(&configured.env), |path| Bubblewrap::At(PathBuf::from(path)))
}

/// The walls of settings, for whoever looks at them without a session.
pub(crate) struct InForce {
    configured: Configured,
}

/// What settings want of the sandbox.
pub(crate) struct InForceWalls {
    pub(crate) spec: SandboxSpec,
    pub(crate) upstream: Upstream,
    pub(crate) enabled: bool,
    /// The files that they are written in.
    pub(crate) settings_files: Vec<PathBuf>,
}

impl InForce {
    /// The settings that a session in this folder would begin with.
    pub(crate) fn read(around: &Surroundings) -> Result<Self, Report> {
        Ok(Self { configured: Configured::of_folder(around)? })
    }

    pub(crate) fn bubblewrap(&self) -> Bubblewrap {
        bubblewrap(&self.configured)
    }

    /// With further places that may be written. Hosts on no list are refused: nobody is asked here.
    pub(crate) fn walls(&self, temp_dir: &Path, opened: Vec<PathBuf>) -> InForceWalls {
        let settings = &self.configured.effective.settings.sandbox;
        let now = self.configured.now();
        let mut spec = spec(&self.configured, &now, &[], temp_dir, opened);
        spec.network = network(&self.configured, &now, &[], false);
        let settings_files = self.configured.settings_files();
        InForceWalls { spec, upstream: upstream(settings), enabled: settings.enabled == Some(true), settings_files }
    }
}

/// Builds the walls of a session, at its start and whenever settings want others.
pub(super) struct Walls {
    /// What this machine can do, once somebody looked.
    available: Option<Available>,
    /// A folder of the session's own.
    scratch: PathBuf,
    wishes: Wishes,
    state: Arc<Mutex<WatchState>>,
    /// Deny rules that hold for this session alone.
    said: Vec<Rule>,
    /// What the walls that stand were built from.
    plan: Option<Plan>,
    /// How often they were built.
    builds: u32,
    /// Settings that changed demand walls that cannot be had.
    missed: bool,
}

/// Everything that walls are built from; other walls are needed only for another plan.
#[derive(Clone, PartialEq)]
struct Plan {
    spec: SandboxSpec,
    upstream: Upstream,
    asks_about_hosts: bool,
    auto_allow: bool,
    may_leave: bool,
    excluded: Vec<String>,
    expected: Vec<(String, Vec<String>)>,
    /// Rules that close files by patterns.
    closing: Vec<(String, PathBuf)>,
}

impl Walls {
    /// No walls yet.
    pub(super) fn none(scratch: PathBuf) -> Self {
        let state = Arc::default();
        Self {
            available: None,
            scratch,
            wishes: Wishes::default(),
            state,
            said: Vec::new(),
            plan: None,
            builds: 0,
            missed: false,
        }
    }

    /// Keeps in mind what was forbidden for this session alone; says whether that is news to walls that stand.
    pub(super) fn forbid(&mut self, said: Vec<Rule>) -> bool {
        let texts = |rules: &[Rule]| rules.iter().map(|rule| rule.text.clone()).collect::<Vec<_>>();
        let is_news = texts(&said) != texts(&self.said);
        self.said = said;
        is_news && self.plan.is_some()
    }

    /// Whether no command may run, for want of walls that settings demand.
    pub(super) fn are_missed(&self) -> bool {
        self.missed
    }

    /// What settings that changed make of the walls, and what people should know about it.
    pub(super) fn renew(&mut self, configured: &Configured, now: &SettingsNow) -> (SandboxNow, Vec<String>) {
        let settings = &configured.effective.settings.sandbox;
        self.missed = false;
        if settings.enabled != Some(true) {
            return match self.plan.take() {
                Some(_) => (SandboxNow::Off, vec!["the sandbox is off now; commands ask as usual".to_owned()]),
                None => (SandboxNow::Same, Vec::new()),
            };
        }
        if self.available.is_none() {
            self.available = look_aside(bubblewrap(configured));
        }
        match self.build(configured, now) {
            Ok((Some(sandboxing), remarks)) => (SandboxNow::On(sandboxing), remarks),
            Ok((None, _)) => (SandboxNow::Same, Vec::new()),
            Err(why) if self.plan.is_some() => {
                (SandboxNow::Same, vec![format!("the sandbox stays as it was, since it cannot be changed: {why}")])
            }
            Err(why) if settings.fail_if_unavailable == Some(true) => {
                self.missed = true;
                let text = format!("the sandbox that settings demand is not there, so no command runs: {why}");
                (SandboxNow::Same, vec![text])
            }
            Err(why) => (SandboxNow::Same, vec![no_sandbox(&why)]),
        }
    }

    /// New walls with what is to be said about them; none when those that stand are the ones that are wanted.
    fn build(
        &mut self,
        configured: &Configured,
        now: &SettingsNow,
    ) -> Result<(Option<Arc<Sandboxing>>, Vec<String>), String> {
        let available = self.available.clone().ok_or("nobody could look at what this machine can do")?;
        if let Backend::None { why } = &available.backend {
            return Err(why.clone());
        }
        let temp_dir = self.scratch.join("tmp");
        create_private_dirs(&temp_dir).map_err(|error| format!("{} cannot be made: {error}", temp_dir.display()))?;
        let closing = closing_rules(configured, now, &self.said);
        let plan = self.plan_of(configured, now, &available, &temp_dir, &closing);
        if self.plan.as_ref() == Some(&plan) {
            return Ok((None, Vec::new()));
        }
        self.builds += 1;
        // Commands behind earlier walls still use the earlier proxy.
        let folder = self.scratch.join(format!("walls-{}", self.builds));
        create_private_dirs(&folder).map_err(|error| format!("{} cannot be made: {error}", folder.display()))?;
        let mut spec = plan.spec.clone();
        let mut remarks = no_hosts(configured, now, &self.said);
        let proxy = crate::sandbox::start_proxy(&spec, plan.upstream, &folder).unwrap_or_else(|report| {
            // Walls without a way out are better than none.
            spec.network = SandboxNetwork::Off;
            remarks.push(format!(
                "the network of the sandbox is closed, since its proxy did not start: {}",
                report.text()
            ));
            None
        });
        let socket = proxy.as_ref().map(|proxy| proxy.socket().to_owned());
        let sandbox = Sandbox::new(spec, available.clone(), socket).map_err(|error| error.to_string())?;
        let spec = sandbox.spec().clone();
        let world = looked_at(configured, &spec.write);
        let sandboxing = Sandboxing {
            sandbox,
            available,
            auto_allow: plan.auto_allow,
            may_leave: plan.may_leave,
            excluded: plan.excluded.clone(),
            quarantine: quarantine(&configured.around),
            settings: Some(SettingsFiles {
                locations: configured.loaded.locations.clone(),
                files: configured.settings_files(),
            }),
            proxy,
            asks_about_hosts: plan.asks_about_hosts,
            closed: ClosedFiles::new(&closing, &world, &[]),
            kept: ClosedFiles::to_writers(&closing, &world),
            expected: plan.expected.clone(),
            state: self.state.clone(),
            spec,
        };
        remarks.extend(missing(&sandboxing.available));
        remarks.extend(less_than_asked_for(&configured.effective.settings.sandbox, &sandboxing));
        if configured.loaded.is_damaged() {
            remarks.push("settings that are broken may close more, so commands in the sandbox ask as usual".to_owned());
        }
        self.plan = Some(plan);
        Ok((Some(Arc::new(sandboxing)), remarks))
    }

    fn plan_of(
        &self,
        configured: &Configured,
        now: &SettingsNow,
        available: &Available,
        temp_dir: &Path,
        closing: &RuleSet,
    ) -> Plan {
        let settings = &configured.effective.settings.sandbox;
        let mut spec = spec(configured, now, &self.said, temp_dir, Vec::new());
        // What was taken away from one command is not for the next.
        spec.deny_read.push(quarantine(&configured.around));
        spec.max_memory = self.wishes.max_memory;
        let asks_about_hosts = !only_lists_count(settings);
        if available.backend != Backend::Landlock {
            spec.network = network(configured, now, &self.said, asks_about_hosts && self.wishes.answered);
        }
        let closing = closing.rules(Behavior::Deny).iter().map(|rule| (rule.text.clone(), rule.source.anchor.clone()));
        Plan {
            spec,
            upstream: upstream(settings),
            asks_about_hosts,
            auto_allow: settings.auto_allow_bash_if_sandboxed != Some(false) && may_answer(configured),
            may_leave: settings.allow_unsandboxed_commands != Some(false),
            excluded: settings.excluded_commands.clone().unwrap_or_default(),
            expected: settings.ignore_violations.clone().unwrap_or_default().into_iter().collect(),
            closing: closing.collect(),
        }
    }
}

pub(super) fn quarantine(around: &Surroundings) -> PathBuf {
    around.config_home.join("gimlet/quarantine")
}

/// Finds out what this machine can do, with processes that end before the session has any of its own.
async fn look(bubblewrap: Bubblewrap) -> Available {
    let exec = crate::sandbox::exec();
    let available = probe(&exec, &ProbeOptions { bubblewrap, ..ProbeOptions::default() }).await;
    exec.shutdown(Duration::ZERO).await;
    available
}

/// The same for a session that runs already, once. Whoever takes up settings may wait; the session's own threads do not.
fn look_aside(bubblewrap: Bubblewrap) -> Option<Available> {
    let looking = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
        Some(runtime.block_on(look(bubblewrap)))
    });
    looking.join().ok().flatten()
}

/// Says which walls are missing: without them nothing is allowed for being inside.
fn missing(available: &Available) -> Option<String> {
    let missing: Vec<String> = available.missing_layers().iter().map(|layer| layer.name().to_owned()).collect();
    let text = format!("the sandbox lacks {}, so commands in it ask as usual", missing.join(", "));
    (!missing.is_empty()).then_some(text)
}

/// What settings ask for and cannot have, or have in another form.
fn less_than_asked_for(settings: &Settings, sandboxing: &Sandboxing) -> Vec<String> {
    let mut remarks = Vec::new();
    let wants_hosts = settings.network.allowed_domains.as_ref().is_some_and(|hosts| !hosts.is_empty());
    if sandboxing.available.backend == Backend::Landlock && wants_hosts {
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

/// Hosts on no list are refused: by wish, or because only the administrator may name hosts.
fn only_lists_count(settings: &Settings) -> bool {
    let network = &settings.network;
    network.strict_allowlist == Some(true) || network.allow_managed_domains_only == Some(true)
}

fn upstream(settings: &Settings) -> Upstream {
    Upstream { http: settings.network.http_proxy_port, socks: settings.network.socks_proxy_port }
}

/// How far commands reach: through the proxy where it has anybody to let through or to ask about. What is no host lets
/// nobody through, and where it is to be kept out, all are.
fn network(configured: &Configured, now: &SettingsNow, said: &[Rule], asking: bool) -> SandboxNetwork {
    let settings = &configured.effective.settings.sandbox.network;
    let (mut allow, deny) = hosts(configured, now, said);
    allow.retain(|host| is_host_pattern(host));
    let has_upstream = settings.http_proxy_port.is_some() || settings.socks_proxy_port.is_some();
    let nobody_passes = allow.is_empty() && !asking && !has_upstream;
    if nobody_passes || !deny.iter().all(|host| is_host_pattern(host)) {
        return SandboxNetwork::Off;
    }
    SandboxNetwork::Proxy { allow, deny }
}

/// The hosts that may be reached, and those that may not.
fn hosts(configured: &Configured, now: &SettingsNow, said: &[Rule]) -> (Vec<String>, Vec<String>) {
    let effective = &configured.effective;
    let settings = &effective.settings.sandbox.network;
    let allowing = effective.rules.iter().filter(|rule| rule.behavior == RuleBehavior::Allow);
    let allow = domains(settings.allowed_domains.as_ref(), allowing.map(|rule| &*rule.text));
    (allow, domains(settings.denied_domains.as_ref(), denying(now, said).map(|rule| &*rule.text)))
}

/// What people should know about entries that are no hosts.
fn no_hosts(configured: &Configured, now: &SettingsNow, said: &[Rule]) -> Vec<String> {
    let (allow, deny) = hosts(configured, now, said);
    let mut remarks = Vec::new();
    if let Some(odd) = allow.iter().find(|host| !is_host_pattern(host)) {
        remarks.push(format!("the sandbox lets nobody through for '{odd}', which is no host"));
    }
    if let Some(odd) = deny.iter().find(|host| !is_host_pattern(host)) {
        remarks.push(format!("the network of the sandbox is closed: '{odd}', which is to be kept out, is no host"));
    }
    remarks
}

/// Whether being inside may answer questions: only if the person turned the sandbox on or accepted that a project did, and
/// if all that the person's files close is known.
fn may_answer(configured: &Configured) -> bool {
    if configured.loaded.is_damaged() {
        return false;
    }
    let accepted =
        || configured.trust.is_known() && !configured.effective.withheld.iter().any(Item::is_sandbox_answers);
    configured.loaded.person_wants_sandbox() || accepted()
}

/// The walls that settings and rules want, around these places besides that are `opened` by somebody else.
fn spec(
    configured: &Configured,
    now: &SettingsNow,
    said: &[Rule],
    temp_dir: &Path,
    mut opened: Vec<PathBuf>,
) -> SandboxSpec {
    let Configured { around, effective, .. } = configured;
    let settings = &effective.settings.sandbox;
    let listed = |key: &str| listed(effective, around, key);
    opened.extend(listed("sandbox.filesystem.allowWrite"));
    let allowed = effective.rules.iter().filter(|rule| rule.behavior == RuleBehavior::Allow);
    opened.extend(allowed.filter_map(|rule| path_of_rule(&rule.text, &rule.anchor, "Edit", around)));
    let mut spec = default_sandbox(SandboxPlace {
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
    // They run outside.
    spec.deny_write.extend(configured.trusted_scripts().cloned());
    spec.deny_read.extend(listed("sandbox.filesystem.denyRead"));
    spec.allow_read.extend(listed("sandbox.filesystem.allowRead"));
    spec.deny_read.extend(listed("sandbox.credentials.files"));
    for rule in denying(now, said) {
        let path = |tool: &str| path_of_rule(&rule.text, &rule.source.anchor, tool, around);
        spec.deny_write.extend(path("Edit"));
        spec.deny_read.extend(path("Read"));
    }
    let mut governing = places::governing(configured.governing(), &around.config_home, &spec.write);
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

/// What `Read(…)` and `Edit(…)` deny rules and lists in settings close by patterns, which walls do not know.
fn closing_rules(configured: &Configured, now: &SettingsNow, said: &[Rule]) -> RuleSet {
    let Configured { around, effective, .. } = configured;
    let mut closing = RuleSet::default();
    for rule in denying(now, said) {
        let inside = |tool: &str| rule.text.trim().strip_prefix(tool)?.strip_prefix('(')?.strip_suffix(')');
        let inside = inside("Read").or_else(|| inside("Edit"));
        // A name without a folder is meant at any depth.
        if inside.is_some_and(|inside| has_pattern(inside) || !inside.contains('/')) {
            // It was understood once already.
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
        let source = RuleSource::new(RuleScope::User, base_of(entry, around));
        // A pattern that is none closes nothing; settings say so where they are checked.
        drop(closing.add(Behavior::Deny, &format!("{tool}({pattern})"), &source));
    }
    closing
}

/// The world in which these patterns are looked for.
fn looked_at(configured: &Configured, roots: &[PathBuf]) -> World {
    let (cwd, home) = (configured.around.cwd.clone(), configured.around.home.clone());
    World { cwd, home, roots: roots.to_vec(), ..World::default() }
}

/// Everything that is denied: by files and flags, and by somebody while the session runs.
fn denying<'a>(now: &'a SettingsNow, said: &'a [Rule]) -> impl Iterator<Item = &'a Rule> {
    now.rules.rules(Behavior::Deny).iter().chain(said)
}

/// Hosts of a list in settings, and of rules.
fn domains<'a>(listed: Option<&Vec<String>>, rules: impl Iterator<Item = &'a str>) -> Vec<String> {
    let of_rule = |rule: &str| {
        let inside = rule.trim().strip_prefix("WebFetch(domain:")?.strip_suffix(')')?;
        Some(inside.trim().to_owned())
    };
    listed.into_iter().flatten().cloned().chain(rules.filter_map(of_rule)).collect()
}
