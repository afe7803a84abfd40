//! `gimlet mcp` and `/mcp`: servers are added, shown and removed, and files keep everything else.

use gimlet_script::Script;
use gimlet_testkit::{RunOutput, TestWorld};
use serde_json::{Value, json};

use super::{config, is_alive, noted_pids, stub_entry, stub_world};

async fn mcp(world: &TestWorld, args: &[&str]) -> RunOutput {
    world.run_at("http://127.0.0.1:9").arg("mcp").args(args.iter().copied()).finish().await
}

#[tokio::test]
async fn a_server_is_added_shown_used_and_removed() {
    let world = stub_world();
    let state_file = world.home.join(".claude.json");
    let before = "{\n  \"numStartups\": 7,\n  \"projects\": {\"/elsewhere\": {\"x\": [1,2]}}\n}\n";
    std::fs::write(&state_file, before).unwrap();
    let (stub, note) = (world.path("stub.py"), format!("STUB_NOTE={}", world.path("note")));
    let added = mcp(&world, &["add", "-e", &note, "stub", "--", "python3", &stub, "good"]).await;
    let text = &added.expect_code(0).stdout;
    assert!(text.contains("Added stdio MCP server stub") && text.contains("local config"), "{text}");
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(&state_file).unwrap()).unwrap();
    assert_eq!((&kept["numStartups"], &kept["projects"]["/elsewhere"]), (&json!(7), &json!({"x": [1, 2]})));
    let again = mcp(&world, &["add", "stub", "--", "python3"]).await;
    assert!(again.expect_code(1).stderr.contains("already a server named 'stub'"), "{}", again.stderr);
    let user = mcp(&world, &["add", "--scope", "user", "web", "http://127.0.0.1:9/mcp", "-H", "X-Key: canary"]).await;
    assert!(user.expect_code(0).stdout.contains("transport http"), "{}", user.stdout);

    let list = mcp(&world, &["list"]).await;
    let text = &list.expect_code(0).stdout;
    assert!(text.contains("stub: python3") && text.contains("✓ Connected"), "{text}");
    assert!(text.contains("web: http://127.0.0.1:9/mcp (HTTP) - ✗ Failed"), "{text}");
    assert!(noted_pids(&world, "note").iter().all(|pid| !is_alive(*pid)), "nothing is left running");
    let shown = mcp(&world, &["get", "web"]).await;
    assert!(shown.stdout.contains("X-Key") && !shown.stdout.contains("canary"), "{}", shown.stdout);
    let shown = mcp(&world, &["get", "stub", "--json"]).await.expect_code(0).json();
    assert_eq!((&shown["servers"][0]["state"], &shown["servers"][0]["scope"]), (&json!("connected"), &json!("local")));

    let model = Script::new().call("mcp__stub__echo", json!({"words": "x"})).then().say("done").serve().await.unwrap();
    world.run(&model).env("MCP_CONNECT_TIMEOUT_MS", "20000").stream("go").finish().await.expect_code(0);
    assert_eq!(model.request(1).tool_results()[0], "echo: x");

    mcp(&world, &["remove", "stub"]).await.expect_code(0);
    mcp(&world, &["remove", "web", "-s", "user"]).await.expect_code(0);
    let none = mcp(&world, &["remove", "stub"]).await;
    assert!(none.expect_code(1).stderr.contains("no MCP server named 'stub'"), "{}", none.stderr);
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(&state_file).unwrap()).unwrap();
    assert_eq!((&kept["numStartups"], &kept["mcpServers"]), (&json!(7), &json!({})));
}

#[tokio::test]
async fn a_server_for_the_project_is_trusted_by_whoever_adds_it() {
    let world = stub_world();
    world.file(".git/HEAD", "ref: refs/heads/main\n");
    let entry = stub_entry(&world, "good", "note").to_string();
    mcp(&world, &["add-json", "--scope", "project", "stub", &entry]).await.expect_code(0);
    let written: Value = serde_json::from_str(&world.read(".mcp.json")).unwrap();
    assert!(written["mcpServers"]["stub"]["command"] == "python3", "{written}");
    let model = Script::new().say("1").then().say("2").serve().await.unwrap();
    let run = world.run(&model).stream("go").finish().await;
    assert_eq!(run.expect_code(0).lines()[0]["mcp_servers"][0]["status"], "connected");
    let other = written.to_string().replace("\"good\"", "\"other\"");
    world.file(".mcp.json", other);
    let run = world.run(&model).stream("go").finish().await;
    assert_eq!(run.expect_code(0).lines()[0]["mcp_servers"], json!([]), "a changed one waits");
    let list = mcp(&world, &["list"]).await;
    assert!(list.expect_code(0).stdout.contains("Waits for trust"), "{}", list.stdout);
}

#[tokio::test]
async fn a_session_cannot_give_itself_a_server() {
    let world = stub_world();
    let gimlet = env!("CARGO_BIN_EXE_gimlet");
    let command = format!("{gimlet} mcp add --scope user own -- touch made");
    let model = Script::new().call("Bash", json!({"command": command})).then().say("done").serve().await.unwrap();
    world.run(&model).stream("go").finish().await.expect_code(0);
    assert!(model.request(1).tool_results()[0].contains("not changed by a command of a session"));
    assert!(!world.home.join(".claude.json").exists());
}

#[tokio::test]
async fn the_command_shows_the_servers_of_the_session() {
    let world = stub_world();
    let model = Script::new().serve().await.unwrap();
    let run = world.run(&model).print_text("/mcp").finish().await;
    assert!(run.expect_code(0).stdout.contains("no MCP servers"), "{}", run.stdout);
    let servers = config(json!({"stub": stub_entry(&world, "good", "note")}));
    let run = world.run(&model).args(["--mcp-config", &servers]).print_text("/mcp reconnect stub").finish().await;
    let text = &run.expect_code(0).stdout;
    assert!(text.contains("connected") && text.contains("echo  Says it again."), "{text}");
    let run = world.run(&model).args(["--mcp-config", &servers]).print_text("/mcp nobody").finish().await;
    assert!(run.stdout.contains("no MCP server named 'nobody'"), "{} {}", run.stdout, run.stderr);
    assert!(model.requests().is_empty());
}
