//! Resources for the model and in prompts, and prompts of servers as commands.

use gimlet_script::Script;
use serde_json::json;

use super::{config, stub_entry, stub_world};

#[tokio::test]
async fn resources_are_listed_read_and_attached() {
    let world = stub_world();
    let script = Script::new()
        .call("ListMcpResourcesTool", json!({}))
        .call("ReadMcpResourceTool", json!({"server": "stub", "uri": "stub://motd"}))
        .call("ReadMcpResourceTool", json!({"server": "stub", "uri": "stub://bytes"}))
        .call("ReadMcpResourceTool", json!({"server": "stub", "uri": "stub://none"}))
        .call("ReadMcpResourceTool", json!({"server": "other", "uri": "stub://motd"}))
        .then()
        .say("done");
    let model = script.serve().await.unwrap();
    let servers = config(json!({"stub": stub_entry(&world, "good", "n1")}));
    let run = world.run(&model).args(["--mcp-config", &servers]);
    run.stream("what is in @stub:stub://motd?").finish().await.expect_code(0);
    let first = model.request(0);
    assert!(first.body_text().contains("the message of the day"), "{}", first.body_text());
    let results = model.request(1).tool_results();
    assert!(results[0].contains("stub://motd") && results[0].contains("\"server\":\"stub\""), "{}", results[0]);
    assert_eq!(results[1], "the message of the day");
    assert!(results[2].contains(".zip") && results[2].contains("4 bytes"), "{}", results[2]);
    assert!(results[3].contains("no such resource"), "{}", results[3]);
    assert!(results[4].contains("no server named 'other'") && results[4].contains("'stub'"), "{}", results[4]);
}

#[tokio::test]
async fn the_tools_for_resources_are_left_out_with_the_other_built_in_ones() {
    let world = stub_world();
    let model = Script::new().say("done").serve().await.unwrap();
    let servers = config(json!({"stub": stub_entry(&world, "good", "n1")}));
    let run = world.run(&model).args(["--mcp-config", &servers, "--tools", ""]).stream("go").finish().await;
    let tools = run.expect_code(0).lines()[0]["tools"].as_array().unwrap().clone();
    assert!(!tools.is_empty());
    assert!(tools.iter().all(|tool| tool.as_str().unwrap().starts_with("mcp__stub__")), "{tools:?}");
}

#[tokio::test]
async fn a_prompt_of_a_server_is_a_command() {
    let world = stub_world();
    let model = Script::new().say("hello").then().say("x").serve().await.unwrap();
    let servers = config(json!({"stub": stub_entry(&world, "good", "n1")}));
    let run = |prompt: &str| world.run(&model).args(["--mcp-config", &servers]).stream(prompt).finish();
    let first = run("/mcp__stub__greet \"Ada Lovelace\" warm").await;
    let init = &first.expect_code(0).lines()[0];
    assert!(init["slash_commands"].as_array().unwrap().contains(&json!("mcp__stub__greet")), "{init}");
    let first_request = model.request(0);
    let body = first_request.body_text();
    assert!(body.contains("Greet Ada Lovelace in a warm tone."), "{body}");
    let missing = run("/mcp__stub__greet").await;
    let result = missing.result();
    assert!(result.to_string().contains("needs 'name'"), "{result}");
    assert_eq!(model.requests().len(), 1, "nothing is asked of the model");
}
