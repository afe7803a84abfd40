//! Answers of a step: blocks of a message, or a status with a body, and the faults on the way.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::Fault;

/// An answer.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScriptedReply {
    pub blocks: Vec<BlockSpec>,
    /// Left out: `tool_use` when a tool is called, else `end_turn`. `null` is sent as null.
    #[serde(deserialize_with = "present")]
    pub stop_reason: Option<Option<String>>,
    pub stop_sequence: Option<String>,
    /// A refusal's `stop_details`.
    pub stop_details: Option<Value>,
    /// Fields that replace or extend the computed `usage`.
    pub usage: Option<serde_json::Map<String, Value>>,
    /// Any status but 200, or 200 with a custom `body`, makes this an answer without a message.
    pub status: Option<u16>,
    /// Number of times that this answer is sent.
    pub times: Option<u32>,
    pub headers: BTreeMap<String, String>,
    /// A string is sent as it is, anything else as JSON.
    pub body: Option<Value>,
    /// An error body in the dialect's shape.
    pub error: Option<ErrorSpec>,
    pub faults: Vec<Fault>,
    /// Wait before the response's first byte.
    pub delay_ms: u64,
    /// Calls one tool until its result meets a condition.
    pub agent: Option<ScriptedAgent>,
    /// Answers with a digest of the request.
    pub echo: bool,
}

/// Distinguishes an explicit `null` from a missing field.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Option<String>>, D::Error> {
    Option::<String>::deserialize(deserializer).map(Some)
}

/// The parts of an error body that a script may set.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ErrorSpec {
    /// Left out: the type that belongs to the status.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub message: String,
    /// `details.error_code`.
    pub code: Option<String>,
}

/// A small fixed policy: call `tool` with one input after the other until a result contains `until`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedAgent {
    pub tool: String,
    /// Used in turn; the last one is repeated.
    pub inputs: Vec<Value>,
    pub until: String,
    /// Text of the answer after a good result.
    #[serde(default)]
    pub then: Option<String>,
    /// After this many calls without success the step counts as failed.
    #[serde(default = "default_agent_calls")]
    pub max_calls: usize,
}

fn default_agent_calls() -> usize {
    25
}

/// One block of a message.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "BlockFile")]
pub enum BlockSpec {
    /// Text; with `times`, that many deltas of this text.
    Text { text: String, times: usize },
    /// Thinking; `omitted` sends an empty text with its signature.
    Thinking { text: String, omitted: bool },
    /// A tool call; with `times`, that many calls, `{{n}}` in the input counting from 1.
    Tool { name: String, input: ToolInput, id: Option<String>, times: usize },
    /// Any block as it is. `whole` sends it in its start event, without deltas.
    Raw { block: Value, whole: bool },
    /// A server tool's result of about this many bytes, in one event.
    HugeResult { bytes: usize },
}

/// A call's input.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolInput {
    Json(Value),
    /// The text of the deltas, valid JSON or not.
    Raw(String),
    /// An object with one string of this length.
    Bytes(usize),
}

/// A block as it stands in a file: the first of `text`, `thinking`, `tool`, `raw`, `huge_result_bytes` determines its
/// kind.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BlockFile {
    text: Option<String>,
    thinking: Option<String>,
    display: Option<String>,
    tool: Option<String>,
    input: Option<Value>,
    id: Option<String>,
    raw_input: Option<String>,
    input_bytes: Option<usize>,
    raw: Option<Value>,
    whole: Option<bool>,
    huge_result_bytes: Option<usize>,
    times: Option<usize>,
}

impl BlockFile {
    /// Returns the fields that are present, of those that need a certain kind of block.
    fn companions(&self) -> Vec<&'static str> {
        let all = [
            ("display", self.display.is_some()),
            ("input", self.input.is_some()),
            ("id", self.id.is_some()),
            ("raw_input", self.raw_input.is_some()),
            ("input_bytes", self.input_bytes.is_some()),
            ("whole", self.whole.is_some()),
            ("times", self.times.is_some()),
        ];
        all.iter().filter(|(_, present)| *present).map(|(name, _)| *name).collect()
    }

    fn tool_input(&mut self) -> Result<ToolInput, String> {
        match (self.input.take(), self.raw_input.take(), self.input_bytes) {
            (input, None, None) => Ok(ToolInput::Json(input.unwrap_or_else(|| Value::Object(serde_json::Map::new())))),
            (None, Some(raw), None) => Ok(ToolInput::Raw(raw)),
            (None, None, Some(bytes)) => Ok(ToolInput::Bytes(bytes)),
            _ => Err("a tool call has one of `input`, `raw_input` and `input_bytes`".to_owned()),
        }
    }
}

impl TryFrom<BlockFile> for BlockSpec {
    type Error = String;

    fn try_from(mut file: BlockFile) -> Result<Self, String> {
        let companions = file.companions();
        let only = |kind: &str, allowed: &[&str]| match companions.iter().find(|name| !allowed.contains(name)) {
            Some(name) => Err(format!("`{name}` does not go with a `{kind}` block")),
            None => Ok(()),
        };
        let times = file.times.unwrap_or(1);
        match (file.text.take(), file.thinking.take(), file.tool.take(), file.raw.take(), file.huge_result_bytes) {
            (Some(text), None, None, None, None) => only("text", &["times"]).map(|()| BlockSpec::Text { text, times }),
            (None, Some(text), None, None, None) => {
                only("thinking", &["display"])?;
                let omitted = match file.display.as_deref() {
                    None | Some("summarized") => false,
                    Some("omitted") => true,
                    Some(other) => return Err(format!("`display` is \"omitted\" or \"summarized\", not {other:?}")),
                };
                Ok(BlockSpec::Thinking { text, omitted })
            }
            (None, None, Some(name), None, None) => {
                only("tool", &["input", "id", "raw_input", "input_bytes", "times"])?;
                if file.id.is_some() && times > 1 {
                    return Err("`id` and `times` would give several calls one id".to_owned());
                }
                let input = file.tool_input()?;
                Ok(BlockSpec::Tool { name, input, id: file.id, times })
            }
            (None, None, None, Some(block), None) => {
                only("raw", &["whole"])?;
                if !block.is_object() {
                    return Err("`raw` is a block: a JSON object".to_owned());
                }
                Ok(BlockSpec::Raw { block, whole: file.whole.unwrap_or(false) })
            }
            (None, None, None, None, Some(bytes)) => {
                only("huge_result_bytes", &[]).map(|()| BlockSpec::HugeResult { bytes })
            }
            _ => Err("a block has exactly one of `text`, `thinking`, `tool`, `raw` and `huge_result_bytes`".to_owned()),
        }
    }
}

impl ScriptedReply {
    /// Creates a reply of one text.
    pub fn say(text: impl Into<String>) -> Self {
        Self { blocks: vec![BlockSpec::Text { text: text.into(), times: 1 }], ..Self::default() }
    }

    /// Creates a reply of one tool call.
    pub fn call(name: impl Into<String>, input: Value) -> Self {
        let input = ToolInput::Json(input);
        Self { blocks: vec![BlockSpec::Tool { name: name.into(), input, id: None, times: 1 }], ..Self::default() }
    }

    /// Creates an error in the dialect's shape.
    pub fn error(status: u16, message: impl Into<String>) -> Self {
        let error = ErrorSpec { message: message.into(), ..ErrorSpec::default() };
        Self { status: Some(status), error: Some(error), ..Self::default() }
    }

    /// Returns true if this is a message (blocks) and not a bare status and body.
    pub(crate) fn is_message(&self) -> bool {
        matches!(self.status, None | Some(200)) && self.body.is_none() && self.error.is_none()
    }
}
