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
    Some((Value::Object(top), note))
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
}
