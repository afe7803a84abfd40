//! Strict JSON that keeps positions: every value has its place in the text, so that a message can name a line and an
//! edit can leave the rest of a file alone. No comments, no trailing commas. Depth is bounded, and no input makes it
//! panic.

mod json_text;
mod restriction_recovery;

use std::collections::HashMap;
use std::ops::Range;

use serde_json::{Map, Number, Value};

pub(crate) use json_text::{JsonSyntaxError, JsonText, TextPosition};
pub(crate) use restriction_recovery::recover_restrictions;

/// Maximum nesting depth; deeper nesting is an error.
const MAX_DEPTH: usize = 128;

/// Value with its position.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JsonNode {
    pub(crate) json: JsonValue,
    pub(crate) span: Range<usize>,
}

/// Kind and content of a value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum JsonValue {
    Null,
    Bool(bool),
    Number(Number),
    String(String),
    Array(Vec<JsonNode>),
    Object(Vec<JsonMember>),
}

/// One `"key": value` of an object. Keys are unique: of several, the last counts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JsonMember {
    pub(crate) key: String,
    pub(crate) key_span: Range<usize>,
    pub(crate) value: JsonNode,
}

/// Parsed text, with its warnings.
#[derive(Debug)]
pub(crate) struct ParsedJson {
    pub(crate) root: JsonNode,
    pub(crate) warnings: Vec<JsonWarning>,
    /// True if a key hides an earlier one of equal name.
    pub(crate) has_duplicate_keys: bool,
}

/// Warning about something that is legal and probably a mistake.
#[derive(Debug, PartialEq)]
pub(crate) struct JsonWarning {
    pub(crate) offset: usize,
    pub(crate) message: String,
}

/// Reads one JSON value that fills the text.
pub(crate) fn parse_json(text: &str) -> Result<ParsedJson, JsonSyntaxError> {
    // Some editors write a byte order mark; it is no part of the value.
    let start = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let mut reader = JsonParser::new(text);
    reader.at = start;
    reader.skip_whitespace();
    let root = reader.parse_value(0)?;
    reader.skip_whitespace();
    if reader.at < text.len() {
        return Err(reader.error_here("there is more text after the end of the JSON value"));
    }
    Ok(ParsedJson { root, has_duplicate_keys: reader.has_duplicate_keys, warnings: reader.warnings })
}

impl JsonNode {
    /// Returns the member of an object.
    pub(crate) fn get(&self, key: &str) -> Option<&JsonNode> {
        self.members().iter().find(|member| member.key == key).map(|member| &member.value)
    }

    pub(crate) fn get_mut(&mut self, key: &str) -> Option<&mut JsonNode> {
        self.members_mut()?.iter_mut().find(|member| member.key == key).map(|member| &mut member.value)
    }

    /// Returns the value at a path of keys.
    pub(crate) fn find<'k>(&self, path: impl IntoIterator<Item = &'k str>) -> Option<&JsonNode> {
        path.into_iter().try_fold(self, |node, key| node.get(key))
    }

    pub(crate) fn find_mut<'k>(&mut self, path: impl IntoIterator<Item = &'k str>) -> Option<&mut JsonNode> {
        path.into_iter().try_fold(self, |node, key| node.get_mut(key))
    }

    /// Returns the members of an object; none for other values.
    pub(crate) fn members(&self) -> &[JsonMember] {
        if let JsonValue::Object(members) = &self.json { members } else { &[] }
    }

    pub(crate) fn members_mut(&mut self) -> Option<&mut Vec<JsonMember>> {
        if let JsonValue::Object(members) = &mut self.json { Some(members) } else { None }
    }

    /// Returns the elements of an array; none for other values.
    pub(crate) fn elements(&self) -> &[JsonNode] {
        if let JsonValue::Array(elements) = &self.json { elements } else { &[] }
    }

    pub(crate) fn elements_mut(&mut self) -> Option<&mut Vec<JsonNode>> {
        if let JsonValue::Array(elements) = &mut self.json { Some(elements) } else { None }
    }

    pub(crate) fn as_str(&self) -> Option<&str> {
        if let JsonValue::String(text) = &self.json { Some(text) } else { None }
    }

    /// Returns the member of an object, created if it is missing; `None` if the value is not an object.
    pub(crate) fn get_or_insert(&mut self, key: &str, make: impl FnOnce() -> JsonValue) -> Option<&mut JsonNode> {
        let span = self.span.clone();
        let members = self.members_mut()?;
        let at = members.iter().position(|member| member.key == key).unwrap_or_else(|| {
            let value = JsonNode { json: make(), span: span.clone() };
            members.push(JsonMember { key: key.to_owned(), key_span: span, value });
            members.len() - 1
        });
        members.get_mut(at).map(|member| &mut member.value)
    }

    /// Removes a member from an object and returns it.
    pub(crate) fn remove(&mut self, key: &str) -> Option<JsonMember> {
        let members = self.members_mut()?;
        let at = members.iter().position(|member| member.key == key)?;
        Some(members.remove(at))
    }

    /// Returns the value without its positions.
    pub(crate) fn to_value(&self) -> Value {
        match &self.json {
            JsonValue::Null => Value::Null,
            JsonValue::Bool(yes) => Value::Bool(*yes),
            JsonValue::Number(number) => Value::Number(number.clone()),
            JsonValue::String(text) => Value::String(text.clone()),
            JsonValue::Array(elements) => Value::Array(elements.iter().map(JsonNode::to_value).collect()),
            JsonValue::Object(members) => {
                let members = members.iter().map(|member| (member.key.clone(), member.value.to_value()));
                Value::Object(members.collect::<Map<String, Value>>())
            }
        }
    }

    /// Returns the name of the value's kind, for messages.
    pub(crate) fn kind_name(&self) -> &'static str {
        match self.json {
            JsonValue::Null => "null",
            JsonValue::Bool(_) => "true or false",
            JsonValue::Number(_) => "a number",
            JsonValue::String(_) => "a string",
            JsonValue::Array(_) => "a list",
            JsonValue::Object(_) => "an object",
        }
    }
}

struct JsonParser<'t> {
    bytes: &'t [u8],
    text: &'t str,
    at: usize,
    warnings: Vec<JsonWarning>,
    has_duplicate_keys: bool,
}

impl<'t> JsonParser<'t> {
    fn new(text: &'t str) -> Self {
        Self { bytes: text.as_bytes(), text, at: 0, warnings: Vec::new(), has_duplicate_keys: false }
    }

    fn parse_value(&mut self, depth: usize) -> Result<JsonNode, JsonSyntaxError> {
        if depth > MAX_DEPTH {
            return Err(self.error_here(format!("values are nested more than {MAX_DEPTH} deep")));
        }
        let start = self.at;
        let json = match self.peek() {
            Some(b'{') => self.parse_object(depth)?,
            Some(b'[') => self.parse_array(depth)?,
            Some(b'"') => JsonValue::String(self.parse_string()?),
            Some(b'-' | b'0'..=b'9') => self.parse_number()?,
            Some(b't') => self.parse_literal("true", JsonValue::Bool(true))?,
            Some(b'f') => self.parse_literal("false", JsonValue::Bool(false))?,
            Some(b'n') => self.parse_literal("null", JsonValue::Null)?,
            _ => return Err(self.unexpected_error("a value")),
        };
        Ok(JsonNode { json, span: start..self.at })
    }

    fn parse_object(&mut self, depth: usize) -> Result<JsonValue, JsonSyntaxError> {
        self.at += 1;
        let mut members: Vec<JsonMember> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        self.skip_whitespace();
        if self.eat(b'}') {
            return Ok(JsonValue::Object(members));
        }
        loop {
            let start = self.at;
            if self.peek() != Some(b'"') {
                return Err(self.unexpected_error("a key in double quotes"));
            }
            let key = self.parse_string()?;
            let key_span = start..self.at;
            self.skip_whitespace();
            if !self.eat(b':') {
                return Err(self.unexpected_error("':' after the key"));
            }
            self.skip_whitespace();
            let member = JsonMember { value: self.parse_value(depth + 1)?, key: key.clone(), key_span };
            if let Some(earlier) = places.get(&key) {
                let message = format!("the key {key:?} is here a second time; this one counts");
                self.warnings.push(JsonWarning { offset: start, message });
                self.has_duplicate_keys = true;
                members[*earlier] = member;
            } else {
                places.insert(key, members.len());
                members.push(member);
            }
            self.skip_whitespace();
            if self.eat(b'}') {
                return Ok(JsonValue::Object(members));
            }
            self.expect_comma(b'}')?;
        }
    }

    fn parse_array(&mut self, depth: usize) -> Result<JsonValue, JsonSyntaxError> {
        self.at += 1;
        let mut elements = Vec::new();
        self.skip_whitespace();
        if self.eat(b']') {
            return Ok(JsonValue::Array(elements));
        }
        loop {
            elements.push(self.parse_value(depth + 1)?);
            self.skip_whitespace();
            if self.eat(b']') {
                return Ok(JsonValue::Array(elements));
            }
            self.expect_comma(b']')?;
        }
    }

    /// Parses a comma, which must not be the last one.
    fn expect_comma(&mut self, end: u8) -> Result<(), JsonSyntaxError> {
        if !self.eat(b',') {
            return Err(self.unexpected_error(&format!("',' or '{}'", char::from(end))));
        }
        let comma = self.at - 1;
        self.skip_whitespace();
        if self.peek() == Some(end) {
            let message = format!("the comma before '{}' has nothing after it", char::from(end));
            return Err(JsonSyntaxError { offset: comma, message });
        }
        Ok(())
    }

    fn parse_string(&mut self) -> Result<String, JsonSyntaxError> {
        let opening = self.at;
        self.at += 1;
        let mut text = String::new();
        loop {
            let start = self.at;
            while self.peek().is_some_and(|byte| byte != b'"' && byte != b'\\' && byte >= 0x20) {
                self.at += 1;
            }
            // Quotes, backslashes and controls are single bytes, so both ends are character boundaries.
            text.push_str(&self.text[start..self.at]);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => text.push(self.parse_escape()?),
                Some(_) => return Err(self.error_here("a string must not contain a raw control character or line end")),
                None => {
                    return Err(JsonSyntaxError { offset: opening, message: "this text has no closing quote".into() });
                }
            }
        }
    }

    fn parse_escape(&mut self) -> Result<char, JsonSyntaxError> {
        let start = self.at;
        self.at += 1;
        let letter = self.peek();
        self.at += 1;
        let plain = match letter {
            Some(mark @ (b'"' | b'\\' | b'/')) => char::from(mark),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.parse_unicode_escape(start),
            _ => return Err(JsonSyntaxError { offset: start, message: "this is no escape that JSON has".into() }),
        };
        Ok(plain)
    }

    fn parse_unicode_escape(&mut self, start: usize) -> Result<char, JsonSyntaxError> {
        let first = self.parse_hex4(start)?;
        if let Some(plain) = char::from_u32(first) {
            return Ok(plain);
        }
        // Half of a surrogate pair: valid only with its other half.
        if first < 0xdc00 && self.bytes[self.at..].starts_with(b"\\u") {
            let before = self.at;
            self.at += 2;
            let second = self.parse_hex4(before)?;
            if (0xdc00..0xe000).contains(&second)
                && let Some(pair) = char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00))
            {
                return Ok(pair);
            }
            self.at = before;
        }
        let message = format!("\\u{first:04x} is half a character; it is read as U+FFFD");
        self.warnings.push(JsonWarning { offset: start, message });
        Ok(char::REPLACEMENT_CHARACTER)
    }

    fn parse_hex4(&mut self, start: usize) -> Result<u32, JsonSyntaxError> {
        let digits = self.bytes.get(self.at..self.at + 4).and_then(|digits| std::str::from_utf8(digits).ok());
        let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let Some(code) = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()) else {
            return Err(JsonSyntaxError { offset: start, message: "\\u needs four hexadecimal digits".into() });
        };
        self.at += 4;
        Ok(code)
    }

    fn parse_number(&mut self) -> Result<JsonValue, JsonSyntaxError> {
        let start = self.at;
        while self.peek().is_some_and(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E')) {
            self.at += 1;
        }
        let digits = &self.text[start..self.at];
        serde_json::from_str::<Number>(digits).map(JsonValue::Number).map_err(|_| {
            let shown: String = digits.chars().take(40).collect();
            JsonSyntaxError { offset: start, message: format!("'{shown}' is not a number that can be used") }
        })
    }

    fn parse_literal(&mut self, word: &str, json: JsonValue) -> Result<JsonValue, JsonSyntaxError> {
        let end = self.at + word.len();
        let follows = self.bytes.get(end).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
        if !self.bytes[self.at..].starts_with(word.as_bytes()) || follows {
            return Err(self.unexpected_error("a value"));
        }
        self.at = end;
        Ok(json)
    }

    fn skip_whitespace(&mut self) {
        while self.peek().is_some_and(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn error_here(&self, message: impl Into<String>) -> JsonSyntaxError {
        JsonSyntaxError { offset: self.at, message: message.into() }
    }

    fn unexpected_error(&self, wanted: &str) -> JsonSyntaxError {
        match self.text.get(self.at..).and_then(|rest| rest.chars().next()) {
            None => self.error_here(format!("unexpected end of file, expected {wanted}")),
            Some('/') => self.error_here(format!("expected {wanted} (comments are not allowed)")),
            Some('\'') => self.error_here(format!("expected {wanted} (JSON strings need double quotes)")),
            Some(found) => self.error_here(format!("expected {wanted}, got {found:?}")),
        }
    }
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
