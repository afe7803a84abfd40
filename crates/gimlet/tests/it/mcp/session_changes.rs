//! What changes while a session runs: resources that were read, prompts, and the folders that servers are told.

use gimlet_script::Script;
use serde_json::{Value, json};

use super::{config, stub_entry, stub_world};
use crate::sdk::SdkHost;

#[tokio::test]
async fn the_model_hears_of_changed_resources_that_it_has_read_and_commands_follow_the_prompts() {
    let world = stub_world();
    let script = Script::new()
        .call("ReadMcpResourceTool", json!({"server": "stub", "uri": "stub://motd"}))
        .call("mcp__stub__update", json!({}))
        .then()
        .say("one")
        .then()
        .say("two")
        .then()
        .say("three");
    let model = script.serve().await.unwrap();
    let servers = config(json!({"stub": stub_entry(&world, "good", "note")}));
    let flags = ["--dangerously-skip-permissions", "--mcp-config", &servers];
    let mut host = SdkHost::start(world.run(&model).args(flags));
    host.send_request(json!({"subtype": "initialize"})).await;
    for prompt in ["go", "/mcp__stub__second", "again"] {
        host.say(prompt);
        host.result().await;
    }
    host.end().await.clean(0);
    let said = |request: usize| model.request(request).body_text().matches("have changed since they were read").count();
    assert_eq!((said(1), said(2), said(3)), (0, 1, 1), "once, before the next prompt");
    let request = model.request(2);
    let body = request.body_text();
    assert!(body.contains("were read: stub://motd."), "not what was never read: {body}");
    assert!(body.contains("Greet None in a plain tone."), "the new prompt is a command: {body}");
    assert!(model.prefix_equal(1, 2), "{:?}", model.prefix_difference(1, 2));
}

#[tokio::test]
async fn servers_are_told_of_another_folder() {
    let world = stub_world();
    std::fs::create_dir_all(world.project.join("sub")).unwrap();
    let script = Script::new()
        .call("mcp__stub__roots", json!({}))
        .then()
        .say("one")
        .then()
        .call("mcp__stub__roots", json!({}))
        .then()
        .say("two");
    let model = script.serve().await.unwrap();
    let servers = config(json!({"stub": stub_entry(&world, "good", "note")}));
    let flags = ["--dangerously-skip-permissions", "--mcp-config", &servers];
    let mut host = SdkHost::start(world.run(&model).args(flags));
    host.send_request(json!({"subtype": "initialize"})).await;
    host.say("go");
    host.result().await;
    let added = host.send_request(json!({"subtype": "register_repo_root", "directory": world.path("sub")})).await;
    assert_eq!(added["subtype"], "success", "{added}");
    host.say("again");
    host.result().await;
    host.end().await.clean(0);
    let folder = |name: &str| format!("file://{}", world.project.join(name).display()).trim_end_matches('/').to_owned();
    let told: Vec<String> = [1, 3].map(|request| model.request(request).tool_results()[0].clone()).into();
    assert_eq!(told[0], format!("{} after 0 moves", folder("")));
    assert_eq!(told[1], format!("{} {} after 1 moves", folder(""), folder("sub")));
}

#[tokio::test]
async fn the_context_view_says_what_each_server_costs() {
    let world = stub_world();
    let model = Script::new().say("done").serve().await.unwrap();
    let servers = config(json!({"stub": stub_entry(&world, "good", "note")}));
    let flags = ["--dangerously-skip-permissions", "--mcp-config", &servers];
    let mut host = SdkHost::start(world.run(&model).args(flags));
    host.send_request(json!({"subtype": "initialize"})).await;
    host.say("go");
    host.result().await;
    host.say("/context");
    let shown: Value = host.result().await;
    host.end().await.clean(0);
    let text = shown["result"].as_str().unwrap();
    assert!(text.contains("MCP servers") && text.contains("stub (10 tools)"), "{text}");
}
