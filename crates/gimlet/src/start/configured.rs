//! What settings, flags and trust say about a session: read when it starts, and looked at again while it runs.

use std::path::PathBuf;
use std::sync::Arc;

use gimlet_config::{Effective, Inventory, Loaded, Options, Problem, Severity, Trust, TrustStore};
use gimlet_core::tool::nearest;
use gimlet_core::{Redactor, Review, ReviewRules, SettingsNow};
use gimlet_policy::{Behavior, RuleProblem, RuleScope, RuleSet, RuleSource, split_rules};
use gimlet_proto::Env;

use super::key_helper::KeyHelper;
use super::known_tools;
use super::live::FlagSettings;
use crate::args::RunArgs;
use crate::report::Report;
use crate::settings;
use crate::surroundings::Surroundings;

/// The settings of a session, with all that is needed to read them again.
pub(crate) struct Configured {
    pub(super) around: Surroundings,
    pub(super) options: Options,
    pub(super) flag_settings: FlagSettings,
    /// Everything here is trusted for this run, without a record.
    pub(super) all_trusted: bool,
    flag_rules: RuleSet,
    flag_directories: Vec<PathBuf>,
    pub(crate) loaded: Loaded,
    pub(super) inventory: Inventory,
    pub(super) trust: Trust,
    pub(crate) effective: Effective,
    /// The environment with what settings add to it.
    pub(crate) env: Env,
    key_helper: Option<Arc<KeyHelper>>,
}

impl Configured {
    pub(crate) fn read(run: &RunArgs, around: &Surroundings) -> Result<Self, Report> {
        let options = Options { settings_flag: run.settings.clone(), sources: run.setting_sources.unwrap_or_default() };
        let loaded = gimlet_config::load(&settings::locations(around), &options);
        if let Some(problem) = loaded.errors().find(|problem| is_flag(run, around, problem)) {
            // What was asked for on this very command line is not passed over.
            return Err(Report::new(problem.to_string()).hint("Give --settings a readable file or a JSON object"));
        }
        let named = run.setting_sources.is_some_and(|sources| sources.project);
        let mut configured = Self {
            around: around.clone(),
            options,
            flag_settings: FlagSettings::default(),
            all_trusted: run.trust || named || around.env.flag("GIMLET_TRUST"),
            flag_rules: flag_rules(run, around)?,
            flag_directories: flag_directories(run, around)?,
            loaded,
            inventory: Inventory::default(),
            trust: Trust::nothing(),
            effective: Effective::default(),
            env: around.env.clone(),
            key_helper: None,
        };
        configured.judge();
        for line in &configured.effective.env {
            configured.env = configured.env.clone().with(&line.name, &line.value);
        }
        Ok(configured)
    }

    /// The settings of the command line may change by this while the session runs.
    pub(crate) fn following(mut self, flag_settings: &FlagSettings) -> Self {
        self.flag_settings = flag_settings.clone();
        if let Some(text) = self.flag_settings.take_change() {
            self.options.settings_flag = Some(text);
            self.loaded = self.loaded.reload(&self.options);
            self.judge();
        }
        self
    }

    /// What is wrong with settings that the command line carries itself.
    pub(crate) fn flag_problem(&self) -> Option<String> {
        let wrong = |problem: &&Problem| problem.severity != Severity::Info && problem.file.as_os_str() == "--settings";
        self.loaded.problems.iter().find(wrong).map(ToString::to_string)
    }

    /// Finds out what of the loaded settings holds.
    pub(super) fn judge(&mut self) {
        self.inventory = Inventory::collect(&self.loaded);
        self.trust = match (self.all_trusted, self.inventory.items.is_empty()) {
            (true, _) => Trust::everything(),
            // Nothing needs trust, so nobody needs to look who gave it.
            (false, true) => Trust::nothing(),
            (false, false) => TrustStore::new(&self.loaded.locations).trust(),
        };
        self.take_effect();
    }

    /// Brings what holds in line with the trust that was given.
    pub(super) fn take_effect(&mut self) {
        self.effective = self.loaded.effective(&self.inventory, &self.trust);
        if let Some(helper) = &self.key_helper {
            helper.set_command(self.effective.settings.api_key_helper.as_deref());
        }
    }

    /// The command that prints the key, if settings name one; it follows them from here on.
    pub(super) fn key_helper(&mut self, redactor: &Redactor) -> Option<Arc<KeyHelper>> {
        let command = self.effective.settings.api_key_helper.as_deref()?;
        let helper = Arc::new(KeyHelper::new(self.around.cwd.clone(), self.env.clone(), redactor.clone()));
        helper.set_command(Some(command));
        self.key_helper = Some(Arc::clone(&helper));
        Some(helper)
    }

    /// Whether a setting by this name is there but not trusted.
    pub(super) fn withholds(&self, key: &str) -> bool {
        self.effective.withheld.iter().any(|item| item.name == key)
    }

    /// Rules and folders as they are now, with one line for people about each thing that is wrong.
    pub(crate) fn now(&self) -> SettingsNow {
        let managed_only = self.effective.settings.allow_managed_permission_rules_only == Some(true);
        let flag_rules = self.flag_rules.clone();
        let mut rules = if managed_only { flag_rules.with_managed_allows_only() } else { flag_rules };
        let bad_rules = settings::add_rules(&mut rules, &self.effective);
        let (found, missing) = settings::directories(&self.effective, &self.around);
        let problems = self.loaded.problems.iter().chain(&self.effective.problems);
        // A rule or a mode that is not used is missed at once, whatever it was for.
        let pressing = |problem: &&Problem| {
            problem.severity == Severity::Error
                || (problem.severity == Severity::Warning && problem.key.starts_with("permissions."))
        };
        let errors = problems.filter(pressing);
        let mut remarks: Vec<String> = errors.map(ToString::to_string).collect();
        remarks.extend(bad_rules.iter().map(with_nearest_tool));
        if managed_only && !self.flag_rules.rules(Behavior::Allow).is_empty() {
            remarks.push("--allowedTools is not used: only managed rules allow something here".to_owned());
        }
        remarks.extend(rules.remarks(&known_tools().collect::<Vec<_>>()).iter().map(ToString::to_string));
        remarks.extend(missing);
        let directories = self.flag_directories.iter().cloned().chain(found).collect();
        SettingsNow { rules, directories, remarks }
    }

    /// One line that names what is not used for want of trust.
    pub(crate) fn untrusted(&self) -> Option<String> {
        let line = gimlet_config::withheld_line(&self.effective.withheld)?;
        Some(format!("{line}. Add --trust to use them in this run"))
    }

    /// How auto mode is to review; `None` where settings took the mode away.
    pub(crate) fn review(&self) -> Option<Review> {
        let settings = &self.effective.settings;
        if settings.disable_auto_mode.is_some() || settings.permissions.disable_auto_mode.is_some() {
            return None;
        }
        let auto = settings.auto_mode.clone().unwrap_or_default();
        let rules = ReviewRules {
            environment: auto.environment.unwrap_or_default(),
            allow: auto.allow.unwrap_or_default(),
            soft_deny: auto.soft_deny.unwrap_or_default(),
            hard_deny: auto.hard_deny.unwrap_or_default(),
        };
        Some(Review { model: "small".to_owned(), rules, all_shell: auto.classify_all_shell == Some(true) })
    }
}

/// What is wrong with a rule; most often it is the name of the tool.
fn with_nearest_tool(problem: &RuleProblem) -> String {
    let name = problem.error.rule().split('(').next().unwrap_or_default();
    match nearest(name, known_tools()).filter(|_| !known_tools().any(|known| known == name)) {
        Some(tool) => format!("{problem}; did you mean `{tool}`?"),
        None => problem.to_string(),
    }
}

fn is_flag(run: &RunArgs, around: &Surroundings, problem: &Problem) -> bool {
    let Some(flag) = &run.settings else { return false };
    problem.key.is_empty() && (problem.file.as_os_str() == "--settings" || problem.file == around.cwd.join(flag))
}

/// The rules of the command line. They are exact: one that cannot be used ends the start.
fn flag_rules(run: &RunArgs, around: &Surroundings) -> Result<RuleSet, Report> {
    let mut rules = RuleSet::default();
    let lists = [
        (Behavior::Allow, "--allowedTools", &run.allowed_tools),
        (Behavior::Deny, "--disallowedTools", &run.disallowed_tools),
    ];
    for (behavior, label, texts) in lists {
        let source = RuleSource::new(RuleScope::CommandLine, &around.cwd).called(label);
        for rule in texts.iter().flat_map(|text| split_rules(text)) {
            super::known_tool(rule, label, run.is_driven())?;
            rules.add(behavior, rule, &source).map_err(|error| {
                Report::new(format!("{label}: {error}")).hint("Write rules as Tool or Tool(pattern)")
            })?;
        }
    }
    Ok(rules)
}

fn flag_directories(run: &RunArgs, around: &Surroundings) -> Result<Vec<PathBuf>, Report> {
    let real = |dir: &PathBuf| around.cwd.join(dir).canonicalize().ok().filter(|real| real.is_dir());
    let missing = |dir: &PathBuf| Report::new(format!("--add-dir {}: there is no such folder", dir.display()));
    run.add_dir.iter().map(|dir| real(dir).ok_or_else(|| missing(dir))).collect()
}
