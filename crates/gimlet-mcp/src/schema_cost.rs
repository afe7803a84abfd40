//! Cost of validating an input against a schema. A short schema can expand exponentially: each part may reference
//! another one twice.

use serde_json::{Map, Value};

/// Budget of schema parts visited for one input: far more than needed in practice, and still fast.
const MOST_PARTS: usize = 100_000;
/// Maximum nesting of schema parts; a reference cycle has no end.
const DEEPEST: usize = 512;

/// Returns true if all references of a schema can be resolved from its top: it has no anchors, and no part of it has an
/// id of its own.
pub(crate) fn has_only_local_refs(schema: &Map<String, Value>) -> bool {
    let draft = schema.get("$schema").and_then(Value::as_str).unwrap_or_default();
    let ids: &[&str] = if draft.contains("draft-04") { &["$id", "id"] } else { &["$id"] };
    schema
        .iter()
        .all(|(key, value)| ids.contains(&key.as_str()) || (!is_anchor(key, value, ids) && has_no_anchor(value, ids)))
}

fn has_no_anchor(value: &Value, ids: &[&str]) -> bool {
    match value {
        Value::Object(members) => {
            members.iter().all(|(key, value)| !is_anchor(key, value, ids) && has_no_anchor(value, ids))
        }
        Value::Array(items) => items.iter().all(|item| has_no_anchor(item, ids)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

fn is_anchor(key: &str, value: &Value, ids: &[&str]) -> bool {
    let place = ["$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveAnchor", "$recursiveRef"].contains(&key);
    (place || ids.contains(&key)) && (value.is_string() || value.is_boolean())
}

/// Returns true if validating an input against a schema stays within the budget.
pub(crate) fn is_cheap_to_validate(schema: &Value, input: &Value) -> bool {
    SchemaWalk { top: schema, left: MOST_PARTS }.visit(schema, input, 0).is_some()
}

struct SchemaWalk<'a> {
    top: &'a Value,
    left: usize,
}

impl SchemaWalk<'_> {
    /// Visits the parts that a validator may visit; `None` when the budget is used up.
    fn visit(&mut self, schema: &Value, value: &Value, depth: usize) -> Option<()> {
        let Value::Object(schema) = schema else { return self.spend_budget(1) };
        if depth > DEEPEST {
            return None;
        }
        let choices = schema.get("enum").and_then(Value::as_array).map_or(0, Vec::len);
        self.spend_budget(1 + choices)?;
        // Unevaluated members are known only after everything beside them is evaluated once more.
        let again = schema.contains_key("unevaluatedProperties") || schema.contains_key("unevaluatedItems");
        for _ in 0..=usize::from(again) {
            self.visit_applicators(schema, value, depth + 1)?;
        }
        match value {
            Value::Object(members) => self.visit_members(schema, members, depth + 1),
            Value::Array(items) => self.visit_items(schema, items, depth + 1),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Some(()),
        }
    }

    /// Visits the subschemas that apply to the value itself.
    fn visit_applicators(&mut self, schema: &Map<String, Value>, value: &Value, depth: usize) -> Option<()> {
        if let Some(named) = schema.get("$ref") {
            let top = self.top;
            self.visit(top.pointer(named.as_str()?.strip_prefix('#')?)?, value, depth)?;
        }
        for key in ["allOf", "anyOf", "oneOf"] {
            for part in schema.get(key).and_then(Value::as_array).into_iter().flatten() {
                self.visit(part, value, depth)?;
            }
        }
        for key in ["not", "if", "then", "else"] {
            schema.get(key).map_or(Some(()), |part| self.visit(part, value, depth))?;
        }
        for key in ["dependentSchemas", "dependencies"] {
            for part in schema.get(key).and_then(Value::as_object).into_iter().flat_map(Map::values) {
                self.visit(part, value, depth)?;
            }
        }
        Some(())
    }

    fn visit_members(&mut self, schema: &Map<String, Value>, members: &Map<String, Value>, depth: usize) -> Option<()> {
        let properties = schema.get("properties").and_then(Value::as_object);
        let patterns = || schema.get("patternProperties").and_then(Value::as_object).into_iter().flat_map(Map::values);
        for (key, value) in members {
            properties.and_then(|all| all.get(key)).map_or(Some(()), |part| self.visit(part, value, depth))?;
            for part in patterns() {
                self.visit(part, value, depth)?;
            }
            for key in ["additionalProperties", "unevaluatedProperties"] {
                schema.get(key).map_or(Some(()), |part| self.visit(part, value, depth))?;
            }
            schema.get("propertyNames").map_or(Some(()), |part| self.visit(part, &Value::Null, depth))?;
        }
        Some(())
    }

    fn visit_items(&mut self, schema: &Map<String, Value>, items: &[Value], depth: usize) -> Option<()> {
        for (at, value) in items.iter().enumerate() {
            for key in ["items", "prefixItems"] {
                let part = match schema.get(key) {
                    Some(Value::Array(parts)) => parts.get(at),
                    part => part,
                };
                part.map_or(Some(()), |part| self.visit(part, value, depth))?;
            }
            for key in ["additionalItems", "unevaluatedItems", "contains"] {
                schema.get(key).map_or(Some(()), |part| self.visit(part, value, depth))?;
            }
        }
        Some(())
    }

    fn spend_budget(&mut self, parts: usize) -> Option<()> {
        self.left = self.left.checked_sub(parts)?;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Nests a number schema in so many levels, each with two paths to the next.
    fn nested_schema(levels: usize, wrap: impl Fn(Value) -> Value) -> Value {
        let level = |at: usize| wrap(json!({"$ref": format!("#/$defs/a{}", at + 1)}));
        let mut defs: Map<String, Value> = (0..levels).map(|at| (format!("a{at}"), level(at))).collect();
        defs.insert(format!("a{levels}"), json!({"type": "number"}));
        json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/a0"}}, "$defs": defs})
    }

    #[test]
    fn exponential_schemas_are_rejected_before_validation() {
        let wraps: [fn(Value) -> Value; 5] = [
            |next| json!({"anyOf": [next, next]}),
            |next| json!({"allOf": [next], "oneOf": [next]}),
            |next| json!({"not": next, "if": next}),
            |next| json!({"dependentSchemas": {"k": next}, "allOf": [next]}),
            |next| json!({"allOf": [next], "unevaluatedProperties": false}),
        ];
        for wrap in wraps {
            let input = json!({"x": "no"});
            assert!(is_cheap_to_validate(&nested_schema(5, wrap), &input), "{}", wrap(json!(1)));
            assert!(!is_cheap_to_validate(&nested_schema(60, wrap), &input), "{}", wrap(json!(1)));
            assert!(is_cheap_to_validate(&nested_schema(60, wrap), &json!({"y": "no"})), "nothing there is looked at");
        }
        // A recursive schema, expanded along an input that the server asked for.
        let tree = json!({"$ref": "#/$defs/t", "$defs": {"t": {"properties": {"c": {"anyOf": [
            {"$ref": "#/$defs/t"}, {"$ref": "#/$defs/t"}]}}}}});
        let deep = |levels: usize| (0..levels).fold(json!({}), |inner, _| json!({"c": inner}));
        assert!(is_cheap_to_validate(&tree, &deep(8)) && !is_cheap_to_validate(&tree, &deep(60)));
        let list = json!({"items": {"properties": {"a": {"type": "string"}}}});
        let items = |count: usize| -> Value { (0..count).map(|at| json!({"a": at.to_string()})).collect() };
        assert!(is_cheap_to_validate(&list, &items(10_000)) && !is_cheap_to_validate(&list, &items(100_000)));
    }

    #[test]
    fn cycles_and_anchors_are_not_followed() {
        let circle = json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}});
        assert!(!is_cheap_to_validate(&circle, &json!(1)));
        assert!(!is_cheap_to_validate(&json!({"$ref": "https://example.com/a.json"}), &json!(1)));
        let plain = |schema: Value| has_only_local_refs(schema.as_object().unwrap());
        assert!(plain(json!({"$id": "https://example.com/a", "properties": {"id": {"const": "x"}, "$id": {}}})));
        assert!(plain(json!({"examples": [{"id": "x"}]})));
        for schema in [
            json!({"$defs": {"a": {"$anchor": "a"}}}),
            json!({"$dynamicAnchor": "top"}),
            json!({"anyOf": [{"$defs": {"b": {"$id": "b"}}}]}),
            json!({"properties": {"a": {"$dynamicRef": "#a"}}}),
            json!({"$schema": "http://json-schema.org/draft-04/schema#", "definitions": {"a": {"id": "#a"}}}),
        ] {
            assert!(!plain(schema.clone()), "{schema}");
        }
    }
}
