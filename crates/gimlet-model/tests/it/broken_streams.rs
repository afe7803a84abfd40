//! Streams that break: where they break decides whether the request may be repeated.

use std::time::Duration;

use gimlet_model::TimeoutChoices;

use crate::canned_server::{CannedServer, ConnectionEnd, cut, stream};
use crate::*;

const THINKING: &str =
    r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#;
const OVERLOADED: &str = r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#;

/// Tiny retries, so that a broken stream is repeated at once.
fn impatient(server: &CannedServer) -> ModelEngine {
    provider_with(&env(server), |config| {
        config.timeouts = TimeoutChoices {
            idle: Some(Duration::from_millis(400)),
            waiting: Duration::from_millis(40),
            ..config.timeouts
        };
    })
}

#[tokio::test]
async fn before_any_whole_block_everything_is_taken_back_and_sent_again() {
    for end in [ConnectionEnd::Fin, ConnectionEnd::Rst] {
        for (events, before) in [
            (vec![], vec!["retry 1 Network"]),
            (vec![START], vec!["started", "discarded", "retry 1 Network"]),
            (vec![START, TEXT, HELLO], vec!["started", "open Text", "text Hello", "discarded", "retry 1 Network"]),
        ] {
            let server = CannedServer::start(vec![cut(&events, end), stream(&REPLY)]).await;
            let told = summarize_events(&collect_events(&provider(&server), request("hi")).await);
            assert_eq!(told[..before.len()], before, "after {events:?}");
            assert_eq!(told[before.len()..], WHOLE);
            let seen = server.recorded_requests();
            assert_eq!(seen[0].body, seen[1].body);
        }
    }
}

#[tokio::test]
async fn a_cut_inside_an_event_discards_that_event() {
    let mut plan = cut(&[START, TEXT], ConnectionEnd::Fin);
    plan.pieces.push(b"20\r\nevent: content_block_delta\ndata:\r\n".to_vec());
    let server = CannedServer::start(vec![plan, stream(&REPLY)]).await;
    let told = summarize_events(&collect_events(&provider(&server), request("hi")).await);
    assert_eq!(told[..4], ["started", "open Text", "discarded", "retry 1 Network"]);
}

#[tokio::test]
async fn after_thinking_alone_the_request_is_repeated_twice_at_most() {
    let broken = || cut(&[START, THINKING, TEXT_STOP], ConnectionEnd::Fin);
    let server = CannedServer::start(vec![broken(), broken(), broken(), stream(&REPLY)]).await;
    let told = summarize_events(&collect_events(&provider(&server), request("hi")).await);
    assert_eq!(told.iter().filter(|event| *event == "discarded").count(), 3);
    assert_eq!(told.last().unwrap(), "failed Network");
    assert_eq!(server.recorded_requests().len(), 3);
}

#[tokio::test]
async fn after_a_whole_block_the_reply_is_kept_and_never_repeated() {
    let tool = r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t","name":"Read","input":{}}}"#;
    let input =
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a\""}}"#;
    for last in [None, Some(OVERLOADED), Some("not json at all")] {
        let mut events = vec![START, TEXT, HELLO, TEXT_STOP, tool, input];
        events.extend(last);
        let mut plan = cut(&events, ConnectionEnd::Fin);
        if last == Some("not json at all") {
            plan.pieces.pop();
            plan.pieces.push(canned_server::chunk("event: error\ndata: not json at all\n\n"));
        }
        let server = CannedServer::start(vec![plan, stream(&REPLY)]).await;
        let told = collect_events(&provider(&server), request("hi")).await;
        assert_eq!(summarize_events(&told)[3..], ["block Text", "open ToolUse", "input {\"a\"", "interrupted"]);
        let end = reply_end(&told);
        assert_eq!((end.stop_reason.clone(), end.usage.input_tokens), (None, 11));
        assert_eq!(server.recorded_requests().len(), 1);
    }
}

#[tokio::test]
async fn with_the_stop_reason_known_the_reply_is_whole_however_the_stream_ends() {
    let mut unstopped = WHOLE.to_vec();
    unstopped.insert(WHOLE.len() - 1, "odd ended without 'message_stop'");
    for end in [ConnectionEnd::Fin, ConnectionEnd::Rst] {
        let server = CannedServer::start(vec![cut(&REPLY[..5], end)]).await;
        assert_eq!(summarize_events(&collect_events(&provider(&server), request("hi")).await), unstopped);
        let server = CannedServer::start(vec![cut(&REPLY, end)]).await;
        assert_eq!(summarize_events(&collect_events(&provider(&server), request("hi")).await), WHOLE);
    }
    let mut events = REPLY[..5].to_vec();
    events.push(OVERLOADED);
    let server = CannedServer::start(vec![cut(&events, ConnectionEnd::Fin)]).await;
    assert_eq!(summarize_events(&collect_events(&provider(&server), request("hi")).await), unstopped);
}

#[tokio::test]
async fn an_error_event_counts_like_its_status() {
    for (kind, course_start) in [
        ("overloaded_error", "retry 1 Overloaded"),
        ("api_error", "retry 1 Server"),
        ("rate_limit_error", "retry 1 RateLimit"),
        ("odd_error", "retry 1 Server"),
    ] {
        let event = format!(r#"{{"type":"error","error":{{"type":"{kind}","message":"x"}}}}"#);
        let server = CannedServer::start(vec![cut(&[&event], ConnectionEnd::Fin), stream(&REPLY)]).await;
        assert_eq!(summarize_events(&collect_events(&provider(&server), request("hi")).await)[0], course_start);
    }
    let refused = r#"{"type":"error","error":{"type":"invalid_request_error","message":"x"}}"#;
    let server = CannedServer::start(vec![cut(&[START, refused], ConnectionEnd::Fin)]).await;
    let told = summarize_events(&collect_events(&provider(&server), request("hi")).await);
    assert_eq!(told, ["started", "discarded", "failed InvalidRequest"]);
}

#[tokio::test]
async fn a_stop_without_a_reason_is_a_broken_stream() {
    let server = CannedServer::start(vec![cut(&[START, TEXT, HELLO, STOP], ConnectionEnd::Fin), stream(&REPLY)]).await;
    let told = summarize_events(&collect_events(&provider(&server), request("hi")).await);
    assert_eq!(told[3..5], ["discarded", "retry 1 Protocol"]);
}

#[tokio::test]
async fn silence_is_told_and_then_ends_the_attempt() {
    let server = CannedServer::start(vec![cut(&[START, TEXT], ConnectionEnd::Stall), stream(&REPLY)]).await;
    let told = summarize_events(&collect_events(&impatient(&server), request("hi")).await);
    let opened = told.iter().position(|event| event == "open Text").expect("the first stream begins");
    assert_eq!(told[opened + 1], "waiting");
    // How often the person is told depends on the machine; the rest does not.
    let rest: Vec<&str> = told.iter().map(String::as_str).filter(|event| *event != "waiting").collect();
    assert_eq!(rest[..4], ["started", "open Text", "discarded", "retry 1 Timeout"]);
    assert_eq!(rest[4..], WHOLE);
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up() {
    let server = CannedServer::start(vec![
        canned_server::CannedAnswer { end: ConnectionEnd::Stall, ..canned_server::CannedAnswer::default() },
        stream(&REPLY),
    ])
    .await;
    let provider = provider_with(&env(&server), |config| {
        config.retries.first_delay = Duration::from_millis(1);
        config.timeouts.headers = Some(Duration::from_millis(80));
    });
    assert_eq!(summarize_events(&collect_events(&provider, request("hi")).await)[0], "retry 1 Timeout");
}
