//! Merging of all settings files: for each key the value with the highest precedence wins; lists add up. Every value
//! keeps the file and line that it came from.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::json::{JsonNode, JsonValue};
use crate::load::SettingsLayer;
use crate::scope::Scope;
use crate::setting_keys::is_group;

/// Position that a value was written at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SettingOrigin {
    pub scope: Scope,
    pub file: PathBuf,
    pub line: usize,
}

/// Value with its origin.
#[derive(Clone, Debug, PartialEq)]
pub struct SourcedValue {
    pub value: Value,
    pub origin: SettingOrigin,
}

/// Merged settings of all files.
#[derive(Clone, Debug, Default)]
pub struct MergedSettings {
    root: MergedGroup,
}

/// Keys in the order of their first appearance. Open maps, such as that of variables, may have thousands.
#[derive(Clone, Debug, Default)]
struct MergedGroup {
    members: Vec<(String, MergedEntry)>,
    places: HashMap<String, usize>,
}

impl MergedGroup {
    fn get(&self, key: &str) -> Option<&MergedEntry> {
        self.places.get(key).map(|at| &self.members[*at].1)
    }

    fn get_mut(&mut self, key: &str) -> Option<&mut MergedEntry> {
        self.places.get(key).map(|at| &mut self.members[*at].1)
    }

    /// Adds a key that is not there yet.
    fn push(&mut self, key: &str, slot: MergedEntry) {
        self.places.insert(key.to_owned(), self.members.len());
        self.members.push((key.to_owned(), slot));
    }

    /// Puts a value at the end, wherever the key stood before.
    fn move_to_end(&mut self, key: &str, slot: MergedEntry) {
        self.members.retain(|(name, _)| name != key);
        self.places = self.members.iter().enumerate().map(|(at, (name, _))| (name.clone(), at)).collect();
        self.push(key, slot);
    }

    fn iter(&self) -> std::slice::Iter<'_, (String, MergedEntry)> {
        self.members.iter()
    }
}

/// Merged value of one key.
#[derive(Clone, Debug)]
enum MergedEntry {
    One(SourcedValue),
    List(Vec<SourcedValue>),
    Group(MergedGroup),
}

/// Returns true if a key's value is replaced as a whole instead of merged with those of other files.
fn is_replaced_whole(path: &str) -> bool {
    matches!(path, "fallbackModel" | "spellcheck") || path.starts_with("extraKnownMarketplaces.")
}

/// Value that overrides those of files with higher precedence.
enum StickyValue {
    Switch(bool),
    Text(&'static str),
}

impl StickyValue {
    fn matches(&self, node: &JsonNode) -> bool {
        match self {
            StickyValue::Switch(wanted) => node.json == JsonValue::Bool(*wanted),
            StickyValue::Text(wanted) => node.as_str() == Some(wanted),
        }
    }
}

/// Values that apply as soon as one of these scopes sets them, regardless of precedence; of one key, the last.
const STICKY: [(&str, StickyValue, &[Scope]); 8] = [
    ("disableClaudeAiConnectors", StickyValue::Switch(true), &Scope::ALL),
    ("isolatePeerMachines", StickyValue::Switch(true), &Scope::ALL),
    ("remoteControlAtStartup", StickyValue::Switch(false), &[Scope::Project, Scope::Local]),
    ("crossSessionInbound", StickyValue::Text("hold"), &[Scope::Project, Scope::Local]),
    ("crossSessionInbound", StickyValue::Text("refuse"), &[Scope::Project, Scope::Local]),
    ("useAutoModeDuringPlan", StickyValue::Switch(false), &[Scope::User, Scope::Local, Scope::Flag, Scope::Managed]),
    ("syncClaudeAiSkills", StickyValue::Switch(false), &[Scope::User, Scope::Local, Scope::Flag, Scope::Managed]),
    ("disableSkillShellExecution", StickyValue::Switch(true), &[Scope::Managed]),
];

/// Puts the layers together, the weakest first.
pub(crate) fn merge_layers(layers: &[SettingsLayer]) -> MergedSettings {
    let mut merged = MergedSettings::default();
    for layer in layers {
        for member in layer.root.members() {
            merge_value(&mut merged.root, "", &member.key, &member.value, layer);
        }
    }
    for (key, sticky, scopes) in STICKY {
        for layer in layers.iter().filter(|layer| scopes.contains(&layer.scope)) {
            let said = layer.root.get(key).filter(|node| sticky.matches(node));
            // The administrator's own value can be stricter still.
            let refused = merged.get(key).is_some_and(|now| now == "refuse");
            if let Some(node) = said
                && !refused
            {
                merged.root.move_to_end(key, MergedEntry::One(sourced_value(node, layer)));
            }
        }
    }
    merged
}

fn merge_value(group: &mut MergedGroup, above: &str, key: &str, node: &JsonNode, layer: &SettingsLayer) {
    let path = if above.is_empty() { key.to_owned() } else { format!("{above}.{key}") };
    let replaces = is_replaced_whole(&path)
        || (path == "availableModels"
            && layer.scope == Scope::Managed
            && group.get(key).is_some_and(has_unmanaged_value));
    match (&node.json, group.get_mut(key)) {
        (JsonValue::Object(members), Some(MergedEntry::Group(below))) if !replaces => {
            for member in members {
                merge_value(below, &path, &member.key, &member.value, layer);
            }
        }
        (JsonValue::Array(elements), Some(MergedEntry::List(list))) if !replaces => {
            let mut known: HashSet<String> = list.iter().map(|entry| entry.value.to_string()).collect();
            for element in elements {
                let entry = sourced_value(element, layer);
                if known.insert(entry.value.to_string()) {
                    list.push(entry);
                }
            }
        }
        (_, current) => {
            let slot = new_entry(&path, node, layer);
            match current {
                Some(current) => *current = slot,
                None => group.push(key, slot),
            }
        }
    }
}

/// Returns true if some part is not the administrator's: their own files add up.
fn has_unmanaged_value(slot: &MergedEntry) -> bool {
    match slot {
        MergedEntry::List(entries) => entries.iter().any(|entry| entry.origin.scope != Scope::Managed),
        MergedEntry::One(one) => one.origin.scope != Scope::Managed,
        MergedEntry::Group(_) => true,
    }
}

fn new_entry(path: &str, node: &JsonNode, layer: &SettingsLayer) -> MergedEntry {
    match &node.json {
        JsonValue::Object(members) if !is_replaced_whole(path) && !members.is_empty() => {
            let mut below = MergedGroup::default();
            for member in members {
                merge_value(&mut below, path, &member.key, &member.value, layer);
            }
            MergedEntry::Group(below)
        }
        JsonValue::Array(elements) => {
            // Starts as an empty list so that repeated entries of one file count once too.
            let mut known = HashSet::new();
            let entries = elements.iter().map(|element| sourced_value(element, layer));
            MergedEntry::List(entries.filter(|entry| known.insert(entry.value.to_string())).collect())
        }
        _ => MergedEntry::One(sourced_value(node, layer)),
    }
}

fn sourced_value(node: &JsonNode, layer: &SettingsLayer) -> SourcedValue {
    let origin = SettingOrigin { scope: layer.scope, file: layer.file.clone(), line: layer.line_of_node(node) };
    SourcedValue { value: node.to_value(), origin }
}

impl MergedSettings {
    /// Returns the value of a key, with dots between the parts of its name; `None` if it has none.
    pub fn get(&self, key: &str) -> Option<Value> {
        self.find_entry(key).map(MergedEntry::to_value)
    }

    /// Returns the parts of a key's value with their origins.
    pub fn sources(&self, key: &str) -> Vec<SourcedValue> {
        let mut found = Vec::new();
        if let Some(slot) = self.find_entry(key) {
            slot.collect_values(&mut found);
        }
        found
    }

    /// Returns the entries of a list, each with its origin; one entry for a value that is not a list.
    pub fn entries(&self, key: &str) -> &[SourcedValue] {
        match self.find_entry(key) {
            Some(MergedEntry::List(entries)) => entries,
            Some(MergedEntry::One(one)) => std::slice::from_ref(one),
            _ => &[],
        }
    }

    /// Returns all values as one JSON object.
    pub fn to_value(&self) -> Value {
        group_to_object(&self.root)
    }

    /// Returns every key that has a value, in the order of first appearance.
    pub fn keys(&self) -> Vec<String> {
        let mut found = Vec::new();
        collect_keys(&self.root, "", &mut found);
        found
    }

    fn find_entry(&self, key: &str) -> Option<&MergedEntry> {
        let mut group = &self.root;
        let mut rest = key;
        loop {
            // Names such as those of variables and marketplaces may contain dots themselves.
            if let Some(slot) = group.get(rest) {
                return Some(slot);
            }
            let (below, after) = group.iter().find_map(|(name, slot)| match slot {
                MergedEntry::Group(below) => Some((below, rest.strip_prefix(name.as_str())?.strip_prefix('.')?)),
                MergedEntry::One(_) | MergedEntry::List(_) => None,
            })?;
            (group, rest) = (below, after);
        }
    }
}

fn collect_keys(group: &MergedGroup, above: &str, found: &mut Vec<String>) {
    for (name, slot) in group.iter() {
        let path = if above.is_empty() { name.clone() } else { format!("{above}.{name}") };
        match slot {
            MergedEntry::Group(below) if is_group(&path) => collect_keys(below, &path, found),
            // An empty block.
            MergedEntry::One(one) if is_group(&path) && one.value.as_object().is_some_and(Map::is_empty) => {}
            _ => found.push(path),
        }
    }
}

impl MergedEntry {
    fn to_value(&self) -> Value {
        match self {
            MergedEntry::One(one) => one.value.clone(),
            MergedEntry::List(list) => Value::Array(list.iter().map(|entry| entry.value.clone()).collect()),
            MergedEntry::Group(group) => group_to_object(group),
        }
    }

    fn collect_values(&self, found: &mut Vec<SourcedValue>) {
        match self {
            MergedEntry::One(one) => found.push(one.clone()),
            MergedEntry::List(list) => found.extend(list.iter().cloned()),
            MergedEntry::Group(group) => group.iter().for_each(|(_, slot)| slot.collect_values(found)),
        }
    }
}

fn group_to_object(group: &MergedGroup) -> Value {
    Value::Object(group.iter().map(|(name, slot)| (name.clone(), slot.to_value())).collect::<Map<String, Value>>())
}
