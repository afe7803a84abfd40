//! Building of a scripted reply: assigns ids, fills placeholders, seals thinking and counts usage.

use serde_json::{Map, Value, json};

use super::ThinkingSigner;
use crate::digest_chain;
use crate::prompt_usage::PromptUsage;
use crate::script::{BlockSpec, ScriptedReply, ToolInput};
use crate::template::ReplyTemplate;

/// Source of ids: the script's seed and the position of the reply in it.
pub(crate) struct IdSource {
    pub(crate) seed: u64,
    pub(crate) place: String,
}

/// A complete message, ready to be rendered.
#[derive(Clone, Debug)]
pub(crate) struct ReplyMessage {
    pub(crate) id: String,
    pub(crate) model: String,
    pub(crate) blocks: Vec<ReplyBlock>,
    pub(crate) stop_reason: Option<String>,
    pub(crate) stop_sequence: Option<String>,
    pub(crate) stop_details: Option<Value>,
    pub(crate) prompt: PromptUsage,
    pub(crate) output_tokens: u64,
    pub(crate) thinking_tokens: u64,
    /// Fields that replace or extend the computed usage.
    pub(crate) usage_override: Option<Map<String, Value>>,
    /// Replayed blocks that were left out, when the client requested a report of them.
    pub(crate) dropped: Option<Vec<String>>,
}

/// One block of it.
#[derive(Clone, Debug)]
pub(crate) enum ReplyBlock {
    /// A text and how often it is repeated, each time as deltas of its own.
    Text {
        text: String,
        times: usize,
    },
    Thinking {
        shown: String,
        signature: String,
    },
    Tool {
        id: String,
        name: String,
        input: String,
    },
    Raw {
        block: Value,
        whole: bool,
    },
}

impl ReplyBlock {
    /// Returns the block as one JSON object, the way it stands in a message that is not streamed.
    pub(crate) fn to_value(&self) -> Value {
        match self {
            ReplyBlock::Text { text, times } => json!({ "type": "text", "text": text.repeat(*times) }),
            ReplyBlock::Thinking { shown, signature } => {
                json!({ "type": "thinking", "thinking": shown, "signature": signature })
            }
            ReplyBlock::Tool { id, name, input } => {
                let input = serde_json::from_str(input).ok().filter(Value::is_object).unwrap_or_else(|| json!({}));
                json!({ "type": "tool_use", "id": id, "name": name, "input": input })
            }
            ReplyBlock::Raw { block, .. } => block.clone(),
        }
    }

    /// Returns the JSON that a well-behaved client will send back, for sealing what follows.
    fn replayed_json(&self) -> String {
        match self {
            ReplyBlock::Tool { id, name, input } => {
                let usable = crate::spanned_json::parse(input).is_ok_and(|node| node.is_object());
                let input = if usable { input.as_str() } else { "{}" };
                format!("{{\"type\":\"tool_use\",\"id\":{},\"name\":{},\"input\":{input}}}", json!(id), json!(name))
            }
            other => other.to_value().to_string(),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            ReplyBlock::Text { text, times } => text.len() * times,
            ReplyBlock::Thinking { shown, .. } => shown.len(),
            ReplyBlock::Tool { name, input, .. } => name.len() + input.len(),
            ReplyBlock::Raw { block, .. } => block.to_string().len(),
        }
    }

    pub(crate) fn kind(&self) -> &str {
        match self {
            ReplyBlock::Text { .. } => "text",
            ReplyBlock::Thinking { .. } => "thinking",
            ReplyBlock::Tool { .. } => "tool_use",
            ReplyBlock::Raw { block, .. } => block["type"].as_str().unwrap_or(""),
        }
    }
}

/// Builds the message of a reply for one request.
pub(crate) fn build_message(
    reply: &ScriptedReply,
    ids: &IdSource,
    template: &ReplyTemplate<'_>,
    model: &str,
    binder: Option<ThinkingSigner>,
    prompt: PromptUsage,
) -> ReplyMessage {
    let mut maker = MessageBuilder { ids, template, binder, blocks: Vec::new(), thinking_bytes: 0 };
    for spec in &reply.blocks {
        maker.add(spec);
    }
    let MessageBuilder { blocks, thinking_bytes, .. } = maker;
    let calls_tool = blocks.iter().any(|block| block.kind() == "tool_use");
    let default_stop = if calls_tool { "tool_use" } else { "end_turn" };
    let thinking_tokens = thinking_bytes.div_ceil(4) as u64;
    let shown_bytes: usize = blocks.iter().filter(|block| block.kind() != "thinking").map(ReplyBlock::bytes).sum();
    ReplyMessage {
        id: digest_chain::make_id("msg", ids.seed, &ids.place),
        model: model.to_owned(),
        stop_reason: reply.stop_reason.clone().unwrap_or_else(|| Some(default_stop.to_owned())),
        stop_sequence: reply.stop_sequence.clone(),
        stop_details: reply.stop_details.clone(),
        prompt,
        output_tokens: (shown_bytes.div_ceil(4) as u64 + thinking_tokens).max(1),
        thinking_tokens,
        usage_override: reply.usage.clone(),
        dropped: None,
        blocks,
    }
}

struct MessageBuilder<'a> {
    ids: &'a IdSource,
    template: &'a ReplyTemplate<'a>,
    binder: Option<ThinkingSigner>,
    blocks: Vec<ReplyBlock>,
    thinking_bytes: usize,
}

impl MessageBuilder<'_> {
    fn push(&mut self, block: ReplyBlock) {
        if let Some(binder) = &mut self.binder {
            binder.absorb_json(&block.replayed_json());
        }
        self.blocks.push(block);
    }

    fn next_id(&self, prefix: &str) -> String {
        digest_chain::make_id(prefix, self.ids.seed, &format!("{}.{}", self.ids.place, self.blocks.len()))
    }

    fn add(&mut self, spec: &BlockSpec) {
        match spec {
            BlockSpec::Text { text, times } => {
                let text = self.template.fill(text, 1);
                self.push(ReplyBlock::Text { text, times: *times });
            }
            BlockSpec::Thinking { text, omitted } => {
                let text = self.template.fill(text, 1);
                self.thinking_bytes += text.len();
                let shown = if *omitted { String::new() } else { text };
                let signature = self.binder.as_mut().map(|binder| binder.sign(&shown)).unwrap_or_default();
                self.blocks.push(ReplyBlock::Thinking { shown, signature });
            }
            BlockSpec::Tool { name, input, id, times } => {
                for n in 1..=*times {
                    let input = self.input_text(input, n);
                    let id = id.clone().unwrap_or_else(|| self.next_id("toolu"));
                    self.push(ReplyBlock::Tool { id, name: name.clone(), input });
                }
            }
            BlockSpec::Raw { block, whole } => {
                let block = self.template.fill_value(block, 1);
                self.push(ReplyBlock::Raw { block, whole: *whole });
            }
            BlockSpec::HugeResult { bytes } => self.add_huge_result(*bytes),
        }
    }

    fn input_text(&self, input: &ToolInput, n: usize) -> String {
        match input {
            ToolInput::Json(value) => self.template.fill_value(value, n).to_string(),
            ToolInput::Raw(text) => self.template.fill(text, n),
            ToolInput::Bytes(bytes) => json!({ "data": filler(*bytes) }).to_string(),
        }
    }

    /// Adds a fetched page of the given size, with the call that fetched it.
    fn add_huge_result(&mut self, bytes: usize) {
        let id = self.next_id("srvtoolu");
        let url = "https://example.com/large";
        let call = json!({ "type": "server_tool_use", "id": id, "name": "web_fetch", "input": { "url": url } });
        let source = json!({ "type": "text", "media_type": "text/plain", "data": filler(bytes) });
        let page =
            json!({ "type": "web_fetch_result", "url": url, "content": { "type": "document", "source": source } });
        let result = json!({ "type": "web_fetch_tool_result", "tool_use_id": id, "content": page });
        self.push(ReplyBlock::Raw { block: call, whole: false });
        self.push(ReplyBlock::Raw { block: result, whole: true });
    }
}

fn filler(bytes: usize) -> String {
    const PHRASE: &str = "the quick brown fox jumps over the lazy dog ";
    let mut text = PHRASE.repeat(bytes / PHRASE.len() + 1);
    text.truncate(bytes);
    text
}

/// Returns the prompt's part of `usage`, as in `message_start`.
pub(crate) fn prompt_usage(message: &ReplyMessage) -> Map<String, Value> {
    let prompt = &message.prompt;
    let usage = json!({
        "input_tokens": prompt.input_tokens,
        "cache_creation_input_tokens": prompt.cache_write_tokens(),
        "cache_read_input_tokens": prompt.cache_read_tokens,
        "cache_creation": {
            "ephemeral_5m_input_tokens": prompt.cache_write_5m_tokens,
            "ephemeral_1h_input_tokens": prompt.cache_write_1h_tokens,
        },
        "service_tier": "standard",
    });
    match usage {
        Value::Object(usage) => usage,
        _ => Map::new(),
    }
}

/// Returns the whole message as one JSON object, for a request that does not stream.
pub(crate) fn to_json(message: &ReplyMessage) -> Value {
    let mut usage = prompt_usage(message);
    usage.insert("output_tokens".to_owned(), json!(message.output_tokens));
    usage.insert("output_tokens_details".to_owned(), json!({ "thinking_tokens": message.thinking_tokens }));
    usage.extend(message.usage_override.clone().unwrap_or_default());
    let mut body = json!({
        "id": message.id,
        "type": "message",
        "role": "assistant",
        "model": message.model,
        "content": message.blocks.iter().map(ReplyBlock::to_value).collect::<Vec<_>>(),
        "stop_reason": message.stop_reason,
        "stop_sequence": message.stop_sequence,
        "usage": usage,
    });
    if let Some(details) = &message.stop_details {
        body["stop_details"] = details.clone();
    }
    if let Some(dropped) = &message.dropped {
        body["input_transformations"] = transformations(dropped);
    }
    body
}

/// Returns the service's report of the replayed blocks that it left out.
pub(crate) fn transformations(dropped: &[String]) -> Value {
    dropped.iter().map(|path| json!({ "type": "thinking_dropped", "path": path })).collect()
}

/// Returns a block in the form in which histories are compared.
pub(crate) fn canonical_tail(block: &ReplyBlock) -> Option<String> {
    let text = block.replayed_json();
    let node = crate::spanned_json::parse(&text).ok()?;
    Some(super::thinking_signature::canonical_block(&node, &text))
}
