//! What a long answer and a long history cost: parsing 20,000 events of 2 MB, building a body of 800 messages.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a bench that cannot set up its input must stop")]

use std::sync::Arc;

use divan::{Bencher, black_box};
use gimlet_model::{BodyPlan, ReplyReader, SseLimits, SseParser, build_body};
use gimlet_proto::{Block, CachePlan, CacheTtl, Message, ModelRequest, ThinkingMode, ToolChoice, ToolDef};
use serde_json::value::RawValue;

fn main() {
    divan::main();
}

/// About 2 MB in 20,000 deltas.
fn long_answer() -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut event = |name: &str, data: &str| bytes.extend(format!("event: {name}\ndata: {data}\n\n").bytes());
    event("message_start", r#"{"type":"message_start","message":{"id":"m","usage":{"input_tokens":1}}}"#);
    event(
        "content_block_start",
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
    );
    let delta = r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" some\nword"}}"#;
    for _ in 0..20_000 {
        event("content_block_delta", delta);
    }
    event("content_block_stop", r#"{"type":"content_block_stop","index":0}"#);
    event("message_delta", r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#);
    event("message_stop", r#"{"type":"message_stop"}"#);
    bytes
}

#[divan::bench]
fn split_events(bencher: Bencher) {
    let bytes = long_answer();
    bencher.bench_local(|| {
        let mut parser = SseParser::new(SseLimits::default());
        let mut size = 0;
        for piece in bytes.chunks(4096) {
            parser.push(piece, |event| size += event.data.len()).unwrap();
        }
        size
    });
}

#[divan::bench]
fn read_reply(bencher: Bencher) {
    let bytes = long_answer();
    bencher.bench_local(|| {
        let mut parser = SseParser::new(SseLimits::default());
        let mut reply = ReplyReader::new(None, false);
        let mut told = 0;
        for piece in bytes.chunks(4096) {
            parser
                .push(piece, |event| {
                    reply
                        .read_event(&event.name, &event.data, |event| {
                            black_box(event);
                            told += 1;
                        })
                        .unwrap();
                })
                .unwrap();
        }
        told
    });
}

#[divan::bench]
fn build_800_messages(bencher: Bencher) {
    let tools: Vec<ToolDef> = (0..20)
        .map(|n| ToolDef {
            name: format!("Tool{n}"),
            description: "Does \"something\" useful.\n".repeat(60),
            input_schema: RawValue::from_string(r#"{"type":"object","properties":{}}"#.to_owned()).unwrap(),
            eager_input: true,
            defer_loading: false,
        })
        .collect();
    let messages: Vec<Arc<Message>> = (0..800)
        .map(|n| match n % 2 {
            0 => Arc::new(Message::user(vec![Block::text(&"line of a file\n".repeat(200))])),
            _ => Arc::new(Message::assistant(vec![Block::text("fine")])),
        })
        .collect();
    let request = ModelRequest {
        model: "default".to_owned(),
        max_tokens: None,
        system: Arc::from(["You are careful.\n".repeat(500)]),
        tools: Arc::from(tools),
        tool_choice: ToolChoice::Auto { parallel: true },
        messages,
        few_images: None,
        cache: CachePlan { ttl: Some(CacheTtl::FiveMinutes), context: Some((0, 0)), previous_len: Some(798) },
        thinking: ThinkingMode::ModelDefault,
        display: None,
        effort: None,
        want_wire_events: false,
    };
    let plan = BodyPlan::plain("m", 32_000);
    bencher.bench_local(|| build_body(black_box(&request), &plan).len());
}
