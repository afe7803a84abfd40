//! JSON Schema of a settings file, for editors. It is generated from the types that read the file.

use serde_json::{Map, Value, json};

use crate::setting_keys::{self, KeyEffect, KeySource};
use crate::settings::{HostedSettings, Settings};

/// Returns the schema of a settings file. Keys that it does not name are allowed: files are shared with other
/// programs.
pub fn settings_schema() -> Value {
    let mut schema = schemars::schema_for!(Settings).to_value();
    let hosted = schemars::schema_for!(HostedSettings).to_value();
    merge_section(&mut schema, &hosted, "$defs");
    merge_section(&mut schema, &hosted, "properties");
    // Of one block, a part belongs to hosted services.
    let session_url = json!({ "type": "boolean" });
    if let Some(attribution) = schema.pointer_mut("/$defs/Attribution/properties") {
        attribution["sessionUrl"] = session_url;
    }
    schema["title"] = "Settings of gimlet".into();
    schema["description"] =
        "A settings file: ~/.claude/settings.json, .claude/settings.json, .claude/settings.local.json".into();
    simplify_schema(&mut schema);
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.insert("$schema".into(), json!({ "type": "string" }));
        for (name, property) in properties {
            describe_key(name, property);
        }
    }
    schema
}

fn merge_section(schema: &mut Value, more: &Value, part: &str) {
    let Some(more) = more.get(part).and_then(Value::as_object) else { return };
    let Some(own) = schema.get_mut(part).and_then(Value::as_object_mut) else { return };
    for (name, value) in more {
        if !own.contains_key(name) && name != "HostedAttribution" {
            own.insert(name.clone(), value.clone());
        }
    }
}

/// Adds the files that a key is read from to its description, unless it is read from all.
fn describe_key(name: &str, property: &mut Value) {
    let Some(key) = setting_keys::find_key(name) else { return };
    let mut words: Vec<String> =
        property.get("description").and_then(Value::as_str).map(str::to_owned).into_iter().collect();
    if key.source != KeySource::Any {
        words.push(format!("Read from {}.", key.source.words()));
    }
    match key.effect {
        KeyEffect::Acts => {}
        KeyEffect::NotYet => words.push("Checked, without effect yet.".into()),
        KeyEffect::Hosted => words.push("Belongs to a hosted service: checked, without effect.".into()),
    }
    if let Some(property) = property.as_object_mut()
        && !words.is_empty()
    {
        property.insert("description".into(), words.join(" ").into());
    }
}

/// Removes what comes from optional types: defaults, `null`, and formats that editors do not know.
fn simplify_schema(value: &mut Value) {
    match value {
        Value::Object(members) => {
            if members.contains_key("type") || members.contains_key("$ref") || members.contains_key("anyOf") {
                members.remove("default");
                members.remove("format");
            }
            remove_null_type(members);
            members.values_mut().for_each(simplify_schema);
        }
        Value::Array(values) => values.iter_mut().for_each(simplify_schema),
        _ => {}
    }
}

fn remove_null_type(schema: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(choices)) = schema.get_mut("anyOf") {
        choices.retain(|choice| choice.get("type").is_none_or(|kind| kind != "null"));
        if let [Value::Object(only)] = choices.as_slice() {
            let only = only.clone();
            schema.remove("anyOf");
            schema.extend(only);
        }
    }
}
