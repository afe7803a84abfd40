//! Hooks of settings that call a tool of a server inside the host.

use gimlet_script::Script;
use serde_json::{Value, json};

use super::{SdkHost, result_text};
use crate::world;

const SERVERS: &str = r#"{"mcpServers":{"s":{"type":"sdk"}}}"#;

/// Runs one Bash call behind a hook that calls the server's tool, which answers this text; returns the result of the
/// call, what reached the server, and standard error.
async fn call_behind_hook(answer: &str, args: &[&str]) -> (String, Vec<Value>, String) {
    let world = world();
    let hook = json!({"type": "mcp_tool", "server": "s", "tool": "t", "input": {"what": "${tool_input.command}"}});
    std::fs::create_dir_all(world.home.join(".claude")).unwrap();
    let settings = json!({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [hook]}]}});
    std::fs::write(world.home.join(".claude/settings.json"), settings.to_string()).unwrap();
    let model = Script::new().call("Bash", json!({"command": "echo ran"})).then().say("done").serve().await.unwrap();
    let args = [&["--allowedTools", "Bash(echo *)", "--mcp-config", SERVERS], args].concat();
    let mut host = SdkHost::start(world.run(&model).args(args));
    host.say("go");
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
        let result = match message["method"].as_str().unwrap_or_default() {
            "initialize" => json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                "serverInfo": {"name": "s", "version": "1"}}),
            "tools/list" => json!({"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}),
            "tools/call" => {
                reached.push(message["params"]["arguments"].clone());
                json!({"content": [{"type": "text", "text": answer}]})
            }
            _ => json!({}),
        };
        host.answer(&line, json!({"mcp_response": {"jsonrpc": "2.0", "id": message["id"], "result": result}}));
    };
    host.result().await;
    let end = host.end().await;
    let stderr = end.output.stderr.clone();
    end.clean(0);
    (result_text(&result), reached, stderr)
}

#[tokio::test]
async fn a_servers_tool_decides_by_what_it_answers() {
    let deny = json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny",
        "permissionDecisionReason": "the server says no"}});
    let (result, reached, _) = call_behind_hook(&deny.to_string(), &[]).await;
    assert!(result.contains("the server says no"), "{result}");
    assert_eq!(reached, [json!({"what": "echo ran"})], "the input has the event's part in it");
    let (result, _, _) = call_behind_hook("plain words decide nothing", &[]).await;
    assert!(result.contains("ran"), "{result}");
}

#[tokio::test]
async fn a_rule_keeps_hooks_from_a_servers_tool() {
    let (result, reached, _) = call_behind_hook("{}", &["--disallowedTools", "mcp__s__t"]).await;
    assert!(reached.is_empty(), "{reached:?}");
    assert!(result.contains("ran"), "a hook that fails holds nothing up: {result}");
}
