//! Changing one setting, and saying what came of it: which file, whether it does anything, and what stands in its way.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use gimlet_config::{Edit, Effect, Item, Locations, RuleLine, SaveError, Scope};
use gimlet_policy::{Behavior, RuleScope, RuleSet, RuleSource};
use serde_json::Value;

use super::{Found, find, show};
use crate::args::WritableScope;
use crate::report::Report;
use crate::settings::{self, locations};
use crate::surroundings::Surroundings;

/// A change that is wanted.
pub(super) struct Writing<'a> {
    around: &'a Surroundings,
    locations: Locations,
    scope: Scope,
    key: &'a str,
}

/// A change that was made.
struct Written {
    file: PathBuf,
    /// What about the key waited for trust before it.
    waited_before: Vec<Item>,
}

impl<'a> Writing<'a> {
    pub(super) fn new(around: &'a Surroundings, scope: WritableScope, key: &'a str) -> Self {
        Self { around, locations: locations(around), scope: scope.into(), key }
    }

    pub(super) fn set(&self, text: &str) -> Result<ExitCode, Report> {
        self.check_rules(text)?;
        let written = self.write(text, Edit::Set).map_err(|error| match &error {
            SaveError::Value { message, .. } if message.starts_with("a list") => {
                Report::new(error.to_string()).hint(format!("For one entry: gimlet config add {} '{text}'", self.key))
            }
            _ => Report::new(error.to_string()),
        })?;
        let done = self.say_done("set", &written);
        self.say_about_rules(text);
        Ok(done)
    }

    pub(super) fn add(&self, text: &str) -> Result<ExitCode, Report> {
        let is_list = matches!(serde_json::from_str(text), Ok(Value::Array(_)));
        if is_list {
            return Err(Report::new(format!("an entry of {} is no list", self.key)).hint("Add one entry at a time"));
        }
        self.check_rules(text)?;
        let before = self.here();
        let written = self.write(text, Edit::Append).map_err(|error| match &error {
            SaveError::Value { message, .. } if message.ends_with("not a list") => {
                Report::new(format!("{} is no list", self.key)).hint(format!("gimlet config set {} '{text}'", self.key))
            }
            _ => Report::new(error.to_string()),
        })?;
        if before.is_some() && before == self.here() {
            show(&format!("{} has this entry already in {}", self.key, written.file.display()));
            return Ok(ExitCode::SUCCESS);
        }
        let done = self.say_done("extended", &written);
        self.say_about_rules(text);
        Ok(done)
    }

    pub(super) fn remove(&self, text: &str) -> Result<ExitCode, Report> {
        let before = self.here();
        let written = self.write(text, Edit::Take).map_err(|error| Report::new(error.to_string()))?;
        match before == self.here() {
            true => Err(Report::new(format!("{} has no such entry in {}", self.key, self.file().display()))),
            false => Ok(self.say_done("shortened", &written)),
        }
    }

    /// What the key's rules do, if it is one of rules.
    fn behavior(&self) -> Option<Behavior> {
        match self.key {
            "permissions.allow" => Some(Behavior::Allow),
            "permissions.ask" => Some(Behavior::Ask),
            "permissions.deny" => Some(Behavior::Deny),
            _ => None,
        }
    }

    /// A rule that nobody can honour is refused here as it is on the command line.
    fn check_rules(&self, text: &str) -> Result<(), Report> {
        let Some(behavior) = self.behavior() else { return Ok(()) };
        let rules = written_rules(text);
        let source = RuleSource::new(RuleScope::CommandLine, &self.around.cwd).called(self.key);
        rules.iter().try_for_each(|rule| crate::start::check_rule(rule, behavior, &source, self.key))
    }

    /// Rules that were written just now and decide nothing, or that keep others from deciding.
    fn say_about_rules(&self, text: &str) {
        let Some(behavior) = self.behavior() else { return };
        let found = find(self.around);
        let mut rules = RuleSet::default();
        settings::add_rules(&mut rules, &found.effective);
        let written = written_rules(text);
        let known: Vec<&str> = crate::start::known_tools().collect();
        let odd = rules.remarks(&known).into_iter().filter(|remark| remark.concerns(behavior, &written));
        let remarks = rules.made_unreachable(behavior, &written).into_iter().chain(odd);
        remarks.for_each(|remark| crate::say_on_stderr(&gimlet_serve::sanitise(&format!("note: {remark}"))));
        let file = self.file();
        let is_written = |rule: &&RuleLine| rule.origin.file == file && written.contains(&rule.text);
        for remark in found.effective.rules.iter().filter(is_written).filter_map(settings::perhaps_absolute) {
            crate::say_on_stderr(&format!("note: {remark}"));
        }
        if behavior == Behavior::Allow
            && self.scope != Scope::Managed
            && !settings::unused_allows(&found.effective).is_empty()
        {
            crate::say_on_stderr(&format!("note: {}", settings::UNUSED_ALLOW));
        }
    }

    pub(super) fn unset(&self) -> Result<ExitCode, Report> {
        let was_set = self.here().is_some();
        let file = gimlet_config::save(&self.locations, self.scope, self.key, &Edit::Remove)
            .map_err(|error| Report::new(error.to_string()))?;
        match was_set {
            true => show(&format!("{} removed in {}", self.key, file.display())),
            false => show(&format!("{} was not set in {}", self.key, file.display())),
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Writes a value that was given as JSON or as plain text: 5 may be a number or a name, and the setting knows.
    fn write(&self, text: &str, edit: fn(Value) -> Edit) -> Result<Written, SaveError> {
        let save = |value: Value| gimlet_config::save(&self.locations, self.scope, self.key, &edit(value));
        let waited_before = self.waiting(&find(self.around));
        let as_text = || save(Value::String(text.to_owned()));
        let parsed = serde_json::from_str::<Value>(text).ok().filter(|value| !value.is_null());
        let file = match parsed.map(save) {
            Some(Err(error @ SaveError::Value { .. })) => as_text().map_err(|_| error)?,
            Some(written) => written?,
            None => as_text()?,
        };
        Ok(Written { file, waited_before })
    }

    fn say_done(&self, done: &str, written: &Written) -> ExitCode {
        show(&format!("{} {done} in {}", self.key, written.file.display()));
        self.say_what_follows(&written.file, &written.waited_before);
        ExitCode::SUCCESS
    }

    /// What a person should know who expects that the setting acts from now on.
    fn say_what_follows(&self, file: &Path, waited_before: &[Item]) {
        match gimlet_config::key(self.key).map(|row| row.effect) {
            Some(Effect::NotYet) => crate::say_on_stderr("note: this version of gimlet does not use it yet"),
            Some(Effect::Hosted) => {
                crate::say_on_stderr("note: it is about a hosted service that gimlet does not use");
            }
            Some(Effect::Acts) | None => {}
        }
        let found = find(self.around);
        let waiting = self.waiting(&found);
        if waiting.is_empty() {
            return self.say_what_is_stronger(&found, file);
        }
        // Whoever has just written it has also read it, unless it was the model. What was there before is another matter.
        let is_new = waited_before.is_empty() && found.effective.withheld.len() == waiting.len();
        if is_new && !gimlet_exec::is_below_a_session() {
            if let Err(error) = found.store.accept_items(&waiting) {
                crate::say_on_stderr(&format!("note: {error}"));
            }
            return self.say_what_is_stronger(&find(self.around), file);
        }
        crate::say_on_stderr("note: it waits until you trust this folder; 'gimlet doctor' says what else does");
    }

    fn say_what_is_stronger(&self, found: &Found, file: &Path) {
        let value = found.effective.merged.get(self.key);
        // Lists are joined, and one that says the same stands in nobody's way.
        let is_other = value.as_ref().is_some_and(|value| !value.is_array()) && value != self.here();
        let origin = found.effective.merged.origins(self.key).pop().map(|sourced| sourced.origin);
        if let Some(origin) = origin.filter(|origin| origin.file != file && is_other) {
            let place = format!("{}:{}", origin.file.display(), origin.line);
            crate::say_on_stderr(&format!("note: {place} says something else, and comes first here"));
        }
    }

    /// The items about this key that wait for trust.
    fn waiting(&self, found: &Found) -> Vec<Item> {
        let is_about = |item: &&Item| {
            let about = item.setting().unwrap_or_default();
            about == self.key || about.strip_prefix(self.key).is_some_and(|rest| rest.starts_with('.'))
        };
        found.effective.withheld.iter().filter(is_about).cloned().collect()
    }

    fn file(&self) -> PathBuf {
        match self.scope {
            Scope::Project => self.locations.project_file(),
            Scope::Local => self.locations.local_file(),
            Scope::User | Scope::Flag | Scope::Managed => self.locations.user_file(),
        }
    }

    /// What the file itself says about the key.
    fn here(&self) -> Option<Value> {
        let file = self.file();
        let loaded = gimlet_config::load(&self.locations, &gimlet_config::Options::default());
        let layer = loaded.layers.iter().find(|layer| layer.file == file)?;
        let mut value = &layer.value();
        for part in gimlet_config::parts_of(self.key).ok()? {
            value = value.get(part)?;
        }
        Some(value.clone())
    }
}

/// The rules in a value that was given as a JSON list or as plain text.
fn written_rules(text: &str) -> Vec<String> {
    serde_json::from_str::<Vec<String>>(text).unwrap_or_else(|_| vec![text.to_owned()])
}
