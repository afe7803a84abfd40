use gimlet_script::{ExpectedRequest, Script, ScriptServer, ScriptedAgent, ScriptedReply};
use serde_json::json;

use crate::raw_client::{RawClient, ask, body, request_bytes, results, user};

#[tokio::test]
async fn plays_steps_in_order_on_one_connection() {
    let script =
        Script::new().say("Looking.").call("Read", json!({"file_path": "{{cwd}}/a"})).then().say("got {{last_result}}");
    let server = script.var("cwd", "/home").serve().await.unwrap();
    let mut client = RawClient::connect(&server).await;
    let first = client.ask(&body(&[user("hi")])).await;
    assert_eq!(first.status, 200);
    let message = first.message();
    assert_eq!(message["stop_reason"], "tool_use");
    assert_eq!(message["content"][1]["input"], json!({"file_path": "/home/a"}));
    let assistant = first.assistant();
    let second = client.ask(&body(&[user("hi"), assistant.clone(), results(&assistant, "hello")])).await;
    assert_eq!(second.message()["content"][0]["text"], "got hello");
    assert_eq!(second.message()["stop_reason"], "end_turn");

    assert_eq!(server.failures(), Vec::<String>::new());
    assert_eq!(server.rejections(), []);
    assert_eq!(server.unplayed(), 0);
    let request = server.request(1);
    assert_eq!(request.tool_result(0), "hello");
    assert_eq!(request.answered_tools(), ["Read"]);
    assert_eq!(request.system_text(), "be brief");
    assert_eq!(request.tool_names(), ["Read"]);
    assert_eq!(request.messages().len(), 3);
    assert_eq!(request.connection(), server.request(0).connection());
    assert_eq!((request.path(), request.target()), ("/v1/messages", "/v1/messages?beta=true"));
    assert!(server.prefix_equal(0, 1));
    assert!(!server.retry_identical(0, 1));
    assert_eq!(server.max_parallel(), 1);
}

#[tokio::test]
async fn the_same_seed_gives_the_same_bytes() {
    let run = async |seed| {
        let server = Script::new().seed(seed).say("x").call("Read", json!({})).serve().await.unwrap();
        let response = ask(&server, &body(&[user("hi")])).await;
        (response.text(), response.header("request-id").unwrap().to_owned())
    };
    let first = run(1).await;
    assert_eq!(first, run(1).await);
    assert_ne!(first, run(2).await);
    assert!(first.1.starts_with("req_") && first.0.contains("\"toolu_") && first.0.contains("\"msg_"));
}

#[tokio::test]
async fn an_unforeseen_request_is_a_failure_not_worth_a_retry() {
    let expect = ExpectedRequest { last_user_text: Some("please".into()), ..ExpectedRequest::default() };
    let server = Script::new().expect(expect).say("x").serve().await.unwrap();
    let wrong = ask(&server, &body(&[user("hi")])).await;
    assert_eq!((wrong.status, wrong.header("x-should-retry")), (599, Some("false")));
    assert!(server.failures()[0].contains("\"please\""), "{:?}", server.failures());
    assert_eq!(server.unplayed(), 1);
    assert_eq!(ask(&server, &body(&[user("yes please")])).await.status, 200);
    assert_eq!(ask(&server, &body(&[user("more")])).await.status, 599);
    assert!(server.failures()[1].contains("no step is left"));
    let summary = server.shutdown().await;
    assert_eq!((summary.requests, summary.failures.len(), summary.unplayed), (3, 2, 0));
}

#[tokio::test]
async fn standing_steps_answer_out_of_order() {
    let title = ExpectedRequest { system_contains: Some("title".into()), ..ExpectedRequest::default() };
    let server = Script::new().when(title).say("A title").then().say("one").then().say("two").serve().await.unwrap();
    let mut side = body(&[user("hi")]);
    side["system"] = json!("make a title");
    for (request, expected) in
        [(&body(&[user("a")]), "one"), (&side, "A title"), (&side, "A title"), (&body(&[user("b")]), "two")]
    {
        assert_eq!(ask(&server, request).await.message()["content"][0]["text"], expected);
    }
    assert_eq!(server.unplayed(), 0);
}

#[tokio::test]
async fn an_agent_calls_until_the_result_is_good() {
    let agent = ScriptedAgent {
        tool: "Read".into(),
        inputs: vec![json!({"n": 1}), json!({"n": 2})],
        until: "found".into(),
        then: Some("There it is.".into()),
        max_calls: 5,
    };
    let server = Script::new().agent(agent).then().say("next").serve().await.unwrap();
    let mut messages = vec![user("go")];
    for (answer, input) in [("no", 1), ("no", 2), ("found", 2)] {
        let turn = ask(&server, &body(&messages)).await.assistant();
        assert_eq!(turn["content"][0]["input"], json!({"n": input}));
        messages.extend([turn.clone(), results(&turn, answer)]);
    }
    assert_eq!(ask(&server, &body(&messages)).await.message()["content"][0]["text"], "There it is.");
    assert_eq!(ask(&server, &body(&[user("x")])).await.message()["content"][0]["text"], "next");
}

#[tokio::test]
async fn closures_see_the_request() {
    let server = Script::new()
        .reply_with(|request| ScriptedReply::say(format!("you said {}", request.last_user_text())))
        .forever()
        .serve()
        .await
        .unwrap();
    assert_eq!(ask(&server, &body(&[user("a")])).await.message()["content"][0]["text"], "you said a");
    assert_eq!(ask(&server, &body(&[user("b")])).await.message()["content"][0]["text"], "you said b");
}

#[tokio::test]
async fn answers_without_streaming_counts_and_lists() {
    let server = Script::new().say("plain").serve().await.unwrap();
    let mut client = RawClient::connect(&server).await;
    let mut request = body(&[user("hi")]);
    request["stream"] = json!(false);
    let message = client.ask(&request).await.json();
    assert_eq!(message["content"], json!([{"type": "text", "text": "plain"}]));
    let whole = message["usage"]["input_tokens"].as_u64().unwrap();

    request.as_object_mut().unwrap().retain(|key, _| key != "stream" && key != "max_tokens");
    client
        .send_raw(&request_bytes(
            "POST",
            "/v1/messages/count_tokens",
            &request.to_string(),
            &[("authorization", "Bearer t")],
        ))
        .await;
    assert_eq!(client.read().await.json(), json!({"input_tokens": whole}));
    client.send_raw(&request_bytes("GET", "/v1/models", "", &[("x-api-key", "k")])).await;
    let models = client.read().await.json();
    assert!(models["data"].as_array().unwrap().iter().any(|model| model["id"] == "claude-opus-5-5"));
    let secrets: Vec<_> = server.secrets_seen().into_iter().map(|seen| (seen.path, seen.header, seen.secret)).collect();
    assert!(secrets.contains(&("/v1/messages/count_tokens".into(), "authorization".into(), "t".into())));
}

#[tokio::test]
async fn recorded_exchanges_can_be_read_from_files() {
    let folder = tempfile::tempdir().unwrap();
    let server = Script::new().say("kept").serve().await.unwrap();
    server.record_dir(folder.path());
    ask(&server, &body(&[user("remember me")])).await;
    server.wait_for_end(0).await;
    let request = std::fs::read_to_string(folder.path().join("000.request")).unwrap();
    assert!(request.starts_with("POST /v1/messages?beta=true HTTP/1.1\n") && request.contains("remember me"));
    let response = std::fs::read_to_string(folder.path().join("000.response")).unwrap();
    assert!(response.starts_with("HTTP/1.1 200") && response.contains("kept"));
}

#[tokio::test]
async fn runs_until_told_to_stop_and_says_where() {
    let server = ScriptServer::start(Script::new().say("x")).await.unwrap();
    let line: serde_json::Value = serde_json::from_str(&server.address_line()).unwrap();
    assert_eq!(line["url"], server.url());
    let address = server.address();
    let summary = server.run_until(std::future::ready(())).await;
    assert_eq!((summary.requests, summary.unplayed), (0, 1));
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn what_is_not_http_is_a_failure() {
    let server = Script::new().say("x").serve().await.unwrap();
    let mut client = RawClient::connect(&server).await;
    client.send_raw(b"\x16\x03\x01 not a request\r\n\r\n").await;
    assert!(client.try_read().await.is_err());
    assert!(server.failures()[0].contains("not HTTP"), "{:?}", server.failures());
}

#[tokio::test]
async fn an_echo_tells_requests_apart() {
    let server =
        Script::from_json(r#"{"steps": [{"reply": {"echo": true}, "repeat": 2}]}"#).unwrap().serve().await.unwrap();
    let first = ask(&server, &body(&[user("a")])).await.message()["content"][0]["text"].clone();
    let second = ask(&server, &body(&[user("b")])).await.message()["content"][0]["text"].clone();
    assert!(first.as_str().unwrap().starts_with("1 messages, digest ") && first != second);
}

#[tokio::test]
async fn chunked_uploads_are_understood() {
    let server = Script::new().say("x").serve().await.unwrap();
    let mut client = RawClient::connect(&server).await;
    let text = body(&[user("hi")]).to_string();
    let (one, two) = text.split_at(20);
    let head = "POST /v1/messages HTTP/1.1\r\nhost: a\r\nx-api-key: k\r\nanthropic-version: 2023-06-01\r\ntransfer-encoding: chunked\r\n\r\n";
    client
        .send_raw(format!("{head}{:x}\r\n{one}\r\n{:X}\r\n{two}\r\n0\r\n\r\n", one.len(), two.len()).as_bytes())
        .await;
    assert_eq!(client.read().await.status, 200);
    assert_eq!(server.request(0).body(), text.as_bytes());
}
