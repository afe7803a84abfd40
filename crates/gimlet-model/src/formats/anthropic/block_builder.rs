//! A block of a reply during streaming, and its conversion to the block that history keeps.
//!
//! The start object is the skeleton: its key order and all unknown fields are preserved. Deltas fill in the few members
//! that they concern. The result is rendered once.

use std::borrow::Cow;

use gimlet_proto::{Block, BlockKind};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::formats::reply_state::FinishedBlock;
use crate::json::{self, LossyText, OrderedMembers};

/// Delta shapes that gimlet applies; one struct for all of them, because their members do not collide.
#[derive(Deserialize)]
pub(super) struct WireDelta<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<LossyText<'a>>,
    #[serde(borrow, default)]
    text: Option<LossyText<'a>>,
    #[serde(borrow, default)]
    partial_json: Option<LossyText<'a>>,
    #[serde(borrow, default)]
    thinking: Option<LossyText<'a>>,
    #[serde(borrow, default)]
    signature: Option<LossyText<'a>>,
    #[serde(borrow, default)]
    citation: Option<&'a RawValue>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    encrypted_content: Option<&'a RawValue>,
}

/// Part that a delta added, for immediate display.
pub(super) enum DeltaEffect<'a> {
    Nothing,
    /// It does not fit the block or is unknown.
    Ignored(LossyText<'a>),
    Text(LossyText<'a>),
    Thinking(LossyText<'a>),
    Input(LossyText<'a>),
}

/// Block under construction.
pub(super) struct BlockBuilder {
    /// Position of this block in the reply, counted here: wire indexes may repeat.
    pub(super) ordinal: usize,
    /// The block at its start. Kinds without deltas are complete with it.
    start: Block,
    members: OrderedMembers,
    /// Text, thinking, or the raw tool input, by kind.
    body: String,
    signature: Option<String>,
    citations: Vec<Box<RawValue>>,
    compaction: Vec<(&'static str, String)>,
}

impl BlockBuilder {
    /// Creates a builder; `None` when the start is not an object that can become a block.
    pub(super) fn from_start(ordinal: usize, start: &RawValue) -> Option<Self> {
        let start = Block::from_json(start.get()).ok()?;
        let members: OrderedMembers = match start.kind() {
            BlockKind::Text
            | BlockKind::Thinking
            | BlockKind::ToolUse
            | BlockKind::ServerToolUse
            | BlockKind::Compaction => serde_json::from_str(start.json()).ok()?,
            // Complete at the start and sometimes megabytes long: not worth parsing.
            _ => OrderedMembers::default(),
        };
        let body = match start.kind() {
            BlockKind::Text => members.string("text"),
            BlockKind::Thinking => members.string("thinking"),
            _ => None,
        };
        Some(Self {
            ordinal,
            start,
            members,
            body: body.unwrap_or_default(),
            signature: None,
            citations: Vec::new(),
            compaction: Vec::new(),
        })
    }

    pub(super) fn kind(&self) -> BlockKind {
        self.start.kind()
    }

    pub(super) fn type_name(&self) -> Cow<'_, str> {
        self.start.type_name()
    }

    pub(super) fn id(&self) -> Option<&str> {
        self.start.id()
    }

    pub(super) fn tool_name(&self) -> Option<String> {
        matches!(self.kind(), BlockKind::ToolUse | BlockKind::ServerToolUse)
            .then(|| self.members.string("name"))
            .flatten()
    }

    /// Returns true if this is a client tool call without a complete input so far.
    pub(super) fn is_unfinished_call(&self) -> bool {
        self.kind() == BlockKind::ToolUse && !is_object(&self.body)
    }

    /// Applies a delta. One that does not fit the block, or is unknown, changes nothing.
    pub(super) fn apply<'a>(&mut self, delta: WireDelta<'a>) -> DeltaEffect<'a> {
        let Some(kind) = delta.kind else { return DeltaEffect::Nothing };
        match (kind.as_str(), self.kind()) {
            ("text_delta", BlockKind::Text) => self.append(delta.text).map_or(DeltaEffect::Nothing, DeltaEffect::Text),
            ("thinking_delta", BlockKind::Thinking) => {
                self.append(delta.thinking).map_or(DeltaEffect::Nothing, DeltaEffect::Thinking)
            }
            ("input_json_delta", BlockKind::ToolUse | BlockKind::ServerToolUse) => {
                self.append(delta.partial_json).map_or(DeltaEffect::Nothing, DeltaEffect::Input)
            }
            ("signature_delta", BlockKind::Thinking) => {
                self.signature = delta.signature.map(LossyText::into_string);
                DeltaEffect::Nothing
            }
            ("citations_delta", BlockKind::Text) => {
                self.citations.extend(delta.citation.map(ToOwned::to_owned));
                DeltaEffect::Nothing
            }
            ("compaction_delta", BlockKind::Compaction) => {
                self.compaction.push(("content", delta.content.map_or("null", RawValue::get).to_owned()));
                if let Some(encrypted) = delta.encrypted_content {
                    self.compaction.push(("encrypted_content", encrypted.get().to_owned()));
                }
                DeltaEffect::Nothing
            }
            _ => DeltaEffect::Ignored(kind),
        }
    }

    fn append<'a>(&mut self, piece: Option<LossyText<'a>>) -> Option<LossyText<'a>> {
        let piece = piece.filter(|piece| !piece.as_str().is_empty())?;
        self.body.push_str(piece.as_str());
        Some(piece)
    }

    /// Renders the block.
    pub(super) fn finish(self) -> FinishedBlock {
        match self.kind() {
            BlockKind::Text => {
                let mut changed = vec![("text", json::to_json_string(&self.body))];
                if !self.citations.is_empty() {
                    changed.push(("citations", self.all_citations()));
                }
                self.render_with(&changed)
            }
            BlockKind::Thinking => {
                let mut changed = vec![("thinking", json::to_json_string(&self.body))];
                changed
                    .extend(self.signature.as_deref().map(|signature| ("signature", json::to_json_string(signature))));
                self.render_with(&changed)
            }
            BlockKind::ToolUse | BlockKind::ServerToolUse => self.finish_call(),
            BlockKind::Compaction => self.render_with(&self.compaction),
            _ => FinishedBlock { block: self.start, bad_input: None, may_be_truncated: false },
        }
    }

    fn finish_call(self) -> FinishedBlock {
        let client = self.kind() == BlockKind::ToolUse;
        if is_object(&self.body) {
            return self.render_with(&[("input", self.body.clone())]);
        }
        if self.body.trim().is_empty() {
            // Calls without arguments stream no input; some servers put the whole input into the start instead.
            let given = self.members.get("input").is_some_and(|input| is_object(input.get()) && input.get() != "{}");
            let changed = [("input", "{}".to_owned())];
            let finished = self.render_with(if given { &[] } else { &changed });
            return FinishedBlock { may_be_truncated: client && !given, ..finished };
        }
        let finished = self.render_with(&[("input", "{}".to_owned())]);
        FinishedBlock { bad_input: client.then_some(self.body), may_be_truncated: client, ..finished }
    }

    fn render_with(&self, changed: &[(&str, String)]) -> FinishedBlock {
        // The members came from a valid object and the changes are valid JSON, so this is a block again.
        let block = Block::from_json(&self.members.render(changed)).unwrap_or_else(|_| self.start.clone());
        FinishedBlock { block, bad_input: None, may_be_truncated: false }
    }

    fn all_citations(&self) -> String {
        let first: Vec<&RawValue> =
            self.members.get("citations").and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
        let all: Vec<&str> =
            first.into_iter().chain(self.citations.iter().map(AsRef::as_ref)).map(RawValue::get).collect();
        format!("[{}]", all.join(","))
    }
}

/// Returns true if a text is one complete JSON object. Numbers and nesting are not limited: only the bytes matter.
fn is_object(text: &str) -> bool {
    gimlet_text::is_json_object(text) && serde_json::from_str::<&RawValue>(text).is_ok()
}
