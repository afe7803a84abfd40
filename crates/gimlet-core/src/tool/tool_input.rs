//! Conversion of the model's raw input to a typed input: repair, coerce, then check against the schema with every
//! problem listed.

use jsonschema::{ValidationError, Validator};
use serde_json::{Map, Number, Value};

/// Maximum number of reported problems per value.
const MOST_PROBLEMS: usize = 10;
/// Maximum number of references and choices followed in a schema: some are circular.
const MOST_STEPS: u32 = 32;

/// A tool's own rejection of an input, with a code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputProblem {
    pub code: u32,
    pub message: String,
}

impl InputProblem {
    pub fn new(code: u32, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

/// One problem of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaProblem(pub String);

/// Returns the problems of a value under an external schema, one line each.
pub fn schema_problems(validator: &Validator, value: &Value) -> Vec<String> {
    let problem = |error: ValidationError<'_>| match error.instance_path().as_str() {
        "" => format!("- {error}"),
        path => format!("- at {path}: {error}"),
    };
    validator.iter_errors(value).take(MOST_PROBLEMS).map(problem).collect()
}

/// Repairs and coerces `input` towards `schema`, then returns everything that still does not fit.
///
/// Lenient where the model's intent is clear (`"10"` for 10, `"true"` for true, `null` for an absent optional field),
/// strict everywhere else: an unknown key is a problem, never dropped.
pub fn coerce_input(schema: &Value, repairs: &[(&str, &str)], input: &mut Map<String, Value>) -> Vec<SchemaProblem> {
    for (wrong, right) in repairs {
        rename_key(input, wrong, right);
    }
    let mut problems = Vec::new();
    fit_object(schema, schema, input, "", &mut problems);
    problems
}

/// Renames a misspelt key. A key inside a list of objects is written `list[].wrong`.
fn rename_key(input: &mut Map<String, Value>, wrong: &str, right: &str) {
    if let Some((list, wrong)) = wrong.split_once("[].") {
        let items = input.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        items.filter_map(Value::as_object_mut).for_each(|item| rename_key(item, wrong, right));
    } else if !input.contains_key(right)
        && let Some(value) = input.remove(wrong)
    {
        input.insert(right.to_owned(), value);
    }
}

fn fit_object(
    root: &Value,
    schema: &Value,
    input: &mut Map<String, Value>,
    at: &str,
    problems: &mut Vec<SchemaProblem>,
) {
    let none = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
    let required: Vec<&str> =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    input.retain(|key, value| !(value.is_null() && properties.contains_key(key) && !required.contains(&key.as_str())));
    for key in &required {
        if !input.contains_key(*key) {
            let kind = properties.get(*key).map(|property| describe_expected(root, property)).unwrap_or_default();
            problems.push(SchemaProblem(format!(
                "the required parameter `{}` is missing (expected {kind})",
                join_path(at, key)
            )));
        }
    }
    let closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
    for (key, value) in input.iter_mut() {
        match properties.get(key) {
            Some(property) => fit_value(root, property, value, &join_path(at, key), problems),
            None if closed => {
                let names = properties.keys().map(String::as_str);
                let hint = match super::nearest_name(key, names) {
                    Some(name) => format!("did you mean `{name}`?"),
                    None if properties.is_empty() => "there are none here".to_owned(),
                    None => {
                        let all: Vec<&str> = properties.keys().map(String::as_str).collect();
                        format!("known parameters: {}", all.join(", "))
                    }
                };
                problems.push(SchemaProblem(format!(
                    "an unexpected parameter `{}` was provided; {hint}",
                    join_path(at, key)
                )));
            }
            None => {}
        }
    }
}

fn fit_value(root: &Value, schema: &Value, value: &mut Value, at: &str, problems: &mut Vec<SchemaProblem>) {
    let schema = resolve_schema(root, schema);
    let kinds = schema_types(schema);
    if kinds.is_empty() {
        return;
    }
    if let Some(better) = kinds.iter().find_map(|kind| coerce_value(kind, value)) {
        *value = better;
    }
    if !kinds.iter().any(|kind| is_type(kind, value)) {
        problems.push(SchemaProblem(format!(
            "the parameter `{at}` must be {} but {} was given",
            describe_expected(root, schema),
            describe_received(value)
        )));
        return;
    }
    if let Some(choices) = schema.get("enum").and_then(Value::as_array)
        && !choices.contains(value)
    {
        let names: Vec<String> = choices.iter().map(Value::to_string).collect();
        problems.push(SchemaProblem(format!(
            "the parameter `{at}` must be one of {} but {value} was given",
            names.join(", ")
        )));
    }
    check_limits(schema, value, at, problems);
    match value {
        Value::Object(fields) => fit_object(root, schema, fields, at, problems),
        Value::Array(items) => {
            if let Some(item_schema) = schema.get("items") {
                for (index, item) in items.iter_mut().enumerate() {
                    fit_value(root, item_schema, item, &format!("{at}[{index}]"), problems);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn check_limits(schema: &Value, value: &Value, at: &str, problems: &mut Vec<SchemaProblem>) {
    let limit = |name: &str| schema.get(name).and_then(Value::as_f64);
    let Some(number) = value.as_f64() else { return };
    if let Some(least) = limit("minimum").filter(|least| number < *least) {
        problems.push(SchemaProblem(format!("the parameter `{at}` must be at least {least} but {number} was given")));
    }
    if let Some(most) = limit("maximum").filter(|most| number > *most) {
        problems.push(SchemaProblem(format!("the parameter `{at}` must be at most {most} but {number} was given")));
    }
}

/// Resolves a `$ref` and unwraps the `anyOf [T, null]` that an optional field derives to.
fn resolve_schema<'a>(root: &'a Value, mut schema: &'a Value) -> &'a Value {
    let is_null = |choice: &&Value| choice.get("type") == Some(&Value::from("null"));
    for _ in 0..MOST_STEPS {
        let target = schema.get("$ref").and_then(Value::as_str).and_then(|target| target.strip_prefix('#'));
        let choices = schema.get("anyOf").and_then(Value::as_array);
        let choice = || choices.and_then(|choices| choices.iter().find(|choice| !is_null(choice)));
        match target.and_then(|pointer| root.pointer(pointer)).or_else(choice) {
            Some(found) => schema = found,
            None => return schema,
        }
    }
    schema
}

fn schema_types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).filter(|kind| *kind != "null").collect(),
        _ => Vec::new(),
    }
}

fn is_type(kind: &str, value: &Value) -> bool {
    match kind {
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    }
}

/// Converts a value to the wanted kind; `None` if it has no clear equivalent.
fn coerce_value(kind: &str, value: &Value) -> Option<Value> {
    match (kind, value) {
        ("integer", Value::Number(number)) if !number.is_i64() && !number.is_u64() => whole_number(number.as_f64()?),
        ("integer", Value::String(text)) => match parse_number(text)? {
            Value::Number(number) if number.is_f64() => whole_number(number.as_f64()?),
            number => Some(number),
        },
        ("number", Value::String(text)) => parse_number(text),
        ("boolean", Value::String(text)) if text.eq_ignore_ascii_case("true") => Some(Value::Bool(true)),
        ("boolean", Value::String(text)) if text.eq_ignore_ascii_case("false") => Some(Value::Bool(false)),
        ("array", Value::String(text)) => serde_json::from_str(text).ok().filter(Value::is_array),
        ("object", Value::String(text)) => serde_json::from_str(text).ok().filter(Value::is_object),
        _ => None,
    }
}

/// Parses a number: optional whitespace, optional sign, digits, optional fraction; `None` for anything else.
fn parse_number(text: &str) -> Option<Value> {
    let text = text.trim();
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let negative = text.starts_with('-');
    let (whole, fraction) = match digits.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (digits, None),
    };
    let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !all_digits(whole) || fraction.is_some_and(|fraction| !all_digits(fraction)) {
        return None;
    }
    if fraction.is_none() {
        let magnitude: i64 = whole.parse().ok()?;
        return Some(Value::from(if negative { -magnitude } else { magnitude }));
    }
    let number: f64 = digits.parse().ok()?;
    Number::from_f64(if negative { -number } else { number }).map(Value::Number)
}

fn whole_number(number: f64) -> Option<Value> {
    (number.fract() == 0.0 && number.abs() < 9e15).then(|| Value::from(number as i64))
}

fn describe_expected(root: &Value, schema: &Value) -> String {
    let schema = resolve_schema(root, schema);
    if let Some(choices) = schema.get("enum").and_then(Value::as_array) {
        return format!("one of {}", choices.iter().map(Value::to_string).collect::<Vec<_>>().join(", "));
    }
    match schema_types(schema).as_slice() {
        [] => "a value".to_owned(),
        [one] => article(one).to_owned(),
        many => many.join(" or "),
    }
}

fn article(kind: &str) -> &'static str {
    match kind {
        "string" => "a string",
        "boolean" => "a boolean",
        "integer" => "an integer",
        "number" => "a number",
        "array" => "an array",
        "object" => "an object",
        _ => "a value",
    }
}

fn describe_received(value: &Value) -> String {
    let kind = match value {
        Value::Null => return "null".to_owned(),
        Value::Bool(_) => "the boolean",
        Value::Number(_) => "the number",
        Value::String(_) => "the string",
        Value::Array(_) => return "an array".to_owned(),
        Value::Object(_) => return "an object".to_owned(),
    };
    let mut text = value.to_string();
    if text.len() > 80 {
        text.truncate(text.floor_char_boundary(80));
        text.push('…');
    }
    format!("{kind} {text}")
}

fn join_path(at: &str, key: &str) -> String {
    if at.is_empty() { key.to_owned() } else { format!("{at}.{key}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> Value {
        json!({"type":"object","additionalProperties":false,"required":["file_path"],"properties":{
            "file_path":{"type":"string"},
            "offset":{"type":["integer","null"],"minimum":0},
            "replace_all":{"type":"boolean"},
            "mode":{"anyOf":[{"$ref":"#/$defs/Mode"},{"type":"null"}]},
            "todos":{"type":"array","items":{"type":"object","required":["content"],"additionalProperties":false,
                     "properties":{"content":{"type":"string"}}}}},
            "$defs":{"Mode":{"type":"string","enum":["content","count"]}}})
    }

    fn run(input: Value) -> (Value, Vec<String>) {
        let Value::Object(mut map) = input else { panic!("object") };
        let problems = coerce_input(&schema(), &[("path", "file_path"), ("todos[].text", "content")], &mut map);
        (Value::Object(map), problems.into_iter().map(|problem| problem.0).collect())
    }

    #[test]
    fn plain_meanings_are_understood() {
        let (value, problems) = run(json!({"path":"a","offset":" +10 ","replace_all":"TRUE","mode":null}));
        assert_eq!(problems, Vec::<String>::new());
        assert_eq!(value, json!({"offset":10,"replace_all":true,"file_path":"a"}));
        assert_eq!(run(json!({"file_path":"a","offset":5.0})).0, json!({"file_path":"a","offset":5}));
        assert_eq!(
            run(json!({"file_path":"a","todos":"[{\"content\":\"x\"}]"})).0,
            json!({"file_path":"a","todos":[{"content":"x"}]})
        );
    }

    #[test]
    fn keys_are_repaired_in_lists_too_and_never_over_the_right_one() {
        let (value, problems) =
            run(json!({"file_path":"a","todos":[{"text":"x"},{"content":"y","text":"z"},{"content":"u"}]}));
        assert_eq!(value["todos"], json!([{"content":"x"},{"content":"y","text":"z"},{"content":"u"}]));
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains("`todos[1].text`"), "{problems:?}");
    }

    #[test]
    fn an_input_without_parameters_takes_none() {
        let given = |schema: Value| coerce_input(&schema, &[], json!({"foo": 1}).as_object_mut().unwrap());
        let closed = given(json!({"type":"object","additionalProperties":false}));
        assert_eq!(
            closed,
            [SchemaProblem("an unexpected parameter `foo` was provided; there are none here".to_owned())]
        );
        assert_eq!(given(json!({"type":"object"})), []);
    }

    #[test]
    fn references_in_a_circle_end() {
        let schema = json!({"properties": {"a": {"$ref": "#/$defs/A"}},
                            "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"anyOf": [{"$ref": "#/$defs/A"}]}}});
        let mut input = Map::from_iter([("a".to_owned(), json!(1))]);
        assert_eq!(coerce_input(&schema, &[], &mut input), []);
    }

    #[test]
    fn every_problem_is_named() {
        let (_, problems) = run(json!({"ofset":1,"offset":"ten","mode":"lines","todos":[{"contnt":"x"}]}));
        let all = problems.join("\n");
        for part in [
            "`file_path` is missing (expected a string)",
            "`ofset` was provided; did you mean `offset`?",
            "`offset` must be an integer but the string \"ten\"",
            "`mode` must be one of \"content\", \"count\"",
            "`todos[0].content` is missing",
            "`todos[0].contnt`",
        ] {
            assert!(all.contains(part), "{part} not in\n{all}");
        }
        assert!(run(json!({"file_path":"a","offset":-1})).1[0].contains("at least 0"));
        assert!(run(json!({"file_path":"a","offset":"1e3"})).1[0].contains("integer"));
    }
}
