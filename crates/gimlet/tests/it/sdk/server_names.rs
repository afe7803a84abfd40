//! Servers whose names cannot be sent as they are: rules find their tools by the name that people gave the server and by
//! the one that the model uses.

use gimlet_script::Script;
use serde_json::json;

use super::{SdkHost, result_text, unsendable_content};
use crate::world;

/// Calls the tool `t` of a server with this rule given; gives the text of the result.
async fn call_under_rule(server: &str, sent: &str, flag: &str, rule: &str) -> (bool, String) {
    let world = world();
    let model = Script::new().call(sent, json!({})).then().say("done").serve().await.unwrap();
    let config = json!({"mcpServers": {server: {"type": "sdk", "name": server}}}).to_string();
    let mut host = SdkHost::start(world.run(&model).args([flag, rule, "--mcp-config", &config]));
    host.say("go");
    unsendable_content::serve(&mut host, r#"{"content":[{"type":"text","text":"served"}]}"#).await;
    let offered = model.request(0).tool_names().contains(&sent.to_owned());
    let lines = host.end().await.lines;
    let result = lines.iter().find(|line| line["type"] == "user").map(result_text);
    (offered, result.unwrap_or_default())
}

#[tokio::test]
async fn rules_name_servers_by_both_of_their_names() {
    let servers = [
        (
            "my.server",
            "mcp__my_server__t",
            vec!["mcp__my.server", "mcp__my_server", "mcp__my.server__t", "mcp__my_server__*"],
        ),
        ("a__b", "mcp__a__b__t", vec!["mcp__a__b", "mcp__a__b__t", "mcp__a__b__*"]),
    ];
    for (server, sent, rules) in servers {
        for rule in rules {
            let (offered, result) = call_under_rule(server, sent, "--allowedTools", rule).await;
            assert!(offered && result == "served", "allow {rule}: {result}");
            let (offered, result) = call_under_rule(server, sent, "--disallowedTools", rule).await;
            assert!(!offered && result != "served", "deny {rule}: {result}");
        }
        let (_, result) = call_under_rule(server, sent, "--allowedTools", "mcp__other").await;
        assert_ne!(result, "served", "nothing else opens it");
    }
    let (_, result) = call_under_rule("a__b", "mcp__a__b__t", "--allowedTools", "mcp__a").await;
    assert_ne!(result, "served", "a rule about the server `a` is none about `a__b`");
    let (offered, _) = call_under_rule("a__b", "mcp__a__b__t", "--disallowedTools", "mcp__a").await;
    assert!(!offered, "what it may mean is forbidden");
}

#[tokio::test]
async fn names_in_agents_that_nobody_knows_are_remarked_on() {
    let world = world();
    let model = Script::new().say("ok").serve().await.unwrap();
    let agents = json!({"x": {"description": "d", "prompt": "p", "disallowedTools": ["Bsah", "mcp__srv__*"]}});
    let run = world.run(&model).args(["-p", "--agents", &agents.to_string(), "hi"]).finish().await;
    run.expect_code(0);
    assert!(run.stderr.contains("'Bsah' in disallowedTools") && run.stderr.contains("Bash"), "{}", run.stderr);
    assert!(!run.stderr.contains("mcp__srv"), "{}", run.stderr);
}
