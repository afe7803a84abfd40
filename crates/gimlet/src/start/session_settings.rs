//! What settings, flags and trust say about a session: read when it starts, and looked at again while it runs.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use gimlet_config::{
    EffectiveSettings, EffortLevel, FileAuthor, KEYS, KeyEffect, LoadedSettings, ProblemSeverity, ProjectItem,
    ProjectItemKind, ProjectTrust, QuestionTimeout, Scope, SettingKey, SettingsLayer, SettingsLoadOptions,
    SettingsProblem, TrustInventory, TrustStore,
};
use gimlet_core::tool::nearest_name;
use gimlet_core::{EffectivePermissions, Redactor, ReviewConfig, SandboxUpdate};
use gimlet_policy::{Behavior, RuleProblem, RuleScope, RuleSet, RuleSource, split_rules};
use gimlet_proto::{Env, PermissionMode};

use super::key_helper::{KeyHelper, TrustObjection};
use super::settings_reload::FlagSettings;
use super::{policy_helper, provider, rule_names};
use crate::args::RunArgs;
use crate::process_env::ProcessEnv;
use crate::report::Report;
use crate::settings_mapping;

/// The setting that names a command which prints the key.
const KEY_HELPER: &str = "apiKeyHelper";
/// So many keys are named in one line, each with so many characters.
const MOST_KEYS: usize = 8;
const MOST_CHARS: usize = 60;

/// The settings of a session, with all that is needed to read them again.
pub(crate) struct SessionSettings {
    pub(super) around: ProcessEnv,
    pub(super) options: SettingsLoadOptions,
    pub(super) flag_settings: FlagSettings,
    /// What settings chose before the driving program laid its own over them.
    first_choice: Option<(Option<String>, Option<EffortLevel>)>,
    /// What is trusted for this run without a record: everything that was here when it began.
    pinned: Option<Vec<ProjectItem>>,
    flag_rules: RuleSet,
    /// What a person should hear of them.
    flag_remarks: Vec<String>,
    flag_directories: Vec<PathBuf>,
    pub(crate) loaded: LoadedSettings,
    pub(super) inventory: TrustInventory,
    pub(super) trust: ProjectTrust,
    pub(crate) effective: EffectiveSettings,
    /// The environment with what settings add to it.
    pub(crate) env: Env,
    key_helper: Option<Arc<KeyHelper>>,
    /// Masks the credentials of that environment.
    pub(super) redactor: Redactor,
}

impl SessionSettings {
    pub(crate) fn read(run: &RunArgs, around: &ProcessEnv) -> Result<Self, Report> {
        let options = SettingsLoadOptions {
            settings_flag: run.settings.clone(),
            sources: run.setting_sources.unwrap_or_default(),
            policy: None,
            parent: run.managed_settings.clone(),
            rule_objection: Some(settings_mapping::rule_syntax_error),
        };
        let loaded = gimlet_config::load_settings(&settings_mapping::find_locations(around), &options);
        if let Some(problem) = loaded.errors().find(|problem| is_flag_problem(run, around, problem)) {
            // What was asked for on this very command line is not passed over.
            let report = Report::new(problem.to_string())
                .with_hint("Settings are given as a JSON object, or with --settings as a readable file");
            return Err(match problem.file.as_os_str().to_str() {
                _ if is_parent_setting(problem) => report.with_reason("managed_settings_invalid"),
                Some("--settings") => report.with_reason("config_file_invalid"),
                _ => report.with_invalid_file(problem.file.clone()),
            });
        }
        if let Some(problem) = &loaded.unreadable_policy {
            return Err(Report::new(problem.to_string())
                .with_hint("Nothing starts without it: ask whoever manages this machine to make it readable")
                .with_reason("managed_settings_invalid"));
        }
        let named = run.setting_sources.is_some_and(|sources| sources.project);
        let mut configured = Self {
            around: around.clone(),
            options,
            flag_settings: FlagSettings::default(),
            first_choice: None,
            pinned: None,
            flag_rules: parse_flag_rules(run, around)?,
            flag_remarks: rule_names::unknown_tool_remarks(run),
            flag_directories: resolve_flag_directories(run, around)?,
            loaded,
            inventory: TrustInventory::default(),
            trust: ProjectTrust::none(),
            effective: EffectiveSettings::default(),
            env: around.env.clone(),
            key_helper: None,
            redactor: Redactor::default(),
        };
        if run.trust || named || around.env.flag("GIMLET_TRUST") {
            configured.pinned = Some(TrustInventory::collect(&configured.loaded).items);
        }
        configured.evaluate_trust();
        configured.env = configured.overlay_env(&around.env);
        Ok(configured)
    }

    /// What settings say about a folder, without any flag.
    pub(super) fn for_folder(around: &ProcessEnv) -> Result<Self, Report> {
        use clap::Parser as _;
        let cli = crate::args::CliArgs::try_parse_from(["gimlet"]).map_err(|error| Report::new(error.to_string()))?;
        Self::read(&cli.run, around)
    }

    /// The settings of the command line may change by this while the session runs.
    pub(crate) fn with_flag_settings(mut self, flag_settings: &FlagSettings) -> Self {
        self.flag_settings = flag_settings.clone();
        if let Some(pinned) = self.pinned.take() {
            // A session that takes the place of another trusts what that one did.
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

    /// The model and the effort that a session begins with as far as settings say so. A session that takes the place of
    /// another is told of changes by that one; what it goes back to when they are taken away is this.
    pub(super) fn initial_model_and_effort(&self) -> (Option<&str>, Option<EffortLevel>) {
        let settings = &self.effective.settings;
        match &self.first_choice {
            Some((model, effort)) => (model.as_deref(), *effort),
            None => (settings.model.as_deref(), settings.effort_level),
        }
    }

    /// What is wrong with settings that the command line carries itself.
    pub(crate) fn flag_problem(&self) -> Option<String> {
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

    /// The same, once whoever manages the machine has had their say.
    pub(crate) async fn open_with_policy(run: &RunArgs, around: &ProcessEnv) -> Result<Self, Report> {
        let mut configured = Self::read(run, around)?;
        if let Some(helper) = configured.loaded.policy_helper() {
            configured.options.policy = policy_helper::run_policy_helper(&helper, around).await?;
            configured.loaded = gimlet_config::load_settings(&configured.loaded.locations, &configured.options);
            configured.evaluate_trust();
            configured.env = configured.overlay_env(&around.env);
        }
        policy_helper::check_version(&configured.effective.settings)?;
        Ok(configured)
    }

    /// The environment, when settings made another one of it. A variable that settings no longer have stays: whatever
    /// was started with it counts on it.
    pub(super) fn refresh_env(&mut self) -> Option<Env> {
        if self.effective.env.iter().all(|line| self.env.raw(&line.name) == Some(line.value.as_ref())) {
            return None;
        }
        self.env = self.overlay_env(&self.env);
        Some(self.env.clone())
    }

    /// An environment with the variables of settings in it.
    fn overlay_env(&self, env: &Env) -> Env {
        let env = self.effective.env.iter().fold(env.clone(), |env, line| env.with(&line.name, &line.value));
        provider::register_secrets(&self.redactor, &env);
        env
    }

    /// Finds out what of the loaded settings holds.
    pub(super) fn evaluate_trust(&mut self) {
        self.inventory = TrustInventory::collect(&self.loaded);
        // Where nothing needs trust, nobody needs to look who gave it. A sandbox that a project wants is no item, but what it
        // answers depends on who wants it.
        let is_persons = self.loaded.layers.iter().all(|layer| layer.author == FileAuthor::User);
        let is_free = self.inventory.items.is_empty() && is_persons;
        let recorded =
            if is_free { ProjectTrust::none() } else { TrustStore::new(&self.loaded.locations).load_trust() };
        self.set_trust(recorded);
        self.recompute_effective();
    }

    /// What was accepted, and what is trusted for this run.
    pub(super) fn set_trust(&mut self, recorded: ProjectTrust) {
        self.trust = match &self.pinned {
            Some(items) => recorded.with(items),
            None => recorded,
        };
    }

    /// Brings what holds in line with the trust that was given.
    pub(super) fn recompute_effective(&mut self) {
        self.effective = self.loaded.effective_settings(&self.inventory, &self.trust);
        if let Some(helper) = &self.key_helper {
            helper.set_command(self.effective.settings.api_key_helper.as_deref(), self.helper_objection(KEY_HELPER));
        }
    }

    /// Says, whenever it is asked, whether a command that settings name has become another one than was trusted.
    fn helper_objection(&self, key: &'static str) -> Option<TrustObjection> {
        let file = self.effective.merged.sources(key).pop()?.origin.file;
        let is_it = |item: &&ProjectItem| item.kind == ProjectItemKind::Helper && item.name == key && item.file == file;
        // The person's own settings wait for nothing.
        let shown = gimlet_config::escape_invisible_line(&file.display().to_string()).into_owned();
        self.inventory.items.iter().find(is_it)?;
        let (loaded, trust) = (self.loaded.clone(), self.trust.clone());
        Some(Arc::new(move || {
            let now = TrustInventory::collect(&loaded);
            let covers = |trust: &ProjectTrust| now.covers(trust, ProjectItemKind::Helper, &file, key);
            // Somebody may have accepted what changed.
            let is_trusted = covers(&trust) || covers(&TrustStore::new(&loaded.locations).load_trust());
            (!is_trusted).then(|| format!("{key} of {shown}, or a script that it names, changed since it was trusted"))
        }))
    }

    /// The project's files that commands of its settings run, as far as this version runs them and they are trusted.
    pub(super) fn trusted_scripts(&self) -> impl Iterator<Item = &PathBuf> {
        let is_run = |item: &&ProjectItem| {
            let acts = |key: &SettingKey| key.effect == KeyEffect::Acts;
            item.kind == ProjectItemKind::Helper && gimlet_config::find_key(&item.name).is_some_and(acts)
        };
        let trusted = self.inventory.items.iter().filter(is_run).filter(|item| self.trust.covers(item));
        trusted.flat_map(ProjectItem::script_files)
    }

    /// The command that prints the key, if settings name one; it follows them from here on.
    pub(super) fn build_key_helper(&mut self) -> Option<Arc<KeyHelper>> {
        let command = self.effective.settings.api_key_helper.as_deref()?;
        let helper = Arc::new(KeyHelper::new(self.around.cwd.clone(), self.env.clone(), self.redactor.clone()));
        helper.set_command(Some(command), self.helper_objection(KEY_HELPER));
        self.key_helper = Some(Arc::clone(&helper));
        Some(helper)
    }

    /// The files that say what is allowed in this session.
    pub(super) fn governing_files(&self) -> Vec<PathBuf> {
        self.loaded.locations.permission_files().into_iter().chain(self.flag_file()).collect()
    }

    /// The file that `--settings` names, if it names one.
    pub(super) fn flag_file(&self) -> Option<PathBuf> {
        let flag = self.options.settings_flag.as_ref().filter(|flag| !flag.trim_start().starts_with('{'))?;
        Some(self.around.cwd.join(flag)).filter(|file| file.is_file())
    }

    /// The settings files that a command could write.
    pub(super) fn settings_files(&self) -> Vec<PathBuf> {
        let locations = &self.loaded.locations;
        let files = [locations.user_file(), locations.project_file(), locations.local_file()];
        files.into_iter().chain(locations.legacy_local_file()).chain(self.flag_file()).collect()
    }

    /// Whether a setting by this name is there but not trusted.
    pub(super) fn is_withheld(&self, key: &str) -> bool {
        self.effective.withheld.iter().any(|item| item.name == key)
    }

    /// Whether the person has trusted this folder, as it was then.
    pub(super) fn has_recorded_trust(&self) -> bool {
        self.trust.has_accepted_folder() && !self.trust.is_accepted_elsewhere_only()
    }

    /// Rules and folders as they are now, with one line for people about each thing that is wrong.
    pub(crate) fn now(&self) -> EffectivePermissions {
        let managed_only = self.effective.settings.allow_managed_permission_rules_only == Some(true);
        let mut rules = self.flag_rules.clone();
        let bad_rules = settings_mapping::add_rules(&mut rules, &self.effective);
        let (found, missing) = settings_mapping::additional_directories(&self.effective, &self.around);
        let mut remarks: Vec<String> = self.urgent_problems().map(ToString::to_string).collect();
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
        remarks.extend(self.unsupported_hooks_line());
        remarks.extend(self.unenforced_line());
        let directories = self.flag_directories.iter().cloned().chain(found).collect();
        EffectivePermissions {
            rules,
            directories,
            env: None,
            question_patience: self.question_timeout(),
            sandbox: SandboxUpdate::Unchanged,
            disabled_modes: self.disabled_modes(),
            remarks,
        }
    }

    /// The output style as settings name it. Its name alone changes nothing, so it is told without trust.
    pub(crate) fn output_style(&self) -> String {
        self.named_output_style().unwrap_or_else(|| "default".to_owned())
    }

    /// The same if settings name one at all.
    pub(crate) fn named_output_style(&self) -> Option<String> {
        let named = |layer: &SettingsLayer| layer.to_value()["outputStyle"].as_str().map(str::to_owned);
        self.loaded.layers.iter().rev().find_map(named)
    }

    /// What is wrong with the files and people should know. A rule or a mode that is not used is missed at once,
    /// whatever it was for, and so is a guard under a wrong name.
    pub(crate) fn urgent_problems(&self) -> impl Iterator<Item = &SettingsProblem> {
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

    /// Whether it is about a file that waits for a command to end.
    fn is_waiting_file(&self, problem: &SettingsProblem) -> bool {
        problem.key.is_empty() && self.loaded.pending_files.contains(&problem.file)
    }

    /// How long questions of the model wait for an answer.
    fn question_timeout(&self) -> Option<Duration> {
        match self.effective.settings.ask_user_question_timeout? {
            QuestionTimeout::OneMinute => Some(Duration::from_secs(60)),
            QuestionTimeout::FiveMinutes => Some(Duration::from_secs(300)),
            QuestionTimeout::TenMinutes => Some(Duration::from_secs(600)),
            QuestionTimeout::Never => None,
        }
    }

    /// What the model is told of settings that only it can keep to.
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

    /// One line that names what is not used for want of trust.
    pub(crate) fn untrusted_line(&self) -> Option<String> {
        let acts = |item: &&ProjectItem| item.name != "outputStyle";
        let withheld: Vec<ProjectItem> = self.effective.withheld.iter().filter(acts).cloned().collect();
        let line = gimlet_config::describe_withheld(&withheld, &self.trust)?;
        // Trust helps nothing that this version does not have.
        let runs = |item: &ProjectItem| {
            !matches!(item.kind, ProjectItemKind::Hook | ProjectItemKind::McpServer | ProjectItemKind::Plugin)
        };
        let hint = match (withheld.iter().any(runs), withheld.iter().all(runs)) {
            (true, _) if self.pinned.is_some() => {
                "They came after this run began. 'gimlet trust' shows them; a new start takes them as they are then"
            }
            (_, true) => "Add --trust to use them in this run; 'gimlet trust' shows them and can accept them for good",
            (true, false) => {
                "Add --trust to use the rest in this run; hooks, servers and plugins are not run by this version"
            }
            (false, false) => "This version runs none of them",
        };
        Some(format!("{line}. {hint}"))
    }

    /// One line for each file in force that sets what it may not set, whoever trusts it.
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

    /// A hook can be there to forbid something, so nobody may think that it runs.
    fn unsupported_hooks_line(&self) -> Option<String> {
        let mut events: Vec<&str> = self.effective.hooks.iter().map(|hook| hook.event.as_str()).collect();
        events.sort_unstable();
        events.dedup();
        (!events.is_empty()).then(|| format!("hooks are not run by this version of gimlet: {}", events.join(", ")))
    }

    /// An administrator relies on what is written down, so nobody may think that it holds when it does not.
    fn unenforced_line(&self) -> Option<String> {
        let managed: Vec<&SettingsLayer> =
            self.loaded.layers.iter().filter(|layer| layer.scope == Scope::Managed).collect();
        let is_set = |key: &&SettingKey| managed.iter().any(|layer| layer.line_of_key(key.path).is_some());
        // Hooks have a line of their own.
        let idle = KEYS.iter().filter(|key| key.effect == KeyEffect::NotYet && key.path != "hooks");
        let mut names: Vec<&str> = idle.filter(is_set).map(|key| key.path).collect();
        names.sort_unstable();
        let line = || format!("managed settings that this version of gimlet does not enforce: {}", names.join(", "));
        (!names.is_empty()).then(line)
    }

    /// How eagerly a session is forced to disk.
    pub(super) fn fsync(&self) -> gimlet_store::FsyncMode {
        use gimlet_config::FsyncSetting;
        match self.effective.settings.fsync {
            Some(FsyncSetting::Turn) | None => gimlet_store::FsyncMode::Turn,
            Some(FsyncSetting::Always) => gimlet_store::FsyncMode::Always,
            Some(FsyncSetting::Off) => gimlet_store::FsyncMode::Off,
        }
    }

    /// The modes that settings take away.
    pub(super) fn disabled_modes(&self) -> Vec<PermissionMode> {
        let settings = &self.effective.settings;
        let auto = settings.disable_auto_mode.is_some() || settings.permissions.disable_auto_mode.is_some();
        let bypass = settings.permissions.disable_bypass_permissions_mode.is_some();
        let modes = [(auto, PermissionMode::Auto), (bypass, PermissionMode::BypassPermissions)];
        modes.into_iter().filter_map(|(is_disabled, mode)| is_disabled.then_some(mode)).collect()
    }

    /// How auto mode is to review; `None` where settings took the mode away.
    pub(crate) fn review(&self) -> Option<ReviewConfig> {
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

/// Whether it is about a value that its file may not set. Rules and modes are told of one by one.
fn is_ignored_value(problem: &SettingsProblem) -> bool {
    let is_apart = |key: &str| key.is_empty() || key.starts_with("permissions.") || key.starts_with("hooks.");
    let is_apart = is_apart(&problem.key) || problem.is_wrong_notation() || is_parent_setting(problem);
    problem.severity == ProblemSeverity::Warning && !is_apart
}

/// A key as it is shown: names of variables are whatever somebody made of them.
fn short_key(problem: &SettingsProblem) -> String {
    let key: String = problem.key.chars().take(MOST_CHARS).collect();
    gimlet_config::escape_invisible_line(&key).into_owned()
}

/// The beginning of a text, without anything that would make it more than a few words.
fn condense_line(text: &str) -> String {
    const MAX_CHARS: usize = 80;
    let between = |mark: char| mark.is_whitespace() || mark.is_control();
    let words: Vec<&str> = text.split(between).filter(|word| !word.is_empty()).collect();
    words.join(" ").chars().take(MAX_CHARS).collect()
}

/// What is wrong with a rule; most often it is the name of the tool.
fn with_nearest_tool(problem: &RuleProblem) -> String {
    let name = problem.error.rule().split('(').next().unwrap_or_default();
    let line = with_setting_key(&problem.source, problem.behavior, &problem.to_string());
    match nearest_name(name, rule_names::known_tools())
        .filter(|_| !rule_names::known_tools().any(|known| known == name))
    {
        Some(tool) => format!("{line}; did you mean `{tool}`?"),
        None => line,
    }
}

/// A line about a rule, with the list that it stands in if that is one of a file.
fn with_setting_key(source: &RuleSource, behavior: Behavior, line: &str) -> String {
    match line.strip_prefix(&format!("{source}: ")).filter(|_| source.file.is_some()) {
        Some(rest) => format!("{source}: permissions.{behavior}: {rest}"),
        None => line.to_owned(),
    }
}

/// Whether it is about what an embedding program gave.
fn is_parent_setting(problem: &SettingsProblem) -> bool {
    problem.file.as_os_str() == "--managed-settings"
}

fn is_flag_problem(run: &RunArgs, around: &ProcessEnv, problem: &SettingsProblem) -> bool {
    if is_parent_setting(problem) {
        return true;
    }
    let Some(flag) = &run.settings else { return false };
    problem.key.is_empty() && (problem.file.as_os_str() == "--settings" || problem.file == around.cwd.join(flag))
}

/// The rules of the command line. They are exact: one that cannot be read ends the start. One about a tool that is not
/// there may be meant for another version, and is only remarked on.
fn parse_flag_rules(run: &RunArgs, around: &ProcessEnv) -> Result<RuleSet, Report> {
    let mut rules = RuleSet::default();
    let lists = [
        (Behavior::Allow, "--allowedTools", &run.allowed_tools),
        (Behavior::Deny, "--disallowedTools", &run.disallowed_tools),
    ];
    for (behavior, label, texts) in lists {
        let source = RuleSource::new(RuleScope::CommandLine, &around.cwd).with_label(label);
        for rule in texts.iter().flat_map(|text| split_rules(text)) {
            rules.add(behavior, rule, &source).map_err(|error| rule_names::rule_error_report(label, &error))?;
        }
    }
    Ok(rules)
}

fn resolve_flag_directories(run: &RunArgs, around: &ProcessEnv) -> Result<Vec<PathBuf>, Report> {
    let real = |dir: &PathBuf| around.cwd.join(dir).canonicalize().ok().filter(|real| real.is_dir());
    let missing = |dir: &PathBuf| Report::new(format!("--add-dir {}: there is no such folder", dir.display()));
    run.add_dir.iter().map(|dir| real(dir).ok_or_else(|| missing(dir))).collect()
}
