//! Strict JSON that remembers where everything stands: every value has its place in the text, so that a message can
//! name a line and an edit can leave the rest of a file alone. No comments, no trailing commas. Depth is bounded, and no
//! sequence of bytes makes it panic.

mod salvage;
mod text;

use std::collections::HashMap;
use std::ops::Range;

use serde_json::{Map, Number, Value};

pub(crate) use salvage::restrictions;
pub(crate) use text::{JsonError, JsonText, Position};

/// Deeper nesting than this is an error.
const MAX_DEPTH: usize = 128;

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) json: Json,
    pub(crate) span: Range<usize>,
}

/// What a value is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Number(Number),
    String(String),
    Array(Vec<Node>),
    Object(Vec<Member>),
}

/// One `"key": value` of an object. Keys are unique: of several, the last counts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Member {
    pub(crate) key: String,
    pub(crate) key_span: Range<usize>,
    pub(crate) value: Node,
}

/// A text that was read, and what was odd about it.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) root: Node,
    pub(crate) remarks: Vec<Remark>,
    /// Whether a key hides an earlier one of the same name.
    pub(crate) hides_keys: bool,
}

/// Something that is legal and probably a mistake.
#[derive(Debug, PartialEq)]
pub(crate) struct Remark {
    pub(crate) offset: usize,
    pub(crate) message: String,
}

/// Reads one JSON value that fills the text.
pub(crate) fn parse(text: &str) -> Result<Parsed, JsonError> {
    // Some editors write a byte order mark; it is no part of the value.
    let start = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let mut reader = Reader::new(text);
    reader.at = start;
    reader.space();
    let root = reader.value(0)?;
    reader.space();
    if reader.at < text.len() {
        return Err(reader.error("there is more text after the end of the JSON value"));
    }
    Ok(Parsed { root, hides_keys: reader.hides_keys, remarks: reader.remarks })
}

impl Node {
    /// The member of an object.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        self.members().iter().find(|member| member.key == key).map(|member| &member.value)
    }

    pub(crate) fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        self.members_mut()?.iter_mut().find(|member| member.key == key).map(|member| &mut member.value)
    }

    /// The value that a path of keys leads to.
    pub(crate) fn find<'k>(&self, path: impl IntoIterator<Item = &'k str>) -> Option<&Node> {
        path.into_iter().try_fold(self, |node, key| node.get(key))
    }

    pub(crate) fn find_mut<'k>(&mut self, path: impl IntoIterator<Item = &'k str>) -> Option<&mut Node> {
        path.into_iter().try_fold(self, |node, key| node.get_mut(key))
    }

    /// The members of an object; none for anything else.
    pub(crate) fn members(&self) -> &[Member] {
        if let Json::Object(members) = &self.json { members } else { &[] }
    }

    pub(crate) fn members_mut(&mut self) -> Option<&mut Vec<Member>> {
        if let Json::Object(members) = &mut self.json { Some(members) } else { None }
    }

    /// The elements of an array; none for anything else.
    pub(crate) fn elements(&self) -> &[Node] {
        if let Json::Array(elements) = &self.json { elements } else { &[] }
    }

    pub(crate) fn elements_mut(&mut self) -> Option<&mut Vec<Node>> {
        if let Json::Array(elements) = &mut self.json { Some(elements) } else { None }
    }

    pub(crate) fn as_str(&self) -> Option<&str> {
        if let Json::String(text) = &self.json { Some(text) } else { None }
    }

    /// The member of an object, made if it is not there; nothing for what is no object.
    pub(crate) fn entry(&mut self, key: &str, make: impl FnOnce() -> Json) -> Option<&mut Node> {
        let span = self.span.clone();
        let members = self.members_mut()?;
        let at = members.iter().position(|member| member.key == key).unwrap_or_else(|| {
            let value = Node { json: make(), span: span.clone() };
            members.push(Member { key: key.to_owned(), key_span: span, value });
            members.len() - 1
        });
        members.get_mut(at).map(|member| &mut member.value)
    }

    /// Takes a member out of an object.
    pub(crate) fn remove(&mut self, key: &str) -> Option<Member> {
        let members = self.members_mut()?;
        let at = members.iter().position(|member| member.key == key)?;
        Some(members.remove(at))
    }

    /// The same value without its places.
    pub(crate) fn to_value(&self) -> Value {
        match &self.json {
            Json::Null => Value::Null,
            Json::Bool(yes) => Value::Bool(*yes),
            Json::Number(number) => Value::Number(number.clone()),
            Json::String(text) => Value::String(text.clone()),
            Json::Array(elements) => Value::Array(elements.iter().map(Node::to_value).collect()),
            Json::Object(members) => {
                let members = members.iter().map(|member| (member.key.clone(), member.value.to_value()));
                Value::Object(members.collect::<Map<String, Value>>())
            }
        }
    }

    /// What kind of value this is, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self.json {
            Json::Null => "null",
            Json::Bool(_) => "true or false",
            Json::Number(_) => "a number",
            Json::String(_) => "a text",
            Json::Array(_) => "a list",
            Json::Object(_) => "an object",
        }
    }
}

struct Reader<'t> {
    bytes: &'t [u8],
    text: &'t str,
    at: usize,
    remarks: Vec<Remark>,
    hides_keys: bool,
}

impl<'t> Reader<'t> {
    fn new(text: &'t str) -> Self {
        Self { bytes: text.as_bytes(), text, at: 0, remarks: Vec::new(), hides_keys: false }
    }

    fn value(&mut self, depth: usize) -> Result<Node, JsonError> {
        if depth > MAX_DEPTH {
            return Err(self.error(format!("values are nested more than {MAX_DEPTH} deep")));
        }
        let start = self.at;
        let json = match self.peek() {
            Some(b'{') => self.object(depth)?,
            Some(b'[') => self.array(depth)?,
            Some(b'"') => Json::String(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b't') => self.word("true", Json::Bool(true))?,
            Some(b'f') => self.word("false", Json::Bool(false))?,
            Some(b'n') => self.word("null", Json::Null)?,
            _ => return Err(self.unexpected("a value")),
        };
        Ok(Node { json, span: start..self.at })
    }

    fn object(&mut self, depth: usize) -> Result<Json, JsonError> {
        self.at += 1;
        let mut members: Vec<Member> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        self.space();
        if self.eat(b'}') {
            return Ok(Json::Object(members));
        }
        loop {
            let start = self.at;
            if self.peek() != Some(b'"') {
                return Err(self.unexpected("a key in double quotes"));
            }
            let key = self.string()?;
            let key_span = start..self.at;
            self.space();
            if !self.eat(b':') {
                return Err(self.unexpected("':' after the key"));
            }
            self.space();
            let member = Member { value: self.value(depth + 1)?, key: key.clone(), key_span };
            if let Some(earlier) = places.get(&key) {
                let message = format!("the key {key:?} is here a second time; this one counts");
                self.remarks.push(Remark { offset: start, message });
                self.hides_keys = true;
                members[*earlier] = member;
            } else {
                places.insert(key, members.len());
                members.push(member);
            }
            self.space();
            if self.eat(b'}') {
                return Ok(Json::Object(members));
            }
            self.comma(b'}')?;
        }
    }

    fn array(&mut self, depth: usize) -> Result<Json, JsonError> {
        self.at += 1;
        let mut elements = Vec::new();
        self.space();
        if self.eat(b']') {
            return Ok(Json::Array(elements));
        }
        loop {
            elements.push(self.value(depth + 1)?);
            self.space();
            if self.eat(b']') {
                return Ok(Json::Array(elements));
            }
            self.comma(b']')?;
        }
    }

    /// A comma that something follows.
    fn comma(&mut self, end: u8) -> Result<(), JsonError> {
        if !self.eat(b',') {
            return Err(self.unexpected(&format!("',' or '{}'", char::from(end))));
        }
        let comma = self.at - 1;
        self.space();
        if self.peek() == Some(end) {
            let message = format!("the comma before '{}' has nothing after it", char::from(end));
            return Err(JsonError { offset: comma, message });
        }
        Ok(())
    }

    fn string(&mut self) -> Result<String, JsonError> {
        let opening = self.at;
        self.at += 1;
        let mut text = String::new();
        loop {
            let start = self.at;
            while self.peek().is_some_and(|byte| byte != b'"' && byte != b'\\' && byte >= 0x20) {
                self.at += 1;
            }
            // Quotes, backslashes and controls are single bytes, so both ends are borders of characters.
            text.push_str(&self.text[start..self.at]);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => text.push(self.escape()?),
                Some(_) => return Err(self.error("a text must not contain a raw control character or line end")),
                None => return Err(JsonError { offset: opening, message: "this text has no closing quote".into() }),
            }
        }
    }

    fn escape(&mut self) -> Result<char, JsonError> {
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
            Some(b'u') => return self.unicode_escape(start),
            _ => return Err(JsonError { offset: start, message: "this is no escape that JSON has".into() }),
        };
        Ok(plain)
    }

    fn unicode_escape(&mut self, start: usize) -> Result<char, JsonError> {
        let first = self.hex4(start)?;
        if let Some(plain) = char::from_u32(first) {
            return Ok(plain);
        }
        // Half of a pair: with its other half it is a character, alone it is none.
        if first < 0xdc00 && self.bytes[self.at..].starts_with(b"\\u") {
            let before = self.at;
            self.at += 2;
            let second = self.hex4(before)?;
            if (0xdc00..0xe000).contains(&second)
                && let Some(pair) = char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00))
            {
                return Ok(pair);
            }
            self.at = before;
        }
        let message = format!("\\u{first:04x} is half a character; it is read as U+FFFD");
        self.remarks.push(Remark { offset: start, message });
        Ok(char::REPLACEMENT_CHARACTER)
    }

    fn hex4(&mut self, start: usize) -> Result<u32, JsonError> {
        let digits = self.bytes.get(self.at..self.at + 4).and_then(|digits| std::str::from_utf8(digits).ok());
        let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let Some(code) = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()) else {
            return Err(JsonError { offset: start, message: "\\u needs four hexadecimal digits".into() });
        };
        self.at += 4;
        Ok(code)
    }

    fn number(&mut self) -> Result<Json, JsonError> {
        let start = self.at;
        while self.peek().is_some_and(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E')) {
            self.at += 1;
        }
        let digits = &self.text[start..self.at];
        serde_json::from_str::<Number>(digits).map(Json::Number).map_err(|_| {
            let shown: String = digits.chars().take(40).collect();
            JsonError { offset: start, message: format!("'{shown}' is not a number that can be used") }
        })
    }

    fn word(&mut self, word: &str, json: Json) -> Result<Json, JsonError> {
        let end = self.at + word.len();
        let follows = self.bytes.get(end).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
        if !self.bytes[self.at..].starts_with(word.as_bytes()) || follows {
            return Err(self.unexpected("a value"));
        }
        self.at = end;
        Ok(json)
    }

    fn space(&mut self) {
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

    fn error(&self, message: impl Into<String>) -> JsonError {
        JsonError { offset: self.at, message: message.into() }
    }

    fn unexpected(&self, wanted: &str) -> JsonError {
        match self.text.get(self.at..).and_then(|rest| rest.chars().next()) {
            None => self.error(format!("the text ends where {wanted} should stand")),
            Some('/') => self.error(format!("{wanted} should stand here; JSON has no comments")),
            Some('\'') => self.error(format!("{wanted} should stand here; JSON knows only double quotes")),
            Some(found) => self.error(format!("{wanted} should stand here, not {found:?}")),
        }
    }
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
