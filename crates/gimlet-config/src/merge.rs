//! Many files, one answer: the strongest file that says something wins, key by key; lists add up. Every value
//! remembers which file and line it came from.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::json::{Json, Node};
use crate::keys::is_group;
use crate::load::Layer;
use crate::scope::Scope;

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Origin {
    pub scope: Scope,
    pub file: PathBuf,
    pub line: usize,
}

/// A value and where it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Sourced {
    pub value: Value,
    pub origin: Origin,
}

/// The settings of all files together.
#[derive(Clone, Debug, Default)]
pub struct Merged {
    root: Group,
}

/// Keys in the order in which they were first said. Open maps, such as that of variables, may have thousands.
#[derive(Clone, Debug, Default)]
struct Group {
    members: Vec<(String, Slot)>,
    places: HashMap<String, usize>,
}

impl Group {
    fn get(&self, key: &str) -> Option<&Slot> {
        self.places.get(key).map(|at| &self.members[*at].1)
    }

    fn get_mut(&mut self, key: &str) -> Option<&mut Slot> {
        self.places.get(key).map(|at| &mut self.members[*at].1)
    }

    /// A key that is not there yet.
    fn push(&mut self, key: &str, slot: Slot) {
        self.places.insert(key.to_owned(), self.members.len());
        self.members.push((key.to_owned(), slot));
    }

    /// Puts a value at the end, wherever the key stood before.
    fn put_last(&mut self, key: &str, slot: Slot) {
        self.members.retain(|(name, _)| name != key);
        self.places = self.members.iter().enumerate().map(|(at, (name, _))| (name.clone(), at)).collect();
        self.push(key, slot);
    }

    fn iter(&self) -> std::slice::Iter<'_, (String, Slot)> {
        self.members.iter()
    }
}

/// One key's part of the answer.
#[derive(Clone, Debug)]
enum Slot {
    One(Sourced),
    List(Vec<Sourced>),
    Group(Group),
}

/// How a key's values of several files become one, where it is not the usual way.
fn is_taken_whole(path: &str) -> bool {
    matches!(path, "fallbackModel" | "spellcheck") || path.starts_with("extraKnownMarketplaces.")
}

/// A value that beats those of stronger files.
enum Sticky {
    Switch(bool),
    Text(&'static str),
}

impl Sticky {
    fn is(&self, node: &Node) -> bool {
        match self {
            Sticky::Switch(wanted) => node.json == Json::Bool(*wanted),
            Sticky::Text(wanted) => node.as_str() == Some(wanted),
        }
    }
}

/// Values that hold as soon as one of these scopes says them, whatever a stronger one says; of one key, the last.
const STICKY: [(&str, Sticky, &[Scope]); 8] = [
    ("disableClaudeAiConnectors", Sticky::Switch(true), &Scope::ALL),
    ("isolatePeerMachines", Sticky::Switch(true), &Scope::ALL),
    ("remoteControlAtStartup", Sticky::Switch(false), &[Scope::Project, Scope::Local]),
    ("crossSessionInbound", Sticky::Text("hold"), &[Scope::Project, Scope::Local]),
    ("crossSessionInbound", Sticky::Text("refuse"), &[Scope::Project, Scope::Local]),
    ("useAutoModeDuringPlan", Sticky::Switch(false), &[Scope::User, Scope::Local, Scope::Flag, Scope::Managed]),
    ("syncClaudeAiSkills", Sticky::Switch(false), &[Scope::User, Scope::Local, Scope::Flag, Scope::Managed]),
    ("disableSkillShellExecution", Sticky::Switch(true), &[Scope::Managed]),
];

/// Puts the layers together, the weakest first.
pub(crate) fn merge(layers: &[Layer]) -> Merged {
    let mut merged = Merged::default();
    for layer in layers {
        for member in layer.root.members() {
            put(&mut merged.root, "", &member.key, &member.value, layer);
        }
    }
    for (key, sticky, scopes) in STICKY {
        for layer in layers.iter().filter(|layer| scopes.contains(&layer.scope)) {
            let said = layer.root.get(key).filter(|node| sticky.is(node));
            // The administrator's own word can be stricter still.
            let refused = merged.get(key).is_some_and(|now| now == "refuse");
            if let Some(node) = said.filter(|_| !refused) {
                merged.root.put_last(key, Slot::One(sourced(node, layer)));
            }
        }
    }
    merged
}

fn put(group: &mut Group, above: &str, key: &str, node: &Node, layer: &Layer) {
    let path = if above.is_empty() { key.to_owned() } else { format!("{above}.{key}") };
    let replaces = is_taken_whole(&path)
        || (path == "availableModels" && layer.scope == Scope::Managed && group.get(key).is_some_and(is_of_others));
    match (&node.json, group.get_mut(key)) {
        (Json::Object(members), Some(Slot::Group(below))) if !replaces => {
            for member in members {
                put(below, &path, &member.key, &member.value, layer);
            }
        }
        (Json::Array(elements), Some(Slot::List(list))) if !replaces => {
            let mut known: HashSet<String> = list.iter().map(|entry| entry.value.to_string()).collect();
            for element in elements {
                let entry = sourced(element, layer);
                if known.insert(entry.value.to_string()) {
                    list.push(entry);
                }
            }
        }
        (_, current) => {
            let slot = slot(&path, node, layer);
            match current {
                Some(current) => *current = slot,
                None => group.push(key, slot),
            }
        }
    }
}

/// Whether something in it is not the administrator's: their own files add up.
fn is_of_others(slot: &Slot) -> bool {
    match slot {
        Slot::List(entries) => entries.iter().any(|entry| entry.origin.scope != Scope::Managed),
        Slot::One(one) => one.origin.scope != Scope::Managed,
        Slot::Group(_) => true,
    }
}

fn slot(path: &str, node: &Node, layer: &Layer) -> Slot {
    match &node.json {
        Json::Object(members) if !is_taken_whole(path) && !members.is_empty() => {
            let mut below = Group::default();
            for member in members {
                put(&mut below, path, &member.key, &member.value, layer);
            }
            Slot::Group(below)
        }
        Json::Array(elements) => {
            // Starts as an empty list so that repeated entries of one file count once too.
            let mut known = HashSet::new();
            let entries = elements.iter().map(|element| sourced(element, layer));
            Slot::List(entries.filter(|entry| known.insert(entry.value.to_string())).collect())
        }
        _ => Slot::One(sourced(node, layer)),
    }
}

fn sourced(node: &Node, layer: &Layer) -> Sourced {
    let origin = Origin { scope: layer.scope, file: layer.file.clone(), line: layer.line(node) };
    Sourced { value: node.to_value(), origin }
}

impl Merged {
    /// The value that a key has, with dots between the parts of its name.
    pub fn get(&self, key: &str) -> Option<Value> {
        self.find(key).map(Slot::value)
    }

    /// Where the parts of a key's value were written.
    pub fn origins(&self, key: &str) -> Vec<Sourced> {
        let mut found = Vec::new();
        if let Some(slot) = self.find(key) {
            slot.collect(&mut found);
        }
        found
    }

    /// The entries of a list, each with its place; one entry for a value that is no list.
    pub fn entries(&self, key: &str) -> &[Sourced] {
        match self.find(key) {
            Some(Slot::List(entries)) => entries,
            Some(Slot::One(one)) => std::slice::from_ref(one),
            _ => &[],
        }
    }

    /// Everything, as one JSON object.
    pub fn value(&self) -> Value {
        object(&self.root)
    }

    /// Every key that has a value, in the order in which they were first said.
    pub fn keys(&self) -> Vec<String> {
        let mut found = Vec::new();
        names(&self.root, "", &mut found);
        found
    }

    fn find(&self, key: &str) -> Option<&Slot> {
        let mut group = &self.root;
        let mut rest = key;
        loop {
            // Names such as those of variables and marketplaces may contain dots themselves.
            if let Some(slot) = group.get(rest) {
                return Some(slot);
            }
            let (below, after) = group.iter().find_map(|(name, slot)| match slot {
                Slot::Group(below) => Some((below, rest.strip_prefix(name.as_str())?.strip_prefix('.')?)),
                Slot::One(_) | Slot::List(_) => None,
            })?;
            (group, rest) = (below, after);
        }
    }
}

fn names(group: &Group, above: &str, found: &mut Vec<String>) {
    for (name, slot) in group.iter() {
        let path = if above.is_empty() { name.clone() } else { format!("{above}.{name}") };
        match slot {
            Slot::Group(below) if is_group(&path) => names(below, &path, found),
            // A block that says nothing.
            Slot::One(one) if is_group(&path) && one.value.as_object().is_some_and(Map::is_empty) => {}
            _ => found.push(path),
        }
    }
}

impl Slot {
    fn value(&self) -> Value {
        match self {
            Slot::One(one) => one.value.clone(),
            Slot::List(list) => Value::Array(list.iter().map(|entry| entry.value.clone()).collect()),
            Slot::Group(group) => object(group),
        }
    }

    fn collect(&self, found: &mut Vec<Sourced>) {
        match self {
            Slot::One(one) => found.push(one.clone()),
            Slot::List(list) => found.extend(list.iter().cloned()),
            Slot::Group(group) => group.iter().for_each(|(_, slot)| slot.collect(found)),
        }
    }
}

fn object(group: &Group) -> Value {
    Value::Object(group.iter().map(|(name, slot)| (name.clone(), slot.value())).collect::<Map<String, Value>>())
}
