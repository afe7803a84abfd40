use super::*;

fn parse_to_value(text: &str) -> Value {
    parse_json(text).unwrap_or_else(|error| panic!("{text}: {error:?}")).root.to_value()
}

#[test]
fn what_is_json_is_read_as_serde_reads_it() {
    for text in [
        "{}",
        "[]",
        " {\"a\" : [1, -2.5e3, true, false, null, \"x\"]} ",
        r#"{"a":{"b":{"c":"\u00e9\n\t\"\\\/\b\f\r"}},"ä":"𝄞","pair":"\ud834\udd1e"}"#,
        "0",
        "-0",
        "1e3",
        "18446744073709551615",
        "\"\"",
    ] {
        assert_eq!(parse_to_value(text), serde_json::from_str::<Value>(text).unwrap(), "{text}");
    }
}

#[test]
fn what_is_not_json_is_refused_where_it_goes_wrong() {
    for (text, offset, part) in [
        ("", 0, "unexpected end of file"),
        ("{\n  // no\n}", 4, "comments are not allowed"),
        ("{\"a\": 1,}", 7, "nothing after it"),
        ("[1, 2,\n]", 5, "nothing after it"),
        ("{'a': 1}", 1, "double quotes"),
        ("{\"a\" 1}", 5, "':'"),
        ("{\"a\": tru}", 6, "a value"),
        ("{\"a\": truee}", 6, "a value"),
        ("{\"a\": NaN}", 6, "a value"),
        ("{\"a\": 01}", 6, "not a number"),
        ("{\"a\": 1e999}", 6, "not a number"),
        ("{\"a\": 1} x", 9, "more text"),
        ("{\"a\": \"x", 6, "no closing quote"),
        ("\"a\nb\"", 2, "control character"),
        ("\"\\q\"", 1, "no escape"),
        ("\"\\u12g4\"", 1, "four hexadecimal"),
        ("\"\\u+123\"", 1, "four hexadecimal"),
        ("[1 2]", 3, "','"),
        ("\0", 0, "a value"),
    ] {
        let error = parse_json(text).expect_err(text);
        assert_eq!(error.offset, offset, "{text:?}: {error:?}");
        assert!(error.message.contains(part), "{text:?}: {error:?}");
    }
}

#[test]
fn depth_is_bounded_however_deep_the_text_goes() {
    let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(parse_json(&deep(100)).is_ok());
    for text in [deep(1_000_000), "[".repeat(1_000_000), "{\"a\":".repeat(1_000_000)] {
        assert!(parse_json(&text).expect_err("too deep").message.contains("128"));
    }
}

#[test]
fn the_last_of_two_equal_keys_counts_and_is_remarked() {
    let parsed = parse_json("{\"a\": 1, \"b\": 2, \"a\": 3}").unwrap();
    assert_eq!(parsed.root.to_value(), serde_json::json!({"a": 3, "b": 2}));
    assert_eq!(parsed.warnings.len(), 1);
    assert_eq!(parsed.warnings[0].offset, 17);
}

#[test]
fn lone_surrogates_are_replaced_with_a_warning() {
    for text in [r#""\ud800""#, r#""\udc00x""#, r#""\ud800\ud800""#, r#""\ud800\u0041""#] {
        let parsed = parse_json(text).unwrap();
        assert!(parsed.root.as_str().unwrap().contains('\u{fffd}'), "{text}");
        assert!(!parsed.warnings.is_empty(), "{text}");
    }
}

#[test]
fn places_are_lines_and_characters() {
    let text = JsonText::new("{\r\n \"ä\": 1,\n \"b\": 2}".into());
    let parsed = parse_json(text.as_str()).unwrap();
    let at = text.position_at(parsed.root.get("ä").unwrap().span.start);
    assert_eq!((at.line, at.column), (2, 7));
    let at = text.position_at(parsed.root.get("b").unwrap().span.start);
    assert_eq!((at.line, at.column), (3, 7));
    assert_eq!(text.position_at(usize::MAX).line, 3);
}

proptest::proptest! {
    #[test]
    fn no_text_makes_it_panic_and_what_it_accepts_serde_accepts(text in "[\\[\\]{}\",:0-9a-z\\\\u\u{0}\u{e9} \n-]{0,40}") {
        if let Ok(parsed) = parse_json(&text) {
            let lone = parsed.warnings.iter().any(|remark| remark.message.contains("half a character"));
            proptest::prop_assert!(lone || serde_json::from_str::<Value>(&text).is_ok());
        } else {
            proptest::prop_assert!(serde_json::from_str::<Value>(&text).is_err());
        }
    }
}
