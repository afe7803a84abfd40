use std::io::Read;

use serde_json::{Value, json};

use super::*;
use crate::anthropic::{EventMark, IdSource, build_message, render};
use crate::prompt_usage::PromptUsage;
use crate::script::{
    ChunkMode, ContentEncoding, EventNames, Fault, FaultPoint, InputPieces, LineEnding, PingMode, UsageStyle,
};
use crate::template::ReplyTemplate;
use crate::{ReceivedRequest, Script};

fn events(script: Script, wire: &WireShape) -> (Vec<ScriptedEvent>, ScriptedReply) {
    let reply = script.steps.into_iter().next().unwrap().reply;
    let request = ReceivedRequest::for_test("{}");
    let vars = script.vars;
    let ids = IdSource { seed: 1, place: "0.1".into() };
    let message = build_message(&reply, &ids, &ReplyTemplate::new(&vars, &request), "m", None, PromptUsage::default());
    (render(&message, wire), reply)
}

fn rich() -> Script {
    Script::new().think("plan é").say("Grüße 😀 \"quoted\"\n").call("Read", json!({"file_path": "ä.txt", "n": 1}))
}

fn acts(script: Script, wire: &WireShape) -> Vec<WireAction> {
    let (events, reply) = events(script, wire);
    plan_stream(events, &reply, wire, 5, "req_1")
}

fn bytes_of(acts: &[WireAction]) -> Vec<u8> {
    acts.iter().flat_map(|act| if let WireAction::Write(bytes) = act { bytes.clone() } else { Vec::new() }).collect()
}

const CHUNKS: [ChunkMode; 11] = [
    ChunkMode::Whole,
    ChunkMode::Event,
    ChunkMode::Events(3),
    ChunkMode::Line,
    ChunkMode::Bytes(1),
    ChunkMode::Bytes(7),
    ChunkMode::Random,
    ChunkMode::Utf8,
    ChunkMode::Escape,
    ChunkMode::Crlf,
    ChunkMode::Bytes(100_000),
];

#[test]
fn every_chunking_gives_the_same_bytes_and_really_cuts() {
    for newline in [LineEnding::Lf, LineEnding::Crlf, LineEnding::Cr] {
        let whole = acts(rich(), &WireShape { chunk: ChunkMode::Whole, newline, ..WireShape::default() });
        assert_eq!(whole.len(), 1);
        for chunk in CHUNKS {
            let cut = acts(rich(), &WireShape { chunk, newline, ..WireShape::default() });
            assert_eq!(bytes_of(&cut), bytes_of(&whole), "{chunk:?} {newline:?}");
            assert!(cut.iter().all(|act| !matches!(act, WireAction::Write(bytes) if bytes.is_empty())));
        }
    }
    let cut_in_code_points = acts(rich(), &WireShape { chunk: ChunkMode::Utf8, ..WireShape::default() });
    assert!(
        cut_in_code_points
            .iter()
            .any(|act| matches!(act, WireAction::Write(bytes) if std::str::from_utf8(bytes).is_err()))
    );
    let cut_in_crlf =
        acts(rich(), &WireShape { chunk: ChunkMode::Crlf, newline: LineEnding::Crlf, ..WireShape::default() });
    assert!(cut_in_crlf.iter().skip(1).all(|act| matches!(act, WireAction::Write(bytes) if bytes.starts_with(b"\n"))));
}

#[test]
fn escapes_and_surrogate_pairs_are_cut() {
    let cut = acts(rich(), &WireShape { ascii: true, chunk: ChunkMode::Escape, ..WireShape::default() });
    let has =
        |end: &str| cut.iter().any(|act| matches!(act, WireAction::Write(bytes) if bytes.ends_with(end.as_bytes())));
    assert!(["ud8", "ude", "u00"].iter().all(|end| has(end)), "cut inside the digits");
    assert!(has("\\"), "cut after the backslash");
    assert!(bytes_of(&cut).is_ascii());
}

/// Parses a stream by the rules of the event-stream format, independently of the renderer.
fn read_events(bytes: &[u8]) -> Vec<Value> {
    let text =
        std::str::from_utf8(bytes).unwrap().trim_start_matches('\u{feff}').replace("\r\n", "\n").replace('\r', "\n");
    let mut found = Vec::new();
    let mut data: Vec<&str> = Vec::new();
    for line in text.split('\n') {
        if line.is_empty() && !data.is_empty() {
            found.push(serde_json::from_str(&data.join("\n")).unwrap());
            data.clear();
        } else if let Some(value) = line.strip_prefix("data:") {
            data.push(value.strip_prefix(' ').unwrap_or(value));
        }
    }
    found
}

/// Returns the text, thinking and input that a stream contains.
fn spelled(events: &[Value]) -> Vec<String> {
    let mut blocks: Vec<String> = Vec::new();
    for event in events {
        match event["type"].as_str().unwrap() {
            "content_block_start" => blocks.push(String::new()),
            "content_block_delta" => {
                let delta = &event["delta"];
                let piece = ["text", "thinking", "partial_json"].iter().find_map(|key| delta[*key].as_str());
                blocks[event["index"].as_u64().unwrap() as usize].push_str(piece.unwrap_or(""));
            }
            _ => {}
        }
    }
    blocks
}

#[test]
fn no_knob_changes_the_message() {
    let plain = WireShape::default();
    let expected =
        vec!["plan é".to_owned(), "Grüße 😀 \"quoted\"\n".to_owned(), r#"{"file_path":"ä.txt","n":1}"#.to_owned()];
    let knobs = [
        WireShape { bom: true, comments: true, ..plain.clone() },
        WireShape { ascii: true, chunk: ChunkMode::Escape, ..plain.clone() },
        WireShape { extra_fields: true, tight_data: true, ..plain.clone() },
        WireShape { split_data: true, newline: LineEnding::Crlf, ..plain.clone() },
        WireShape { event_names: EventNames::Missing, ..plain.clone() },
        WireShape { event_names: EventNames::Wrong, newline: LineEnding::Cr, ..plain.clone() },
        WireShape { pings: PingMode::Burst(500), fat_pings: true, ..plain.clone() },
        WireShape { pings: PingMode::BeforeStart, unknown: true, ..plain.clone() },
        WireShape { pings: PingMode::Every(2), text_piece: 1, input_pieces: InputPieces::Bytes(1), ..plain.clone() },
        WireShape { pings: PingMode::AfterDelta, input_pieces: InputPieces::Empty, ..plain.clone() },
        WireShape { usage: UsageStyle::Several, input_pieces: InputPieces::One, ..plain },
    ];
    for wire in knobs {
        assert_eq!(spelled(&read_events(&bytes_of(&acts(rich(), &wire)))), expected, "{wire:?}");
    }
}

#[test]
fn compressed_streams_flush_with_every_event() {
    for encoding in [ContentEncoding::Gzip, ContentEncoding::Deflate] {
        let plain = bytes_of(&acts(rich(), &WireShape::default()));
        let packed = acts(rich(), &WireShape { encoding, ..WireShape::default() });
        let mut unpacked = Vec::new();
        match encoding {
            ContentEncoding::Gzip => {
                flate2::read::GzDecoder::new(&bytes_of(&packed)[..]).read_to_end(&mut unpacked).unwrap()
            }
            _ => flate2::read::ZlibDecoder::new(&bytes_of(&packed)[..]).read_to_end(&mut unpacked).unwrap(),
        };
        assert_eq!(unpacked, plain);
        let writes = packed.len();
        assert!(writes > 5, "a flush per event gives many writes, not {writes}");
        let at_end = acts(rich(), &WireShape { encoding, flush: FlushMode::End, ..WireShape::default() });
        assert!(at_end.len() < writes);
    }
}

fn names(acts: &[WireAction]) -> Vec<String> {
    let events = read_events(&bytes_of(acts));
    events.iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn cuts_end_the_stream_at_their_place() {
    let wire = WireShape { pings: PingMode::None, ..WireShape::default() };
    let cut = |at| acts(rich().fault(Fault::Cut { at, how: CloseKind::Fin }), &wire);
    for at in [
        FaultPoint::AfterHeaders,
        FaultPoint::MidMessageStart,
        FaultPoint::AfterMessageStart,
        FaultPoint::MidThinking,
        FaultPoint::MidText,
        FaultPoint::MidTool,
        FaultPoint::MidDelta,
        FaultPoint::BetweenBlocks,
        FaultPoint::AfterTool,
        FaultPoint::AfterStopReason,
        FaultPoint::AfterMessageStop,
        FaultPoint::Byte(40),
        FaultPoint::Event(2),
    ] {
        let acts = cut(at);
        assert_eq!(acts.last(), Some(&WireAction::Close(CloseKind::Fin)), "{at:?}");
    }
    assert_eq!(bytes_of(&cut(FaultPoint::Byte(40))).len(), 40);
    assert!(bytes_of(&cut(FaultPoint::AfterHeaders)).is_empty());
    assert!(!bytes_of(&cut(FaultPoint::MidMessageStart)).ends_with(b"\n\n"));
    assert_eq!(names(&cut(FaultPoint::BetweenBlocks)).last().unwrap(), "content_block_stop");
    assert_eq!(names(&cut(FaultPoint::AfterStopReason)).last().unwrap(), "message_delta");
    assert_eq!(names(&cut(FaultPoint::AfterMessageStop)).last().unwrap(), "message_stop");
}

#[test]
fn stalls_and_error_events_stand_at_their_place() {
    let stall = Fault::Stall { at: FaultPoint::MidText, ping_every_ms: Some(5), for_ms: Some(20) };
    let stalled = acts(rich().fault(stall), &WireShape::default());
    assert!(stalled.iter().any(|act| matches!(act, WireAction::Stall { for_ms: Some(20), ping: Some(_) })));
    assert_eq!(names(&stalled).last().unwrap(), "message_stop");
    let error = |data: Option<&str>| Fault::ErrorEvent {
        at: FaultPoint::MidTool,
        kind: "api_error".into(),
        message: "boom".into(),
        data: data.map(str::to_owned),
    };
    let failed = acts(rich().fault(error(None)), &WireShape::default());
    let last = read_events(&bytes_of(&failed)).pop().unwrap();
    assert_eq!(last["error"], json!({"type": "api_error", "message": "boom"}));
    let garbled = acts(rich().fault(error(Some("not json"))), &WireShape::default());
    assert!(String::from_utf8(bytes_of(&garbled)).unwrap().ends_with("event: error\ndata: not json\n\n"));
}

#[test]
fn grammar_faults_bend_the_stream() {
    let wire = WireShape { pings: PingMode::None, ..WireShape::default() };
    let with = |fault: Fault| read_events(&bytes_of(&acts(rich().fault(fault), &wire)));
    let count = |events: &[Value], kind: &str| events.iter().filter(|event| event["type"] == kind).count();
    assert_eq!(count(&with(Fault::NoMessageStop), "message_stop"), 0);
    assert_eq!(count(&with(Fault::NoMessageDelta), "message_delta"), 0);
    assert_eq!(count(&with(Fault::TwoMessageStarts), "message_start"), 2);
    assert_eq!(count(&with(Fault::StopTwice), "content_block_stop"), 6);
    assert!(with(Fault::IndexGaps).iter().any(|event| event["index"] == 4));
    assert!(with(Fault::IndexReuse).iter().all(|event| event["index"].is_null() || event["index"] == 0));
    assert!(with(Fault::UnknownIndex).iter().any(|event| event["index"] == 99));
    let mixed = with(Fault::Interleave);
    assert_eq!(mixed.first().unwrap()["type"], "message_start");
    assert_eq!(mixed.last().unwrap()["type"], "message_stop");
    let order: Vec<_> =
        mixed.iter().filter(|event| event["type"] == "content_block_delta").map(|e| e["index"].clone()).collect();
    assert_eq!(&order[..3], &[json!(0), json!(1), json!(2)]);
}

#[test]
fn usage_styles_keep_their_promises() {
    let last_usage = |usage| {
        let (events, _) = events(rich(), &WireShape { usage, ..WireShape::default() });
        let deltas: Vec<_> = events.into_iter().filter(|event| event.mark == EventMark::MessageDelta).collect();
        (deltas.len(), deltas.last().unwrap().data["usage"].clone())
    };
    assert_eq!(last_usage(UsageStyle::Missing).1, Value::Null);
    let (_, nulls) = last_usage(UsageStyle::Nulls);
    assert!(nulls["input_tokens"].is_null() && nulls["output_tokens"].as_u64().unwrap() > 0);
    assert_eq!(last_usage(UsageStyle::Several).0, 2);
    assert_eq!(last_usage(UsageStyle::Several).1, last_usage(UsageStyle::Normal).1);
}

#[test]
fn large_and_many_blocks_are_rendered() {
    let text = r#"{"steps":[{"reply":{"blocks":[{"text":"x","times":2000},{"tool":"Read","input":{"n":"{{n}}"},"times":120},
                   {"huge_result_bytes":100000},{"tool":"Write","input_bytes":5000}]}}]}"#;
    let (events, _) = events(Script::from_json(text).unwrap(), &WireShape::default());
    let deltas = events.iter().filter(|event| event.mark == EventMark::Delta("text".into())).count();
    assert_eq!(deltas, 2000);
    let starts: Vec<_> = events.iter().filter(|event| matches!(event.mark, EventMark::BlockStart(_))).collect();
    assert_eq!(starts.len(), 1 + 120 + 2 + 1);
    let ids: std::collections::HashSet<_> =
        starts.iter().filter_map(|e| e.data["content_block"]["id"].as_str()).collect();
    assert_eq!(ids.len(), 122);
    assert!(starts[122].data.to_string().len() > 100_000);
}
