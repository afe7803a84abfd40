//! One block of a reply while it is being streamed, and how it becomes the block that history keeps.
//!
//! The start object is the skeleton: its key order and every field we do not know survive. Deltas fill in the few
//! members that they are about. The result is rendered once.

use std::borrow::Cow;

use gimlet_proto::{Block, BlockKind};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::json::{self, Members, Text};

/// The delta shapes that gimlet applies; one struct for all of them, because their members do not collide.
#[derive(Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<Text<'a>>,
    #[serde(borrow, default)]
    text: Option<Text<'a>>,
    #[serde(borrow, default)]
    partial_json: Option<Text<'a>>,
    #[serde(borrow, default)]
    thinking: Option<Text<'a>>,
    #[serde(borrow, default)]
    signature: Option<Text<'a>>,
    #[serde(borrow, default)]
    citation: Option<&'a RawValue>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    encrypted_content: Option<&'a RawValue>,
}

/// What a delta added that people may want to see at once.
pub(super) enum Shown<'a> {
    Nothing,
    /// It does not fit the block, or nobody knows it.
    Ignored(Text<'a>),
    Text(Text<'a>),
    Thinking(Text<'a>),
    Input(Text<'a>),
}

/// A block in the making.
pub(super) struct Slot {
    /// The position of this block in the reply, counted by us: wire indexes may repeat.
    pub(super) ordinal: usize,
    /// The block as its start gave it. Kinds without deltas are complete with it.
    start: Block,
    members: Members,
    /// Text, thinking, or the raw tool input, by kind.
    body: String,
    signature: Option<String>,
    citations: Vec<Box<RawValue>>,
    compaction: Vec<(&'static str, String)>,
}

/// A finished block.
pub(super) struct Finished {
    pub(super) block: Block,
    /// What stood in place of a tool call's input when that was not a JSON object.
    pub(super) bad_input: Option<String>,
    /// A tool call that might have been cut: it has no usable input, and only the end of the reply tells why.
    pub(super) doubtful: bool,
}

impl Slot {
    /// `None` when the start is not an object, or not one that can become a block.
    pub(super) fn open(ordinal: usize, start: &RawValue) -> Option<Self> {
        let start = Block::from_json(start.get()).ok()?;
        let members: Members = match start.kind() {
            BlockKind::Text
            | BlockKind::Thinking
            | BlockKind::ToolUse
            | BlockKind::ServerToolUse
            | BlockKind::Compaction => serde_json::from_str(start.json()).ok()?,
            // Whole at the start, sometimes megabytes long: not worth taking apart.
            _ => Members::default(),
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

    /// Whether this is a client tool call without a complete input so far.
    pub(super) fn is_unfinished_call(&self) -> bool {
        self.kind() == BlockKind::ToolUse && !is_object(&self.body)
    }

    /// Applies a delta. One that does not fit the block, or that we do not know, changes nothing.
    pub(super) fn apply<'a>(&mut self, delta: Delta<'a>) -> Shown<'a> {
        let Some(kind) = delta.kind else { return Shown::Nothing };
        match (kind.as_str(), self.kind()) {
            ("text_delta", BlockKind::Text) => self.append(delta.text).map_or(Shown::Nothing, Shown::Text),
            ("thinking_delta", BlockKind::Thinking) => {
                self.append(delta.thinking).map_or(Shown::Nothing, Shown::Thinking)
            }
            ("input_json_delta", BlockKind::ToolUse | BlockKind::ServerToolUse) => {
                self.append(delta.partial_json).map_or(Shown::Nothing, Shown::Input)
            }
            ("signature_delta", BlockKind::Thinking) => {
                self.signature = delta.signature.map(Text::into_string);
                Shown::Nothing
            }
            ("citations_delta", BlockKind::Text) => {
                self.citations.extend(delta.citation.map(ToOwned::to_owned));
                Shown::Nothing
            }
            ("compaction_delta", BlockKind::Compaction) => {
                self.compaction.push(("content", delta.content.map_or("null", RawValue::get).to_owned()));
                if let Some(encrypted) = delta.encrypted_content {
                    self.compaction.push(("encrypted_content", encrypted.get().to_owned()));
                }
                Shown::Nothing
            }
            _ => Shown::Ignored(kind),
        }
    }

    fn append<'a>(&mut self, piece: Option<Text<'a>>) -> Option<Text<'a>> {
        let piece = piece.filter(|piece| !piece.as_str().is_empty())?;
        self.body.push_str(piece.as_str());
        Some(piece)
    }

    /// Renders the block.
    pub(super) fn finish(self) -> Finished {
        match self.kind() {
            BlockKind::Text => {
                let mut changed = vec![("text", json::string(&self.body))];
                if !self.citations.is_empty() {
                    changed.push(("citations", self.all_citations()));
                }
                self.rendered(&changed)
            }
            BlockKind::Thinking => {
                let mut changed = vec![("thinking", json::string(&self.body))];
                changed.extend(self.signature.as_deref().map(|signature| ("signature", json::string(signature))));
                self.rendered(&changed)
            }
            BlockKind::ToolUse | BlockKind::ServerToolUse => self.finish_call(),
            BlockKind::Compaction => self.rendered(&self.compaction),
            _ => Finished { block: self.start, bad_input: None, doubtful: false },
        }
    }

    fn finish_call(self) -> Finished {
        let client = self.kind() == BlockKind::ToolUse;
        if is_object(&self.body) {
            return self.rendered(&[("input", self.body.clone())]);
        }
        if self.body.trim().is_empty() {
            // Calls without arguments stream nothing; some servers put the whole input into the start instead.
            let given = self.members.get("input").is_some_and(|input| is_object(input.get()) && input.get() != "{}");
            let changed = [("input", "{}".to_owned())];
            let finished = self.rendered(if given { &[] } else { &changed });
            return Finished { doubtful: client && !given, ..finished };
        }
        let finished = self.rendered(&[("input", "{}".to_owned())]);
        Finished { bad_input: client.then_some(self.body), doubtful: client, ..finished }
    }

    fn rendered(&self, changed: &[(&str, String)]) -> Finished {
        // The members came from a valid object and the changes are valid JSON, so this is a block again.
        let block = Block::from_json(&self.members.render(changed)).unwrap_or_else(|_| self.start.clone());
        Finished { block, bad_input: None, doubtful: false }
    }

    fn all_citations(&self) -> String {
        let first: Vec<&RawValue> =
            self.members.get("citations").and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
        let all: Vec<&str> =
            first.into_iter().chain(self.citations.iter().map(AsRef::as_ref)).map(RawValue::get).collect();
        format!("[{}]", all.join(","))
    }
}

/// Whether some text is one complete JSON object. Numbers and nesting are not limited: only the bytes matter.
fn is_object(text: &str) -> bool {
    gimlet_proto::is_json_object(text) && serde_json::from_str::<&RawValue>(text).is_ok()
}
