//! Fuzz target for the bytes of a model's answer: any server may send anything, cut anywhere.
//!
//! Events must not depend on where the bytes were cut and must be those of a straightforward implementation of the
//! standard. The events of a reply must come in an order that a session can process.

use std::collections::HashMap;

use gimlet_model::{ReplyReader, SseLimits, SseParser, StreamFlow};
use gimlet_proto::{Block, BlockKind, ModelEvent};

use crate::FuzzTarget;
use crate::input_fields::{join_fields, split_fields};

/// Fields: the lengths of the pieces, the stream.
pub const TARGET: FuzzTarget = FuzzTarget { name: "sse_stream", run, seeds, words: WORDS };

const WORDS: &[&str] = &[
    "event: ",
    "data: ",
    "data:",
    "\n\n",
    "\r\n\r\n",
    "\r",
    ":",
    "id: 1",
    "retry: 1",
    "\u{feff}",
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
    "error",
    "ping",
    "{\"type\":\"",
    "\"index\":0",
    "\"index\":1",
    "\"delta\":{",
    "\"content_block\":{",
    "\"text\":\"",
    "text_delta",
    "input_json_delta",
    "thinking_delta",
    "signature_delta",
    "citations_delta",
    "compaction_delta",
    "partial_json",
    "tool_use",
    "server_tool_use",
    "\"stop_reason\":\"",
    "max_tokens",
    "refusal",
    "\"usage\":{",
    "\\ud800",
    "null",
    "{}",
];

fn run(data: &[u8]) {
    let (cuts, stream) = match *split_fields(data).as_slice() {
        [cuts, stream, ..] => (cuts, stream),
        _ => (&[][..], data),
    };
    let whole = parse_events(&[stream]);
    assert_eq!(whole, parse_events_simply(stream), "the events are not those of the standard");
    assert_eq!(parse_events(&cut_stream(stream, cuts)), whole, "the events depend on where the stream was cut");
    check_small_limits(&cut_stream(stream, cuts));
    for want_wire in [false, true] {
        read_reply(&whole, want_wire);
    }
}

type RawSseEvent = (String, String);

fn parse_events(pieces: &[&[u8]]) -> Vec<RawSseEvent> {
    let mut parser = SseParser::new(SseLimits::default());
    let mut found = Vec::new();
    for piece in pieces {
        let pushed = parser.push(piece, |event| found.push((event.name.into_owned(), event.data.into_owned())));
        assert_eq!(pushed, Ok(()), "no input of a fuzzer is as long as the limits");
    }
    found
}

/// Asserts that small limits end a stream with an error and nothing else.
fn check_small_limits(pieces: &[&[u8]]) {
    let mut parser = SseParser::new(SseLimits { event: 32, response: 256 });
    for piece in pieces {
        if parser.push(piece, |_| ()).is_err() {
            return;
        }
    }
}

fn cut_stream<'a>(mut stream: &'a [u8], cuts: &[u8]) -> Vec<&'a [u8]> {
    let mut found = Vec::new();
    for length in cuts.iter().copied().cycle().take(stream.len()) {
        let (piece, rest) = stream.split_at(usize::from(length % 64).min(stream.len()));
        found.push(piece);
        stream = rest;
    }
    found.push(stream);
    found
}

/// Parses an event stream by the standard in the simplest form: all lines first, then field by field.
fn parse_events_simply(stream: &[u8]) -> Vec<RawSseEvent> {
    let stream = stream.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(stream);
    let (mut name, mut data): (Vec<u8>, Option<Vec<u8>>) = (Vec::new(), None);
    let mut found = Vec::new();
    for line in complete_lines(stream) {
        if line.is_empty() {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            found.extend(data.take().map(|data| (text(&name), text(&data))));
            name.clear();
            continue;
        }
        let colon = line.iter().position(|byte| *byte == b':');
        let (field, value) = colon.map_or((line, &[][..]), |at| (&line[..at], &line[at + 1..]));
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"event" => name = value.to_vec(),
            b"data" => {
                data = Some(data.map_or_else(|| value.to_vec(), |before| [before.as_slice(), b"\n", value].concat()));
            }
            _ => {}
        }
    }
    found
}

/// Returns the lines that have an end: LF, CR, or both in that order as one.
fn complete_lines(stream: &[u8]) -> Vec<&[u8]> {
    let (mut lines, mut start) = (Vec::new(), 0);
    for (at, byte) in stream.iter().enumerate() {
        let second_half = *byte == b'\n' && at > 0 && stream[at - 1] == b'\r';
        if matches!(byte, b'\n' | b'\r') && !second_half {
            lines.push(&stream[start..at]);
        }
        if matches!(byte, b'\n' | b'\r') {
            start = at + 1;
        }
    }
    lines
}

fn read_reply(events: &[RawSseEvent], want_wire: bool) {
    let mut reader = ReplyReader::new(None, want_wire);
    let mut watched = ReplyWatcher::default();
    for (name, data) in events {
        let flow = reader.read_event(name, data, |event| watched.observe_event(event));
        let _ = reader.progress();
        match flow {
            Ok(StreamFlow::Finished) => {
                assert!(watched.done, "a finished reply says so");
                return;
            }
            Ok(StreamFlow::More | StreamFlow::Noise) => assert!(!watched.done, "nothing follows the end of a reply"),
            Err(_) => return,
        }
    }
}

/// State of a reply as a session would have seen it so far.
#[derive(Default)]
struct ReplyWatcher {
    started: bool,
    /// Kind of each block that is not complete, and the text that was shown of it.
    open: HashMap<usize, (BlockKind, String)>,
    begun: usize,
    done: bool,
}

impl ReplyWatcher {
    fn observe_event(&mut self, event: ModelEvent) {
        assert!(!self.done, "nothing follows the end of a reply");
        match event {
            ModelEvent::Wire(_) => {}
            ModelEvent::Started(_) => assert!(!std::mem::replace(&mut self.started, true), "a reply starts once"),
            ModelEvent::BlockStarted { index, kind, .. } => {
                assert_eq!(index, self.begun, "blocks are counted");
                self.begun += 1;
                self.open.insert(index, (kind, String::new()));
            }
            ModelEvent::TextDelta { index, text }
            | ModelEvent::ThinkingDelta { index, text }
            | ModelEvent::InputDelta { index, text } => match self.open.get_mut(&index) {
                Some((_, shown)) => shown.push_str(&text),
                None => panic!("a piece of a block that is not open"),
            },
            ModelEvent::BlockDone { index, block, bad_input } => {
                let Some((kind, shown)) = self.open.remove(&index) else {
                    panic!("the end of a block that is not open")
                };
                assert_eq!(block.kind(), kind, "a block stays what it was");
                check_block(&block, &shown, bad_input.as_deref());
            }
            ModelEvent::ReplyDiscarded | ModelEvent::ReplyAnomalies(_) => {}
            ModelEvent::Done(_) => self.done = true,
            ModelEvent::Retrying { .. }
            | ModelEvent::Waiting { .. }
            | ModelEvent::RateLimits(_)
            | ModelEvent::Notice(_)
            | ModelEvent::Spent { .. }
            | ModelEvent::Failed(_) => panic!("a reader of bytes has nothing to say about the connection"),
        }
        assert!(self.started || self.begun == 0, "blocks belong to a reply that has begun");
    }
}

fn check_block(block: &Block, shown: &str, bad_input: Option<&str>) {
    let again = Block::from_json(block.json());
    assert!(again.is_ok_and(|again| again.json() == block.json()), "a block is compact JSON: {}", block.json());
    match block.kind() {
        BlockKind::Text => assert!(block.as_text().is_some_and(|text| text.ends_with(shown)), "shown text is kept"),
        BlockKind::Thinking => {
            assert!(block.as_thinking().is_some_and(|text| text.ends_with(shown)), "shown thoughts are kept");
        }
        BlockKind::ToolUse => {
            if let Some(parts) = block.as_tool_use() {
                assert!(gimlet_text::is_json_object(parts.input.get()), "an input is an object");
                assert!(bad_input.is_none_or(|bad| bad == shown), "what was written instead is told");
            }
        }
        _ => {}
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let reply = |events: &[&str]| -> Vec<u8> {
        let event = |data: &&str| {
            let name = data.split('"').nth(3).unwrap_or_default();
            format!("event: {name}\ndata: {data}\n\n")
        };
        let stream: String = events.iter().map(event).collect();
        join_fields(&[b"\x07\x01\x20", stream.as_bytes()])
    };
    let start = r#"{"type":"message_start","message":{"id":"m","model":"x","usage":{"input_tokens":3,"cache_read_input_tokens":2}}}"#;
    let stop = r#"{"type":"message_stop"}"#;
    vec![
        reply(&[
            start,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
            r#"{"type":"ping"}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hé\n\ud83d\ude00"}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":{"a":1}}}"#,
            r#"{"type":"content_block_stop","index":0}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":9}}"#,
            stop,
        ]),
        reply(&[
            start,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}"#,
            r#"{"type":"content_block_stop","index":0}"#,
            r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t","name":"Read","input":{}}}"#,
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"file_path\":"}}"#,
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"\"/a\"}"}}"#,
            r#"{"type":"content_block_stop","index":1}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"}}"#,
            stop,
        ]),
        reply(&[
            start,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"Read","input":{}}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"file"}}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"max_tokens"}}"#,
            stop,
        ]),
        reply(&[r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#]),
        join_fields(&[b"\x01", b"\xEF\xBB\xBF: hello\r\nevent:a\rdata\r\n\r\ndata: x\ndata: y\n\n"]),
    ]
}
