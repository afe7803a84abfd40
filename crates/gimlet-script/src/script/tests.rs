use super::*;

fn error_of(text: &str) -> String {
    Script::from_json(text).unwrap_err().to_string()
}

#[test]
fn reads_the_whole_format() {
    let script = Script::from_json(
        r#"{ "seed": 3, "keys": ["k"], "vars": {"cwd": "/x"},
             "models": [{"id": "m", "binding": "bound:drop", "context": 9}],
             "steps": [
               { "expect": {"path": "/v1/messages", "stream": true, "tools_include": ["Read"]},
                 "reply": {"blocks": [{"thinking": "plan", "display": "omitted"}, {"text": "Looking."},
                                      {"tool": "Read", "input": {"file_path": "a.txt"}}], "stop_reason": "tool_use"},
                 "wire": {"chunk": "bytes:7", "pings": "every:3", "newline": "crlf"} },
               { "reply": {"status": 529, "times": 2, "headers": {"retry-after": "0.05"}} },
               { "reply": {"faults": ["no_message_stop", {"cut": {"at": {"byte": 9}, "how": "rst"}}]} },
               { "reply": {"stop_reason": null}, "repeat": "forever" } ] }"#,
    )
    .unwrap();
    assert_eq!(script.steps.len(), 4);
    assert_eq!(script.models[0].binding, Some(crate::ThinkingBinding::Drop));
    assert_eq!(script.steps[0].reply.blocks[0], BlockSpec::Thinking { text: "plan".into(), omitted: true });
    assert_eq!(script.steps[0].wire.chunk, ChunkMode::Bytes(7));
    assert_eq!(script.steps[2].reply.faults[1], Fault::Cut { at: FaultPoint::Byte(9), how: CloseKind::Rst });
    assert_eq!(script.steps[3].reply.stop_reason, Some(None));
    assert_eq!(script.steps[0].reply.stop_reason, Some(Some("tool_use".into())));
    assert_eq!(script.steps[1].reply.stop_reason, None);
}

#[test]
fn errors_name_the_step_the_line_and_the_field() {
    let text = "{\"steps\": [\n {\"reply\": {\"blocks\": [{\"text\": \"a\"}]}},\n {\"replay\": {}}\n]}";
    let error = error_of(text);
    assert!(error.contains("steps[1]") && error.contains("line 3") && error.contains("`replay`"), "{error}");
    let nested = error_of(r#"{"steps": [{"wire": {"chunks": "whole"}}]}"#);
    assert!(nested.contains("steps[0]") && nested.contains("`chunks`"), "{nested}");
    let top = error_of(r#"{"sed": 1}"#);
    assert!(top.contains("`sed`") && !top.contains("steps["), "{top}");
}

#[test]
fn blocks_must_make_sense() {
    let block = |json: &str| error_of(&format!(r#"{{"steps": [{{"reply": {{"blocks": [{json}]}}}}]}}"#));
    assert!(block(r#"{"text": "a", "tool": "b"}"#).contains("exactly one of"));
    assert!(block(r#"{"text": "a", "display": "omitted"}"#).contains("`display` does not go with"));
    assert!(block(r#"{"tool": "a", "input": {}, "raw_input": "{"}"#).contains("one of `input`"));
    assert!(block(r#"{"raw": 3}"#).contains("JSON object"));
    assert!(block(r#"{"thinking": "a", "display": "loud"}"#).contains("loud"));
}

#[test]
fn contradictions_are_refused() {
    let step = |json: &str| error_of(&format!(r#"{{"steps": [{json}]}}"#));
    assert!(step(r#"{"repeat": 2, "reply": {"status": 500, "times": 2}}"#).contains("say the same thing"));
    assert!(step(r#"{"when": {}, "expect": {"stream": true}}"#).contains("not both"));
    assert!(step(r#"{"reply": {"status": 500, "blocks": [{"text": "a"}]}}"#).contains("not both"));
    assert!(step(r#"{"repeat": 0}"#).contains("from 1 up"));
    assert!(step(r#"{"wire": {"chunk": "bytes:0"}}"#).contains("unknown chunking"));
    assert!(step(r#"{"wire": {"encoding": "br"}}"#).contains("br"));
    assert!(step(r#"{"when": {}, "reply": {"faults": [{"refuse_upload": {"after_bytes": 1}}]}}"#).contains("ordered"));
}

#[test]
fn the_builder_writes_one_step_per_then() {
    let script = Script::new().say("a").call("Read", serde_json::json!({})).then().status(529).times(2).then().say("b");
    assert_eq!(script.steps.len(), 3);
    assert_eq!(script.steps[0].reply.blocks.len(), 2);
    assert_eq!((script.steps[1].reply.status, script.steps[1].repeat), (Some(529), Some(StepRepeat::Times(2))));
}
