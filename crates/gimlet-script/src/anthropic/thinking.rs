//! Thinking signatures: made for what is said, checked when it comes back.
//!
//! A signature names the account, the model and digests of everything sent before it, of the thinking before it and of its own text,
//! sealed and padded to 4 KiB. Comparing the digests one by one tells a changed text, a truncated signature and a
//! changed conversation apart, as the service does.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::api_error::ApiError;
use crate::hash::{Chain, digest};
use crate::json::{Kind, Node};
use crate::profile::{Binding, Profile};

const SIGNATURE_CHARS: usize = 4096;
const NO_PREDECESSOR: &str = "first";

/// Follows a conversation and seals thinking blocks against it.
#[derive(Clone)]
pub(crate) struct Binder {
    seed: u64,
    account: String,
    model: String,
    chain: Chain,
    role: String,
    previous: Option<String>,
}

struct Seal {
    account: String,
    model: String,
    prefix: String,
    previous: String,
    text: String,
}

impl Binder {
    /// Begins with what stands before the messages: system prompt and loaded tools.
    fn new(seed: u64, account: &str, model: &str, text: &str, root: &Node) -> Self {
        let mut chain = Chain::new("binding");
        if let Some(system) = root.get("system") {
            for block in canonical_blocks(system, text) {
                chain = chain.mix(&block);
            }
        }
        for tool in root.get("tools").map(Node::items).unwrap_or_default() {
            if tool.get("defer_loading").and_then(Node::as_bool) != Some(true) {
                chain = chain.mix(&canonical_block(tool, text));
            }
        }
        Self { seed, account: account.to_owned(), model: model.to_owned(), chain, role: String::new(), previous: None }
    }

    /// A binder at the end of a whole request, ready to seal the answer's blocks.
    pub(crate) fn after(seed: u64, account: &str, model: &str, text: &str, root: &Node) -> Self {
        let mut binder = Self::new(seed, account, model, text, root);
        for message in root.get("messages").map(Node::items).unwrap_or_default() {
            binder.enter(message.str_of("role").unwrap_or(""));
            let Some(content) = message.get("content") else { continue };
            if let Kind::String(_) = content.kind {
                binder.pass_all(canonical_blocks(content, text));
            }
            for block in content.items() {
                match block.str_of("signature").filter(|_| block.tag() == "thinking") {
                    Some(signature) => binder.previous = Some(signature.to_owned()),
                    None => binder.pass(block, text),
                }
            }
        }
        binder.enter("assistant");
        binder
    }

    /// Consecutive messages of one role count as one, so only a change of role leaves a trace.
    fn enter(&mut self, role: &str) {
        if self.role != role {
            role.clone_into(&mut self.role);
            self.chain = self.chain.mix("role").mix(role);
        }
    }

    fn pass_all(&mut self, blocks: Vec<String>) {
        for block in blocks {
            self.chain = self.chain.mix(&block);
        }
    }

    fn pass(&mut self, block: &Node, text: &str) {
        if !is_thinking(block) {
            self.chain = self.chain.mix(&canonical_block(block, text));
        }
    }

    /// Goes past one block of the answer.
    pub(crate) fn pass_json(&mut self, block: &str) {
        if let Ok(node) = crate::json::parse(block) {
            self.pass(&node, block);
        }
    }

    /// Seals one thinking block of the answer and goes past it.
    pub(crate) fn seal(&mut self, thinking: &str) -> String {
        let seal = Seal {
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

    /// Whether a seal was made at this place. With no thinking before it, it may have lost its predecessors: dropping
    /// thinking from the front of a history is allowed.
    fn fits(&self, seal: &Seal) -> bool {
        seal.prefix == self.chain.hex() && (self.previous.is_none() || seal.previous == self.previous_digest())
    }
}

impl Seal {
    fn render(&self, seed: u64) -> String {
        let fields = format!("{}|{}|{}|{}|{}|", self.account, self.model, self.prefix, self.previous, self.text);
        let mut chain = Chain::new("seal").mix(&seed.to_string()).mix(&fields);
        let mut plain = fields;
        while plain.len() < SIGNATURE_CHARS / 4 * 3 {
            plain.push_str(&chain.hex());
            chain = chain.mix("more");
        }
        plain.truncate(SIGNATURE_CHARS / 4 * 3);
        STANDARD.encode(plain)
    }

    /// Reads a signature; `None` unless every character is as it was given out.
    fn read(signature: &str, seed: u64) -> Option<Self> {
        let plain = String::from_utf8(STANDARD.decode(signature).ok()?).ok()?;
        let mut fields = plain.split('|').map(str::to_owned);
        let mut next = || fields.next();
        let seal = Seal { account: next()?, model: next()?, prefix: next()?, previous: next()?, text: next()? };
        (seal.render(seed) == signature).then_some(seal)
    }
}

/// Checks all replayed thinking. Gives the paths of the blocks that the model will not see.
pub(crate) fn verify(
    seed: u64,
    account: &str,
    profile: &Profile,
    text: &str,
    root: &Node,
) -> Result<Vec<String>, ApiError> {
    let mut binder = Binder::new(seed, account, &profile.id, text, root);
    let mut dropped = Vec::new();
    let messages = root.get("messages").map(Node::items).unwrap_or_default();
    let latest = messages.iter().rposition(|message| message.str_of("role") == Some("assistant"));
    let asked = root.get("thinking").and_then(|thinking| thinking.get("block_binding"));
    let binding = match asked.and_then(|asked| asked.str_of("prefix_mismatch_behavior")) {
        Some("drop_block") => Binding::Drop,
        Some("error") => Binding::Error,
        _ => profile.binding,
    };
    for (m, message) in messages.iter().enumerate() {
        binder.enter(message.str_of("role").unwrap_or(""));
        let Some(content) = message.get("content") else { continue };
        if let Kind::String(_) = content.kind {
            binder.pass_all(canonical_blocks(content, text));
        }
        for (b, block) in content.items().iter().enumerate() {
            if block.tag() != "thinking" {
                binder.pass(block, text);
                continue;
            }
            let path = format!("messages.{m}.content.{b}");
            let is_checked = binding != Binding::Unbound || Some(m) == latest;
            if is_checked && let Fate::Dropped = judge(&binder, block, &path, binding)? {
                dropped.push(path);
            }
            binder.previous = block.str_of("signature").map(str::to_owned);
        }
    }
    Ok(dropped)
}

enum Fate {
    Kept,
    Dropped,
}

fn judge(binder: &Binder, block: &Node, path: &str, binding: Binding) -> Result<Fate, ApiError> {
    let signature = block.str_of("signature").unwrap_or("");
    let Some(seal) = Seal::read(signature, binder.seed) else {
        return Err(ApiError::at(path, "Invalid `signature` in `thinking` block"));
    };
    // What another model or account thought cannot be read; the service says nothing of it.
    if seal.model != binder.model || seal.account != binder.account {
        return Ok(Fate::Dropped);
    }
    if seal.text != digest(block.str_of("thinking").unwrap_or("")) {
        let message = "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified";
        return Err(ApiError::at(path, message));
    }
    match binding {
        Binding::Unbound => Ok(Fate::Kept),
        _ if binder.fits(&seal) => Ok(Fate::Kept),
        Binding::Drop => Ok(Fate::Dropped),
        Binding::Error => Err(ApiError::at(
            path,
            "this `thinking` block is bound to a different conversation: its prefix has changed",
        )),
    }
}

pub(crate) fn is_thinking(block: &Node) -> bool {
    matches!(block.tag(), "thinking" | "redacted_thinking")
}

/// The blocks of a string or list, each in canonical form.
fn canonical_blocks(content: &Node, text: &str) -> Vec<String> {
    match &content.kind {
        Kind::String(value) => {
            vec![format!("{{\"text\":{},\"type\":\"text\"}}", serde_json::Value::from(value.as_str()))]
        }
        Kind::Array(blocks) => blocks.iter().map(|block| canonical_block(block, text)).collect(),
        _ => Vec::new(),
    }
}

/// A block without what may change freely: cache markers, the order of its own keys, the spelling of escapes.
pub(crate) fn canonical_block(block: &Node, text: &str) -> String {
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

fn canonical_value(node: &Node, text: &str, out: &mut String) {
    match &node.kind {
        Kind::String(value) => out.push_str(&serde_json::Value::from(value.as_str()).to_string()),
        Kind::Array(items) => {
            out.push('[');
            for (position, item) in items.iter().enumerate() {
                if position > 0 {
                    out.push(',');
                }
                canonical_value(item, text, out);
            }
            out.push(']');
        }
        Kind::Object(members) => {
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
        Kind::Null | Kind::Bool(_) | Kind::Number => out.push_str(&text[node.span.clone()]),
    }
}
