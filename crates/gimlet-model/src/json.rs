//! Two small JSON readers that keep data which the usual ones lose: broken strings, and the order and bytes of members.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;

/// JSON string: borrowed when it has no escapes, and never rejected. A lone surrogate becomes U+FFFD.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LossyText<'a>(pub(crate) Cow<'a, str>);

impl LossyText<'_> {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn into_string(self) -> String {
        self.0.into_owned()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for LossyText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct LossyTextVisitor;
        impl<'de> Visitor<'de> for LossyTextVisitor {
            type Value = LossyText<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_bytes<E: Error>(self, bytes: &'de [u8]) -> Result<Self::Value, E> {
                Ok(LossyText(String::from_utf8_lossy(bytes)))
            }
            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Self::Value, E> {
                Ok(LossyText(Cow::Owned(String::from_utf8_lossy(bytes).into_owned())))
            }
        }
        // As bytes, because the string deserializer rejects a lone surrogate and the byte deserializer does not.
        deserializer.deserialize_bytes(LossyTextVisitor)
    }
}

/// Members of an object in their original order, values untouched.
#[derive(Debug, Default)]
pub(crate) struct OrderedMembers(Vec<(String, Box<RawValue>)>);

impl OrderedMembers {
    pub(crate) fn get(&self, name: &str) -> Option<&RawValue> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_ref())
    }

    pub(crate) fn string(&self, name: &str) -> Option<String> {
        let text: LossyText<'_> = serde_json::from_str(self.get(name)?.get()).ok()?;
        Some(text.into_string())
    }

    /// Returns the names and values.
    pub(crate) fn into_pairs(self) -> Vec<(String, String)> {
        self.0.into_iter().map(|(name, value)| (name, value.get().to_owned())).collect()
    }

    /// Renders the object: `changed` members in place of their old values, new ones at the end.
    pub(crate) fn render(&self, changed: &[(&str, String)]) -> String {
        let size = self.0.iter().map(|(key, value)| key.len() + value.get().len() + 4).sum::<usize>()
            + changed.iter().map(|(key, value)| key.len() + value.len() + 4).sum::<usize>();
        let mut out = String::with_capacity(size + 2);
        out.push('{');
        for (key, value) in &self.0 {
            let value = changed.iter().find(|(name, _)| name == key).map_or(value.get(), |(_, new)| new.as_str());
            push_member(&mut out, key, value);
        }
        for (key, value) in changed.iter().filter(|(name, _)| self.get(name).is_none()) {
            push_member(&mut out, key, value);
        }
        out.push('}');
        out
    }
}

fn push_member(out: &mut String, key: &str, value: &str) {
    if !out.ends_with('{') {
        out.push(',');
    }
    push_string(out, key);
    out.push(':');
    out.push_str(value);
}

impl<'de> Deserialize<'de> for OrderedMembers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OrderedMembersVisitor;
        impl<'de> Visitor<'de> for OrderedMembersVisitor {
            type Value = OrderedMembers;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OrderedMembers, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(OrderedMembers(members))
            }
        }
        deserializer.deserialize_map(OrderedMembersVisitor)
    }
}

/// Appends a JSON string with only the escapes that JSON requires, deterministic across processes.
pub(crate) fn push_string(out: &mut String, text: &str) {
    out.push('"');
    let mut start = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0x08 => "\\b",
            0x0C => "\\f",
            0..0x20 => "",
            _ => continue,
        };
        out.push_str(&text[start..at]);
        if escape.is_empty() {
            const HEX: &[u8; 16] = b"0123456789abcdef";
            out.push_str("\\u00");
            out.push(HEX[usize::from(byte >> 4)].into());
            out.push(HEX[usize::from(byte & 15)].into());
        } else {
            out.push_str(escape);
        }
        start = at + 1;
    }
    out.push_str(&text[start..]);
    out.push('"');
}

pub(crate) fn to_json_string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    push_string(&mut out, text);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_borrowed_until_they_have_escapes_and_survive_lone_surrogates() {
        let plain: LossyText<'_> = serde_json::from_str(r#""plain é""#).unwrap();
        assert!(matches!(plain.0, Cow::Borrowed("plain é")));
        let escaped: LossyText<'_> = serde_json::from_str(r#""a\n\u00e9""#).unwrap();
        assert_eq!(escaped.as_str(), "a\né");
        let lone: LossyText<'_> = serde_json::from_str(r#""a\ud83d""#).unwrap();
        assert!(lone.as_str().starts_with("a\u{FFFD}"));
    }

    #[test]
    fn own_escapes_are_those_of_serde_json() {
        let every: String = (0..0x250u32).filter_map(char::from_u32).chain("😀\u{2028}".chars()).collect();
        assert_eq!(to_json_string(&every), serde_json::to_string(&every).unwrap());
    }

    #[test]
    fn members_keep_order_bytes_and_unknown_keys() {
        let members: OrderedMembers = serde_json::from_str(r#"{"z":1.0,"text":"","a":{"k":1e400}}"#).unwrap();
        assert_eq!(
            members.render(&[("text", "\"hi\"".into()), ("new", "[]".into())]),
            r#"{"z":1.0,"text":"hi","a":{"k":1e400},"new":[]}"#
        );
    }
}
