use serde_json::json;

use super::*;

fn set(text: &str, path: &str, value: Value) -> String {
    let path: Vec<&str> = path.split('.').collect();
    apply(text, &path, &Edit::Set(value)).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn only_the_value_changes() {
    let text = "{\n\t\"z\" :  1 ,\n\t\"model\":\"a\",\n\n\t\"foreign\": {\"x\":[1,2 ]}\n}";
    assert_eq!(set(text, "model", json!("b")), text.replace("\"a\"", "\"b\""));
    assert_eq!(set(text, "foreign.x", json!(null)), text.replace("[1,2 ]", "null"));
    assert_eq!(set(text, "model", json!("a")), text);
}

#[test]
fn new_keys_stand_like_their_neighbours() {
    let text = "{\n    \"a\": 1\n}\n";
    assert_eq!(set(text, "b", json!(true)), "{\n    \"a\": 1,\n    \"b\": true\n}\n");
    assert_eq!(
        set(text, "permissions.allow", json!(["x"])),
        "{\n    \"a\": 1,\n    \"permissions\": {\n        \"allow\": [\n            \"x\"\n        ]\n    }\n}\n"
    );
    assert_eq!(set("{\"a\":1}", "b", json!(2)), "{\"a\":1, \"b\": 2}");
    assert_eq!(set("", "b", json!(2)), "{\n  \"b\": 2\n}\n");
    assert_eq!(set("{}", "b.c", json!(2)), "{\n  \"b\": {\n    \"c\": 2\n  }\n}");
    assert_eq!(set("{\r\n  \"a\": 1\r\n}\r\n", "b", json!(2)), "{\r\n  \"a\": 1,\r\n  \"b\": 2\r\n}\r\n");
    assert_eq!(set("{\n  \"p\": {}\n}", "p.q", json!(1)), "{\n  \"p\": {\n    \"q\": 1\n  }\n}");
}

#[test]
fn list_entries_come_and_go() {
    let text = "{\n  \"permissions\": {\n    \"allow\": [\n      \"A\",\n      \"B\"\n    ]\n  }\n}\n";
    let path = ["permissions", "allow"];
    let append = |text: &str, rule: &str| apply(text, &path, &Edit::Append(json!(rule))).unwrap();
    let take = |text: &str, rule: &str| apply(text, &path, &Edit::Take(json!(rule))).unwrap();
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
    let remove = |key: &str| apply(text, &[key], &Edit::Remove).unwrap();
    assert_eq!(remove("a"), "{\n  \"b\": 2,\n  \"c\": 3\n}");
    assert_eq!(remove("b"), "{\n  \"a\": 1,\n  \"c\": 3\n}");
    assert_eq!(remove("c"), "{\n  \"a\": 1,\n  \"b\": 2\n}");
    assert_eq!(remove("d"), text);
}

#[test]
fn what_cannot_be_edited_is_refused_with_its_line() {
    let error = apply("{\n  \"a\": 1,\n}", &["a"], &Edit::Set(json!(2))).unwrap_err();
    assert!(error.to_string().starts_with("line 2, column 9"), "{error}");
    let error = apply("{\n  \"a\": 1\n}", &["a", "b"], &Edit::Set(json!(2))).unwrap_err();
    assert!(error.to_string().contains("line 2"), "{error}");
    assert!(apply("[1]", &["a"], &Edit::Set(json!(2))).is_err());
    assert!(apply("{\"a\": 1}", &["a"], &Edit::Append(json!(2))).is_err());
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
        let after: Value = serde_json::from_str(&set(&text, &target, json!({ "new": [1, {}] }))).unwrap();
        let mut wanted = before.clone();
        wanted[&target] = json!({ "new": [1, {}] });
        proptest::prop_assert_eq!(&after, &wanted);
        let gone = apply(&after.to_string(), &[&target], &Edit::Remove).unwrap();
        let gone: Value = serde_json::from_str(&gone).unwrap();
        proptest::prop_assert!(gone.get(&target).is_none());
    }
}
