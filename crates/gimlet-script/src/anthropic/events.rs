//! Rendering of a message as stream events, in the order and shape that the service uses.
//!
//! Oddities that concern events (usage styles, unknown events, pings) are made here; everything about bytes is in the
//! wire module.

use serde_json::{Map, Value, json};

use super::message::{ReplyBlock, ReplyMessage, prompt_usage, transformations};
use crate::script::{InputPieces, PingMode, UsageStyle, WireShape};

/// One event and its purpose, so that faults can find their position.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ScriptedEvent {
    pub(crate) name: String,
    pub(crate) data: Value,
    pub(crate) mark: EventMark,
    /// Wait before it is sent.
    pub(crate) pause_ms: u64,
}

/// Purpose of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EventMark {
    MessageStart,
    BlockStart(String),
    Delta(String),
    BlockStop(String),
    MessageDelta,
    MessageStop,
    Noise,
}

impl ScriptedEvent {
    pub(crate) fn new(mark: EventMark, data: Value) -> Self {
        let name = data["type"].as_str().unwrap_or("").to_owned();
        Self { name, data, mark, pause_ms: 0 }
    }

    /// Returns the block that this event belongs to.
    pub(crate) fn index(&self) -> Option<u64> {
        self.data["index"].as_u64()
    }
}

/// Returns a ping.
pub(crate) fn ping(fat: bool) -> ScriptedEvent {
    let data = if fat { json!({ "type": "ping", "sent": 1, "note": { "a": [] } }) } else { json!({ "type": "ping" }) };
    ScriptedEvent::new(EventMark::Noise, data)
}

/// Returns all events of a message.
pub(crate) fn render(message: &ReplyMessage, wire: &WireShape) -> Vec<ScriptedEvent> {
    let mut events = vec![message_start(message, wire)];
    for (index, block) in message.blocks.iter().enumerate() {
        block_events(index, block, wire, &mut events);
    }
    message_deltas(message, wire, &mut events);
    events.push(ScriptedEvent::new(EventMark::MessageStop, json!({ "type": "message_stop" })));
    if wire.unknown {
        events = with_unknowns(events);
    }
    with_pings(events, wire)
}

fn message_start(message: &ReplyMessage, wire: &WireShape) -> ScriptedEvent {
    let mut body = json!({
        "id": message.id,
        "type": "message",
        "role": "assistant",
        "model": message.model,
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
    });
    if wire.usage != UsageStyle::Missing {
        let mut usage = prompt_usage(message);
        usage.insert("output_tokens".to_owned(), json!(1));
        usage.extend(message.usage_override.clone().unwrap_or_default());
        body["usage"] = Value::Object(usage);
    }
    if let Some(dropped) = &message.dropped {
        body["input_transformations"] = transformations(dropped);
    }
    ScriptedEvent::new(EventMark::MessageStart, json!({ "type": "message_start", "message": body }))
}

fn block_events(index: usize, block: &ReplyBlock, wire: &WireShape, events: &mut Vec<ScriptedEvent>) {
    let kind = block.kind().to_owned();
    let start = json!({ "type": "content_block_start", "index": index, "content_block": start_of(block) });
    events.push(ScriptedEvent::new(EventMark::BlockStart(kind.clone()), start));
    let pause_ms = if matches!(block, ReplyBlock::Tool { .. }) { wire.input_pause_ms } else { 0 };
    for (position, delta) in deltas_of(block, wire).into_iter().enumerate() {
        let data = json!({ "type": "content_block_delta", "index": index, "delta": delta });
        let mut event = ScriptedEvent::new(EventMark::Delta(kind.clone()), data);
        // Buffered input arrives in bursts: silence first, then some pieces at once.
        event.pause_ms = if position % 4 == 0 { pause_ms } else { 0 };
        events.push(event);
    }
    let stop = json!({ "type": "content_block_stop", "index": index });
    events.push(ScriptedEvent::new(EventMark::BlockStop(kind), stop));
}

/// Returns the content of a block's start event.
fn start_of(block: &ReplyBlock) -> Value {
    match block {
        ReplyBlock::Text { .. } => json!({ "type": "text", "text": "" }),
        ReplyBlock::Thinking { .. } => json!({ "type": "thinking", "thinking": "", "signature": "" }),
        ReplyBlock::Tool { id, name, .. } => json!({ "type": "tool_use", "id": id, "name": name, "input": {} }),
        ReplyBlock::Raw { block, whole: true } => block.clone(),
        ReplyBlock::Raw { block, whole: false } => emptied(block),
    }
}

/// Returns a raw block as it is before its deltas.
fn emptied(block: &Value) -> Value {
    let mut start = block.clone();
    match block["type"].as_str().unwrap_or("") {
        "text" => start["text"] = json!(""),
        "thinking" => {
            start["thinking"] = json!("");
            start["signature"] = json!("");
        }
        "tool_use" | "server_tool_use" | "mcp_tool_use" => start["input"] = json!({}),
        "compaction" => start = json!({ "type": "compaction" }),
        _ => {}
    }
    start
}

fn deltas_of(block: &ReplyBlock, wire: &WireShape) -> Vec<Value> {
    match block {
        ReplyBlock::Text { text, times } => {
            let once = pieces(text, wire.text_piece);
            let all = std::iter::repeat_n(&once, *times).flatten();
            all.map(|piece| json!({ "type": "text_delta", "text": piece })).collect()
        }
        ReplyBlock::Thinking { shown, signature } => thinking_deltas(shown, signature, wire),
        ReplyBlock::Tool { input, .. } => input_deltas(input, wire),
        ReplyBlock::Raw { whole: true, .. } => Vec::new(),
        ReplyBlock::Raw { block, whole: false } => raw_deltas(block, wire),
    }
}

fn thinking_deltas(shown: &str, signature: &str, wire: &WireShape) -> Vec<Value> {
    let texts = pieces(shown, wire.text_piece);
    let mut deltas: Vec<Value> =
        texts.iter().map(|piece| json!({ "type": "thinking_delta", "thinking": piece })).collect();
    deltas.push(json!({ "type": "signature_delta", "signature": signature }));
    deltas
}

fn input_deltas(input: &str, wire: &WireShape) -> Vec<Value> {
    let pieces: Vec<&str> = match wire.input_pieces {
        InputPieces::None => Vec::new(),
        InputPieces::One => vec![input],
        // The service opens every call with an empty piece.
        InputPieces::Bytes(bytes) => std::iter::once("").chain(byte_pieces(input, bytes)).collect(),
        InputPieces::Empty => byte_pieces(input, 8).into_iter().flat_map(|piece| ["", piece, ""]).collect(),
    };
    pieces.iter().map(|piece| json!({ "type": "input_json_delta", "partial_json": piece })).collect()
}

fn raw_deltas(block: &Value, wire: &WireShape) -> Vec<Value> {
    match block["type"].as_str().unwrap_or("") {
        "text" => pieces(block["text"].as_str().unwrap_or(""), wire.text_piece)
            .iter()
            .map(|piece| json!({ "type": "text_delta", "text": piece }))
            .collect(),
        "thinking" => {
            let part = |name: &str| block[name].as_str().unwrap_or("").to_owned();
            thinking_deltas(&part("thinking"), &part("signature"), wire)
        }
        "tool_use" | "server_tool_use" | "mcp_tool_use" => input_deltas(&block["input"].to_string(), wire),
        "compaction" => {
            let mut delta = json!({ "type": "compaction_delta", "content": block["content"] });
            if let Some(encrypted) = block.get("encrypted_content") {
                delta["encrypted_content"] = encrypted.clone();
            }
            vec![delta]
        }
        _ => Vec::new(),
    }
}

/// Cuts a text into pieces of so many characters.
fn pieces(text: &str, chars: usize) -> Vec<&str> {
    let starts: Vec<usize> = text.char_indices().map(|(at, _)| at).step_by(chars.max(1)).collect();
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    starts.iter().zip(ends).map(|(start, end)| &text[*start..end]).collect()
}

/// Cuts a text into pieces of at least so many bytes, whole code points each.
fn byte_pieces(text: &str, bytes: usize) -> Vec<&str> {
    let mut rest = text;
    let mut out = Vec::new();
    while !rest.is_empty() {
        let cut = rest.ceil_char_boundary(bytes.max(1));
        out.push(&rest[..cut]);
        rest = &rest[cut..];
    }
    out
}

fn message_deltas(message: &ReplyMessage, wire: &WireShape, events: &mut Vec<ScriptedEvent>) {
    let event = |delta: Value, usage: Option<Map<String, Value>>| {
        let mut data = json!({ "type": "message_delta", "delta": delta });
        if let Some(usage) = usage {
            data["usage"] = Value::Object(usage);
        }
        ScriptedEvent::new(EventMark::MessageDelta, data)
    };
    let mut last = json!({ "stop_reason": message.stop_reason, "stop_sequence": message.stop_sequence });
    if let Some(details) = &message.stop_details {
        last["stop_details"] = details.clone();
    }
    if wire.usage == UsageStyle::Several {
        let early = json!({ "stop_reason": null, "stop_sequence": null });
        let usage = end_usage(message, message.output_tokens.div_ceil(2), UsageStyle::Normal);
        events.push(event(early, Some(usage)));
    }
    let usage = (wire.usage != UsageStyle::Missing).then(|| end_usage(message, message.output_tokens, wire.usage));
    events.push(event(last, usage));
}

/// Cumulative usage: the prompt's numbers again, or nulls in their place.
fn end_usage(message: &ReplyMessage, output_tokens: u64, style: UsageStyle) -> Map<String, Value> {
    let mut usage = prompt_usage(message);
    usage.retain(|name, _| name.ends_with("_tokens"));
    if style == UsageStyle::Nulls {
        usage.values_mut().for_each(|value| *value = Value::Null);
    }
    usage.insert("output_tokens".to_owned(), json!(output_tokens));
    usage.insert("output_tokens_details".to_owned(), json!({ "thinking_tokens": message.thinking_tokens }));
    usage.extend(message.usage_override.clone().unwrap_or_default());
    usage
}

/// Adds an event, a delta type and a field that no client can know.
fn with_unknowns(events: Vec<ScriptedEvent>) -> Vec<ScriptedEvent> {
    let mut out = Vec::with_capacity(events.len() * 2);
    for mut event in events {
        event.data["x_unknown_field"] = json!({ "nested": [1, null] });
        let index = event.index();
        let after_start = matches!(event.mark, EventMark::BlockStart(_));
        out.push(event);
        if after_start {
            let delta = json!({ "type": "x_unknown_delta", "value": "?" });
            let data = json!({ "type": "content_block_delta", "index": index, "delta": delta });
            out.push(ScriptedEvent::new(EventMark::Noise, data));
            out.push(ScriptedEvent::new(EventMark::Noise, json!({ "type": "x_unknown_event", "index": index })));
        }
    }
    out
}

fn with_pings(events: Vec<ScriptedEvent>, wire: &WireShape) -> Vec<ScriptedEvent> {
    let mut out = Vec::with_capacity(events.len() + 1);
    let mut burst_done = false;
    for (position, event) in events.into_iter().enumerate() {
        let mark = event.mark.clone();
        let before = usize::from(wire.pings == PingMode::BeforeStart && mark == EventMark::MessageStart);
        let after = match wire.pings {
            PingMode::None | PingMode::BeforeStart => 0,
            PingMode::Start => usize::from(mark == EventMark::MessageStart),
            PingMode::Every(count) => usize::from((position + 1) % count == 0),
            PingMode::Burst(count) if !burst_done && matches!(mark, EventMark::Delta(_)) => {
                burst_done = true;
                count
            }
            PingMode::Burst(_) => 0,
            PingMode::AfterDelta => usize::from(mark == EventMark::MessageDelta),
        };
        out.extend(std::iter::repeat_with(|| ping(wire.fat_pings)).take(before));
        out.push(event);
        out.extend(std::iter::repeat_with(|| ping(wire.fat_pings)).take(after));
    }
    out
}
