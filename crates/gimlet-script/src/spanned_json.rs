//! A request body parsed with the span of every value, so that checks can name a path and comparisons can use the
//! bytes.
//!
//! It accepts exactly JSON's grammar, but keeps what a typed parser would refuse or change: numbers such as `1e400`,
//! lone surrogates, repeated keys. It never re-serialises: [`SpannedJson::span`] points into the body.

use std::ops::Range;

/// Nesting limit of arrays and objects; a deeper body is refused.
const MAX_DEPTH: usize = 512;

/// One JSON value and its span in the text.
#[derive(Clone, Debug)]
pub(crate) struct SpannedJson {
    pub(crate) span: Range<usize>,
    pub(crate) kind: SpannedJsonKind,
}

#[derive(Clone, Debug)]
pub(crate) enum SpannedJsonKind {
    Null,
    Bool(bool),
    /// The digits are parsed from the span.
    Number,
    String(String),
    Array(Vec<SpannedJson>),
    Object(Vec<SpannedMember>),
}

/// One `"key": value` of an object; `span` covers both.
#[derive(Clone, Debug)]
pub(crate) struct SpannedMember {
    pub(crate) span: Range<usize>,
    pub(crate) key: String,
    pub(crate) value: SpannedJson,
}

/// Position and reason of a JSON syntax error.
#[derive(Debug, thiserror::Error)]
#[error("{what} at byte {at}")]
pub(crate) struct JsonError {
    pub(crate) at: usize,
    pub(crate) what: &'static str,
}

impl SpannedJson {
    pub(crate) fn get(&self, key: &str) -> Option<&SpannedJson> {
        self.members().iter().find(|member| member.key == key).map(|member| &member.value)
    }

    pub(crate) fn members(&self) -> &[SpannedMember] {
        match &self.kind {
            SpannedJsonKind::Object(members) => members,
            _ => &[],
        }
    }

    pub(crate) fn items(&self) -> &[SpannedJson] {
        match &self.kind {
            SpannedJsonKind::Array(items) => items,
            _ => &[],
        }
    }

    pub(crate) fn as_str(&self) -> Option<&str> {
        match &self.kind {
            SpannedJsonKind::String(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn as_bool(&self) -> Option<bool> {
        match &self.kind {
            SpannedJsonKind::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns a whole, non-negative number; `None` for any other value.
    pub(crate) fn as_u64(&self, text: &str) -> Option<u64> {
        match self.kind {
            SpannedJsonKind::Number => text[self.span.clone()].parse().ok(),
            _ => None,
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self.kind, SpannedJsonKind::Null)
    }

    pub(crate) fn is_object(&self) -> bool {
        matches!(self.kind, SpannedJsonKind::Object(_))
    }

    pub(crate) fn is_array(&self) -> bool {
        matches!(self.kind, SpannedJsonKind::Array(_))
    }

    /// Returns the string member `key`, if there is one.
    pub(crate) fn str_of(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(SpannedJson::as_str)
    }

    /// Returns the value of `"type"`, or an empty string.
    pub(crate) fn type_tag(&self) -> &str {
        self.str_of("type").unwrap_or("")
    }

    /// Returns this value as `serde_json` represents it; a number out of its range becomes a string of its digits.
    pub(crate) fn to_value(&self, text: &str) -> serde_json::Value {
        use serde_json::Value;
        match &self.kind {
            SpannedJsonKind::Null => Value::Null,
            SpannedJsonKind::Bool(value) => Value::Bool(*value),
            SpannedJsonKind::Number => {
                let digits = &text[self.span.clone()];
                serde_json::from_str(digits).unwrap_or_else(|_| Value::String(digits.to_owned()))
            }
            SpannedJsonKind::String(value) => Value::String(value.clone()),
            SpannedJsonKind::Array(items) => Value::Array(items.iter().map(|item| item.to_value(text)).collect()),
            SpannedJsonKind::Object(members) => {
                Value::Object(members.iter().map(|m| (m.key.clone(), m.value.to_value(text))).collect())
            }
        }
    }

    /// Returns the bytes of this value with every member named `cache_control` removed, at the block level and inside
    /// a tool result's parts. Nothing else changes, whitespace included.
    pub(crate) fn without_cache_marks(&self, text: &str) -> String {
        let mut out = String::with_capacity(self.span.len());
        self.write_unmarked(text, &mut out);
        out
    }

    fn write_unmarked(&self, text: &str, out: &mut String) {
        match &self.kind {
            SpannedJsonKind::Array(items) => {
                let mut at = self.span.start;
                for item in items {
                    out.push_str(&text[at..item.span.start]);
                    item.write_unmarked(text, out);
                    at = item.span.end;
                }
                out.push_str(&text[at..self.span.end]);
            }
            SpannedJsonKind::Object(members) => write_members_unmarked(members, &self.span, text, out),
            _ => out.push_str(&text[self.span.clone()]),
        }
    }
}

/// Copies an object without its marker and the comma next to it. A tool's schema and a call's input are the author's
/// own data, so a key of that name inside them stays.
fn write_members_unmarked(members: &[SpannedMember], span: &Range<usize>, text: &str, out: &mut String) {
    let mut copied = span.start;
    let mut kept_any = false;
    for (position, member) in members.iter().enumerate() {
        if member.key == "cache_control" {
            if kept_any {
                copied = member.span.end;
            } else {
                out.push_str(&text[copied..member.span.start]);
                copied = members.get(position + 1).map_or(member.span.end, |next| next.span.start);
            }
            continue;
        }
        kept_any = true;
        out.push_str(&text[copied..member.value.span.start]);
        if matches!(member.key.as_str(), "input" | "input_schema" | "source") {
            out.push_str(&text[member.value.span.clone()]);
        } else {
            member.value.write_unmarked(text, out);
        }
        copied = member.span.end;
    }
    out.push_str(&text[copied..span.end]);
}

/// Reads one JSON text.
pub(crate) fn parse(text: &str) -> Result<SpannedJson, JsonError> {
    let mut parser = SpannedJsonParser { text, bytes: text.as_bytes(), at: 0 };
    parser.skip_blanks();
    let node = parser.value(0)?;
    parser.skip_blanks();
    if parser.at < parser.bytes.len() { Err(parser.error("something follows the value")) } else { Ok(node) }
}

struct SpannedJsonParser<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
}

impl SpannedJsonParser<'_> {
    fn error(&self, what: &'static str) -> JsonError {
        JsonError { at: self.at, what }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Result<SpannedJson, JsonError> {
        if depth > MAX_DEPTH {
            return Err(self.error("nested too deeply"));
        }
        let start = self.at;
        let kind = match self.peek() {
            Some(b'{') => self.object(depth)?,
            Some(b'[') => self.array(depth)?,
            Some(b'"') => SpannedJsonKind::String(self.string()?),
            Some(b't') => self.word("true", SpannedJsonKind::Bool(true))?,
            Some(b'f') => self.word("false", SpannedJsonKind::Bool(false))?,
            Some(b'n') => self.word("null", SpannedJsonKind::Null)?,
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(_) => return Err(self.error("no value begins like this")),
            None => return Err(self.error("the text ends where a value should begin")),
        };
        Ok(SpannedJson { span: start..self.at, kind })
    }

    fn word(&mut self, word: &str, kind: SpannedJsonKind) -> Result<SpannedJsonKind, JsonError> {
        if !self.text[self.at..].starts_with(word) {
            return Err(self.error("no value begins like this"));
        }
        self.at += word.len();
        Ok(kind)
    }

    fn digits(&mut self) -> Result<(), JsonError> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start { Err(self.error("a digit is missing")) } else { Ok(()) }
    }

    fn number(&mut self) -> Result<SpannedJsonKind, JsonError> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1
        } else {
            self.digits()?
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(SpannedJsonKind::Number)
    }

    fn array(&mut self, depth: usize) -> Result<SpannedJsonKind, JsonError> {
        self.at += 1;
        let mut items = Vec::new();
        self.skip_blanks();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(SpannedJsonKind::Array(items));
        }
        loop {
            self.skip_blanks();
            items.push(self.value(depth + 1)?);
            self.skip_blanks();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => break,
                _ => return Err(self.error("expected `,` or `]`")),
            }
        }
        self.at += 1;
        Ok(SpannedJsonKind::Array(items))
    }

    fn object(&mut self, depth: usize) -> Result<SpannedJsonKind, JsonError> {
        self.at += 1;
        let mut members = Vec::new();
        self.skip_blanks();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(SpannedJsonKind::Object(members));
        }
        loop {
            self.skip_blanks();
            let start = self.at;
            if self.peek() != Some(b'"') {
                return Err(self.error("expected a key"));
            }
            let key = self.string()?;
            self.skip_blanks();
            if self.peek() != Some(b':') {
                return Err(self.error("expected `:`"));
            }
            self.at += 1;
            self.skip_blanks();
            let value = self.value(depth + 1)?;
            members.push(SpannedMember { span: start..self.at, key, value });
            self.skip_blanks();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => break,
                _ => return Err(self.error("expected `,` or `}`")),
            }
        }
        self.at += 1;
        Ok(SpannedJsonKind::Object(members))
    }

    fn string(&mut self) -> Result<String, JsonError> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let run = self.at;
            while !matches!(self.peek(), None | Some(b'"' | b'\\' | 0..=0x1f)) {
                self.at += 1;
            }
            out.push_str(&self.text[run..self.at]);
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => {
                    self.at += 1;
                    out.push(self.escape()?);
                }
                Some(_) => return Err(self.error("a control character inside a string")),
                None => return Err(self.error("the text ends inside a string")),
            }
        }
        self.at += 1;
        Ok(out)
    }

    fn escape(&mut self) -> Result<char, JsonError> {
        let letter = self.peek().ok_or_else(|| self.error("the text ends inside a string"))?;
        self.at += 1;
        Ok(match letter {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => self.unicode_escape()?,
            _ => return Err(self.error("no such escape")),
        })
    }

    /// Parses a `\u` escape; a lone surrogate becomes the replacement character.
    fn unicode_escape(&mut self) -> Result<char, JsonError> {
        let first = self.hex4()?;
        if (0xd800..0xdc00).contains(&first) && self.text[self.at..].starts_with("\\u") {
            let back = self.at;
            self.at += 2;
            let second = self.hex4()?;
            if (0xdc00..0xe000).contains(&second) {
                let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.at = back;
        }
        Ok(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn hex4(&mut self) -> Result<u32, JsonError> {
        let digits = self.text.get(self.at..self.at + 4).filter(|four| four.bytes().all(|b| b.is_ascii_hexdigit()));
        let code = digits.and_then(|four| u32::from_str_radix(four, 16).ok());
        let code = code.ok_or_else(|| self.error("four hex digits expected"))?;
        self.at += 4;
        Ok(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_what_typed_readers_refuse() {
        let text = r#" {"a":1e400,"b":"\ud83d\ude00\ud800x","a":[true,null,-0.5]} "#;
        let node = parse(text).unwrap();
        assert_eq!(&text[node.get("a").unwrap().span.clone()], "1e400");
        assert_eq!(node.str_of("b"), Some("😀\u{fffd}x"));
        assert_eq!(node.members().len(), 3);
        assert_eq!(&text[node.span.clone()], text.trim());
    }

    proptest::proptest! {
        /// Compares with a second parser on texts that are JSON or nearly so.
        #[test]
        fn agrees_with_another_reader(text in r#"[\[\]{}",:0-9eE.\-+tfn a-c\\]{0,12}"#) {
            if let Ok(value) = serde_json::from_str::<serde_json::Value>(&text) {
                let node = parse(&text);
                proptest::prop_assert!(node.is_ok(), "{text:?}");
                if !text.contains('{') {
                    proptest::prop_assert_eq!(node.unwrap().to_value(&text), value);
                }
            } else if let Ok(node) = parse(&text) {
                // Only numbers out of range and lone surrogates may be accepted here and refused there.
                proptest::prop_assert!(text.contains(['e', 'E', 'u']), "{text:?} {node:?}");
            }
        }
    }

    #[test]
    fn refuses_what_is_not_json() {
        for bad in ["", "{", "[1,]", "{\"a\" 1}", "01", "1.", "\"\\x\"", "\"a", "nul", "[1] 2", "\"\u{1}\""] {
            assert!(parse(bad).is_err(), "{bad:?} was taken");
        }
        let deep = "[".repeat(600) + &"]".repeat(600);
        assert_eq!(parse(&deep).unwrap_err().what, "nested too deeply");
    }

    #[test]
    fn cache_marks_go_but_inputs_and_blanks_stay() {
        let text = r#"[{"type":"text", "text":"a","cache_control":{"type":"ephemeral"}},{"cache_control":null,"input":{"cache_control":1}}]"#;
        let node = parse(text).unwrap();
        assert_eq!(node.without_cache_marks(text), r#"[{"type":"text", "text":"a"},{"input":{"cache_control":1}}]"#);
    }
}
