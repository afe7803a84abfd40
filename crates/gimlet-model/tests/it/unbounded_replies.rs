//! Servers that send without end: what is taken from them has a bound, and they are not asked again.

use gimlet_proto::ModelErrorKind;
use serde_json::json;

use crate::canned_server::{CannedAnswer, CannedServer, ConnectionEnd, chunk, cut, event, stream};
use crate::*;

const MIB: usize = 1 << 20;
/// What sockets on both sides may hold on top of what was read.
const BUFFERED: usize = 16 * MIB;

/// A stream that begins like this and goes on with one piece for ever.
fn unbounded_answer(events: &[&str], piece: Vec<u8>) -> CannedAnswer {
    CannedAnswer { endless: Some(piece), ..cut(events, ConnectionEnd::KeepOpen) }
}

/// Asks a server that does not end. Returns what was told, and how many bytes the server got rid of.
async fn ask(plan: CannedAnswer) -> (Vec<ModelEvent>, usize) {
    let server = CannedServer::start(vec![plan, stream(&REPLY)]).await;
    let events = collect_events(&provider(&server), request("hi")).await;
    assert_eq!(server.recorded_requests().len(), 1, "it is not asked again");
    (events, server.unbounded_bytes_taken())
}

#[tokio::test]
async fn text_thinking_and_inputs_without_end_are_cut_at_the_limit_of_a_reply() {
    for (start, kind, member) in [
        (json!({"type": "text", "text": ""}), "text_delta", "text"),
        (json!({"type": "thinking", "thinking": "", "signature": ""}), "thinking_delta", "thinking"),
        (json!({"type": "tool_use", "id": "t", "name": "Read", "input": {}}), "input_json_delta", "partial_json"),
    ] {
        let start = json!({"type": "content_block_start", "index": 0, "content_block": start}).to_string();
        let delta =
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": kind, member: "x".repeat(MIB)}});
        let piece = chunk(&event(&delta.to_string()));
        let (events, taken) = ask(unbounded_answer(&[START, &start], piece)).await;
        let error = final_error(&events);
        assert_eq!(error.kind, ModelErrorKind::Protocol);
        assert_eq!(error.message, format!("the answer is longer than {} bytes", 64 * MIB), "{kind}");
        assert!(taken <= 64 * MIB + BUFFERED, "{kind}: {taken}");
        let told: usize = events.iter().map(told_bytes).sum();
        assert!(told <= 64 * MIB, "{kind}: {told}");
        assert!(events.iter().any(|event| matches!(event, ModelEvent::ReplyDiscarded)), "{kind}");
    }
}

fn told_bytes(event: &ModelEvent) -> usize {
    match event {
        ModelEvent::TextDelta { text, .. }
        | ModelEvent::ThinkingDelta { text, .. }
        | ModelEvent::InputDelta { text, .. } => text.len(),
        _ => 0,
    }
}

#[tokio::test]
async fn a_line_and_an_event_without_end_are_cut_at_the_limit_of_an_event() {
    let line = chunk(&"x".repeat(MIB));
    let lines = chunk(&format!("data: {}\n", "x".repeat(MIB)));
    for piece in [line, lines] {
        let (events, taken) = ask(unbounded_answer(&[START], piece)).await;
        let message = &final_error(&events).message;
        assert_eq!(*message, format!("one event of the answer is longer than {} bytes", 32 * MIB));
        assert!(taken <= 32 * MIB + BUFFERED, "{taken}");
    }
}

#[tokio::test]
async fn blocks_without_end_are_cut_at_their_number() {
    let start = r#"{"type":"content_block_start","content_block":{"type":"text","text":""}}"#;
    let (events, _) = ask(unbounded_answer(&[START], chunk(&event(start)).repeat(100))).await;
    assert_eq!(final_error(&events).message, "the answer has more than 4096 blocks");
    let opened = events.iter().filter(|event| matches!(event, ModelEvent::BlockStarted { .. })).count();
    assert_eq!(opened, 4096);
}

#[tokio::test]
async fn an_error_page_without_end_is_read_in_part() {
    let head = "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ntransfer-encoding: chunked\r\n\r\n";
    let piece = chunk(&"no ".repeat(MIB / 3));
    let plan = CannedAnswer { pieces: vec![head.into()], endless: Some(piece), ..CannedAnswer::default() };
    let (events, taken) = ask(plan).await;
    assert!(final_error(&events).message.starts_with("no no no"));
    assert!(final_error(&events).message.len() < 10_000);
    assert!(taken <= BUFFERED, "{taken}");
}
