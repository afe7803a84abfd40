//! Thinking signatures: issued with a reply, checked when they come back.
//!
//! A signature names the account, the model and digests of everything sent before it, of the thinking before it and of
//! its own text, sealed and padded to 4 KiB. Comparing the digests one by one distinguishes a changed text, a
//! truncated signature and a changed conversation, as the service does.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::api_error::ApiError;
use crate::digest_chain::{DigestChain, digest};
use crate::model_capabilities::{ModelCapabilities, ThinkingBinding};
use crate::spanned_json::{SpannedJson, SpannedJsonKind};

const SIGNATURE_CHARS: usize = 4096;
const NO_PREDECESSOR: &str = "first";

/// Follows a conversation and seals thinking blocks against it.
#[derive(Clone)]
pub(crate) struct ThinkingSigner {
    seed: u64,
    account: String,
    model: String,
    chain: DigestChain,
    role: String,
    previous: Option<String>,
}

struct SignatureClaims {
    account: String,
    model: String,
    prefix: String,
    previous: String,
    text: String,
}

impl ThinkingSigner {
    /// Starts with the content before the messages: system prompt and loaded tools.
    fn new(seed: u64, account: &str, model: &str, text: &str, root: &SpannedJson) -> Self {
        let mut chain = DigestChain::new("binding");
        if let Some(system) = root.get("system") {
            for block in canonical_blocks(system, text) {
                chain = chain.mix(&block);
            }
        }
        for tool in root.get("tools").map(SpannedJson::items).unwrap_or_default() {
            if tool.get("defer_loading").and_then(SpannedJson::as_bool) != Some(true) {
                chain = chain.mix(&canonical_block(tool, text));
            }
        }
        Self { seed, account: account.to_owned(), model: model.to_owned(), chain, role: String::new(), previous: None }
    }

    /// Returns a signer at the end of a whole request, ready to seal the answer's blocks.
    pub(crate) fn after_request(seed: u64, account: &str, model: &str, text: &str, root: &SpannedJson) -> Self {
        let mut binder = Self::new(seed, account, model, text, root);
        for message in root.get("messages").map(SpannedJson::items).unwrap_or_default() {
            binder.enter_role(message.str_of("role").unwrap_or(""));
            let Some(content) = message.get("content") else { continue };
            if let SpannedJsonKind::String(_) = content.kind {
                binder.absorb_blocks(canonical_blocks(content, text));
            }
            for block in content.items() {
                match block.str_of("signature") {
                    Some(signature) if block.type_tag() == "thinking" => binder.previous = Some(signature.to_owned()),
                    _ => binder.absorb_block(block, text),
                }
            }
        }
        binder.enter_role("assistant");
        binder
    }

    /// Starts a message of this role. Consecutive messages of one role count as one, so only a change of role is mixed
    /// in.
    fn enter_role(&mut self, role: &str) {
        if self.role != role {
            role.clone_into(&mut self.role);
            self.chain = self.chain.mix("role").mix(role);
        }
    }

    fn absorb_blocks(&mut self, blocks: Vec<String>) {
        for block in blocks {
            self.chain = self.chain.mix(&block);
        }
    }

    fn absorb_block(&mut self, block: &SpannedJson, text: &str) {
        if !is_thinking(block) {
            self.chain = self.chain.mix(&canonical_block(block, text));
        }
    }

    /// Advances past one block of the answer.
    pub(crate) fn absorb_json(&mut self, block: &str) {
        if let Ok(node) = crate::spanned_json::parse(block) {
            self.absorb_block(&node, block);
        }
    }

    /// Seals one thinking block of the answer and advances past it.
    pub(crate) fn sign(&mut self, thinking: &str) -> String {
        let seal = SignatureClaims {
            account: self.account.clone(),
            model: self.model.clone(),
            prefix: self.chain.hex(),
            previous: self.previous_digest(),
            text: digest(thinking),
        };
        let signature = seal.render(self.seed);
        self.previous = Some(signature.clone());
        signature
    }

    fn previous_digest(&self) -> String {
        self.previous.as_deref().map_or_else(|| NO_PREDECESSOR.to_owned(), digest)
    }

    /// Returns true if a seal was made at this place. With no thinking before it, it may have lost its predecessors:
    /// dropping thinking from the front of a history is allowed.
    fn matches_position(&self, seal: &SignatureClaims) -> bool {
        seal.prefix == self.chain.hex() && (self.previous.is_none() || seal.previous == self.previous_digest())
    }
}

impl SignatureClaims {
    fn render(&self, seed: u64) -> String {
        let fields = format!("{}|{}|{}|{}|{}|", self.account, self.model, self.prefix, self.previous, self.text);
        let mut chain = DigestChain::new("seal").mix(&seed.to_string()).mix(&fields);
        let mut plain = fields;
        while plain.len() < SIGNATURE_CHARS / 4 * 3 {
            plain.push_str(&chain.hex());
            chain = chain.mix("more");
        }
        plain.truncate(SIGNATURE_CHARS / 4 * 3);
        STANDARD.encode(plain)
    }

    /// Parses a signature; `None` unless every character is as it was issued.
    fn read(signature: &str, seed: u64) -> Option<Self> {
        let plain = String::from_utf8(STANDARD.decode(signature).ok()?).ok()?;
        let mut fields = plain.split('|').map(str::to_owned);
        let mut next = || fields.next();
        let seal =
            SignatureClaims { account: next()?, model: next()?, prefix: next()?, previous: next()?, text: next()? };
        (seal.render(seed) == signature).then_some(seal)
    }
}

/// Checks all replayed thinking. Returns the paths of the blocks that the model will not see.
pub(crate) fn verify_thinking(
    seed: u64,
    account: &str,
    profile: &ModelCapabilities,
    text: &str,
    root: &SpannedJson,
) -> Result<Vec<String>, ApiError> {
    let mut binder = ThinkingSigner::new(seed, account, &profile.id, text, root);
    let mut dropped = Vec::new();
    let messages = root.get("messages").map(SpannedJson::items).unwrap_or_default();
    let latest = messages.iter().rposition(|message| message.str_of("role") == Some("assistant"));
    let asked = root.get("thinking").and_then(|thinking| thinking.get("block_binding"));
    let binding = match asked.and_then(|asked| asked.str_of("prefix_mismatch_behavior")) {
        Some("drop_block") => ThinkingBinding::Drop,
        Some("error") => ThinkingBinding::Error,
        _ => profile.binding,
    };
    for (m, message) in messages.iter().enumerate() {
        binder.enter_role(message.str_of("role").unwrap_or(""));
        let Some(content) = message.get("content") else { continue };
        if let SpannedJsonKind::String(_) = content.kind {
            binder.absorb_blocks(canonical_blocks(content, text));
        }
        for (b, block) in content.items().iter().enumerate() {
            if block.type_tag() != "thinking" {
                binder.absorb_block(block, text);
                continue;
            }
            let path = format!("messages.{m}.content.{b}");
            let is_checked = binding != ThinkingBinding::Unbound || Some(m) == latest;
            if is_checked && let ThinkingVerdict::Dropped = check_signature(&binder, block, &path, binding)? {
                dropped.push(path);
            }
            binder.previous = block.str_of("signature").map(str::to_owned);
        }
    }
    Ok(dropped)
}

enum ThinkingVerdict {
    Kept,
    Dropped,
}

fn check_signature(
    binder: &ThinkingSigner,
    block: &SpannedJson,
    path: &str,
    binding: ThinkingBinding,
) -> Result<ThinkingVerdict, ApiError> {
    let signature = block.str_of("signature").unwrap_or("");
    let Some(seal) = SignatureClaims::read(signature, binder.seed) else {
        return Err(ApiError::at(path, "Invalid `signature` in `thinking` block"));
    };
    // Thinking of another model or account cannot be read; the service does not report it.
    if seal.model != binder.model || seal.account != binder.account {
        return Ok(ThinkingVerdict::Dropped);
    }
    if seal.text != digest(block.str_of("thinking").unwrap_or("")) {
        let message = "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified";
        return Err(ApiError::at(path, message));
    }
    match binding {
        ThinkingBinding::Unbound => Ok(ThinkingVerdict::Kept),
        _ if binder.matches_position(&seal) => Ok(ThinkingVerdict::Kept),
        ThinkingBinding::Drop => Ok(ThinkingVerdict::Dropped),
        ThinkingBinding::Error => Err(ApiError::at(
            path,
            "this `thinking` block is bound to a different conversation: its prefix has changed",
        )),
    }
}

pub(crate) fn is_thinking(block: &SpannedJson) -> bool {
    matches!(block.type_tag(), "thinking" | "redacted_thinking")
}

/// Returns the blocks of a string or list, each in canonical form.
fn canonical_blocks(content: &SpannedJson, text: &str) -> Vec<String> {
    match &content.kind {
        SpannedJsonKind::String(value) => {
            vec![format!("{{\"text\":{},\"type\":\"text\"}}", serde_json::Value::from(value.as_str()))]
        }
        SpannedJsonKind::Array(blocks) => blocks.iter().map(|block| canonical_block(block, text)).collect(),
        _ => Vec::new(),
    }
}

/// Returns a block without the parts that may change freely: cache markers, the order of its own keys, the spelling of
/// escapes.
pub(crate) fn canonical_block(block: &SpannedJson, text: &str) -> String {
    let mut members: Vec<_> = block.members().iter().filter(|member| member.key != "cache_control").collect();
    members.sort_by(|a, b| a.key.cmp(&b.key));
    let mut out = String::from("{");
    for member in members {
        if out.len() > 1 {
            out.push(',');
        }
        out.push_str(&format!("{}:", serde_json::Value::from(member.key.as_str())));
        canonical_value(&member.value, text, &mut out);
    }
    out.push('}');
    out
}

fn canonical_value(node: &SpannedJson, text: &str, out: &mut String) {
    match &node.kind {
        SpannedJsonKind::String(value) => out.push_str(&serde_json::Value::from(value.as_str()).to_string()),
        SpannedJsonKind::Array(items) => {
            out.push('[');
            for (position, item) in items.iter().enumerate() {
                if position > 0 {
                    out.push(',');
                }
                canonical_value(item, text, out);
            }
            out.push(']');
        }
        SpannedJsonKind::Object(members) => {
            out.push('{');
            for (position, member) in members.iter().filter(|member| member.key != "cache_control").enumerate() {
                if position > 0 {
                    out.push(',');
                }
                out.push_str(&format!("{}:", serde_json::Value::from(member.key.as_str())));
                canonical_value(&member.value, text, out);
            }
            out.push('}');
        }
        SpannedJsonKind::Null | SpannedJsonKind::Bool(_) | SpannedJsonKind::Number => {
            out.push_str(&text[node.span.clone()])
        }
    }
}
