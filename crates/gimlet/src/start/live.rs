//! Settings files under a running session: taken up when they change, written when a person allows something for good,
//! and opened to a project's own when the person trusts them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gimlet_config::{Edit, Item, ItemKind, Reload, Scope, TrustStore, Watch, key_changes, save};
use gimlet_core::{ChangedSettings, LiveSettings, SandboxNow, SettingsNow, SettingsSource};
use gimlet_policy::{Behavior, Destination, PermissionUpdate, RuleScope, RuleSet, RuleSource};
use gimlet_proto::{TrustItem, TrustQuestion};
use serde_json::Value;

use super::configured::Configured;
use super::sandboxed::Walls;

/// The settings of the command line, to be replaced while a session runs. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct FlagSettings {
    shared: Arc<Mutex<Replaced>>,
}

#[derive(Default)]
struct Replaced {
    /// What is trusted for as long as this program drives sessions.
    pinned: Option<Vec<Item>>,
    /// JSON; what holds now in place of what the flag said.
    text: Option<String>,
    is_new: bool,
}

impl FlagSettings {
    /// What holds now; `None` while the flag itself does.
    pub(crate) fn text(&self) -> Option<String> {
        self.lock().text.clone()
    }

    pub(crate) fn replace(&self, text: String) {
        let mut replaced = self.lock();
        (replaced.text, replaced.is_new) = (Some(text), true);
    }

    /// What the first session trusted for the whole run; that is what this one found, if it is the first.
    pub(super) fn pin(&self, found: Vec<Item>) -> Vec<Item> {
        self.lock().pinned.get_or_insert(found).clone()
    }

    /// The newest text, once.
    pub(super) fn take_change(&self) -> Option<String> {
        let mut replaced = self.lock();
        std::mem::take(&mut replaced.is_new).then(|| replaced.text.clone()).flatten()
    }

    /// A session that starts now has to take everything up.
    pub(crate) fn renew(&self) {
        let mut replaced = self.lock();
        replaced.is_new = replaced.text.is_some();
    }

    fn lock(&self) -> MutexGuard<'_, Replaced> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Settings that a driving program can change in a running session.
const FOLLOWED: [&str; 3] = ["model", "effortLevel", "outputStyle"];

/// What a person's answer can grant for good.
const RULES: &str = "permissions.allow";
const FOLDERS: &str = "permissions.additionalDirectories";
const MODE: &str = "permissions.defaultMode";

/// What a change says anew; nothing for one that only takes away.
fn said(edit: &Edit) -> Vec<&str> {
    match edit {
        Edit::Append(Value::String(text)) | Edit::Set(Value::String(text)) => vec![text],
        Edit::Set(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// The settings of a session that runs.
pub(crate) struct Live {
    configured: Configured,
    watch: Watch,
    store: TrustStore,
    walls: Walls,
    /// Files that changed and that nobody was told of yet.
    noticed: Vec<PathBuf>,
    /// Those that somebody was told of and that were not read again yet.
    changed: Vec<PathBuf>,
    /// The settings of the command line changed; whoever changed them has made the session follow.
    caller_follows: bool,
    /// Files whose change a hook stopped.
    held: Vec<PathBuf>,
}

impl Live {
    pub(super) fn new(configured: Configured, walls: Walls) -> Self {
        let locations = &configured.loaded.locations;
        let (watch, store) = (Watch::new(locations), TrustStore::new(locations));
        Self {
            watch,
            store,
            configured,
            walls,
            noticed: Vec::new(),
            changed: Vec::new(),
            caller_follows: false,
            held: Vec::new(),
        }
    }

    /// Reads files again, but not those that wait for somebody's word.
    fn reload(&mut self) {
        let kept: Vec<PathBuf> = self.held.iter().chain(&self.changed).chain(&self.noticed).cloned().collect();
        self.configured.loaded = self.configured.loaded.reload_but(&kept, &self.configured.options);
        self.configured.judge();
    }

    /// What holds for the session from here on.
    fn now(&mut self) -> SettingsNow {
        let mut now = self.configured.now();
        now.env = self.configured.renew_env();
        let (sandbox, remarks) = self.walls.renew(&self.configured, &now);
        now.sandbox = sandbox;
        now.remarks.extend(remarks);
        if self.walls.are_missed() {
            let source = RuleSource::new(RuleScope::User, "/").called("sandbox.failIfUnavailable");
            now.remarks.extend(now.rules.load(Behavior::Deny, [("Bash", source)]).iter().map(ToString::to_string));
        }
        now
    }

    fn source_of(&self, file: &Path) -> SettingsSource {
        let locations = &self.configured.loaded.locations;
        match file {
            file if file == locations.user_file() => SettingsSource::User,
            file if file == locations.project_file() => SettingsSource::Project,
            file if file == locations.local_file() => SettingsSource::Local,
            file if Some(file) == locations.legacy_local_file().as_deref() => SettingsSource::Local,
            _ => SettingsSource::Policy,
        }
    }

    /// Looks for what changed and keeps it in mind until it is taken up.
    fn notice(&mut self) {
        let files = self.watch.changed();
        // What waited for a command to end counts now, also where it is as it was.
        for file in files.into_iter().chain(self.configured.loaded.settled()) {
            if !self.noticed.contains(&file) {
                self.noticed.push(file);
            }
        }
        if let Some(flag) = self.configured.flag_settings.take_change() {
            self.configured.options.settings_flag = Some(flag);
            self.caller_follows = true;
        }
    }

    /// Reads everything again and says what a person should know about the difference.
    fn reread(&mut self) -> SettingsNow {
        let (before, was_withheld) = (self.configured.effective.clone(), self.configured.untrusted());
        let waited = self.configured.loaded.waiting.clone();
        self.reload();
        let mut now = self.now();
        // It is said once.
        let is_said = |remark: &String| waited.iter().any(|file| remark.starts_with(&*file.to_string_lossy()));
        if waited == self.configured.loaded.waiting {
            now.remarks.retain(|remark| !is_said(remark));
        }
        let changes = key_changes(&before, &self.configured.effective);
        let followed = std::mem::take(&mut self.caller_follows);
        let is_late = |key: &&str| !(followed && FOLLOWED.contains(key));
        let late = changes.iter().filter(|change| change.reload == Reload::Start).map(|change| change.key.as_str());
        let late: Vec<&str> = late.filter(is_late).collect();
        if !late.is_empty() {
            now.remarks.push(format!("settings changed; these count from the next session on: {}", late.join(", ")));
        }
        now.remarks.extend(self.configured.untrusted().filter(|line| was_withheld.as_ref() != Some(line)));
        now
    }

    fn accept(&mut self, items: &[Item]) -> Option<String> {
        let (trust, stored) = self.store.accept(items);
        self.configured.rely_on(trust);
        stored.err().map(|error| format!("the trust holds for this session only: {error}"))
    }

    /// Accepts what the person just said, and nothing else in the folder.
    fn accept_alone(&mut self, items: &[Item]) -> Result<(), String> {
        let stored = self.store.accept_items(items);
        self.configured.rely_on(self.store.trust().and(items));
        stored.map_err(|error| format!("the trust holds for this session only: {error}"))
    }

    /// Writes one change and sees to it that what the person just said needs no further trust.
    fn write(&mut self, scope: Scope, key: &str, edit: &Edit) -> Result<(), String> {
        let file = save(&self.configured.loaded.locations, scope, key, edit).map_err(|error| error.to_string())?;
        self.reload();
        let said = said(edit);
        let granted = |item: &&Item| {
            item.file == file
                && match key {
                    RULES => item.kind == ItemKind::AllowRule && said.contains(&item.name.as_str()),
                    FOLDERS => item.kind == ItemKind::Directory && said.contains(&item.name.as_str()),
                    MODE => item.kind == ItemKind::Setting && item.name == MODE && !said.is_empty(),
                    _ => false,
                }
        };
        let own: Vec<Item> = self.configured.effective.withheld.iter().filter(granted).cloned().collect();
        match own.is_empty() {
            true => Ok(()),
            false => self.accept_alone(&own),
        }
    }
}

impl LiveSettings for Live {
    fn changed(&mut self) -> Vec<ChangedSettings> {
        self.notice();
        let files = std::mem::take(&mut self.noticed);
        let named = |file: &PathBuf| ChangedSettings { file: file.clone(), source: self.source_of(file) };
        let mut changed: Vec<ChangedSettings> = files.iter().map(named).collect();
        self.changed.extend(files);
        if self.caller_follows {
            changed.push(ChangedSettings { file: PathBuf::from("--settings"), source: SettingsSource::Caller });
        }
        changed
    }

    fn take_up_callers(&mut self) -> Option<SettingsNow> {
        self.notice();
        self.caller_follows.then(|| self.reread())
    }

    fn take_up(&mut self, held: &[PathBuf]) -> SettingsNow {
        let changed = std::mem::take(&mut self.changed);
        self.held.retain(|file| !changed.contains(file));
        self.held.extend_from_slice(held);
        self.reread()
    }

    fn trust_question(&mut self) -> Option<TrustQuestion> {
        let changes = self.store.changes(&self.configured.inventory, &self.configured.trust);
        if changes.is_empty() {
            return None;
        }
        let item = |change: gimlet_config::Change| TrustItem {
            title: change.item.title(),
            file: change.item.file.clone(),
            line: change.item.line,
            shown: change.shown,
            is_new: change.is_new,
        };
        Some(TrustQuestion { folder: self.store.root().to_owned(), items: changes.into_iter().map(item).collect() })
    }

    fn accept_trust(&mut self) -> SettingsNow {
        let items = self.configured.effective.withheld.clone();
        let trouble = self.accept(&items);
        self.configured.take_effect();
        let mut now = self.now();
        now.remarks.extend(trouble);
        now
    }

    fn said_in_session(&mut self, rules: &RuleSet) -> (SandboxNow, Vec<String>) {
        let own = rules.rules(Behavior::Deny).iter().filter(|rule| rule.source.is_of_session());
        if !self.walls.forbid(own.cloned().collect()) {
            return (SandboxNow::Same, Vec::new());
        }
        let now = self.configured.now();
        match self.walls.renew(&self.configured, &now) {
            // What is to be said about walls of this kind was said when the first ones were built.
            (SandboxNow::On(sandboxing), _) => (SandboxNow::On(sandboxing), Vec::new()),
            unchanged => unchanged,
        }
    }

    fn reads(&self, destination: Destination) -> bool {
        let sources = self.configured.loaded.sources;
        match destination {
            Destination::Session | Destination::CliArg => true,
            Destination::LocalSettings => sources.local,
            Destination::ProjectSettings => sources.project,
            Destination::UserSettings => sources.user,
        }
    }

    fn keep(&mut self, update: &PermissionUpdate) -> Result<(), String> {
        let scope = match update.destination() {
            Destination::Session | Destination::CliArg => return Ok(()),
            Destination::LocalSettings => Scope::Local,
            Destination::ProjectSettings => Scope::Project,
            Destination::UserSettings => Scope::User,
        };
        let list = |behavior: &Behavior| format!("permissions.{}", behavior.as_str());
        let text = |path: &PathBuf| Value::String(path.to_string_lossy().into_owned());
        match update {
            PermissionUpdate::AddRules { rules, behavior, .. } => rules
                .iter()
                .try_for_each(|rule| self.write(scope, &list(behavior), &Edit::Append(Value::String(rule.text())))),
            PermissionUpdate::ReplaceRules { rules, behavior, .. } => {
                let rules = rules.iter().map(|rule| Value::String(rule.text())).collect();
                self.write(scope, &list(behavior), &Edit::Set(Value::Array(rules)))
            }
            PermissionUpdate::RemoveRules { rules, behavior, .. } => rules
                .iter()
                .try_for_each(|rule| self.write(scope, &list(behavior), &Edit::Take(Value::String(rule.text())))),
            PermissionUpdate::SetMode { mode, .. } => {
                self.write(scope, MODE, &Edit::Set(Value::String(mode.to_string())))
            }
            PermissionUpdate::AddDirectories { directories, .. } => {
                directories.iter().try_for_each(|folder| self.write(scope, FOLDERS, &Edit::Append(text(folder))))
            }
            PermissionUpdate::RemoveDirectories { directories, .. } => {
                directories.iter().try_for_each(|folder| self.write(scope, FOLDERS, &Edit::Take(text(folder))))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use crate::surroundings::Surroundings;
    use clap::Parser;
    use gimlet_proto::Env;

    fn put(path: &Path, text: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// A home and a project in a repository, and the live settings of a session there.
    fn live(root: &Path) -> Live {
        let around = Surroundings {
            env: Env::default(),
            cwd: root.join("project"),
            home: Some(root.join("home")),
            config_home: root.join("home/.claude"),
        };
        let run = Cli::try_parse_from(["gimlet", "-p", "go"]).unwrap().run;
        let configured = Configured::read(&run, &around).unwrap_or_else(|report| panic!("{}", report.line()));
        Live::new(configured, Walls::none(root.join("scratch")))
    }

    /// What a session would take up now, if something changed.
    fn refresh(live: &mut Live) -> Option<SettingsNow> {
        (!live.changed().is_empty()).then(|| live.take_up(&[]))
    }

    fn world() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("home")).unwrap();
        put(&root.join("project/.git/HEAD"), "ref: refs/heads/main\n");
        (dir, root)
    }

    fn allows(now: &SettingsNow) -> Vec<String> {
        now.rules.rules(Behavior::Allow).iter().map(|rule| rule.text.clone()).collect()
    }

    fn add(rule: &str, destination: Destination) -> PermissionUpdate {
        let rules = vec![gimlet_policy::RuleValue::new("Bash", Some(rule.to_owned()))];
        PermissionUpdate::AddRules { rules, behavior: Behavior::Allow, destination }
    }

    #[test]
    fn a_changed_file_is_taken_up_once() {
        let (_dir, root) = world();
        let mut live = live(&root);
        assert!(refresh(&mut live).is_none());
        put(&root.join("home/.claude/settings.json"), r#"{"permissions":{"allow":["Bash(make)"]},"model":"x"}"#);
        let now = refresh(&mut live).unwrap();
        assert_eq!(allows(&now), ["Bash(make)"]);
        assert_eq!(now.remarks, ["settings changed; these count from the next session on: model"]);
        assert!(refresh(&mut live).is_none());
    }

    #[test]
    fn a_mode_that_a_file_disables_is_gone_at_once() {
        use gimlet_proto::PermissionMode::{Auto, BypassPermissions};
        let (_dir, root) = world();
        let mut live = live(&root);
        for (text, gone) in [
            (r#"{"permissions":{"disableBypassPermissionsMode":"disable"}}"#, vec![BypassPermissions]),
            (r#"{"disableAutoMode":"disable"}"#, vec![Auto]),
            ("{}", vec![]),
        ] {
            // Also where nobody trusts the project: it only forbids.
            put(&root.join("project/.claude/settings.json"), text);
            let now = refresh(&mut live).unwrap();
            assert_eq!((now.disabled_modes, now.remarks), (gone, Vec::new()), "{text}");
        }
    }

    #[test]
    fn a_deny_rule_that_becomes_malformed_goes_on_denying_and_is_named() {
        let (_dir, root) = world();
        let file = root.join("home/.claude/settings.json");
        let denies = |now: &SettingsNow| -> Vec<String> {
            now.rules.rules(Behavior::Deny).iter().map(|rule| rule.text.clone()).collect()
        };
        put(&file, r#"{"permissions":{"deny":["Bash(id)"]}}"#);
        let mut live = live(&root);
        put(&file, "{\"permissions\":{\n\"deny\":[\"Bash(id\"],\"allow\":[\"Bash(make)\"]}}");
        let now = refresh(&mut live).unwrap();
        assert_eq!((denies(&now), allows(&now)), (vec!["Bash(id)".to_owned()], Vec::new()));
        let place = format!("{}:2:9: permissions.deny: ", file.display());
        assert_eq!(now.remarks.iter().filter(|remark| remark.starts_with(&place)).count(), 1, "{:?}", now.remarks);
        put(&file, r#"{"permissions":{"deny":["Bash(id -u)"]}}"#);
        assert_eq!(denies(&refresh(&mut live).unwrap()), ["Bash(id -u)"]);
    }

    #[test]
    fn trust_is_asked_for_once_and_holds_for_the_next_session() {
        let (_dir, root) = world();
        put(&root.join("project/.claude/settings.json"), r#"{"permissions":{"allow":["Bash(make)"]}}"#);
        let mut first = live(&root);
        assert_eq!(allows(&first.configured.now()), Vec::<String>::new());
        let question = first.trust_question().unwrap();
        assert_eq!(question.folder, root.join("project"));
        assert_eq!(question.items[0].title, "allow rule Bash(make)");
        assert_eq!(allows(&first.accept_trust()), ["Bash(make)"]);
        let mut second = live(&root);
        assert_eq!(second.trust_question(), None);
        assert_eq!(allows(&second.configured.now()), ["Bash(make)"]);
    }

    #[test]
    fn what_a_person_allows_for_good_is_written_and_needs_no_further_trust() {
        let (_dir, root) = world();
        for (destination, file) in [
            (Destination::LocalSettings, "project/.claude/settings.local.json"),
            (Destination::ProjectSettings, "project/.claude/settings.json"),
            (Destination::UserSettings, "home/.claude/settings.json"),
        ] {
            let mut live = live(&root);
            live.keep(&add(file, destination)).unwrap();
            assert!(std::fs::read_to_string(root.join(file)).unwrap().contains(&format!("Bash({file})")));
        }
        live(&root).keep(&add("x", Destination::Session)).unwrap();
        let now = live(&root).configured.now();
        assert_eq!(allows(&now).len(), 3, "{:?}", allows(&now));
        let mut live = live(&root);
        let PermissionUpdate::AddRules { rules, behavior, destination } =
            add("home/.claude/settings.json", Destination::UserSettings)
        else {
            unreachable!("made as that")
        };
        live.keep(&PermissionUpdate::RemoveRules { rules, behavior, destination }).unwrap();
        assert_eq!(allows(&live.configured.now()).len(), 2);
    }

    #[test]
    fn a_list_a_mode_and_folders_that_a_person_keeps_need_no_further_trust_either() {
        let (_dir, root) = world();
        let project = root.join("project/.claude/settings.json");
        put(&project, r#"{"permissions":{"allow":["Bash(theirs)"],"defaultMode":"acceptEdits"}}"#);
        let folder = root.join("extra");
        std::fs::create_dir(&folder).unwrap();
        let destination = Destination::LocalSettings;
        let rules = ["a", "b"].map(|rule| gimlet_policy::RuleValue::new("Bash", Some(rule.to_owned()))).to_vec();
        let kept = [
            PermissionUpdate::ReplaceRules { rules: rules.clone(), behavior: Behavior::Allow, destination },
            PermissionUpdate::SetMode { mode: gimlet_proto::PermissionMode::Plan, destination },
            PermissionUpdate::AddDirectories { directories: vec![folder.clone()], destination },
            // What is denied is no leave for what others would allow by the same words.
            PermissionUpdate::ReplaceRules {
                rules: vec![gimlet_policy::RuleValue::new("Bash", Some("theirs".to_owned()))],
                behavior: Behavior::Deny,
                destination,
            },
        ];
        let mut first = live(&root);
        kept.iter().for_each(|update| first.keep(update).unwrap());
        for mut session in [first, live(&root)] {
            let withheld: Vec<(PathBuf, String)> = session
                .configured
                .effective
                .withheld
                .iter()
                .map(|item| (item.file.clone(), item.name.clone()))
                .collect();
            let theirs = ["Bash(theirs)", "permissions.defaultMode"];
            assert_eq!(withheld.len(), theirs.len(), "{withheld:?}");
            for name in theirs {
                assert!(withheld.contains(&(project.clone(), name.to_owned())), "{name}: {withheld:?}");
            }
            let now = session.now();
            assert_eq!(allows(&now), ["Bash(a)", "Bash(b)"]);
            assert_eq!(now.directories, [folder.as_path()]);
            let mode = session.configured.effective.settings.permissions.default_mode;
            assert_eq!(mode.map(gimlet_config::DefaultMode::as_str), Some("plan"));
        }
    }

    #[test]
    fn many_sessions_that_allow_and_trust_at_once_lose_nothing() {
        const SESSIONS: usize = 50;
        let (_dir, root) = world();
        put(&root.join("home/.claude.json"), r#"{"theirs": {"kept": true}}"#);
        put(&root.join("project/.claude/settings.json"), r#"{"permissions":{"allow":["Bash(shared)"]}}"#);
        std::thread::scope(|scope| {
            for n in 0..SESSIONS {
                let root = &root;
                scope.spawn(move || {
                    let mut live = live(root);
                    let rule = add(&format!("own {n}"), Destination::LocalSettings);
                    live.keep(&rule).unwrap();
                    let remarks = live.accept_trust().remarks;
                    assert!(!remarks.iter().any(|remark| remark.contains("this session only")), "{remarks:?}");
                });
            }
        });
        let mut after = live(&root);
        assert_eq!(after.trust_question(), None, "everything was trusted");
        let allowed = allows(&after.configured.now());
        assert_eq!(allowed.len(), SESSIONS + 1, "{allowed:?}");
        let state = std::fs::read_to_string(root.join("home/.claude.json")).unwrap();
        assert!(state.contains(r#""theirs": {"kept": true}"#) && state.contains("hasTrustDialogAccepted"), "{state}");
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let (_dir, root) = world();
        put(&root.join("home/.claude/settings.json"), "{ broken");
        let error = live(&root).keep(&add("make", Destination::UserSettings)).unwrap_err();
        assert!(error.contains("settings.json") && error.contains("line 1"), "{error}");
    }
}
