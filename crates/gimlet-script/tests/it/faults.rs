use std::time::Duration;

use gimlet_script::{
    BodyFraming, ChunkMode, CloseKind, ContentEncoding, ExpectedRequest, Fault, FaultPoint, Script, WireShape,
};
use serde_json::json;

use crate::raw_client::{RawClient, ResponseEnd, ask, body, user};

fn cut(at: FaultPoint, how: CloseKind) -> Fault {
    Fault::Cut { at, how }
}

#[tokio::test]
async fn statuses_come_as_often_as_scripted_with_their_headers() {
    let text = r#"{"steps": [
        {"reply": {"status": 529, "times": 2, "headers": {"retry-after": "0.05", "x-should-retry": "true"}}},
        {"reply": {"status": 429, "error": {"message": "cap", "code": "enforced_spend_limit_reached"}}},
        {"reply": {"status": 502, "body": "<html>bad gateway</html>"}},
        {"reply": {"status": 500, "body": "{\"type\":\"err"}},
        {"reply": {"status": 302, "headers": {"location": "{{other}}/v1/messages"}}},
        {"reply": {"blocks": []}}]}"#;
    let script = Script::from_json(text).unwrap().var("other", "http://elsewhere");
    let server = script.serve().await.unwrap();
    let request = body(&[user("hi")]);
    let mut client = RawClient::connect(&server).await;
    for _ in 0..2 {
        let busy = client.ask(&request).await;
        assert_eq!((busy.status, busy.header("retry-after")), (529, Some("0.05")));
        assert_eq!(busy.json()["error"]["type"], "overloaded_error");
    }
    let capped = client.ask(&request).await.json();
    assert_eq!(capped["error"]["details"]["error_code"], "enforced_spend_limit_reached");
    let page = client.ask(&request).await;
    assert!(page.header("content-type").unwrap().starts_with("text/html") && page.text().contains("bad gateway"));
    assert_eq!(client.ask(&request).await.text(), "{\"type\":\"err");
    assert_eq!(client.ask(&request).await.header("location"), Some("http://elsewhere/v1/messages"));
    assert_eq!(client.ask(&request).await.message()["content"], json!([]));
    assert_eq!(server.unplayed(), 0);
}

#[tokio::test]
async fn cuts_are_seen_as_fin_or_reset() {
    for (how, end) in [(CloseKind::Fin, ResponseEnd::Fin), (CloseKind::Rst, ResponseEnd::Reset)] {
        let server = Script::new().say("hello").fault(cut(FaultPoint::MidText, how)).serve().await.unwrap();
        let response = ask(&server, &body(&[user("hi")])).await;
        assert_eq!(response.end, end);
        assert!(response.text().contains("text_delta") && !response.text().contains("content_block_stop"));

        let server = Script::new().say("hello").fault(cut(FaultPoint::BeforeHeaders, how)).serve().await.unwrap();
        let mut client = RawClient::connect(&server).await;
        client.send(&body(&[user("hi")])).await;
        assert_eq!(client.try_read().await.unwrap_err(), end);
    }
}

#[tokio::test]
async fn a_cut_is_visible_under_every_framing() {
    for framing in [BodyFraming::Chunked, BodyFraming::Length] {
        let wire = WireShape { framing, ..WireShape::default() };
        let server = Script::new()
            .say("x")
            .fault(cut(FaultPoint::AfterStopReason, CloseKind::Fin))
            .wire(wire)
            .serve()
            .await
            .unwrap();
        assert_eq!(ask(&server, &body(&[user("hi")])).await.end, ResponseEnd::Fin);
    }
    for (framing, end) in [
        (BodyFraming::Chunked, ResponseEnd::Complete),
        (BodyFraming::Length, ResponseEnd::Complete),
        (BodyFraming::Close, ResponseEnd::Fin),
    ] {
        let wire = WireShape { framing, chunk: ChunkMode::Bytes(3), ..WireShape::default() };
        let server = Script::new().say("whole").wire(wire).serve().await.unwrap();
        let response = ask(&server, &body(&[user("hi")])).await;
        assert_eq!((response.end, response.message()["content"][0]["text"].as_str()), (end, Some("whole")));
    }
}

#[tokio::test]
async fn a_stall_lasts_until_the_client_leaves_which_is_noticed() {
    let stall = Fault::Stall { at: FaultPoint::MidText, ping_every_ms: None, for_ms: None };
    let server = Script::new().say("hello").fault(stall).serve().await.unwrap();
    let mut client = RawClient::connect(&server).await;
    client.send(&body(&[user("hi")])).await;
    server.wait_for_requests(1).await;
    assert!(server.request(0).outcome().ended_at.is_none());
    drop(client);
    let request = server.wait_for_end(0).await;
    assert!(request.client_closed_after().is_some_and(|time| time < Duration::from_secs(2)));
}

#[tokio::test]
async fn a_short_stall_with_pings_goes_on() {
    let stall = Fault::Stall { at: FaultPoint::AfterMessageStart, ping_every_ms: Some(2), for_ms: Some(10) };
    let server = Script::new().say("hello").fault(stall).serve().await.unwrap();
    let response = ask(&server, &body(&[user("hi")])).await;
    let pings = response.events().iter().filter(|event| event["type"] == "ping").count();
    assert_eq!((response.end, pings), (ResponseEnd::Complete, 6));
}

#[tokio::test]
async fn uploads_are_refused_halfway() {
    let refuse = |how| Fault::RefuseUpload { after_bytes: 10, status: 413, how };
    let server = Script::new()
        .fault(refuse(CloseKind::Fin))
        .then()
        .fault(refuse(CloseKind::Rst))
        .then()
        .say("x")
        .serve()
        .await
        .unwrap();
    for _ in 0..2 {
        let mut client = RawClient::connect(&server).await;
        client
            .send_raw(b"POST /v1/messages HTTP/1.1\r\nx-api-key: k\r\ncontent-length: 100000\r\n\r\n0123456789")
            .await;
        assert_eq!(client.read().await.status, 413);
    }
    assert_eq!(ask(&server, &body(&[user("hi")])).await.status, 200);
}

#[tokio::test]
async fn idle_connections_can_vanish() {
    let server = Script::new()
        .say("a")
        .fault(Fault::CloseQuietly)
        .then()
        .say("b")
        .fault(Fault::ResetOnReuse)
        .then()
        .say("c")
        .serve()
        .await
        .unwrap();
    let request = body(&[user("hi")]);
    let mut client = RawClient::connect(&server).await;
    let first = client.ask(&request).await;
    assert_eq!((first.end, first.header("connection")), (ResponseEnd::Complete, None));
    assert_eq!(client.try_read().await.unwrap_err(), ResponseEnd::Fin);
    let mut client = RawClient::connect(&server).await;
    assert_eq!(client.ask(&request).await.end, ResponseEnd::Complete);
    client.send(&request).await;
    assert_eq!(client.try_read().await.unwrap_err(), ResponseEnd::Reset);
    assert_eq!(ask(&server, &request).await.message()["content"][0]["text"], "c");
}

#[tokio::test]
async fn compressed_and_lying_encodings_are_announced() {
    let wire = WireShape { encoding: ContentEncoding::Gzip, ..WireShape::default() };
    let lie = WireShape { claim_encoding: Some("br".into()), ..WireShape::default() };
    let torn = cut(FaultPoint::Byte(30), CloseKind::Fin);
    let server = Script::new()
        .say("a")
        .wire(wire.clone())
        .then()
        .say("b")
        .wire(lie)
        .then()
        .say("c")
        .wire(wire)
        .fault(torn)
        .serve()
        .await
        .unwrap();
    let request = body(&[user("hi")]);
    let packed = ask(&server, &request).await;
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    assert!(packed.body.starts_with(&[0x1f, 0x8b]));
    let lied = ask(&server, &request).await;
    assert_eq!(
        (lied.header("content-encoding"), lied.message()["stop_reason"].as_str()),
        (Some("br"), Some("end_turn"))
    );
    let torn = ask(&server, &request).await;
    assert_eq!((torn.body.len(), torn.end), (30, ResponseEnd::Fin));
}

#[tokio::test]
async fn paused_turns_may_be_sent_back_as_they_are() {
    let search = json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}});
    let server = Script::new().say("a").raw(search).stop("pause_turn").then().say("b").serve().await.unwrap();
    let paused = ask(&server, &body(&[user("hi")])).await;
    assert_eq!(paused.message()["stop_reason"], "pause_turn");
    let mut turn = paused.assistant();
    turn["content"][1]["input"] = json!({"query": "x"});
    assert_eq!(ask(&server, &body(&[user("hi"), turn])).await.status, 200);
    let other = json!({"role": "assistant", "content": [{"type": "text", "text": "mine"}]});
    assert_eq!(ask(&server, &body(&[user("hi"), other])).await.status, 400);
}

#[tokio::test]
async fn odd_blocks_come_back_as_they_were_sent() {
    let odd = json!({"type": "hologram", "depth": 3});
    let server = Script::new().raw(odd).then().say("b").serve().await.unwrap();
    let turn = ask(&server, &body(&[user("hi")])).await.assistant();
    assert_eq!(ask(&server, &body(&[user("hi"), turn, user("on")])).await.status, 200);
}

#[tokio::test]
async fn other_paths_answer_only_when_a_step_names_them() {
    let elsewhere = ExpectedRequest { path: Some("/elsewhere".into()), ..ExpectedRequest::default() };
    let server = Script::new().expect(elsewhere).status(200).body(json!({"ok": true})).serve().await.unwrap();
    let mut client = RawClient::connect(&server).await;
    client.send_raw(b"GET /nowhere HTTP/1.1\r\n\r\n").await;
    assert_eq!(client.read().await.status, 599);
    client.send_raw(b"GET /elsewhere?x=1 HTTP/1.1\r\n\r\n").await;
    assert_eq!(client.read().await.json(), json!({"ok": true}));
    assert_eq!(server.failures().len(), 1);
}
