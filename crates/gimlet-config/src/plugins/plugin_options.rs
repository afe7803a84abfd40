//! Options of a plugin: what its manifest asks the user for, and the values that settings give.

use serde_json::Value;

use super::value_text;
use crate::json::{JsonNode, JsonValue};

/// Type of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OptionKind {
    Text,
    Number,
    Flag,
    /// A folder or a file.
    Path,
}

/// Option that a manifest declares.
#[derive(Clone, Debug)]
pub(super) struct PluginOption {
    pub(super) key: String,
    kind: OptionKind,
    pub(super) is_secret: bool,
    pub(super) is_required: bool,
    is_multiple: bool,
    default: Option<Value>,
}

/// Value of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginOptionValue {
    pub key: String,
    pub value: String,
    /// True if the value must not reach the model.
    pub is_secret: bool,
}

impl PluginOptionValue {
    /// Returns the variables that have the value in the environment of hooks.
    pub(super) fn variables(&self) -> Vec<(String, String)> {
        let (plain, upper) = (option_variable(&self.key), option_variable(&self.key).to_ascii_uppercase());
        let mut variables = vec![(plain.clone(), self.value.clone())];
        if upper != plain {
            variables.push((upper, self.value.clone()));
        }
        variables
    }
}

/// Returns the variable of an option.
pub(super) fn option_variable(key: &str) -> String {
    let keep = |mark: char| if mark.is_ascii_alphanumeric() || mark == '_' { mark } else { '_' };
    format!("CLAUDE_PLUGIN_OPTION_{}", key.chars().map(keep).collect::<String>())
}

impl PluginOption {
    pub(super) fn parse(key: &str, node: &JsonNode) -> Result<Self, String> {
        if !matches!(node.json, JsonValue::Object(_)) {
            return Err("should be an object with `type` and `title`".to_owned());
        }
        if key.is_empty() || !key.chars().all(|mark| mark.is_ascii_alphanumeric() || matches!(mark, '_' | '-')) {
            return Err("the name of an option consists of letters, digits, `_` and `-`".to_owned());
        }
        let kind = match node.get("type").and_then(JsonNode::as_str) {
            Some("string") => OptionKind::Text,
            Some("number") => OptionKind::Number,
            Some("boolean") => OptionKind::Flag,
            Some("directory" | "file") => OptionKind::Path,
            _ => return Err("`type` should be string, number, boolean, directory or file".to_owned()),
        };
        let flag = |name: &str| match node.get(name).map(|node| &node.json) {
            None => Ok(false),
            Some(JsonValue::Bool(is_set)) => Ok(*is_set),
            Some(_) => Err(format!("`{name}` should be true or false")),
        };
        let option = Self {
            key: key.to_owned(),
            kind,
            is_secret: flag("sensitive")?,
            is_required: flag("required")?,
            is_multiple: flag("multiple")?,
            default: node.get("default").map(JsonNode::to_value),
        };
        match &option.default {
            Some(value) if !option.accepts(value) => Err("`default` does not have its type".to_owned()),
            _ => Ok(option),
        }
    }

    fn accepts(&self, value: &Value) -> bool {
        match value {
            Value::Array(values) => self.is_multiple && values.iter().all(|value| self.accepts_single(value)),
            value => self.accepts_single(value),
        }
    }

    fn accepts_single(&self, value: &Value) -> bool {
        match self.kind {
            OptionKind::Text | OptionKind::Path => value.is_string(),
            OptionKind::Number => value.is_number(),
            OptionKind::Flag => value.is_boolean(),
        }
    }

    /// Returns the value that settings or, for a secret, the environment give, or the default. `Err` says what is wrong
    /// with a given value, or that one is missing; the default then counts.
    pub(super) fn value(
        &self,
        configured: Option<&Value>,
        environment: Option<String>,
    ) -> (Option<PluginOptionValue>, Option<String>) {
        let make = |value: String| PluginOptionValue { key: self.key.clone(), value, is_secret: self.is_secret };
        let default = || self.default.as_ref().and_then(value_text).map(make);
        if let Some(value) = environment {
            return (Some(make(value)), None);
        }
        match configured {
            Some(_) if self.is_secret => {
                let why = format!("is a secret: give it in {} instead of a settings file", option_variable(&self.key));
                (default(), Some(why))
            }
            Some(value) if self.accepts(value) => (value_text(value).map(make), None),
            Some(_) => (default(), Some("does not have its type".to_owned())),
            None => {
                let is_missing = self.is_required && self.default.is_none();
                (default(), is_missing.then(|| "is required and has no value".to_owned()))
            }
        }
    }
}
