//! Answers that came whole: good ones, refusals, and things that are no answer at all.

use std::time::{Duration, Instant};

use gimlet_proto::{ModelErrorKind, ModelEvent};

use crate::canned_server::{CannedAnswer, CannedServer, STREAM_HEAD, answer, error, stream};
use crate::*;

const SOON: (&str, &str) = ("retry-after-ms", "1");

#[tokio::test]
async fn a_reply_is_told_and_the_request_is_as_the_api_wants_it() {
    let server = CannedServer::start(vec![stream(&REPLY)]).await;
    let events = collect_events(&provider(&server), request("hi")).await;
    assert_eq!(summarize_events(&events), WHOLE);
    assert!(matches!(&events[0], ModelEvent::Started(head) if head.request_id.as_deref() == Some("req_1")));
    assert_eq!(reply_end(&events).usage.output_tokens, 7);
    let seen = &server.recorded_requests()[0];
    assert!(seen.head.starts_with("POST /v1/messages HTTP/1.1\r\n"), "{}", seen.head);
    assert_eq!(seen.header("x-api-key"), Some("sk-canary"));
    assert_eq!(seen.header("anthropic-version"), Some("2023-06-01"));
    assert_eq!(seen.header("content-type"), Some("application/json"));
    assert_eq!(seen.header("user-agent"), Some(&*format!("gimlet/{}", gimlet_proto::VERSION)));
    assert!(seen.header("accept-encoding").unwrap().contains("gzip"));
    assert_eq!((seen.header("anthropic-beta"), seen.header("authorization")), (None, None));
    let body = seen.json();
    assert_eq!((&body["model"], &body["stream"]), (&"claude-sonnet-5-5".into(), &true.into()));
    assert_eq!(body["thinking"]["type"], "adaptive");
}

#[tokio::test]
async fn any_cut_of_the_bytes_gives_the_same_reply() {
    let body: String = REPLY.iter().map(|data| canned_server::event(data)).collect::<String>().replace('\n', "\r\n");
    for size in [1, 7, 4096] {
        let mut pieces = vec![STREAM_HEAD.as_bytes().to_vec()];
        let chunks =
            body.as_bytes().chunks(size).map(|piece| canned_server::chunk(std::str::from_utf8(piece).unwrap()));
        pieces.extend(chunks);
        pieces.push(b"0\r\n\r\n".to_vec());
        let server = CannedServer::start(vec![CannedAnswer { pieces, ..CannedAnswer::default() }]).await;
        assert_eq!(
            summarize_events(&collect_events(&provider(&server), request("hi")).await),
            WHOLE,
            "pieces of {size}"
        );
    }
}

#[tokio::test]
async fn a_compressed_stream_is_read() {
    use std::io::Write;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    for data in REPLY {
        gzip.write_all(canned_server::event(data).as_bytes()).unwrap();
        gzip.flush().unwrap();
    }
    let packed = gzip.finish().unwrap();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n";
    let whole = |bytes: &[u8]| {
        let mut pieces = vec![head.as_bytes().to_vec()];
        for piece in bytes.chunks(40) {
            let mut chunk = format!("{:x}\r\n", piece.len()).into_bytes();
            chunk.extend_from_slice(piece);
            chunk.extend_from_slice(b"\r\n");
            pieces.push(chunk);
        }
        pieces.push(b"0\r\n\r\n".to_vec());
        CannedAnswer { pieces, ..CannedAnswer::default() }
    };
    let server = CannedServer::start(vec![whole(&packed), whole(&packed[..60]), stream(&REPLY)]).await;
    let provider = provider(&server);
    assert_eq!(summarize_events(&collect_events(&provider, request("hi")).await), WHOLE);
    // A compressed stream that ends too early is a broken one.
    let broken = summarize_events(&collect_events(&provider, request("hi")).await);
    assert!(broken.contains(&"retry 1 Network".to_owned()) && broken.ends_with(&["done".to_owned()]), "{broken:?}");
}

#[tokio::test]
async fn passing_failures_are_retried_with_the_same_bytes() {
    for status in [408, 409, 424, 429, 500, 502, 503, 504, 529, 599] {
        let plans =
            vec![error(status, "x_error", "busy", &[SOON]), error(status, "x_error", "busy", &[SOON]), stream(&REPLY)];
        let server = CannedServer::start(plans).await;
        let events = collect_events(&provider(&server), request("hi")).await;
        assert_eq!(summarize_events(&events)[2..], WHOLE, "{status}");
        assert!(
            matches!(&events[1], ModelEvent::Retrying { attempt: 2, max: 2 | 10, delay_ms: 1, error } if error.status == Some(status) && error.request_id.as_deref() == Some("req_e"))
        );
        let seen = server.recorded_requests();
        assert!(seen[0].body == seen[1].body && seen[1].body == seen[2].body);
    }
}

#[tokio::test]
async fn final_failures_are_told_at_once() {
    let table = [
        (400, "invalid_request_error", "bad", ModelErrorKind::InvalidRequest),
        (400, "invalid_request_error", "prompt is too long: 5 tokens > 4 maximum", ModelErrorKind::PromptTooLong),
        (
            400,
            "invalid_request_error",
            "`tool_use` ids were found without `tool_result` blocks",
            ModelErrorKind::InvalidRequest,
        ),
        (401, "authentication_error", "invalid x-api-key", ModelErrorKind::Authentication),
        (402, "billing_error", "pay", ModelErrorKind::Billing),
        (403, "permission_error", "no", ModelErrorKind::Permission),
        (404, "not_found_error", "model: claude-sonnet-5-5", ModelErrorKind::ModelNotFound),
        (413, "request_too_large", "big", ModelErrorKind::RequestTooLarge),
    ];
    for (status, kind, message, expected) in table {
        let server = CannedServer::start(vec![error(status, kind, message, &[])]).await;
        let events = collect_events(&provider(&server), request("hi")).await;
        assert_eq!(summarize_events(&events), [format!("failed {expected:?}")], "{status}");
        assert_eq!(final_error(&events).message, message);
        assert_eq!(server.recorded_requests().len(), 1);
    }
}

#[tokio::test]
async fn the_servers_wait_is_kept_and_too_long_ones_fail() {
    let server =
        CannedServer::start(vec![error(429, "rate_limit_error", "slow", &[("retry-after", "0.05")]), stream(&REPLY)])
            .await;
    let before = Instant::now();
    let events = collect_events(&provider(&server), request("hi")).await;
    assert!(matches!(events[0], ModelEvent::Retrying { delay_ms: 50, .. }));
    assert!(before.elapsed() >= Duration::from_millis(50));
    let server = CannedServer::start(vec![error(429, "rate_limit_error", "slow", &[("retry-after", "3600")])]).await;
    let events = collect_events(&provider(&server), request("hi")).await;
    assert_eq!(summarize_events(&events), ["failed RateLimit"]);
    assert!(final_error(&events).message.contains("3600 s"));
    // Zero falls back to the computed delay.
    let server = CannedServer::start(vec![error(529, "overloaded_error", "x", &[("retry-after", "0")])]).await;
    let mut stream = provider_with(&env(&server), |_| ()).stream(request("hi"));
    assert!(matches!(next(&mut stream).await, Some(ModelEvent::Retrying { delay_ms: 375..=500, .. })));
}

#[tokio::test]
async fn the_servers_word_on_retrying_is_followed() {
    let server = CannedServer::start(vec![error(500, "api_error", "x", &[("x-should-retry", "false")])]).await;
    assert_eq!(summarize_events(&collect_events(&provider(&server), request("hi")).await), ["failed Server"]);
    let again = || error(400, "invalid_request_error", "x", &[("x-should-retry", "true"), SOON]);
    let server = CannedServer::start(vec![again(), again(), again()]).await;
    let events = collect_events(&provider(&server), request("hi")).await;
    assert_eq!(summarize_events(&events), ["retry 1 InvalidRequest", "failed InvalidRequest"]);
}

#[tokio::test]
async fn the_budget_is_the_persons_choice() {
    let server = CannedServer::start((0..4).map(|_| error(500, "api_error", "x", &[SOON])).collect()).await;
    let provider = provider_with(&env(&server).with("GIMLET_MAX_RETRIES", "2"), |_| ());
    assert_eq!(
        summarize_events(&collect_events(&provider, request("hi")).await),
        ["retry 1 Server", "retry 2 Server", "failed Server"]
    );
    let server = CannedServer::start(vec![error(500, "api_error", "x", &[SOON])]).await;
    let provider = provider_with(&env(&server).with("GIMLET_MAX_RETRIES", "0"), |_| ());
    assert_eq!(summarize_events(&collect_events(&provider, request("hi")).await), ["failed Server"]);
}

#[tokio::test]
async fn a_refused_option_is_left_out_for_the_rest_of_the_run() {
    let refusal = error(400, "invalid_request_error", "thinking.display: Extra inputs are not permitted", &[]);
    let server = CannedServer::start(vec![refusal, stream(&REPLY), stream(&REPLY)]).await;
    let provider = provider(&server);
    let first = summarize_events(&collect_events(&provider, request("hi")).await);
    assert_eq!((first[0].as_str(), &first[1..]), ("notice", &WHOLE.map(String::from)[..]));
    assert_eq!(summarize_events(&collect_events(&provider, request("hi")).await), WHOLE);
    let seen = server.recorded_requests();
    assert_eq!(seen[0].json()["thinking"]["display"], "summarized");
    assert!(seen[1].json()["thinking"].get("display").is_none());
    assert!(seen[2].json()["thinking"].get("display").is_none());
}

#[tokio::test]
async fn an_option_that_is_refused_forever_does_not_loop() {
    let refusal = || error(400, "invalid_request_error", "thinking.display: Extra inputs are not permitted", &[]);
    let server = CannedServer::start(vec![refusal(), refusal(), refusal()]).await;
    assert_eq!(
        summarize_events(&collect_events(&provider(&server), request("hi")).await),
        ["notice", "failed InvalidRequest"]
    );
    let effort = || error(400, "invalid_request_error", "output_config.effort: Extra inputs are not permitted", &[]);
    let server = CannedServer::start(vec![effort(), effort()]).await;
    // Effort was never sent, so there is nothing to leave out.
    assert_eq!(summarize_events(&collect_events(&provider(&server), request("hi")).await), ["failed InvalidRequest"]);
}

#[tokio::test]
async fn foreign_thinking_is_first_dropped_by_the_server_and_then_left_out() {
    let bound =
        || error(400, "invalid_request_error", "messages.1: this block is bound to a different conversation", &[]);
    let unknown = error(400, "invalid_request_error", "thinking.block_binding: Extra inputs are not permitted", &[]);
    let server = CannedServer::start(vec![bound(), unknown, stream(&REPLY)]).await;
    let mut request = request("hi");
    let thought = Block::from_json(r#"{"type":"thinking","thinking":"","signature":"s"}"#).unwrap();
    request.messages.push(Arc::new(Message::assistant(vec![thought, Block::text("a")])));
    request.messages.push(Arc::new(Message::user(vec![Block::text("b")])));
    let events = summarize_events(&collect_events(&provider(&server), request).await);
    assert_eq!(events[..2], ["notice", "notice"]);
    assert_eq!(events[2..], WHOLE);
    let seen = server.recorded_requests();
    assert_eq!(seen[1].json()["thinking"]["block_binding"]["prefix_mismatch_behavior"], "drop_block");
    assert_eq!(seen[1].header("anthropic-beta"), Some("thinking-binding-controls-2026-08-01"));
    assert_eq!(seen[2].header("anthropic-beta"), None);
    assert_eq!(seen[2].json()["messages"][1]["content"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_prompt_that_leaves_little_room_gets_a_shorter_reply() {
    let message = "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000, decrease";
    let server =
        CannedServer::start(vec![error(400, "invalid_request_error", message, &[]), stream(&REPLY), stream(&REPLY)])
            .await;
    let provider = provider(&server);
    collect_events(&provider, request("hi")).await;
    collect_events(&provider, request("hi")).await;
    let limits: Vec<_> =
        server.recorded_requests().iter().map(|seen| seen.json()["max_tokens"].as_u64().unwrap()).collect();
    assert_eq!(limits, [32_000, 10_000, 32_000]);
}

#[tokio::test]
async fn things_that_are_no_answer_give_one_readable_line() {
    let page = "<html><title>Log in\nfirst</title></html>";
    let html = [("content-type", "text/html; charset=utf-8")];
    let table = [
        (answer(200, &html, page), "the server sent an HTML page instead of an API answer: Log in first"),
        (answer(200, &[], page), "the server sent an HTML page instead of an API answer: Log in first"),
        (
            answer(200, &[("content-type", "application/json")], r#"{"id":"x"}"#),
            "the server sent JSON instead of a stream",
        ),
        (answer(403, &html, page), "an HTML page instead of an API answer: Log in first"),
        (answer(403, &[], ""), "the server does not allow this"),
        (answer(403, &[], r#"{"type":"error","err"#), r#"{"type":"error","err"#),
    ];
    for (plan, message) in table {
        let server = CannedServer::start(vec![plan]).await;
        let events = collect_events(&provider(&server), request("hi")).await;
        assert_eq!(final_error(&events).message, message);
        assert_eq!(server.recorded_requests().len(), 1);
    }
    // A passing failure stays one, whatever page stands in for its body; so does an empty success.
    let server = CannedServer::start(vec![answer(502, &[SOON], page), answer(200, &[], ""), stream(&REPLY)]).await;
    let events = summarize_events(&collect_events(&provider(&server), request("hi")).await);
    assert_eq!(events[..2], ["retry 1 Server", "retry 2 Network"]);
    let overloaded = r#"{"type":"error","error":{"type":"overloaded_error","message":"x"}}"#;
    let server = CannedServer::start(vec![
        answer(200, &[("content-type", "application/json"), SOON], overloaded),
        stream(&REPLY),
    ])
    .await;
    assert_eq!(summarize_events(&collect_events(&provider(&server), request("hi")).await)[0], "retry 1 Overloaded");
}

#[tokio::test]
async fn credentials_never_show_in_errors() {
    let server = CannedServer::start(vec![error(401, "authentication_error", "key sk-canary is unknown", &[])]).await;
    let events = collect_events(&provider(&server), request("hi")).await;
    assert!(!format!("{events:?}").contains("canary"));
    assert!(final_error(&events).hint.as_deref().unwrap().contains("ANTHROPIC_API_KEY"));
}

#[tokio::test]
async fn an_oversized_request_is_refused_before_it_is_sent() {
    let server = CannedServer::start(vec![]).await;
    let events = collect_events(&provider(&server), request(&"x".repeat(33_000_000))).await;
    assert_eq!(summarize_events(&events), ["failed RequestTooLarge"]);
    assert!(server.recorded_requests().is_empty());
}
