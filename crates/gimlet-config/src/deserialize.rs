//! Deserialization of a JSON value with positions into a Rust type: mismatches are reported by key and position.

use std::fmt;
use std::ops::Range;

use serde::de::{
    self, DeserializeSeed, Deserializer, Error, Expected, IntoDeserializer, MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;

use crate::json::{JsonMember, JsonNode, JsonValue};

/// Reason why a value does not fit its type.
#[derive(Debug)]
pub(crate) struct ValueMismatch {
    message: String,
    /// The value found instead, if it may be shown.
    found: Option<String>,
    /// Position of the innermost value that does not fit.
    pub(crate) span: Option<Range<usize>>,
    /// Keys that lead there, the innermost first.
    keys: Vec<String>,
}

impl ValueMismatch {
    /// Creates a mismatch for a value that fits its type and still cannot be used.
    pub(crate) fn for_key(root: &JsonNode, path: &str, message: impl Into<String>) -> Self {
        let span = root.find(path.split('.')).map(|node| node.span.clone());
        Self { message: message.into(), found: None, span, keys: path.rsplit('.').map(str::to_owned).collect() }
    }

    /// Returns the key of the value, such as `sandbox.enabled`.
    pub(crate) fn key(&self) -> String {
        let keys: Vec<&str> = self.keys.iter().rev().map(String::as_str).collect();
        keys.join(".")
    }

    fn with_span(mut self, span: &Range<usize>) -> Self {
        self.span.get_or_insert_with(|| span.clone());
        self
    }

    fn with_parent_key(mut self, key: impl Into<String>) -> Self {
        let key = key.into();
        // Environment variables often hold tokens.
        if key == "env" {
            self.found = None;
        }
        self.keys.push(key);
        self
    }
}

impl fmt::Display for ValueMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.found.iter().try_for_each(|found| write!(f, ", got {found}"))
    }
}

impl std::error::Error for ValueMismatch {}

impl Error for ValueMismatch {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self { message: message.to_string(), found: None, span: None, keys: Vec::new() }
    }

    fn invalid_type(found: Unexpected<'_>, wanted: &dyn Expected) -> Self {
        let message = format!("expected {}", describe_expected(&wanted.to_string()));
        Self { found: Some(describe_found(found)), ..Self::custom(message) }
    }

    fn invalid_value(found: Unexpected<'_>, wanted: &dyn Expected) -> Self {
        Self::invalid_type(found, wanted)
    }

    fn unknown_variant(found: &str, wanted: &'static [&'static str]) -> Self {
        Self::custom(format!("{found:?} is none of {}", wanted.join(", ")))
    }

    fn missing_field(field: &'static str) -> Self {
        Self::custom(format!("there is no {field:?}"))
    }
}

/// Returns the name of a Rust type in JSON terms.
fn describe_expected(wanted: &str) -> &str {
    match wanted {
        "a string" | "string" => "a string",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "an object",
        "f64" => "a number",
        "a nonzero u32" => "a whole number above 0",
        "u16" => "a whole number up to 65535",
        "u32" | "u64" => "a whole number",
        wanted if wanted.starts_with("struct ") => "an object",
        wanted => wanted,
    }
}

fn describe_found(found: Unexpected<'_>) -> String {
    match found {
        Unexpected::Bool(yes) => yes.to_string(),
        Unexpected::Unsigned(number) => number.to_string(),
        Unexpected::Signed(number) => number.to_string(),
        Unexpected::Float(number) => number.to_string(),
        Unexpected::Str(text) => format!("{:?}", text.chars().take(60).collect::<String>()),
        Unexpected::Unit | Unexpected::Option => "null".into(),
        Unexpected::Seq => "a list".into(),
        Unexpected::Map => "an object".into(),
        other => other.to_string(),
    }
}

impl<'de> Deserializer<'de> for &'de JsonNode {
    type Error = ValueMismatch;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueMismatch> {
        let read = match &self.json {
            JsonValue::Null => visitor.visit_unit(),
            JsonValue::Bool(yes) => visitor.visit_bool(*yes),
            JsonValue::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(number), _) => visitor.visit_u64(number),
                (None, Some(number)) => visitor.visit_i64(number),
                // Without arbitrary precision every other number is a float.
                (None, None) => visitor.visit_f64(number.as_f64().unwrap_or(f64::NAN)),
            },
            JsonValue::String(text) => visitor.visit_borrowed_str(text),
            JsonValue::Array(elements) => visitor.visit_seq(ElementAccess { rest: elements.iter().enumerate() }),
            JsonValue::Object(members) => visitor.visit_map(MemberAccess { rest: members.iter(), value: None }),
        };
        read.map_err(|misfit| misfit.with_span(&self.span))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ValueMismatch> {
        if self.json == JsonValue::Null { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, ValueMismatch> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ValueMismatch> {
        let read = match &self.json {
            JsonValue::String(text) => visitor.visit_enum(text.as_str().into_deserializer()),
            _ => {
                Err(ValueMismatch::custom(format!("expected one of {}, got {}", variants.join(", "), self.kind_name())))
            }
        };
        read.map_err(|misfit: ValueMismatch| misfit.with_span(&self.span))
    }

    /// Rejects lists: derived types would accept one for their fields in order.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ValueMismatch> {
        match &self.json {
            JsonValue::Array(_) => Err(ValueMismatch::invalid_type(Unexpected::Seq, &visitor).with_span(&self.span)),
            _ => self.deserialize_any(visitor),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}

struct ElementAccess<'de> {
    rest: std::iter::Enumerate<std::slice::Iter<'de, JsonNode>>,
}

impl<'de> SeqAccess<'de> for ElementAccess<'de> {
    type Error = ValueMismatch;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, ValueMismatch> {
        let Some((at, element)) = self.rest.next() else { return Ok(None) };
        seed.deserialize(element).map(Some).map_err(|misfit| misfit.with_parent_key(at.to_string()))
    }
}

struct MemberAccess<'de> {
    rest: std::slice::Iter<'de, JsonMember>,
    value: Option<&'de JsonMember>,
}

impl<'de> MapAccess<'de> for MemberAccess<'de> {
    type Error = ValueMismatch;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, ValueMismatch> {
        self.value = self.rest.next();
        let Some(member) = self.value else { return Ok(None) };
        let key: de::value::StrDeserializer<'_, ValueMismatch> = member.key.as_str().into_deserializer();
        seed.deserialize(key)
            .map(Some)
            .map_err(|misfit| misfit.with_span(&member.key_span).with_parent_key(&member.key))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, ValueMismatch> {
        let Some(member) = self.value.take() else {
            return Err(ValueMismatch::custom("a value was asked for before its key"));
        };
        seed.deserialize(&member.value)
            .map_err(|misfit| misfit.with_span(&member.value.span).with_parent_key(&member.key))
    }
}
