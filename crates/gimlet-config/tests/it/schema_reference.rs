//! The schema of settings is made from the types, so that it cannot say anything else than what is read.

use std::path::Path;

use gimlet_config::{
    KEYS, KeyEffect, KeySource, OTHER_SPELLINGS, ReloadTiming, SettingKey, TrustRequirement, settings_schema,
};
use serde_json::Value;

#[test]
fn the_schema_on_disk_is_the_schema_of_the_types() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/settings.schema.json");
    let wanted = format!("{:#}\n", settings_schema());
    if is_updating_docs() {
        std::fs::write(&page, &wanted).unwrap();
    }
    let found = std::fs::read_to_string(&page).unwrap();
    let how = "UPDATE_DOCS=1 cargo test -p gimlet-config --test it";
    assert!(found == wanted, "docs/settings.schema.json is stale: run {how}");
}

#[test]
fn the_manual_lists_every_key() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/settings.md");
    let found = std::fs::read_to_string(&page).unwrap();
    let (head, rest) = found.split_once("<!-- keys -->\n").unwrap();
    let (_, tail) = rest.split_once("<!-- end of keys -->").unwrap();
    let wanted = format!("{head}<!-- keys -->\n{}<!-- end of keys -->{tail}", key_table());
    if is_updating_docs() {
        std::fs::write(&page, &wanted).unwrap();
    }
    let found = std::fs::read_to_string(&page).unwrap();
    assert!(found == wanted, "docs/settings.md is stale: run UPDATE_DOCS=1 cargo test -p gimlet-config --test it");
}

fn key_table() -> String {
    let schema = settings_schema();
    let mut table = String::from("| Key | Acts | Read from | Live | Trust | Meaning |\n|---|---|---|---|---|---|\n");
    for key in KEYS.iter().filter(|key| key.effect != KeyEffect::Hosted && key.source != KeySource::State) {
        let acts = if key.effect == KeyEffect::Acts { "yes" } else { "not yet" };
        let live = if key.reload == ReloadTiming::Live && key.effect == KeyEffect::Acts { "yes" } else { "" };
        let trust = match key.trust {
            _ if !matches!(key.source, KeySource::Any | KeySource::NotProject) => "",
            TrustRequirement::Free => "",
            TrustRequirement::Grant => "folder",
            TrustRequirement::Executes => "content",
        };
        let from = if key.source == KeySource::Any { "" } else { key.source.words() };
        table.push_str(&format!(
            "| `{}` | {acts} | {from} | {live} | {trust} | {} |\n",
            key.path,
            key_description(&schema, key)
        ));
    }
    let names = |wanted: fn(&SettingKey) -> bool| -> String {
        let names = KEYS.iter().filter(|key| wanted(key)).map(|key| format!("`{}`", key.path));
        names.collect::<Vec<String>>().join(", ")
    };
    table.push_str(&format!(
        "\nRead and checked, without effect, since they belong to hosted services: {}.\n",
        names(|key| key.effect == KeyEffect::Hosted)
    ));
    let state = names(|key| key.source == KeySource::State);
    table.push_str(&format!("\nKept by other programs in `.claude.json`, and ignored in settings files: {state}.\n\n"));
    table
}

/// What the type that holds a key says about it.
fn key_description(schema: &Value, key: &SettingKey) -> String {
    if let Some((_, other)) = OTHER_SPELLINGS.iter().find(|(name, _)| *name == key.path) {
        return format!("The same as `{other}`.");
    }
    let mut at = schema;
    for part in key.path.split('.') {
        let block = at["$ref"].as_str().and_then(|name| schema.pointer(name.strip_prefix('#')?));
        at = &block.unwrap_or(at)["properties"][part];
    }
    let said = at["description"].as_str().unwrap_or_else(|| panic!("{} has no description", key.path));
    let said = said.split(" Checked, without effect").next().unwrap();
    said.split(" Read from ").next().unwrap().replace('\n', " ")
}

#[allow(clippy::disallowed_methods, reason = "a test is told by its caller to rewrite what it checks")]
fn is_updating_docs() -> bool {
    std::env::var_os("UPDATE_DOCS").is_some()
}

#[test]
fn the_table_of_keys_and_the_types_know_the_same_keys() {
    let schema = settings_schema();
    let mut typed = Vec::new();
    collect_keys(&schema, &schema, "", &mut typed);
    typed.retain(|key| key != "$schema");
    let other_spellings = OTHER_SPELLINGS.map(|(other, _)| other);
    let mut listed: Vec<String> = KEYS
        .iter()
        .filter(|key| key.source != KeySource::State && !other_spellings.contains(&key.path))
        .map(|key| key.path.to_owned())
        .collect();
    typed.sort();
    listed.sort();
    assert_eq!(typed, listed);
}

/// The keys of an object, and those of the blocks in it that the table lists one by one.
fn collect_keys(schema: &Value, object: &Value, above: &str, found: &mut Vec<String>) {
    for (name, property) in object["properties"].as_object().unwrap() {
        let path = if above.is_empty() { name.clone() } else { format!("{above}.{name}") };
        let is_group = KEYS.iter().any(|key| key.path.starts_with(&format!("{path}.")));
        let block = property["$ref"].as_str().and_then(|name| schema.pointer(name.strip_prefix('#')?));
        match block {
            Some(block) if is_group => collect_keys(schema, block, &path, found),
            _ => found.push(path),
        }
    }
}
