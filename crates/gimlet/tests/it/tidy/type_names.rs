//! Names that a stranger can search for: a type name is unique in its crate, a module name too, and names of one word are
//! the few that are listed here.

use std::collections::BTreeMap;

use super::source_tree::{SourceFile, SourceTree};

/// Type names of one word that everybody in the field knows, or that are tools. The list only gets shorter: a new type
/// gets a modifier.
const ONE_WORD_TYPES: &[&str] = &[
    "Agent",
    "Approval",
    "Attribution",
    "Bash",
    "Behavior",
    "Block",
    "Clearance",
    "Confinement",
    "Consult",
    "Conversation",
    "Custodian",
    "Damage",
    "Decider",
    "Decision",
    "Denial",
    "Disk",
    "Downgrade",
    "Driver",
    "Edit",
    "Env",
    "Event",
    "Exec",
    "Family",
    "Fault",
    "Gate",
    "Generation",
    "Glob",
    "Grep",
    "Host",
    "Keeper",
    "Look",
    "Marketplace",
    "Mention",
    "Message",
    "Model",
    "Notice",
    "Op",
    "Permit",
    "Read",
    "Recall",
    "Redactor",
    "Refusal",
    "Report",
    "Role",
    "Rule",
    "Sandbox",
    "Scope",
    "Script",
    "Secret",
    "Settings",
    "Shell",
    "Simulation",
    "Skill",
    "Snippet",
    "Task",
    "Tool",
    "Touch",
    "Transcript",
    "Turn",
    "Verdict",
    "View",
    "Word",
    "Write",
];

/// Modules that come once for each member of a family: formats and providers, and bench targets beside what they measure.
const FAMILIES: &[&str] = &["anthropic", "tests"];

#[test]
fn type_names_are_unique_in_their_crate() {
    for (name, files) in definitions(type_names) {
        assert!(files.len() == 1, "{} is defined in {files:?}: give each a name of its own", name.1);
    }
}

#[test]
fn type_names_of_one_word_are_listed_and_the_list_is_not_longer_than_needed() {
    let found: Vec<String> = definitions(type_names).into_keys().map(|(_, name)| name).collect();
    let is_one_word = |name: &str| name.chars().skip(1).all(|c| c.is_ascii_lowercase());
    for name in found.iter().filter(|name| is_one_word(name)) {
        assert!(ONE_WORD_TYPES.contains(&name.as_str()), "{name}: put a modifier before the noun");
    }
    for name in ONE_WORD_TYPES {
        assert!(found.iter().any(|known| known == name), "{name} is gone: take it out of the list");
    }
}

#[test]
fn module_names_are_unique_in_their_crate() {
    for (name, files) in definitions(module_name) {
        let is_family = FAMILIES.contains(&name.1.as_str());
        assert!(files.len() == 1 || is_family, "the module name {} is taken by {files:?}", name.1);
    }
}

/// The files that define each name, by crate and name.
fn definitions(names: fn(&SourceFile) -> Vec<String>) -> BTreeMap<(String, String), Vec<String>> {
    let mut found: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for file in SourceTree::read().rust_files() {
        let Some(of_crate) = file.path.strip_prefix("crates/").and_then(|path| path.split('/').next()) else {
            continue;
        };
        for name in names(file) {
            found.entry((of_crate.to_owned(), name)).or_default().push(file.path.clone());
        }
    }
    found
}

fn type_names(file: &SourceFile) -> Vec<String> {
    let mut names = Vec::new();
    for line in file.text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = usize::from(words.first().is_some_and(|word| *word == "pub" || word.starts_with("pub(")));
        if let [kind, name, ..] = words.get(at..).unwrap_or_default()
            && ["struct", "enum", "trait", "union"].contains(kind)
        {
            let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let name: String = name.chars().take_while(|c| is_part(*c)).collect();
            // Indented ones inside macros and texts of tests are not types of the crate.
            if name.starts_with(|c: char| c.is_ascii_uppercase()) && !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

/// The module that a file is; targets of their own, such as benches, are none.
fn module_name(file: &SourceFile) -> Vec<String> {
    let stem = file.path.rsplit('/').next().and_then(|name| name.strip_suffix(".rs")).unwrap_or_default();
    let is_target = ["lib", "main", "build"].contains(&stem) || file.path.contains("/benches/");
    if is_target { Vec::new() } else { vec![stem.to_owned()] }
}
