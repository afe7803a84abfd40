//! Input schemas in the form that providers accept (one object at the top), and validation of inputs for servers.

use std::sync::OnceLock;

use gimlet_core::tool::{coerce_input, schema_problems};
use jsonschema::Validator;
use serde_json::{Map, Value, json};

use crate::schema_cost::{has_only_local_refs, is_cheap_to_validate};
use crate::server_text;

/// Maximum size of a schema as sent. Schemas are part of every request, so a larger one excludes its tool.
const MAX_SCHEMA: usize = 64 << 10;

/// Input schema of a tool.
pub(crate) struct InputSchema {
    /// Schema in the form that every provider accepts.
    pub(crate) provider_schema: Value,
    /// Size of that schema in bytes.
    pub(crate) size: usize,
    /// Note for the description where alternatives at the top had to be folded.
    pub(crate) note: Option<String>,
    /// The server's own schema. Unknown top-level properties are allowed here and left to the server to judge.
    server_schema: Value,
    /// True if the cost of validating against the server's schema can be computed.
    has_only_local_refs: bool,
    /// Validator, built at the first call; `None` if it cannot be built.
    validator: OnceLock<Option<Validator>>,
}

impl InputSchema {
    /// Parses a server's schema; returns the reason if it cannot be sent.
    pub(crate) fn parse(schema: &Map<String, Value>) -> Result<Self, &'static str> {
        let (shown, note) = normalize_schema(&server_text::sanitize_schema(schema))
            .ok_or("models would not take the schema of its input")?;
        let size = shown.to_string().len();
        if size > MAX_SCHEMA {
            return Err("the schema of its input has more than 64 KB");
        }
        let mut own = schema.clone();
        if own.get("additionalProperties") == Some(&Value::Bool(false)) {
            own.shift_remove("additionalProperties");
        }
        let plain = has_only_local_refs(&own);
        Ok(Self {
            provider_schema: shown,
            size,
            note,
            server_schema: Value::Object(own),
            has_only_local_refs: plain,
            validator: OnceLock::new(),
        })
    }

    /// Returns the input if it is valid, or its unambiguous correction; returns the problems if neither is valid. If
    /// the schema is unusable or too costly to validate, the server decides.
    pub(crate) fn validate_input(&self, input: Map<String, Value>) -> Result<Map<String, Value>, String> {
        let given = Value::Object(input.clone());
        if !self.has_only_local_refs || !is_cheap_to_validate(&self.server_schema, &given) {
            return Ok(input);
        }
        let build = || jsonschema::options().should_validate_formats(false).build(&self.server_schema).ok();
        let Some(validator) = self.validator.get_or_init(build) else { return Ok(input) };
        if validator.is_valid(&given) {
            return Ok(input);
        }
        let mut meant = input;
        coerce_input(&self.provider_schema, &[], &mut meant);
        // A string that holds JSON becomes the value it holds.
        let better = Value::Object(meant.clone());
        if is_cheap_to_validate(&self.server_schema, &better) && validator.is_valid(&better) {
            return Ok(meant);
        }
        // The problems quote the schema, which is server text.
        Err(server_text::sanitize_data(&schema_problems(validator, &given).join("\n")))
    }
}

/// Normalises a server's schema to a form that every provider accepts, with a note for the description where
/// alternatives at the top had to be folded. `None` when nothing usable is left.
fn normalize_schema(schema: &Map<String, Value>) -> Option<(Value, Option<String>)> {
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
            notes.push(describe_choices(&branches));
        }
        for branch in &branches {
            fold_branch(&mut top, branch, all);
        }
    }
    top.entry("properties").or_insert_with(|| json!({}));
    let note = (!notes.is_empty()).then(|| notes.join(" "));
    let schema = Value::Object(top);
    // Providers validate these in every request, so one bad tool would fail all the others.
    let usable = has_valid_property_names(&schema) && jsonschema::draft202012::meta::is_valid(&schema);
    usable.then_some((schema, note))
}

/// Returns true if providers accept the names of the parameters.
fn has_valid_property_names(schema: &Value) -> bool {
    const LONGEST: usize = 64;
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    let plain = |name: &String| (1..=LONGEST).contains(&name.len()) && name.chars().all(fits);
    schema["properties"].as_object().is_some_and(|properties| properties.keys().all(plain))
}

/// Merges a branch's properties; its required properties stay required only if every branch applies.
fn fold_branch(top: &mut Map<String, Value>, branch: &Value, all: bool) {
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

fn describe_choices(branches: &[Value]) -> String {
    let one = |branch: &Value| {
        let names: Vec<&str> = branch["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if names.is_empty() { "nothing more".to_owned() } else { names.join(" and ") }
    };
    format!("Give one of: {}.", branches.iter().map(one).collect::<Vec<_>>().join("; or "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normalize(schema: Value) -> Option<(Value, Option<String>)> {
        normalize_schema(schema.as_object().unwrap())
    }

    #[test]
    fn choices_at_the_top_are_folded_and_said() {
        let schema = json!({
            "type": "object",
            "properties": {"a": {"type": "string"}},
            "allOf": [{"properties": {"b": {"type": "number"}}, "required": ["b"]}],
            "anyOf": [{"required": ["x"], "properties": {"x": {}}}, {"required": ["y", "z"]}],
        });
        let (schema, note) = normalize(schema).unwrap();
        assert_eq!(
            schema,
            json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "number"}, "x": {}},
                   "required": ["b"]})
        );
        assert_eq!(note.unwrap(), "Give one of: x; or y and z.");
        assert_eq!(normalize(json!({})).unwrap().0, json!({"type": "object", "properties": {}}));
        assert!(normalize(json!({"type": "array"})).is_none());
    }

    #[test]
    fn an_input_is_taken_as_it_is_or_as_it_is_meant_or_not_at_all() {
        let check = |schema: &Value, input: Value| {
            let form = InputSchema::parse(schema.as_object().unwrap()).unwrap();
            form.validate_input(input.as_object().unwrap().clone()).map(Value::Object)
        };
        let schema = json!({"type": "object", "required": ["a"], "additionalProperties": false, "properties": {
            "a": {"type": "number"}, "on": {"type": "boolean"}, "list": {"type": "array", "items": {"type": "integer"}},
            "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]}, "none": {"type": ["string", "null"]}}});
        for input in [json!({"a": 5}), json!({"a": 5, "more": 1}), json!({"a": 1, "either": "5", "none": null})] {
            assert_eq!(check(&schema, input.clone()).unwrap(), input);
        }
        let (loose, meant) = (json!({"a": "5", "on": "true", "list": "[1]"}), json!({"a": 5, "on": true, "list": [1]}));
        assert_eq!(check(&schema, loose).unwrap(), meant);
        for (input, words) in
            [(json!({"b": 1}), "\"a\""), (json!({"a": "five"}), "at /a"), (json!({"a": {}}), "number")]
        {
            let problem = check(&schema, input).unwrap_err();
            assert!(problem.contains(words), "{problem}");
        }
        // The validator still distinguishes the branches that were folded for the model: each has its own constant.
        let branch = |word: &str| json!({"properties": {"kind": {"const": word}}});
        let schema = json!({"type": "object", "anyOf": [branch("x"), branch("y")]});
        assert!(check(&schema, json!({"kind": "y"})).is_ok() && check(&schema, json!({"kind": "z"})).is_err());
        for (a, b) in [
            (json!({"$ref": "#/$defs/B"}), json!({"$ref": "#/$defs/A"})),
            (json!({"allOf": [{"$ref": "#/$defs/B"}]}), json!({"anyOf": [{"$ref": "#/$defs/A"}]})),
        ] {
            let circle = json!({"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": a, "B": b}});
            assert!(check(&circle, json!({"a": 1})).is_ok(), "a circle says nothing");
        }
        // Validating an input against this schema never ends.
        let level = |at: usize| {
            let next = json!({"$ref": format!("#/$defs/a{}", at + 1)});
            (format!("a{at}"), json!({"anyOf": [next, next]}))
        };
        let mut defs: Map<String, Value> = (0..60).map(level).collect();
        defs.insert("a60".to_owned(), json!({"type": "number"}));
        let endless = json!({"properties": {"x": {"$ref": "#/$defs/a0"}}, "$defs": defs});
        assert!(check(&endless, json!({"x": "no"})).is_ok());
        // The target of this reference is unknown.
        let schema = json!({"properties": {"a": {"$ref": "https://example.com/a.json"}}});
        assert!(check(&schema, json!({"a": 1})).is_ok());
    }

    #[test]
    fn a_schema_that_fills_the_prompt_keeps_its_tool_out() {
        let form = |count: usize| {
            let properties: Map<String, Value> =
                (0..count).map(|at| (format!("p{at}"), json!({"description": "x".repeat(1_000)}))).collect();
            InputSchema::parse(json!({"properties": properties}).as_object().unwrap()).err()
        };
        assert_eq!(form(50), None);
        assert!(form(70).unwrap().contains("64 KB"));
        // Text that is cut anyway does not count.
        let long = json!({"properties": {"a": {"description": "x".repeat(1_000_000)}}});
        assert!(InputSchema::parse(long.as_object().unwrap()).is_ok());
    }

    #[test]
    fn what_providers_refuse_is_left_out() {
        let property = |name: &str, schema: Value| normalize(json!({"properties": {name: schema}}));
        assert!(property("a.b-c_1", json!({"type": "string"})).is_some());
        for name in ["a b", "$filter", "", "é", &"x".repeat(65)] {
            assert!(property(name, json!({})).is_none(), "{name}");
        }
        for schema in [json!({"type": "text"}), json!({"minimum": "1"}), json!({"required": "x"}), json!(7)] {
            assert!(property("a", schema.clone()).is_none(), "{schema}");
        }
        assert!(normalize(json!({"properties": []})).is_none());
        let dated = json!({"$schema": "http://json-schema.org/draft-07/schema#", "additionalProperties": false});
        assert!(normalize(dated).is_some());
    }
}
