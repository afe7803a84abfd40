//! Where servers are configured, which of them are used, and what they get.

use gimlet_script::Script;
use serde_json::json;

use super::{config, noted_pids, stub_entry, stub_world};

#[tokio::test]
async fn a_server_of_the_command_line_is_used_and_gone_afterwards() {
    let world = stub_world();
    let script = Script::new()
        .call("mcp__stub__echo", json!({"words": "hello"}))
        .call("mcp__stub__picture", json!({}))
        .then()
        .say("done");
    let model = script.serve().await.unwrap();
    let servers = config(json!({"stub": stub_entry(&world, "good", "note")}));
    let run = world.run(&model).args(["--mcp-config", &servers]).stream("go").finish().await;
    run.expect_code(0);
    let init = &run.lines()[0];
    assert_eq!(init["mcp_servers"], json!([{"name": "stub", "status": "connected", "source": "dynamic"}]), "{init}");
    assert!(init["tools"].as_array().unwrap().contains(&json!("mcp__stub__echo")), "{init}");
    let results = model.request(1).tool_results();
    assert_eq!(results[0], "echo: hello");
    assert!(results[1].contains("application/zip") || results[1].contains(".zip"), "{}", results[1]);
    let first = model.request(0);
    let body = first.body_text();
    assert!(body.contains("Use echo for words."), "the server's own words are there: {body}");
    let pids = noted_pids(&world, "note");
    assert_eq!(pids.len(), 1);
    assert!(!super::is_alive(pids[0]), "it ends with the session");
}

#[tokio::test]
async fn a_projects_server_waits_for_trust_and_gets_no_credentials() {
    let world = stub_world();
    let mut entry = stub_entry(&world, "good", "note");
    entry["args"].as_array_mut().unwrap().push(json!("${ANTHROPIC_API_KEY:-none}"));
    entry["env"]["FROM_OUTSIDE"] = json!("${COLOUR}");
    world.file(".mcp.json", config(json!({"stub": entry})));
    let model = Script::new().say("without").then().say("with").serve().await.unwrap();
    let run = |flag: &'static [&'static str]| {
        let run = world.run(&model).env("COLOUR", "red").env("DEPLOY_TOKEN", "canary").args(flag.iter().copied());
        run.args(["-p", "go"]).finish()
    };
    let without = run(&[]).await;
    assert!(without.expect_code(0).stderr.contains("MCP server stub"), "{}", without.stderr);
    assert!(noted_pids(&world, "note").is_empty(), "nothing runs before trust");
    assert!(!model.request(0).body_text().contains("mcp__stub"));
    run(&["--trust"]).await.expect_code(0);
    assert!(model.request(1).body_text().contains("mcp__stub__echo"));
    let env: serde_json::Value = serde_json::from_str(&world.read("note.env")).unwrap();
    assert_eq!((&env["COLOUR"], &env["FROM_OUTSIDE"]), (&json!("red"), &json!("red")));
    assert_eq!(env.get("DEPLOY_TOKEN"), None, "{env}");
    assert_eq!(env.get("ANTHROPIC_API_KEY"), None);
    assert_eq!(env["CLAUDE_PROJECT_DIR"], json!(world.project));
}

#[tokio::test]
async fn scopes_have_an_order_and_lists_leave_servers_out() {
    let world = stub_world();
    let entry = |note: &str| stub_entry(&world, "good", note);
    let project = world.project.to_string_lossy().into_owned();
    let state = json!({
        "mcpServers": {"shared": entry("user"), "own": entry("own"), "off": entry("off")},
        "projects": {project: {"mcpServers": {"shared": entry("local")}, "disabledMcpServers": ["off"]}},
    });
    std::fs::write(world.home.join(".claude.json"), state.to_string()).unwrap();
    world.file(
        ".mcp.json",
        config(json!({"shared": entry("project"), "listed": entry("listed"), "refused": entry("r")})),
    );
    std::fs::create_dir_all(world.home.join(".claude")).unwrap();
    let settings = json!({"disabledMcpjsonServers": ["refused"]});
    std::fs::write(world.home.join(".claude/settings.json"), settings.to_string()).unwrap();
    let model = Script::new().say("1").then().say("2").then().say("3").serve().await.unwrap();
    let names = |run: &gimlet_testkit::RunOutput| -> Vec<String> {
        let init = &run.expect_code(0).lines()[0];
        init["mcp_servers"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    let run = world.run(&model).arg("--trust").stream("go").finish().await;
    let mut found = names(&run);
    found.sort_unstable();
    assert_eq!(found, ["listed", "own", "shared"]);
    let started = |note: &str| !noted_pids(&world, note).is_empty();
    assert!(started("local") && !started("user") && !started("project"), "the nearest scope has the name");
    assert!(!started("off") && !started("r"));
    let run = world.run(&model).args(["--trust", "--setting-sources", "user"]).stream("go").finish().await;
    let mut found = names(&run);
    found.sort_unstable();
    assert_eq!(found, ["own", "shared"]);
    assert!(started("user"));
    let only = config(json!({"alone": entry("alone")}));
    let run = world.run(&model).args(["--strict-mcp-config", "--mcp-config", &only]).stream("go").finish().await;
    assert_eq!(names(&run), ["alone"]);
}

#[tokio::test]
async fn a_bad_entry_is_named_and_the_others_are_used() {
    let world = stub_world();
    let servers = config(json!({
        "bad": {"command": 7}, "odd": {"type": "pigeon"}, "unset": {"command": "${NO_SUCH_PROGRAM}"},
        "good": stub_entry(&world, "good", "note"),
    }));
    world.file("servers.json", servers);
    let model = Script::new().say("done").serve().await.unwrap();
    let run = world.run(&model).args(["--mcp-config", "servers.json"]).print_text("go").finish().await;
    run.expect_code(0);
    for words in [
        "'bad' has a command that is no text",
        "'odd' has the type 'pigeon'",
        "NO_SUCH_PROGRAM",
        "'unset' is not connected",
    ] {
        assert!(run.stderr.contains(words), "{words}: {}", run.stderr);
    }
    assert!(model.request(0).body_text().contains("mcp__good__echo"));
    let run = world.run(&model).args(["--mcp-config", "{not json"]).print_text("go").finish().await;
    run.expect_code(1);
    assert!(run.stderr.contains("--mcp-config"), "{}", run.stderr);
}

#[tokio::test]
async fn a_tool_answers_permission_questions_of_print_mode() {
    let world = stub_world();
    let script = Script::new()
        .call("Write", json!({"file_path": world.path("made"), "content": "x"}))
        .call("Write", json!({"file_path": world.path("forbidden"), "content": "x"}))
        .then()
        .say("done");
    let model = script.serve().await.unwrap();
    let servers = config(json!({"stub": stub_entry(&world, "good", "note")}));
    let args = ["--mcp-config", &servers, "--permission-prompt-tool", "mcp__stub__decide"];
    let run = world.run(&model).args(args).print_text("go").finish().await;
    run.expect_code(0);
    assert!(world.project.join("made").exists() && !world.project.join("forbidden").exists(), "{}", run.stderr);
    assert!(model.request(1).tool_results()[1].contains("the stub forbids it"));
}
