use gimlet_proto::{Block, ReplyEnd};

use super::*;

/// Feeds data lines (the event name is in their `type`) and returns the events, and the error if the stream failed.
fn read(lines: &[&str]) -> (Vec<ModelEvent>, Result<StreamFlow, StreamFault>, ReplyReader) {
    let mut reader = ReplyReader::new(Some("req_1".into()), false);
    let mut told = Vec::new();
    let mut last = Ok(StreamFlow::More);
    for line in lines {
        last = reader.read_event("", line, |event| told.push(event));
        if !matches!(last, Ok(StreamFlow::More | StreamFlow::Noise)) {
            break;
        }
    }
    (told, last, reader)
}

const START: &str = r#"{"type":"message_start","message":{"id":"msg_a","role":"assistant","model":"m","content":[],"usage":{"input_tokens":11,"output_tokens":1}}}"#;
const STOP: &str = r#"{"type":"message_stop"}"#;
const END_TURN: &str = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":24}}"#;
const TOOL_USE: &str = r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":24}}"#;
const MAX_TOKENS: &str =
    r#"{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"output_tokens":24}}"#;

fn start(index: u64, block: &str) -> String {
    format!(r#"{{"type":"content_block_start","index":{index},"content_block":{block}}}"#)
}

fn delta(index: u64, delta: &str) -> String {
    format!(r#"{{"type":"content_block_delta","index":{index},"delta":{delta}}}"#)
}

fn text(index: u64, text: &str) -> String {
    delta(index, &format!(r#"{{"type":"text_delta","text":{}}}"#, crate::json::to_json_string(text)))
}

fn input(index: u64, piece: &str) -> String {
    delta(index, &format!(r#"{{"type":"input_json_delta","partial_json":{}}}"#, crate::json::to_json_string(piece)))
}

fn stop(index: u64) -> String {
    format!(r#"{{"type":"content_block_stop","index":{index}}}"#)
}

fn run(lines: &[String]) -> (Vec<ModelEvent>, Result<StreamFlow, StreamFault>, ReplyReader) {
    read(&lines.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Reads a whole reply: start, these lines, a stop reason, the end.
fn reply(lines: &[String], end: &str) -> (Vec<Block>, Vec<Option<String>>, ReplyEnd) {
    let all: Vec<String> =
        [START.to_owned()].into_iter().chain(lines.iter().cloned()).chain([end.to_owned(), STOP.to_owned()]).collect();
    let (told, last, _) = run(&all);
    assert_eq!(last, Ok(StreamFlow::Finished));
    let mut blocks = Vec::new();
    let mut bad = Vec::new();
    let mut ended = None;
    for event in told {
        match event {
            ModelEvent::BlockDone { block, bad_input, .. } => {
                blocks.push(block);
                bad.push(bad_input);
            }
            ModelEvent::Done(end) => ended = Some(end),
            _ => {}
        }
    }
    (blocks, bad, ended.expect("a reply that finished has an end"))
}

fn json(blocks: &[Block]) -> Vec<&str> {
    blocks.iter().map(Block::json).collect()
}

const TOOL: &str = r#"{"type":"tool_use","id":"toolu_a","name":"Read","input":{}}"#;

#[test]
fn blocks_keep_the_starts_key_order_and_unknown_fields() {
    let (blocks, _, end) = reply(
        &[
            start(0, r#"{"x": [1.0], "type":"text","text":"","citations":null}"#),
            text(0, "a\"é"),
            text(0, "\n"),
            delta(0, r#"{"type":"citations_delta","citation":{"n": 1e400}}"#),
            stop(0),
            start(1, r#"{"type":"thinking","thinking":"","signature":""}"#),
            delta(1, r#"{"type":"thinking_delta","thinking":"hm","estimated_tokens":4}"#),
            delta(1, r#"{"type":"signature_delta","signature":"old"}"#),
            delta(1, r#"{"type":"signature_delta","signature":"SIG=="}"#),
            stop(1),
            start(2, r#"{"type":"tool_use","id":"t","caller":{"type":"direct"},"name":"Read","input":{}}"#),
            input(2, ""),
            input(2, "{\"b\": 1.0, \"a\":\"\\ud8"),
            input(2, "3d\" , \"n\":12345678901234567890}"),
            stop(2),
            start(3, r#"{"type":"redacted_thinking","data":"xyz"}"#),
            stop(3),
            start(4, r#"{"type":"hologram","depth":3}"#),
            delta(4, r#"{"type":"hologram_delta","depth":4}"#),
            stop(4),
        ],
        TOOL_USE,
    );
    assert_eq!(
        json(&blocks),
        [
            r#"{"x":[1.0],"type":"text","text":"a\"é\n","citations":[{"n":1e400}]}"#,
            r#"{"type":"thinking","thinking":"hm","signature":"SIG=="}"#,
            r#"{"type":"tool_use","id":"t","caller":{"type":"direct"},"name":"Read","input":{"b":1.0,"a":"\ud83d","n":12345678901234567890}}"#,
            r#"{"type":"redacted_thinking","data":"xyz"}"#,
            r#"{"type":"hologram","depth":3}"#,
        ]
    );
    assert_eq!(end.stop_reason, Some(StopReason::ToolUse));
    assert_eq!((end.usage.input_tokens, end.usage.output_tokens), (11, 24));
}

#[test]
fn events_tell_the_head_the_deltas_and_the_tool() {
    let lines = [START.to_owned(), start(0, TOOL), input(0, "{}"), stop(0), TOOL_USE.to_owned(), STOP.to_owned()];
    let (told, ..) = run(&lines);
    assert!(
        matches!(&told[0], ModelEvent::Started(head) if head.message_id == "msg_a" && head.request_id.as_deref() == Some("req_1"))
    );
    assert!(
        matches!(&told[1], ModelEvent::BlockStarted { index: 0, kind: BlockKind::ToolUse, id: Some(id), name: Some(name) } if id == "toolu_a" && name == "Read")
    );
    assert!(matches!(&told[2], ModelEvent::InputDelta { index: 0, text } if text == "{}"));
    assert!(matches!(&told[3], ModelEvent::BlockDone { index: 0, bad_input: None, .. }));
}

#[test]
fn bad_tool_input_becomes_an_empty_object_with_the_raw_text_beside_it() {
    for raw in ["{\"a\":", "[1]", "\"x\"", "{} x"] {
        let (blocks, bad, end) = reply(&[start(0, TOOL), input(0, raw), stop(0)], TOOL_USE);
        assert_eq!(json(&blocks), [TOOL]);
        assert_eq!(bad, [Some(raw.to_owned())]);
        assert_eq!(end.cut_tool_call, None);
    }
}

#[test]
fn empty_tool_input_is_an_empty_object_or_what_the_start_gave() {
    let given = r#"{"type":"tool_use","id":"t","name":"Read","input":{"k":1}}"#;
    let (blocks, bad, _) = reply(&[start(0, given), stop(0), start(1, TOOL), input(1, ""), stop(1)], TOOL_USE);
    assert_eq!(json(&blocks), [given, TOOL]);
    assert_eq!(bad, [None, None]);
}

#[test]
fn a_call_cut_by_max_tokens_is_dropped_with_or_without_its_stop() {
    let cut =
        [start(0, r#"{"type":"text","text":""}"#), text(0, "hi"), stop(0), start(1, TOOL), input(1, "{\"a\":\"b")];
    for tail in [vec![], vec![stop(1)]] {
        let lines: Vec<String> = cut.iter().cloned().chain(tail).collect();
        let (blocks, _, end) = reply(&lines, MAX_TOKENS);
        assert_eq!(json(&blocks), [r#"{"type":"text","text":"hi"}"#]);
        assert!(end.cut_tool_call.is_some());
    }
    let (blocks, _, end) = reply(&[start(0, TOOL), input(0, "{\"a\":1}"), stop(0)], MAX_TOKENS);
    assert_eq!((blocks.len(), end.cut_tool_call), (1, None));
    let (blocks, _, end) = reply(&[start(0, TOOL), stop(0)], MAX_TOKENS);
    assert_eq!((blocks.len(), end.cut_tool_call.is_some()), (0, true));
}

#[test]
fn deeply_nested_input_is_taken_whole() {
    let deep = format!("{{\"a\":{}1{}}}", "[".repeat(200), "]".repeat(200));
    let (blocks, bad, _) = reply(&[start(0, TOOL), input(0, &deep), stop(0)], TOOL_USE);
    assert_eq!(blocks[0].as_tool_use().unwrap().input.get(), deep);
    assert_eq!(bad, [None]);
}

#[test]
fn index_gaps_reuse_and_strays_are_tolerated() {
    let hello = r#"{"type":"text","text":""}"#;
    let (blocks, ..) = reply(
        &[
            text(7, "nobody"),
            stop(7),
            start(2, hello),
            text(2, "a"),
            delta(2, r#"{"type":"input_json_delta","partial_json":"{}"}"#),
            stop(2),
            stop(2),
            START.to_owned(),
            start(2, hello),
            start(5, hello),
            text(2, "b"),
            text(5, "c"),
            stop(5),
            start(2, hello),
            text(2, "d"),
            r#"{"type":"ping","x":1}"#.to_owned(),
            r#"{"type":"aurora"}"#.to_owned(),
            start(9, "3"),
        ],
        END_TURN,
    );
    let texts: Vec<_> = blocks.iter().map(|block| block.as_text().unwrap().into_owned()).collect();
    assert_eq!(texts, ["a", "c", "b", "d"]);
}

#[test]
fn an_unstopped_call_without_whole_input_is_never_handed_out() {
    let (blocks, ..) = reply(&[start(0, TOOL), input(0, "{\"a\""), start(0, TOOL)], TOOL_USE);
    assert!(blocks.is_empty());
}

#[test]
fn content_in_the_head_counts_as_blocks_and_a_sparse_head_is_fine() {
    let head = r#"{"type":"message_start","message":{"content":[{"type":"text","text":"pre"}]}}"#;
    let (told, last, _) = read(&[head, END_TURN, STOP]);
    assert_eq!(last, Ok(StreamFlow::Finished));
    assert!(
        told.iter()
            .any(|event| matches!(event, ModelEvent::BlockDone { block, .. } if block.as_text().unwrap() == "pre"))
    );
    let (_, last, _) = read(&[r#"{"type":"message_start"}"#, END_TURN, STOP]);
    assert_eq!(last, Ok(StreamFlow::Finished));
}

#[test]
fn a_refusal_takes_everything_back_and_explains() {
    let refusal = r#"{"type":"message_delta","delta":{"stop_reason":"refusal","stop_details":{"category":null,"explanation":"no"}}}"#;
    let lines = [START.to_owned(), start(0, r#"{"type":"text","text":"x"}"#), refusal.to_owned(), STOP.to_owned()];
    let (told, ..) = run(&lines);
    let [.., ModelEvent::ReplyDiscarded, ModelEvent::Done(end)] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!((end.stop_reason.clone(), end.explanation.as_deref()), (Some(StopReason::Refusal), Some("no")));
}

#[test]
fn protocol_breaks_and_reported_errors_end_the_stream() {
    let fault = |lines: &[&str]| read(lines).1.unwrap_err();
    assert!(matches!(fault(&[END_TURN]), StreamFault::Protocol(_)));
    assert!(matches!(fault(&[START, STOP]), StreamFault::Protocol(_)));
    assert!(matches!(fault(&[START, "{\"type\":\"content_block_del"]), StreamFault::Protocol(_)));
    assert_eq!(
        fault(&[r#"{"type":"error","error":{}}"#]),
        StreamFault::Reported(r#"{"type":"error","error":{}}"#.into())
    );
    let mut reader = ReplyReader::new(None, false);
    assert_eq!(reader.read_event("error", "oh no", |_| ()), Err(StreamFault::Reported("oh no".into())));
    assert_eq!(reader.read_event("ping", "not json", |_| ()), Ok(StreamFlow::Noise));
    assert_eq!(reader.read_event("", "[DONE]", |_| ()), Ok(StreamFlow::Noise));
    // The type in the data takes precedence over the event's name.
    assert_eq!(reader.read_event("error", r#"{"type":"ping"}"#, |_| ()), Ok(StreamFlow::Noise));
}

#[test]
fn progress_says_what_may_be_repeated() {
    let thinking = start(0, r#"{"type":"thinking","thinking":"","signature":""}"#);
    let words = start(1, r#"{"type":"text","text":"x"}"#);
    let steps = [
        (START.to_owned(), ReplyProgress::Nothing),
        (thinking, ReplyProgress::Nothing),
        (stop(0), ReplyProgress::ThinkingOnly),
        (words, ReplyProgress::ThinkingOnly),
        (stop(1), ReplyProgress::Usable),
        (END_TURN.to_owned(), ReplyProgress::Complete),
    ];
    let mut reader = ReplyReader::new(None, false);
    for (line, expected) in steps {
        reader.read_event("", &line, |_| ()).unwrap();
        assert_eq!(reader.progress(), expected, "after {line}");
    }
}

#[test]
fn wire_events_pass_through_unmodified_when_wanted() {
    let mut reader = ReplyReader::new(None, true);
    let mut told = Vec::new();
    reader.read_event("ping", r#"{"type": "ping", "odd": 1.0}"#, |event| told.push(event)).unwrap();
    assert!(matches!(&told[..], [ModelEvent::Wire(raw)] if raw.get() == r#"{"type": "ping", "odd": 1.0}"#));
}

/// Returns the bytes of a reply with thinking, text and two calls.
fn recorded() -> Vec<u8> {
    let lines = [
        START.to_owned(),
        start(0, r#"{"type":"thinking","thinking":"","signature":""}"#),
        delta(0, r#"{"type":"signature_delta","signature":"SIG=="}"#),
        stop(0),
        start(1, r#"{"type":"text","text":""}"#),
        text(1, "Größe 😀"),
        stop(1),
        start(2, TOOL),
        input(2, "{\"path\": \"a"),
        input(2, ".txt\"}"),
        stop(2),
        start(3, r#"{"type":"tool_use","id":"toolu_b","name":"Read","input":{}}"#),
        input(3, "{\"path\":\"b.txt\"}"),
        stop(3),
        TOOL_USE.to_owned(),
        STOP.to_owned(),
    ];
    lines.iter().flat_map(|line| format!("event: x\ndata: {line}\n\n").into_bytes()).collect()
}

/// Returns every tool input that would run after reading these bytes.
fn inputs_of(bytes: &[u8]) -> Vec<String> {
    let mut parser = crate::SseParser::default();
    let mut reader = ReplyReader::new(None, false);
    let mut inputs = Vec::new();
    let mut alive = true;
    let fed = parser.push(bytes, |event| {
        alive = alive
            && reader
                .read_event(&event.name, &event.data, |told| {
                    if let ModelEvent::BlockDone { block, bad_input: None, .. } = told {
                        inputs.extend(block.as_tool_use().map(|call| call.input.get().to_owned()));
                    }
                })
                .is_ok();
    });
    assert_eq!(fed, Ok(()));
    inputs
}

#[test]
fn a_cut_at_any_byte_hands_out_whole_inputs_only() {
    let bytes = recorded();
    let whole = [r#"{"path":"a.txt"}"#, r#"{"path":"b.txt"}"#];
    assert_eq!(inputs_of(&bytes), whole);
    for end in 0..bytes.len() {
        let inputs = inputs_of(&bytes[..end]);
        assert!(
            whole.iter().map(ToString::to_string).collect::<Vec<_>>().starts_with(&inputs),
            "cut at {end}: {inputs:?}"
        );
    }
}

#[test]
fn a_wrong_byte_anywhere_never_panics() {
    let bytes = recorded();
    for at in 0..bytes.len() {
        for flip in [0x01, 0x20, 0x80] {
            let mut wrong = bytes.clone();
            wrong[at] ^= flip;
            inputs_of(&wrong);
        }
    }
}

#[test]
fn what_is_set_aside_is_counted_and_told_once() {
    let lines = [
        START.to_owned(),
        r#"{"type":"ping"}"#.to_owned(),
        r#"{"type":"weather"}"#.to_owned(),
        r#"{"type":"weather"}"#.to_owned(),
        START.to_owned(),
        start(0, r#"{"type":"text","text":""}"#),
        delta(0, r#"{"type":"hologram_delta"}"#),
        delta(7, r#"{"type":"text_delta","text":"x"}"#),
        stop(0),
        stop(0),
        r#"{"type":"message_delta","delta":{"stop_reason":"tired"}}"#.to_owned(),
    ];
    let (mut told, _, mut reader) = read(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    reader.state.finish_unstopped(&mut |event| told.push(event));
    let odd: Vec<&str> = told
        .iter()
        .filter_map(|event| if let ModelEvent::ReplyAnomalies(what) = event { Some(&**what) } else { None })
        .collect();
    assert_eq!(
        odd,
        ["ignored the event 'weather' (2×), ignored a further 'message_start', ignored a piece of the type \
          'hologram_delta', ignored a piece of a block that is not open, ignored the end of a block that is not open, \
          stopped for the unknown reason 'tired', ended without 'message_stop'"]
    );
    let (told, ..) = read(&[START, r#"{"type":"ping"}"#, END_TURN, STOP]);
    assert!(!told.iter().any(|event| matches!(event, ModelEvent::ReplyAnomalies(_))));
}
