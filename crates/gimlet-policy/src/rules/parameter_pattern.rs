//! Rules about one top-level parameter of a call, `Tool(parameter:value)`: they can only forbid. The value is compared
//! as text; a parameter that was left out never matches.

use serde_json::{Map, Value};

use super::{MatchCertainty, matches_wildcard};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ParameterPattern {
    name: String,
    /// `*` stands for any run of characters.
    value: String,
}

impl ParameterPattern {
    pub(super) fn new(name: &str, value: &str) -> Option<Self> {
        (!name.is_empty() && !value.is_empty()).then(|| Self { name: name.to_owned(), value: value.to_owned() })
    }

    /// Returns the certainty that the parameters match; unknown ones may be anything.
    pub(crate) fn forbids(&self, input: Option<&Map<String, Value>>) -> MatchCertainty {
        let Some(input) = input else { return MatchCertainty::Perhaps };
        let given = match input.get(&self.name) {
            Some(Value::String(text)) => text.clone(),
            Some(scalar @ (Value::Bool(_) | Value::Number(_))) => scalar.to_string(),
            Some(Value::Null | Value::Array(_) | Value::Object(_)) | None => return MatchCertainty::No,
        };
        if matches_wildcard(&self.value, &given) { MatchCertainty::Yes } else { MatchCertainty::No }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_match_as_text_and_nothing_else_does() {
        let input = serde_json::json!({"a": true, "b": 15, "c": "long text", "d": [1], "e": null});
        let fits = |name: &str, value: &str| ParameterPattern::new(name, value).unwrap().forbids(input.as_object());
        for (name, value) in [("a", "true"), ("b", "15"), ("b", "1*"), ("c", "long*"), ("c", "*"), ("a", "*")] {
            assert_eq!(fits(name, value), MatchCertainty::Yes, "{name}:{value}");
        }
        for (name, value) in [("a", "false"), ("b", "1"), ("c", "long"), ("d", "*"), ("e", "*"), ("left_out", "*")] {
            assert_eq!(fits(name, value), MatchCertainty::No, "{name}:{value}");
        }
        assert_eq!(ParameterPattern::new("a", "true").unwrap().forbids(None), MatchCertainty::Perhaps);
    }
}
