use gimlet_script::{ModelSpec, Script};
use serde_json::json;

use crate::raw_client::{RawClient, ResponseEnd, ask, body, request_bytes, user};

#[tokio::test]
async fn a_broken_rule_is_a_400_in_the_services_shape_and_uses_no_step() {
    let server = Script::new().say("x").serve().await.unwrap();
    let mut wrong = body(&[user("hi")]);
    wrong["foo"] = json!(1);
    let refused = ask(&server, &wrong).await;
    assert_eq!(refused.status, 400);
    let error = refused.json();
    assert_eq!(
        error["error"],
        json!({"type": "invalid_request_error", "message": "foo: Extra inputs are not permitted"})
    );
    assert_eq!(error["request_id"].as_str(), refused.header("request-id"));
    assert_eq!(server.rejections(), [(0, "foo: Extra inputs are not permitted".to_owned())]);
    assert_eq!(server.unplayed(), 1);
    assert!(server.failures().is_empty());
    let lenient = Script::new().lenient().say("x").serve().await.unwrap();
    assert_eq!(ask(&lenient, &wrong).await.status, 200);
}

#[tokio::test]
async fn headers_are_checked() {
    let server = Script::new().key("right").say("x").serve().await.unwrap();
    let text = body(&[user("hi")]).to_string();
    let mut client = RawClient::connect(&server).await;
    for (headers, status) in [
        (vec![], 401),
        (vec![("x-api-key", "wrong")], 401),
        (vec![("x-api-key", "right"), ("anthropic-beta", "a,a")], 400),
        (vec![("x-api-key", "wrong"), ("authorization", "Bearer right")], 200),
    ] {
        client.send_raw(&request_bytes("POST", "/v1/messages", &text, &headers)).await;
        let response = client.read().await;
        assert_eq!(response.status, status, "{headers:?} {}", response.text());
    }
    let bare =
        format!("POST /v1/messages HTTP/1.1\r\nx-api-key: right\r\ncontent-length: {}\r\n\r\n{text}", text.len());
    client.send_raw(bare.as_bytes()).await;
    assert!(client.read().await.text().contains("anthropic-version"));
}

#[tokio::test]
async fn unknown_models_bad_json_and_long_prompts_are_told_apart() {
    let tiny = ModelSpec { context: Some(100), ..ModelSpec::new("tiny") };
    let server = Script::new().model(tiny).say("x").serve().await.unwrap();
    let mut request = body(&[user("hi")]);
    let unknown = ask(&server, &request).await;
    assert_eq!((unknown.status, unknown.json()["error"]["type"].as_str().unwrap()), (404, "not_found_error"));
    request["model"] = json!("tiny");
    assert_eq!(ask(&server, &request).await.status, 200);
    request["messages"] = json!([user(&"x".repeat(400))]);
    let long = ask(&server, &request).await;
    let message = long.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("prompt is too long: ") && message.ends_with(" tokens > 100 maximum"), "{message}");
    let mut client = RawClient::connect(&server).await;
    client.send_raw(&request_bytes("POST", "/v1/messages", "{\"a\":", &[("x-api-key", "k")])).await;
    let garbled = client.read().await;
    assert!(garbled.status == 400 && garbled.text().contains("not JSON"));
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_while_it_is_sent() {
    let mut script = Script::new().say("x");
    script.max_body_bytes = 1000;
    let server = script.serve().await.unwrap();
    let mut client = RawClient::connect(&server).await;
    client.send_raw(b"POST /v1/messages HTTP/1.1\r\nx-api-key: k\r\ncontent-length: 5000\r\n\r\n{\"begin").await;
    let refused = client.read().await;
    assert_eq!((refused.status, refused.json()["error"]["type"].as_str().unwrap()), (413, "request_too_large"));
    assert_eq!(refused.end, ResponseEnd::Complete);
    assert_eq!(server.unplayed(), 1);
}
