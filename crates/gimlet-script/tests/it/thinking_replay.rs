use gimlet_script::{ModelSpec, Script, ScriptServer, ThinkingBinding};
use serde_json::{Value, json};

use crate::raw_client::{RawClient, RawResponse, ask, body, request_bytes, results, user};

async fn server(binding: ThinkingBinding) -> ScriptServer {
    let model = ModelSpec { binding: Some(binding), ..ModelSpec::new("claude-opus-5-5") };
    let script = Script::new().model(model).think("first plan").call("Read", json!({"n": 1.0})).then();
    script.think("second plan").call("Read", json!({"s": "é"})).then().say("done").forever().serve().await.unwrap()
}

/// Two turns of calls and their results, ready for a third request.
async fn history(server: &ScriptServer) -> Vec<Value> {
    let mut messages = vec![user("go")];
    for _ in 0..2 {
        let response = ask(server, &body(&messages)).await;
        assert_eq!(response.status, 200, "{}", response.text());
        let turn = response.assistant();
        messages.extend([turn.clone(), results(&turn, "ok")]);
    }
    messages
}

fn words(response: &RawResponse) -> String {
    response.json()["error"]["message"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn an_unchanged_history_is_accepted_however_it_is_spelled() {
    let server = server(ThinkingBinding::Error).await;
    let messages = history(&server).await;
    let signature = messages[1]["content"][0]["signature"].as_str().unwrap();
    assert_eq!(signature.len(), 4096);
    let mut request = body(&messages);
    assert_eq!(ask(&server, &request).await.status, 200);
    request["messages"][2]["content"][0]["cache_control"] = json!({"type": "ephemeral"});
    request["messages"][0]["content"] = json!("go");
    request["max_tokens"] = json!(77);
    assert_eq!(ask(&server, &request).await.status, 200, "markers, string form and limits are free");
    request["messages"][1]["content"].as_array_mut().unwrap().remove(0);
    assert_eq!(ask(&server, &request).await.status, 200, "thinking may go from the front");
    let mut deferred = request.clone();
    let tool = json!({"name": "Later", "defer_loading": true, "input_schema": {"type": "object"}});
    deferred["tools"].as_array_mut().unwrap().push(tool);
    assert_eq!(ask(&server, &deferred).await.status, 200, "a deferred tool is not part of the prefix");
}

#[tokio::test]
async fn a_changed_prefix_is_refused() {
    let server = server(ThinkingBinding::Error).await;
    let messages = history(&server).await;
    let changes: [&dyn Fn(&mut Value); 4] = [
        &|request| request["messages"][0]["content"][0]["text"] = json!("went"),
        &|request| request["system"] = json!("be long"),
        &|request| request["tools"][0]["description"] = json!("other"),
        &|request| request["messages"][2]["content"][0]["content"] = json!("trimmed"),
    ];
    for change in changes {
        let mut request = body(&messages);
        change(&mut request);
        let refused = ask(&server, &request).await;
        assert!(words(&refused).contains("bound to a different conversation"), "{}", refused.text());
    }
    let mut input = body(&messages);
    input["messages"][1]["content"][1]["input"] = json!({"n": 1});
    assert!(words(&ask(&server, &input).await).contains("messages.3.content.0"), "only what follows is touched");
}

#[tokio::test]
async fn changed_thinking_and_cut_signatures_are_refused() {
    for binding in [ThinkingBinding::Unbound, ThinkingBinding::Error] {
        let server = server(binding).await;
        let messages = history(&server).await;
        let mut request = body(&messages);
        request["messages"][3]["content"][0]["thinking"] = json!("another plan");
        assert!(words(&ask(&server, &request).await).contains("cannot be modified"));
        let mut request = body(&messages);
        let cut: String = messages[3]["content"][0]["signature"].as_str().unwrap().chars().take(4000).collect();
        request["messages"][3]["content"][0]["signature"] = json!(cut);
        assert!(words(&ask(&server, &request).await).contains("Invalid `signature`"));
    }
}

#[tokio::test]
async fn unbound_models_look_at_the_latest_message_only() {
    let server = server(ThinkingBinding::Unbound).await;
    let messages = history(&server).await;
    let mut request = body(&messages);
    request["messages"][0]["content"][0]["text"] = json!("went");
    request["messages"][1]["content"][0]["signature"] = json!("nonsense");
    assert_eq!(ask(&server, &request).await.status, 200);
}

#[tokio::test]
async fn dropping_is_silent_unless_asked_for() {
    let server = server(ThinkingBinding::Drop).await;
    let mut request = body(&history(&server).await);
    request["messages"][0]["content"][0]["text"] = json!("went");
    assert_eq!(ask(&server, &request).await.status, 200);
    assert_eq!(server.request(2).outcome().dropped_thinking, ["messages.1.content.0", "messages.3.content.0"]);
}

#[tokio::test]
async fn a_request_may_ask_for_dropping() {
    let server = server(ThinkingBinding::Error).await;
    let mut request = body(&history(&server).await);
    request["messages"][0]["content"][0]["text"] = json!("went");
    request["thinking"] = json!({"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}});
    let headers = [("x-api-key", "k1"), ("anthropic-beta", "thinking-binding-controls-2026-08-01")];
    let mut client = RawClient::connect(&server).await;
    client.send_raw(&request_bytes("POST", "/v1/messages", &request.to_string(), &headers)).await;
    let response = client.read().await;
    assert_eq!(response.status, 200, "{}", response.text());
    assert_eq!(response.message()["input_transformations"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn another_models_thinking_is_left_out() {
    let script = Script::new().think("plan").say("a").then().say("b");
    let server = script.serve().await.unwrap();
    let turn = ask(&server, &body(&[user("go")])).await.assistant();
    let mut request = body(&[user("go"), turn, user("on")]);
    request["model"] = json!("claude-haiku-5-5");
    assert_eq!(ask(&server, &request).await.status, 200);
    assert_eq!(server.request(1).outcome().dropped_thinking, ["messages.1.content.0"]);
}

#[tokio::test]
async fn inputs_that_typed_readers_refuse_come_back_byte_for_byte() {
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for input in [
        r#"{"n":1e400,"i":12345678901234567890123,"f":1.0}"#.to_owned(),
        r#"{"lone":"\ud800","twice":1,"twice":2}"#.to_owned(),
        format!(r#"{{"deep":{deep}}}"#),
    ] {
        let script = Script::new().call_raw("Read", input.as_str()).think("after it").then().say("done").forever();
        let server = script.serve().await.unwrap();
        let reply = ask(&server, &body(&[user("go")])).await;
        let content = &reply.message()["content"];
        let history = |input: &str| {
            let call = format!(r#"{{"type":"tool_use","id":{},"name":"Read","input":{input}}}"#, content[0]["id"]);
            let turn = format!(r#"{{"role":"assistant","content":[{call},{}]}}"#, content[1]);
            let answer = results(&json!({"content": [content[0]]}), "ok");
            let mut request = body(&[]);
            request["messages"] = json!("HERE");
            request.to_string().replace(r#""HERE""#, &format!("[{},{turn},{answer}]", user("go")))
        };
        let mut client = RawClient::connect(&server).await;
        for (sent, status) in [(input.as_str(), 200), (r#"{"other":1}"#, 400)] {
            client.send_raw(&request_bytes("POST", "/v1/messages", &history(sent), &[("x-api-key", "k1")])).await;
            let response = client.read().await;
            assert_eq!(response.status, status, "{sent:.60}: {}", response.text());
        }
    }
}

#[tokio::test]
async fn what_another_account_thought_is_not_seen() {
    let server = server(ThinkingBinding::Error).await;
    let messages = history(&server).await;
    let mut client = RawClient::connect(&server).await;
    let headers = [("x-api-key", "k2"), ("anthropic-beta", "thinking-binding-controls-2026-08-01")];
    client.send_raw(&request_bytes("POST", "/v1/messages", &body(&messages).to_string(), &headers)).await;
    let response = client.read().await;
    assert_eq!(response.status, 200, "{}", response.text());
    assert_eq!(response.message()["input_transformations"].as_array().unwrap().len(), 2);
}
