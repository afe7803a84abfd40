//! Searchable text of a transcript's line: prompts, replies, calls and results. No images, no bookkeeping.

use std::borrow::Cow;

use serde_json::Value;
use serde_json::value::RawValue;

use super::HitRole;
use crate::raw_members::{RawJsonMembers, unescaped_string};

/// Maximum length of searched text per entry: the tail of a huge log is not worth indexing.
pub(super) const MOST_TEXT: usize = 256 << 10;

/// An entry as the search sees it.
pub(super) struct SearchableText {
    pub(super) role: HitRole,
    pub(super) time_ms: Option<i64>,
    pub(super) entry: Option<String>,
    pub(super) text: String,
}

/// Reads the beginning of a result that has a file of its own; nothing when it is no text.
pub(super) fn read_result_text(bytes: &[u8]) -> Option<SearchableText> {
    if bytes.contains(&0) {
        return None;
    }
    let text = String::from_utf8_lossy(bytes).into_owned();
    let said = SearchableText { role: HitRole::Result, time_ms: None, entry: None, text };
    (!said.text.trim().is_empty()).then_some(said)
}

/// Reads one line; nothing when there is nothing to search in it.
pub(super) fn read_entry_text(line: &[u8]) -> Option<SearchableText> {
    let (mut kind, mut message, mut time, mut entry, mut title) = (None, None, None, None, None);
    let mut members = RawJsonMembers::new(line);
    for (key, value) in members.by_ref() {
        match key {
            b"type" => kind = unescaped_string(value),
            b"message" => message = Some(value),
            b"timestamp" => time = unescaped_string(value),
            b"uuid" => entry = unescaped_string(value),
            b"customTitle" | b"aiTitle" | b"summary" => title = Some(value),
            // Added by the program, not by the user or the model.
            b"isMeta" if value == b"true" => return None,
            _ => {}
        }
    }
    members.rest()?;
    let (role, mut text) = match kind? {
        b"user" => message_text(message?, HitRole::User)?,
        b"assistant" => message_text(message?, HitRole::Assistant)?,
        b"custom-title" | b"ai-title" | b"summary" => (HitRole::Title, serde_json::from_slice::<String>(title?).ok()?),
        _ => return None,
    };
    if text.len() > MOST_TEXT {
        text.truncate(text.floor_char_boundary(MOST_TEXT));
    }
    let utf8 = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
    let time_ms = time.and_then(utf8).and_then(|time| time.parse::<jiff::Timestamp>().ok());
    let said = SearchableText {
        role,
        time_ms: time_ms.map(jiff::Timestamp::as_millisecond),
        entry: entry.and_then(utf8),
        text,
    };
    (!said.text.trim().is_empty()).then_some(said)
}

fn message_text(message: &[u8], speaker: HitRole) -> Option<(HitRole, String)> {
    let (_, content) = RawJsonMembers::new(message).find(|(key, _)| *key == b"content")?;
    if content.starts_with(b"\"") {
        return Some((speaker, serde_json::from_slice(content).ok()?));
    }
    let blocks: Vec<&RawValue> = serde_json::from_slice(content).ok()?;
    let (mut role, mut text) = (speaker, String::new());
    for block in blocks {
        let kind = RawJsonMembers::new(block.get().as_bytes())
            .find(|(key, _)| *key == b"type")
            .and_then(|(_, it)| unescaped_string(it));
        match kind {
            Some(b"text" | b"thinking" | b"tool_use" | b"tool_result") => {}
            _ => continue,
        }
        let Ok(value) = serde_json::from_str::<Value>(block.get()) else { continue };
        match kind {
            Some(b"tool_use") => {
                role = HitRole::Call;
                append_text(&mut text, value["name"].as_str().unwrap_or_default());
                append_strings(&mut text, &value["input"]);
            }
            Some(b"tool_result") => {
                role = HitRole::Result;
                match &value["content"] {
                    Value::String(result) => append_text(&mut text, result),
                    Value::Array(parts) => {
                        parts
                            .iter()
                            .filter_map(|part| part["text"].as_str())
                            .for_each(|part| append_text(&mut text, part));
                    }
                    _ => {}
                }
            }
            _ => append_text(&mut text, value["text"].as_str().or(value["thinking"].as_str()).unwrap_or_default()),
        }
    }
    Some((role, text))
}

fn append_text(text: &mut String, more: &str) {
    if text.len() > MOST_TEXT || more.is_empty() {
        return;
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(more);
}

/// Appends every text in the input of a call, under any key.
fn append_strings(text: &mut String, value: &Value) {
    match value {
        Value::String(string) => append_text(text, string),
        Value::Array(items) => items.iter().for_each(|item| append_strings(text, item)),
        Value::Object(members) => members.values().for_each(|member| append_strings(text, member)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns the text with scripts that have no spaces between words split up, so that each of their characters is a
/// word.
pub(super) fn separate_unspaced_chars(text: &str) -> Cow<'_, str> {
    if text.is_ascii() || !text.chars().any(is_unspaced_script) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() * 2);
    for char in text.chars() {
        if is_unspaced_script(char) {
            out.push(' ');
            out.push(char);
            out.push(' ');
        } else {
            out.push(char);
        }
    }
    Cow::Owned(out)
}

fn is_unspaced_script(char: char) -> bool {
    matches!(char, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{2fa1f}')
}
