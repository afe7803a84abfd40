//! What a program says about single tools of its own servers, and whose tools hooks and questions are told of.

use gimlet_script::Script;
use serde_json::{Value, json};

use super::host_callbacks::{serve, serve_add_call};
use super::{SdkHost, result_text};
use crate::world;

/// Where a program says what it wants of a tool.
#[derive(Clone, Copy, Debug, PartialEq)]
enum PolicyPlacement {
    Flag,
    Greeting,
    FlagThenGreeting,
    Later,
    /// By the name that the model knows it by.
    FullName,
    /// By flag, before the same server is set again without a word about its tools.
    FlagThenLater,
}

/// Runs one call of a tool with this policy; gives whether it was offered, asked about, and reached the program.
async fn call_with_policy(said: PolicyPlacement, policy: &Value, flags: &[&str]) -> (bool, bool, bool) {
    let world = world();
    let model = serve_add_call().await;
    let name = if said == PolicyPlacement::FullName { "mcp__calc__add" } else { "add" };
    let entry = json!({"type": "sdk", "name": "calc", "tools": [{"name": name, "permission_policy": policy}]});
    let by_flag = json!({"mcpServers": {"calc": entry}}).to_string();
    let asks = ["--permission-prompt-tool", "stdio", "--allowedTools", "mcp__calc"];
    let mut run = world.run(&model).args(asks).args(flags.iter().copied());
    if matches!(
        said,
        PolicyPlacement::Flag
            | PolicyPlacement::FlagThenGreeting
            | PolicyPlacement::FullName
            | PolicyPlacement::FlagThenLater
    ) {
        run = run.args(["--mcp-config", by_flag.as_str()]);
    }
    let mut host = SdkHost::start(run);
    match said {
        PolicyPlacement::Greeting => {
            let configs = json!({"calc": {"tools": entry["tools"]}});
            let greeting = json!({"subtype": "initialize", "sdkMcpServers": ["calc"], "sdkMcpServerConfigs": configs});
            host.send_request(greeting).await;
        }
        PolicyPlacement::FlagThenGreeting => {
            host.send_request(json!({"subtype": "initialize", "sdkMcpServers": ["calc"]})).await;
        }
        PolicyPlacement::Later => {
            host.send_request(json!({"subtype": "initialize"})).await;
            let request = json!({"subtype": "mcp_set_servers", "servers": {"calc": entry}});
            host.send_line(json!({"type": "control_request", "request_id": "set", "request": request}));
            serve(&mut host, |line| line["response"]["request_id"] == "set").await;
        }
        PolicyPlacement::FlagThenLater => {
            host.send_request(json!({"subtype": "initialize"})).await;
            for servers in [json!({}), json!({"calc": {"type": "sdk", "name": "calc"}})] {
                let request = json!({"subtype": "mcp_set_servers", "servers": servers});
                host.send_line(json!({"type": "control_request", "request_id": "set", "request": request}));
                serve(&mut host, |line| line["response"]["request_id"] == "set").await;
            }
        }
        PolicyPlacement::Flag | PolicyPlacement::FullName => {}
    }
    host.say("add");
    let is_question = |line: &Value| line["request"]["subtype"] == "can_use_tool";
    let line = serve(&mut host, |line| is_question(line) || line["type"] == "user").await;
    let asked = is_question(&line);
    if asked {
        host.answer(&line, json!({"behavior": "allow"}));
        serve(&mut host, |line| line["type"] == "user").await;
    }
    host.result().await;
    let lines = host.end().await.clean(0);
    let reached = lines.iter().any(|line| line["request"]["message"]["method"] == "tools/call");
    (model.request(0).tool_names().contains(&"mcp__calc__add".to_owned()), asked, reached)
}

#[tokio::test]
async fn a_tools_own_policy_stands_above_rules_and_modes_wherever_it_is_said() {
    let bypass = ["--permission-mode", "bypassPermissions"];
    for said in [
        PolicyPlacement::Flag,
        PolicyPlacement::Greeting,
        PolicyPlacement::FlagThenGreeting,
        PolicyPlacement::Later,
        PolicyPlacement::FullName,
        PolicyPlacement::FlagThenLater,
    ] {
        for (policy, flags, outcome) in [
            ("always_deny", &[][..], (false, false, false)),
            ("always_deny", &bypass[..], (false, false, false)),
            ("always_ask", &[][..], (true, true, true)),
            ("always_ask", &bypass[..], (true, true, true)),
            ("whatever", &bypass[..], (true, true, true)),
            ("always_allow", &[][..], (true, false, true)),
        ] {
            assert_eq!(
                call_with_policy(said, &json!(policy), flags).await,
                outcome,
                "{policy} by {said:?} with {flags:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_server_is_meant_by_its_key_in_the_characters_that_the_model_sees() {
    let world = world();
    let model =
        Script::new().call("mcp__my_calc__add", json!({"a": 1, "b": 2})).then().say("done").serve().await.unwrap();
    let mut host = SdkHost::start(world.run(&model).args(["--permission-mode", "bypassPermissions"]));
    let configs = json!({"my_calc": {"tools": [{"name": "add", "permission_policy": "always_deny"}]}});
    host.send_request(json!({"subtype": "initialize", "sdkMcpServers": ["my.calc"], "sdkMcpServerConfigs": configs}))
        .await;
    host.say("add");
    serve(&mut host, |line| line["type"] == "result").await;
    let lines = host.end().await.clean(0);
    assert!(lines.iter().all(|line| line["request"]["message"]["method"] != "tools/call"));
    assert!(!model.request(0).tool_names().contains(&"mcp__my_calc__add".to_owned()));
}

#[tokio::test]
async fn a_limit_for_calls_in_the_greeting_holds() {
    let world = world();
    let model = serve_add_call().await;
    let mut host = SdkHost::start(world.run(&model).args(["--allowedTools", "mcp__calc"]));
    let configs = json!({"calc": {"timeout": 1000}});
    host.send_request(json!({"subtype": "initialize", "sdkMcpServers": ["calc"], "sdkMcpServerConfigs": configs}))
        .await;
    host.say("add");
    serve(&mut host, |line| line["request"]["message"]["method"] == "tools/call").await;
    let result = host.until(|line| line["type"] == "user").await;
    assert!(result_text(&result).contains("did not answer within 1 s"), "{result}");
    host.result().await;
    host.end().await.clean(0);
}

#[tokio::test]
async fn what_a_program_denies_it_cannot_call_by_itself_either() {
    let world = world();
    let model = Script::new().say("ok").serve().await.unwrap();
    let servers = json!({"mcpServers": {"calc": {"type": "sdk", "tools":
        [{"name": "add", "permission_policy": "always_deny"}]}}});
    let mut host = SdkHost::start(world.run(&model).args(["--mcp-config", &servers.to_string()]));
    let request = json!({"subtype": "mcp_call", "tool": "mcp__calc__add", "arguments": {"a": 1, "b": 2}});
    host.send_line(json!({"type": "control_request", "request_id": "call", "request": request}));
    let answer = serve(&mut host, |line| line["response"]["request_id"] == "call").await;
    assert!(answer["response"]["error"].as_str().unwrap().contains("denies"), "{answer}");
    let lines = host.end().await.clean(0);
    assert!(lines.iter().all(|line| line["request"]["message"]["method"] != "tools/call"));
}

#[tokio::test]
async fn hooks_and_questions_name_a_tools_server_by_its_own_key() {
    let world = world();
    let model =
        Script::new().call("mcp__my_calc__add", json!({"a": 1, "b": 2})).then().say("done").serve().await.unwrap();
    let servers = r#"{"mcpServers":{"my.calc":{"type":"sdk","name":"other"}}}"#;
    let flags = ["--permission-prompt-tool", "stdio", "--mcp-config", servers];
    let mut host = SdkHost::start(world.run(&model).args(flags));
    let hooks = json!({"PreToolUse": [{"hookCallbackIds": ["before"]}]});
    host.send_line(json!({"type": "control_request", "request_id": "i", "request":
        {"subtype": "initialize", "hooks": hooks}}));
    host.say("add");
    let hook = serve(&mut host, |line| line["request"]["subtype"] == "hook_callback").await;
    let whose = json!({"name": "my.calc", "source": "sdk"});
    assert_eq!(hook["request"]["input"]["mcp_server"], whose);
    host.answer(&hook, json!({}));
    let question = serve(&mut host, |line| line["request"]["subtype"] == "can_use_tool").await;
    assert_eq!(question["request"]["mcp_server"], whose);
    host.answer(&question, json!({"behavior": "allow"}));
    serve(&mut host, |line| line["type"] == "result").await;
    host.end().await.clean(0);
}
