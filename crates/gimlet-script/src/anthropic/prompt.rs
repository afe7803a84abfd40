//! A request's prompt as the provider sees it: one row of pieces in the order tools, system, messages.
//!
//! Tokens are a plain function of bytes (a quarter, rounded up; images by 28-pixel squares), so that tests can predict
//! every number.

use super::image_header;
use crate::digest_chain::DigestChain;
use crate::spanned_json::{SpannedJson, SpannedJsonKind};

/// Layer of the prompt that a piece belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PromptLayer {
    Tools,
    System,
    Messages,
}

/// Lifetime of a cache entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MarkerTtl {
    FiveMinutes,
    OneHour,
}

/// A cache marker and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct CacheMarker<'a> {
    pub(crate) path: String,
    /// The object that carries it; for the automatic marker the whole body.
    pub(crate) holder: &'a SpannedJson,
    pub(crate) control: &'a SpannedJson,
}

impl CacheMarker<'_> {
    pub(crate) fn ttl(&self) -> MarkerTtl {
        ttl_of(self.control)
    }
}

fn ttl_of(control: &SpannedJson) -> MarkerTtl {
    if control.str_of("ttl") == Some("1h") { MarkerTtl::OneHour } else { MarkerTtl::FiveMinutes }
}

/// Returns every cache marker in prompt order; the automatic one comes last.
pub(crate) fn find_cache_markers(root: &SpannedJson) -> Vec<CacheMarker<'_>> {
    let mut found = Vec::new();
    for layer in ["tools", "system"] {
        let items = root.get(layer).map(SpannedJson::items).unwrap_or_default();
        for (position, item) in items.iter().enumerate() {
            push_mark(item, format!("{layer}.{position}"), &mut found);
        }
    }
    for (m, message) in root.get("messages").map(SpannedJson::items).unwrap_or_default().iter().enumerate() {
        for (b, block) in message.get("content").map(SpannedJson::items).unwrap_or_default().iter().enumerate() {
            let path = format!("messages.{m}.content.{b}");
            for (n, part) in block.get("content").map(SpannedJson::items).unwrap_or_default().iter().enumerate() {
                push_mark(part, format!("{path}.content.{n}"), &mut found);
            }
            push_mark(block, path, &mut found);
        }
    }
    push_mark(root, "cache_control".to_owned(), &mut found);
    found
}

fn push_mark<'a>(holder: &'a SpannedJson, path: String, found: &mut Vec<CacheMarker<'a>>) {
    if let Some(control) = holder.get("cache_control").filter(|control| !control.is_null()) {
        found.push(CacheMarker { path, holder, control });
    }
}

/// One position of the prompt.
#[derive(Debug)]
pub(crate) struct PromptPiece {
    pub(crate) layer: PromptLayer,
    /// The bytes without markers, with the role in front for a message's block.
    pub(crate) text: String,
    pub(crate) mark: Option<MarkerTtl>,
    /// Tokens from the beginning of the prompt to the end of this piece.
    pub(crate) tokens_so_far: u64,
}

/// The whole prompt.
#[derive(Debug)]
pub(crate) struct RequestPrompt {
    pub(crate) pieces: Vec<PromptPiece>,
    pub(crate) has_images: bool,
}

impl RequestPrompt {
    /// Reads the prompt, leaving out blocks whose path is in `dropped`.
    pub(crate) fn read(text: &str, root: &SpannedJson, dropped: &[String]) -> Self {
        let mut builder = PromptBuilder { text, pieces: Vec::new(), bytes: 0, image_tokens: 0, has_images: false };
        for tool in root.get("tools").map(SpannedJson::items).unwrap_or_default() {
            if tool.get("defer_loading").and_then(SpannedJson::as_bool) != Some(true) {
                builder.push(PromptLayer::Tools, "", tool);
            }
        }
        if let Some(system) = root.get("system") {
            builder.content(PromptLayer::System, "", system, "system", dropped);
        }
        for (m, message) in root.get("messages").map(SpannedJson::items).unwrap_or_default().iter().enumerate() {
            let role = message.str_of("role").unwrap_or("");
            if let Some(content) = message.get("content") {
                builder.content(PromptLayer::Messages, role, content, &format!("messages.{m}.content"), dropped);
            }
        }
        if let Some(control) = root.get("cache_control").filter(|control| !control.is_null()) {
            builder.mark_last(ttl_of(control));
        }
        RequestPrompt { pieces: builder.pieces, has_images: builder.has_images }
    }

    pub(crate) fn tokens(&self) -> u64 {
        self.pieces.last().map_or(0, |piece| piece.tokens_so_far)
    }

    /// Returns a digest of everything in one layer.
    pub(crate) fn layer_digest(&self, layer: PromptLayer) -> DigestChain {
        let pieces = self.pieces.iter().filter(|piece| piece.layer == layer);
        pieces.fold(DigestChain::new("layer"), |chain, piece| chain.mix(&piece.text))
    }
}

struct PromptBuilder<'a> {
    text: &'a str,
    pieces: Vec<PromptPiece>,
    bytes: u64,
    image_tokens: u64,
    has_images: bool,
}

impl PromptBuilder<'_> {
    fn content(&mut self, layer: PromptLayer, role: &str, content: &SpannedJson, path: &str, dropped: &[String]) {
        match &content.kind {
            SpannedJsonKind::String(_) => {
                // A bare string is short for one text block, and caches like it.
                let block = format!("{{\"type\":\"text\",\"text\":{}}}", &self.text[content.span.clone()]);
                let bytes = block.len() as u64;
                self.add(layer, format!("{role}{block}"), bytes, None);
            }
            SpannedJsonKind::Array(blocks) => {
                for (position, block) in blocks.iter().enumerate() {
                    if !dropped.contains(&format!("{path}.{position}")) {
                        self.push(layer, role, block);
                    }
                }
            }
            _ => {}
        }
    }

    fn push(&mut self, layer: PromptLayer, role: &str, node: &SpannedJson) {
        let unmarked = node.without_cache_marks(self.text);
        let bytes = match node.type_tag() {
            // A signature is opaque; only the thinking itself takes room.
            "thinking" => node.str_of("thinking").map_or(0, str::len) as u64,
            _ => unmarked.len() as u64 - self.image_bytes(node),
        };
        let own = node.get("cache_control").filter(|control| !control.is_null());
        let nested = || {
            let parts = node.get("content").map(SpannedJson::items).unwrap_or_default();
            parts.iter().rev().find_map(|part| part.get("cache_control"))
        };
        let mark = own.or_else(nested).map(ttl_of);
        self.add(layer, format!("{role}{unmarked}"), bytes, mark);
    }

    fn add(&mut self, layer: PromptLayer, text: String, bytes: u64, mark: Option<MarkerTtl>) {
        self.bytes += bytes;
        let tokens_so_far = self.bytes.div_ceil(4) + self.image_tokens;
        self.pieces.push(PromptPiece { layer, text, mark, tokens_so_far });
    }

    /// Counts the images inside a block and returns the bytes that their data takes.
    fn image_bytes(&mut self, node: &SpannedJson) -> u64 {
        let parts = node.get("content").map(SpannedJson::items).unwrap_or_default();
        let images = std::iter::once(node).chain(parts).filter(|part| part.type_tag() == "image");
        let mut bytes = 0;
        for image in images {
            self.has_images = true;
            let data = image.get("source").and_then(|source| source.str_of("data")).unwrap_or("");
            bytes += data.len() as u64;
            self.image_tokens += image_header::read_image_header(data).map_or(0, |found| found.tokens());
        }
        bytes
    }

    fn mark_last(&mut self, ttl: MarkerTtl) {
        if let Some(last) = self.pieces.last_mut() {
            last.mark = Some(ttl);
        }
    }
}

/// Thinking of finished turns, which some models leave out: everything before the last message that is more than
/// tool results.
pub(crate) fn finished_turn_thinking(root: &SpannedJson) -> Vec<String> {
    let messages = root.get("messages").map(SpannedJson::items).unwrap_or_default();
    let opens_turn = |message: &SpannedJson| {
        let blocks = message.get("content").map(SpannedJson::items).unwrap_or_default();
        let results = blocks.iter().filter(|block| block.type_tag() == "tool_result").count();
        message.str_of("role") == Some("user") && (blocks.is_empty() || results < blocks.len())
    };
    let turn = messages.iter().rposition(opens_turn).unwrap_or(0);
    let mut paths = Vec::new();
    for (m, message) in messages[..turn].iter().enumerate() {
        for (b, block) in message.get("content").map(SpannedJson::items).unwrap_or_default().iter().enumerate() {
            if super::thinking_signature::is_thinking(block) {
                paths.push(format!("messages.{m}.content.{b}"));
            }
        }
    }
    paths
}
