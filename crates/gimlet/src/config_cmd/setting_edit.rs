//! Changing one setting, and describing the result: the file, the effect, and what prevents it.

use std::path::{Path, PathBuf};

use gimlet_app::{
    ProcessEnv,
    settings_mapping::{self, find_locations},
};
use gimlet_config::{JsonEdit, KeyEffect, ProjectItem, RuleLine, SaveError, Scope, SettingsLocations};
use gimlet_policy::{Behavior, RuleScope, RuleSet, RuleSource};
use serde_json::Value;

use super::config_answer::ConfigAnswer;
use super::{SettingsSnapshot, find};
use crate::args::WritableScope;
use crate::report::Report;

/// A requested change.
pub(crate) struct SettingEdit<'a> {
    around: &'a ProcessEnv,
    locations: SettingsLocations,
    scope: Scope,
    key: &'a str,
}

/// A saved change.
struct SavedEdit {
    file: PathBuf,
    /// Items about the key that awaited trust before the edit.
    withheld_before: Vec<ProjectItem>,
}

impl<'a> SettingEdit<'a> {
    pub(crate) fn new(around: &'a ProcessEnv, scope: WritableScope, key: &'a str) -> Self {
        Self { around, locations: find_locations(around), scope: scope.into(), key }
    }

    pub(crate) fn set(&self, text: &str) -> Result<ConfigAnswer, Report> {
        self.check_rules(text)?;
        let written = self.save(text, JsonEdit::Set).map_err(|error| match &error {
            SaveError::Value { message, .. } if message.starts_with("expected a list") => {
                Report::new(error.to_string())
                    .with_hint(format!("For one entry: gimlet config add {} '{text}'", self.key))
            }
            _ => Report::new(error.to_string()),
        })?;
        Ok(self.describe_done("set", &written).with_notes(self.rule_problems(text)))
    }

    pub(crate) fn add(&self, text: &str) -> Result<ConfigAnswer, Report> {
        let is_list = matches!(serde_json::from_str(text), Ok(Value::Array(_)));
        if is_list {
            return Err(
                Report::new(format!("an entry of {} is not a list", self.key)).with_hint("Add one entry at a time")
            );
        }
        self.check_rules(text)?;
        let before = self.value_in_file();
        let written = self.save(text, JsonEdit::Append).map_err(|error| match &error {
            SaveError::Value { message, .. } if message.ends_with("got a list") => {
                Report::new(format!("{} is not a list", self.key))
                    .with_hint(format!("gimlet config set {} '{text}'", self.key))
            }
            _ => Report::new(error.to_string()),
        })?;
        if before.is_some() && before == self.value_in_file() {
            let text = format!("{} has this entry already in {}", self.key, written.file.display());
            return Ok(ConfigAnswer::new(text));
        }
        Ok(self.describe_done("extended", &written).with_notes(self.rule_problems(text)))
    }

    pub(crate) fn remove(&self, text: &str) -> Result<ConfigAnswer, Report> {
        let before = self.value_in_file();
        let written = self.save(text, JsonEdit::RemoveEntry).map_err(|error| Report::new(error.to_string()))?;
        match before == self.value_in_file() {
            true => Err(Report::new(format!("{} has no such entry in {}", self.key, self.target_file().display()))),
            false => Ok(self.describe_done("shortened", &written)),
        }
    }

    /// Returns the behavior of the key's rules; `None` if the key does not hold rules.
    fn rule_behavior(&self) -> Option<Behavior> {
        match self.key {
            "permissions.allow" => Some(Behavior::Allow),
            "permissions.ask" => Some(Behavior::Ask),
            "permissions.deny" => Some(Behavior::Deny),
            _ => None,
        }
    }

    /// Refuses a rule that cannot be honoured, as on the command line.
    fn check_rules(&self, text: &str) -> Result<(), Report> {
        let Some(behavior) = self.rule_behavior() else { return Ok(()) };
        let rules = parse_rules(text);
        let source = RuleSource::new(RuleScope::CommandLine, &self.around.cwd).with_label(self.key);
        for rule in &rules {
            gimlet_app::start::check_rule(rule, behavior, &source, self.key)?;
        }
        Ok(())
    }

    /// Returns remarks on newly written rules that have no effect or that override others.
    fn rule_problems(&self, text: &str) -> Vec<String> {
        let Some(behavior) = self.rule_behavior() else { return Vec::new() };
        let found = find(self.around);
        let mut rules = RuleSet::default();
        settings_mapping::add_rules(&mut rules, &found.effective);
        let written = parse_rules(text);
        let known: Vec<&str> = gimlet_app::start::known_tools().collect();
        let odd = rules.collect_remarks(&known).into_iter().filter(|remark| remark.concerns(behavior, &written));
        let remarks = rules.find_newly_unreachable(behavior, &written).into_iter().chain(odd);
        let mut notes: Vec<String> = remarks.map(|remark| remark.to_string()).collect();
        let file = self.target_file();
        let is_written = |rule: &&RuleLine| rule.origin.file == file && written.contains(&rule.text);
        notes.extend(found.effective.rules.iter().filter(is_written).filter_map(settings_mapping::absolute_path_hint));
        if behavior == Behavior::Allow
            && self.scope != Scope::Managed
            && !settings_mapping::unused_allow_rules(&found.effective).is_empty()
        {
            notes.push(settings_mapping::UNUSED_ALLOW.to_owned());
        }
        notes
    }

    pub(super) fn unset(&self) -> Result<ConfigAnswer, Report> {
        let was_set = self.value_in_file().is_some();
        let file = gimlet_config::save_setting(&self.locations, self.scope, self.key, &JsonEdit::RemoveKey)
            .map_err(|error| Report::new(error.to_string()))?;
        let done = if was_set { "removed" } else { "was not set" };
        Ok(ConfigAnswer::new(format!("{} {done} in {}", self.key, file.display())))
    }

    /// Saves a value given as JSON or as plain text: 5 may be a number or a name, depending on the setting.
    fn save(&self, text: &str, edit: fn(Value) -> JsonEdit) -> Result<SavedEdit, SaveError> {
        let save = |value: Value| gimlet_config::save_setting(&self.locations, self.scope, self.key, &edit(value));
        let waited_before = self.withheld_items(&find(self.around));
        let as_text = || save(Value::String(text.to_owned()));
        let parsed = serde_json::from_str::<Value>(text).ok().filter(|value| !value.is_null());
        let file = match parsed.map(save) {
            Some(Err(error @ SaveError::Value { .. })) => as_text().map_err(|_| error)?,
            Some(written) => written?,
            None => as_text()?,
        };
        Ok(SavedEdit { file, withheld_before: waited_before })
    }

    fn describe_done(&self, done: &str, written: &SavedEdit) -> ConfigAnswer {
        ConfigAnswer::new(format!("{} {done} in {}", self.key, written.file.display()))
            .with_notes(self.consequences(&written.file, &written.withheld_before))
    }

    /// Returns the reasons why the setting may not take effect at once.
    fn consequences(&self, file: &Path, waited_before: &[ProjectItem]) -> Vec<String> {
        let mut notes = Vec::new();
        match gimlet_config::find_key(self.key).map(|row| row.effect) {
            Some(KeyEffect::NotYet) => notes.push("this version of gimlet does not use it yet".to_owned()),
            Some(KeyEffect::Hosted) => notes.push("it is about a hosted service that gimlet does not use".to_owned()),
            Some(KeyEffect::Acts) | None => {}
        }
        let found = find(self.around);
        let waiting = self.withheld_items(&found);
        if waiting.is_empty() {
            notes.extend(self.override_remark(&found, file));
            return notes;
        }
        // The writer knows the new value, unless it was the model. Earlier untrusted items still need to be reviewed.
        let is_new = waited_before.is_empty() && found.effective.withheld.len() == waiting.len();
        if is_new && !gimlet_exec::is_started_by_session() {
            notes.extend(found.store.accept_items(&waiting).err().map(|error| error.to_string()));
            notes.extend(self.override_remark(&find(self.around), file));
        } else {
            notes.push("it waits until you trust this folder; 'gimlet doctor' says what else does".to_owned());
        }
        notes
    }

    /// Returns a remark if another file overrides the written value.
    fn override_remark(&self, found: &SettingsSnapshot, file: &Path) -> Option<String> {
        let value = found.effective.merged.get(self.key);
        // Lists are merged, and an equal value does not override this one.
        let is_other = value.as_ref().is_some_and(|value| !value.is_array()) && value != self.value_in_file();
        let origin = found.effective.merged.sources(self.key).pop().map(|sourced| sourced.origin);
        let origin = origin.filter(|origin| origin.file != file && is_other)?;
        Some(format!("{}:{} says something else, and comes first here", origin.file.display(), origin.line))
    }

    /// Returns the items about this key that await trust.
    fn withheld_items(&self, found: &SettingsSnapshot) -> Vec<ProjectItem> {
        let is_about = |item: &&ProjectItem| {
            let about = item.setting().unwrap_or_default();
            about == self.key || about.strip_prefix(self.key).is_some_and(|rest| rest.starts_with('.'))
        };
        found.effective.withheld.iter().filter(is_about).cloned().collect()
    }

    fn target_file(&self) -> PathBuf {
        match self.scope {
            Scope::Project => self.locations.project_file(),
            Scope::Local => self.locations.local_file(),
            Scope::User | Scope::Flag | Scope::Managed => self.locations.user_file(),
        }
    }

    /// Returns the file's own value for the key.
    fn value_in_file(&self) -> Option<Value> {
        let file = self.target_file();
        let loaded = gimlet_config::load_settings(&self.locations, &gimlet_config::SettingsLoadOptions::default());
        let layer = loaded.layers.iter().find(|layer| layer.file == file)?;
        let mut value = &layer.to_value();
        for part in gimlet_config::split_key(self.key).ok()? {
            value = value.get(part)?;
        }
        Some(value.clone())
    }
}

/// Parses the rules in a value given as a JSON list or as plain text.
fn parse_rules(text: &str) -> Vec<String> {
    serde_json::from_str::<Vec<String>>(text).unwrap_or_else(|_| vec![text.to_owned()])
}
