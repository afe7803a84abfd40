//! Settings, flags and trust of a session: read when it starts, and again while it runs.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use gimlet_config::{
    DocumentReader, EffectiveSettings, EffortLevel, FileAuthor, KEYS, KeyEffect, LoadedSettings, McpServerFiles,
    PluginFlag, PluginSet, ProblemSeverity, ProjectItem, ProjectItemKind, ProjectTrust, QuestionTimeout, Scope,
    SettingKey, SettingSources, SettingsLayer, SettingsLoadOptions, SettingsProblem, TrustInventory, TrustStore,
};
use gimlet_core::tool::nearest_name;
use gimlet_core::{EffectivePermissions, Redactor, ReviewConfig, SandboxUpdate};
use gimlet_hooks::HookHost;
use gimlet_policy::{Behavior, RuleProblem, RuleScope, RuleSet, RuleSource, split_rules};
use gimlet_proto::{Env, PermissionMode};

use super::document_settings::LiveDocumentSettings;
use super::key_helper::{KeyHelper, TrustObjection};
use super::settings_reload::FlagSettings;
use super::{policy_helper, provider, rule_names, session_plugins};
use crate::launch_error::LaunchError;
use crate::launch_request::{CustomizationLevel, LaunchRequest};
use crate::process_env::ProcessEnv;
use crate::settings_mapping;

/// The setting that names a command which prints the key.
const KEY_HELPER: &str = "apiKeyHelper";
const REVIEW_TRUST: &str =
    "Add --trust to use them in this run; 'gimlet trust' shows them and can accept them for good";
/// Maximum number of keys named in one line, and of characters of each.
const MOST_KEYS: usize = 8;
const MOST_CHARS: usize = 60;

/// The settings of a session, with all that is needed to read them again.
pub struct SessionSettings {
    pub(super) around: ProcessEnv,
    pub(super) options: SettingsLoadOptions,
    pub(super) flag_settings: FlagSettings,
    /// Model and effort from settings, before the driving program's overrides.
    first_choice: Option<(Option<String>, Option<EffortLevel>)>,
    /// Items trusted for this run without a record: all that were present when it began.
    pinned: Option<Vec<ProjectItem>>,
    flag_rules: RuleSet,
    /// Remarks on them for the user.
    flag_remarks: Vec<String>,
    pub(super) flag_directories: Vec<PathBuf>,
    pub(super) customization: CustomizationLevel,
    /// Plugins that flags and the driving program name.
    pub(super) plugin_flags: Vec<PluginFlag>,
    /// Plugins of this run.
    pub(super) plugins: PluginSet,
    pub loaded: LoadedSettings,
    /// Reader of the documents that the inventory is about.
    pub(super) document_reader: Arc<DocumentReader>,
    pub(super) inventory: TrustInventory,
    pub(super) trust: ProjectTrust,
    pub effective: EffectiveSettings,
    /// Environment with the additions of settings.
    pub env: Env,
    key_helper: Option<Arc<KeyHelper>>,
    /// What reading documents depends on, for those who read them while the session runs.
    pub(super) documents: LiveDocumentSettings,
    /// What handlers of hooks share, once the session can start processes.
    pub(super) hook_host: Option<Arc<HookHost>>,
    /// Masks the credentials of that environment.
    pub(super) redactor: Redactor,
}

impl SessionSettings {
    pub fn read(request: &LaunchRequest, around: &ProcessEnv) -> Result<Self, LaunchError> {
        let options = SettingsLoadOptions {
            settings_flag: request.settings.flag.clone(),
            sources: request.settings.sources.unwrap_or_default(),
            policy: None,
            parent: request.settings.managed.clone(),
            rule_objection: Some(settings_mapping::rule_syntax_error),
        };
        let loaded = gimlet_config::load_settings(&settings_mapping::find_locations(around), &options);
        if let Some(problem) = loaded.errors().find(|problem| is_flag_problem(request, around, problem)) {
            // A problem in a value from this command line is an error.
            let report = LaunchError::new(problem.to_string())
                .with_hint("Settings are given as a JSON object, or with --settings as a readable file");
            return Err(match problem.file.as_os_str().to_str() {
                _ if is_parent_setting(problem) => report.with_reason("managed_settings_invalid"),
                Some("--settings") => report.with_reason("config_file_invalid"),
                _ => report.with_invalid_file(problem.file.clone()),
            });
        }
        if let Some(problem) = &loaded.unreadable_policy {
            return Err(LaunchError::new(problem.to_string())
                .with_hint("Nothing starts without it: ask whoever manages this machine to make it readable")
                .with_reason("managed_settings_invalid"));
        }
        let named = request.settings.sources.is_some_and(|sources| sources.project);
        let mut configured = Self {
            around: around.clone(),
            options,
            flag_settings: FlagSettings::default(),
            first_choice: None,
            pinned: None,
            flag_rules: parse_flag_rules(request, around)?,
            flag_remarks: rule_names::unknown_tool_remarks(request),
            flag_directories: resolve_flag_directories(request, around)?,
            customization: request.settings.customization,
            plugin_flags: session_plugins::requested_plugins(request, around),
            plugins: PluginSet::default(),
            documents: LiveDocumentSettings::new(&loaded),
            document_reader: Arc::new(document_reader(&loaded, request.settings.customization)),
            loaded,
            inventory: TrustInventory::default(),
            trust: ProjectTrust::none(),
            effective: EffectiveSettings::default(),
            env: around.env.clone(),
            key_helper: None,
            hook_host: None,
            redactor: Redactor::default(),
        };
        if request.settings.trusts_folder || named || around.env.flag("GIMLET_TRUST") {
            configured.pinned =
                Some(TrustInventory::collect_with(&configured.loaded, &configured.document_reader).items);
        }
        configured.evaluate_trust();
        configured.env = configured.overlay_env(&around.env);
        Ok(configured)
    }

    /// Reads the settings of a folder, without any flag.
    pub(super) fn for_folder(around: &ProcessEnv) -> Result<Self, LaunchError> {
        Self::read(&LaunchRequest::default(), around)
    }

    /// Lets the settings of the command line change through `flag_settings` while the session runs.
    pub fn with_flag_settings(mut self, flag_settings: &FlagSettings) -> Self {
        self.flag_settings = flag_settings.clone();
        if let Some(pinned) = self.pinned.take() {
            // A session that replaces another trusts what that one trusted.
            self.pinned = Some(flag_settings.pin_trust(pinned));
            self.evaluate_trust();
            self.env = self.overlay_env(&self.around.env);
        }
        if let Some(text) = self.flag_settings.take_change() {
            let settings = &self.effective.settings;
            self.first_choice = Some((settings.model.clone(), settings.effort_level));
            self.options.settings_flag = Some(text);
            self.loaded = self.loaded.reload(&self.options);
            self.evaluate_trust();
        }
        self
    }

    /// Returns the model and the effort that settings choose at the start. A session that replaces another gets later
    /// changes from that one; these are the values to restore when the changes are removed.
    pub(super) fn initial_model_and_effort(&self) -> (Option<&str>, Option<EffortLevel>) {
        let settings = &self.effective.settings;
        match &self.first_choice {
            Some((model, effort)) => (model.as_deref(), *effort),
            None => (settings.model.as_deref(), settings.effort_level),
        }
    }

    /// Returns the problem with settings given on the command line, if there is one.
    pub fn flag_problem(&self) -> Option<String> {
        let wrong = |problem: &&SettingsProblem| {
            problem.severity != ProblemSeverity::Info && problem.file.as_os_str() == "--settings"
        };
        let problem = self.loaded.problems.iter().find(wrong).map(ToString::to_string);
        problem.or_else(|| {
            let bad_rules = settings_mapping::add_rules(&mut RuleSet::default(), &self.effective);
            let of_flag = |problem: &&RuleProblem| problem.source.scope == RuleScope::CommandLine;
            bad_rules.iter().find(of_flag).map(with_nearest_tool)
        })
    }

    /// Opens the settings after the administrator's policy was applied.
    pub async fn open_with_policy(request: &LaunchRequest, around: &ProcessEnv) -> Result<Self, LaunchError> {
        let mut configured = Self::read(request, around)?;
        if let Some(helper) = configured.loaded.policy_helper() {
            configured.options.policy = policy_helper::run_policy_helper(&helper, around).await?;
            configured.loaded = gimlet_config::load_settings(&configured.loaded.locations, &configured.options);
            configured.evaluate_trust();
            configured.env = configured.overlay_env(&around.env);
        }
        policy_helper::check_version(&configured.effective.settings)?;
        Ok(configured)
    }

    /// Returns the environment if settings changed it. A variable that settings no longer have stays: processes started
    /// with it rely on it.
    pub(super) fn refresh_env(&mut self) -> Option<Env> {
        if self.effective.env.iter().all(|line| self.env.raw(&line.name) == Some(line.value.as_ref())) {
            return None;
        }
        self.env = self.overlay_env(&self.env);
        if let Some(host) = &self.hook_host {
            host.set_env(self.env.clone());
        }
        Some(self.env.clone())
    }

    /// Returns an environment with the variables of settings added.
    fn overlay_env(&self, env: &Env) -> Env {
        let env = self.effective.env.iter().fold(env.clone(), |env, line| env.with(&line.name, &line.value));
        provider::register_secrets(&self.redactor, &env);
        env
    }

    /// Determines which of the loaded settings apply.
    pub(super) fn evaluate_trust(&mut self) {
        self.document_reader = Arc::new(document_reader(&self.loaded, self.customization));
        self.inventory = TrustInventory::collect_with(&self.loaded, &self.document_reader);
        // If nothing needs trust, the trust store is not read. A sandbox that a project requests is not an item, but
        // its effect depends on its author.
        let is_persons = self.loaded.layers.iter().all(|layer| layer.author == FileAuthor::User);
        let is_free = self.inventory.items.is_empty() && is_persons && !self.document_reader.has_project_documents();
        let recorded =
            if is_free { ProjectTrust::none() } else { TrustStore::new(&self.loaded.locations).load_trust() };
        self.set_trust(recorded);
        self.recompute_effective();
    }

    /// Sets the recorded trust, and the trust for this run.
    pub(super) fn set_trust(&mut self, recorded: ProjectTrust) {
        self.trust = match &self.pinned {
            Some(items) => recorded.with(items),
            None => recorded,
        };
    }

    /// Recomputes the effective settings for the present trust.
    pub(super) fn recompute_effective(&mut self) {
        self.effective = self.loaded.effective_settings(&self.inventory, &self.trust);
        let sources = document_sources(&self.loaded, self.customization);
        self.plugins = self.find_plugins();
        self.document_reader.set_plugins(&self.plugins.plugins);
        self.documents.replace(&self.loaded, sources, &self.trust, &self.effective, &self.plugins.plugins);
        if let Some(helper) = &self.key_helper {
            helper.set_command(self.effective.settings.api_key_helper.as_deref(), self.helper_objection(KEY_HELPER));
        }
    }

    /// Returns a check for a change of a command from settings since it was trusted.
    fn helper_objection(&self, key: &'static str) -> Option<TrustObjection> {
        let file = self.effective.merged.sources(key).pop()?.origin.file;
        let is_it = |item: &&ProjectItem| item.kind == ProjectItemKind::Helper && item.name == key && item.file == file;
        // The user's own settings need no trust.
        let shown = gimlet_config::escape_invisible_line(&file.display().to_string()).into_owned();
        self.inventory.items.iter().find(is_it)?;
        let (loaded, trust) = (self.loaded.clone(), self.trust.clone());
        Some(Arc::new(move || {
            let now = TrustInventory::collect(&loaded);
            let covers = |trust: &ProjectTrust| now.covers(trust, ProjectItemKind::Helper, &file, key);
            // The change may have been accepted meanwhile.
            let is_trusted = covers(&trust) || covers(&TrustStore::new(&loaded.locations).load_trust());
            (!is_trusted).then(|| format!("{key} of {shown}, or a script that it names, changed since it was trusted"))
        }))
    }

    /// Returns the project's files that commands of its settings run, as far as this version runs them and they are
    /// trusted.
    pub(super) fn trusted_scripts(&self) -> impl Iterator<Item = PathBuf> {
        let is_run = |item: &&ProjectItem| {
            let acts = |key: &SettingKey| key.effect == KeyEffect::Acts;
            matches!(item.kind, ProjectItemKind::Hook | ProjectItemKind::McpServer)
                || item.kind == ProjectItemKind::Helper && gimlet_config::find_key(&item.name).is_some_and(acts)
        };
        let trusted = self.inventory.items.iter().filter(is_run).filter(|item| self.trust.covers(item));
        trusted.flat_map(ProjectItem::script_files).cloned().chain(self.plugin_scripts())
    }

    /// Builds the key helper, if settings name a command; it follows later changes of settings.
    pub(super) fn build_key_helper(&mut self) -> Option<Arc<KeyHelper>> {
        let command = self.effective.settings.api_key_helper.as_deref()?;
        let helper = Arc::new(KeyHelper::new(self.around.cwd.clone(), self.env.clone(), self.redactor.clone()));
        helper.set_command(Some(command), self.helper_objection(KEY_HELPER));
        self.key_helper = Some(Arc::clone(&helper));
        Some(helper)
    }

    /// Returns the files that define the permissions of this session.
    pub(super) fn governing_files(&self) -> Vec<PathBuf> {
        self.loaded.locations.permission_files().into_iter().chain(self.flag_file()).collect()
    }

    /// Returns the file that `--settings` names, if it names one.
    pub(super) fn flag_file(&self) -> Option<PathBuf> {
        let flag = self.options.settings_flag.as_ref().filter(|flag| !flag.trim_start().starts_with('{'))?;
        Some(self.around.cwd.join(flag)).filter(|file| file.is_file())
    }

    /// Returns the settings files that a command could write.
    pub(super) fn settings_files(&self) -> Vec<PathBuf> {
        let locations = &self.loaded.locations;
        let files = [locations.user_file(), locations.project_file(), locations.local_file()];
        files.into_iter().chain(locations.legacy_local_file()).chain(self.flag_file()).collect()
    }

    /// Returns true if a setting by this name exists but is not trusted.
    pub(super) fn is_withheld(&self, key: &str) -> bool {
        self.effective.withheld.iter().any(|item| item.name == key)
    }

    /// Returns true if the user has trusted this folder, in its state at that time.
    pub(super) fn has_recorded_trust(&self) -> bool {
        self.trust.has_accepted_folder() && !self.trust.is_accepted_elsewhere_only()
    }

    /// Returns the present rules and folders, with one line for the user about each problem.
    pub fn now(&self) -> EffectivePermissions {
        let managed_only = self.effective.settings.allow_managed_permission_rules_only == Some(true);
        let mut rules = self.flag_rules.clone();
        let bad_rules = settings_mapping::add_rules(&mut rules, &self.effective);
        let (found, missing) = settings_mapping::additional_directories(&self.effective, &self.around);
        let mut remarks: Vec<String> = self.urgent_problems().map(ToString::to_string).collect();
        remarks.extend(self.plugin_remarks());
        remarks.extend(bad_rules.iter().map(with_nearest_tool));
        if managed_only && !self.flag_rules.rules(Behavior::Allow).is_empty() {
            remarks.push("--allowedTools is not used: only managed rules allow something here".to_owned());
        }
        let rules = settings_mapping::apply_managed_limits(rules, &self.loaded, &self.effective);
        let odd = rules.collect_remarks(&rule_names::known_tools().collect::<Vec<_>>());
        remarks.extend(odd.iter().map(|remark| with_setting_key(&remark.source, remark.behavior, &remark.to_string())));
        remarks.extend(self.flag_remarks.iter().cloned());
        remarks.extend(missing.iter().map(ToString::to_string));
        remarks.extend(self.ignored_setting_lines());
        remarks.extend(self.unenforced_line());
        let directories = self.flag_directories.iter().cloned().chain(found).collect();
        let hooks = self.settings_hooks().map(|(entries, problems)| {
            remarks.extend(problems);
            entries
        });
        EffectivePermissions {
            rules,
            directories,
            env: None,
            question_patience: self.question_timeout(),
            sandbox: SandboxUpdate::Unchanged,
            hooks,
            disabled_modes: self.disabled_modes(),
            remarks,
        }
    }

    /// Reads the tool servers that files configure.
    pub(super) fn server_files(&self) -> McpServerFiles {
        McpServerFiles::read(&self.loaded, &self.inventory, &self.trust, &self.effective)
    }

    /// Returns the output style that settings name, for programs. The name alone changes nothing, so it needs no trust.
    pub fn output_style(&self) -> String {
        self.named_output_style().unwrap_or_else(|| "default".to_owned())
    }

    /// Returns the output style if settings name one.
    pub fn named_output_style(&self) -> Option<String> {
        let named = |layer: &SettingsLayer| layer.to_value()["outputStyle"].as_str().map(str::to_owned);
        self.loaded.layers.iter().rev().find_map(named)
    }

    /// Returns the problems with the files that the user should know. A rule or a mode that is not used matters at
    /// once, and so does a guard under a wrong name.
    pub fn urgent_problems(&self) -> impl Iterator<Item = &SettingsProblem> {
        let problems = self.loaded.problems.iter().chain(&self.effective.problems);
        problems.filter(|problem| {
            problem.severity == ProblemSeverity::Error
                || gimlet_config::is_guard_key_typo(&problem.key)
                || (problem.severity == ProblemSeverity::Warning
                    && (problem.key.starts_with("permissions.")
                        || problem.is_wrong_notation()
                        || is_parent_setting(problem)
                        || self.is_waiting_file(problem)))
        })
    }

    /// Returns true if the problem is about a file that waits for a command to end.
    fn is_waiting_file(&self, problem: &SettingsProblem) -> bool {
        problem.key.is_empty() && self.loaded.pending_files.contains(&problem.file)
    }

    /// Returns the timeout for the model's questions.
    fn question_timeout(&self) -> Option<Duration> {
        match self.effective.settings.ask_user_question_timeout? {
            QuestionTimeout::OneMinute => Some(Duration::from_secs(60)),
            QuestionTimeout::FiveMinutes => Some(Duration::from_secs(300)),
            QuestionTimeout::TenMinutes => Some(Duration::from_secs(600)),
            QuestionTimeout::Never => None,
        }
    }

    /// Returns the note to the model about settings that only the model can follow.
    pub(super) fn note_for_model(&self) -> Option<String> {
        let settings = &self.effective.settings;
        let mut lines: Vec<String> = Vec::new();
        if let Some(language) = settings.language.as_deref().map(condense_line).filter(|language| !language.is_empty())
        {
            lines.push(format!("Speak {language} with the user. Code, names, paths and commands stay as they are."));
        }
        let none = (settings.include_co_authored_by == Some(false)).then_some("");
        for (text, where_to) in [
            (settings.attribution.commit.as_deref().or(none), "commit messages"),
            (settings.attribution.pr.as_deref().or(none), "descriptions of pull requests"),
        ] {
            match text.map(str::trim) {
                None => {}
                Some("") => lines.push(format!("Add no line about who or what wrote them to {where_to}.")),
                Some(text) => lines.push(format!("End {where_to} with this, after an empty line:\n{text}")),
            }
        }
        (!lines.is_empty()).then(|| lines.join("\n\n"))
    }

    /// Returns one line about settings that are not used because they are not trusted.
    pub fn untrusted_line(&self) -> Option<String> {
        let withheld = &self.effective.withheld;
        let line = gimlet_config::describe_withheld(withheld, &self.trust);
        let Some(line) = line else {
            return self
                .withheld_agent_fields()
                .map(|fields| format!("this folder is not trusted, so these are not used: {fields}. {REVIEW_TRUST}"));
        };
        let line = match self.withheld_agent_fields() {
            Some(fields) => format!("{line}; {fields}"),
            None => line,
        };
        // Trust has no effect on features that this version does not have.
        let is_marketplace = |item: &ProjectItem| item.name.starts_with("extraKnownMarketplaces");
        let runs = |item: &ProjectItem| item.kind != ProjectItemKind::Plugin || !is_marketplace(item);
        let hint = match (withheld.iter().any(runs), withheld.iter().all(runs)) {
            (true, _) if self.pinned.is_some() => {
                "They came after this run began. 'gimlet trust' shows them; a new start takes them as they are then"
            }
            (_, true) => REVIEW_TRUST,
            (true, false) => "Add --trust to use the rest in this run; marketplaces are not used by this version",
            (false, false) => "This version runs none of them",
        };
        Some(format!("{line}. {hint}"))
    }

    /// Returns the fields of a project's agents that wait for nothing but trust in the folder; `None` if there are none.
    fn withheld_agent_fields(&self) -> Option<String> {
        if self.trust.has_accepted_folder() {
            return None;
        }
        let mut agents = Vec::new();
        for agent in self.agent_files().agents {
            let fields = agent.actions.withheld_fields(&self.trust);
            // The others are items of their own.
            if !fields.is_empty() && agent.actions.trust_item().is_none() {
                let name = gimlet_config::escape_invisible_line(&agent.name).into_owned();
                agents.push(format!("{name} ({})", fields.join(", ")));
            }
        }
        let more = agents.len().saturating_sub(MOST_KEYS);
        agents.truncate(MOST_KEYS);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        (!agents.is_empty()).then(|| format!("fields of agents {}{more}", agents.join(", ")))
    }

    /// Returns one line for each file in force that sets values it may not set, even if trusted.
    fn ignored_setting_lines(&self) -> Vec<String> {
        let in_force = |layer: &&SettingsLayer| layer.author == FileAuthor::User || self.trust.has_accepted_folder();
        let mut lines = Vec::new();
        for layer in self.loaded.layers.iter().filter(in_force) {
            let of_file = self.loaded.problems.iter().filter(|problem| problem.file == layer.file);
            let mut keys: Vec<String> = of_file.filter(|problem| is_ignored_value(problem)).map(short_key).collect();
            keys.sort_unstable();
            keys.dedup();
            let shown = keys.len().min(MOST_KEYS);
            let rest = match keys.len() - shown {
                0 => String::new(),
                rest => format!(" and {rest} more"),
            };
            if shown > 0 {
                let (file, keys) = (layer.file.display(), keys[..shown].join(", "));
                lines.push(format!(
                    "{file}: not used, since this file may not set them: {keys}{rest}; see 'gimlet doctor'"
                ));
            }
        }
        lines
    }

    /// Returns a warning about managed settings that are not enforced: an administrator relies on them.
    fn unenforced_line(&self) -> Option<String> {
        let managed: Vec<&SettingsLayer> =
            self.loaded.layers.iter().filter(|layer| layer.scope == Scope::Managed).collect();
        let is_set = |key: &&SettingKey| managed.iter().any(|layer| layer.line_of_key(key.path).is_some());
        let idle = KEYS.iter().filter(|key| key.effect == KeyEffect::NotYet);
        let mut names: Vec<&str> = idle.filter(is_set).map(|key| key.path).collect();
        names.sort_unstable();
        let line = || format!("managed settings that this version of gimlet does not enforce: {}", names.join(", "));
        (!names.is_empty()).then(line)
    }

    /// Returns the mode of syncing a session to disk.
    pub(super) fn fsync(&self) -> gimlet_store::FsyncMode {
        use gimlet_config::FsyncSetting;
        match self.effective.settings.fsync {
            Some(FsyncSetting::Turn) | None => gimlet_store::FsyncMode::Turn,
            Some(FsyncSetting::Always) => gimlet_store::FsyncMode::Always,
            Some(FsyncSetting::Off) => gimlet_store::FsyncMode::Off,
        }
    }

    /// Returns the modes that settings disable.
    pub(super) fn disabled_modes(&self) -> Vec<PermissionMode> {
        let settings = &self.effective.settings;
        let auto = settings.disable_auto_mode.is_some() || settings.permissions.disable_auto_mode.is_some();
        let bypass = settings.permissions.disable_bypass_permissions_mode.is_some();
        let modes = [(auto, PermissionMode::Auto), (bypass, PermissionMode::BypassPermissions)];
        modes.into_iter().filter_map(|(is_disabled, mode)| is_disabled.then_some(mode)).collect()
    }

    /// Returns the review configuration of auto mode; `None` where settings disable the mode.
    pub fn review(&self) -> Option<ReviewConfig> {
        let settings = &self.effective.settings;
        if self.disabled_modes().contains(&PermissionMode::Auto) {
            return None;
        }
        let auto = settings.auto_mode.clone().unwrap_or_default();
        let rules = settings_mapping::review_rules(&auto);
        Some(ReviewConfig {
            model: "small".to_owned(),
            rules,
            all_shell: auto.classify_all_shell == Some(true),
            in_plan: settings.use_auto_mode_during_plan,
        })
    }
}

/// Returns a reader of the documents that count.
fn document_reader(loaded: &LoadedSettings, customization: CustomizationLevel) -> DocumentReader {
    DocumentReader::new(&loaded.locations, document_sources(loaded, customization))
}

/// Returns whose documents count.
fn document_sources(loaded: &LoadedSettings, customization: CustomizationLevel) -> SettingSources {
    match customization {
        CustomizationLevel::Full => loaded.sources,
        CustomizationLevel::Safe | CustomizationLevel::Bare => {
            SettingSources { user: false, project: false, local: false }
        }
    }
}

/// Returns true if the problem is a value that its file may not set. Rules and modes are reported one by one.
fn is_ignored_value(problem: &SettingsProblem) -> bool {
    let is_apart = |key: &str| key.is_empty() || key.starts_with("permissions.") || key.starts_with("hooks.");
    let is_apart = is_apart(&problem.key) || problem.is_wrong_notation() || is_parent_setting(problem);
    problem.severity == ProblemSeverity::Warning && !is_apart
}

/// Returns a key for display: names of variables can hold any text.
fn short_key(problem: &SettingsProblem) -> String {
    let key: String = problem.key.chars().take(MOST_CHARS).collect();
    gimlet_config::escape_invisible_line(&key).into_owned()
}

/// Returns the beginning of a text as a short single line.
fn condense_line(text: &str) -> String {
    const MAX_CHARS: usize = 80;
    let between = |mark: char| mark.is_whitespace() || mark.is_control();
    let words: Vec<&str> = text.split(between).filter(|word| !word.is_empty()).collect();
    words.join(" ").chars().take(MAX_CHARS).collect()
}

/// Returns the problem with a rule; most often it is the name of the tool.
fn with_nearest_tool(problem: &RuleProblem) -> String {
    let name = problem.error.rule().split('(').next().unwrap_or_default();
    let line = with_setting_key(&problem.source, problem.behavior, &problem.to_string());
    let is_known = rule_names::known_tools().any(|known| known == name);
    match nearest_name(name, rule_names::known_tools()) {
        Some(tool) if !is_known => format!("{line}; did you mean `{tool}`?"),
        _ => line,
    }
}

/// Returns a line about a rule, with its list's key if the rule is from a file.
fn with_setting_key(source: &RuleSource, behavior: Behavior, line: &str) -> String {
    match line.strip_prefix(&format!("{source}: ")) {
        Some(rest) if source.file.is_some() => format!("{source}: permissions.{behavior}: {rest}"),
        _ => line.to_owned(),
    }
}

/// Returns true if the problem is in settings from an embedding program.
fn is_parent_setting(problem: &SettingsProblem) -> bool {
    problem.file.as_os_str() == "--managed-settings"
}

fn is_flag_problem(request: &LaunchRequest, around: &ProcessEnv, problem: &SettingsProblem) -> bool {
    if is_parent_setting(problem) {
        return true;
    }
    let Some(flag) = &request.settings.flag else { return false };
    problem.key.is_empty() && (problem.file.as_os_str() == "--settings" || problem.file == around.cwd.join(flag))
}

/// Parses the rules of the command line. An invalid rule is an error. One about a missing tool may be meant for another
/// version, and only causes a remark.
fn parse_flag_rules(request: &LaunchRequest, around: &ProcessEnv) -> Result<RuleSet, LaunchError> {
    let mut rules = RuleSet::default();
    let lists = [
        (Behavior::Allow, "--allowedTools", &request.permissions.allowed_rules),
        (Behavior::Deny, "--disallowedTools", &request.permissions.denied_rules),
    ];
    for (behavior, label, texts) in lists {
        let source = RuleSource::new(RuleScope::CommandLine, &around.cwd).with_label(label);
        for rule in texts.iter().flat_map(|text| split_rules(text)) {
            rules.add(behavior, rule, &source).map_err(|error| rule_names::rule_error(label, &error))?;
        }
    }
    Ok(rules)
}

fn resolve_flag_directories(request: &LaunchRequest, around: &ProcessEnv) -> Result<Vec<PathBuf>, LaunchError> {
    let real = |dir: &PathBuf| around.cwd.join(dir).canonicalize().ok().filter(|real| real.is_dir());
    let missing = |dir: &PathBuf| LaunchError::new(format!("--add-dir {}: there is no such folder", dir.display()));
    request.permissions.added_dirs.iter().map(|dir| real(dir).ok_or_else(|| missing(dir))).collect()
}
