use std::time::Duration;

use gimlet_script::{PromptUsage, Script, ScriptServer};
use serde_json::{Value, json};

use crate::raw_client::{RawClient, ask, body, request_bytes, user};

fn marked(text: &str, ttl: &str) -> Value {
    json!({"type": "text", "text": text, "cache_control": {"type": "ephemeral", "ttl": ttl}})
}

fn turn(blocks: Vec<Value>) -> Value {
    json!({"role": "user", "content": blocks})
}

async fn cost(server: &ScriptServer, request: &Value) -> PromptUsage {
    let response = ask(server, request).await;
    assert_eq!(response.status, 200, "{}", response.text());
    let index = server.requests().len() - 1;
    let usage = server.request(index).outcome().usage.unwrap();
    let told = &response.message()["usage"];
    assert_eq!(told["cache_read_input_tokens"], usage.cache_read_tokens);
    assert_eq!(told["cache_creation_input_tokens"], usage.cache_write_tokens());
    assert_eq!(told["cache_creation"]["ephemeral_1h_input_tokens"], usage.cache_write_1h_tokens);
    assert_eq!(told["input_tokens"], usage.input_tokens);
    usage
}

async fn server() -> ScriptServer {
    Script::new().say("x").forever().serve().await.unwrap()
}

/// A request whose only prompt is two user blocks, the first of `chars` characters.
fn simple(chars: usize, ttl: &str, tail: &str) -> Value {
    let mut request = body(&[turn(vec![marked(&"a".repeat(chars), ttl), json!({"type": "text", "text": tail})])]);
    request.as_object_mut().unwrap().retain(|key, _| key != "tools" && key != "system");
    request
}

#[tokio::test]
async fn numbers_can_be_predicted() {
    let server = server().await;
    // `{"type":"text","text":"…"}` is 25 bytes around its text.
    let first = cost(&server, &simple(4000 - 25, "5m", "one")).await;
    assert_eq!(first.cache_write_5m_tokens, 1000);
    assert_eq!((first.cache_read_tokens, first.cache_write_1h_tokens), (0, 0));
    assert_eq!(first.input_tokens, (25 + 3_u64).div_ceil(4));
    let second = cost(&server, &simple(4000 - 25, "5m", "other tail")).await;
    assert_eq!((second.cache_read_tokens, second.cache_write_tokens()), (1000, 0));
    assert_eq!(second.input_tokens, 9);
    assert!(second.hit_rate() > 0.99 && first.hit_rate() == 0.0);
    let short = cost(&server, &simple(512 * 4 - 30, "5m", "x")).await;
    assert_eq!((short.cache_write_tokens(), short.cache_read_tokens), (0, 0), "below the minimum nothing is cached");
}

#[tokio::test]
async fn entries_die_of_age_and_are_renewed_by_hits() {
    let server = server().await;
    let request = simple(4000, "5m", "x");
    cost(&server, &request).await;
    server.advance_clock(Duration::from_secs(200));
    assert!(cost(&server, &request).await.cache_read_tokens > 0);
    server.advance_clock(Duration::from_secs(200));
    assert!(cost(&server, &request).await.cache_read_tokens > 0, "the hit renewed it");
    server.advance_clock(Duration::from_secs(301));
    assert_eq!(cost(&server, &request).await.cache_read_tokens, 0);
    let long = simple(4000, "1h", "x");
    let mut other = long.clone();
    other["messages"][0]["content"][0]["text"] = json!("b".repeat(4000));
    assert!(cost(&server, &other).await.cache_write_1h_tokens > 0);
    server.advance_clock(Duration::from_secs(3000));
    assert!(cost(&server, &other).await.cache_read_tokens > 0);
}

#[tokio::test]
async fn a_clock_of_its_own_moves_only_when_a_step_says_so() {
    let script = r#"{"clock": "virtual", "steps": [
        {"reply": {"blocks": [{"text": "x"}]}, "advance_ms": 299000},
        {"reply": {"blocks": [{"text": "x"}]}, "advance_ms": 301000},
        {"reply": {"blocks": [{"text": "x"}]}}]}"#;
    let server = Script::from_json(script).unwrap().serve().await.unwrap();
    let request = simple(4000, "5m", "x");
    cost(&server, &request).await;
    assert!(cost(&server, &request).await.cache_read_tokens > 0);
    assert_eq!(cost(&server, &request).await.cache_read_tokens, 0);
}

#[tokio::test]
async fn a_report_tells_over_http_what_the_cache_did() {
    let server = server().await;
    let request = simple(4000, "5m", "x");
    cost(&server, &request).await;
    cost(&server, &request).await;
    let mut louder = request.clone();
    louder["system"] = json!("be loud");
    cost(&server, &louder).await;
    cost(&server, &request).await;
    let mut client = RawClient::connect(&server).await;
    client.send_raw(&request_bytes("GET", "/report", "", &[])).await;
    let report = client.read().await.json();
    let differs: Vec<&Value> = report["requests"].as_array().unwrap().iter().map(|row| &row["differs_in"]).collect();
    assert_eq!(differs, [&Value::Null, &Value::Null, &json!("system"), &Value::Null], "{report}");
    assert!(report["requests"][1]["hit_rate"].as_f64().unwrap() > 0.9, "{report}");
    assert!((0.5..0.8).contains(&report["hit_rate"].as_f64().unwrap()), "{report}");
    assert_eq!((&report["unplayed"], &report["failures"]), (&json!(0), &json!([])));
    assert_eq!(server.requests().len(), 4, "asking for it is not part of the script");
}

#[tokio::test]
async fn a_read_walks_back_twenty_pieces_and_no_further() {
    let server = server().await;
    let piece = |n: usize| json!({"type": "text", "text": format!("{n:0>200}")});
    let upto = |count: usize| {
        let mut blocks: Vec<Value> = (0..count).map(piece).collect();
        blocks[count - 1]["cache_control"] = json!({"type": "ephemeral"});
        body(&[turn(blocks)])
    };
    let written = cost(&server, &upto(30)).await;
    assert!(written.cache_write_5m_tokens > 0);
    assert_eq!(cost(&server, &upto(49)).await.cache_read_tokens, written.cache_write_5m_tokens);
    let server = self::server().await;
    cost(&server, &upto(30)).await;
    assert_eq!(cost(&server, &upto(50)).await.cache_read_tokens, 0);
}

#[tokio::test]
async fn each_layer_is_lost_by_its_own_changes() {
    let base = || {
        let mut request = body(&[turn(vec![marked(&"m".repeat(3000), "5m")])]);
        request["system"] = json!([marked(&"s".repeat(3000), "5m")]);
        request["tools"][0]["description"] = json!("t".repeat(3000));
        request["tools"][0]["cache_control"] = json!({"type": "ephemeral"});
        request
    };
    let changed = async |change: &dyn Fn(&mut Value)| {
        let server = server().await;
        let full = cost(&server, &base()).await.cache_write_tokens();
        let mut request = base();
        change(&mut request);
        let read = cost(&server, &request).await.cache_read_tokens;
        (read as f64 / full as f64 * 3.0).round() as u32
    };
    assert_eq!(changed(&|_| {}).await, 3);
    assert_eq!(changed(&|request| request["tool_choice"] = json!({"type": "auto"})).await, 2);
    assert_eq!(changed(&|request| request["output_config"] = json!({"effort": "low"})).await, 2);
    assert_eq!(changed(&|request| request["system"][0]["text"] = json!("other")).await, 1);
    assert_eq!(changed(&|request| request["tools"][0]["name"] = json!("Other")).await, 0);
    assert_eq!(changed(&|request| request["model"] = json!("claude-opus-5")).await, 0);
}

#[tokio::test]
async fn differences_between_requests_are_named() {
    let server = server().await;
    let first = body(&[turn(vec![marked("a", "5m")])]);
    let mut longer = body(&[turn(vec![json!({"type": "text", "text": "a"})]), user("b")]);
    ask(&server, &first).await;
    ask(&server, &longer).await;
    assert!(server.prefix_equal(0, 1), "{:?}", server.prefix_difference(0, 1));
    assert_eq!(server.cache_difference(0, 1), None);
    assert_eq!(server.request(0).breakpoints(), ["messages.0.content.0"]);
    longer["messages"][0]["content"][0]["text"] = json!("A");
    ask(&server, &longer).await;
    assert_eq!(server.prefix_difference(1, 2).as_deref(), Some("`messages[0]` differs"));
    longer["system"] = json!("other");
    ask(&server, &longer).await;
    assert_eq!(server.cache_difference(2, 3), Some("system"));
    ask(&server, &longer).await;
    assert!(server.retry_identical(3, 4));
    assert_eq!((server.request(3).attempt(), server.request(4).attempt()), (1, 2));
}
