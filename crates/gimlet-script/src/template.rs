//! Templates `{{name}}` in scripted texts: variables of the script, and values from the request itself.
//!
//! An unknown name stays as it is, because double braces are ordinary text in many files.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::ReceivedRequest;

/// The values that one reply's placeholders can take.
pub(crate) struct ReplyTemplate<'a> {
    vars: &'a BTreeMap<String, String>,
    request: &'a ReceivedRequest,
}

impl<'a> ReplyTemplate<'a> {
    pub(crate) fn new(vars: &'a BTreeMap<String, String>, request: &'a ReceivedRequest) -> Self {
        Self { vars, request }
    }

    /// Fills one text; `n` counts the copies of a repeated block.
    pub(crate) fn fill(&self, text: &str, n: usize) -> String {
        if !text.contains("{{") {
            return text.to_owned();
        }
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find("{{") {
            out.push_str(&rest[..start]);
            rest = &rest[start..];
            let Some(end) = rest.find("}}") else { break };
            match self.value(rest[2..end].trim(), n) {
                Some(value) => {
                    out.push_str(&value);
                    rest = &rest[end + 2..];
                }
                None => {
                    out.push_str("{{");
                    rest = &rest[2..];
                }
            }
        }
        out.push_str(rest);
        out
    }

    /// Fills every string inside a value; keys stay.
    pub(crate) fn fill_value(&self, value: &Value, n: usize) -> Value {
        match value {
            Value::String(text) => Value::String(self.fill(text, n)),
            Value::Array(items) => Value::Array(items.iter().map(|item| self.fill_value(item, n)).collect()),
            Value::Object(map) => {
                Value::Object(map.iter().map(|(key, value)| (key.clone(), self.fill_value(value, n))).collect())
            }
            other => other.clone(),
        }
    }

    fn value(&self, name: &str, n: usize) -> Option<String> {
        match name {
            "last_result" => self.request.tool_results().pop(),
            "last_user_text" => Some(self.request.last_user_text()),
            "model" => Some(self.request.model().to_owned()),
            "n" => Some(n.to_string()),
            _ => self.vars.get(name).cloned(),
        }
    }
}
