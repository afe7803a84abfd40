//! The schema of settings is made from the types, so that it cannot say anything else than what is read.

use std::path::Path;

use gimlet_config::{KEYS, ReadFrom, settings_schema};
use serde_json::Value;

#[test]
fn the_schema_on_disk_is_the_schema_of_the_types() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/settings.schema.json");
    let wanted = format!("{:#}\n", settings_schema());
    if updating() {
        std::fs::write(&page, &wanted).unwrap();
    }
    let found = std::fs::read_to_string(&page).unwrap();
    let how = "UPDATE_DOCS=1 cargo test -p gimlet-config --test it";
    assert!(found == wanted, "docs/settings.schema.json is stale: run {how}");
}

#[allow(clippy::disallowed_methods, reason = "a test is told by its caller to rewrite what it checks")]
fn updating() -> bool {
    std::env::var_os("UPDATE_DOCS").is_some()
}

#[test]
fn the_table_of_keys_and_the_types_know_the_same_keys() {
    let schema = settings_schema();
    let mut typed = Vec::new();
    collect(&schema, &schema, "", &mut typed);
    typed.retain(|key| key != "$schema");
    let other_spellings = ["additionalMarketplaces", "allowedMarketplaces"];
    let mut listed: Vec<String> = KEYS
        .iter()
        .filter(|key| key.from != ReadFrom::State && !other_spellings.contains(&key.path))
        .map(|key| key.path.to_owned())
        .collect();
    typed.sort();
    listed.sort();
    assert_eq!(typed, listed);
}

/// The keys of an object, and those of the blocks in it that the table lists one by one.
fn collect(schema: &Value, object: &Value, above: &str, found: &mut Vec<String>) {
    for (name, property) in object["properties"].as_object().unwrap() {
        let path = if above.is_empty() { name.clone() } else { format!("{above}.{name}") };
        let is_group = KEYS.iter().any(|key| key.path.starts_with(&format!("{path}.")));
        let block = property["$ref"].as_str().and_then(|name| schema.pointer(name.strip_prefix('#')?));
        match block.filter(|_| is_group) {
            Some(block) => collect(schema, block, &path, found),
            None => found.push(path),
        }
    }
}
