//! What becomes of calls to servers inside the host: inputs that do not fit, servers that refuse or are gone, long answers.

use gimlet_script::Script;
use serde_json::{Value, json};

use super::{SdkHost, result_text};
use crate::world;

const SERVERS: &str = r#"{"mcpServers":{"s":{"type":"sdk"}}}"#;

/// How the server behaves.
enum ServerBehavior {
    /// It answers calls with this message.
    Answers(Value),
    /// The host says that it cannot reach it when it is called.
    Dead,
    /// Nor when it is greeted.
    NeverThere,
}

/// One call with this input; gives the line with its result, and the inputs that reached the server.
async fn call_server(input: Value, server: ServerBehavior) -> (Value, Vec<Value>) {
    let world = world();
    let model = Script::new().call("mcp__s__t", input).then().say("done").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--allowedTools", "mcp__s", "--mcp-config", SERVERS]));
    host.say("call it");
    let mut reached = Vec::new();
    let result = loop {
        let line = host.next_line().await;
        if line["type"] == "user" {
            break line;
        }
        if line["request"]["subtype"] != "mcp_message" {
            continue;
        }
        let message = &line["request"]["message"];
        let method = message["method"].as_str().unwrap_or_default();
        let body = match (method, &server) {
            ("tools/call", ServerBehavior::Dead) | (_, ServerBehavior::NeverThere) => {
                host.send_line(json!({"type": "control_response", "response": {"subtype": "error",
                    "request_id": line["request_id"], "error": "server dead"}}));
                continue;
            }
            ("initialize", _) => json!({"result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                "serverInfo": {"name": "s", "version": "1"}}}),
            ("tools/list", _) => json!({"result": {"tools": [{"name": "t", "inputSchema": {"type": "object",
                "properties": {"a": {"type": "number"}}, "required": ["a"]}}]}}),
            ("tools/call", ServerBehavior::Answers(body)) => {
                reached.push(message["params"]["arguments"].clone());
                body.clone()
            }
            _ => json!({"result": {}}),
        };
        let mut response = json!({"jsonrpc": "2.0", "id": message["id"]});
        response.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        host.answer(&line, json!({"mcp_response": response}));
    };
    host.result().await;
    host.end().await.clean(0);
    (result, reached)
}

fn answer_with_text(text: &str) -> ServerBehavior {
    ServerBehavior::Answers(json!({"result": {"content": [{"type": "text", "text": text}]}}))
}

#[tokio::test]
async fn an_input_reaches_the_server_as_it_is_meant_or_not_at_all() {
    let (result, reached) = call_server(json!({"a": "5", "more": true}), answer_with_text("fine")).await;
    assert_eq!((result_text(&result).as_str(), reached), ("fine", vec![json!({"a": 5, "more": true})]));
    let (result, reached) = call_server(json!({"b": 1}), answer_with_text("fine")).await;
    assert!(reached.is_empty());
    let text = result_text(&result);
    assert!(text.contains("InputValidationError") && text.contains("\"a\" is a required property"), "{text}");
}

#[tokio::test]
async fn wrong_parameters_and_a_dead_server_read_differently() {
    let refusal = |code: i32, words: &str| ServerBehavior::Answers(json!({"error": {"code": code, "message": words}}));
    for (server, words) in [
        (refusal(-32602, "a is odd"), "the server 's' does not take these parameters: a is odd"),
        (refusal(-32603, "no disk"), "the server 's' refused the call: no disk"),
        (ServerBehavior::Dead, "the server 's' could not be reached, or its answer did not arrive: server dead"),
        (ServerBehavior::NeverThere, "mcp__s__t is not there now: its server 's' could not be connected (server dead)"),
    ] {
        let (result, _) = call_server(json!({"a": 1}), server).await;
        let text = result_text(&result);
        assert!(text.contains(words), "{text}");
        assert_eq!(result["message"]["content"][0]["is_error"], true);
    }
}

#[tokio::test]
async fn a_long_answer_goes_to_a_file_whether_it_succeeded_or_not() {
    for failed in [false, true] {
        let content = json!([{"type": "text", "text": "word\n".repeat(24_000)}]);
        let answer = json!({"result": {"content": content, "isError": failed}});
        let (result, _) = call_server(json!({"a": 1}), ServerBehavior::Answers(answer)).await;
        let text = result_text(&result);
        assert!(text.starts_with("<persisted-output>") && text.contains("tool-results"), "{text}");
        assert!(result.to_string().len() < 10_000, "programs get the ends of it: {}", result.to_string().len());
    }
}

#[tokio::test]
async fn programs_get_what_a_server_said_beside_the_content() {
    let structured = json!({"content": [], "structuredContent": {"sum": 5}, "_meta": {"took": 3}});
    let (result, _) = call_server(json!({"a": 1}), ServerBehavior::Answers(json!({"result": structured}))).await;
    assert_eq!(result_text(&result), r#"{"sum":5}"#);
    assert_eq!(result["tool_use_result"], structured);
    let (plain, _) = call_server(json!({"a": 1}), answer_with_text("5")).await;
    assert_eq!(plain["tool_use_result"], json!([{"type": "text", "text": "5"}]));
}
