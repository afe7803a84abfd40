//! Serialization of a segment's frozen tool list for the transcript.

use std::borrow::Cow;
use std::sync::Arc;

use gimlet_proto::ToolDef;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

#[derive(Serialize, Deserialize)]
struct StoredToolDef<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    description: Cow<'a, str>,
    #[serde(borrow)]
    input_schema: &'a RawValue,
    eager_input: bool,
    defer_loading: bool,
}

/// Serializes a tool list for the session.
pub fn tools_to_json(tools: &[ToolDef]) -> String {
    let stored: Vec<StoredToolDef<'_>> = tools
        .iter()
        .map(|tool| StoredToolDef {
            name: Cow::Borrowed(&tool.name),
            description: Cow::Borrowed(&tool.description),
            input_schema: &tool.input_schema,
            eager_input: tool.eager_input,
            defer_loading: tool.defer_loading,
        })
        .collect();
    // Strings, booleans and raw JSON: writing them to memory cannot fail.
    serde_json::to_string(&stored).unwrap_or_default()
}

/// Parses a stored tool list; `None` if it is invalid.
pub fn tools_from_json(json: &str) -> Option<Arc<[ToolDef]>> {
    let stored: Vec<StoredToolDef<'_>> = serde_json::from_str(json).ok()?;
    let tools = stored.into_iter().map(|tool| ToolDef {
        name: tool.name.into_owned(),
        description: tool.description.into_owned(),
        input_schema: tool.input_schema.to_owned(),
        eager_input: tool.eager_input,
        defer_loading: tool.defer_loading,
    });
    Some(tools.collect::<Vec<_>>().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_list_comes_back_byte_for_byte() {
        let schema = RawValue::from_string(r#"{"type":"object","z":1.0,"a":"\u00e9"}"#.to_owned()).unwrap();
        let tool = ToolDef {
            name: "Read".into(),
            description: "Reads \"a\" file\n".into(),
            input_schema: schema,
            eager_input: true,
            defer_loading: false,
        };
        let back = tools_from_json(&tools_to_json(std::slice::from_ref(&tool))).unwrap();
        assert_eq!(back[0].input_schema.get(), tool.input_schema.get());
        assert_eq!((&back[0].name, &back[0].description), (&tool.name, &tool.description));
        assert!(back[0].eager_input && tools_from_json("{").is_none());
    }
}
