use serde_json::json;

use super::*;

fn apply_set(text: &str, path: &str, value: Value) -> String {
    let path: Vec<&str> = path.split('.').collect();
    apply_edit(text, &path, &JsonEdit::Set(value)).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn only_the_value_changes() {
    let text = "{\n\t\"z\" :  1 ,\n\t\"model\":\"a\",\n\n\t\"foreign\": {\"x\":[1,2 ]}\n}";
    assert_eq!(apply_set(text, "model", json!("b")), text.replace("\"a\"", "\"b\""));
    assert_eq!(apply_set(text, "foreign.x", json!(null)), text.replace("[1,2 ]", "null"));
    assert_eq!(apply_set(text, "model", json!("a")), text);
}

#[test]
fn new_keys_stand_like_their_neighbours() {
    let text = "{\n    \"a\": 1\n}\n";
    assert_eq!(apply_set(text, "b", json!(true)), "{\n    \"a\": 1,\n    \"b\": true\n}\n");
    assert_eq!(
        apply_set(text, "permissions.allow", json!(["x"])),
        "{\n    \"a\": 1,\n    \"permissions\": {\n        \"allow\": [\n            \"x\"\n        ]\n    }\n}\n"
    );
    assert_eq!(apply_set("{\"a\":1}", "b", json!(2)), "{\"a\":1, \"b\": 2}");
    assert_eq!(apply_set("", "b", json!(2)), "{\n  \"b\": 2\n}\n");
    assert_eq!(apply_set("{}", "b.c", json!(2)), "{\n  \"b\": {\n    \"c\": 2\n  }\n}");
    assert_eq!(apply_set("{\r\n  \"a\": 1\r\n}\r\n", "b", json!(2)), "{\r\n  \"a\": 1,\r\n  \"b\": 2\r\n}\r\n");
    assert_eq!(apply_set("{\n  \"p\": {}\n}", "p.q", json!(1)), "{\n  \"p\": {\n    \"q\": 1\n  }\n}");
}

#[test]
fn list_entries_come_and_go() {
    let text = "{\n  \"permissions\": {\n    \"allow\": [\n      \"A\",\n      \"B\"\n    ]\n  }\n}\n";
    let path = ["permissions", "allow"];
    let append = |text: &str, rule: &str| apply_edit(text, &path, &JsonEdit::Append(json!(rule))).unwrap();
    let take = |text: &str, rule: &str| apply_edit(text, &path, &JsonEdit::RemoveEntry(json!(rule))).unwrap();
    let three = append(text, "C");
    assert_eq!(three, text.replace("\"B\"", "\"B\",\n      \"C\""));
    assert_eq!(append(&three, "C"), three, "not twice");
    assert_eq!(take(&three, "C"), text);
    assert_eq!(take(text, "A"), "{\n  \"permissions\": {\n    \"allow\": [\n      \"B\"\n    ]\n  }\n}\n");
    assert_eq!(take(text, "other"), text);
    assert_eq!(
        append("{\"permissions\": {\"allow\": []}}", "C"),
        "{\"permissions\": {\"allow\": [\n      \"C\"\n    ]}}"
    );
}

#[test]
fn keys_are_removed_with_their_comma() {
    let text = "{\n  \"a\": 1,\n  \"b\": 2,\n  \"c\": 3\n}";
    let remove = |key: &str| apply_edit(text, &[key], &JsonEdit::RemoveKey).unwrap();
    assert_eq!(remove("a"), "{\n  \"b\": 2,\n  \"c\": 3\n}");
    assert_eq!(remove("b"), "{\n  \"a\": 1,\n  \"c\": 3\n}");
    assert_eq!(remove("c"), "{\n  \"a\": 1,\n  \"b\": 2\n}");
    assert_eq!(remove("d"), text);
}

#[test]
fn what_cannot_be_edited_is_refused_with_its_line() {
    let error = apply_edit("{\n  \"a\": 1,\n}", &["a"], &JsonEdit::Set(json!(2))).unwrap_err();
    assert!(error.to_string().starts_with("line 2, column 9"), "{error}");
    let error = apply_edit("{\n  \"a\": 1\n}", &["a", "b"], &JsonEdit::Set(json!(2))).unwrap_err();
    assert!(error.to_string().contains("line 2"), "{error}");
    assert!(apply_edit("[1]", &["a"], &JsonEdit::Set(json!(2))).is_err());
    assert!(apply_edit("{\"a\": 1}", &["a"], &JsonEdit::Append(json!(2))).is_err());
}

proptest::proptest! {
    #[test]
    fn every_other_value_stays(
        keys in proptest::collection::vec("[a-d]{1,2}", 0..6),
        target in "[a-d]{1,2}",
        pretty: bool,
    ) {
        let members: serde_json::Map<String, Value> =
            keys.iter().enumerate().map(|(at, key)| (key.clone(), json!({ "n": at, "l": [at] }))).collect();
        let before = Value::Object(members);
        let text = if pretty { serde_json::to_string_pretty(&before).unwrap() } else { before.to_string() };
        let after: Value = serde_json::from_str(&apply_set(&text, &target, json!({ "new": [1, {}] }))).unwrap();
        let mut wanted = before.clone();
        wanted[&target] = json!({ "new": [1, {}] });
        proptest::prop_assert_eq!(&after, &wanted);
        let gone = apply_edit(&after.to_string(), &[&target], &JsonEdit::RemoveKey).unwrap();
        let gone: Value = serde_json::from_str(&gone).unwrap();
        proptest::prop_assert!(gone.get(&target).is_none());
    }
}
