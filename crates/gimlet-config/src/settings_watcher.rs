//! Detects changes of settings files by a few `stat` calls, cheap enough for every turn.

use std::path::PathBuf;

use gimlet_fs::MetadataStamp;

use crate::effective_settings::{EffectiveSettings, RuleBehavior};
use crate::load::{LoadedSettings, SettingsLayer, SettingsLoadOptions, list_drop_in_files, load_settings};
use crate::locations::SettingsLocations;
use crate::problem::{ProblemSeverity, SettingsProblem};
use crate::setting_keys::{self, KeyEffect, ReloadTiming};

/// Settings files and what they looked like when last looked at.
#[derive(Clone, Debug)]
pub struct SettingsWatcher {
    locations: SettingsLocations,
    seen: Vec<(PathBuf, Option<MetadataStamp>)>,
}

impl SettingsWatcher {
    /// Starts from the current state of the files.
    pub fn new(locations: &SettingsLocations) -> Self {
        let mut watch = Self { locations: locations.clone(), seen: Vec::new() };
        watch.seen = watch.stat_files();
        watch
    }

    /// Returns the files that changed, appeared or disappeared since the last call.
    pub fn take_changed_files(&mut self) -> Vec<PathBuf> {
        let now = self.stat_files();
        let before = |path: &PathBuf| self.seen.iter().find(|(seen, _)| seen == path).and_then(|(_, stamp)| *stamp);
        let differs = now.iter().filter(|(path, stamp)| before(path) != *stamp).map(|(path, _)| path.clone());
        let gone = self.seen.iter().filter(|(path, _)| !now.iter().any(|(other, _)| other == path));
        let changed = differs.chain(gone.map(|(path, _)| path.clone())).collect();
        self.seen = now;
        changed
    }

    fn stat_files(&self) -> Vec<(PathBuf, Option<MetadataStamp>)> {
        let Self { locations, .. } = self;
        let mut paths = vec![locations.user_file(), locations.project_file(), locations.local_file()];
        paths.extend(locations.legacy_local_file());
        paths.push(locations.managed_file());
        // A folder that cannot be listed has no files to watch; loading reports the error.
        paths.extend(list_drop_in_files(&locations.managed_drop_ins()).unwrap_or_default());
        paths.into_iter().map(|path| (path.clone(), MetadataStamp::read(&path))).collect()
    }
}

impl LoadedSettings {
    /// Reloads all files. A file that was valid and is now broken, even in one value, keeps its previous content: an
    /// unfinished edit must not open what a rule or the sandbox had closed.
    pub fn reload(&self, options: &SettingsLoadOptions) -> LoadedSettings {
        let mut now = load_settings(&self.locations, options);
        for layer in self.layers.iter().filter(|layer| !layer.is_recovered) {
            // A problem that the file had when it was loaded is no reason to keep the previous content.
            let was_there = |problem: &SettingsProblem| {
                let same = |old: &SettingsProblem| old.file == problem.file && old.key == problem.key;
                !layer.is_previous_content && self.problems.iter().any(same)
            };
            let broken = |problem: &SettingsProblem| {
                problem.severity == ProblemSeverity::Error && problem.file == layer.file && !was_there(problem)
            };
            let broken = now.problems.iter().position(broken).or_else(|| {
                let malformed = now.find_new_malformed_rule(layer, options)?;
                now.problems.push(malformed);
                Some(now.problems.len() - 1)
            });
            if let Some(problem) = broken.map(|at| &mut now.problems[at]) {
                problem.message.push_str("; what it said before still holds");
                now.unreadable_files.retain(|file| *file != layer.file);
                now.layers.retain(|other| other.file != layer.file);
                let at = now.layers.partition_point(|other| other.scope <= layer.scope);
                now.layers.insert(at, SettingsLayer { is_previous_content: true, ..layer.clone() });
            }
        }
        now
    }
}

impl LoadedSettings {
    /// Returns a deny or ask rule that cannot be parsed and that the file did not have `before`: it may have been
    /// valid until the last edit.
    fn find_new_malformed_rule(
        &self,
        before: &SettingsLayer,
        options: &SettingsLoadOptions,
    ) -> Option<SettingsProblem> {
        let objection = options.rule_objection?;
        let layer = self.layers.iter().find(|layer| layer.file == before.file)?;
        [("deny", RuleBehavior::Deny), ("ask", RuleBehavior::Ask)].into_iter().find_map(|(list, behavior)| {
            let known = |rule: &str| before.rule_nodes(list).iter().any(|old| old.as_str() == Some(rule));
            layer.rule_nodes(list).iter().find_map(|node| {
                let rule = node.as_str().filter(|rule| !known(rule))?;
                let message = objection(behavior, rule)?;
                let place = layer.text.position_at(node.span.start);
                Some(SettingsProblem {
                    severity: ProblemSeverity::Error,
                    file: layer.file.clone(),
                    line: Some(place.line),
                    column: Some(place.column),
                    key: format!("permissions.{list}"),
                    message,
                })
            })
        })
    }

    /// Reloads all files but these, which keep their previous content.
    pub fn reload_except(&self, held: &[PathBuf], options: &SettingsLoadOptions) -> LoadedSettings {
        let mut now = self.reload(options);
        for file in held {
            now.layers.retain(|layer| layer.file != *file);
            now.problems.retain(|problem| problem.file != *file);
            now.problems.extend(self.problems.iter().filter(|problem| problem.file == *file).cloned());
            for layer in self.layers.iter().filter(|layer| layer.file == *file) {
                let at = now.layers.partition_point(|other| other.scope <= layer.scope);
                now.layers.insert(at, layer.clone());
            }
        }
        now
    }
}

/// A key whose value is another one now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyChange {
    pub key: String,
    pub reload: ReloadTiming,
}

/// Returns the keys with an effect that differ between two states, and whether a running session applies them.
pub fn changed_keys(before: &EffectiveSettings, after: &EffectiveSettings) -> Vec<KeyChange> {
    let mut names = before.merged.keys();
    names.extend(after.merged.keys());
    names.sort();
    names.dedup();
    names.retain(|name| before.merged.get(name) != after.merged.get(name));
    names.retain(|name| setting_keys::find_key(name).is_some_and(|row| row.effect == KeyEffect::Acts));
    let change = |key: String| {
        let reload = setting_keys::find_key(&key).map_or(ReloadTiming::Start, |row| row.reload);
        KeyChange { key, reload }
    };
    names.into_iter().map(change).collect()
}
