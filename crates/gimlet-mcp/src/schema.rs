//! Input schemas as providers accept them: one object at the top.

use serde_json::{Map, Value, json};

/// Brings a server's schema into a form that every provider takes, with a sentence for the description where choices at
/// the top had to be folded. `None` when nothing usable is left.
pub(crate) fn fit(schema: &Map<String, Value>) -> Option<(Value, Option<String>)> {
    let mut top = schema.clone();
    match top.get("type") {
        None => {
            top.insert("type".to_owned(), json!("object"));
        }
        Some(Value::String(kind)) if kind == "object" => {}
        Some(_) => return None,
    }
    let mut notes = Vec::new();
    for (key, all) in [("allOf", true), ("anyOf", false), ("oneOf", false)] {
        let Some(branches) = top.shift_remove(key) else { continue };
        let Value::Array(branches) = branches else { return None };
        if !all {
            notes.push(choices(&branches));
        }
        for branch in &branches {
            fold(&mut top, branch, all);
        }
    }
    top.entry("properties").or_insert_with(|| json!({}));
    let note = (!notes.is_empty()).then(|| notes.join(" "));
    let schema = Value::Object(top);
    // Providers hold every request against these, so one bad tool would take all the others with it.
    let usable = has_plain_properties(&schema) && jsonschema::draft202012::meta::is_valid(&schema);
    usable.then_some((schema, note))
}

/// Whether the names of the parameters are such that providers take them.
fn has_plain_properties(schema: &Value) -> bool {
    const LONGEST: usize = 64;
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    let plain = |name: &String| (1..=LONGEST).contains(&name.len()) && name.chars().all(fits);
    schema["properties"].as_object().is_some_and(|properties| properties.keys().all(plain))
}

/// Takes over a branch's properties; what it demands is demanded only if every branch holds.
fn fold(top: &mut Map<String, Value>, branch: &Value, all: bool) {
    let Value::Object(branch) = branch else { return };
    if let Some(Value::Object(properties)) = branch.get("properties") {
        let own = top.entry("properties").or_insert_with(|| json!({}));
        if let Value::Object(own) = own {
            for (name, schema) in properties {
                own.entry(name.clone()).or_insert_with(|| schema.clone());
            }
        }
    }
    if let (true, Some(Value::Array(required))) = (all, branch.get("required")) {
        let own = top.entry("required").or_insert_with(|| json!([]));
        if let Value::Array(own) = own {
            own.extend(required.iter().filter(|name| !own.contains(name)).cloned().collect::<Vec<_>>());
        }
    }
}

fn choices(branches: &[Value]) -> String {
    let one = |branch: &Value| {
        let names: Vec<&str> = branch["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if names.is_empty() { "nothing more".to_owned() } else { names.join(" and ") }
    };
    format!("Give one of: {}.", branches.iter().map(one).collect::<Vec<_>>().join("; or "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fitted(schema: Value) -> Option<(Value, Option<String>)> {
        fit(schema.as_object().unwrap())
    }

    #[test]
    fn choices_at_the_top_are_folded_and_said() {
        let schema = json!({
            "type": "object",
            "properties": {"a": {"type": "string"}},
            "allOf": [{"properties": {"b": {"type": "number"}}, "required": ["b"]}],
            "anyOf": [{"required": ["x"], "properties": {"x": {}}}, {"required": ["y", "z"]}],
        });
        let (schema, note) = fitted(schema).unwrap();
        assert_eq!(
            schema,
            json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "number"}, "x": {}},
                   "required": ["b"]})
        );
        assert_eq!(note.unwrap(), "Give one of: x; or y and z.");
        assert_eq!(fitted(json!({})).unwrap().0, json!({"type": "object", "properties": {}}));
        assert!(fitted(json!({"type": "array"})).is_none());
    }

    #[test]
    fn what_providers_refuse_is_left_out() {
        let property = |name: &str, schema: Value| fitted(json!({"properties": {name: schema}}));
        assert!(property("a.b-c_1", json!({"type": "string"})).is_some());
        for name in ["a b", "$filter", "", "é", &"x".repeat(65)] {
            assert!(property(name, json!({})).is_none(), "{name}");
        }
        for schema in [json!({"type": "text"}), json!({"minimum": "1"}), json!({"required": "x"}), json!(7)] {
            assert!(property("a", schema.clone()).is_none(), "{schema}");
        }
        assert!(fitted(json!({"properties": []})).is_none());
        let dated = json!({"$schema": "http://json-schema.org/draft-07/schema#", "additionalProperties": false});
        assert!(fitted(dated).is_some());
    }
}
