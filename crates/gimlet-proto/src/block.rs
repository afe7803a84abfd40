//! A content block: the exact JSON that goes to disk and back to the model, with views read from it on demand.
//!
//! The bytes are the truth. They are rendered once, when the block is complete, and never re-serialised: prompt caches
//! and thinking signatures compare them. Blocks of kinds we do not know are carried like any other.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use gimlet_text::{compact_json, is_json_object, replace_lone_surrogates};
use serde::Deserialize;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::ResultContent;

/// Kind of a block, as far as gimlet needs to distinguish blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockKind {
    Text,
    Thinking,
    RedactedThinking,
    ToolUse,
    ToolResult,
    /// A tool that the vendor runs (`server_tool_use`, `mcp_tool_use`).
    ServerToolUse,
    /// The result of such a tool.
    ServerToolResult,
    Image,
    Document,
    Compaction,
    Fallback,
    Other,
}

/// Reason why some JSON is not a block.
#[derive(Debug)]
pub enum BlockError {
    NotAnObject,
    Invalid(serde_json::Error),
}

impl fmt::Display for BlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BlockError::NotAnObject => f.write_str("a content block must be a JSON object"),
            BlockError::Invalid(source) => write!(f, "not a content block: {source}"),
        }
    }
}

impl std::error::Error for BlockError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BlockError::NotAnObject => None,
            BlockError::Invalid(source) => Some(source),
        }
    }
}

/// One content block. Cloning is cheap.
#[derive(Clone)]
pub struct Block {
    raw: Arc<RawValue>,
    kind: BlockKind,
    id: Option<Arc<str>>,
}

/// The parts of a `tool_use` block.
#[derive(Debug)]
pub struct ToolUseParts<'a> {
    pub id: Cow<'a, str>,
    pub name: Cow<'a, str>,
    /// The input exactly as the model wrote it (always a JSON object once it is in history).
    pub input: &'a RawValue,
}

/// The parts of a `tool_result` block.
#[derive(Debug)]
pub struct ToolResultParts<'a> {
    pub tool_use_id: Cow<'a, str>,
    pub content: Option<&'a RawValue>,
    pub is_error: bool,
}

#[derive(Deserialize)]
struct BlockHeader<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    tool_use_id: Option<Cow<'a, str>>,
}

impl Block {
    /// Creates a block from JSON as received, removing only whitespace between tokens.
    pub fn from_json(json: &str) -> Result<Self, BlockError> {
        if !is_json_object(json) {
            return Err(BlockError::NotAnObject);
        }
        let raw = RawValue::from_string(compact_json(json)).map_err(BlockError::Invalid)?;
        Self::from_compact(raw)
    }

    fn from_compact(raw: Box<RawValue>) -> Result<Self, BlockError> {
        let head: BlockHeader<'_> = serde_json::from_str(raw.get()).map_err(BlockError::Invalid)?;
        let kind = parse_block_kind(head.kind.as_deref().unwrap_or(""));
        let id = match kind {
            BlockKind::ToolResult | BlockKind::ServerToolResult => head.tool_use_id,
            _ => head.id,
        };
        let id = id.map(|id| Arc::from(id.as_ref()));
        Ok(Self { raw: Arc::from(raw), kind, id })
    }

    fn from_serializable(value: &impl Serialize, kind: BlockKind, id: Option<&str>) -> Self {
        // Our own block shapes are plain structs of strings and booleans; writing them to memory cannot fail.
        let raw = serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned());
        Self { raw: Arc::from(raw), kind, id: id.map(Arc::from) }
    }

    /// Creates a text block.
    pub fn text(text: &str) -> Self {
        #[derive(Serialize)]
        struct TextBlockJson<'a> {
            r#type: &'static str,
            text: &'a str,
        }
        Self::from_serializable(&TextBlockJson { r#type: "text", text }, BlockKind::Text, None)
    }

    /// Creates a block for one part of a result.
    pub fn from_part(part: &crate::ContentPart) -> Self {
        let kind = match part {
            crate::ContentPart::Text { .. } => BlockKind::Text,
            crate::ContentPart::Image { .. } => BlockKind::Image,
            crate::ContentPart::Document { .. } => BlockKind::Document,
        };
        Self::from_serializable(part, kind, None)
    }

    /// Creates a block for a base64 image, with the type detected from its bytes. The error is the reason why it
    /// cannot be sent.
    pub fn image(base64: &str) -> Result<Self, &'static str> {
        crate::ContentPart::image_from_base64(base64).map(|part| Self::from_part(&part))
    }

    /// Creates a block for a base64 image that may be too large to be sent as it is. The error is the reason why it is
    /// no image.
    pub fn unfitted_image(base64: &str) -> Result<Self, &'static str> {
        crate::ContentPart::unfitted_image(base64).map(|part| Self::from_part(&part))
    }

    /// Creates a tool call whose input is already known to be a JSON object.
    pub fn tool_use(id: &str, name: &str, input: &RawValue) -> Self {
        #[derive(Serialize)]
        struct ToolUseJson<'a> {
            r#type: &'static str,
            id: &'a str,
            name: &'a str,
            input: &'a RawValue,
        }
        Self::from_serializable(&ToolUseJson { r#type: "tool_use", id, name, input }, BlockKind::ToolUse, Some(id))
    }

    /// Creates the answer to a tool call. `is_error` is written only when true, as on the wire.
    pub fn tool_result(tool_use_id: &str, content: &ResultContent, is_error: bool) -> Self {
        #[derive(Serialize)]
        #[serde(untagged)]
        enum ResultContentJson<'a> {
            Text(&'a str),
            Parts(&'a [crate::ContentPart]),
        }
        #[derive(Serialize)]
        struct ToolResultJson<'a> {
            r#type: &'static str,
            tool_use_id: &'a str,
            content: ResultContentJson<'a>,
            #[serde(skip_serializing_if = "std::ops::Not::not")]
            is_error: bool,
        }
        let content = match content {
            ResultContent::Text(text) => ResultContentJson::Text(text),
            ResultContent::Parts(parts) => ResultContentJson::Parts(parts),
        };
        Self::from_serializable(
            &ToolResultJson { r#type: "tool_result", tool_use_id, content, is_error },
            BlockKind::ToolResult,
            Some(tool_use_id),
        )
    }

    pub fn kind(&self) -> BlockKind {
        self.kind
    }

    /// Returns the type as it is written.
    pub fn type_name(&self) -> Cow<'_, str> {
        #[derive(Deserialize)]
        struct BlockTypeTag<'a> {
            #[serde(borrow)]
            r#type: Cow<'a, str>,
        }
        // A block was read once, so it has a type.
        serde_json::from_str::<BlockTypeTag<'_>>(self.raw.get()).map(|head| head.r#type).unwrap_or_default()
    }

    /// Returns the id of a call, or for a result the id of the call that it answers.
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Returns the exact JSON of this block.
    pub fn json(&self) -> &str {
        self.raw.get()
    }

    pub fn raw(&self) -> &RawValue {
        &self.raw
    }

    /// Returns the text of a text block.
    pub fn as_text(&self) -> Option<Cow<'_, str>> {
        (self.kind == BlockKind::Text).then(|| self.string_field("text"))
    }

    /// Returns the readable part of a thinking block (often empty).
    pub fn as_thinking(&self) -> Option<Cow<'_, str>> {
        (self.kind == BlockKind::Thinking).then(|| self.string_field("thinking"))
    }

    /// Returns the parts of a tool call.
    pub fn as_tool_use(&self) -> Option<ToolUseParts<'_>> {
        #[derive(Deserialize)]
        struct ToolUseFields<'a> {
            #[serde(borrow)]
            id: Cow<'a, str>,
            #[serde(borrow)]
            name: Cow<'a, str>,
            #[serde(borrow)]
            input: &'a RawValue,
        }
        if self.kind != BlockKind::ToolUse {
            return None;
        }
        let parts: ToolUseFields<'_> = serde_json::from_str(self.json()).ok()?;
        Some(ToolUseParts { id: parts.id, name: parts.name, input: parts.input })
    }

    /// Returns the model that continues from here, where the provider replaced the requested one.
    pub fn as_fallback(&self) -> Option<Cow<'_, str>> {
        #[derive(Deserialize)]
        struct FallbackFields<'a> {
            #[serde(borrow)]
            to: FallbackTarget<'a>,
        }
        #[derive(Deserialize)]
        struct FallbackTarget<'a> {
            #[serde(borrow)]
            model: Cow<'a, str>,
        }
        if self.kind != BlockKind::Fallback {
            return None;
        }
        serde_json::from_str::<FallbackFields<'_>>(self.json()).ok().map(|parts| parts.to.model)
    }

    /// Returns the parts of a tool result.
    pub fn as_tool_result(&self) -> Option<ToolResultParts<'_>> {
        #[derive(Deserialize)]
        struct ToolResultFields<'a> {
            #[serde(borrow)]
            tool_use_id: Cow<'a, str>,
            #[serde(borrow, default)]
            content: Option<&'a RawValue>,
            #[serde(default)]
            is_error: Option<bool>,
        }
        if self.kind != BlockKind::ToolResult {
            return None;
        }
        let parts: ToolResultFields<'_> = serde_json::from_str(self.json()).ok()?;
        Some(ToolResultParts {
            tool_use_id: parts.tool_use_id,
            content: parts.content,
            is_error: parts.is_error.unwrap_or(false),
        })
    }

    /// Returns true if this is a text block with nothing but whitespace, which no API accepts.
    pub fn is_blank_text(&self) -> bool {
        self.as_text().is_some_and(|text| text.trim().is_empty())
    }

    fn string_field(&self, name: &str) -> Cow<'_, str> {
        #[derive(Deserialize)]
        struct TextFields<'a> {
            #[serde(borrow, default)]
            text: Option<&'a RawValue>,
            #[serde(borrow, default)]
            thinking: Option<&'a RawValue>,
        }
        let Ok(texts) = serde_json::from_str::<TextFields<'_>>(self.json()) else { return Cow::Borrowed("") };
        let found = if name == "text" { texts.text } else { texts.thinking };
        found.map_or(Cow::Borrowed(""), |raw| decode_json_string(raw.get()))
    }
}

/// Decodes a JSON string. Models do write lone surrogate escapes, which are not valid text; those become the
/// replacement character here, while the block keeps its own bytes.
fn decode_json_string(json: &str) -> Cow<'_, str> {
    #[derive(Deserialize)]
    struct BorrowedText<'a>(#[serde(borrow)] Cow<'a, str>);
    if let Ok(BorrowedText(text)) = serde_json::from_str(json) {
        return text;
    }
    Cow::Owned(serde_json::from_str(&replace_lone_surrogates(json)).unwrap_or_default())
}

fn parse_block_kind(name: &str) -> BlockKind {
    match name {
        "text" => BlockKind::Text,
        "thinking" => BlockKind::Thinking,
        "redacted_thinking" => BlockKind::RedactedThinking,
        "tool_use" => BlockKind::ToolUse,
        "tool_result" => BlockKind::ToolResult,
        "server_tool_use" | "mcp_tool_use" => BlockKind::ServerToolUse,
        "image" => BlockKind::Image,
        "document" => BlockKind::Document,
        "compaction" => BlockKind::Compaction,
        "fallback" => BlockKind::Fallback,
        other if other.ends_with("_tool_result") => BlockKind::ServerToolResult,
        _ => BlockKind::Other,
    }
}

impl PartialEq for Block {
    fn eq(&self, other: &Self) -> bool {
        self.json() == other.json()
    }
}

impl Eq for Block {}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.json())
    }
}

impl Serialize for Block {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.raw.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_unknown_fields_numbers_and_key_order() {
        let json = r#"{ "type": "tool_use", "zeta": 1.0, "id": "t1", "name": "Read", "input": { "b": 1e400, "a": "\u00e9" } }"#;
        let block = Block::from_json(json).unwrap();
        assert_eq!(
            block.json(),
            r#"{"type":"tool_use","zeta":1.0,"id":"t1","name":"Read","input":{"b":1e400,"a":"\u00e9"}}"#
        );
        assert_eq!(block.kind(), BlockKind::ToolUse);
        assert_eq!(block.id(), Some("t1"));
        assert_eq!(block.as_tool_use().unwrap().input.get(), r#"{"b":1e400,"a":"\u00e9"}"#);
    }

    #[test]
    fn results_write_is_error_only_when_true() {
        let fine = Block::tool_result("t1", &"ok".into(), false);
        assert_eq!(fine.json(), r#"{"type":"tool_result","tool_use_id":"t1","content":"ok"}"#);
        let bad = Block::tool_result("t1", &"no".into(), true);
        assert_eq!(bad.json(), r#"{"type":"tool_result","tool_use_id":"t1","content":"no","is_error":true}"#);
        assert!(bad.as_tool_result().unwrap().is_error);
        assert_eq!(bad.id(), Some("t1"));
    }

    #[test]
    fn lone_surrogates_are_shown_as_replacement_and_kept_as_written() {
        let json = r#"{"type":"text","text":"a\ud800b \ud83d\ude00 \udc00\\\"é"}"#;
        let block = Block::from_json(json).unwrap();
        assert_eq!(block.as_text().unwrap(), "a\u{fffd}b 😀 \u{fffd}\\\"é");
        assert!(!block.is_blank_text());
        assert_eq!(block.json(), json);
    }

    #[test]
    fn unknown_kinds_are_carried() {
        let block = Block::from_json(r#"{"type":"web_search_tool_result","tool_use_id":"s","content":[]}"#).unwrap();
        assert_eq!(block.kind(), BlockKind::ServerToolResult);
        let odd = Block::from_json(r#"{"type":"hologram","id":"h"}"#).unwrap();
        assert_eq!((odd.kind(), odd.id()), (BlockKind::Other, Some("h")));
        assert!(Block::from_json("[1]").is_err());
    }
}
