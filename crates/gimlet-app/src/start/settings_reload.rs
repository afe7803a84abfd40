//! Settings files of a running session: reloaded when they change, written when the user grants something permanently,
//! and extended by a project's own when the user trusts them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gimlet_config::{
    JsonEdit, ProjectItem, ProjectItemKind, ReloadTiming, Scope, SettingsWatcher, TrustStore, changed_keys,
    save_setting,
};
use gimlet_core::{ChangedSettings, EffectivePermissions, SandboxUpdate, SettingsOrigin, SettingsSource};
use gimlet_policy::{Behavior, PermissionUpdate, RuleScope, RuleSet, RuleSource, UpdateDestination};
use gimlet_proto::TrustQuestion;
use serde_json::Value;

use super::folder_trust;
use super::sandbox_setup::SandboxBuilder;
use super::session_agents::LiveAgents;
use super::session_settings::SessionSettings;
use super::session_skills::LiveSkills;
use super::session_style::StyleWatch;

/// Settings of the command line, replaceable while a session runs. Clones share them.
#[derive(Clone, Default)]
pub struct FlagSettings {
    shared: Arc<Mutex<FlagOverride>>,
}

#[derive(Default)]
struct FlagOverride {
    /// Items trusted for as long as this program drives sessions.
    pinned: Option<Vec<ProjectItem>>,
    /// JSON that replaces the flag's value.
    text: Option<String>,
    is_new: bool,
}

impl FlagSettings {
    /// Returns the present value; `None` while the flag itself applies.
    pub fn text(&self) -> Option<String> {
        self.lock().text.clone()
    }

    pub fn replace(&self, text: String) {
        let mut replaced = self.lock();
        (replaced.text, replaced.is_new) = (Some(text), true);
    }

    /// Returns the items that the first session trusted for the whole run; `found` if this is the first.
    pub(super) fn pin_trust(&self, found: Vec<ProjectItem>) -> Vec<ProjectItem> {
        self.lock().pinned.get_or_insert(found).clone()
    }

    /// Takes the newest text; `None` if it was taken already.
    pub(super) fn take_change(&self) -> Option<String> {
        let mut replaced = self.lock();
        std::mem::take(&mut replaced.is_new).then(|| replaced.text.clone()).flatten()
    }

    /// Marks the text as changed, so that a session that starts now applies all of it.
    pub fn mark_new(&self) {
        let mut replaced = self.lock();
        replaced.is_new = replaced.text.is_some();
    }

    fn lock(&self) -> MutexGuard<'_, FlagOverride> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Settings that a driving program can change in a running session.
const FOLLOWED: [&str; 3] = ["model", "effortLevel", "outputStyle"];

/// Key of the rules that a user's answer can add permanently.
const RULES: &str = "permissions.allow";
const FOLDERS: &str = "permissions.additionalDirectories";
const MODE: &str = "permissions.defaultMode";

/// Returns the texts that a change adds; none for one that only removes.
fn edit_texts(edit: &JsonEdit) -> Vec<&str> {
    match edit {
        JsonEdit::Append(Value::String(text)) | JsonEdit::Set(Value::String(text)) => vec![text],
        JsonEdit::Set(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// What comes from documents in a running session.
pub(super) struct LiveDocuments {
    pub(super) agents: LiveAgents,
    pub(super) skills: LiveSkills,
}

impl LiveDocuments {
    /// Returns names for the files that have changed since they were last read.
    fn changed_paths(&self) -> impl Iterator<Item = PathBuf> {
        self.agents.changed_path().into_iter().chain(self.skills.changed_path())
    }

    /// Takes up the files as the settings have read them.
    fn refresh(&mut self, settings: &SessionSettings) {
        self.agents.refresh(settings);
        self.skills.refresh(settings);
    }
}

/// Settings of a running session.
pub(super) struct SettingsReloader {
    settings: SessionSettings,
    watch: SettingsWatcher,
    store: TrustStore,
    sandbox: SandboxBuilder,
    /// Changed files that were not reported yet.
    noticed: Vec<PathBuf>,
    /// Reported files that were not reloaded yet.
    changed: Vec<PathBuf>,
    /// True if the command line's settings changed and the caller already updated the session.
    caller_follows: bool,
    /// Files whose change a hook stopped.
    held: Vec<PathBuf>,
    documents: LiveDocuments,
    style: StyleWatch,
}

impl SettingsReloader {
    pub(super) fn new(
        settings: SessionSettings,
        sandbox: SandboxBuilder,
        documents: LiveDocuments,
        style: StyleWatch,
    ) -> Self {
        let locations = &settings.loaded.locations;
        let (watch, store) = (SettingsWatcher::new(locations), TrustStore::new(locations));
        Self {
            watch,
            store,
            settings,
            sandbox,
            noticed: Vec::new(),
            changed: Vec::new(),
            caller_follows: false,
            held: Vec::new(),
            documents,
            style,
        }
    }

    /// Reloads files, except those that await a decision.
    fn reload_files(&mut self) {
        let kept: Vec<PathBuf> = self.held.iter().chain(&self.changed).chain(&self.noticed).cloned().collect();
        self.settings.loaded = self.settings.loaded.reload_except(&kept, &self.settings.options);
        self.settings.evaluate_trust();
    }

    /// Returns the permissions that apply from here on.
    fn refresh_permissions(&mut self) -> EffectivePermissions {
        let mut now = self.settings.now();
        now.env = self.settings.refresh_env();
        let (sandbox, remarks) = self.sandbox.update(&self.settings, &now);
        now.sandbox = sandbox;
        now.remarks.extend(remarks);
        self.documents.refresh(&self.settings);
        self.style.refresh(&self.settings);
        if self.sandbox.is_missing() {
            let source = RuleSource::new(RuleScope::User, "/").with_label("sandbox.failIfUnavailable");
            now.remarks.extend(now.rules.load(Behavior::Deny, [("Bash", source)]).iter().map(ToString::to_string));
        }
        now
    }

    fn source_for(&self, file: &Path) -> SettingsOrigin {
        let locations = &self.settings.loaded.locations;
        match file {
            file if file == locations.user_file() => SettingsOrigin::User,
            file if file == locations.project_file() => SettingsOrigin::Project,
            file if file == locations.local_file() => SettingsOrigin::Local,
            file if Some(file) == locations.legacy_local_file().as_deref() => SettingsOrigin::Local,
            _ => SettingsOrigin::Policy,
        }
    }

    /// Detects changes and keeps them until they are applied.
    fn detect_changes(&mut self) {
        let files = self.watch.take_changed_files();
        // Files that waited for a command to end count now, even if unchanged.
        for file in files.into_iter().chain(self.settings.loaded.released_files()) {
            if !self.noticed.contains(&file) {
                self.noticed.push(file);
            }
        }
        if let Some(flag) = self.settings.flag_settings.take_change() {
            self.settings.options.settings_flag = Some(flag);
            self.caller_follows = true;
        }
    }

    /// Reloads everything and adds remarks on the differences for the user.
    fn reload_and_compare(&mut self) -> EffectivePermissions {
        let (before, was_withheld) = (self.settings.effective.clone(), self.settings.untrusted_line());
        let waited = self.settings.loaded.pending_files.clone();
        self.reload_files();
        let mut now = self.refresh_permissions();
        // Each remark is shown once.
        let is_said = |remark: &String| waited.iter().any(|file| remark.starts_with(&*file.to_string_lossy()));
        if waited == self.settings.loaded.pending_files {
            now.remarks.retain(|remark| !is_said(remark));
        }
        let changes = changed_keys(&before, &self.settings.effective);
        let followed = std::mem::take(&mut self.caller_follows);
        let is_late = |key: &&str| !(followed && FOLLOWED.contains(key));
        let late =
            changes.iter().filter(|change| change.reload == ReloadTiming::Start).map(|change| change.key.as_str());
        let late: Vec<&str> = late.filter(is_late).collect();
        if !late.is_empty() {
            now.remarks.push(format!("settings changed; these count from the next session on: {}", late.join(", ")));
        }
        now.remarks.extend(self.settings.untrusted_line().filter(|line| was_withheld.as_ref() != Some(line)));
        now
    }

    fn accept_items(&mut self, items: &[ProjectItem]) -> Option<String> {
        let (trust, stored) = self.store.accept_folder(items);
        self.settings.set_trust(trust);
        stored.err().map(|error| format!("the trust holds for this session only: {error}"))
    }

    /// Accepts the items that the user just added, and nothing else in the folder.
    fn accept_only(&mut self, items: &[ProjectItem]) -> Result<(), String> {
        let stored = self.store.accept_items(items);
        self.settings.set_trust(self.store.load_trust().with_items(items));
        stored.map_err(|error| format!("the trust holds for this session only: {error}"))
    }

    /// Writes one change and trusts it, since the user just made it.
    fn save_edit(&mut self, scope: Scope, key: &str, edit: &JsonEdit) -> Result<(), String> {
        let file =
            save_setting(&self.settings.loaded.locations, scope, key, edit).map_err(|error| error.to_string())?;
        self.reload_files();
        let said = edit_texts(edit);
        let granted = |item: &&ProjectItem| {
            item.file == file
                && match key {
                    RULES => item.kind == ProjectItemKind::AllowRule && said.contains(&item.name.as_str()),
                    FOLDERS => item.kind == ProjectItemKind::Directory && said.contains(&item.name.as_str()),
                    MODE => item.kind == ProjectItemKind::Setting && item.name == MODE && !said.is_empty(),
                    _ => false,
                }
        };
        let own: Vec<ProjectItem> = self.settings.effective.withheld.iter().filter(granted).cloned().collect();
        match own.is_empty() {
            true => Ok(()),
            false => self.accept_only(&own),
        }
    }
}

impl SettingsSource for SettingsReloader {
    fn poll_changes(&mut self) -> Vec<ChangedSettings> {
        self.detect_changes();
        let files = std::mem::take(&mut self.noticed);
        let named = |file: &PathBuf| ChangedSettings { file: file.clone(), source: self.source_for(file) };
        let mut changed: Vec<ChangedSettings> = files.iter().map(named).collect();
        self.changed.extend(files);
        for file in self.documents.changed_paths() {
            changed.push(ChangedSettings { file, source: SettingsOrigin::Documents });
        }
        // A style acts from the next segment on, so that nobody has to be told.
        if self.style.has_changed() {
            self.style.refresh(&self.settings);
        }
        if self.caller_follows {
            changed.push(ChangedSettings { file: PathBuf::from("--settings"), source: SettingsOrigin::Caller });
        }
        changed
    }

    fn reload_caller_settings(&mut self) -> Option<EffectivePermissions> {
        self.detect_changes();
        self.caller_follows.then(|| self.reload_and_compare())
    }

    fn reload_settings(&mut self, held: &[PathBuf]) -> EffectivePermissions {
        let changed = std::mem::take(&mut self.changed);
        self.held.retain(|file| !changed.contains(file));
        self.held.extend_from_slice(held);
        self.reload_and_compare()
    }

    fn trust_question(&mut self) -> Option<TrustQuestion> {
        let changes = self.store.list_changes(&self.settings.inventory, &self.settings.trust);
        if changes.is_empty() {
            return None;
        }
        let items = changes.into_iter().map(folder_trust::trust_item).collect();
        Some(TrustQuestion { folder: self.store.root().to_owned(), items })
    }

    fn accept_trust(&mut self) -> EffectivePermissions {
        let items = self.settings.effective.withheld.clone();
        let trouble = self.accept_items(&items);
        self.settings.recompute_effective();
        let mut now = self.refresh_permissions();
        now.remarks.extend(trouble);
        now
    }

    fn apply_session_rules(&mut self, rules: &RuleSet) -> (SandboxUpdate, Vec<String>) {
        let own = rules.rules(Behavior::Deny).iter().filter(|rule| rule.source.is_session_only());
        if !self.sandbox.set_session_denials(own.cloned().collect()) {
            return (SandboxUpdate::Unchanged, Vec::new());
        }
        let now = self.settings.now();
        match self.sandbox.update(&self.settings, &now) {
            // Remarks about such a sandbox were shown when the first one was built.
            (SandboxUpdate::On(sandboxing), _) => (SandboxUpdate::On(sandboxing), Vec::new()),
            unchanged => unchanged,
        }
    }

    fn reads_destination(&self, destination: UpdateDestination) -> bool {
        let sources = self.settings.loaded.sources;
        match destination {
            UpdateDestination::Session | UpdateDestination::CliArg => true,
            UpdateDestination::LocalSettings => sources.local,
            UpdateDestination::ProjectSettings => sources.project,
            UpdateDestination::UserSettings => sources.user,
        }
    }

    fn save_update(&mut self, update: &PermissionUpdate) -> Result<(), String> {
        let scope = match update.destination() {
            UpdateDestination::Session | UpdateDestination::CliArg => return Ok(()),
            UpdateDestination::LocalSettings => Scope::Local,
            UpdateDestination::ProjectSettings => Scope::Project,
            UpdateDestination::UserSettings => Scope::User,
        };
        let list = |behavior: &Behavior| format!("permissions.{}", behavior.as_str());
        let text = |path: &PathBuf| Value::String(path.to_string_lossy().into_owned());
        match update {
            PermissionUpdate::AddRules { rules, behavior, .. } => rules.iter().try_for_each(|rule| {
                self.save_edit(scope, &list(behavior), &JsonEdit::Append(Value::String(rule.text())))
            }),
            PermissionUpdate::ReplaceRules { rules, behavior, .. } => {
                let rules = rules.iter().map(|rule| Value::String(rule.text())).collect();
                self.save_edit(scope, &list(behavior), &JsonEdit::Set(Value::Array(rules)))
            }
            PermissionUpdate::RemoveRules { rules, behavior, .. } => rules.iter().try_for_each(|rule| {
                self.save_edit(scope, &list(behavior), &JsonEdit::RemoveEntry(Value::String(rule.text())))
            }),
            PermissionUpdate::SetMode { mode, .. } => {
                self.save_edit(scope, MODE, &JsonEdit::Set(Value::String(mode.to_string())))
            }
            PermissionUpdate::AddDirectories { directories, .. } => directories
                .iter()
                .try_for_each(|folder| self.save_edit(scope, FOLDERS, &JsonEdit::Append(text(folder)))),
            PermissionUpdate::RemoveDirectories { directories, .. } => directories
                .iter()
                .try_for_each(|folder| self.save_edit(scope, FOLDERS, &JsonEdit::RemoveEntry(text(folder)))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch_request::LaunchRequest;
    use crate::process_env::ProcessEnv;
    use gimlet_proto::Env;

    fn write_file(path: &Path, text: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Creates a home and a project in a repository, and the settings of a session there.
    fn new_reloader(root: &Path) -> SettingsReloader {
        let around = ProcessEnv {
            env: Env::default(),
            cwd: root.join("project"),
            home: Some(root.join("home")),
            config_home: root.join("home/.claude"),
        };
        let configured = SessionSettings::read(&LaunchRequest::default(), &around)
            .unwrap_or_else(|error| panic!("{}", error.text()));
        let agents = LiveAgents::new(&configured, Vec::new());
        let style = StyleWatch::new(&configured, None);
        let skills = LiveSkills::new(&configured, gimlet_core::commands::CommandRegistry::default());
        let documents = LiveDocuments { agents, skills };
        SettingsReloader::new(configured, SandboxBuilder::inactive(root.join("scratch")), documents, style)
    }

    /// Returns the permissions that a session would apply now, if something changed.
    fn refresh(live: &mut SettingsReloader) -> Option<EffectivePermissions> {
        (!live.poll_changes().is_empty()).then(|| live.reload_settings(&[]))
    }

    fn scratch_world() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("home")).unwrap();
        write_file(&root.join("project/.git/HEAD"), "ref: refs/heads/main\n");
        (dir, root)
    }

    fn allow_rules(now: &EffectivePermissions) -> Vec<String> {
        now.rules.rules(Behavior::Allow).iter().map(|rule| rule.text.clone()).collect()
    }

    fn add_rule_update(rule: &str, destination: UpdateDestination) -> PermissionUpdate {
        let rules = vec![gimlet_policy::RuleValue::new("Bash", Some(rule.to_owned()))];
        PermissionUpdate::AddRules { rules, behavior: Behavior::Allow, destination }
    }

    #[test]
    fn a_changed_file_is_taken_up_once() {
        let (_dir, root) = scratch_world();
        let mut live = new_reloader(&root);
        assert!(refresh(&mut live).is_none());
        write_file(&root.join("home/.claude/settings.json"), r#"{"permissions":{"allow":["Bash(make)"]},"model":"x"}"#);
        let now = refresh(&mut live).unwrap();
        assert_eq!(allow_rules(&now), ["Bash(make)"]);
        assert_eq!(now.remarks, ["settings changed; these count from the next session on: model"]);
        assert!(refresh(&mut live).is_none());
    }

    #[test]
    fn a_mode_that_a_file_disables_is_gone_at_once() {
        use gimlet_proto::PermissionMode::{Auto, BypassPermissions};
        let (_dir, root) = scratch_world();
        let mut live = new_reloader(&root);
        for (text, gone) in [
            (r#"{"permissions":{"disableBypassPermissionsMode":"disable"}}"#, vec![BypassPermissions]),
            (r#"{"disableAutoMode":"disable"}"#, vec![Auto]),
            ("{}", vec![]),
        ] {
            // This applies to an untrusted project, too: it only forbids.
            write_file(&root.join("project/.claude/settings.json"), text);
            let now = refresh(&mut live).unwrap();
            assert_eq!((now.disabled_modes, now.remarks), (gone, Vec::new()), "{text}");
        }
    }

    #[test]
    fn a_deny_rule_that_becomes_malformed_goes_on_denying_and_is_named() {
        let (_dir, root) = scratch_world();
        let file = root.join("home/.claude/settings.json");
        let denies = |now: &EffectivePermissions| -> Vec<String> {
            now.rules.rules(Behavior::Deny).iter().map(|rule| rule.text.clone()).collect()
        };
        write_file(&file, r#"{"permissions":{"deny":["Bash(id)"]}}"#);
        let mut live = new_reloader(&root);
        write_file(&file, "{\"permissions\":{\n\"deny\":[\"Bash(id\"],\"allow\":[\"Bash(make)\"]}}");
        let now = refresh(&mut live).unwrap();
        assert_eq!((denies(&now), allow_rules(&now)), (vec!["Bash(id)".to_owned()], Vec::new()));
        let place = format!("{}:2:9: permissions.deny: ", file.display());
        assert_eq!(now.remarks.iter().filter(|remark| remark.starts_with(&place)).count(), 1, "{:?}", now.remarks);
        write_file(&file, r#"{"permissions":{"deny":["Bash(id -u)"]}}"#);
        assert_eq!(denies(&refresh(&mut live).unwrap()), ["Bash(id -u)"]);
    }

    #[test]
    fn trust_is_asked_for_once_and_holds_for_the_next_session() {
        let (_dir, root) = scratch_world();
        write_file(&root.join("project/.claude/settings.json"), r#"{"permissions":{"allow":["Bash(make)"]}}"#);
        let mut first = new_reloader(&root);
        assert_eq!(allow_rules(&first.settings.now()), Vec::<String>::new());
        let question = first.trust_question().unwrap();
        assert_eq!(question.folder, root.join("project"));
        assert_eq!(question.items[0].title, "allow rule Bash(make)");
        assert_eq!(allow_rules(&first.accept_trust()), ["Bash(make)"]);
        let mut second = new_reloader(&root);
        assert_eq!(second.trust_question(), None);
        assert_eq!(allow_rules(&second.settings.now()), ["Bash(make)"]);
    }

    #[test]
    fn what_a_person_allows_for_good_is_written_and_needs_no_further_trust() {
        let (_dir, root) = scratch_world();
        for (destination, file) in [
            (UpdateDestination::LocalSettings, "project/.claude/settings.local.json"),
            (UpdateDestination::ProjectSettings, "project/.claude/settings.json"),
            (UpdateDestination::UserSettings, "home/.claude/settings.json"),
        ] {
            let mut live = new_reloader(&root);
            live.save_update(&add_rule_update(file, destination)).unwrap();
            assert!(std::fs::read_to_string(root.join(file)).unwrap().contains(&format!("Bash({file})")));
        }
        new_reloader(&root).save_update(&add_rule_update("x", UpdateDestination::Session)).unwrap();
        let now = new_reloader(&root).settings.now();
        assert_eq!(allow_rules(&now).len(), 3, "{:?}", allow_rules(&now));
        let mut live = new_reloader(&root);
        let PermissionUpdate::AddRules { rules, behavior, destination } =
            add_rule_update("home/.claude/settings.json", UpdateDestination::UserSettings)
        else {
            unreachable!("made as that")
        };
        live.save_update(&PermissionUpdate::RemoveRules { rules, behavior, destination }).unwrap();
        assert_eq!(allow_rules(&live.settings.now()).len(), 2);
    }

    #[test]
    fn a_list_a_mode_and_folders_that_a_person_keeps_need_no_further_trust_either() {
        let (_dir, root) = scratch_world();
        let project = root.join("project/.claude/settings.json");
        write_file(&project, r#"{"permissions":{"allow":["Bash(theirs)"],"defaultMode":"acceptEdits"}}"#);
        let folder = root.join("extra");
        std::fs::create_dir(&folder).unwrap();
        let destination = UpdateDestination::LocalSettings;
        let rules = ["a", "b"].map(|rule| gimlet_policy::RuleValue::new("Bash", Some(rule.to_owned()))).to_vec();
        let kept = [
            PermissionUpdate::ReplaceRules { rules: rules.clone(), behavior: Behavior::Allow, destination },
            PermissionUpdate::SetMode { mode: gimlet_proto::PermissionMode::Plan, destination },
            PermissionUpdate::AddDirectories { directories: vec![folder.clone()], destination },
            // A deny rule must not remove the need for trust of an allow rule with equal text.
            PermissionUpdate::ReplaceRules {
                rules: vec![gimlet_policy::RuleValue::new("Bash", Some("theirs".to_owned()))],
                behavior: Behavior::Deny,
                destination,
            },
        ];
        let mut first = new_reloader(&root);
        kept.iter().for_each(|update| first.save_update(update).unwrap());
        for mut session in [first, new_reloader(&root)] {
            let withheld: Vec<(PathBuf, String)> =
                session.settings.effective.withheld.iter().map(|item| (item.file.clone(), item.name.clone())).collect();
            let theirs = ["Bash(theirs)", "permissions.defaultMode"];
            assert_eq!(withheld.len(), theirs.len(), "{withheld:?}");
            for name in theirs {
                assert!(withheld.contains(&(project.clone(), name.to_owned())), "{name}: {withheld:?}");
            }
            let now = session.refresh_permissions();
            assert_eq!(allow_rules(&now), ["Bash(a)", "Bash(b)"]);
            assert_eq!(now.directories, [folder.as_path()]);
            let mode = session.settings.effective.settings.permissions.default_mode;
            assert_eq!(mode.map(gimlet_config::DefaultMode::as_str), Some("plan"));
        }
    }

    #[test]
    fn many_sessions_that_allow_and_trust_at_once_lose_nothing() {
        const SESSIONS: usize = 50;
        let (_dir, root) = scratch_world();
        write_file(&root.join("home/.claude.json"), r#"{"theirs": {"kept": true}}"#);
        write_file(&root.join("project/.claude/settings.json"), r#"{"permissions":{"allow":["Bash(shared)"]}}"#);
        std::thread::scope(|scope| {
            for n in 0..SESSIONS {
                let root = &root;
                scope.spawn(move || {
                    let mut live = new_reloader(root);
                    let rule = add_rule_update(&format!("own {n}"), UpdateDestination::LocalSettings);
                    live.save_update(&rule).unwrap();
                    let remarks = live.accept_trust().remarks;
                    assert!(!remarks.iter().any(|remark| remark.contains("this session only")), "{remarks:?}");
                });
            }
        });
        let mut after = new_reloader(&root);
        assert_eq!(after.trust_question(), None, "everything was trusted");
        let allowed = allow_rules(&after.settings.now());
        assert_eq!(allowed.len(), SESSIONS + 1, "{allowed:?}");
        let state = std::fs::read_to_string(root.join("home/.claude.json")).unwrap();
        assert!(state.contains(r#""theirs": {"kept": true}"#) && state.contains("hasTrustDialogAccepted"), "{state}");
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let (_dir, root) = scratch_world();
        write_file(&root.join("home/.claude/settings.json"), "{ broken");
        let error =
            new_reloader(&root).save_update(&add_rule_update("make", UpdateDestination::UserSettings)).unwrap_err();
        assert!(error.contains("settings.json") && error.contains("line 1"), "{error}");
    }
}
