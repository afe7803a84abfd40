//! Recovery of restrictions from a text that is not valid JSON: deny lists, modes that are switched off, and a sandbox
//! that is switched on, anywhere in it. A syntax error must not open what the author had closed, so the text is read
//! as strictly as possible: rather one rule too many than one too few.

use super::{JsonMember, JsonNode, JsonParser, JsonValue};

/// Lists that are searched for, with their paths; nothing in them can allow anything.
const LISTS: [(&str, &[&str]); 5] = [
    ("deny", &["permissions"]),
    ("ask", &["permissions"]),
    ("denyWrite", &["sandbox", "filesystem"]),
    ("denyRead", &["sandbox", "filesystem"]),
    ("deniedDomains", &["sandbox", "network"]),
];
/// Keys that switch a mode off, all of them with one value.
const SWITCHES: [&str; 2] = ["disableBypassPermissionsMode", "disableAutoMode"];
const SWITCHED_OFF: &str = "disable";

/// Returns all restrictions in the text, in the shape of settings. Empty when there are none.
pub(crate) fn recover_restrictions(text: &str) -> JsonNode {
    let mut search = RestrictionScanner::new(text);
    search.scan();
    let mut root = JsonNode { json: JsonValue::Object(Vec::new()), span: 0..text.len() };
    for ((list, groups), rules) in LISTS.into_iter().zip(search.rules).filter(|(_, rules)| !rules.is_empty()) {
        insert_at_path(&mut root, groups, list, JsonValue::Array(rules));
    }
    for (switch, _) in SWITCHES.into_iter().zip(search.off).filter(|(_, off)| *off) {
        insert_at_path(&mut root, &["permissions"], switch, JsonValue::String(SWITCHED_OFF.to_owned()));
    }
    if search.sandbox {
        insert_at_path(&mut root, &["sandbox"], "enabled", JsonValue::Bool(true));
    }
    root
}

fn insert_at_path(root: &mut JsonNode, groups: &[&str], key: &str, json: JsonValue) {
    let mut block = Some(root);
    for group in groups {
        block = block.and_then(|block| block.get_or_insert(group, || JsonValue::Object(Vec::new())));
    }
    if let Some(members) = block.and_then(JsonNode::members_mut) {
        members.push(JsonMember { key: key.to_owned(), key_span: 0..0, value: JsonNode { json, span: 0..0 } });
    }
}

/// Goes through a text from word to word.
struct RestrictionScanner<'t> {
    reader: JsonParser<'t>,
    /// List that strings at this position belong to.
    open_list: Option<usize>,
    /// Number of open braces now, and when the sandbox block began.
    depth: usize,
    sandbox_depth: Option<usize>,
    rules: [Vec<JsonNode>; LISTS.len()],
    off: [bool; 2],
    sandbox: bool,
}

impl<'t> RestrictionScanner<'t> {
    fn new(text: &'t str) -> Self {
        let (rules, off, sandbox) = Default::default();
        Self { reader: JsonParser::new(text), open_list: None, depth: 0, sandbox_depth: None, rules, off, sandbox }
    }

    fn scan(&mut self) {
        while let Some(byte) = self.reader.peek() {
            if byte == b'"' {
                self.scan_string();
                continue;
            }
            self.reader.at += 1;
            match byte {
                b'{' => self.depth += 1,
                b'}' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
            if matches!(byte, b']' | b'}') {
                self.open_list = None;
            }
            self.sandbox_depth = self.sandbox_depth.filter(|outside| byte != b'}' || self.depth > *outside);
        }
    }

    fn scan_string(&mut self) {
        let start = self.reader.at;
        let Ok(word) = self.reader.parse_string() else {
            (self.reader.at, self.open_list) = (start + 1, None);
            return;
        };
        let span = start..self.reader.at;
        self.reader.skip_whitespace();
        if self.reader.eat(b':') {
            self.reader.skip_whitespace();
            self.scan_key(&word);
        } else if let Some(list) = self.open_list
            && !word.trim().is_empty()
        {
            self.rules[list].push(JsonNode { json: JsonValue::String(word), span });
        }
    }

    /// Scans the value of a key without consuming it, so that the search continues inside it.
    fn scan_key(&mut self, key: &str) {
        self.open_list = match LISTS.iter().position(|(list, _)| *list == key) {
            Some(list) if self.reader.eat(b'[') => Some(list),
            _ => None,
        };
        if let Some(switch) = SWITCHES.iter().position(|switch| *switch == key) {
            self.off[switch] |= self.has_next(&format!("\"{SWITCHED_OFF}\""));
        }
        match key {
            "sandbox" if self.reader.peek() == Some(b'{') => self.sandbox_depth = Some(self.depth),
            "enabled" if self.sandbox_depth.is_some_and(|outside| self.depth == outside + 1) => {
                // Any other value was not meant to leave it off.
                self.sandbox |= !self.has_next("false") && !self.has_next("null");
            }
            _ => {}
        }
    }

    fn has_next(&self, text: &str) -> bool {
        self.reader.bytes.get(self.reader.at..).is_some_and(|rest| rest.starts_with(text.as_bytes()))
    }
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
            assert_eq!(recover_restrictions(text).to_value(), kept, "{text}");
        }
        for text in ["", "deny", "\"deny\"", "\"deny\": \"a\"", "[[[[", "\"", "\"deny\": [\"", "\u{feff}", "\"\\u"] {
            assert_eq!(recover_restrictions(text).to_value(), json!({}), "{text}");
        }
    }

    #[test]
    fn modes_that_are_off_and_a_sandbox_that_is_on_survive_too() {
        let off = json!({"permissions": {"disableBypassPermissionsMode": "disable"}});
        let on = json!({"sandbox": {"enabled": true}});
        for (text, kept) in [
            (r#"{"permissions": {"disableBypassPermissionsMode" : "disable",}}"#, &off),
            (r#"{"permissions": {"disableBypassPermissionsMode": "disable""#, &off),
            (r#"{"sandbox": {"network": {"enabled": 1}, "enabled": true,}"#, &on),
            (r#"{"sandbox": {"enabled": "true",}"#, &on),
            (
                r#"{"sandbox": {"filesystem": {"denyRead": ["a",], "denyWrite": ["b"]}, "network": {"deniedDomains": ["c"]}"#,
                &json!({"sandbox": {"filesystem": {"denyRead": ["a"], "denyWrite": ["b"]}, "network": {"deniedDomains": ["c"]}}}),
            ),
            (r#"{"sandbox": {"enabled": null,}"#, &json!({})),
            (
                r#"{"sandbox": {"filesystem": {}, // closed
                "enabled":true"#,
                &on,
            ),
            (r#"{"sandbox": {"enabled": false}, "x": {"enabled": true},}"#, &json!({})),
            (r#"{"sandbox": {"network": {"enabled": true},},}"#, &json!({})),
            (r#"{"enabled": true, "disableBypassPermissionsMode": "no",}"#, &json!({})),
        ] {
            assert_eq!(recover_restrictions(text).to_value(), *kept, "{text}");
        }
    }
}
