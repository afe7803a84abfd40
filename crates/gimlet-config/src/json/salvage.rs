//! What a text forbids although it is no JSON: the lists named `deny` and `ask`, wherever they stand. A comma too many must
//! not open what its writer had closed, so it is read as strictly as can be: rather one rule too many than one too few.

use super::{Json, Member, Node, Reader};

/// The lists that are looked for; nothing in them can allow anything.
const LISTS: [&str; 2] = ["deny", "ask"];

/// Every rule that the text forbids something by, in the shape of settings. Empty when there is none.
pub(crate) fn restrictions(text: &str) -> Node {
    let mut reader = Reader::new(text);
    let mut found: [Vec<Node>; 2] = Default::default();
    let mut open: Option<usize> = None;
    while let Some(byte) = reader.peek() {
        if byte != b'"' {
            reader.at += 1;
            open = open.filter(|_| !matches!(byte, b']' | b'}'));
            continue;
        }
        let start = reader.at;
        let Ok(word) = reader.string() else {
            (reader.at, open) = (start + 1, None);
            continue;
        };
        let span = start..reader.at;
        reader.space();
        if reader.eat(b':') {
            reader.space();
            open = LISTS.iter().position(|list| *list == word).filter(|_| reader.eat(b'['));
        } else if let Some(list) = open.filter(|_| !word.trim().is_empty()) {
            found[list].push(Node { json: Json::String(word), span });
        }
    }
    let lists = LISTS.into_iter().zip(found).filter(|(_, rules)| !rules.is_empty());
    let lists: Vec<Member> = lists.map(|(list, rules)| member(list, Json::Array(rules))).collect();
    let blocks = if lists.is_empty() { Vec::new() } else { vec![member("permissions", Json::Object(lists))] };
    Node { json: Json::Object(blocks), span: 0..text.len() }
}

fn member(key: &str, json: Json) -> Member {
    Member { key: key.to_owned(), key_span: 0..0, value: Node { json, span: 0..0 } }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_that_forbid_survive_whatever_is_wrong_around_them() {
        let kept = json!({"permissions": {"deny": ["a", "b"], "ask": ["c"]}});
        for text in [
            r#"{"permissions": {"deny": ["a", "b",], "ask": ["c"]}}"#,
            r#"{"permissions": {"allow": ["x"], "deny": ["a", "b"], "ask": ["c""#,
            "{ // mine\n\"permissions\": {\"deny\": [\"a\" \"b\"], 'x': 1, \"ask\": [\"c\"]}}",
            r#"{"model": NaN, "deny": ["a", "", "b"}, "ask": ["c"] trailing"#,
            r#"{"deny": ["a", "b" "ask": ["c" "allow": ["x"]"#,
            "{\"x\": \"not\nclosed, \"deny\" : [ \"a\",\"b\"], \"ask\":[\"c\"]}",
            r#"<html>"deny": ["a","b"] "ask":["c"]"#,
        ] {
            assert_eq!(restrictions(text).to_value(), kept, "{text}");
        }
        for text in ["", "deny", "\"deny\"", "\"deny\": \"a\"", "[[[[", "\"", "\"deny\": [\"", "\u{feff}", "\"\\u"] {
            assert_eq!(restrictions(text).to_value(), json!({}), "{text}");
        }
    }
}
