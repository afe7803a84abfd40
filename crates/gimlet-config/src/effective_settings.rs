//! Settings in effect in a session: all files merged, without the project's values that the user has not trusted.
//! Restrictions always apply.

use std::collections::HashSet;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::json::{JsonNode, JsonValue};
use crate::load::{FileAuthor, LoadedSettings, SettingsLayer};
use crate::merge::{self, MergedSettings, SettingOrigin};
use crate::problem::{ProblemSeverity, SettingsProblem};
use crate::scope::Scope;
use crate::setting_keys::{self, KeyEffect};
use crate::settings::{DefaultMode, HookGroup, HookHandlerSettings, Settings};
use crate::trust::{ProjectItem, ProjectTrust, TrustInventory};

/// Effect of a rule when it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RuleBehavior {
    Allow,
    Ask,
    Deny,
}

/// One permission rule as written in a file; its syntax is not checked here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleLine {
    pub behavior: RuleBehavior,
    pub text: String,
    pub origin: SettingOrigin,
    /// Directory that a leading `/` in its path refers to.
    pub anchor: PathBuf,
    /// True if the project could have written it, rather than the user.
    pub from_project: bool,
}

/// Additional working folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryLine {
    pub path: String,
    pub origin: SettingOrigin,
}

/// Environment variable for gimlet and its child processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvLine {
    pub name: String,
    pub value: String,
    pub origin: SettingOrigin,
}

/// Hook as written in a file.
#[derive(Clone, Debug, PartialEq)]
pub struct HookLine {
    pub event: String,
    pub matcher: Option<String>,
    pub handler: HookHandlerSettings,
    pub origin: SettingOrigin,
}

/// Key that is set and has no effect in this version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct IdleKey {
    pub key: String,
    pub effect: KeyEffect,
    /// Origin of the value with the highest precedence.
    pub origin: SettingOrigin,
}

/// Settings in effect in a session.
#[derive(Clone, Debug, Default)]
pub struct EffectiveSettings {
    pub settings: Settings,
    /// Merged settings with unknown keys and the origin of each value.
    pub merged: MergedSettings,
    pub rules: Vec<RuleLine>,
    pub directories: Vec<DirectoryLine>,
    pub env: Vec<EnvLine>,
    /// Hooks in the order of the files, lowest precedence first; a handler in several files is listed several times.
    pub hooks: Vec<HookLine>,
    pub default_mode: Option<(DefaultMode, SettingOrigin)>,
    /// Items of the project's files that are not used.
    pub withheld: Vec<ProjectItem>,
    /// Problems with the settings as a whole.
    pub problems: Vec<SettingsProblem>,
}

impl LoadedSettings {
    /// Returns the settings in effect under this trust.
    pub fn effective_settings(&self, inventory: &TrustInventory, trust: &ProjectTrust) -> EffectiveSettings {
        let withheld = inventory.withheld(trust);
        let mut layers: Vec<SettingsLayer> =
            self.layers.iter().enumerate().map(|(at, layer)| without_withheld(layer, at, &withheld)).collect();
        drop_unmanaged_lists(&mut layers);
        let mut effective =
            EffectiveSettings { withheld, merged: merge::merge_layers(&layers), ..EffectiveSettings::default() };
        match serde_json::from_value(effective.merged.to_value()) {
            Ok(settings) => effective.settings = settings,
            // Every file is valid by itself. Should they still not fit together, only the user's own apply.
            Err(error) => {
                let own: Vec<SettingsLayer> =
                    layers.iter().filter(|layer| layer.author == FileAuthor::User).cloned().collect();
                effective.merged = merge::merge_layers(&own);
                effective.settings = serde_json::from_value(effective.merged.to_value()).unwrap_or_default();
                effective.problems.push(SettingsProblem {
                    severity: ProblemSeverity::Error,
                    file: self.locations.project_file(),
                    line: None,
                    column: None,
                    key: String::new(),
                    message: format!(
                        "this does not fit together with the other settings: {error}; only its rules are used"
                    ),
                });
            }
        }
        for layer in &layers {
            effective.add_rules(layer);
            effective.hooks.extend(layer_hooks(layer));
        }
        effective.enforce_managed_only();
        effective.add_merged_values();
        effective
    }
}

impl LoadedSettings {
    /// Returns every hook of every file, also those that do not act.
    pub fn hook_lines(&self) -> Vec<HookLine> {
        self.layers.iter().flat_map(layer_hooks).collect()
    }
}

fn layer_hooks(layer: &SettingsLayer) -> Vec<HookLine> {
    let mut hooks = Vec::new();
    for event in layer.root.get("hooks").map(JsonNode::members).unwrap_or_default() {
        for node in event.value.elements() {
            // The file was checked when it was read.
            let Ok(group) = HookGroup::deserialize(node) else { continue };
            let places = node.get("hooks").map(JsonNode::elements).unwrap_or_default();
            for (handler, place) in group.hooks.into_iter().zip(places) {
                let (event, matcher) = (event.key.clone(), group.matcher.clone());
                hooks.push(HookLine { event, matcher, handler, origin: node_origin(layer, place) });
            }
        }
    }
    hooks
}

impl EffectiveSettings {
    /// Returns the keys that are set and have no effect in this version, by name.
    pub fn idle_keys(&self) -> Vec<IdleKey> {
        let idle = |key: String| {
            let effect =
                setting_keys::find_key(&key).map(|row| row.effect).filter(|effect| *effect != KeyEffect::Acts)?;
            let origin = self.merged.sources(&key).pop()?.origin;
            Some(IdleKey { key, effect, origin })
        };
        let mut found: Vec<IdleKey> = self.merged.keys().into_iter().filter_map(idle).collect();
        found.sort_by(|a, b| a.key.cmp(&b.key));
        found
    }

    fn add_rules(&mut self, layer: &SettingsLayer) {
        let lists = [("deny", RuleBehavior::Deny), ("ask", RuleBehavior::Ask), ("allow", RuleBehavior::Allow)];
        for (list, behavior) in lists {
            for entry in layer.rule_nodes(list) {
                let Some(text) = entry.as_str() else { continue };
                self.rules.push(RuleLine {
                    behavior,
                    text: text.to_owned(),
                    origin: node_origin(layer, entry),
                    anchor: layer.anchor.clone(),
                    from_project: layer.author == FileAuthor::Project,
                });
            }
        }
    }

    /// Switches by which the administrator keeps others from adding rules or hooks, and by which hooks are off.
    fn enforce_managed_only(&mut self) {
        if self.settings.allow_managed_permission_rules_only == Some(true) {
            // Restrictions stay, regardless of their author.
            let keep = |rule: &RuleLine| rule.origin.scope == Scope::Managed || rule.behavior != RuleBehavior::Allow;
            self.rules.retain(keep);
        }
        let off = self.merged.sources("disableAllHooks");
        let off_by = off.iter().find(|off| off.value == true).map(|off| off.origin.scope);
        let managed_only = self.settings.allow_managed_hooks_only == Some(true) || off_by.is_some();
        if managed_only {
            let managed_too = off_by == Some(Scope::Managed);
            self.hooks.retain(|hook| hook.origin.scope == Scope::Managed && !managed_too);
        }
    }

    /// Returns true if hooks that a file of this scope defines may run, which the administrator and `disableAllHooks`
    /// decide.
    pub fn allows_hooks_of(&self, scope: Scope) -> bool {
        let off = self.merged.sources("disableAllHooks");
        let off_by = off.iter().find(|off| off.value == true).map(|off| off.origin.scope);
        match scope {
            Scope::Managed => off_by != Some(Scope::Managed),
            Scope::User | Scope::Project | Scope::Local | Scope::Flag => {
                off_by.is_none() && self.settings.allow_managed_hooks_only != Some(true)
            }
        }
    }

    fn add_merged_values(&mut self) {
        for entry in self.merged.entries("permissions.additionalDirectories") {
            let Some(path) = entry.value.as_str() else { continue };
            self.directories.push(DirectoryLine { path: path.to_owned(), origin: entry.origin.clone() });
        }
        for name in self.settings.env.iter().flat_map(|env| env.keys()) {
            let Some(entry) = self.merged.sources(&format!("env.{name}")).pop() else { continue };
            let Some(value) = entry.value.as_str() else { continue };
            self.env.push(EnvLine { name: name.clone(), value: value.to_owned(), origin: entry.origin });
        }
        let mode = self.settings.permissions.default_mode;
        let place = self.merged.sources("permissions.defaultMode").pop();
        self.default_mode = mode.zip(place.map(|place| place.origin));
    }
}

/// Removes the entries of other scopes where the administrator reserves a sandbox allow list to managed settings.
fn drop_unmanaged_lists(layers: &mut [SettingsLayer]) {
    let switch = |layers: &[SettingsLayer], path: [&str; 3]| {
        let managed = layers.iter().filter(|layer| layer.scope == Scope::Managed);
        managed
            .filter_map(|layer| layer.root.find(path))
            .next_back()
            .is_some_and(|node| node.json == JsonValue::Bool(true))
    };
    let own_paths = switch(layers, ["sandbox", "filesystem", "allowManagedReadPathsOnly"]);
    let own_hosts = switch(layers, ["sandbox", "network", "allowManagedDomainsOnly"]);
    for layer in layers.iter_mut().filter(|layer| layer.scope != Scope::Managed) {
        let mut take = |block: &str, list: &str| layer.root.find_mut(["sandbox", block]).map(|node| node.remove(list));
        if own_paths {
            take("filesystem", "allowRead");
        }
        if own_hosts {
            take("network", "allowedDomains");
            if let Some(allow) = layer.root.find_mut(["permissions", "allow"]).and_then(JsonNode::elements_mut) {
                allow.retain(|rule| !rule.as_str().is_some_and(|rule| rule.trim().starts_with("WebFetch")));
            }
        }
    }
}

fn node_origin(layer: &SettingsLayer, node: &JsonNode) -> SettingOrigin {
    SettingOrigin { scope: layer.scope, file: layer.file.clone(), line: layer.line_of_node(node) }
}

/// Returns the layer without the items that are withheld from it.
fn without_withheld(layer: &SettingsLayer, at: usize, withheld: &[ProjectItem]) -> SettingsLayer {
    let places = withheld.iter().filter_map(|item| item.place.as_ref()).filter(|place| place.layer == at);
    let gone: HashSet<&[String]> = places.map(|place| place.path.as_slice()).collect();
    let mut layer = layer.clone();
    if !gone.is_empty() {
        prune_paths(&mut layer.root, &mut Vec::new(), &gone);
    }
    layer
}

/// Removes the given paths, and every container that becomes empty by it.
fn prune_paths(node: &mut JsonNode, path: &mut Vec<String>, gone: &HashSet<&[String]>) {
    let mut keep = |step: String, below: &mut JsonNode| {
        path.push(step);
        let mut kept = !gone.contains(path.as_slice());
        if kept && gone.iter().any(|place| place.starts_with(path)) {
            prune_paths(below, path, gone);
            let is_empty = below.members().is_empty() && below.elements().is_empty();
            // A hook group consists of its handlers; a matcher without any has no effect.
            let is_bare_group = path.len() == 3 && path[0] == "hooks" && below.get("hooks").is_none();
            kept = !is_empty && !is_bare_group;
        }
        path.pop();
        kept
    };
    match &mut node.json {
        JsonValue::Object(members) => members.retain_mut(|member| keep(member.key.clone(), &mut member.value)),
        JsonValue::Array(elements) => {
            let mut at = 0;
            elements.retain_mut(|element| {
                at += 1;
                keep((at - 1).to_string(), element)
            });
        }
        _ => {}
    }
}
